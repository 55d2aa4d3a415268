//! The rounding of rows to 8 bits, integers or e4m3, and products of such rows. They work on fp16.

use super::arena::Expected;
use super::case::{Case, Launch, some};
use crate::gemm::own::{TileSize, product_arguments, tile_sizes};
use crate::runtime::activations::activation;
use crate::runtime::ffi::arguments::{GemmBytesArguments, QuantiseArguments};
use crate::runtime::ffi::gemm::{ElementType, Epilogue, GemmOperands, GemmShape};
use crate::runtime::ffi::hip::Address;
use crate::runtime::fp8::Fp8Format;
use crate::runtime::kernels::grid;
use crate::runtime::numbers::{allowed, noise};

/// The code of mish.
const MISH: i32 = 6;

/// The factors of a product.
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
    for size in tile_sizes() {
        let shapes = vec![(37, 72, 112), (133, 140, 96), (256, 256, 512)];
        for shape in some(shapes, is_quick, 1) {
            cases.push(product_case(size, shape, Factors::Integers));
            cases.extend(FORMATS.map(|format| product_case(size, shape, Factors::Floats(format))));
        }
    }
    let rows = some(vec![(13, 144), (8, 1040), (1, 32)], is_quick, 1);
    for format in FORMATS {
        cases.extend(rows.iter().map(|&(rows, width)| quantise_fp8_case(rows, width, format)));
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

fn as_bytes(numbers: &[i8]) -> Vec<u8> {
    numbers.iter().map(|number| number.to_le_bytes()[0]).collect()
}

/// Rounds rows of multiples of 1/64 times the factors' inverses, so that the bytes are exact.
fn quantise_case(rows: usize, width: usize) -> Case {
    let element = ElementType::Fp16;
    let shape = format!("{rows} rows, {width} inputs");
    Case::new(("quantise", element, ""), shape, rows * width, move |arena| {
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
        rows * width,
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

fn product_case(size: TileSize, (rows, outputs, inputs): (usize, usize, usize), factors: Factors) -> Case {
    let TileSize { rows: tile_rows, columns, threads } = size;
    let element = ElementType::Fp16;
    let suffix = format!("_{tile_rows}x{columns}_{threads}");
    let text = format!("{rows} rows, {inputs} inputs, {outputs} outputs");
    // Integers have two numbers for each row and output, and e4m3 has one.
    let (family, each) = match factors {
        Factors::Integers => ("gemm_bytes", 2),
        Factors::Floats(_) => ("gemm_fp8", 1),
    };
    let cost = rows * outputs * inputs;
    let case = Case::new((family, element, &suffix), text, cost, move |arena| {
        // The bytes, and their values. Those in e4m3 are as large as the integers.
        let bytes = |seed: u32, count: usize| -> (Vec<u8>, Vec<f64>) {
            let numbers: Vec<i8> = noise(seed, count).iter().map(|number| (number * 127.0) as i8).collect();
            match factors {
                Factors::Integers => (as_bytes(&numbers), numbers.iter().map(|&x| f64::from(x)).collect()),
                Factors::Floats(format) => {
                    let codes: Vec<u8> = numbers.iter().map(|&x| format.round(f32::from(x))).collect();
                    let values = codes.iter().map(|&code| f64::from(format.value(code))).collect();
                    (codes, values)
                }
            }
        };
        let ((x_bytes, x), (w_bytes, w)) = (bytes(91, rows * inputs), bytes(92, outputs * inputs));
        let [x_place, w_place] = [&x_bytes, &w_bytes].map(|bytes| arena.put(bytes));
        let (row_scales, of_rows) = arena.numbers(ElementType::Fp32, &noise(93, each * rows));
        let width = outputs.next_multiple_of(8);
        let per_weight = 2e-4 / (inputs as f32).sqrt();
        let scales: Vec<f32> = noise(94, each * width).iter().map(|number| number * per_weight).collect();
        let (output_scales, of_outputs) = arena.numbers(ElementType::Fp32, &scales);
        let (bias, biases) = arena.numbers(element, &noise(95, outputs));
        let output = arena.room(element, rows * outputs);
        let epilogue = Epilogue::BiasMish;
        let shape = GemmShape { epilogue, ..GemmShape::plain(rows, outputs, inputs, element) };
        let operands = GemmOperands::plain(w_place.address, x_place.address, output.address);
        let arguments = GemmBytesArguments {
            product: product_arguments(&shape, operands, bias.address, 1),
            row_scales: row_scales.address,
            output_scales: output_scales.address,
        };
        let value = |index: usize| {
            let (row, column) = (index / outputs, index % outputs);
            let pairs = x[row * inputs..][..inputs].iter().zip(&w[column * inputs..]);
            let sum: f64 = pairs.map(|(&x, &w)| x * w).sum();
            let zero = if each == 2 { of_rows[2 * row + 1] * of_outputs[width + column] } else { 0.0 };
            let product = of_rows[each * row] * of_outputs[column] * sum + zero;
            activation(MISH, product + biases[column])
        };
        let values = (0..rows * outputs).map(value).collect();
        let expected = Expected::new(output, element, values, allowed(element));
        let tiles = rows.div_ceil(tile_rows) * outputs.div_ceil(columns);
        Launch::new(grid(tiles, 1, threads), arguments, vec![expected])
    });
    match factors {
        Factors::Integers => case.optional(),
        Factors::Floats(format) => case.of_fp8(format),
    }
}
