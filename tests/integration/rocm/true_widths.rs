//! The number of kernels that a batch of a network with its true widths takes with our own GEMMs.
//!
//! Where a GEMM has too few tiles for the card, its summed axis is divided among several blocks (split-K), and a second
//! launch adds up their sums. That depends on widths. No weights are needed to count launches: they are zero here, and
//! the emulator's kernels do nothing.

use super::launches::{MARK, counted, with_depth};
use super::{GpuPrecision, backend_of, options, sample};
use rukh_backend::{Backend, EvalRequest};
use rukh_gpu::{GemmLibrary, GpuOptions, SharedLaunches};
use rukh_net::Network;
use rukh_net::network::{Body, Encoder, FeedForward, PolicyHead, ScalarHead, Smolgen, ValueError};
use rukh_net::weights::{Convolution, Dense, HeadInput, LayerNorm};

use crate::goldens::{self, GoldenSet};

/// The widths of a well-known network.
struct Widths {
    name: &'static str,
    /// The committed network with the same kinds of layers, and the number of encoders or blocks.
    small: &'static str,
    depth: usize,
    /// The channels of the residual stream or of the convolutions.
    channels: usize,
    heads: usize,
    /// The hidden layer of a feed-forward block.
    hidden: usize,
    /// The values of a square in a dense position embedding.
    square_values: usize,
    /// The most launches of a batch.
    most: usize,
}

const TRUE_WIDTHS: [Widths; 3] = [
    Widths {
        name: "T82",
        small: "micro-smolgen",
        depth: 15,
        channels: 768,
        heads: 24,
        hidden: 1024,
        square_values: 0,
        most: 120,
    },
    Widths {
        name: "BT4",
        small: "micro-multihead",
        depth: 15,
        channels: 1024,
        heads: 32,
        hidden: 1536,
        square_values: 512,
        most: 125,
    },
    Widths {
        name: "maia-1900",
        small: "micro-se-conv",
        depth: 6,
        channels: 64,
        heads: 0,
        hidden: 0,
        square_values: 0,
        most: 30,
    },
];

/// Batches of one position, of some, and of many.
const BATCHES: [usize; 3] = [1, 16, 64];

/// A layer of other sizes. It has biases if the small one has.
fn dense(small: &Dense, inputs: usize, outputs: usize) -> Dense {
    let has_biases = small.biases.iter().any(|&bias| bias != 0.0);
    let bias = if has_biases { 0.5 } else { 0.0 };
    Dense { weights: vec![0.0; inputs * outputs], biases: vec![bias; outputs], inputs, outputs }
}

fn norm(small: &LayerNorm, width: usize) -> LayerNorm {
    LayerNorm { gammas: vec![1.0; width], betas: vec![0.5; width], ..*small }
}

fn convolution(small: &Convolution, inputs: usize, outputs: usize) -> Convolution {
    let weights = vec![0.0; inputs * outputs * small.size * small.size];
    Convolution { weights, biases: vec![0.5; outputs], inputs, outputs, size: small.size }
}

fn feed_forward(small: &FeedForward, channels: usize, hidden: usize) -> FeedForward {
    FeedForward {
        dense1: dense(&small.dense1, channels, hidden),
        dense2: dense(&small.dense2, hidden, channels),
    }
}

/// An encoder of other sizes, with the smolgen of all well-known networks: 32 values of each square, 256 of a position and
/// 256 of a head.
fn encoder(small: &Encoder, &Widths { channels, heads, hidden, .. }: &Widths) -> Encoder {
    let smolgen = small.smolgen.as_ref().map(|smolgen| Smolgen {
        compress: dense(&smolgen.compress, channels, 32),
        dense1: dense(&smolgen.dense1, 64 * 32, 256),
        ln1: norm(&smolgen.ln1, 256),
        dense2: dense(&smolgen.dense2, 256, heads * 256),
        ln2: norm(&smolgen.ln2, heads * 256),
    });
    Encoder {
        qkv: small.qkv.each_ref().map(|layer| dense(layer, channels, channels)),
        output: dense(&small.output, channels, channels),
        smolgen,
        ln1: norm(&small.ln1, channels),
        ffn: feed_forward(&small.ffn, channels, hidden),
        ln2: norm(&small.ln2, channels),
    }
}

/// Gives a value or moves-left head 32 channels and 128 hidden values.
fn widen_head(head: &mut ScalarHead, channels: usize) {
    match &mut head.input {
        HeadInput::Dense(layer) => *layer = dense(layer, channels, 32),
        HeadInput::Convolution(layer) => *layer = convolution(layer, channels, 32),
    }
    head.hidden = dense(&head.hidden, 64 * 32, 128);
    head.output = dense(&head.output, 128, head.output.outputs);
}

/// The network with the true widths, of which all weights are zero, and so many encoders or blocks.
fn with_true_widths(set: &GoldenSet, widths: &Widths, depth: usize) -> Network {
    let &Widths { channels, heads, hidden, square_values, .. } = widths;
    let mut network = with_depth(set, depth);
    match &mut network.body {
        Body::Attention { embedding, stack } => {
            embedding.planes = dense(&embedding.planes, embedding.planes.inputs, channels);
            if let Some(position) = &mut embedding.position {
                position.board = dense(&position.board, 64 * 12, 64 * square_values);
                position.reader = dense(&position.reader, square_values, channels);
            }
            embedding.ln = embedding.ln.as_ref().map(|ln| norm(ln, channels));
            if let Some(gates) = &mut embedding.gates {
                (gates.multiply, gates.add) = (vec![1.0; 64 * channels], vec![0.5; 64 * channels]);
            }
            if let Some((ffn, ln)) = &mut embedding.ffn {
                (*ffn, *ln) = (feed_forward(ffn, channels, hidden), norm(ln, channels));
            }
            embedding.width = channels;
            stack.encoders = stack.encoders.iter().map(|small| encoder(small, widths)).collect();
            stack.heads = heads;
        }
        Body::Convolution { input, blocks } => {
            *input = convolution(input, input.inputs, channels);
            for block in blocks {
                for layer in [&mut block.conv1, &mut block.conv2] {
                    *layer = convolution(layer, channels, channels);
                }
                if let Some(se) = &mut block.se {
                    se.squeeze = dense(&se.squeeze, channels, se.squeeze.outputs);
                    se.excite = dense(&se.excite, se.excite.inputs, 2 * channels);
                }
            }
            network.moves_left = None;
        }
    }
    network.smolgen_global = network.smolgen_global.as_ref().map(|layer| dense(layer, 256, 64 * 64));
    match &mut network.policy {
        PolicyHead::Attention(policy) => {
            policy.embedding = dense(&policy.embedding, channels, channels);
            policy.query_key = policy.query_key.each_ref().map(|layer| dense(layer, channels, channels));
            policy.depth = channels;
            policy.promotion = dense(&policy.promotion, channels, policy.promotion.outputs);
        }
        PolicyHead::Convolution { first, last } => {
            *first = convolution(first, channels, channels);
            *last = convolution(last, channels, last.outputs);
        }
        PolicyHead::Classical { .. } => unreachable!("no network of the list has such a head"),
    }
    widen_head(&mut network.value, channels);
    match &mut network.value_error {
        Some(ValueError::ValueHead { output }) => *output = dense(output, 128, output.outputs),
        Some(ValueError::Own(head)) => widen_head(head, channels),
        None => {}
    }
    if let Some(head) = &mut network.moves_left {
        widen_head(head, channels);
    }
    network
}

/// Evaluates batches of each size twice, with each network of two and of three encoders or blocks.
fn evaluate_true_widths(fuse: SharedLaunches) {
    let sets = goldens::committed();
    for widths in &TRUE_WIDTHS {
        let set = sets.iter().find(|set| set.name == widths.small).expect("the set is committed");
        for depth in [2, 3] {
            let network = with_true_widths(set, widths, depth);
            let maximum = BATCHES.into_iter().max().unwrap_or(1);
            let options = GpuOptions {
                gemm: GemmLibrary::Own,
                fuse: Some(fuse),
                graph: Some(false),
                streams: Some(1),
                ..options(maximum)
            };
            let backend = backend_of(&network, GpuPrecision::Fp16, &options);
            let samples: Vec<_> = set.positions.iter().cycle().take(maximum).map(sample).collect();
            for size in BATCHES {
                for _ in 0..2 {
                    let mut batch = backend.new_batch();
                    for sample in &samples[..size] {
                        let (history, moves) = (&sample.history, &sample.moves[..]);
                        batch.add(EvalRequest { history, moves });
                    }
                    // The results may be no numbers, which is an error.
                    let _ = batch.submit().wait();
                    eprintln!("{MARK}");
                }
            }
        }
    }
}

/// The launches of a batch of each size, for each network. Each encoder or block of a network takes as many as the others.
fn count(test: &str, fuse: SharedLaunches) -> Option<Vec<[usize; BATCHES.len()]>> {
    let found = counted(test, &[("RUKH_EMULATOR_WRONG", "kernels")], || evaluate_true_widths(fuse))?;
    let of_networks = found.chunks_exact(2 * BATCHES.len()).zip(&TRUE_WIDTHS);
    let of_network = |(counts, widths): (&[usize], &Widths)| {
        let (two, three) = counts.split_at(BATCHES.len());
        std::array::from_fn(|size| two[size] + (widths.depth - 2) * (three[size] - two[size]))
    };
    Some(of_networks.map(of_network).collect())
}

#[test]
fn split_k_gemms_take_a_launch_more() {
    let Some(found) = count("true_widths::split_k_gemms_take_a_launch_more", SharedLaunches::None) else {
        return;
    };
    // Without split-K a batch of any size takes 207, 213 and 57 launches. In launches.rs it is 214 for BT4, because the
    // small network has four values of a square, and a GEMM of so few inputs takes a launch more.
    assert_eq!(found, [[223, 223, 223], [247, 230, 230], [57, 57, 57]]);
}

#[test]
fn batches_that_share_launches_take_few() {
    let Some(found) = count("true_widths::batches_that_share_launches_take_few", SharedLaunches::All) else {
        return;
    };
    for (Widths { name, most, .. }, counts) in TRUE_WIDTHS.iter().zip(&found) {
        assert!(counts.iter().all(|count| count <= most), "{name}: {counts:?}, more than {most}");
    }
    // A chain needs no launch more for parts.
    assert_eq!(found, [[84, 84, 84], [88, 88, 88], [25, 25, 25]]);
}
