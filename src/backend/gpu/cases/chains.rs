//! Chains of up to three GEMMs and LayerNorms, with weights of the elements' type or of 8 bits.

use super::arena::{Arena, Expected, PARTIAL_ERROR, Place, allowed};
use super::case::{Case, Launch, cost, some};
use super::gemm::partial_sums;
use super::reference::gemms::{Epilogue, dot, rounded};
use super::reference::rows::{Extras, Norm, layer_norm};
use super::weights::{Layout, Weights};
use crate::gemm::chain::{self, Link};
use crate::gemm::own::{TileSize, tile_sizes};
use crate::network::layers::SQUARES;
use crate::runtime::activations::{MISH, NONE};
use crate::runtime::ffi::arguments::{ChainArguments, LONGEST_CHAIN, LayerNormArguments};
use crate::runtime::ffi::gemm::{ElementType, GemmOperands, GemmShape, WeightLayout};
use crate::runtime::ffi::hip::Address;
use crate::runtime::kernels::grid;
use crate::runtime::numbers::noise;

/// The outputs of the first two links.
const FIRST_OUTPUTS: usize = 8;
const SECOND_OUTPUTS: usize = 72;

/// Three GEMMs in a row, with the sizes of smolgen's layers in small. LayerNorms follow the second and the third.
#[derive(Clone, Copy)]
struct Chain {
    /// The rows of the second and the third link.
    rows: usize,
    /// The rows of the first link for each row of the others, as smolgen reads the squares of a board.
    squares: usize,
    inputs: usize,
    /// The outputs of the last link. Whole blocks normalise rows of more than 1024.
    outputs: usize,
    /// The parts of the summed axis of each link. All kernels begin parts in the same places: see `gemm.rs`.
    splits: [usize; LONGEST_CHAIN],
    /// Whether the LayerNorms have a bias, a function, gates, and the residual as their output.
    is_full: bool,
}

const PLAIN: Chain =
    Chain { rows: 33, squares: 16, inputs: 40, outputs: 264, splits: [1; LONGEST_CHAIN], is_full: false };

impl Chain {
    fn text(&self) -> String {
        let Chain { rows, squares, inputs, outputs, splits: [a, b, c], is_full } = *self;
        let norms = if is_full { "LayerNorms with all" } else { "LayerNorms" };
        format!("{rows} x {squares} rows, {inputs} inputs, {outputs} outputs, {a} {b} {c} parts, {norms}")
    }

    fn cost(&self) -> usize {
        let Chain { rows, squares, inputs, outputs, .. } = *self;
        let first = squares * FIRST_OUTPUTS;
        let multiply_adds = rows * (first * (inputs + SECOND_OUTPUTS) + SECOND_OUTPUTS * outputs);
        cost(multiply_adds, rows * (first + 2 * SECOND_OUTPUTS + 2 * outputs))
    }
}

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    // fp32 has no chains.
    if element == ElementType::Fp32 {
        return Vec::new();
    }
    let mut cases = Vec::new();
    for size in tile_sizes() {
        let edge = Chain { rows: size.rows + 5, is_full: true, ..PLAIN };
        let shapes = vec![
            Chain { outputs: 1032, ..PLAIN },
            // Many blocks that run at once show whether each of them sees what the others have written.
            Chain { rows: 600, ..PLAIN },
            Chain { squares: 2, outputs: 88, ..edge },
            Chain { rows: 5, squares: 4, inputs: 264, outputs: 1032, splits: [5, 1, 1], ..edge },
            Chain { squares: 1, outputs: 136, ..edge },
            Chain { rows: 33, inputs: 256, outputs: 40, splits: [2, 2, 1], ..edge },
            Chain { squares: 64, outputs: 1032, ..edge },
        ];
        cases.extend(
            some(shapes.clone(), is_quick, 1).into_iter().map(|shape| case(element, size, shape, false)),
        );
        let shapes =
            [Chain { outputs: 520, rows: 300, ..PLAIN }].into_iter().chain(shapes.into_iter().skip(2));
        let shapes = some(shapes.collect(), is_quick, 1).into_iter();
        cases.extend(shapes.map(|shape| case(element, size, shape, true)));
    }
    cases
}

/// A LayerNorm of so many rows whose input is `gemm`: its arguments, and what it computes of given sums.
fn norm(
    arena: &mut Arena,
    element: ElementType,
    (rows, width): (usize, usize),
    gemm: Address,
    is_full: bool,
    seed: u32,
) -> (LayerNormArguments, Place, impl Fn(&[f64]) -> Vec<f64> + use<>) {
    let (alpha, epsilon) = (0.75_f32, 1e-3_f32);
    let mut numbers = |seed: u32, count: usize| arena.numbers(element, &noise(seed, count));
    let (residual, added) = numbers(seed + 1, rows * width);
    let (gammas, gamma_values) = numbers(seed + 2, width);
    let (betas, beta_values) = numbers(seed + 3, width);
    let more = is_full.then(|| {
        [numbers(seed + 4, width), numbers(seed + 5, SQUARES * width), numbers(seed + 6, SQUARES * width)]
    });
    let output = if is_full { residual } else { arena.room(element, rows * width) };
    let [bias, multiply, add] = match &more {
        Some(more) => [0, 1, 2].map(|i| more[i].0.address),
        None => [Address::NULL; 3],
    };
    let activation = if is_full { MISH } else { NONE };
    let arguments = LayerNormArguments {
        input: gemm,
        bias,
        residual: residual.address,
        gammas: gammas.address,
        betas: betas.address,
        multiply,
        add,
        output: output.address,
        rows: rows as i32,
        width: width as i32,
        bias_rows: 1,
        activation,
        alpha,
        epsilon,
    };
    let compute = move |sums: &[f64]| {
        let norm = Norm {
            gammas: &gamma_values,
            betas: &beta_values,
            residual: Some(&added),
            alpha: f64::from(alpha),
            epsilon: f64::from(epsilon),
        };
        let extras = match &more {
            Some([(_, bias), (_, multiply), (_, add)]) => {
                Extras { bias: Some(bias), bias_rows: 1, gates: Some((multiply, add)), activation }
            }
            None => Extras::default(),
        };
        layer_norm(sums, norm, extras)
    };
    (arguments, output, compute)
}

fn case(element: ElementType, size: TileSize, shape: Chain, is_of_bytes: bool) -> Case {
    let suffix = size.suffix();
    let family = if is_of_bytes { "gemm_chain_byte_weights" } else { "gemm_chain" };
    let case = Case::new((family, element, &suffix), shape.text(), shape.cost(), move |arena| {
        let Chain { rows, squares, inputs, outputs, splits, is_full } = shape;
        let (x, mut values) = arena.numbers(element, &noise(65, squares * rows * inputs));
        let mut input = (x.address, inputs);
        let (mut links, mut expected, mut partials) = (Vec::new(), Vec::new(), Vec::new());
        let sizes = [(squares * rows, FIRST_OUTPUTS), (rows, SECOND_OUTPUTS), (rows, outputs)];
        for (number, (link_rows, width)) in sizes.into_iter().enumerate() {
            let (seed, inputs) = (70 + 10 * number as u32, input.1);
            let layout = if is_of_bytes { Layout::Bytes } else { Layout::Plain(0) };
            let weights = Weights::new(arena, element, layout, (1, width, inputs), seed);
            let gemm = arena.room(element, link_rows * width);
            let factors = |_: usize, row: usize, column: usize| {
                (&values[row * inputs..][..inputs], &weights.values[column * inputs..][..inputs])
            };
            let sum = |gemm: usize, row: usize, column: usize| {
                let (x, w) = factors(gemm, row, column);
                dot(x, w)
            };
            let sums = Epilogue::default().results((1, link_rows), (width, width), sum);
            if splits[number] > 1 {
                let parts = (element, splits[number]);
                partials.push(partial_sums((1, link_rows, width), inputs, parts, factors));
            } else {
                partials.push(Vec::new());
            }
            // Each link reads numbers that the one before has rounded.
            let allowed = (1 + number) as f64 * allowed(element);
            let plain = GemmOperands::plain(weights.address, input.0, gemm.address);
            let weight_layout = if is_of_bytes { WeightLayout::Bytes } else { WeightLayout::Plain };
            let operands = GemmOperands { layout: weight_layout, ..plain };
            let shape = GemmShape::plain(link_rows, width, inputs, element);
            let mut link = Link { shape, operands, bias: Address::NULL, norm: None };
            values = rounded(element, &sums);
            input = (gemm.address, squares * width);
            expected.push(Expected::new(gemm, element, sums, allowed));
            if number > 0 {
                let size = (link_rows, width);
                let (arguments, output, compute) = norm(arena, element, size, gemm.address, is_full, seed);
                link.norm = Some(arguments);
                let normalised = compute(&values);
                values = rounded(element, &normalised);
                expected.push(Expected::new(output, element, normalised, 2.0 * allowed));
                input = (output.address, width);
            }
            links.push(link);
        }
        let chain = chain::lay_out(&links, &splits, size);
        let counters = arena.put(&vec![0; 4 * chain.counters]).address;
        let partials: Vec<f64> = partials.concat();
        let mut arguments = ChainArguments { counters, ..chain.arguments };
        if !partials.is_empty() {
            let workspace = arena.room(ElementType::Fp32, partials.len());
            // Sums after the first link change with numbers that the link before has rounded in the other way.
            let read_rounded = splits.iter().skip(1).any(|&splits| splits > 1);
            let allowed = PARTIAL_ERROR + if read_rounded { allowed(element) / 4.0 } else { 0.0 };
            expected.push(Expected::new(workspace, ElementType::Fp32, partials, allowed));
            arguments.workspace = workspace.address;
        }
        Launch::new(grid(chain.blocks, 1, size.threads), arguments, expected)
    });
    case.optional()
}
