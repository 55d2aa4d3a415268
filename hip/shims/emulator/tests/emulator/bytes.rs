//! Tests of the kernels for products of 8-bit integers, and of numbers in e4m3.

use crate::gemm::{Gemm, UNTOUCHED, compare_results};
use crate::kernels::{Type, module, run};
use crate::{Libraries, largest_fp8, libraries, noise};

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

/// The number with a code in e4m3, whose largest number is `largest`. NaNs have the value of a number that does not exist.
fn fp8_value(code: u8, largest: f64) -> f64 {
    let bias = if largest == 240.0 { 8 } else { 7 };
    let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7) / 8.0);
    let magnitude = match exponent {
        0 => mantissa * 2f64.powi(1 - bias),
        _ => (1.0 + mantissa) * 2f64.powi(exponent - bias),
    };
    if code < 0x80 { magnitude } else { -magnitude }
}

/// Codes in e4m3 of all kinds but NaNs, and their values.
pub(crate) fn codes(lib: &Libraries, seed: u32, count: usize, largest: f64) -> (*mut u8, Vec<f64>) {
    let code = |number: f32| match (number * 127.9).floor() as i8 as u8 {
        0x7f | 0x80 | 0xff => 0x38,
        code => code,
    };
    let codes: Vec<u8> = noise(seed, count).into_iter().map(code).collect();
    (lib.upload(&codes), codes.iter().map(|&code| fp8_value(code, largest)).collect())
}

/// Rounds rows to e4m3. The error of a number is at most half a step of its size, or of the least size.
fn check_rounding_to_fp8(rows: usize, width: usize, largest: f64) {
    let (lib, _turn) = libraries();
    let mut values = noise(63, rows * width);
    for (row, numbers) in values.chunks_mut(width).enumerate() {
        match row {
            0 => numbers.fill(0.0),
            // Some are far below the row's largest.
            1 => numbers.iter_mut().enumerate().for_each(|(k, x)| *x *= 2f32.powi(-(k as i32 % 16))),
            _ => numbers.iter_mut().for_each(|number| *number *= row as f32),
        }
    }
    let (x, values) = Type::F16.upload(lib, &values);
    let rounded = lib.upload(&vec![0x5a; rows * width]);
    let row_scales = lib.empty::<f32>(rows).cast::<u8>();
    let arguments = Quantise {
        x,
        factors: std::ptr::null(),
        bytes: rounded,
        row_scales,
        rows: rows as i32,
        width: width as i32,
    };
    run(lib, module(lib), "quantise_fp8_f16", (rows.div_ceil(8) as u32, 1), 256, arguments);
    let found = lib.download(rounded, rows * width);
    let scales = Type::F32.download(lib, row_scales, rows);
    for (row, scale) in scales.into_iter().enumerate() {
        let expected = &values[row * width..][..width];
        let most = expected.iter().fold(0.0, |most: f64, number| most.max(number.abs()));
        assert!(
            (scale * largest - most).abs() <= 1e-6 * most,
            "row {row}: {scale}, but {most} is the largest"
        );
        let numbers: Vec<f64> =
            found[row * width..][..width].iter().map(|&code| fp8_value(code, largest)).collect();
        assert!(most == 0.0 || numbers.iter().any(|number| number.abs() == largest), "row {row}");
        let least_step = if largest == 240.0 { 2f64.powi(-10) } else { 2f64.powi(-9) };
        for (column, (number, expected)) in numbers.iter().zip(expected).enumerate() {
            let size = (expected.abs() / scale.max(1e-30)).max(8.0 * least_step);
            let allowed = scale * 2f64.powi(size.log2().floor() as i32 - 4) * 1.001;
            let error = (number * scale - expected).abs();
            assert!(error <= allowed, "({row}, {column}): {}, not {expected}", number * scale);
        }
    }
}

#[test]
fn rows_are_rounded_to_e4m3() {
    let Some(largest) = largest_fp8() else { return };
    check_rounding_to_fp8(11, 144, largest);
    check_rounding_to_fp8(8, 1040, largest);
}

#[test]
fn products_of_e4m3_are_right_and_nothing_else_is_written() {
    if largest_fp8().is_none() {
        return;
    }
    for tile in [(128, 128, 256), (64, 64, 128)] {
        check_product(tile, [tile.0 + 3, tile.1 + 12, 144], MISH, largest_fp8());
        check_product(tile, [tile.0 - 5, tile.1 + 16, 192], 0, largest_fp8());
    }
}

/// Computes a product, with bias, activation and residual or with nothing, whose rows of results have gaps. The factors
/// are integers, or with `largest` numbers in e4m3.
fn check_product(
    (tile_rows, tile_columns, threads): (usize, usize, u32),
    [rows, outputs, inputs]: [usize; 3],
    activation: i32,
    largest: Option<f64>,
) {
    let (lib, _turn) = libraries();
    let (x_stride, output_stride) = (inputs + 16, outputs + 8);
    let factors = |seed: u32, count: usize| match largest {
        None => bytes(lib, seed, count),
        Some(largest) => codes(lib, seed, count, largest),
    };
    let (x, a) = factors(71, rows * x_stride);
    let (weights, b) = factors(72, outputs * inputs);
    // Integers have two numbers for each row and output, and e4m3 has one.
    let each = if largest.is_none() { 2 } else { 1 };
    let (row_scales, of_rows) = Type::F32.upload(lib, &noise(73, each * rows));
    let width = outputs.next_multiple_of(8);
    let per_weight = 2e-4 / (inputs as f32).sqrt();
    let scales: Vec<f32> = noise(74, each * width).iter().map(|number| number * per_weight).collect();
    let (output_scales, of_outputs) = Type::F32.upload(lib, &scales);
    let (bias, biases) = Type::F16.upload(lib, &noise(75, outputs));
    let (residual, added) = Type::F16.upload(lib, &noise(76, rows * output_stride));
    let output = lib.upload(&vec![UNTOUCHED; 2 * rows * output_stride]);
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
    let family = if largest.is_none() { "gemm_bytes" } else { "gemm_fp8" };
    let kernel = format!("{family}_f16_{tile_rows}x{tile_columns}_{threads}");
    run(lib, module(lib), &kernel, (tiles, 1), threads, arguments);
    let found = Type::F16.download(lib, output, rows * output_stride);
    let what = format!("{kernel} {rows} {outputs} {inputs}");
    compare_results(&what, Type::F16, &found, (outputs, output_stride), 1.0, |index, row, column| {
        let w = &b[column * inputs..][..inputs];
        let dot: f64 = a[row * x_stride..].iter().zip(w).map(|(x, w)| x * w).sum();
        let zero = if each == 2 { of_rows[2 * row + 1] * of_outputs[width + column] } else { 0.0 };
        let product = of_rows[each * row] * of_outputs[column] * dot + zero;
        let sum = product + biases[column];
        if has_epilogue { sum * sum.exp().ln_1p().tanh() + added[index] } else { product }
    });
}

#[test]
fn products_of_bytes_are_right_and_nothing_else_is_written() {
    for tile in [(128, 128, 256), (64, 64, 128)] {
        // The last step has 16 bytes of 64; the last run of outputs has four.
        check_product(tile, [tile.0 + 3, tile.1 + 12, 144], MISH, None);
        check_product(tile, [tile.0 - 5, tile.1 + 16, 192], 0, None);
    }
}
