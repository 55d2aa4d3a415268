//! Tests of the kernels for matrix products with weights of 8 bits.

use std::ptr::null_mut;

use crate::gemm::{Gemm, UNTOUCHED, compare_chain, compare_results};
use crate::kernels::{Type, module, run};
use crate::{libraries, noise};

/// The weights in memory, `[outputs / 16][inputs / 32][16][32]` bytes and the outputs' scales, and their values.
pub(crate) fn rounded(outputs: usize, inputs: usize, seed: u32) -> (Vec<u8>, Vec<f64>) {
    let (rows, row) = (outputs.next_multiple_of(16), inputs.next_multiple_of(32));
    // What lies beyond the outputs and the inputs must not be used.
    let mut memory = vec![255; rows * row];
    let scale = |output: usize| (2.0 + (output % 7) as f32) * 0.01 / (inputs as f32).sqrt();
    let numbers = noise(seed, outputs * inputs);
    let mut values = Vec::with_capacity(outputs * inputs);
    for (index, number) in numbers.iter().enumerate() {
        let (output, input) = (index / inputs, index % inputs);
        let multiple = (number * 50.0).round().clamp(-128.0, 127.0);
        let piece = output / 16 * (row / 32) + input / 32;
        memory[(piece * 16 + output % 16) * 32 + input % 32] = (multiple + 128.0) as u8;
        values.push(f64::from(multiple) * f64::from(scale(output)));
    }
    memory.extend((0..outputs.next_multiple_of(8)).flat_map(|output| scale(output).to_le_bytes()));
    (memory, values)
}

const MISH: i32 = 6;

/// Computes a product whose rows have gaps between them, with bias, mish and a residual, in parts of the summed axis.
fn check(kind: Type, ((tile_rows, tile_columns), threads): ((usize, usize), u32), sizes: [usize; 4]) {
    let (lib, _turn) = libraries();
    let module = module(lib);
    let [rows, outputs, inputs, splits] = sizes;
    let (x_stride, output_stride) = (inputs + 8, outputs + 16);
    let (x, a) = kind.upload(lib, &noise(91, rows * x_stride));
    let (bytes, weights) = rounded(outputs, inputs, 92);
    let (bias, bias_values) = kind.upload(lib, &noise(93, outputs));
    let (residual, added) = kind.upload(lib, &noise(94, rows * output_stride));
    let output = lib.upload(&vec![UNTOUCHED; rows * output_stride * kind.bytes()]);
    let is_split = splits > 1;
    let arguments = Gemm {
        bias,
        residual,
        partial: if is_split { lib.empty(splits * rows * outputs.next_multiple_of(8)) } else { null_mut() },
        x_stride: x_stride as i32,
        weights_stride: inputs.next_multiple_of(32) as i32,
        output_stride: output_stride as i32,
        splits: splits as i32,
        activation: MISH,
        is_preshuffled: 1,
        ..Gemm::dense((x, lib.upload(&bytes), output), [rows, outputs, inputs])
    };
    let kernel = format!("gemm_byte_weights_{}_{tile_rows}x{tile_columns}_{threads}", kind.name());
    let tiles = (rows.div_ceil(tile_rows) * outputs.div_ceil(tile_columns)) as u32;
    run(lib, module, &kernel, (tiles, splits as u32), threads, arguments);
    if is_split {
        let blocks = (rows * outputs.div_ceil(8)).div_ceil(256) as u32;
        run(lib, module, &format!("gemm_sum_{}", kind.name()), (blocks, 1), 256, arguments);
    }
    let found = kind.download(lib, output, rows * output_stride);
    let what = format!("{kernel} {sizes:?}");
    compare_results(&what, kind, &found, (outputs, output_stride), 2.0, |index, row, column| {
        let w = &weights[column * inputs..][..inputs];
        let sum: f64 =
            a[row * x_stride..].iter().zip(w).map(|(x, w)| x * w).sum::<f64>() + bias_values[column];
        sum * sum.exp().ln_1p().tanh() + added[index]
    });
}

#[test]
fn products_with_weights_of_8_bits_are_right_and_nothing_else_is_written() {
    for kind in [Type::F16, Type::Bf16] {
        for tile in [((64, 64), 128), ((64, 32), 128), ((32, 64), 128)] {
            let (rows, columns) = tile.0;
            // One position's row, and then more than a tile; less than a vector of outputs, and less than a piece.
            check(kind, tile, [1, 21, 40, 1]);
            check(kind, tile, [rows + 3, columns + 11, 8, 1]);
            check(kind, tile, [8, columns + 13, 136, 3]);
        }
    }
}

#[test]
fn a_chain_with_weights_of_8_bits_computes_what_single_kernels_compute() {
    for kind in [Type::F16, Type::Bf16] {
        compare_chain(kind, (64, 32, 128), (64, 40, 2), true);
        compare_chain(kind, (64, 32, 128), (4, 1032, 3), true);
    }
}
