//! Blends two policy heads into one head whose logits are the weighted means of the two heads' logits.
//!
//! Attention logits are products of queries and keys. If the queries of two heads are put side by side, and their keys
//! too, the logits of the new head are the sums of the logits of the two. The weights of the mean are multiplied into
//! the queries. The blend is exact, and backends evaluate it like any other head.

use crate::error::Reason;
use crate::network::{AttentionPolicy, PolicyHead};
use crate::weights::Dense;

/// The head whose logits are `1 - share` times those of `first` plus `share` times those of `second`.
pub(super) fn blend(first: PolicyHead, second: PolicyHead, share: f32) -> Result<PolicyHead, Reason> {
    let (PolicyHead::Attention(first), PolicyHead::Attention(second)) = (first, second) else {
        return Err(cannot("no attention policy"));
    };
    if !(first.stack.encoders.is_empty() && second.stack.encoders.is_empty()) {
        return Err(cannot("encoders in its policy heads"));
    }
    let AttentionPolicy { embedding, query_key: [query, key], promotion, .. } = &*first;
    let AttentionPolicy { embedding: embedding2, query_key: [query2, key2], promotion: promotion2, .. } =
        &*second;
    let (depth, depth2) = (query.outputs, query2.outputs);
    // Logits are divided by the root of the depth, which is now the sum of the two depths.
    let scale = |share: f32, own: usize| share * ((depth + depth2) as f32 / own as f32).sqrt();
    let (scale, scale2) = (scale(1.0 - share, depth), scale(share, depth2));
    let is_shared = embedding.weights == embedding2.weights && embedding.biases == embedding2.biases;
    // The second head's inputs follow those of the first head, unless both read the same inputs.
    let (width, start2) = match is_shared {
        true => (embedding.outputs, 0),
        false => (embedding.outputs + embedding2.outputs, embedding.outputs),
    };
    let stack = |layer: &Dense, scale: f32, layer2: &Dense, scale2: f32| {
        let mut stacked = Dense { inputs: width, ..Dense::default() };
        push_rows(&mut stacked, layer, scale, 0);
        push_rows(&mut stacked, layer2, scale2, start2);
        stacked
    };
    let query = stack(query, scale, query2, scale2);
    let key = stack(key, 1.0, key2, 1.0);
    // Promotion offsets are computed from the keys alone, so here the shares are multiplied into the rows.
    let rows = promotion.weights.chunks_exact(depth).zip(promotion2.weights.chunks_exact(depth2));
    let weights = rows.flat_map(|(row, row2)| {
        row.iter().map(|weight| weight * (1.0 - share)).chain(row2.iter().map(|weight| weight * share))
    });
    let promotion = Dense { weights: weights.collect(), inputs: depth + depth2, ..promotion.clone() };
    let embedding = if is_shared {
        embedding.clone()
    } else {
        let mut both = Dense { inputs: embedding.inputs, ..Dense::default() };
        push_rows(&mut both, embedding, 1.0, 0);
        push_rows(&mut both, embedding2, 1.0, 0);
        both
    };
    Ok(PolicyHead::Attention(Box::new(AttentionPolicy {
        embedding,
        depth: query.outputs,
        query_key: [query, key],
        promotion,
        ..*first
    })))
}

fn cannot(reason: &str) -> Reason {
    Reason::Unsupported(format!(
        "has {reason}: its policy heads cannot be blended, and PolicyOptimism can only be 0 or 1"
    ))
}

/// Appends the outputs of `layer`, multiplied by `scale`, to `rows`. The inputs of `layer` are the inputs of `rows`
/// from the index `start` on.
fn push_rows(rows: &mut Dense, layer: &Dense, scale: f32, start: usize) {
    for (weights, bias) in layer.weights.chunks_exact(layer.inputs).zip(&layer.biases) {
        let end = rows.weights.len() + rows.inputs;
        rows.weights.resize(rows.weights.len() + start, 0.0);
        rows.weights.extend(weights.iter().map(|weight| weight * scale));
        rows.weights.resize(end, 0.0);
        rows.biases.push(bias * scale);
    }
    rows.outputs += layer.outputs;
}
