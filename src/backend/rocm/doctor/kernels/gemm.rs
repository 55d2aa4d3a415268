//! The products of any size.

use super::super::super::activations::activation;
use super::super::super::ffi::arguments::{GemmArguments, LayerNormArguments};
use super::super::super::ffi::gemm::ElementType;
use super::super::super::ffi::hip::Address;
use super::super::super::kernels::grid;
use super::super::super::numbers::{allowed, noise};
use super::super::super::own::{TileSize, tile_sizes};
use super::super::reference::rows::{Extras, Norm, layer_norm};
use super::arena::Expected;
use super::case::{Case, Trial, some};

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
    /// The number of elements between two rows of the input and of the output.
    gap: usize,
}

impl Shape {
    fn text(&self) -> String {
        let Shape { rows, outputs, inputs, products, activation, has_residual, gap } = *self;
        let residual = if has_residual { ", residual" } else { "" };
        format!(
            "{products} x {rows} rows, {inputs} inputs, {outputs} outputs, function {activation}, gaps of {gap}{residual}"
        )
    }
}

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    let plain =
        Shape { rows: 1, outputs: 8, inputs: 8, products: 1, activation: NONE, has_residual: false, gap: 0 };
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
            },
            Shape { rows: 133, outputs: 136, inputs: 96, gap: 16, ..plain },
            Shape { rows: 256, outputs: 256, inputs: 512, ..plain },
            Shape { rows: 5, outputs: 27, inputs: 40, activation: SWISH, ..plain },
            plain,
        ];
        cases.extend(some(shapes, is_quick, 2).into_iter().map(|shape| tile_case(element, size, shape)));
        // Many blocks that run at once show whether the last one sees what the others have written.
        let shapes = vec![(70, 1024, 40), (1030, 264, 64)];
        cases.extend(some(shapes, is_quick, 1).into_iter().map(|shape| norm_case(element, size, shape)));
    }
    let any =
        Shape { rows: 19, outputs: 5, inputs: 27, products: 2, activation: MISH, has_residual: true, gap: 3 };
    cases.push(any_case(element, any));
    cases.push(sum_case(
        element,
        Shape { rows: 21, outputs: 27, products: 2, activation: SWISH, ..plain },
        3,
    ));
    cases
}

fn tile_case(element: ElementType, size: TileSize, shape: Shape) -> Case {
    let TileSize { rows, columns, threads } = size;
    let suffix = format!("_{rows}x{columns}_{threads}");
    let blocks = shape.rows.div_ceil(rows) * shape.outputs.div_ceil(columns);
    product(("gemm", element, &suffix), shape, (blocks, threads)).optional()
}

/// A product and the LayerNorm of its rows, by the last block of each row of tiles. The shape is rows, outputs, inputs.
fn norm_case(element: ElementType, size: TileSize, (rows, outputs, inputs): (usize, usize, usize)) -> Case {
    let suffix = format!("_{}x{}_{}", size.rows, size.columns, size.threads);
    let text = format!("{rows} rows, {inputs} inputs, {outputs} outputs, LayerNorm");
    let case = Case::new(("gemm", element, &suffix), text, move |arena, function| {
        let scale = 2.0 / (inputs as f32).sqrt();
        let scaled: Vec<f32> = noise(66, outputs * inputs).iter().map(|x| x * scale).collect();
        let (x, x_values) = arena.numbers(element, &noise(65, rows * inputs));
        let (weights, w) = arena.numbers(element, &scaled);
        let (residual, added) = arena.numbers(element, &noise(67, rows * outputs));
        let (gammas, gamma_values) = arena.numbers(element, &noise(68, outputs));
        let (betas, beta_values) = arena.numbers(element, &noise(69, outputs));
        let tiles_down = rows.div_ceil(size.rows);
        let counters = arena.put(&vec![0; 4 * tiles_down]);
        let product = arena.room(element, rows * outputs);
        let output = arena.room(element, rows * outputs);
        let (alpha, epsilon) = (0.75, 1e-3);
        let plain =
            Shape { rows, outputs, inputs, products: 1, activation: NONE, has_residual: false, gap: 0 };
        let arguments = GemmArguments {
            x: x.address,
            weights: weights.address,
            inputs: inputs as i32,
            x_stride: inputs as i32,
            weights_stride: inputs as i32,
            counters: counters.address,
            norm: LayerNormArguments {
                input: product.address,
                residual: residual.address,
                gammas: gammas.address,
                betas: betas.address,
                output: output.address,
                rows: rows as i32,
                width: outputs as i32,
                alpha,
                epsilon,
                ..LayerNormArguments::NONE
            },
            ..arguments(product.address, plain)
        };
        let sum = |index: usize| {
            let x = &x_values[index / outputs * inputs..][..inputs];
            let w = &w[index % outputs * inputs..][..inputs];
            x.iter().zip(w).map(|(x, w)| x * w).sum::<f64>()
        };
        let sums: Vec<f64> = (0..rows * outputs).map(sum).collect();
        let norm = Norm {
            gammas: &gamma_values,
            betas: &beta_values,
            residual: Some(&added),
            alpha: f64::from(alpha),
            epsilon: f64::from(epsilon),
        };
        let values = layer_norm(&sums, norm, Extras::default());
        let allowed = allowed(element);
        let expected = vec![
            Expected { place: product, element, values: sums, allowed },
            // The product is rounded before it is normalised.
            Expected { place: output, element, values, allowed: 2.0 * allowed },
        ];
        let blocks = tiles_down * outputs.div_ceil(size.columns);
        Trial::new(function, grid(blocks, 1, size.threads), arguments, expected)
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
        let Shape { rows, outputs, inputs, products, activation: code, has_residual, gap } = shape;
        let (stride, output_stride) = (inputs + gap, outputs + gap);
        let scale = 2.0 / (inputs as f32).sqrt();
        let scaled: Vec<f32> = noise(61, products * outputs * inputs).iter().map(|x| x * scale).collect();
        let (x, x_values) = arena.numbers(element, &noise(60, products * rows * stride));
        let (weights, w) = arena.numbers(element, &scaled);
        let (bias, bias_values) = arena.numbers(element, &noise(62, outputs));
        let (residual, added) = arena.numbers(element, &noise(63, products * rows * output_stride));
        let output = arena.room(element, products * rows * output_stride);
        let arguments = GemmArguments {
            x: x.address,
            weights: weights.address,
            bias: bias.address,
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
            activation(code, sum + bias_values[column]) + residual
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
    let null = Address::NULL;
    GemmArguments {
        x: null,
        weights: null,
        output,
        bias: null,
        residual: null,
        partial: null,
        x_batch: 0,
        weights_batch: 0,
        output_batch: (rows * (outputs + gap)) as i64,
        rows: rows as i32,
        outputs: outputs as i32,
        inputs: 0,
        x_stride: 0,
        weights_stride: 0,
        output_stride: (outputs + gap) as i32,
        products: products as i32,
        splits: 1,
        activation,
        reserved: 0,
        counters: null,
        norm: LayerNormArguments::NONE,
    }
}
