//! The policies of the legal moves, and the last layers of the scalar heads.

use super::arena::{Arena, Expected, Place};
use super::case::{Case, Launch, cost, some};
use super::reference::heads::{Moves, QueriesAndKeys, ScalarHead, attention_policy, policy, scalar_head};
use crate::network::layers::SQUARES;
use crate::runtime::activations::{MISH, RELU, SELU, SIGMOID, SWISH, TANH};
use crate::runtime::ffi::arguments::{AttentionPolicyArguments, PolicyArguments, ScalarHeadArguments};
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::Address;
use crate::runtime::kernels::grid;
use crate::runtime::numbers::noise;

/// The number of moves that a policy has.
const POLICY_MOVES: usize = 1858;

/// The largest error of a result in fp32, after a sum of hundreds of products of the same size.
const SUM_ERROR: f64 = 2e-5;

/// The size from which probabilities have relative errors.
const LEAST_PROBABILITY: f64 = 1e-2;

/// The legal moves of positions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Legal {
    /// No move, one, about as many as a wave has lanes, and many.
    Usual,
    /// All moves that there are, and none.
    All,
}

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    use Legal::{All, Usual};
    let policies = vec![
        (80 * 64, 80, 0.625, Usual),
        (1858, 1858, 1.0, Usual),
        (1861, 0, 0.0, Usual),
        (1858, 1858, 0.0, All),
        (80 * 64, 80, 0.7, All),
    ];
    let policies = some(policies, is_quick, 2).into_iter().map(|shape| policy_case(element, shape));
    let attention = vec![
        (72, 0.75, 8, Usual),
        (256, 1.0, 8, Usual),
        (8, 1.0, 8, Usual),
        (1024, 0.0, 8, Usual),
        (24, 0.0, 0, All),
        (264, 1.0, 0, All),
    ];
    let attention =
        some(attention, is_quick, 1).into_iter().map(|shape| attention_policy_case(element, shape));
    let heads = vec![
        (7, 128, 3, 1, RELU),
        (19, 1032, 1, 2, RELU),
        (8, 200, 1, 3, RELU),
        (1, 8, 3, 0, RELU),
        (9, 16, 3, 1, MISH),
        (3, 264, 1, 2, MISH),
        (2, 8, 2, 0, MISH),
        (19, 1032, 3, 0, RELU),
        (2, 24, 1, 0, TANH),
        (2, 24, 2, 0, SIGMOID),
        (2, 24, 3, 1, SELU),
        (2, 24, 1, 2, SWISH),
    ];
    let heads = some(heads, is_quick, 2).into_iter().map(|shape| scalar_head_case(element, shape));
    policies.chain(attention).chain(heads).collect()
}

/// For each position the index of its first move, and then all moves.
fn legal_moves(legal: Legal) -> (Vec<u32>, Vec<u16>) {
    let counts = match legal {
        Legal::Usual => vec![0, 1, 25, 31, 32, 33, 64, 218],
        Legal::All => vec![POLICY_MOVES as u32, 0, 37],
    };
    let ends = counts.iter().scan(0, |end, count| {
        *end += count;
        Some(*end)
    });
    let first_moves: Vec<u32> = std::iter::once(0).chain(ends).collect();
    let total = counts.iter().sum::<u32>() as usize;
    (first_moves, (0..total).map(|i| ((i * 977 + 13) % POLICY_MOVES) as u16).collect())
}

/// The addresses of places, first moves and moves.
fn put_moves(arena: &mut Arena, moves: Moves<'_>) -> [Address; 3] {
    let shorts = |numbers: &[u16]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_le_bytes()).collect() };
    let first_moves: Vec<u8> = moves.first_moves.iter().flat_map(|n| n.to_le_bytes()).collect();
    [shorts(moves.places), first_moves, shorts(moves.moves)].map(|bytes| arena.put(&bytes).address)
}

impl Legal {
    fn text(self) -> &'static str {
        if self == Legal::All { "all moves, " } else { "" }
    }
}

/// What a policy must be: probabilities, or logits if there is no temperature.
fn expected_policy(output: Place, values: Vec<f64>, inverse_temperature: f32) -> Expected {
    let least = if inverse_temperature == 0.0 { 1.0 } else { LEAST_PROBABILITY };
    Expected::new(output, ElementType::Fp32, values, SUM_ERROR).above(least)
}

fn temperature_text(inverse_temperature: f32) -> String {
    if inverse_temperature == 0.0 { "logits".to_owned() } else { format!("softmax of {inverse_temperature}") }
}

fn policy_case(
    element: ElementType,
    (width, bias_width, inverse_temperature, legal): (usize, usize, f32, Legal),
) -> Case {
    let temperature = temperature_text(inverse_temperature);
    let shape = format!("{width} logits, {bias_width} biases, {}{temperature}", legal.text());
    let cost = cost(0, legal_moves(legal).1.len());
    Case::new(("policy", element, ""), shape, cost, move |arena| {
        let (first_moves, moves) = legal_moves(legal);
        let positions = first_moves.len() - 1;
        let places: Vec<u16> = (0..POLICY_MOVES).map(|i| (i * 7 % width) as u16).collect();
        let moves = Moves { first_moves: &first_moves, moves: &moves, places: &places };
        let numbers: Vec<f32> = noise(100, positions * width).iter().map(|x| x * 5.0).collect();
        let (logits, x) = arena.numbers(element, &numbers);
        let bias = (bias_width > 0).then(|| arena.numbers(element, &noise(101, bias_width)));
        let [places, first_moves, indices] = put_moves(arena, moves);
        let output = arena.room(ElementType::Fp32, moves.moves.len());
        let arguments = PolicyArguments {
            logits: logits.address,
            bias: bias.as_ref().map_or(Address::NULL, |(place, _)| place.address),
            places,
            first_moves,
            moves: indices,
            probabilities: output.address,
            width: width as i32,
            bias_width: bias_width.max(1) as i32,
            inverse_temperature,
            reserved: 0,
        };
        let bias = bias.as_ref().map(|(_, values)| values.as_slice());
        let values = policy(&x, bias, width, moves, f64::from(inverse_temperature));
        let expected = expected_policy(output, values, inverse_temperature);
        Launch::new(grid(positions, 1, 512), arguments, vec![expected])
    })
}

fn attention_policy_case(
    element: ElementType,
    (depth, inverse_temperature, gap, legal): (usize, f32, usize, Legal),
) -> Case {
    let shape = format!("depth {depth}, {}{}", legal.text(), temperature_text(inverse_temperature));
    let moves = legal_moves(legal).1.len();
    let cost = cost(8 * moves * depth, moves);
    Case::new(("attention_policy", element, ""), shape, cost, move |arena| {
        let (first_moves, moves) = legal_moves(legal);
        let positions = first_moves.len() - 1;
        // Moves from square to square, and promotions.
        let place = |i: usize| if i < 1792 { i * 2311 % 4096 } else { 4096 + (i - 1792) * 2 % 192 };
        let places: Vec<u16> = (0..POLICY_MOVES).map(|i| place(i) as u16).collect();
        let moves = Moves { first_moves: &first_moves, moves: &moves, places: &places };
        let stride = 2 * depth + gap;
        let (rows, x) = arena.numbers(element, &noise(110, positions * SQUARES * stride - gap));
        let (promotions, promotion_values) = arena.numbers(element, &noise(111, 3 * depth));
        let [places, first_moves, indices] = put_moves(arena, moves);
        let output = arena.room(ElementType::Fp32, moves.moves.len());
        let scale = 2.0 / (depth as f32).sqrt();
        let arguments = AttentionPolicyArguments {
            queries: rows.address,
            keys: rows.address.offset(depth * element.bytes()),
            promotions: promotions.address,
            places,
            first_moves,
            moves: indices,
            probabilities: output.address,
            stride: stride as i32,
            depth: depth as i32,
            scale,
            inverse_temperature,
        };
        let (queries, keys) = (&x[..], &x[depth..]);
        let (promotions, scale) = (&promotion_values[..], f64::from(scale));
        let from = QueriesAndKeys { queries, keys, promotions, stride, depth, scale };
        let values = attention_policy(from, moves, f64::from(inverse_temperature));
        let expected = expected_policy(output, values, inverse_temperature);
        Launch::new(grid(positions, 1, 512), arguments, vec![expected])
    })
}

fn scalar_head_case(
    element: ElementType,
    (positions, hidden, outputs, finish, activation): (usize, usize, usize, i32, i32),
) -> Case {
    let shape = format!(
        "{positions} positions, {hidden} hidden units, {outputs} outputs, function {activation}, finish {finish}"
    );
    let cost = cost(8 * positions * hidden * outputs, positions);
    Case::new(("scalar_head", element, ""), shape, cost, move |arena| {
        let scale = 4.0 / (hidden as f32).sqrt();
        let scaled: Vec<f32> = noise(122, outputs * hidden).iter().map(|x| x * scale).collect();
        let (input, x) = arena.numbers(element, &noise(120, positions * hidden));
        let hidden_bias = (finish != 3).then(|| arena.numbers(element, &noise(121, hidden)));
        let (weights, w) = arena.numbers(element, &scaled);
        let bias = (finish != 0).then(|| arena.numbers(ElementType::Fp32, &noise(123, outputs)));
        let output = arena.room(ElementType::Fp32, positions * outputs);
        let arguments = ScalarHeadArguments {
            input: input.address,
            hidden_bias: hidden_bias.as_ref().map_or(Address::NULL, |(place, _)| place.address),
            weights: weights.address,
            bias: bias.as_ref().map_or(Address::NULL, |(place, _)| place.address),
            output: output.address,
            positions: positions as i32,
            hidden: hidden as i32,
            outputs: outputs as i32,
            activation,
            finish,
            reserved: 0,
        };
        let head = ScalarHead {
            hidden_bias: hidden_bias.as_ref().map(|(_, values)| values.as_slice()),
            weights: &w,
            bias: bias.as_ref().map(|(_, values)| values.as_slice()),
            hidden,
            activation,
            finish,
        };
        let values = scalar_head(&x, head);
        let expected = Expected::new(output, ElementType::Fp32, values, SUM_ERROR);
        Launch::new(grid(positions.div_ceil(8), 1, 256), arguments, vec![expected])
    })
}
