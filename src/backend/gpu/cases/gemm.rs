//! GEMMs of any size, with weights of the elements' type or of 8 bits.

use super::arena::{Arena, Expected, PARTIAL_ERROR, Place, allowed};
use super::case::{Case, Launch, Residual, cost, some};
use super::reference::gemms::{Epilogue, dot};
use super::weights::{Layout, Weights};
use crate::gemm::own::{OwnChoice, TileSize, tile_sizes};
use crate::network::layers::SQUARES;
use crate::runtime::activations::{MISH, NONE, RELU_2, SWISH};
use crate::runtime::ffi::arguments::GemmArguments;
use crate::runtime::ffi::gemm::{ElementType, WeightLayout};
use crate::runtime::ffi::hip::Address;
use crate::runtime::ffi::module::Grid;
use crate::runtime::kernels::grid;
use crate::runtime::numbers::noise;

/// A batch of GEMMs, and their epilogue.
#[derive(Clone, Copy)]
struct Shape {
    rows: usize,
    outputs: usize,
    inputs: usize,
    gemms: usize,
    /// The parts of the summed axis. With more than one, the results are partial sums.
    splits: usize,
    has_bias: bool,
    activation: i32,
    residual: Residual,
    is_gated: bool,
    /// The number of elements between two rows of the input and of the output.
    gap: usize,
    layout: Layout,
}

/// Some kernels multiply 64 bytes of a row in a step, and others 128. Rows of so many bytes are divided into three or
/// four parts in the same places by all of them.
const BYTES_IN_3_PARTS: usize = 352;
const BYTES_IN_4_PARTS: usize = 320;

/// The multiprocessors that the cases of warpgroups assume: so few that a block computes several tiles.
const FEW_UNITS: usize = 3;

impl Shape {
    fn text(&self) -> String {
        let Shape { rows, outputs, inputs, gemms, splits, activation, gap, .. } = *self;
        let mut text = format!(
            "{gemms} x {rows} rows, {inputs} inputs, {outputs} outputs, function {activation}, gaps of {gap}"
        );
        if splits > 1 {
            text = format!("{splits} parts of {text}");
        }
        for (is_there, name) in [
            (!self.has_bias, ", no bias"),
            (self.is_gated, ", gates"),
            (self.residual == Residual::Apart, ", residual"),
            (self.residual == Residual::InPlace, ", residual in place"),
            (self.layout == Layout::Preshuffled, ", preshuffled"),
            (matches!(self.layout, Layout::Plain(1..)), ", gaps in the weights"),
        ] {
            text += if is_there { name } else { "" };
        }
        text
    }

    fn cost(&self) -> usize {
        let results = self.gemms * self.rows * self.outputs;
        cost(results * self.inputs, results)
    }
}

const PLAIN: Shape = Shape {
    rows: 1,
    outputs: 8,
    inputs: 8,
    gemms: 1,
    splits: 1,
    has_bias: true,
    activation: NONE,
    residual: Residual::None,
    is_gated: false,
    gap: 0,
    layout: Layout::Plain(0),
};

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let choices = (0..tile_sizes().len()).filter_map(|tile| OwnChoice::new(tile, 1, WeightLayout::Plain));
    for choice in choices {
        let (size, number) = (choice.size(), choice.tile() as i32);
        let mut shapes = some(shapes(element, size, number), is_quick, 2);
        if choice.is_of_warpgroups() {
            shapes.extend(some(many_tiles(size), is_quick, 2));
        }
        cases.extend(shapes.into_iter().map(|shape| tile_case("gemm", element, choice, shape)));
        // fp32 has no such kernels.
        if element != ElementType::Fp32 {
            let shapes = some(byte_shapes(size, number), is_quick, 1).into_iter();
            cases.extend(shapes.map(|shape| tile_case("gemm_byte_weights", element, choice, shape)));
        }
    }
    let any = Shape { outputs: 5, inputs: 27, gemms: 2, activation: MISH, ..PLAIN };
    let any = vec![
        Shape { rows: 67, residual: Residual::Apart, is_gated: true, gap: 3, ..any },
        Shape { rows: 17, outputs: 3, inputs: 13, residual: Residual::InPlace, activation: SWISH, ..any },
        Shape { rows: 1, outputs: 33, inputs: 40, gemms: 1, has_bias: false, activation: NONE, ..any },
    ];
    cases.extend(some(any, is_quick, 1).into_iter().map(|shape| any_case(element, shape)));
    let sum = Shape { rows: 21, outputs: 27, gemms: 2, splits: 3, activation: SWISH, ..PLAIN };
    let sums = vec![
        Shape { has_bias: false, ..sum },
        Shape { rows: 67, is_gated: true, residual: Residual::Apart, gap: 16, splits: 5, ..sum },
        Shape { rows: 9, outputs: 24, residual: Residual::InPlace, activation: NONE, splits: 4, ..sum },
    ];
    cases.extend(some(sums, is_quick, 1).into_iter().map(|shape| sum_case(element, shape)));
    cases
}

/// The shapes for a tile. Each tile has another function, so that all of them have all functions.
fn shapes(element: ElementType, size: TileSize, number: i32) -> Vec<Shape> {
    let TileSize { rows, columns, .. } = size;
    let code = 1 + number % 7;
    let apart = Residual::Apart;
    // The inputs of so many bytes.
    let inputs_of = |bytes: usize| bytes / element.bytes();
    let parts = Shape { rows: 21, outputs: 40, inputs: inputs_of(BYTES_IN_3_PARTS), splits: 3, ..PLAIN };
    let whole = Shape { outputs: columns, inputs: 64, rows, ..PLAIN };
    let strided = Shape { inputs: 40, gap: 8, activation: code, gemms: 2, ..PLAIN };
    let mut shapes = vec![
        Shape {
            rows: 37,
            outputs: 72,
            inputs: 104,
            gemms: 2,
            activation: MISH,
            residual: apart,
            gap: 8,
            ..PLAIN
        },
        Shape { rows: 133, outputs: 88, inputs: 40, activation: MISH, is_gated: true, ..PLAIN },
        Shape { rows: 133, outputs: 136, inputs: 96, gap: 16, ..PLAIN },
        Shape { rows: 256, outputs: 256, inputs: 512, ..PLAIN },
        Shape { rows: 5, outputs: 27, inputs: 40, activation: SWISH, ..PLAIN },
        PLAIN,
        // Whole tiles without an epilogue.
        Shape { has_bias: false, ..whole },
        // The short epilogue on the edge of a tile, with gaps in the weights.
        Shape {
            rows: rows + 3,
            outputs: columns + 8,
            gap: 24,
            layout: Layout::Plain(16),
            inputs: 72,
            ..whole
        },
        Shape { rows: rows + 3, outputs: columns + 8, residual: Residual::InPlace, ..strided },
        // Every epilogue, on both sides of a tile's edge.
        Shape { rows: rows - 7, outputs: columns - 8, residual: Residual::InPlace, ..strided },
        Shape { rows: rows + 3, outputs: columns + 11, residual: apart, is_gated: true, gap: 16, ..strided },
        Shape { rows: rows - 7, outputs: columns - 8, is_gated: true, has_bias: false, ..whole },
        Shape { rows: 67, outputs: 19, is_gated: true, residual: Residual::InPlace, ..strided },
        // Parts of the summed axis: the last one has fewer steps, or none.
        Shape { gemms: 2, gap: 8, ..parts },
        Shape { rows: 9, outputs: columns + 8, inputs: inputs_of(BYTES_IN_4_PARTS), splits: 4, ..parts },
        // Preshuffled weights: parts of a block of 16 outputs and of 64 bytes of the inputs.
        Shape { rows: 9, outputs: columns + 11, inputs: 72, layout: Layout::Preshuffled, ..strided },
        Shape { gemms: 2, layout: Layout::Preshuffled, ..parts },
    ];
    shapes.push(Shape { rows: rows - 3, residual: apart, ..shapes[15] });
    shapes
}

/// Shapes of which a block computes several tiles, with one or more steps of 128 bytes for each.
fn many_tiles(size: TileSize) -> Vec<Shape> {
    let whole = Shape { rows: 4 * size.rows + 5, outputs: 2 * size.columns + 8, inputs: 200, ..PLAIN };
    vec![
        Shape { activation: RELU_2, residual: Residual::Apart, ..whole },
        Shape { inputs: 40, activation: MISH, is_gated: true, ..whole },
        Shape { inputs: 72, ..whole },
        Shape {
            inputs: 776,
            rows: 3 * size.rows,
            outputs: size.columns + 3,
            gap: 8,
            activation: SWISH,
            ..PLAIN
        },
    ]
}

/// The shapes with weights of 8 bits. There is one GEMM.
fn byte_shapes(size: TileSize, number: i32) -> Vec<Shape> {
    let TileSize { rows, columns, .. } = size;
    let code = 1 + number % 7;
    let plain = Shape { layout: Layout::Bytes, ..PLAIN };
    let shapes = vec![
        Shape { rows: 37, outputs: 72, inputs: 104, activation: MISH, ..plain },
        // One row, and less than a vector of outputs.
        Shape { rows: 1, outputs: 27, inputs: 40, activation: code, ..plain },
        Shape { rows: 512, outputs: 256, inputs: 512, ..plain },
        Shape { rows, outputs: columns, inputs: 64, has_bias: false, ..plain },
        Shape {
            rows: rows + 3,
            outputs: columns + 24,
            inputs: 72,
            residual: Residual::InPlace,
            gap: 24,
            ..plain
        },
        Shape {
            rows: rows - 7,
            outputs: columns + 11,
            inputs: 8,
            activation: code,
            residual: Residual::Apart,
            is_gated: true,
            gap: 8,
            ..plain
        },
        // Parts of the summed axis, in steps of at most 64 elements.
        Shape { rows: 9, outputs: 40, inputs: BYTES_IN_3_PARTS / 2, splits: 3, gap: 8, ..plain },
        Shape { rows: 9, outputs: columns + 8, inputs: BYTES_IN_4_PARTS / 2, splits: 4, ..plain },
    ];
    shapes
}

fn tile_case(family: &'static str, element: ElementType, choice: OwnChoice, shape: Shape) -> Case {
    let TileSize { rows, columns, .. } = choice.size();
    let tiles = shape.rows.div_ceil(rows) * shape.outputs.div_ceil(columns);
    let grid = choice.grid(tiles, shape.gemms * shape.splits, FEW_UNITS);
    gemm_case((family, element, &choice.suffix()), shape, grid).optional()
}

fn any_case(element: ElementType, shape: Shape) -> Case {
    let blocks = shape.rows.div_ceil(16) * shape.outputs.div_ceil(16);
    gemm_case(("gemm_any", element, ""), shape, grid(blocks, shape.gemms * shape.splits, 256))
}

/// The arrays of an epilogue, and their values.
struct EpilogueArrays {
    bias: Option<(Address, Vec<f64>)>,
    gates: Option<[(Address, Vec<f64>); 2]>,
    residual: Option<Vec<f64>>,
    /// The arguments that the epilogue reads; the others are those of no GEMM.
    arguments: GemmArguments,
    output: Place,
}

impl EpilogueArrays {
    fn new(arena: &mut Arena, element: ElementType, shape: Shape) -> EpilogueArrays {
        let Shape { rows, outputs, gemms, gap, .. } = shape;
        let stride = outputs + gap;
        let mut numbers = |seed: u32, count: usize| arena.numbers(element, &noise(seed, count));
        let bias = shape.has_bias.then(|| numbers(62, outputs));
        // Nothing lies behind the last output of the last row.
        let gates = shape.is_gated.then(|| [67, 68].map(|seed| numbers(seed, SQUARES * stride - gap)));
        let count = gemms * rows * stride - gap;
        let residual = (shape.residual != Residual::None).then(|| numbers(63, count));
        let output = match &residual {
            Some((place, _)) if shape.residual == Residual::InPlace => *place,
            _ => arena.room(element, count),
        };
        let address = |place: Option<Place>| place.map_or(Address::NULL, |place| place.address);
        let of_gates = gates.as_ref().map(|[multiply, add]| [multiply.0, add.0]);
        let arguments = GemmArguments {
            output: output.address,
            bias: address(bias.as_ref().map(|(place, _)| *place)),
            multiply: address(of_gates.map(|[multiply, _]| multiply)),
            add: address(of_gates.map(|[_, add]| add)),
            residual: address(residual.as_ref().map(|(place, _)| *place)),
            output_batch: (rows * stride) as i64,
            rows: rows as i32,
            outputs: outputs as i32,
            output_stride: stride as i32,
            gemms: gemms as i32,
            splits: shape.splits as i32,
            activation: shape.activation,
            ..GemmArguments::NONE
        };
        EpilogueArrays {
            bias: bias.map(|(place, values)| (place.address, values)),
            gates: gates.map(|gates| gates.map(|(place, values)| (place.address, values))),
            residual: residual.map(|(_, values)| values),
            arguments,
            output,
        }
    }

    fn epilogue(&self, activation: i32) -> Epilogue<'_> {
        Epilogue {
            bias: self.bias.as_ref().map(|(_, values)| values.as_slice()),
            activation,
            gates: self.gates.as_ref().map(|[(_, multiply), (_, add)]| (multiply.as_slice(), add.as_slice())),
            residual: self.residual.as_deref(),
        }
    }
}

fn gemm_case((family, element, suffix): (&'static str, ElementType, &str), shape: Shape, grid: Grid) -> Case {
    Case::new((family, element, suffix), shape.text(), shape.cost(), move |arena| {
        let Shape { rows, outputs, inputs, gemms, splits, gap, layout, .. } = shape;
        let stride = inputs + gap;
        // Nothing lies behind the last row.
        let (x, x_values) = arena.numbers(element, &noise(60, gemms * rows * stride - gap));
        let weights = Weights::new(arena, element, layout, (gemms, outputs, inputs), 61);
        let arrays = EpilogueArrays::new(arena, element, shape);
        let width = outputs.next_multiple_of(8);
        let partial = (splits > 1).then(|| arena.room(ElementType::Fp32, splits * gemms * rows * width));
        let arguments = GemmArguments {
            x: x.address,
            weights: weights.address,
            partial: partial.map_or(Address::NULL, |place| place.address),
            x_batch: (rows * stride) as i64,
            weights_batch: weights.batch as i64,
            inputs: inputs as i32,
            x_stride: stride as i32,
            weights_stride: weights.stride as i32,
            is_preshuffled: i32::from(weights.is_preshuffled),
            ..arrays.arguments
        };
        let factors = |gemm: usize, row: usize, column: usize| {
            let x = &x_values[(gemm * rows + row) * stride..][..inputs];
            (x, &weights.values[(gemm * outputs + column) * inputs..][..inputs])
        };
        let expected = match partial {
            Some(partial) => {
                let values = partial_sums((gemms, rows, width), inputs, (element, splits), factors);
                Expected::new(partial, ElementType::Fp32, values, PARTIAL_ERROR)
            }
            None => {
                let sum = |gemm: usize, row: usize, column: usize| {
                    let (x, w) = factors(gemm, row, column);
                    dot(x, w)
                };
                let epilogue = arrays.epilogue(shape.activation);
                let values = epilogue.results((gemms, rows), (outputs, outputs + gap), sum);
                Expected::new(arrays.output, element, values, allowed(element))
            }
        };
        Launch::new(grid, arguments, vec![expected])
    })
}

/// The sums of so many parts of the summed axis, `[splits][gemms][rows][outputs]`.
pub(super) fn partial_sums<'a>(
    (gemms, rows, outputs): (usize, usize, usize),
    inputs: usize,
    (element, splits): (ElementType, usize),
    factors: impl Fn(usize, usize, usize) -> (&'a [f64], &'a [f64]),
) -> Vec<f64> {
    let step = 64 / element.bytes();
    let part = inputs.div_ceil(step).div_ceil(splits) * step;
    let sum = |index: usize| {
        let (row, column) = (index / outputs, index % outputs);
        let (gemm, split) = (row / rows % gemms, row / rows / gemms);
        let (x, w) = factors(gemm, row % rows, column);
        let ends = (split * part).min(inputs)..((split + 1) * part).min(inputs);
        dot(&x[ends.clone()], &w[ends])
    };
    (0..splits * gemms * rows * outputs).map(sum).collect()
}

/// The end of GEMMs whose summed axis has several parts.
fn sum_case(element: ElementType, shape: Shape) -> Case {
    let results = shape.gemms * shape.rows * shape.outputs;
    let cost = cost(results * shape.splits, results);
    Case::new(("gemm_sum", element, ""), shape.text(), cost, move |arena| {
        let Shape { rows, outputs, gemms, splits, gap, .. } = shape;
        let width = outputs.next_multiple_of(8);
        let parts = noise(64, splits * gemms * rows * width);
        let (partial, parts) = arena.numbers(ElementType::Fp32, &parts);
        let arrays = EpilogueArrays::new(arena, element, shape);
        let arguments = GemmArguments { partial: partial.address, ..arrays.arguments };
        let sum = |gemm: usize, row: usize, column: usize| {
            let place = (gemm * rows + row) * width + column;
            parts.iter().skip(place).step_by(gemms * rows * width).sum()
        };
        let epilogue = arrays.epilogue(shape.activation);
        let values = epilogue.results((gemms, rows), (outputs, outputs + gap), sum);
        let expected = Expected::new(arrays.output, element, values, allowed(element));
        let blocks = (rows * width / 8).div_ceil(256);
        Launch::new(grid(blocks, gemms, 256), arguments, vec![expected])
    })
}
