//! Expands a leaf: stores its priors in the tree, so that other visits may go on below it.

use super::scratch::Scratch;
use crate::state::{SearchContext, SharedControl};
use rand_distr::Distribution;
use rukh_backend::Value;
use rukh_chess::PackedMove;
use rukh_tree::{Edge, Node, Sample};

/// Publishes a claimed leaf with its priors. The leaf is `depth` plies below the root, and the root itself gets links for
/// all its moves. If the tree has no room for the priors, this gives the claim back, ends the search, and returns
/// `false`.
pub(super) fn expand(
    context: &SearchContext,
    control: &SharedControl,
    scratch: &mut Scratch,
    node: &Node,
    depth: usize,
    moves: &[PackedMove],
    priors: &[f32],
) -> bool {
    let has_links = depth > 0 || link_root(context, scratch, node, moves, priors);
    if has_links && context.tree.expand(node, priors.iter().copied(), &mut scratch.walk.allocator) {
        return true;
    }
    end_search_of_full_tree(context, control);
    node.cancel_claim();
    false
}

/// Ends the search because no node can be added to the tree.
#[cold]
pub(super) fn end_search_of_full_tree(context: &SearchContext, control: &SharedControl) {
    let message = "the tree is full: no more nodes can be added".to_owned();
    control.fail(&*context.responder, message);
}

/// Makes links for all moves of the root. The links hold exact priors, because the user may see them. Noise is added if
/// the options ask for it.
fn link_root(
    context: &SearchContext,
    scratch: &mut Scratch,
    node: &Node,
    moves: &[PackedMove],
    priors: &[f32],
) -> bool {
    let Scratch { edges, walk, .. } = scratch;
    edges.clear();
    edges.extend(moves.iter().zip(priors).map(|(&m, &prior)| Edge::new(m, prior)));
    if context.params.noise_epsilon > 0.0 {
        add_noise(edges, context.params.noise_epsilon, context.params.noise_alpha);
    }
    // Moves with equal priors are ordered by their bits, so that the order is the same on every machine.
    edges.sort_unstable_by(|a, b| b.prior().total_cmp(&a.prior()).then(a.bits().cmp(&b.bits())));
    context.tree.link_exactly(node, edges, &mut walk.allocator)
}

/// The network's `value` of a leaf after contempt and calibration. The leaf is `depth` plies below the root.
pub(super) fn value_at(context: &SearchContext, value: Value, depth: usize) -> Sample {
    let sample = Sample { wl: value.q, d: value.d, m: value.m };
    let rescale = &context.params.wdl_rescale;
    // At even depths the side to move is that of the root.
    let root_side = context.history.last().side_to_move();
    rescale.apply(sample, if depth.is_multiple_of(2) { root_side } else { !root_side })
}

/// Mixes Dirichlet noise into the priors.
fn add_noise(edges: &mut [Edge], epsilon: f32, alpha: f32) {
    let Ok(gamma) = rand_distr::Gamma::new(alpha, 1.0) else {
        return;
    };
    let mut rng = rand::rng();
    let noise: Vec<f32> = edges.iter().map(|_| gamma.sample(&mut rng)).collect();
    let total: f32 = noise.iter().sum();
    if total < f32::MIN_POSITIVE {
        return;
    }
    for (edge, noise) in edges.iter_mut().zip(noise) {
        let prior = edge.prior() * (1.0 - epsilon) + epsilon * noise / total;
        *edge = Edge::new(edge.packed_move(), prior);
    }
}
