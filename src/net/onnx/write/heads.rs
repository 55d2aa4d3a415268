//! The policy, value and moves-left heads.

use super::builder::{Builder, TO_END};
use super::encoder::{encode, score_scale};
use super::functions::activate;
use crate::network::{AttentionPolicy, Body, Network, PolicyHead, ScalarHead};
use crate::policy_index::{ATTENTION_LOGITS, POLICY_SIZE, attention_index, convolution_index};
use crate::weights::HeadInput;

/// The name of the constant that says which logit each output of the policy is.
const MAPPING_TABLE: &str = "/const/mapping_table";

/// The logits of the policy.
pub(super) fn policy(builder: &mut Builder<'_>, network: &Network, body: &str) {
    let name = builder.settings.names.policy.clone();
    match &network.policy {
        PolicyHead::Classical { input, dense } => {
            let x = match input {
                HeadInput::Convolution(layer) => {
                    let x = builder.convolve("/policy/conv", body, layer);
                    activate(builder, "/policy/conv", x, network.activation())
                }
                HeadInput::Dense(layer) => {
                    let x = builder.dense("/policy/embed/matmul", "/policy/embed/add", body, layer);
                    activate(builder, "/policy/embed", x, network.activation())
                }
            };
            let dimensions = [-1, dense.inputs as i64];
            let x = builder.reshape("/policy/reshape", &x, "/const/policy_shape", &dimensions);
            builder.dense("/policy/dense/matmul", &name, &x, dense);
        }
        PolicyHead::Convolution { first, last } => {
            let x = builder.convolve("/policy/conv1", body, first);
            let x = activate(builder, "/policy/conv1", x, network.activation());
            let x = builder.convolve("/policy/conv2", &x, last);
            let logits = 64 * last.outputs;
            let x = builder.reshape("/policy/flatten", &x, "/const/policy_shape", &[-1, logits as i64]);
            builder.gather(&name, &x, MAPPING_TABLE, &mapping_table(logits, convolution_index));
        }
        PolicyHead::Attention(head) => {
            let x = attention_logits(builder, network, head, body);
            builder.gather(&name, &x, MAPPING_TABLE, &mapping_table(ATTENTION_LOGITS, attention_index));
        }
    }
    builder.output(&name, POLICY_SIZE);
}

/// For each output of the policy, the number of its logit among `logits`.
fn mapping_table(logits: usize, index: impl Fn(usize) -> Option<u16>) -> Vec<i32> {
    let mut table = vec![0; POLICY_SIZE];
    for logit in 0..logits {
        if let Some(index) = index(logit) {
            table[usize::from(index)] = logit as i32;
        }
    }
    table
}

/// All logits of an attention policy, `[batch, 67 * 64]`.
fn attention_logits(
    builder: &mut Builder<'_>,
    network: &Network,
    head: &AttentionPolicy,
    body: &str,
) -> String {
    let depth = head.depth as i64;
    let x = match network.body {
        Body::Convolution { .. } => {
            let squares = builder.transpose("/policy/dense1/transpose", body, &[0, 2, 3, 1]);
            let dimensions = [-1, head.embedding.inputs as i64];
            builder.reshape("/policy/dense1/reshape", &squares, "/const/policy_shape", &dimensions)
        }
        Body::Attention { .. } => body.to_owned(),
    };
    let x = builder.dense("/policy/dense1/matmul", "/policy/dense1/add", &x, &head.embedding);
    let x = activate(builder, "/policy/dense1", x, head.embedding_activation);
    let x = encode(builder, &head.stack, "/policy/enc_layer_", x);

    let [query, key] = &head.query_key;
    let shape = "/const/QK_shape";
    let queries = builder.dense("/policy/Q/matmul", "/policy/Q/add", &x, query);
    let queries = builder.reshape("/policy/Q/reshape", &queries, shape, &[-1, 64, depth]);
    let keys = builder.dense("/policy/K/matmul", "/policy/K/add", &x, key);
    let keys = builder.node("Reshape", "/policy/K/reshape", &[&keys, shape], Vec::new());
    let columns = builder.transpose("/policy/K/transpose", &keys, &[0, 2, 1]);
    let moves = builder.node("MatMul", "/policy/matmul", &[&queries, &columns], Vec::new());
    let moves = builder.scale("/policy/scale", &moves, score_scale(head.depth));

    let promotions = promotion_logits(builder, head, &moves, &keys);
    let x = builder.concatenate("/policy/concat", &[&moves, &promotions], 1);
    builder.reshape("/policy/reshape", &x, "/const/policy_out_shape", &[-1, ATTENTION_LOGITS as i64])
}

/// The logits of the promotions, `[batch, 3, 64]`: flattened, `[from-file][to-file][queen, rook, bishop]`. `moves` are
/// the logits of all pairs of squares, `[batch, 64, 64]`, and `keys` are `[batch, 64, depth]`.
fn promotion_logits(builder: &mut Builder<'_>, head: &AttentionPolicy, moves: &str, keys: &str) -> String {
    let named = |last: &str| format!("/policy/promotion/{last}");
    let shape = |last: &str| format!("/const/policy_promotion_shape{last}");
    // In lc0's files the names of the two slices do not begin with a slash.
    let last_rank = [TO_END, 64, head.depth as i32];
    let x = builder.slice("policy/promotion/slice", keys, &[0, 56, 0], &last_rank);
    let x = builder.multiply(&named("matmul"), &x, &head.promotion);
    let x = builder.transpose(&named("transpose"), &x, &[0, 2, 1]);
    let [pieces, all] = builder.split(&named("split"), &x, Some([3, 1]));
    let x = builder.node("Add", &named("add"), &[&pieces, &all], Vec::new());
    let x = builder.transpose(&named("transpose2"), &x, &[0, 2, 1]);
    let offsets = builder.reshape(&named("reshape"), &x, &shape(""), &[-1, 1, 24]);
    let x = builder.slice("policy/promotion/slice2", moves, &[0, 48, 56], &[TO_END, 56, 64]);
    let x = builder.reshape(&named("reshape2"), &x, &shape("2"), &[-1, 64, 1]);
    let x = builder.concatenate(&named("concat"), &[&x, &x, &x], 2);
    let x = builder.reshape(&named("reshape3"), &x, &shape("3"), &[-1, 8, 24]);
    let x = builder.node("Add", &named("add2"), &[&x, &offsets], Vec::new());
    builder.reshape(&named("reshape4"), &x, &shape("4"), &[-1, 3, 64])
}

/// Win, draw and loss, or the value alone.
pub(super) fn value(builder: &mut Builder<'_>, network: &Network, body: &str) {
    let x = scalar_head(builder, network, &network.value, "/value", body);
    if network.architecture.wdl {
        let name = builder.settings.names.wdl.clone();
        builder.softmax(&name, &x, 1);
        builder.output(&name, 3);
    } else {
        let name = builder.settings.names.value.clone();
        builder.node("Tanh", &name, &[&x], Vec::new());
        builder.output(&name, 1);
    }
}

/// The moves left, if the network has the head.
pub(super) fn moves_left(builder: &mut Builder<'_>, network: &Network, body: &str) {
    if let Some(head) = &network.moves_left {
        let x = scalar_head(builder, network, head, "/mlh", body);
        let name = builder.settings.names.moves_left.clone();
        builder.node("Relu", &name, &[&x], Vec::new());
        builder.output(&name, 1);
    }
}

fn scalar_head(
    builder: &mut Builder<'_>,
    network: &Network,
    head: &ScalarHead,
    name: &str,
    body: &str,
) -> String {
    let named = |last: &str| format!("{name}/{last}");
    let activation = network.activation();
    let x = match &head.input {
        HeadInput::Convolution(layer) => {
            let x = builder.convolve(&named("conv"), body, layer);
            activate(builder, &named("conv"), x, activation)
        }
        HeadInput::Dense(layer) => {
            let x = builder.dense(&named("embed/matmul"), &named("embed/add"), body, layer);
            activate(builder, &named("embed"), x, activation)
        }
    };
    let dimensions = [-1, head.hidden.inputs as i64];
    let x = builder.reshape(&named("reshape"), &x, &format!("/const{name}_shape"), &dimensions);
    let x = builder.dense(&named("dense1/matmul"), &named("dense1/add"), &x, &head.hidden);
    let x = activate(builder, &named("dense1"), x, activation);
    builder.dense(&named("dense2/matmul"), &named("dense2/add"), &x, &head.output)
}
