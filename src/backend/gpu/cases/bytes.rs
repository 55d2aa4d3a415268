//! The rounding of rows to 8 bits, integers or e4m3, and GEMMs of such rows. They work on fp16.

use super::arena::{Expected, Place, allowed};
use super::case::{Case, Launch, Residual, cost, some};
use super::reference::gemms::{Epilogue, dot};
use crate::gemm::own::{TileSize, tile_sizes};
use crate::runtime::activations::{MISH, NONE, TANH};
use crate::runtime::ffi::arguments::{GemmArguments, GemmBytesArguments, QuantiseArguments};
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::Address;
use crate::runtime::fp8::Fp8Format;
use crate::runtime::kernels::grid;
use crate::runtime::numbers::noise;

/// A GEMM of bytes, and its epilogue.
#[derive(Clone, Copy)]
struct Shape {
    rows: usize,
    outputs: usize,
    inputs: usize,
    /// The bytes between two rows of the input, which are elements between two rows of the output.
    gap: usize,
    /// The bytes between two rows of the weights.
    weights_gap: usize,
    has_bias: bool,
    activation: i32,
    residual: Residual,
}

const PLAIN: Shape = Shape {
    rows: 1,
    outputs: 8,
    inputs: 16,
    gap: 0,
    weights_gap: 0,
    has_bias: true,
    activation: MISH,
    residual: Residual::None,
};

impl Shape {
    fn text(&self) -> String {
        let Shape { rows, outputs, inputs, gap, has_bias, activation, residual, .. } = *self;
        let bias = if has_bias { "" } else { ", no bias" };
        let residual = match residual {
            Residual::None => "",
            Residual::Apart => ", residual",
            Residual::InPlace => ", residual in place",
        };
        format!(
            "{rows} rows, {inputs} inputs, {outputs} outputs, function {activation}, gaps of {gap}{bias}{residual}"
        )
    }
}

/// The factors of a GEMM.
#[derive(Clone, Copy)]
enum Factors {
    Integers,
    Floats(Fp8Format),
}

/// The variants of e4m3. A card multiplies at most one of them.
const FORMATS: [Fp8Format; 2] = [Fp8Format::Ocp, Fp8Format::Fnuz];

/// The cases for fp16.
pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    if element != ElementType::Fp16 {
        return Vec::new();
    }
    let rows = some(vec![(13, 144), (8, 1040), (1, 32)], is_quick, 1);
    let mut cases: Vec<Case> = rows.into_iter().map(|(rows, width)| quantise_case(rows, width)).collect();
    if !is_quick {
        cases.extend([(11, 144, true), (8, 1040, false), (3, 32, false)].map(ordinary_rows_case));
    }
    for (number, size) in tile_sizes().into_iter().enumerate() {
        let TileSize { rows, columns, .. } = size;
        let plain = Shape { rows: 37, outputs: 72, inputs: 112, ..PLAIN };
        let edge = Shape { gap: 16, weights_gap: 32, residual: Residual::Apart, ..plain };
        let shapes = vec![
            plain,
            Shape { rows: 133, outputs: 140, inputs: 96, ..plain },
            Shape { rows: 256, outputs: 256, inputs: 512, ..plain },
            // Whole tiles and steps, without an epilogue and with the short one.
            Shape { rows, outputs: columns, inputs: 128, has_bias: false, activation: NONE, ..plain },
            Shape { rows: rows + 3, outputs: columns - 24, inputs: 80, activation: NONE, ..edge },
            // The last step has 16 bytes of 64; the last run of outputs has four, or three.
            Shape { rows: rows + 3, outputs: columns + 12, inputs: 144, ..edge },
            Shape {
                rows: 9,
                outputs: columns + 11,
                inputs: 192,
                activation: 1 + number as i32 % 7,
                residual: Residual::InPlace,
                ..edge
            },
            // As many inputs as the widest layers have.
            Shape { rows: 3, outputs: 16, inputs: 4096, activation: TANH, ..plain },
        ];
        for shape in some(shapes, is_quick, 1) {
            cases.push(gemm_case(size, shape, Factors::Integers));
            cases.extend(FORMATS.map(|format| gemm_case(size, shape, Factors::Floats(format))));
        }
    }
    let rows = some(vec![(13, 144), (8, 1040), (1, 32)], is_quick, 1);
    for format in FORMATS {
        cases.extend(rows.iter().map(|&(rows, width)| quantise_fp8_case(rows, width, format)));
        if !is_quick {
            let ordinary = [(11, 144, false), (8, 1040, false), (3, 32, true)];
            cases.extend(ordinary.map(|shape| ordinary_rows_fp8_case(shape, format)));
        }
    }
    cases
}

/// The byte at a place of a row. Both limits are in each row.
fn byte_at(index: usize, width: usize) -> i8 {
    match index % width {
        0 => -128,
        2 => 127,
        place => ((index * 37 + place * 11) % 256) as u8 as i8,
    }
}

/// Rounds rows of multiples of 1/64 times the factors' inverses, so that the bytes are exact.
fn quantise_case(rows: usize, width: usize) -> Case {
    let element = ElementType::Fp16;
    let shape = format!("{rows} rows, {width} inputs");
    Case::new(("quantise", element, ""), shape, cost(0, rows * width), move |arena| {
        let bytes: Vec<i8> = (0..rows * width).map(|index| byte_at(index, width)).collect();
        let factor = |column: usize| if column.is_multiple_of(3) { 2.0 } else { 1.0 };
        let zero = |row: usize| row as f32 / 4.0 - 1.0;
        let number = |(index, byte): (usize, &i8)| {
            (f32::from(*byte) / 64.0 + zero(index / width)) / factor(index % width)
        };
        let values: Vec<f32> = bytes.iter().enumerate().map(number).collect();
        let factors: Vec<f32> = (0..width).map(factor).collect();
        let (x, _) = arena.numbers(element, &values);
        let (factors, _) = arena.numbers(ElementType::Fp32, &factors);
        let rounded = arena.room(ElementType::Int8, rows * width);
        let scales = arena.room(ElementType::Fp32, 2 * rows);
        let arguments = QuantiseArguments {
            x: x.address,
            factors: factors.address,
            bytes: rounded.address,
            row_scales: scales.address,
            rows: rows as i32,
            width: width as i32,
        };
        let exact = bytes.iter().map(|&byte| f64::from(byte)).collect();
        let of_rows = (0..rows).flat_map(|row| [1.0 / 64.0, f64::from(zero(row))]).collect();
        let fp32 = ElementType::Fp32;
        let expected = vec![
            Expected::new(rounded, ElementType::Int8, exact, 1e-9),
            Expected::new(scales, fp32, of_rows, allowed(fp32)),
        ];
        Launch::new(grid(rows.div_ceil(8), 1, 256), arguments, expected)
    })
}

/// Rounds rows of numbers that e4m3 has, times a power of two for each row, so that the codes are exact.
fn quantise_fp8_case(rows: usize, width: usize, format: Fp8Format) -> Case {
    let element = ElementType::Fp16;
    let case = Case::new(
        ("quantise_fp8", element, ""),
        format!("{rows} rows, {width} inputs"),
        cost(0, rows * width),
        move |arena| {
            let code = |index: usize| match index % width {
                2 => format.round(format.largest()),
                place => ((index * 37 + place * 11) % 0x70) as u8,
            };
            let codes: Vec<u8> = (0..rows * width).map(code).collect();
            let scale = |row: usize| 2_f32.powi(row as i32 % 5 - 8);
            let number = |(index, code): (usize, &u8)| format.value(*code) * scale(index / width);
            let values: Vec<f32> = codes.iter().enumerate().map(number).collect();
            let (x, _) = arena.numbers(element, &values);
            let rounded = arena.room(ElementType::Fp8(format), rows * width);
            let scales = arena.room(ElementType::Fp32, rows);
            let arguments = QuantiseArguments {
                x: x.address,
                factors: Address::NULL,
                bytes: rounded.address,
                row_scales: scales.address,
                rows: rows as i32,
                width: width as i32,
            };
            let fp32 = ElementType::Fp32;
            let of_rows = (0..rows).map(|row| f64::from(scale(row))).collect();
            let element = ElementType::Fp8(format);
            let exact = codes.iter().map(|&code| f64::from(format.value(code))).collect();
            let expected = vec![
                Expected::new(rounded, element, exact, 1e-9),
                Expected::new(scales, fp32, of_rows, allowed(fp32)),
            ];
            Launch::new(grid(rows.div_ceil(8), 1, 256), arguments, expected)
        },
    );
    case.of_fp8(format)
}

/// Rows of ordinary numbers. The bytes must be the nearest ones, and the largest and the least numbers have the bytes
/// 127 and -128. The first row has one sign, and all numbers of the second are the same.
fn ordinary_rows_case((rows, width, has_factors): (usize, usize, bool)) -> Case {
    let element = ElementType::Fp16;
    let factors_text = if has_factors { ", factors" } else { "" };
    let shape = format!("{rows} ordinary rows, {width} inputs{factors_text}");
    Case::new(("quantise", element, ""), shape, cost(0, rows * width), move |arena| {
        let mut numbers = noise(61, rows * width);
        for (row, numbers) in numbers.chunks_mut(width).enumerate() {
            match row {
                0 => numbers.iter_mut().for_each(|number| *number = number.abs() - 2.0),
                1 => numbers.fill(0.375),
                _ => numbers.iter_mut().for_each(|number| *number *= row as f32),
            }
        }
        let (x, values) = arena.numbers(element, &numbers);
        let factors: Vec<f32> = noise(62, width).iter().map(|number| 1.5 + number).collect();
        let factors = has_factors.then(|| arena.numbers(ElementType::Fp32, &factors));
        let rounded = arena.room(ElementType::Int8, rows * width);
        let scales = arena.room(ElementType::Fp32, 2 * rows);
        let arguments = QuantiseArguments {
            x: x.address,
            factors: factors.as_ref().map_or(Address::NULL, |(place, _)| place.address),
            bytes: rounded.address,
            row_scales: scales.address,
            rows: rows as i32,
            width: width as i32,
        };
        let (mut exact, mut of_rows) = (Vec::new(), Vec::new());
        for row in values.chunks(width) {
            let factor = |column: usize| factors.as_ref().map_or(1.0, |(_, factors)| factors[column]);
            let row: Vec<f64> = row.iter().enumerate().map(|(column, x)| x * factor(column)).collect();
            let least = row.iter().copied().fold(f64::INFINITY, f64::min);
            let scale = (row.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least) / 255.0;
            let steps = |x: &f64| if scale > 0.0 { (x - least) / scale } else { 0.0 };
            exact.extend(row.iter().map(|x| steps(x) - 128.0));
            of_rows.extend([scale, least + 128.0 * scale]);
        }
        let fp32 = ElementType::Fp32;
        let expected = vec![
            // Half a step, and what the kernel's sums in fp32 may add to it.
            Expected::new(rounded, ElementType::Int8, exact, 0.502 / 128.0).above(128.0),
            Expected::new(scales, fp32, of_rows, allowed(fp32)).above(0.5),
        ];
        Launch::new(grid(rows.div_ceil(8), 1, 256), arguments, expected)
    })
}

/// As [`ordinary_rows_case`] for e4m3. The first row has only zeros, and the numbers of the second have many sizes.
fn ordinary_rows_fp8_case((rows, width, has_factors): (usize, usize, bool), format: Fp8Format) -> Case {
    let element = ElementType::Fp16;
    let factors_text = if has_factors { ", factors" } else { "" };
    let shape = format!("{rows} ordinary rows, {width} inputs{factors_text}");
    let case = Case::new(("quantise_fp8", element, ""), shape, cost(0, rows * width), move |arena| {
        let mut numbers = noise(63, rows * width);
        for (row, numbers) in numbers.chunks_mut(width).enumerate() {
            match row {
                0 => numbers.fill(0.0),
                1 => numbers.iter_mut().enumerate().for_each(|(k, x)| *x *= 2_f32.powi(-(k as i32 % 16))),
                _ => numbers.iter_mut().for_each(|number| *number *= row as f32),
            }
        }
        let (x, values) = arena.numbers(element, &numbers);
        let factors: Vec<f32> = noise(62, width).iter().map(|number| 1.5 + number).collect();
        let factors = has_factors.then(|| arena.numbers(ElementType::Fp32, &factors));
        let rounded = arena.room(ElementType::Fp8(format), rows * width);
        let scales = arena.room(ElementType::Fp32, rows);
        let arguments = QuantiseArguments {
            x: x.address,
            factors: factors.as_ref().map_or(Address::NULL, |(place, _)| place.address),
            bytes: rounded.address,
            row_scales: scales.address,
            rows: rows as i32,
            width: width as i32,
        };
        let (mut exact, mut of_rows) = (Vec::new(), Vec::new());
        for row in values.chunks(width) {
            let factor = |column: usize| factors.as_ref().map_or(1.0, |(_, factors)| factors[column]);
            let row: Vec<f64> = row.iter().enumerate().map(|(column, x)| x * factor(column)).collect();
            let scale = row.iter().fold(0.0_f64, |most, x| most.max(x.abs())) / f64::from(format.largest());
            exact.extend(row.iter().map(|x| if scale > 0.0 { x / scale } else { 0.0 }));
            of_rows.push(scale);
        }
        // The least number with three bits of mantissa; smaller ones have its steps.
        let least = f64::from(format.value(8));
        let fp32 = ElementType::Fp32;
        let expected = vec![
            // Half a step, which is largest for numbers that are little more than a power of two.
            Expected::new(rounded, ElementType::Fp8(format), exact, 1.001 / 16.0).above(least),
            Expected::new(scales, fp32, of_rows, allowed(fp32)).above(1e-4),
        ];
        Launch::new(grid(rows.div_ceil(8), 1, 256), arguments, expected)
    });
    case.of_fp8(format)
}

/// So many factors, and their values: bytes or codes of all kinds but NaNs.
fn factor_bytes(factors: Factors, seed: u32, count: usize) -> (Vec<u8>, Vec<f64>) {
    let byte = |number: &f32| ((number * 128.0).floor() as i8).to_le_bytes()[0];
    let mut bytes: Vec<u8> = noise(seed, count).iter().map(byte).collect();
    if let Factors::Floats(format) = factors {
        bytes.iter_mut().filter(|code| format.value(**code).is_nan()).for_each(|code| *code = 0x38);
    }
    let value = |&byte: &u8| match factors {
        Factors::Integers => f64::from(i8::from_le_bytes([byte])),
        Factors::Floats(format) => f64::from(format.value(byte)),
    };
    let values = bytes.iter().map(value).collect();
    (bytes, values)
}

fn gemm_case(size: TileSize, shape: Shape, factors: Factors) -> Case {
    let TileSize { rows: tile_rows, columns, threads } = size;
    let element = ElementType::Fp16;
    let suffix = size.suffix();
    // Integers have two numbers for each row and output, and e4m3 has one.
    let (family, each) = match factors {
        Factors::Integers => ("gemm_bytes", 2),
        Factors::Floats(_) => ("gemm_fp8", 1),
    };
    let results = shape.rows * shape.outputs;
    let cost = cost(results * shape.inputs, results);
    let case = Case::new((family, element, &suffix), shape.text(), cost, move |arena| {
        let Shape { rows, outputs, inputs, gap, weights_gap, has_bias, activation, residual } = shape;
        let (stride, weights_stride, output_stride) = (inputs + gap, inputs + weights_gap, outputs + gap);
        // Nothing lies behind the last rows.
        let (x_bytes, x) = factor_bytes(factors, 91, rows * stride - gap);
        let (w_bytes, w) = factor_bytes(factors, 92, outputs * weights_stride - weights_gap);
        let [x_place, w_place] = [&x_bytes, &w_bytes].map(|bytes| arena.put(bytes));
        let (row_scales, of_rows) = arena.numbers(ElementType::Fp32, &noise(93, each * rows));
        let width = outputs.next_multiple_of(8);
        let per_weight = 2e-4 / (inputs as f32).sqrt();
        let mut scales = noise(94, each * width);
        // The second number of an output counts as much as the sum.
        scales[..width].iter_mut().for_each(|scale| *scale *= per_weight);
        let (output_scales, of_outputs) = arena.numbers(ElementType::Fp32, &scales);
        let bias = has_bias.then(|| arena.numbers(element, &noise(95, outputs)));
        let count = rows * output_stride - gap;
        let added = (residual != Residual::None).then(|| arena.numbers(element, &noise(96, count)));
        let output = match &added {
            Some((place, _)) if residual == Residual::InPlace => *place,
            _ => arena.room(element, count),
        };
        let address = |array: &Option<(Place, Vec<f64>)>| {
            array.as_ref().map_or(Address::NULL, |(place, _)| place.address)
        };
        let arguments = GemmBytesArguments {
            gemm: GemmArguments {
                x: x_place.address,
                weights: w_place.address,
                output: output.address,
                bias: address(&bias),
                residual: address(&added),
                rows: rows as i32,
                outputs: outputs as i32,
                inputs: inputs as i32,
                x_stride: stride as i32,
                weights_stride: weights_stride as i32,
                output_stride: output_stride as i32,
                activation,
                ..GemmArguments::NONE
            },
            row_scales: row_scales.address,
            output_scales: output_scales.address,
        };
        let sum = |_: usize, row: usize, column: usize| {
            let sum = dot(&x[row * stride..][..inputs], &w[column * weights_stride..][..inputs]);
            let zero = if each == 2 { of_rows[2 * row + 1] * of_outputs[width + column] } else { 0.0 };
            of_rows[each * row] * of_outputs[column] * sum + zero
        };
        let epilogue = Epilogue {
            bias: bias.as_ref().map(|(_, values)| values.as_slice()),
            activation,
            residual: added.as_ref().map(|(_, values)| values.as_slice()),
            gates: None,
        };
        let values = epilogue.results((1, rows), (outputs, output_stride), sum);
        let expected = Expected::new(output, element, values, allowed(element));
        let tiles = rows.div_ceil(tile_rows) * outputs.div_ceil(columns);
        Launch::new(grid(tiles, 1, threads), arguments, vec![expected])
    });
    match factors {
        Factors::Integers => case.optional(),
        Factors::Floats(format) => case.of_fp8(format),
    }
}
