//! The products with weights of 8 bits.

use super::arena::{Arena, Expected};
use super::case::{Case, Trial, some};
use crate::gemm::chain::{self, Link};
use crate::gemm::own::{TileSize, product_arguments, tile_sizes};
use crate::network::byte_weights::{after_rounding, rounded};
use crate::runtime::activations::activation;
use crate::runtime::ffi::arguments::ChainArguments;
use crate::runtime::ffi::gemm::{ElementType, Epilogue, GemmOperands, GemmShape, WeightLayout};
use crate::runtime::ffi::hip::Address;
use crate::runtime::kernels::grid;
use crate::runtime::numbers::{allowed, encode, noise};

const MISH: i32 = 6;

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    // fp32 has no such kernels.
    if element == ElementType::Fp32 {
        return Vec::new();
    }
    let of_size = |size: TileSize| {
        let shapes = some(vec![(37, 72, 104), (1, 27, 40), (512, 256, 512)], is_quick, 1);
        let products = shapes.into_iter().map(move |shape| product_case(element, size, shape));
        let shapes = some(vec![(33, 264), (300, 520)], is_quick, 1);
        products.chain(shapes.into_iter().map(move |shape| chain_case(element, size, shape)))
    };
    tile_sizes().into_iter().flat_map(of_size).collect()
}

/// The rounded weights of a layer in the arena, and their values.
fn weights(arena: &mut Arena, shape: &GemmShape, seed: u32) -> (Address, Vec<f64>) {
    let GemmShape { outputs, inputs, input_type, .. } = *shape;
    let scale = 2.0 / (inputs as f32).sqrt();
    let scaled: Vec<f32> = noise(seed, outputs * inputs).iter().map(|number| number * scale).collect();
    let (plain, values) = encode(input_type, &scaled);
    let address = arena.put(&rounded(shape, &plain)).address;
    (address, values.chunks_exact(inputs).flat_map(after_rounding).collect())
}

/// The sum over k of `x[index / outputs][k] * w[index % outputs][k]`.
fn sum(x: &[f64], w: &[f64], (outputs, inputs): (usize, usize), index: usize) -> f64 {
    let (x, w) = (&x[index / outputs * inputs..][..inputs], &w[index % outputs * inputs..][..inputs]);
    x.iter().zip(w).map(|(x, w)| x * w).sum()
}

fn operands(x: Address, weights: Address, y: Address) -> GemmOperands {
    GemmOperands { layout: WeightLayout::Bytes, ..GemmOperands::plain(weights, x, y) }
}

fn product_case(
    element: ElementType,
    size: TileSize,
    (rows, outputs, inputs): (usize, usize, usize),
) -> Case {
    let TileSize { rows: tile_rows, columns, threads } = size;
    let suffix = format!("_{tile_rows}x{columns}_{threads}");
    let text = format!("{rows} rows, {inputs} inputs, {outputs} outputs");
    let case = Case::new(("gemm_byte_weights", element, &suffix), text, move |arena, function| {
        let epilogue = Epilogue::BiasMish;
        let shape = GemmShape { epilogue, ..GemmShape::plain(rows, outputs, inputs, element) };
        let (x, x_values) = arena.numbers(element, &noise(96, rows * inputs));
        let (weights, w) = weights(arena, &shape, 97);
        let (bias, biases) = arena.numbers(element, &noise(98, outputs));
        let output = arena.room(element, rows * outputs);
        let operands = operands(x.address, weights, output.address);
        let arguments = product_arguments(&shape, operands, bias.address, 1);
        let value = |index: usize| {
            activation(MISH, sum(&x_values, &w, (outputs, inputs), index) + biases[index % outputs])
        };
        let values = (0..rows * outputs).map(value).collect();
        let expected = Expected { place: output, element, values, allowed: allowed(element) };
        let tiles = rows.div_ceil(tile_rows) * outputs.div_ceil(columns);
        Trial::new(function, grid(tiles, 1, threads), arguments, vec![expected])
    });
    case.optional()
}

/// Two products in a row, the second of which has so many outputs.
fn chain_case(element: ElementType, size: TileSize, (rows, outputs): (usize, usize)) -> Case {
    let suffix = format!("_{}x{}_{}", size.rows, size.columns, size.threads);
    let text = format!("{rows} rows, {outputs} outputs");
    let case = Case::new(("gemm_chain_byte_weights", element, &suffix), text, move |arena, function| {
        const INPUTS: usize = 40;
        let (x, mut values) = arena.numbers(element, &noise(99, rows * INPUTS));
        let (mut input, mut inputs) = (x.address, INPUTS);
        let (mut links, mut expected) = (Vec::new(), Vec::new());
        for (number, width) in [72, outputs].into_iter().enumerate() {
            let shape = GemmShape::plain(rows, width, inputs, element);
            let (weights, w) = weights(arena, &shape, 100 + number as u32);
            let output = arena.room(element, rows * width);
            let operands = operands(input, weights, output.address);
            links.push(Link { shape, operands, bias: Address::NULL, norm: None });
            values = (0..rows * width).map(|index| sum(&values, &w, (width, inputs), index)).collect();
            // The second link reads numbers that the first has rounded.
            let allowed = (1 + number) as f64 * allowed(element);
            (input, inputs) = (output.address, width);
            expected.push(Expected { place: output, element, values: values.clone(), allowed });
        }
        let chain = chain::lay_out(&links, &[1; 2], size);
        let counters = arena.put(&vec![0; 4 * chain.counters]).address;
        let arguments = ChainArguments { counters, ..chain.arguments };
        Trial::new(function, grid(chain.blocks, 1, size.threads), arguments, expected)
    });
    case.optional()
}
