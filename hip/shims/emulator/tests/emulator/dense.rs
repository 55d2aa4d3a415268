//! Tests of the kernels for matrix products of few rows.

use std::ffi::CString;

use crate::kernels::{Type, module, run};
use crate::{libraries, noise};

/// `DenseArguments` of kernels.h.
#[repr(C)]
struct Dense {
    input: *const u8,
    weights: *const u8,
    output: *mut u8,
    bias: *const u8,
    gammas: *const u8,
    betas: *const u8,
    rows: i32,
    inputs: i32,
    outputs: i32,
    activation: i32,
    epsilon: f32,
    reserved: i32,
}

#[test]
fn dense_kernels_multiply_few_rows_with_and_without_a_layer_norm() {
    let (lib, _turn) = libraries();
    let module = module(lib);
    for name in ["dense", "norm_dense"] {
        for kind in [Type::F16, Type::Bf16] {
            let name_of_type = format!("{name}_{}", kind.name());
            let (mut function, text) = (std::ptr::null_mut(), CString::new(name_of_type.as_str()).unwrap());
            // SAFETY: the name ends with zero.
            if unsafe { (lib.hip.hipModuleGetFunction)(&mut function, module, text.as_ptr()) } != 0 {
                println!("skipped: this build has no {name_of_type}");
                continue;
            }
            for (rows, inputs, outputs) in
                [(1usize, 32usize, 16usize), (5, 256, 48), (16, 512, 256), (37, 96, 32)]
            {
                let (input, x) = kind.upload(lib, &noise(71, rows * inputs));
                let scaled: Vec<f32> =
                    noise(72, outputs * inputs).iter().map(|v| v * 2.0 / (inputs as f32).sqrt()).collect();
                let (weights, w) = kind.upload(lib, &scaled);
                let [(bias, b), (gammas, g), (betas, e)] =
                    [73, 74, 75].map(|seed| kind.upload(lib, &noise(seed, inputs)));
                let output = lib.empty::<u8>(rows * outputs * kind.bytes());
                let arguments = Dense {
                    input,
                    weights,
                    output,
                    bias,
                    gammas,
                    betas,
                    rows: rows as i32,
                    inputs: inputs as i32,
                    outputs: outputs as i32,
                    activation: 1,
                    epsilon: 1e-3,
                    reserved: 0,
                };
                let grid = ((outputs / 16) as u32, rows.div_ceil(16) as u32);
                run(lib, module, &name_of_type, grid, 256, arguments);
                let found = kind.download(lib, output, rows * outputs);
                for row in 0..rows {
                    let mut row_of_x = x[row * inputs..][..inputs].to_vec();
                    if name == "norm_dense" {
                        row_of_x.iter_mut().zip(&b).for_each(|(x, b)| *x = (*x + b).max(0.0));
                        let mean = row_of_x.iter().sum::<f64>() / inputs as f64;
                        let variance =
                            row_of_x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / inputs as f64;
                        for (i, x) in row_of_x.iter_mut().enumerate() {
                            *x = (*x - mean) / (variance + 1e-3).sqrt() * g[i] + e[i];
                        }
                    }
                    for o in 0..outputs {
                        let expected: f64 = row_of_x.iter().zip(&w[o * inputs..]).map(|(x, w)| x * w).sum();
                        let result = found[row * outputs + o];
                        assert!(
                            (result - expected).abs() <= 2.0 * kind.tolerance(expected),
                            "{name_of_type} ({row}, {o}) of {inputs}: {result}, not {expected}"
                        );
                    }
                }
            }
        }
    }
}
