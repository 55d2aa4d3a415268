//! Rewrites the layers of a file as the layers that backends compute. All functions are pure and work on fp32.

use super::super::network::PolicyHead;
use super::super::policy_index::{ATTENTION_LOGITS, POLICY_SIZE, attention_index, convolution_index};
use super::super::weights::{Convolution, Dense, HeadInput, positional_value};
use super::store::ScoreOrder;

const SQUARES: usize = 64;

/// `1/sqrt(depth)`, the factor of the product of a query and a key that are `depth` wide.
pub fn query_scale(depth: usize) -> f32 {
    (1.0 / (depth as f64).sqrt()) as f32
}

/// Multiplies the outputs of a layer by `factor`.
pub(super) fn scaled(mut layer: Dense, factor: f32) -> Dense {
    layer.weights.iter_mut().chain(&mut layer.biases).for_each(|value| *value *= factor);
    layer
}

/// Joins layers that read the same input into one layer, with their outputs side by side.
pub(super) fn side_by_side<const N: usize>(layers: [Dense; N]) -> Dense {
    let mut layers = layers.into_iter();
    let mut joined = layers.next().unwrap_or_default();
    for layer in layers {
        joined.weights.extend(layer.weights);
        joined.biases.extend(layer.biases);
        joined.outputs += layer.outputs;
    }
    joined
}

/// Reorders each row of `row_length` values from `[channel][square]` to `[square][channel]`.
pub(super) fn squares_first(values: &[f32], row_length: usize) -> Vec<f32> {
    let channels = row_length / SQUARES;
    let from = |i: usize| {
        let (start, within) = (i / row_length * row_length, i % row_length);
        start + within % channels * SQUARES + within / channels
    };
    (0..values.len()).map(|i| values[from(i)]).collect()
}

/// Rewrites a head's first layer as a dense layer per square, and the next layer so that it reads
/// `[square][channel]`.
pub(super) fn head_layers(input: HeadInput, next: Dense) -> (Dense, Dense) {
    match input {
        HeadInput::Dense(input) => (input, next),
        HeadInput::Convolution(Convolution { weights, biases, inputs, outputs, .. }) => {
            let reordered = squares_first(&next.weights, next.inputs);
            (Dense { weights, biases, inputs, outputs }, Dense { weights: reordered, ..next })
        }
    }
}

/// Reorders the 4096 outputs of smolgen's last layer to the backend's order.
pub(super) fn ordered_scores(layer: Dense, order: ScoreOrder) -> Dense {
    match order {
        ScoreOrder::QueryFirst => layer,
        ScoreOrder::KeyFirst => {
            let from_file = |output: usize| output % SQUARES * SQUARES + output / SQUARES;
            let row = |output: usize| &layer.weights[from_file(output) * layer.inputs..][..layer.inputs];
            Dense {
                weights: (0..layer.outputs).flat_map(row).copied().collect(),
                biases: (0..layer.outputs).map(|output| layer.biases[from_file(output)]).collect(),
                ..layer
            }
        }
    }
}

/// Adds the fourth row, which all promotions share, to the rows of queen, rook and bishop: `[4][depth]` becomes
/// `[3][depth]`.
pub(super) fn promotions(layer: &Dense) -> Dense {
    let depth = layer.inputs;
    let weights = (0..3 * depth).map(|i| layer.weights[i] + layer.weights[3 * depth + i % depth]).collect();
    Dense { weights, biases: vec![0.0; 3], inputs: depth, outputs: 3 }
}

/// PE_MAP's table, `[64][64]`. Each row belongs to one square and holds the 64 inputs that follow the square's planes.
pub(super) fn positional_table() -> Vec<f32> {
    (0..SQUARES * SQUARES).map(|i| positional_value(i / SQUARES, i % SQUARES)).collect()
}

/// The number of outputs that a policy head computes for a position, and the index of each of the 1858 policy logits
/// among them.
pub(super) fn policy_layout(policy: &PolicyHead, order: ScoreOrder) -> (usize, Vec<u16>) {
    let mut places: Vec<u16> = (0..POLICY_SIZE as u16).collect();
    let mut set = |index: Option<u16>, place: usize| {
        if let Some(index) = index {
            places[usize::from(index)] = place as u16;
        }
    };
    let width = match policy {
        PolicyHead::Classical { dense, .. } => dense.outputs,
        PolicyHead::Convolution { last, .. } => {
            // The file's order is [plane][square], and a backend's order is [square][plane].
            for plane in 0..last.outputs {
                for square in 0..SQUARES {
                    set(convolution_index(plane * SQUARES + square), square * last.outputs + plane);
                }
            }
            SQUARES * last.outputs
        }
        PolicyHead::Attention(_) => {
            for logit in 0..ATTENTION_LOGITS {
                let (from, to) = (logit / SQUARES, logit % SQUARES);
                let is_promotion = logit >= SQUARES * SQUARES;
                // Promotions follow the scores, in the file's order.
                let place = match order {
                    ScoreOrder::KeyFirst if !is_promotion => to * SQUARES + from,
                    _ => logit,
                };
                set(attention_index(logit), place);
            }
            ATTENTION_LOGITS
        }
    };
    (width, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(outputs: usize, inputs: usize) -> Dense {
        let weights = (0..outputs * inputs).map(|i| i as f32).collect();
        Dense { weights, biases: (0..outputs).map(|i| -(i as f32)).collect(), inputs, outputs }
    }

    #[test]
    fn flattened_boards_are_read_square_by_square() {
        // Two rows of two channels, numbered in the file's order [channel][square].
        let row = 2 * SQUARES;
        let values: Vec<f32> = (0..2 * row).map(|i| i as f32).collect();
        let reordered = squares_first(&values, row);
        assert_eq!(reordered[..4], [0.0, 64.0, 1.0, 65.0]);
        assert_eq!(reordered[row..row + 4], [128.0, 192.0, 129.0, 193.0]);
    }

    #[test]
    fn layers_side_by_side_keep_their_rows() {
        let joined = side_by_side([scaled(counted(2, 2), 2.0), counted(1, 2)]);
        assert_eq!((joined.inputs, joined.outputs), (2, 3));
        assert_eq!(joined.weights, [0.0, 2.0, 4.0, 6.0, 0.0, 1.0]);
        assert_eq!(joined.biases, [0.0, -2.0, 0.0]);
    }

    #[test]
    fn key_first_order_transposes_the_logits() {
        let layer = counted(SQUARES * SQUARES, 2);
        assert_eq!(ordered_scores(layer.clone(), ScoreOrder::QueryFirst), layer);
        let reordered = ordered_scores(layer.clone(), ScoreOrder::KeyFirst);
        // The first two outputs are key 0 of queries 0 and 1: rows 0 and 64 of the file.
        assert_eq!(reordered.weights[..4], [0.0, 1.0, 128.0, 129.0]);
        assert_eq!(reordered.biases[..2], [0.0, -64.0]);
        assert_eq!(ordered_scores(reordered, ScoreOrder::KeyFirst), layer);
    }

    #[test]
    fn promotions_have_the_shared_row_added() {
        let prepared = promotions(&counted(4, 2));
        assert_eq!((prepared.outputs, prepared.inputs), (3, 2));
        assert_eq!(prepared.weights, [6.0, 8.0, 8.0, 10.0, 10.0, 12.0]);
    }
}
