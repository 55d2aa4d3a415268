//! The outputs of a network's heads.

use super::rows::softmax;
use crate::network::layers::SQUARES;
use crate::runtime::activations::activation;

/// The first place of a promotion. Smaller places are 64 * from + to.
const PROMOTIONS: usize = 4096;

/// The legal moves of a batch: where each position's moves begin, and then the number of all moves; the moves; and the
/// place of each of the 1858 moves among a position's logits.
#[derive(Clone, Copy)]
pub(crate) struct Moves<'a> {
    pub(crate) first_moves: &'a [u32],
    pub(crate) moves: &'a [u16],
    pub(crate) places: &'a [u16],
}

impl Moves<'_> {
    /// The softmax over each position's moves of `logit(position, place)` times `inverse_temperature`, or the logits
    /// themselves if that is 0.
    fn probabilities(&self, inverse_temperature: f64, logit: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let positions = self.first_moves.windows(2).enumerate();
        let probabilities = positions.flat_map(|(position, ends)| {
            let moves = &self.moves[ends[0] as usize..ends[1] as usize];
            let place = |&index: &u16| usize::from(self.places[usize::from(index)]);
            let logits: Vec<f64> = moves.iter().map(|index| logit(position, place(index))).collect();
            if inverse_temperature == 0.0 { logits } else { softmax(&logits, inverse_temperature) }
        });
        probabilities.collect()
    }
}

/// The policy whose logits are rows of `width`. Logit i has the bias i modulo the number of biases.
pub(crate) fn policy(
    logits: &[f64],
    bias: Option<&[f64]>,
    width: usize,
    moves: Moves<'_>,
    inverse_temperature: f64,
) -> Vec<f64> {
    moves.probabilities(inverse_temperature, |position, place| {
        logits[position * width + place] + bias.map_or(0.0, |bias| bias[place % bias.len()])
    })
}

/// Queries and keys, `[B * 64][stride]`, and the rows that promotions add, `[3][depth]`.
#[derive(Clone, Copy)]
pub(crate) struct QueriesAndKeys<'a> {
    pub(crate) queries: &'a [f64],
    pub(crate) keys: &'a [f64],
    pub(crate) promotions: &'a [f64],
    pub(crate) stride: usize,
    pub(crate) depth: usize,
    pub(crate) scale: f64,
}

/// The policy whose logits are products of queries and keys.
pub(crate) fn attention_policy(
    from: QueriesAndKeys<'_>,
    moves: Moves<'_>,
    inverse_temperature: f64,
) -> Vec<f64> {
    let QueriesAndKeys { queries, keys, promotions, stride, depth, scale } = from;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    moves.probabilities(inverse_temperature, |position, place| {
        let row = |square: usize| (SQUARES * position + square) * stride..;
        if place < PROMOTIONS {
            let (from, to) = (place / SQUARES, place % SQUARES);
            return scale * dot(&queries[row(from)][..depth], &keys[row(to)][..depth]);
        }
        // A pawn promotes from the seventh rank to the eighth.
        let (from, to, piece) =
            ((place - PROMOTIONS) / 24, (place - PROMOTIONS) % 24 / 3, (place - PROMOTIONS) % 3);
        let key = &keys[row(56 + to)][..depth];
        scale * dot(&queries[row(48 + from)][..depth], key) + dot(&promotions[piece * depth..][..depth], key)
    })
}

/// The last layer of a scalar head.
#[derive(Clone, Copy)]
pub(crate) struct ScalarHead<'a> {
    pub(crate) hidden_bias: Option<&'a [f64]>,
    /// `[outputs][hidden]`
    pub(crate) weights: &'a [f64],
    pub(crate) bias: Option<&'a [f64]>,
    pub(crate) hidden: usize,
    pub(crate) activation: i32,
    /// The code of the function of the outputs: none, softmax, tanh, ReLU.
    pub(crate) finish: i32,
}

/// `finish(weights act(input + hidden_bias) + bias)`, `[B][outputs]`
pub(crate) fn scalar_head(input: &[f64], head: ScalarHead<'_>) -> Vec<f64> {
    let rows = input.chunks(head.hidden).flat_map(|x| {
        let hidden = |(i, &x): (usize, &f64)| {
            activation(head.activation, x + head.hidden_bias.map_or(0.0, |bias| bias[i]))
        };
        let hidden: Vec<f64> = x.iter().enumerate().map(hidden).collect();
        let sum = |(output, weights): (usize, &[f64])| {
            let products = weights.iter().zip(&hidden).map(|(weight, x)| weight * x);
            products.sum::<f64>() + head.bias.map_or(0.0, |bias| bias[output])
        };
        let sums: Vec<f64> = head.weights.chunks(head.hidden).enumerate().map(sum).collect();
        match head.finish {
            1 => softmax(&sums, 1.0),
            2 => sums.iter().map(|sum| sum.tanh()).collect(),
            3 => sums.iter().map(|sum| sum.max(0.0)).collect(),
            _ => sums,
        }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_reads_the_places_of_the_legal_moves() {
        let moves = Moves { first_moves: &[0, 0, 2], moves: &[1, 0], places: &[4, 2] };
        let logits = [9.0, 9.0, 9.0, 9.0, 9.0, 0.0, 0.0, 1.0, 0.0, 2.0];
        assert_eq!(policy(&logits, None, 5, moves, 0.0), [1.0, 2.0]);
        assert_eq!(policy(&logits, Some(&[0.0, 0.0, 5.0, 0.25]), 5, moves, 0.0), [6.0, 2.0]);
        let probabilities = policy(&logits, None, 5, moves, 1.0);
        assert!((probabilities[1] / probabilities[0] - 1.0_f64.exp()).abs() < 1e-9);
    }

    #[test]
    fn moves_and_promotions_are_products_of_queries_and_keys() {
        let mut queries = vec![0.0; 64 * 2];
        let mut keys = vec![0.0; 64 * 2];
        (queries[2 * 12], keys[2 * 28]) = (3.0, 5.0);
        // From a7 to b8, with promotion number 2.
        (queries[2 * 48], keys[2 * 57]) = (7.0, 11.0);
        let from = QueriesAndKeys {
            queries: &queries,
            keys: &keys,
            promotions: &[0.0, 0.0, 1.0],
            stride: 2,
            depth: 1,
            scale: 0.5,
        };
        let places = [64 * 12 + 28, 4096 + 3 + 2, 4096 + 3];
        let moves = Moves { first_moves: &[0, 3], moves: &[0, 1, 2], places: &places };
        assert_eq!(attention_policy(from, moves, 0.0), [7.5, 38.5 + 11.0, 38.5]);
    }

    #[test]
    fn a_scalar_head_finishes_with_its_function() {
        let head = ScalarHead {
            hidden_bias: Some(&[1.0, -5.0]),
            weights: &[2.0, 1.0, -1.0, 1.0],
            bias: Some(&[0.5, 0.0]),
            hidden: 2,
            activation: 1,
            finish: 0,
        };
        assert_eq!(scalar_head(&[1.0, 2.0, 1.0, 6.0], head), [4.5, -2.0, 5.5, -1.0]);
        assert_eq!(scalar_head(&[1.0, 2.0], ScalarHead { finish: 3, ..head }), [4.5, 0.0]);
        assert_eq!(scalar_head(&[1.0, 2.0], ScalarHead { finish: 2, ..head })[0], 4.5_f64.tanh());
        let shares = scalar_head(&[1.0, 2.0], ScalarHead { finish: 1, ..head });
        assert!((shares[0] + shares[1] - 1.0).abs() < 1e-12 && shares[0] > 0.99);
    }
}
