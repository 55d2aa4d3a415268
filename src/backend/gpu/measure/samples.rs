//! Some elements of a GEMM, as they must be.
//!
//! A GEMM of a network has up to a hundred million elements, so only some rows are read, and of each only some
//! columns are compared. They are spread evenly over the whole matrix, so that they meet every tile of a usual size.

use crate::gemm::own;
use crate::network::byte_weights;
use crate::network::layers::SQUARES;
use crate::runtime::activations::activation;
use crate::runtime::ffi::gemm::{ElementType, Epilogue, GemmShape, WeightLayout};
use crate::runtime::kernels::activation_code;
use crate::runtime::numbers;
use std::borrow::Cow;
use std::ops::Range;

/// The number of rows to read, and of columns to compare.
const ROWS: usize = 32;
const COLUMNS: usize = 32;

/// The value of the result's bytes before a GEMM that replaces them, and before one that adds to them. As elements,
/// the former are not a number, and the latter are ordinary numbers.
const UNWRITTEN_BYTE: u8 = 0xff;
const ADDED_BYTE: u8 = 0x3f;

/// The largest error of a GEMM in e4m3: some cards add up such products with a mantissa of 13 bits.
const FP8_ALLOWED: f64 = 2e-2;

/// The largest number that fp16 has.
const LARGEST_FP16: f64 = 65_504.0;

/// The length of the pattern that fills the matrices, in bytes. It is no multiple of a usual row's length, so that rows
/// differ.
pub(crate) const PATTERN_BYTES: usize = 1_048_500;

/// The bytes of numbers between -1 and 1, of which every matrix holds repetitions from its start.
pub(crate) fn pattern(element: ElementType) -> Vec<u8> {
    let mut state = 1_u32;
    let mut number = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let mut pattern = Vec::with_capacity(PATTERN_BYTES);
    while pattern.len() < PATTERN_BYTES {
        element.append(number(), &mut pattern);
    }
    if element == ElementType::Fp16 {
        // The bytes are 8-bit numbers, too, none of which may be one of the NaNs of e4m3. Only the last bit changes.
        let nans = pattern.iter_mut().filter(|byte| matches!(byte, 0x7f | 0x80 | 0xff));
        nans.for_each(|byte| *byte ^= 1);
    }
    pattern
}

/// The scale of row `index` of a factor of 8-bit numbers. Results are ordinary numbers with it, because sums over some
/// hundred products of such numbers are near 100,000.
pub(crate) fn byte_scale(index: usize) -> f32 {
    4e-3 * (1.0 + (index % 5) as f32 / 8.0)
}

/// The contents of the matrices, as elements of each type.
pub(crate) struct Contents(Vec<(ElementType, Vec<f64>)>);

impl Contents {
    /// The contents of the matrices that are filled for GEMMs of `element`.
    pub(crate) fn new(element: ElementType) -> Contents {
        let bytes = pattern(element);
        let types = [ElementType::Fp32, ElementType::Fp16, ElementType::Bf16];
        Contents(types.map(|element| (element, numbers::decode(element, &bytes))).into())
    }

    /// The same, as factors of 8 bits, too. The matrices are filled for GEMMs of `element`.
    pub(crate) fn and(mut self, factors: ElementType, element: ElementType) -> Contents {
        self.0.push((factors, numbers::decode(factors, &pattern(element))));
        self
    }

    fn of(&self, element: ElementType) -> &[f64] {
        let found = self.0.iter().find(|(known, _)| *known == element);
        found.map_or(&[], |(_, values)| values)
    }
}

/// The elements to compare.
pub(crate) struct Samples {
    output: ElementType,
    /// Whether the factors are numbers in e4m3.
    is_fp8: bool,
    /// The byte with which the result must be filled before the GEMM.
    pub(crate) initial_byte: u8,
    /// The bytes of the rows to read.
    pub(crate) pieces: Vec<Range<usize>>,
    /// For each of these rows: its number in words, and columns with their values.
    rows: Vec<(String, Vec<(usize, f64)>)>,
}

/// How a GEMM turned out.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Difference {
    /// The largest [`numbers::error`].
    pub(crate) error: f64,
    /// The first element with an error that is too large, in words.
    pub(crate) wrong: Option<String>,
}

/// `count` numbers below `limit`, in ascending order: the first, the last, and one in each of equal parts between them.
fn spread(limit: usize, count: usize, seed: u32) -> Vec<usize> {
    if limit <= count {
        return (0..limit).collect();
    }
    let noise = numbers::noise(seed, count);
    let part = |index: usize| {
        let (start, end) = (index * limit / count, (index + 1) * limit / count);
        let jitter = f64::from(noise[index].abs()) * (end - start) as f64;
        (start + jitter as usize).min(end - 1)
    };
    let mut numbers: Vec<usize> = (0..count).map(part).collect();
    (numbers[0], numbers[count - 1]) = (0, limit - 1);
    numbers
}

impl Samples {
    /// The samples of a GEMM of matrices with these contents, which are read as weights of this layout. Preshuffled
    /// weights are made from plain ones, so that the GEMM is the same, and those of 8 bits by rounding them.
    pub(crate) fn new(shape: &GemmShape, layout: WeightLayout, contents: &Contents) -> Samples {
        let output = shape.output_type;
        let (values, biases) = (contents.of(shape.input_type), contents.of(output));
        let [_, x_step, y_step] = shape.batch_strides;
        let weights = shape.column_major_weights(layout);
        let initial_byte = if shape.accumulate { ADDED_BYTE } else { UNWRITTEN_BYTE };
        let added = if shape.accumulate { numbers::decode(output, &[ADDED_BYTE; 4])[0] } else { 0.0 };
        // A row of a matrix that begins at element `place`. Few rows reach beyond the end of the contents.
        let row_at = |place: usize| -> Cow<'_, [f64]> {
            let rest = &values[place % values.len()..];
            match rest.get(..shape.inputs) {
                Some(row) => row.into(),
                None => rest.iter().chain(values.iter().cycle()).take(shape.inputs).copied().collect(),
            }
        };
        // The weights of an output: a row of plain weights, or a column of transposed ones.
        let weights_of = |batch: usize, output: usize| -> Cow<'_, [f64]> {
            let first = batch * weights.batch_stride;
            let row = || row_at(first + output * weights.stride);
            match layout {
                WeightLayout::Plain | WeightLayout::Preshuffled => return row(),
                WeightLayout::Bytes => return byte_weights::after_rounding(&row()).into(),
                WeightLayout::Transposed => {}
            }
            let column = (0..shape.inputs).map(|input| first + input * weights.stride + output);
            column.map(|place| values[place % values.len()]).collect()
        };
        let is_fp8 = matches!(shape.input_type, ElementType::Fp8(_));
        let mut samples = Samples { output, is_fp8, initial_byte, pieces: Vec::new(), rows: Vec::new() };
        let scale = |index: usize| if shape.is_of_bytes() { f64::from(byte_scale(index)) } else { 1.0 };
        let code = activation_code(own::activation(shape.epilogue)).unwrap_or(0);
        for (index, place) in spread(shape.batch * shape.rows, ROWS, 1).into_iter().enumerate() {
            let (batch, row) = (place / shape.rows, place % shape.rows);
            let start = (batch * y_step + row * shape.y_stride) * output.bytes();
            samples.pieces.push(start..start + shape.outputs * output.bytes());
            let x = row_at(batch * x_step + row * shape.x_stride);
            let of_column = |column: usize| {
                let w = weights_of(batch, column);
                let sum: f64 = w.iter().zip(&*x).map(|(w, x)| w * x).sum();
                let sum = sum * scale(row) * scale(column);
                let bias = if shape.epilogue == Epilogue::None { 0.0 } else { biases[column % biases.len()] };
                let result = activation(code, sum + added + bias);
                let gate = biases[(row % SQUARES * shape.y_stride + column) % biases.len()];
                (column, if shape.is_gated { result * gate + gate } else { result })
            };
            // An element that the format cannot hold is infinite or the largest number, and tells nothing.
            let fits =
                |(_, value): &(usize, f64)| output != ElementType::Fp16 || value.abs() < 0.99 * LARGEST_FP16;
            let columns =
                spread(shape.outputs, COLUMNS, 2 + index as u32).into_iter().map(of_column).filter(fits);
            let name =
                if shape.batch > 1 { format!("row {row} of GEMM {batch}") } else { format!("row {row}") };
            samples.rows.push((name, columns.collect()));
        }
        samples
    }

    /// The largest error that a GEMM may have.
    pub(crate) fn allowed(&self) -> f64 {
        if self.is_fp8 { FP8_ALLOWED } else { numbers::allowed(self.output) }
    }

    /// Compares the rows of [`Samples::pieces`], one after another, with what they must be.
    pub(crate) fn compare(&self, bytes: &[u8]) -> Difference {
        let mut difference = Difference { error: 0.0, wrong: None };
        let size = self.output.bytes();
        let mut start = 0;
        for (piece, (row, columns)) in self.pieces.iter().zip(&self.rows) {
            for &(column, expected) in columns {
                let place = start + column * size;
                let found = numbers::decode(self.output, &bytes[place..place + size])[0];
                let error = numbers::error(found, expected);
                difference.error = difference.error.max(error);
                if error > self.allowed() && difference.wrong.is_none() {
                    difference.wrong =
                        Some(format!("{row}, column {column} is {found:.5} instead of {expected:.5}"));
                }
            }
            start += piece.len();
        }
        difference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F32: ElementType = ElementType::Fp32;
    const PLAIN: WeightLayout = WeightLayout::Plain;

    #[test]
    fn samples_are_spread_over_the_whole_matrix() {
        assert_eq!(spread(3, 32, 1), [0, 1, 2]);
        let places = spread(32_768, 32, 1);
        assert!(places.len() == 32 && places.is_sorted_by(|a, b| a < b));
        assert_eq!((places[0], places[31]), (0, 32_767));
        assert!(places.iter().enumerate().all(|(part, place)| place / 1024 == part));
        assert_ne!(spread(32_768, 32, 2), places);
    }

    /// The bytes of the sampled rows of a GEMM that is computed from its definition.
    fn gemm(shape: &GemmShape, contents: &Contents, samples: &Samples) -> Vec<u8> {
        let values = contents.of(F32);
        let rows = samples.pieces.iter().flat_map(|piece| {
            let row = piece.start / 4 / shape.y_stride;
            let x = &values[row * shape.x_stride..][..shape.inputs];
            (0..shape.outputs).map(move |column| {
                let w = &values[column * shape.weights_stride..][..shape.inputs];
                let sum: f64 = x.iter().zip(w).map(|(x, w)| x * w).sum();
                (sum + values[column]).max(0.0) as f32
            })
        });
        rows.flat_map(f32::to_le_bytes).collect()
    }

    #[test]
    fn a_wrong_element_is_found() {
        let plain = GemmShape::plain(40, 24, 16, F32);
        let shape = GemmShape { epilogue: Epilogue::BiasRelu, x_stride: 20, y_stride: 24, ..plain };
        let contents = Contents::new(F32);
        let samples = Samples::new(&shape, PLAIN, &contents);
        let mut bytes = gemm(&shape, &contents, &samples);
        assert!(samples.compare(&bytes).error < 1e-6 && samples.compare(&bytes).wrong.is_none());
        // The last row is among the samples.
        let last = bytes.len() - 4;
        bytes[last..].copy_from_slice(&1e6_f32.to_le_bytes());
        let wrong = samples.compare(&bytes).wrong.expect("an element is wrong");
        assert!(wrong.starts_with("row 39, column 23 is 1000000.0"), "{wrong}");
        // Without its epilogue, the GEMM has other figures.
        let other = Samples::new(&GemmShape { epilogue: Epilogue::None, ..shape }, PLAIN, &contents);
        assert!(other.compare(&gemm(&shape, &contents, &other)).wrong.is_some());
    }

    /// Row 70 has the gates of square 6.
    #[test]
    fn gates_follow_the_epilogue() {
        let plain = GemmShape { epilogue: Epilogue::BiasRelu, ..GemmShape::plain(71, 3, 8, F32) };
        let contents = Contents::new(F32);
        let last = |shape: &GemmShape| {
            let samples = Samples::new(shape, PLAIN, &contents);
            samples.rows.last().map(|(_, columns)| columns.clone()).expect("the last row is a sample")
        };
        let gated = last(&GemmShape { is_gated: true, ..plain });
        for ((column, without), (_, with)) in last(&plain).into_iter().zip(gated) {
            let gate = contents.of(F32)[6 * 3 + column];
            assert!((with - (without * gate + gate)).abs() < 1e-12, "column {column}: {with}");
        }
    }

    /// The squares of sums over 768 elements reach 66,303.
    #[test]
    fn elements_beyond_the_format_are_not_compared() {
        let fp16 = ElementType::Fp16;
        let plain = GemmShape::plain(64, 1024, 768, fp16);
        let samples =
            Samples::new(&GemmShape { epilogue: Epilogue::BiasRelu2, ..plain }, PLAIN, &Contents::new(fp16));
        let values: Vec<f64> =
            samples.rows.iter().flat_map(|(_, row)| row).map(|&(_, value)| value).collect();
        assert!(values.len() > 900 && values.len() < ROWS * COLUMNS, "{}", values.len());
        assert!(values.iter().all(|value| value.abs() < LARGEST_FP16));
    }

    #[test]
    fn rows_go_on_at_the_start_of_the_contents() {
        let plain = GemmShape::plain(2, 1, 100_000, F32);
        let shape = GemmShape { x_stride: 200_000, batch: 2, batch_strides: [7, 60_000, 2], ..plain };
        let contents = Contents::new(F32);
        let samples = Samples::new(&shape, PLAIN, &contents);
        let values = contents.of(F32);
        let at = |place: usize| values[place % values.len()];
        let sum: f64 = (0..100_000).map(|k| at(7 + k) * at(260_000 + k)).sum();
        let (name, columns) = &samples.rows[3];
        assert_eq!((name.as_str(), columns[0].0), ("row 1 of GEMM 1", 0));
        assert!((columns[0].1 - sum).abs() < 1e-6 && samples.pieces[3] == (12..16));
    }

    /// 5 outputs are one vector of eight, so the weight of an input and an output is at 8 times the input, plus the
    /// output.
    #[test]
    fn transposed_weights_are_read_by_columns() {
        let plain = GemmShape::plain(4, 5, 6, F32);
        let shape = GemmShape { batch: 2, batch_strides: [30, 24, 20], ..plain };
        let contents = Contents::new(F32);
        let samples = Samples::new(&shape, WeightLayout::Transposed, &contents);
        let values = contents.of(F32);
        for (index, (_, columns)) in samples.rows.iter().enumerate() {
            let (batch, row) = (index / 4, index % 4);
            for &(output, found) in columns {
                let x = |input: usize| values[batch * 24 + row * 6 + input];
                let w = |input: usize| values[batch * 6 * 8 + input * 8 + output];
                let sum: f64 = (0..6).map(|input| x(input) * w(input)).sum();
                assert!((found - sum).abs() < 1e-12, "GEMM {batch}, row {row}, column {output}");
            }
        }
    }
}
