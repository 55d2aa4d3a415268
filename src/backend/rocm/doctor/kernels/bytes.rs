//! The rounding of rows to 8 bits, and products of such rows. Both work on fp16.

use super::super::super::activations::activation;
use super::super::super::ffi::arguments::{GemmBytesArguments, QuantiseArguments};
use super::super::super::ffi::gemm::{ElementType, Epilogue, GemmOperands, GemmShape};
use super::super::super::kernels::grid;
use super::super::super::numbers::{allowed, decode, noise};
use super::super::super::own::{TileSize, product_arguments, tile_sizes};
use super::arena::Expected;
use super::case::{Case, Trial, some};

/// The code of mish.
const MISH: i32 = 6;

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    if element != ElementType::Fp16 {
        return Vec::new();
    }
    let rows = some(vec![(13, 144), (8, 1040), (1, 32)], is_quick, 1);
    let mut cases: Vec<Case> = rows.into_iter().map(|(rows, width)| quantise_case(rows, width)).collect();
    for size in tile_sizes() {
        let shapes = vec![(37, 72, 112), (133, 140, 96), (256, 256, 512)];
        cases.extend(some(shapes, is_quick, 1).into_iter().map(|shape| product_case(size, shape)));
    }
    cases
}

/// The byte at a place of a row. Both limits are in each row. Bytes in odd places make no pair that is not a number as
/// fp16, because results are compared in pairs.
fn byte_at(index: usize, width: usize) -> i8 {
    match index % width {
        0 => -128,
        2 => 127,
        place => ((index * 37 + place * 11) % 120) as i8 - 60,
    }
}

fn as_bytes(numbers: &[i8]) -> Vec<u8> {
    numbers.iter().map(|number| number.to_le_bytes()[0]).collect()
}

/// Rounds rows of multiples of 1/64 times the factors' inverses, so that the bytes are exact.
fn quantise_case(rows: usize, width: usize) -> Case {
    let element = ElementType::Fp16;
    Case::new(("quantise", element, ""), format!("{rows} rows, {width} inputs"), move |arena, function| {
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
        let rounded = arena.room(element, rows * width / 2);
        let scales = arena.room(ElementType::Fp32, 2 * rows);
        let arguments = QuantiseArguments {
            x: x.address,
            factors: factors.address,
            bytes: rounded.address,
            row_scales: scales.address,
            rows: rows as i32,
            width: width as i32,
        };
        let pairs = decode(element, &as_bytes(&bytes));
        let of_rows = (0..rows).flat_map(|row| [1.0 / 64.0, f64::from(zero(row))]).collect();
        let fp32 = ElementType::Fp32;
        let expected = vec![
            Expected { place: rounded, element, values: pairs, allowed: 1e-9 },
            Expected { place: scales, element: fp32, values: of_rows, allowed: allowed(fp32) },
        ];
        Trial::new(function, grid(rows.div_ceil(8), 1, 256), arguments, expected)
    })
}

fn product_case(size: TileSize, (rows, outputs, inputs): (usize, usize, usize)) -> Case {
    let TileSize { rows: tile_rows, columns, threads } = size;
    let element = ElementType::Fp16;
    let suffix = format!("_{tile_rows}x{columns}_{threads}");
    let text = format!("{rows} rows, {inputs} inputs, {outputs} outputs");
    let case = Case::new(("gemm_bytes", element, &suffix), text, move |arena, function| {
        let bytes = |seed: u32, count: usize| -> Vec<i8> {
            noise(seed, count).iter().map(|number| (number * 127.0) as i8).collect()
        };
        let (x, w) = (bytes(91, rows * inputs), bytes(92, outputs * inputs));
        let [x_place, w_place] = [&x, &w].map(|bytes| arena.put(&as_bytes(bytes)));
        let (row_scales, of_rows) = arena.numbers(ElementType::Fp32, &noise(93, 2 * rows));
        let width = outputs.next_multiple_of(8);
        let per_weight = 2e-4 / (inputs as f32).sqrt();
        let scales: Vec<f32> = noise(94, 2 * width).iter().map(|number| number * per_weight).collect();
        let (output_scales, of_outputs) = arena.numbers(ElementType::Fp32, &scales);
        let (bias, biases) = arena.numbers(element, &noise(95, outputs));
        let output = arena.room(element, rows * outputs);
        let epilogue = Epilogue::BiasMish;
        let shape = GemmShape { epilogue, ..GemmShape::plain(rows, outputs, inputs, element) };
        let operands = GemmOperands { weights: w_place.address, x: x_place.address, y: output.address };
        let arguments = GemmBytesArguments {
            product: product_arguments(&shape, operands, bias.address, 1),
            row_scales: row_scales.address,
            output_scales: output_scales.address,
        };
        let value = |index: usize| {
            let (row, column) = (index / outputs, index % outputs);
            let pairs = x[row * inputs..][..inputs].iter().zip(&w[column * inputs..]);
            let sum: i32 = pairs.map(|(&x, &w)| i32::from(x) * i32::from(w)).sum();
            let (scale, zero) = (of_rows[2 * row], of_rows[2 * row + 1]);
            let product = scale * of_outputs[column] * f64::from(sum) + zero * of_outputs[width + column];
            activation(MISH, product + biases[column])
        };
        let values = (0..rows * outputs).map(value).collect();
        let expected = Expected { place: output, element, values, allowed: allowed(element) };
        let tiles = rows.div_ceil(tile_rows) * outputs.div_ceil(columns);
        Trial::new(function, grid(tiles, 1, threads), arguments, vec![expected])
    });
    case.optional()
}
