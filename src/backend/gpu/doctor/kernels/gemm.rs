//! The products of any size.

use super::super::reference::rows::{Extras, Norm, layer_norm};
use super::arena::Expected;
use super::case::{Case, Trial, some};
use crate::gemm::chain::{self, Link};
use crate::gemm::own::{TileSize, tile_sizes};
use crate::network::layers::SQUARES as SQUARES_OF_A_BOARD;
use crate::network::preshuffle;
use crate::runtime::activations::activation;
use crate::runtime::ffi::arguments::{ChainArguments, GemmArguments, LayerNormArguments};
use crate::runtime::ffi::gemm::{ElementType, GemmOperands, GemmShape};
use crate::runtime::ffi::hip::Address;
use crate::runtime::kernels::grid;
use crate::runtime::numbers::{allowed, noise};

const NONE: i32 = 0;
const MISH: i32 = 6;
const SWISH: i32 = 7;

/// A product, and what follows it.
#[derive(Clone, Copy)]
struct Shape {
    rows: usize,
    outputs: usize,
    inputs: usize,
    products: usize,
    activation: i32,
    has_residual: bool,
    is_gated: bool,
    /// The number of elements between two rows of the input and of the output.
    gap: usize,
}

impl Shape {
    fn text(&self) -> String {
        let Shape { rows, outputs, inputs, products, activation, has_residual, is_gated, gap } = *self;
        let residual = if has_residual { ", residual" } else { "" };
        let gates = if is_gated { ", gates" } else { "" };
        format!(
            "{products} x {rows} rows, {inputs} inputs, {outputs} outputs, function {activation}, gaps of {gap}{gates}{residual}"
        )
    }
}

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    let plain = Shape {
        rows: 1,
        outputs: 8,
        inputs: 8,
        products: 1,
        activation: NONE,
        has_residual: false,
        is_gated: false,
        gap: 0,
    };
    let mut cases = Vec::new();
    for size in tile_sizes() {
        let shapes = vec![
            Shape {
                rows: 37,
                outputs: 72,
                inputs: 104,
                products: 2,
                activation: MISH,
                has_residual: true,
                gap: 8,
                ..plain
            },
            Shape { rows: 133, outputs: 88, inputs: 40, activation: MISH, is_gated: true, ..plain },
            Shape { rows: 133, outputs: 136, inputs: 96, gap: 16, ..plain },
            Shape { rows: 256, outputs: 256, inputs: 512, ..plain },
            Shape { rows: 5, outputs: 27, inputs: 40, activation: SWISH, ..plain },
            plain,
        ];
        cases.extend(some(shapes, is_quick, 2).into_iter().map(|shape| tile_case(element, size, shape)));
        // Many blocks that run at once show whether each of them sees what the others have written.
        let shapes = vec![(33, 1032), (600, 264)];
        cases.extend(some(shapes, is_quick, 1).into_iter().map(|shape| chain_case(element, size, shape)));
    }
    let any =
        Shape { outputs: 5, inputs: 27, products: 2, activation: MISH, has_residual: true, gap: 3, ..plain };
    let any = Shape { rows: 67, is_gated: true, ..any };
    cases.push(any_case(element, any));
    cases.push(sum_case(
        element,
        Shape { rows: 21, outputs: 27, products: 2, activation: SWISH, ..plain },
        3,
    ));
    if element == ElementType::Fp16 {
        let shapes = some(vec![(40, 56, 2), (16, 32, 1), (5, 264, 3)], is_quick, 1);
        cases.extend(shapes.into_iter().map(preshuffle_case));
    }
    cases
}

/// The weights of some products of `outputs` x `inputs` in the order of `kernels.h`: pieces of 32 inputs of 16 outputs.
fn preshuffle_case((outputs, inputs, products): (usize, usize, usize)) -> Case {
    const PIECE: usize = 32;
    const ROWS: usize = 16;
    let element = ElementType::Fp16;
    let text = format!("{products} x {outputs} outputs, {inputs} inputs");
    let case = Case::new((preshuffle::KERNEL, element, ""), text, move |arena, function| {
        let stride = inputs + 8;
        let (weights, values) = arena.numbers(element, &noise(66, products * outputs * stride));
        let (pieces, blocks) = (inputs.div_ceil(PIECE), outputs.div_ceil(ROWS));
        let of_a_product = blocks * pieces * ROWS * PIECE;
        // What lies beyond the outputs and the inputs is zero.
        let value = |index: usize| {
            let (product, place) = (index / of_a_product, index % of_a_product);
            let piece = place / (ROWS * PIECE);
            let output = piece / pieces * ROWS + place / PIECE % ROWS;
            let input = piece % pieces * PIECE + place % PIECE;
            let is_there = output < outputs && input < inputs;
            if is_there { values[(product * outputs + output) * stride + input] } else { 0.0 }
        };
        let output = arena.room(element, products * of_a_product);
        let shape = GemmShape {
            batch: products,
            batch_strides: [outputs * stride, 0, 0],
            weights_stride: stride,
            ..GemmShape::plain(1, outputs, inputs, element)
        };
        let step = preshuffle::step(function, &shape, weights.address, output.address);
        let values = (0..products * of_a_product).map(value).collect();
        Trial { step, expected: vec![Expected { place: output, element, values, allowed: 1e-9 }] }
    });
    case.typeless()
}

fn tile_case(element: ElementType, size: TileSize, shape: Shape) -> Case {
    let TileSize { rows, columns, threads } = size;
    let suffix = format!("_{rows}x{columns}_{threads}");
    let blocks = shape.rows.div_ceil(rows) * shape.outputs.div_ceil(columns);
    product(("gemm", element, &suffix), shape, (blocks, threads)).optional()
}

/// The rows of the first product of a chain for each row of the other two, as smolgen reads the squares of a board.
const SQUARES: usize = 16;

/// Three products in a row, with the sizes of smolgen's layers in small. The first has [`SQUARES`] times the rows of the
/// others; LayerNorms follow the second and the third. The shape is the rows and outputs of the last one.
fn chain_case(element: ElementType, size: TileSize, (rows, outputs): (usize, usize)) -> Case {
    let suffix = format!("_{}x{}_{}", size.rows, size.columns, size.threads);
    let text = format!("{rows} rows, {outputs} outputs, LayerNorms");
    let case = Case::new(("gemm_chain", element, &suffix), text, move |arena, function| {
        let (alpha, epsilon) = (0.75, 1e-3);
        let (x, mut values) = arena.numbers(element, &noise(65, SQUARES * rows * 40));
        let mut input = (x.address, 40);
        let mut links = Vec::new();
        let mut expected = Vec::new();
        for (number, (link_rows, width)) in
            [(SQUARES * rows, 8), (rows, 72), (rows, outputs)].into_iter().enumerate()
        {
            let seed = 70 + 10 * number as u32;
            let inputs = input.1;
            let scale = 2.0 / (inputs as f32).sqrt();
            let scaled: Vec<f32> = noise(seed, width * inputs).iter().map(|x| x * scale).collect();
            let (weights, w) = arena.numbers(element, &scaled);
            let (residual, added) = arena.numbers(element, &noise(seed + 1, link_rows * width));
            let (gammas, gamma_values) = arena.numbers(element, &noise(seed + 2, width));
            let (betas, beta_values) = arena.numbers(element, &noise(seed + 3, width));
            let product = arena.room(element, link_rows * width);
            let sum = |index: usize| {
                let x = &values[index / width * inputs..][..inputs];
                let w = &w[index % width * inputs..][..inputs];
                x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>()
            };
            let sums: Vec<f64> = (0..link_rows * width).map(sum).collect();
            // Each link reads numbers that the one before has rounded.
            let allowed = (1 + number) as f64 * allowed(element);
            let operands = GemmOperands::plain(weights.address, input.0, product.address);
            let shape = GemmShape::plain(link_rows, width, inputs, element);
            let mut link = Link { shape, operands, bias: Address::NULL, norm: None };
            expected.push(Expected { place: product, element, values: sums.clone(), allowed });
            (values, input) = (sums, (product.address, SQUARES * width));
            if number > 0 {
                let output = arena.room(element, link_rows * width);
                link.norm = Some(LayerNormArguments {
                    input: product.address,
                    residual: residual.address,
                    gammas: gammas.address,
                    betas: betas.address,
                    output: output.address,
                    rows: link_rows as i32,
                    width: width as i32,
                    alpha,
                    epsilon,
                    ..LayerNormArguments::NONE
                });
                let norm = Norm {
                    gammas: &gamma_values,
                    betas: &beta_values,
                    residual: Some(&added),
                    alpha: f64::from(alpha),
                    epsilon: f64::from(epsilon),
                };
                values = layer_norm(&values, norm, Extras::default());
                expected.push(Expected {
                    place: output,
                    element,
                    values: values.clone(),
                    allowed: 2.0 * allowed,
                });
                input = (output.address, width);
            }
            links.push(link);
        }
        let chain = chain::lay_out(&links, &[1; 3], size);
        let counters = arena.put(&vec![0; 4 * chain.counters]).address;
        let arguments = ChainArguments { counters, ..chain.arguments };
        Trial::new(function, grid(chain.blocks, 1, size.threads), arguments, expected)
    });
    case.optional()
}

fn any_case(element: ElementType, shape: Shape) -> Case {
    let blocks = shape.rows.div_ceil(16) * shape.outputs.div_ceil(16);
    product(("gemm_any", element, ""), shape, (blocks, 256))
}

fn product(
    (family, element, suffix): (&'static str, ElementType, &str),
    shape: Shape,
    (blocks, threads): (usize, u32),
) -> Case {
    Case::new((family, element, suffix), shape.text(), move |arena, function| {
        let Shape { rows, outputs, inputs, products, activation: code, has_residual, is_gated, gap } = shape;
        let (stride, output_stride) = (inputs + gap, outputs + gap);
        let scale = 2.0 / (inputs as f32).sqrt();
        let scaled: Vec<f32> = noise(61, products * outputs * inputs).iter().map(|x| x * scale).collect();
        let (x, x_values) = arena.numbers(element, &noise(60, products * rows * stride));
        let (weights, w) = arena.numbers(element, &scaled);
        let (bias, bias_values) = arena.numbers(element, &noise(62, outputs));
        let (residual, added) = arena.numbers(element, &noise(63, products * rows * output_stride));
        let gate_count = SQUARES_OF_A_BOARD * output_stride;
        let [(multiply, factors), (add, offsets)] =
            [67, 68].map(|seed| arena.numbers(element, &noise(seed, gate_count)));
        let gate = |place: Address| if is_gated { place } else { Address::NULL };
        let output = arena.room(element, products * rows * output_stride);
        let arguments = GemmArguments {
            x: x.address,
            weights: weights.address,
            bias: bias.address,
            multiply: gate(multiply.address),
            add: gate(add.address),
            residual: if has_residual { residual.address } else { Address::NULL },
            x_batch: (rows * stride) as i64,
            weights_batch: (outputs * inputs) as i64,
            inputs: inputs as i32,
            x_stride: stride as i32,
            weights_stride: inputs as i32,
            ..arguments(output.address, shape)
        };
        let value = |index: usize| {
            let (row, column) = (index / output_stride, index % output_stride);
            if column >= outputs {
                return f64::NAN;
            }
            let x = &x_values[row * stride..][..inputs];
            let w = &w[(row / rows * outputs + column) * inputs..][..inputs];
            let sum: f64 = x.iter().zip(w).map(|(x, w)| x * w).sum();
            let residual = if has_residual { added[index] } else { 0.0 };
            let result = activation(code, sum + bias_values[column]);
            let gate = row % rows % SQUARES_OF_A_BOARD * output_stride + column;
            let gated = if is_gated { result * factors[gate] + offsets[gate] } else { result };
            gated + residual
        };
        let values = (0..products * rows * output_stride).map(value).collect();
        let expected = Expected { place: output, element, values, allowed: allowed(element) };
        Trial::new(function, grid(blocks, products, threads), arguments, vec![expected])
    })
}

/// The sum of `splits` parts of a product.
fn sum_case(element: ElementType, shape: Shape, splits: usize) -> Case {
    let text = format!("{splits} parts of {}", shape.text());
    Case::new(("gemm_sum", element, ""), text, move |arena, function| {
        let Shape { rows, outputs, products, activation: code, .. } = shape;
        let width = outputs.next_multiple_of(8);
        let parts = noise(64, splits * products * rows * width);
        let (partial, values) = arena.numbers(ElementType::Fp32, &parts);
        let output = arena.room(element, products * rows * outputs);
        let arguments = GemmArguments {
            partial: partial.address,
            splits: splits as i32,
            ..arguments(output.address, shape)
        };
        let value = |index: usize| {
            let place = index / outputs * width + index % outputs;
            let parts = values.iter().skip(place).step_by(products * rows * width);
            activation(code, parts.sum())
        };
        let values = (0..products * rows * outputs).map(value).collect();
        let expected = Expected { place: output, element, values, allowed: allowed(element) };
        let blocks = (rows * width / 8).div_ceil(256);
        Trial::new(function, grid(blocks, products, 256), arguments, vec![expected])
    })
}

/// The arguments that all of these kernels read. The addresses of the factors are null.
fn arguments(output: Address, shape: Shape) -> GemmArguments {
    let Shape { rows, outputs, products, activation, gap, .. } = shape;
    GemmArguments {
        output,
        output_batch: (rows * (outputs + gap)) as i64,
        rows: rows as i32,
        outputs: outputs as i32,
        output_stride: (outputs + gap) as i32,
        products: products as i32,
        activation,
        ..GemmArguments::NONE
    }
}
