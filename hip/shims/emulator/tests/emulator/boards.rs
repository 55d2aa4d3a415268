//! Tests of the kernels that work on whole boards: input planes, the two transforms of a convolution, and
//! squeeze-and-excitation.

use crate::gemm::Gemm;
use crate::kernels::{TYPES, Type, module, run, sigmoid};
use crate::{libraries, noise};

/// `PlanesArguments` of kernels.h.
#[repr(C)]
struct Planes {
    masks: *const u64,
    values: *const f32,
    table: *const u8,
    output: *mut u8,
    mask_stride: i32,
    planes: i32,
    extra: i32,
    valued_plane: i32,
}

#[test]
fn planes_are_the_bits_of_their_boards() {
    let (lib, _turn) = libraries();
    let module = module(lib);
    let positions = 3usize;
    let masks: Vec<u64> =
        (0..positions as u64 * 112).map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let values = [0.25_f32, 0.5, 99.0];
    for kind in TYPES {
        for (planes, extra, valued) in [(112usize, 0usize, 109), (112, 64, 109), (12, 0, -1), (112, 3, -1)] {
            let (table, t) = kind.upload(lib, &noise(61, 64 * extra.max(1)));
            let width = planes + extra;
            let output = lib.empty::<u8>(positions * 64 * width * kind.bytes());
            let arguments = Planes {
                masks: lib.upload(&masks),
                values: lib.upload(&values),
                table: if extra == 0 { std::ptr::null() } else { table },
                output,
                mask_stride: 112,
                planes: planes as i32,
                extra: extra as i32,
                valued_plane: valued,
            };
            run(lib, module, &format!("planes_{}", kind.name()), (positions as u32, 1), 256, arguments);
            let found = kind.download(lib, output, positions * 64 * width);
            for (i, &result) in found.iter().enumerate() {
                let (position, square, plane) = (i / width / 64, i / width % 64, i % width);
                let expected = if plane >= planes {
                    t[square * extra + plane - planes]
                } else {
                    let bit = (masks[position * 112 + plane] >> square & 1) as f64;
                    bit * if plane as i32 == valued { f64::from(values[position]) } else { 1.0 }
                };
                assert!((result - expected).abs() == 0.0, "{} {i}: {result}, not {expected}", kind.name());
            }
        }
    }
}

/// `WinogradArguments` of kernels.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Winograd {
    input: *const u8,
    output: *mut u8,
    bias: *const u8,
    residual: *const u8,
    means: *mut f32,
    component_stride: i64,
    channels: i32,
    activation: i32,
}

/// `ConvolutionArguments` of kernels.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Convolution {
    input: Winograd,
    product: Gemm,
    output: Winograd,
    counters: *mut u32,
    positions: i32,
    blocks: i32,
}

/// One launch computes what the two transforms and the products between them compute in three, to the last bit.
#[test]
fn a_convolution_in_one_launch_is_that_in_three() {
    let (lib, _turn) = libraries();
    let module = module(lib);
    for kind in TYPES {
        let components = if kind == Type::F32 { Type::F32 } else { Type::F16 };
        for (positions, inputs, outputs, columns) in [(17, 72, 40, 64), (5, 16, 136, 64), (33, 8, 40, 32)] {
            if kind == Type::F32 && columns < 64 {
                continue;
            }
            let (x, _) = kind.upload(lib, &noise(81, positions * 64 * inputs));
            let (bias, _) = kind.upload(lib, &noise(82, outputs));
            let (residual, _) = kind.upload(lib, &noise(83, positions * 64 * outputs));
            let scaled: Vec<f32> = noise(84, 36 * outputs * inputs).iter().map(|w| w * 0.1).collect();
            let (weights, _) = components.upload(lib, &scaled);
            let rows = 4 * positions;
            let (v_stride, m_stride) = (rows * inputs, rows * outputs);
            let compute = |is_whole: bool| {
                let y = lib.empty::<u8>(positions * 64 * outputs * kind.bytes());
                let means = lib.empty::<f32>(positions * outputs);
                let input = Winograd {
                    input: x,
                    output: lib.empty::<u8>(36 * v_stride * components.bytes()),
                    bias: std::ptr::null(),
                    residual: std::ptr::null(),
                    means: std::ptr::null_mut(),
                    component_stride: v_stride as i64,
                    channels: inputs as i32,
                    activation: 0,
                };
                let sums = lib.empty::<u8>(36 * m_stride * components.bytes());
                let output = Winograd {
                    input: sums,
                    output: y,
                    bias,
                    residual,
                    means,
                    component_stride: m_stride as i64,
                    channels: outputs as i32,
                    activation: 1,
                };
                let product = Gemm {
                    x_batch: v_stride as i64,
                    weights_batch: (outputs * inputs) as i64,
                    output_batch: m_stride as i64,
                    products: 36,
                    ..Gemm::dense((input.output, weights, sums), [rows, outputs, inputs])
                };
                let transform = |channels: usize| (channels.div_ceil(64) as u32, positions as u32);
                let tiles = rows.div_ceil(64) * outputs.div_ceil(columns);
                let name = kind.name();
                if is_whole {
                    let blocks = positions * (inputs.div_ceil(64) + outputs.div_ceil(64)) + 36 * tiles;
                    let groups = rows.div_ceil(64);
                    let counters = lib.upload(&vec![0_u32; 1 + groups]);
                    let arguments = Convolution {
                        input,
                        product,
                        output,
                        counters,
                        positions: positions as i32,
                        blocks: blocks as i32,
                    };
                    let kernel = format!("convolution_{name}_64x{columns}");
                    run(lib, module, &kernel, (blocks as u32, 1), 128, arguments);
                    assert!(lib.download(counters, 1 + groups).iter().all(|&count| count == 0));
                } else {
                    run(lib, module, &format!("winograd_input_{name}"), transform(inputs), 128, input);
                    let kernel = format!("gemm_{}_64x{columns}_128", components.name());
                    run(lib, module, &kernel, (tiles as u32, 36), 128, product);
                    run(lib, module, &format!("winograd_output_{name}"), transform(outputs), 128, output);
                }
                (kind.download(lib, y, positions * 64 * outputs), lib.download(means, positions * outputs))
            };
            let (expected, found) = (compute(false), compute(true));
            assert!(expected.0.iter().all(|value| value.is_finite()));
            assert!(expected == found, "{} {positions} x {inputs} x {outputs}", kind.name());
        }
    }
}

/// An entry of the matrix G (6 x 3) of F(4x4, 3x3) for these points and infinity: a power of the point divided by the
/// product of its differences to the other points.
fn kernel_matrix(component: usize, power: usize) -> f64 {
    const POINTS: [f64; 5] = [0.0, 0.625, -0.625, 1.5, -1.5];
    if component == 5 {
        return if power == 2 { 1.0 } else { 0.0 };
    }
    let others = (0..5).filter(|&other| other != component);
    POINTS[component].powi(power as i32)
        / others.map(|other| POINTS[component] - POINTS[other]).product::<f64>()
}

#[test]
fn winograd_transforms_and_plain_products_compute_a_convolution() {
    let (lib, _turn) = libraries();
    let module = module(lib);
    for kind in TYPES {
        let components = if kind == Type::F32 { Type::F32 } else { Type::F16 };
        for (positions, inputs, outputs, with_residual) in
            [(1usize, 8usize, 16usize, false), (2, 72, 24, true), (3, 136, 8, false)]
        {
            let (x, x_values) = kind.upload(lib, &noise(81, positions * 64 * inputs));
            let (bias, bias_values) = kind.upload(lib, &noise(82, outputs));
            let (residual, residual_values) = kind.upload(lib, &noise(83, positions * 64 * outputs));
            let scale = 1.0 / (9.0 * inputs as f32).sqrt();
            let weights: Vec<f64> =
                noise(84, outputs * inputs * 9).iter().map(|v| f64::from(v * scale)).collect();
            // There are gaps between the components. The kernels must not write there.
            let (v_stride, m_stride) = (4 * positions * inputs + 8, 4 * positions * outputs + 8);
            let v = lib.empty::<u8>(36 * v_stride * components.bytes());
            let grid = |channels: usize| (channels.div_ceil(64) as u32, positions as u32);
            let input = Winograd {
                input: x,
                output: v,
                bias: std::ptr::null(),
                residual: std::ptr::null(),
                means: std::ptr::null_mut(),
                component_stride: v_stride as i64,
                channels: inputs as i32,
                activation: 0,
            };
            run(lib, module, &format!("winograd_input_{}", kind.name()), grid(inputs), 128, input);
            let v = components.download(lib, v, 36 * v_stride);
            assert!(v.chunks(v_stride).all(|part| part[v_stride - 8..].iter().all(|value| value.is_nan())));

            let mut products = vec![0.0_f32; 36 * m_stride];
            for component in 0..36 {
                for output in 0..outputs {
                    let row: Vec<f64> = (0..inputs)
                        .map(|input| {
                            let of_tap = |tap: usize| {
                                let weight = weights[(output * inputs + input) * 9 + tap];
                                kernel_matrix(component / 6, tap / 3)
                                    * weight
                                    * kernel_matrix(component % 6, tap % 3)
                            };
                            (0..9).map(of_tap).sum()
                        })
                        .collect();
                    for tile in 0..4 * positions {
                        let column = &v[component * v_stride + tile * inputs..][..inputs];
                        let sum: f64 = row.iter().zip(column).map(|(a, b)| a * b).sum();
                        products[component * m_stride + tile * outputs + output] = sum as f32;
                    }
                }
            }
            let (m, _) = components.upload(lib, &products);
            let y = lib.empty::<u8>(positions * 64 * outputs * kind.bytes());
            let means = lib.empty::<f32>(positions * outputs);
            let output = Winograd {
                input: m,
                output: y,
                bias,
                residual: if with_residual { residual } else { std::ptr::null() },
                means: if with_residual { std::ptr::null_mut() } else { means },
                component_stride: m_stride as i64,
                channels: outputs as i32,
                activation: i32::from(with_residual),
            };
            run(lib, module, &format!("winograd_output_{}", kind.name()), grid(outputs), 128, output);
            let y = kind.download(lib, y, positions * 64 * outputs);
            let limit = [2e-5, 1.5e-2, 3e-2][kind as usize];
            let mut means_expected = vec![0.0_f64; positions * outputs];
            for (place, &result) in y.iter().enumerate() {
                let (position, square, output) =
                    (place / outputs / 64, place / outputs % 64, place % outputs);
                let mut sum = bias_values[output];
                for tap in 0..9 {
                    let (rank, file) = (square / 8 + tap / 3, square % 8 + tap % 3);
                    if !(1..9).contains(&rank) || !(1..9).contains(&file) {
                        continue;
                    }
                    let from = &x_values[(position * 64 + 8 * (rank - 1) + file - 1) * inputs..][..inputs];
                    let of_input =
                        |(input, x): (usize, &f64)| x * weights[(output * inputs + input) * 9 + tap];
                    sum += from.iter().enumerate().map(of_input).sum::<f64>();
                }
                if with_residual {
                    sum = (sum + residual_values[place]).max(0.0);
                }
                means_expected[position * outputs + output] += sum / 64.0;
                assert!(
                    (result - sum).abs() <= limit * sum.abs().max(1.0),
                    "{} {place}: {result}, not {sum}",
                    kind.name()
                );
            }
            if !with_residual {
                for (result, expected) in lib.download(means, positions * outputs).iter().zip(means_expected)
                {
                    assert!(
                        (f64::from(*result) - expected).abs() <= limit,
                        "{}: {result}, not {expected}",
                        kind.name()
                    );
                }
            }
        }
    }
}

/// `SqueezeExciteArguments` of kernels.h.
#[repr(C)]
struct SqueezeExcite {
    branch: *const u8,
    residual: *const u8,
    output: *mut u8,
    means: *const f32,
    squeeze: *const u8,
    squeeze_bias: *const u8,
    excite: *const u8,
    excite_bias: *const u8,
    channels: i32,
    hidden: i32,
    activation: i32,
    reserved: i32,
}

#[test]
fn squeezing_and_exciting_scales_and_shifts_channels() {
    let (lib, _turn) = libraries();
    let module = module(lib);
    for kind in TYPES {
        for (positions, channels, hidden) in [(1usize, 16usize, 8usize), (3, 200, 24), (2, 1024, 72)] {
            let (branch, x) = kind.upload(lib, &noise(91, positions * 64 * channels));
            let (residual, r) = kind.upload(lib, &noise(92, positions * 64 * channels));
            let means = noise(93, positions * channels);
            let scaled = |seed, count: usize, inputs: usize| -> Vec<f32> {
                noise(seed, count).iter().map(|v| v * 2.0 / (inputs as f32).sqrt()).collect()
            };
            let (squeeze, s) = kind.upload(lib, &scaled(94, hidden * channels, channels));
            let (squeeze_bias, sb) = kind.upload(lib, &noise(95, hidden));
            let (excite, e) = kind.upload(lib, &scaled(96, hidden * 2 * channels, hidden));
            let (excite_bias, eb) = kind.upload(lib, &noise(97, 2 * channels));
            let output = lib.empty::<u8>(positions * 64 * channels * kind.bytes());
            let arguments = SqueezeExcite {
                branch,
                residual,
                output,
                means: lib.upload(&means),
                squeeze,
                squeeze_bias,
                excite,
                excite_bias,
                channels: channels as i32,
                hidden: hidden as i32,
                activation: 1,
                reserved: 0,
            };
            run(
                lib,
                module,
                &format!("squeeze_excite_{}", kind.name()),
                (positions as u32, 1),
                256,
                arguments,
            );
            let found = kind.download(lib, output, positions * 64 * channels);
            for position in 0..positions {
                let small: Vec<f64> = (0..hidden)
                    .map(|row| {
                        let of = |c: usize| s[row * channels + c] * f64::from(means[position * channels + c]);
                        ((0..channels).map(of).sum::<f64>() + sb[row]).max(0.0)
                    })
                    .collect();
                let factor = |c: usize| -> f64 {
                    small.iter().enumerate().map(|(row, h)| h * e[row * 2 * channels + c]).sum::<f64>()
                        + eb[c]
                };
                for c in 0..channels {
                    let (scale, shift) = (sigmoid(factor(c)), factor(channels + c));
                    for square in 0..64 {
                        let place = (position * 64 + square) * channels + c;
                        let expected = (scale * x[place] + shift + r[place]).max(0.0);
                        let result = found[place];
                        assert!(
                            (result - expected).abs() <= kind.tolerance(expected),
                            "{} {place}: {result}, not {expected}",
                            kind.name()
                        );
                    }
                }
            }
        }
    }
}
