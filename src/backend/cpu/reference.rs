//! A reference implementation of the forward pass: plain loops over the layers of the file, with sums in f64.
//!
//! The tests compare the other implementations with this one. It is slow, but simple enough to be checked by reading.
//! It shares the structure of the network and a few formulas with the others, but no kernel, no prepared layer and no
//! memory layout. Activations have the layout `[square][channel]`.

use super::network::{RawEvaluation, win_draw};
use rukh_net::Network;
use rukh_net::architecture::{Activation, BodyKind, InputEmbedding};
use rukh_net::input::InputPlanes;
use rukh_net::network::{
    AttentionPolicy, Body, Embedding, Encoder, EncoderStack, FeedForward, Gates, PolicyHead, PositionLayers,
    ScalarHead, Smolgen, SqueezeExcitation, ValueError,
};
use rukh_net::policy_index::{ATTENTION_LOGITS, POLICY_SIZE, attention_index, convolution_index};
use rukh_net::prepare::query_scale;
use rukh_net::weights::{Convolution, Dense, HeadInput, LayerNorm, positional_value};

/// A matrix as a vector of rows. Most have one row for each of the 64 squares.
type Rows = Vec<Vec<f32>>;

/// Evaluates one position with the heads that were selected when the network was loaded.
pub fn evaluate(network: &Network, input: &InputPlanes) -> RawEvaluation {
    let activation = network.architecture.default_activation;
    let planes: Rows =
        (0..64).map(|square| (0..112).map(|plane| value(input, plane, square)).collect()).collect();
    let body = match &network.body {
        Body::Convolution { input, blocks } => {
            let mut x = convolve(input, &planes, activation);
            for block in blocks {
                let inner = convolve(&block.conv1, &x, activation);
                let mut y = convolve(&block.conv2, &inner, Activation::None);
                if let Some(se) = &block.se {
                    squeeze_excite(se, &mut y, activation);
                }
                x = zip_rows(&y, &x, |y, x| activate(activation, y + x));
            }
            x
        }
        Body::Attention { embedding, stack } => {
            let x = embed(embedding, network, planes, stack);
            encode_all(stack, network, x)
        }
    };
    let value = scalar_head(&network.value, &body, activation);
    let (q, d) = if network.architecture.wdl { win_draw(&value) } else { (value[0].tanh(), 0.0) };
    let m = network.moves_left.as_ref().map_or(0.0, |head| scalar_head(head, &body, activation)[0].max(0.0));
    let error = match &network.value_error {
        Some(ValueError::ValueHead { output }) => {
            Some(dense(output, &hidden_layer(&network.value, &body, activation), Activation::Sigmoid))
        }
        Some(ValueError::Own(head)) => Some(
            scalar_head(head, &body, activation)
                .into_iter()
                .map(|x| activate(Activation::Sigmoid, x))
                .collect(),
        ),
        None => None,
    };
    let e = error.map_or(0.0, |error: Vec<f32>| error[0]);
    RawEvaluation { policy: policy(network, &body), q, d, m, e }
}

fn value(input: &InputPlanes, plane: usize, square: usize) -> f32 {
    let value = if plane == InputPlanes::RULE50_PLANE { input.rule50_value } else { 1.0 };
    if input.masks[plane] >> square & 1 == 1 { value } else { 0.0 }
}

fn activate(activation: Activation, x: f32) -> f32 {
    let wide = f64::from(x);
    let result = match activation {
        Activation::None | Activation::Softmax => wide,
        Activation::Relu => wide.max(0.0),
        Activation::Relu2 => wide.max(0.0).powi(2),
        Activation::Tanh => wide.tanh(),
        Activation::Sigmoid => 1.0 / (1.0 + (-wide).exp()),
        Activation::Selu if wide > 0.0 => 1.050_700_987_355_480_5 * wide,
        Activation::Selu => 1.050_700_987_355_480_5 * 1.673_263_242_354_377_2 * wide.exp_m1(),
        Activation::Mish => wide * wide.exp().ln_1p().tanh(),
        Activation::Swish => wide / (1.0 + (-wide).exp()),
    };
    result as f32
}

fn activate_row(activation: Activation, row: Vec<f32>) -> Vec<f32> {
    match activation {
        Activation::Softmax => softmax(&row),
        _ => row.into_iter().map(|x| activate(activation, x)).collect(),
    }
}

fn softmax(row: &[f32]) -> Vec<f32> {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = row.iter().map(|x| f64::from(x - largest).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.into_iter().map(|p| (p / total) as f32).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

fn zip_rows(a: &Rows, b: &Rows, f: impl Fn(f32, f32) -> f32) -> Rows {
    let zip = |a: &Vec<f32>, b: &Vec<f32>| a.iter().zip(b).map(|(a, b)| f(*a, *b)).collect();
    a.iter().zip(b).map(|(a, b)| zip(a, b)).collect()
}

/// Computes `act(W x + b)`.
fn dense(layer: &Dense, x: &[f32], activation: Activation) -> Vec<f32> {
    let outputs = (0..layer.outputs).map(|output| {
        let row = &layer.weights[output * layer.inputs..][..layer.inputs];
        let bias = layer.biases.get(output).copied().unwrap_or(0.0);
        (f64::from(bias) + dot(row, x)) as f32
    });
    activate_row(activation, outputs.collect())
}

fn dense_rows(layer: &Dense, x: &Rows, activation: Activation) -> Rows {
    x.iter().map(|row| dense(layer, row, activation)).collect()
}

fn convolve(layer: &Convolution, x: &Rows, activation: Activation) -> Rows {
    let (size, half) = (layer.size, layer.size / 2);
    let at = |square: usize, output: usize| {
        let mut sum = f64::from(layer.biases[output]);
        for tap in 0..size * size {
            let rank = (square / 8 + tap / size).wrapping_sub(half);
            let file = (square % 8 + tap % size).wrapping_sub(half);
            if rank < 8 && file < 8 {
                for (input, value) in x[rank * 8 + file].iter().enumerate() {
                    let weight = layer.weights[(output * layer.inputs + input) * size * size + tap];
                    sum += f64::from(weight) * f64::from(*value);
                }
            }
        }
        activate(activation, sum as f32)
    };
    (0..64).map(|square| (0..layer.outputs).map(|output| at(square, output)).collect()).collect()
}

fn squeeze_excite(se: &SqueezeExcitation, y: &mut Rows, activation: Activation) {
    let channels = y[0].len();
    let means: Vec<f32> = (0..channels)
        .map(|channel| (y.iter().map(|row| f64::from(row[channel])).sum::<f64>() / 64.0) as f32)
        .collect();
    let excitation = dense(&se.excite, &dense(&se.squeeze, &means, activation), Activation::None);
    let (scales, shifts) = excitation.split_at(channels);
    for row in y {
        for (channel, x) in row.iter_mut().enumerate() {
            *x = *x * activate(Activation::Sigmoid, scales[channel]) + shifts[channel];
        }
    }
}

fn normalise(ln: &LayerNorm, x: &[f32]) -> Vec<f32> {
    let count = x.len() as f64;
    let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
    let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / count;
    let scale = 1.0 / (variance + f64::from(ln.epsilon)).sqrt();
    let normal = |(i, x): (usize, &f32)| {
        ((f64::from(*x) - mean) * scale * f64::from(ln.gammas[i]) + f64::from(ln.betas[i])) as f32
    };
    x.iter().enumerate().map(normal).collect()
}

/// Computes `LN(alpha * branch + x)` for each row.
fn join(ln: &LayerNorm, alpha: f32, branch: &Rows, x: &Rows) -> Rows {
    let sums = zip_rows(branch, x, |branch, x| alpha * branch + x);
    sums.iter().map(|row| normalise(ln, row)).collect()
}

fn feed_forward(ffn: &FeedForward, x: &Rows, activation: Activation) -> Rows {
    dense_rows(&ffn.dense2, &dense_rows(&ffn.dense1, x, activation), Activation::None)
}

fn embed(embedding: &Embedding, network: &Network, mut planes: Rows, stack: &EncoderStack) -> Rows {
    let activation = network.architecture.default_activation;
    let has_map = matches!(
        network.architecture.body,
        BodyKind::Attention { input_embedding: InputEmbedding::PeMap, .. }
    );
    if has_map {
        for (square, row) in planes.iter_mut().enumerate() {
            row.extend((0..64).map(|other| positional_value(square, other)));
        }
    }
    let mut x = dense_rows(&embedding.planes, &planes, Activation::None);
    if let Some(PositionLayers { board, reader }) = &embedding.position {
        let pieces: Vec<f32> = planes.iter().flat_map(|row| row[..12].to_vec()).collect();
        let position = dense(board, &pieces, Activation::None);
        let squares: Rows = position.chunks_exact(position.len() / 64).map(<[f32]>::to_vec).collect();
        x = zip_rows(&x, &dense_rows(reader, &squares, Activation::None), |x, y| x + y);
    }
    x = x.into_iter().map(|row| activate_row(activation, row)).collect();
    if let Some(ln) = &embedding.ln {
        x = x.iter().map(|row| normalise(ln, row)).collect();
    }
    if let Some(Gates { multiply, add }) = &embedding.gates {
        for (square, row) in x.iter_mut().enumerate() {
            for (channel, x) in row.iter_mut().enumerate() {
                *x = *x * multiply[channel * 64 + square] + add[channel * 64 + square];
            }
        }
    }
    if let Some((ffn, ln)) = &embedding.ffn {
        x = join(ln, stack.alpha, &feed_forward(ffn, &x, stack.ffn_activation), &x);
    }
    x
}

fn encode_all(stack: &EncoderStack, network: &Network, mut x: Rows) -> Rows {
    for encoder in &stack.encoders {
        x = encode(encoder, x, stack, network.smolgen_global.as_ref());
    }
    x
}

fn encode(encoder: &Encoder, x: Rows, stack: &EncoderStack, global: Option<&Dense>) -> Rows {
    let [q, k, v] = encoder.qkv.each_ref().map(|layer| dense_rows(layer, &x, Activation::None));
    let d_model = encoder.qkv[0].outputs;
    let logits =
        encoder.smolgen.as_ref().zip(global).map(|(layers, global)| generate(layers, global, &x, stack));
    let depth = d_model / stack.heads;
    let mut mixed = vec![vec![0.0; d_model]; 64];
    for head in 0..stack.heads {
        let columns = head * depth..(head + 1) * depth;
        for query in 0..64 {
            let scores: Vec<f32> = (0..64)
                .map(|key| {
                    let product = dot(&q[query][columns.clone()], &k[key][columns.clone()]) as f32;
                    let generated = logits.as_ref().map_or(0.0, |logits| logits[head][query * 64 + key]);
                    product * query_scale(depth) + generated
                })
                .collect();
            let weights = softmax(&scores);
            for column in columns.clone() {
                let values: Vec<f32> = v.iter().map(|row| row[column]).collect();
                mixed[query][column] = dot(&weights, &values) as f32;
            }
        }
    }
    let attention = dense_rows(&encoder.output, &mixed, Activation::None);
    let x = join(&encoder.ln1, stack.alpha, &attention, &x);
    let ffn = feed_forward(&encoder.ffn, &x, stack.ffn_activation);
    join(&encoder.ln2, stack.alpha, &ffn, &x)
}

/// Computes the logits that smolgen adds to those of attention: `[head][64 queries * 64 keys]`.
fn generate(layers: &Smolgen, global: &Dense, x: &Rows, stack: &EncoderStack) -> Rows {
    let flat: Vec<f32> = dense_rows(&layers.compress, x, Activation::None).concat();
    let hidden = normalise(&layers.ln1, &dense(&layers.dense1, &flat, stack.smolgen_activation));
    let generated = normalise(&layers.ln2, &dense(&layers.dense2, &hidden, stack.smolgen_activation));
    generated.chunks_exact(global.inputs).map(|head| dense(global, head, Activation::None)).collect()
}

fn scalar_head(head: &ScalarHead, body: &Rows, activation: Activation) -> Vec<f32> {
    dense(&head.output, &hidden_layer(head, body, activation), Activation::None)
}

fn hidden_layer(head: &ScalarHead, body: &Rows, activation: Activation) -> Vec<f32> {
    dense(&head.hidden, &head_input(&head.input, body, activation), activation)
}

/// A head's first layer, flattened as the next layer of the file reads it.
fn head_input(layer: &HeadInput, body: &Rows, activation: Activation) -> Vec<f32> {
    match layer {
        HeadInput::Convolution(convolution) => {
            let channels = convolve(convolution, body, activation);
            (0..channels[0].len()).flat_map(|channel| channels.iter().map(move |row| row[channel])).collect()
        }
        HeadInput::Dense(layer) => dense_rows(layer, body, activation).concat(),
    }
}

fn policy(network: &Network, body: &Rows) -> Vec<f32> {
    let activation = network.architecture.default_activation;
    match &network.policy {
        PolicyHead::Classical { input, dense: last } => {
            dense(last, &head_input(input, body, activation), Activation::None)
        }
        PolicyHead::Convolution { first, last } => {
            let planes = convolve(last, &convolve(first, body, activation), Activation::None);
            let mut policy = vec![0.0; POLICY_SIZE];
            for i in 0..64 * last.outputs {
                if let Some(index) = convolution_index(i) {
                    policy[usize::from(index)] = planes[i % 64][i / 64];
                }
            }
            policy
        }
        PolicyHead::Attention(head) => attention_policy(head, network, body),
    }
}

fn attention_policy(head: &AttentionPolicy, network: &Network, body: &Rows) -> Vec<f32> {
    let AttentionPolicy { embedding, embedding_activation, stack, query_key, depth, promotion } = head;
    let x = encode_all(stack, network, dense_rows(embedding, body, *embedding_activation));
    let [queries, keys] = query_key.each_ref().map(|layer| dense_rows(layer, &x, Activation::None));
    let score = |from: usize, to: usize| dot(&queries[from], &keys[to]) as f32 * query_scale(*depth);
    let offset = |row: usize, to: usize| dot(&promotion.weights[row * depth..][..*depth], &keys[to]) as f32;
    let mut policy = vec![0.0; POLICY_SIZE];
    for logit in 0..ATTENTION_LOGITS {
        let Some(index) = attention_index(logit) else {
            continue;
        };
        policy[usize::from(index)] = match logit.checked_sub(64 * 64) {
            None => score(logit / 64, logit % 64),
            Some(i) => {
                let (from, to) = (48 + i / 24, 56 + i / 3 % 8);
                score(from, to) + offset(i % 3, to) + offset(3, to)
            }
        };
    }
    policy
}
