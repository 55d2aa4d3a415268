//! Elementwise functions, LayerNorm and softmax.

use super::arena::{Arena, Expected, Place, allowed};
use super::case::{Case, Launch, cost, some};
use super::reference::rows::{Extras, Norm, elementwise, layer_norm, softmax};
use crate::network::layers::SQUARES;
use crate::runtime::ffi::arguments::{ActivationArguments, LayerNormArguments};
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::Address;
use crate::runtime::kernels::grid;
use crate::runtime::numbers::noise;

/// The size from which probabilities have relative errors.
const LEAST_PROBABILITY: f64 = 1e-3;

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    let mut cases: Vec<Case> =
        (0..8).map(|code| activation_case(element, (67, 40), with_bias(code))).collect();
    let gated = With { bias_rows: 64, has_gates: true, is_in_place: true, ..with_bias(6) };
    let wide = With { is_in_place: true, ..with_bias(6) };
    let shapes =
        vec![((130, 96), gated), ((1, 8), With::default()), ((640, 1536), wide), ((192, 4096), with_bias(7))];
    let gates = |activation: i32| With { has_gates: true, bias_rows: 64, ..with_bias(activation) };
    let shapes = [shapes, vec![((70, 40), gates(0)), ((7, 24), gates(2)), ((130, 40), gates(4))]].concat();
    cases.extend(
        some(shapes, is_quick, 2).into_iter().map(|(shape, with)| activation_case(element, shape, with)),
    );
    let plain = With::default();
    let joined = With { bias_rows: 1, has_residual: true, is_in_place: true, ..plain };
    let all = With { has_gates: true, activation: 6, ..joined };
    // A bias and gates for each square, a residual apart, and numbers far from zero.
    let squares = With { bias_rows: 64, activation: 7, is_in_place: false, ..all };
    let far = With { mean: 100.0, is_in_place: false, ..joined };
    let alone = With { has_residual: false, activation: 6, ..far };
    for (limit, shapes) in [
        (
            256,
            vec![
                ((13, 200), all),
                ((1, 8), plain),
                ((640, 256), joined),
                ((130, 248), squares),
                ((1, 64), alone),
            ],
        ),
        (512, vec![((9, 264), all), ((640, 512), joined), ((8, 264), far), ((9, 512), squares)]),
        (768, vec![((5, 520), all), ((640, 768), joined), ((17, 768), squares)]),
        (1024, vec![((3, 776), all), ((640, 1024), joined), ((1, 1024), plain), ((2, 776), alone)]),
        (
            8192,
            vec![
                ((3, 1032), all),
                ((67, 1536), joined),
                ((2, 8192), plain),
                ((2, 1032), far),
                ((1, 6144), squares),
            ],
        ),
    ] {
        let shapes = some(shapes, is_quick, 1);
        cases.extend(shapes.into_iter().map(|(shape, with)| layer_norm_case(element, limit, shape, with)));
    }
    let shapes = vec![(3, 1858), (5, 13), (1, 8), (13, 200), (70, 4096), (9, 64), (11, 77), (2, 4096)];
    cases.extend(some(shapes, is_quick, 2).into_iter().map(|shape| softmax_case(element, shape)));
    cases
}

/// What a kernel gets besides its input.
#[derive(Clone, Copy, Default)]
struct With {
    /// The number of rows of the bias; 0 for none.
    bias_rows: usize,
    has_gates: bool,
    has_residual: bool,
    /// Whether the output is the residual, or the input if there is no residual.
    is_in_place: bool,
    activation: i32,
    /// What is added to the input of a LayerNorm.
    mean: f32,
}

fn with_bias(activation: i32) -> With {
    With { bias_rows: 1, activation, ..With::default() }
}

impl With {
    fn text(self, (rows, width): (usize, usize)) -> String {
        let With { bias_rows, has_gates, has_residual, is_in_place, activation, mean } = self;
        let mut text = format!("{rows} x {width}, function {activation}");
        if bias_rows > 0 {
            text += &format!(", {bias_rows} x bias");
        }
        for (is_there, name) in
            [(has_residual, ", residual"), (has_gates, ", gates"), (is_in_place, ", in place")]
        {
            text += if is_there { name } else { "" };
        }
        if mean != 0.0 { format!("{text}, around {mean}") } else { text }
    }
}

/// The bias and the gates of a launch: their addresses, and their numbers.
struct Operands {
    bias: (Address, Vec<f64>),
    gates: [(Address, Vec<f64>); 2],
}

impl Operands {
    fn new(arena: &mut Arena, element: ElementType, width: usize, with: With) -> Operands {
        let mut array = |is_there: bool, seed: u32, rows: usize| {
            if !is_there {
                return (Address::NULL, Vec::new());
            }
            let (place, numbers) = arena.numbers(element, &noise(seed, rows * width));
            (place.address, numbers)
        };
        Operands {
            bias: array(with.bias_rows > 0, 11, with.bias_rows),
            gates: [array(with.has_gates, 12, SQUARES), array(with.has_gates, 13, SQUARES)],
        }
    }

    fn extras(&self, with: With) -> Extras<'_> {
        let [multiply, add] = &self.gates;
        Extras {
            bias: (with.bias_rows > 0).then_some(&self.bias.1),
            bias_rows: with.bias_rows,
            gates: with.has_gates.then_some((&multiply.1, &add.1)),
            activation: with.activation,
        }
    }
}

/// The place of the output: `input` if the launch is in place, or new memory.
fn output(arena: &mut Arena, element: ElementType, count: usize, in_place: Option<Place>) -> Place {
    in_place.unwrap_or_else(|| arena.room(element, count))
}

fn activation_case(element: ElementType, shape: (usize, usize), with: With) -> Case {
    let (rows, width) = shape;
    Case::new(("activation", element, ""), with.text(shape), cost(0, rows * width), move |arena| {
        // Arguments near zero, of an ordinary size, and far from zero.
        let numbers = noise(10, rows * width);
        let input: Vec<f32> =
            numbers.iter().enumerate().map(|(i, x)| x * [0.01, 1.0, 9.0, 60.0][i % 4]).collect();
        let (input, x) = arena.numbers(element, &input);
        let operands = Operands::new(arena, element, width, with);
        let output = output(arena, element, rows * width, with.is_in_place.then_some(input));
        let arguments = ActivationArguments {
            input: input.address,
            bias: operands.bias.0,
            multiply: operands.gates[0].0,
            add: operands.gates[1].0,
            output: output.address,
            rows: rows as i32,
            width: width as i32,
            bias_rows: with.bias_rows.max(1) as i32,
            activation: with.activation,
        };
        let values = elementwise(&x, width, operands.extras(with));
        let expected = Expected::new(output, element, values, allowed(element));
        Launch::new(grid((rows * width).div_ceil(2048), 1, 256), arguments, vec![expected])
    })
}

fn layer_norm_case(element: ElementType, limit: usize, shape: (usize, usize), with: With) -> Case {
    let (rows, width) = shape;
    let suffix = format!("_w{limit}");
    Case::new(("layer_norm", element, &suffix), with.text(shape), cost(0, rows * width), move |arena| {
        let (alpha, epsilon) = (0.75_f32, 1e-3_f32);
        let numbers: Vec<f32> = noise(20, rows * width).iter().map(|x| x + with.mean).collect();
        let (input, x) = arena.numbers(element, &numbers);
        let residual = with.has_residual.then(|| arena.numbers(element, &noise(21, rows * width)));
        let (gammas, gamma_values) = arena.numbers(element, &noise(22, width));
        let (betas, beta_values) = arena.numbers(element, &noise(23, width));
        let operands = Operands::new(arena, element, width, with);
        let changed = residual.as_ref().map_or(input, |(place, _)| *place);
        let output = output(arena, element, rows * width, with.is_in_place.then_some(changed));
        let arguments = LayerNormArguments {
            input: input.address,
            bias: operands.bias.0,
            residual: residual.as_ref().map_or(Address::NULL, |(place, _)| place.address),
            gammas: gammas.address,
            betas: betas.address,
            multiply: operands.gates[0].0,
            add: operands.gates[1].0,
            output: output.address,
            rows: rows as i32,
            width: width as i32,
            bias_rows: with.bias_rows.max(1) as i32,
            activation: with.activation,
            alpha,
            epsilon,
        };
        let norm = Norm {
            gammas: &gamma_values,
            betas: &beta_values,
            residual: residual.as_ref().map(|(_, values)| values.as_slice()),
            alpha: f64::from(alpha),
            epsilon: f64::from(epsilon),
        };
        let values = layer_norm(&x, norm, operands.extras(with));
        // Far from zero, fp32 has fewer digits for the distances from the mean.
        let allowed = allowed(element) + 3e-6 * f64::from(with.mean);
        let expected = Expected::new(output, element, values, allowed);
        let blocks = if limit == 8192 { rows } else { rows.div_ceil(8) };
        Launch::new(grid(blocks, 1, 256), arguments, vec![expected])
    })
}

fn softmax_case(element: ElementType, (rows, width): (usize, usize)) -> Case {
    Case::new(("softmax", element, ""), format!("{rows} x {width}"), cost(0, rows * width), move |arena| {
        let numbers: Vec<f32> = noise(30, rows * width).iter().map(|x| x * 4.0).collect();
        let (input, x) = arena.numbers(element, &numbers);
        let (bias, bias_values) = arena.numbers(element, &noise(31, width));
        let output = arena.room(element, rows * width);
        let arguments = ActivationArguments {
            input: input.address,
            bias: bias.address,
            multiply: Address::NULL,
            add: Address::NULL,
            output: output.address,
            rows: rows as i32,
            width: width as i32,
            bias_rows: 1,
            activation: 0,
        };
        let extras = Extras { bias: Some(&bias_values), bias_rows: 1, ..Extras::default() };
        let sums = elementwise(&x, width, extras);
        let values = sums.chunks(width).flat_map(|row| softmax(row, 1.0)).collect();
        // Most probabilities of a wide row are small, so that their errors are relative ones.
        let expected = Expected::new(output, element, values, allowed(element)).above(LEAST_PROBABILITY);
        Launch::new(grid(rows.div_ceil(8), 1, 256), arguments, vec![expected])
    })
}
