//! Tests of the kernels for products of 8-bit integers.

use crate::gemm::Gemm;
use crate::kernels::{Type, module, run};
use crate::{Libraries, libraries, noise};

/// `QuantiseArguments` of kernels.h.
#[repr(C)]
struct Quantise {
    x: *const u8,
    factors: *const u8,
    bytes: *mut u8,
    row_scales: *mut u8,
    rows: i32,
    width: i32,
}

/// `GemmBytesArguments` of kernels.h.
#[repr(C)]
struct GemmBytes {
    product: Gemm,
    row_scales: *const u8,
    output_scales: *const u8,
}

const MISH: i32 = 6;

/// Rounds rows of `width` numbers, of which the first are negative and some all the same, and compares what their bytes
/// stand for.
fn check_rounding(rows: usize, width: usize, has_factors: bool) {
    let (lib, _turn) = libraries();
    let mut values = noise(61, rows * width);
    for (row, numbers) in values.chunks_mut(width).enumerate() {
        match row {
            0 => numbers.iter_mut().for_each(|number| *number = number.abs() - 2.0),
            1 => numbers.fill(0.375),
            _ => numbers.iter_mut().for_each(|number| *number *= row as f32),
        }
    }
    let (x, values) = Type::F16.upload(lib, &values);
    let factors: Vec<f32> = noise(62, width).iter().map(|number| 1.5 + number).collect();
    let bytes = lib.upload(&vec![0x5a; rows * width]);
    let row_scales = lib.empty::<f32>(2 * rows).cast::<u8>();
    let arguments = Quantise {
        x,
        factors: if has_factors { Type::F32.upload(lib, &factors).0 } else { std::ptr::null() },
        bytes,
        row_scales,
        rows: rows as i32,
        width: width as i32,
    };
    run(lib, module(lib), "quantise_f16", (rows.div_ceil(8) as u32, 1), 256, arguments);
    let bytes: Vec<i8> = lib.download(bytes, rows * width).into_iter().map(|byte| byte as i8).collect();
    let scales = Type::F32.download(lib, row_scales, 2 * rows);
    for row in 0..rows {
        let [scale, zero] = [scales[2 * row], scales[2 * row + 1]];
        let found = &bytes[row * width..][..width];
        for (column, &byte) in found.iter().enumerate() {
            let factor = if has_factors { f64::from(factors[column]) } else { 1.0 };
            let expected = values[row * width + column] * factor;
            let rounded = scale * f64::from(byte) + zero;
            let allowed = 0.501 * scale + 1e-6 * expected.abs().max(1.0);
            assert!((rounded - expected).abs() <= allowed, "({row}, {column}): {rounded}, not {expected}");
        }
        let is_even = row == 1 && !has_factors;
        let limits = (found.iter().min().copied(), found.iter().max().copied());
        assert_eq!(
            limits,
            if is_even { (Some(-128), Some(-128)) } else { (Some(-128), Some(127)) },
            "row {row}"
        );
    }
}

#[test]
fn rows_are_rounded_to_all_256_bytes() {
    check_rounding(11, 144, true);
    check_rounding(8, 1040, false);
}

/// Bytes of all values.
fn bytes(lib: &Libraries, seed: u32, count: usize) -> (*mut u8, Vec<f64>) {
    let numbers: Vec<u8> =
        noise(seed, count).iter().map(|number| (number * 127.9).floor() as i8 as u8).collect();
    (lib.upload(&numbers), numbers.iter().map(|&byte| f64::from(byte as i8)).collect())
}

/// Computes a product, with bias, activation and residual or with nothing, whose rows of results have gaps.
fn check_product(
    (tile_rows, tile_columns, threads): (usize, usize, u32),
    [rows, outputs, inputs]: [usize; 3],
    activation: i32,
) {
    let (lib, _turn) = libraries();
    let (x_stride, output_stride) = (inputs + 16, outputs + 8);
    let (x, a) = bytes(lib, 71, rows * x_stride);
    let (weights, b) = bytes(lib, 72, outputs * inputs);
    let (row_scales, of_rows) = Type::F32.upload(lib, &noise(73, 2 * rows));
    let width = outputs.next_multiple_of(8);
    let per_weight = 2e-4 / (inputs as f32).sqrt();
    let scales: Vec<f32> = noise(74, 2 * width).iter().map(|number| number * per_weight).collect();
    let (output_scales, of_outputs) = Type::F32.upload(lib, &scales);
    let (bias, biases) = Type::F16.upload(lib, &noise(75, outputs));
    let (residual, added) = Type::F16.upload(lib, &noise(76, rows * output_stride));
    let output = lib.upload(&vec![0x5a; 2 * rows * output_stride]);
    let has_epilogue = activation != 0;
    let null = std::ptr::null();
    let arguments = GemmBytes {
        product: Gemm {
            bias: if has_epilogue { bias } else { null },
            residual: if has_epilogue { residual } else { null },
            x_stride: x_stride as i32,
            output_stride: output_stride as i32,
            activation,
            ..Gemm::dense((x, weights, output), [rows, outputs, inputs])
        },
        row_scales,
        output_scales,
    };
    let tiles = (rows.div_ceil(tile_rows) * outputs.div_ceil(tile_columns)) as u32;
    let kernel = format!("gemm_bytes_f16_{tile_rows}x{tile_columns}_{threads}");
    run(lib, module(lib), &kernel, (tiles, 1), threads, arguments);
    let found = Type::F16.download(lib, output, rows * output_stride);
    let gap = Type::F16.load(&[0x5a; 2]);
    for (index, &result) in found.iter().enumerate() {
        let (row, column) = (index / output_stride, index % output_stride);
        if column >= outputs {
            assert!(result == gap, "{kernel} writes into the gap of row {row}");
            continue;
        }
        let w = &b[column * inputs..][..inputs];
        let dot: f64 = a[row * x_stride..].iter().zip(w).map(|(x, w)| x * w).sum();
        let product =
            of_rows[2 * row] * of_outputs[column] * dot + of_rows[2 * row + 1] * of_outputs[width + column];
        let sum = product + biases[column];
        let expected = if has_epilogue { sum * sum.exp().ln_1p().tanh() + added[index] } else { product };
        assert!(
            (result - expected).abs() <= Type::F16.tolerance(expected),
            "{kernel} {rows} {outputs} {inputs} ({row}, {column}): {result}, not {expected}"
        );
    }
}

#[test]
fn products_of_bytes_are_right_and_nothing_else_is_written() {
    for tile in [(128, 128, 256), (64, 64, 128)] {
        // The last step has 16 bytes of 64; the last run of outputs has four.
        check_product(tile, [tile.0 + 3, tile.1 + 12, 144], MISH);
        check_product(tile, [tile.0 - 5, tile.1 + 16, 192], 0);
    }
}
