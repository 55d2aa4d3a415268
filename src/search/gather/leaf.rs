//! Leaves: what the rules say of them, and 6. Fetch: what becomes of them once they are evaluated.

use super::Gatherer;
use crate::backend::Value;
use crate::chess::{PackedMove, Position};
use crate::search::Shared;
use crate::tree::{Edge, NodeId, Outcome, Sample, TerminalKind};
use rand_distr::Distribution;
use std::sync::atomic::Ordering;

impl Gatherer {
    /// 6. Fetch: turns an evaluation into edges, publishes the leaf and backs its value up.
    pub(in crate::search) fn finish_leaf(
        &mut self,
        shared: &Shared,
        path: &[NodeId],
        moves: &[PackedMove],
        value: Value,
        priors: &[f32],
    ) {
        let Some(&id) = path.last() else { return };
        let node = shared.tree.node(id);
        self.edges.clear();
        self.edges.extend(moves.iter().zip(priors).map(|(&m, &prior)| Edge::new(m, prior)));
        if path.len() == 1 && shared.params.noise_epsilon > 0.0 {
            add_noise(&mut self.edges, shared.params.noise_epsilon, shared.params.noise_alpha);
        }
        // Bits compare like priors; the move breaks ties, so that the order is the same everywhere.
        self.edges.sort_unstable_by(|a, b| b.prior().total_cmp(&a.prior()).then(a.bits().cmp(&b.bits())));
        if !shared.tree.expand(node, &self.edges, &mut self.allocator) {
            shared.report_full_tree();
            node.cancel_claim();
            shared.cancel_visits(path, 1);
            return;
        }
        // The root's side is to move at even depths.
        let root_side = shared.history.last().side_to_move();
        let side = if path.len() % 2 == 1 { root_side } else { !root_side };
        let sample = Sample { wl: value.q, d: value.d, m: value.m };
        let sample = shared.params.wdl_rescale.apply(sample, side);
        shared.back_up(path, sample, 1, false);
    }
}

/// The result of a position by the rules of the game, from the side to move's view.
pub(super) fn outcome_by_rule(
    shared: &Shared,
    position: &Position,
    no_moves: bool,
    depth: usize,
) -> Option<Outcome> {
    let draw = |plies, kind| Some(Outcome { result: 0, plies, kind });
    if no_moves {
        let result = if position.is_check() { -1 } else { 0 };
        return Some(Outcome { result, plies: 0, kind: TerminalKind::EndOfGame });
    }
    // At the root, thinking about a drawn position is what was asked for.
    if depth == 0 {
        return None;
    }
    if position.has_insufficient_material() || position.rule50_ply() >= 100 || position.repetitions() >= 2 {
        return draw(0, TerminalKind::EndOfGame);
    }
    let cycle = position.plies_since_repetition();
    if position.repetitions() == 1
        && shared.params.two_fold_draws
        && depth >= 4
        && depth >= usize::from(cycle)
    {
        return draw(cycle, TerminalKind::TwoFold);
    }
    None
}

/// The result of a position by the tablebases, where they know it; `parent_m`: the plies left at its parent.
pub(super) fn outcome_by_tablebase(shared: &Shared, position: &Position, parent_m: f32) -> Option<Outcome> {
    let result = shared.tablebases.as_ref()?.result_after_zeroing(position)?;
    shared.counters.tablebase_hits.fetch_add(1, Ordering::Relaxed);
    // Tables tell no length in plies: the parent's guess, a ply on (a float's conversion saturates).
    Some(Outcome { result, plies: (parent_m - 1.0) as u16, kind: TerminalKind::Tablebase })
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
