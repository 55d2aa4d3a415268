//! Leaves: what the rules say of them, and 6. Fetch: what becomes of them once they are evaluated.

use super::Gatherer;
use crate::backend::{Evaluations, Value};
use crate::chess::{PackedMove, Position};
use crate::search::Shared;
use crate::search::minibatch::Gathered;
use crate::search::shared::VisitCounts;
use crate::search::tally::Tally;
use crate::sync::atomic::Ordering;
use crate::tree::{Edge, Node, Outcome, Sample, TerminalKind, Totals, Weighted};
use rand_distr::Distribution;

impl Gatherer {
    /// Steps 6 (fetch: turns the evaluations into edges and publishes the leaves) and 7 (backs their values up), in one
    /// pass from the last step to the first. What still stands announced is withdrawn.
    pub(in crate::search) fn finish_batch(
        &mut self,
        shared: &Shared,
        gathered: &Gathered,
        evaluations: &Evaluations,
    ) {
        match shared.keeps_annexes {
            false => self.finish_batch_as::<Totals>(shared, gathered, evaluations),
            true => self.finish_weighted_batch(shared, gathered, evaluations),
        }
    }

    #[cold]
    #[inline(never)]
    fn finish_weighted_batch(&mut self, shared: &Shared, gathered: &Gathered, evaluations: &Evaluations) {
        self.finish_batch_as::<Weighted>(shared, gathered, evaluations);
    }

    #[inline(always)]
    fn finish_batch_as<T: Tally>(&mut self, shared: &Shared, gathered: &Gathered, evaluations: &Evaluations) {
        let mut totals = std::mem::take(T::scratch(self));
        let mut counts = VisitCounts::default();
        totals.clear();
        totals.resize(gathered.steps.len(), T::default());
        let leaves = gathered.waiting.iter().enumerate().rev();
        let mut leaves = leaves.filter_map(|(index, leaf)| Some((index, leaf.as_ref()?))).peekable();
        for (index, step) in gathered.steps.iter().enumerate().rev() {
            let node = shared.tree.node(step.node);
            if let Some((evaluation, leaf)) = leaves.next_if(|(_, leaf)| leaf.step as usize == index) {
                let (value, priors) = evaluations.get(evaluation);
                let moves = &gathered.moves[leaf.moves.clone()];
                if self.expand(shared, node, step.parent.is_none(), moves, priors) {
                    shared.rule_mate_out(&gathered.steps, leaf.step, leaf.depth as usize - 1);
                    let sample = value_at(shared, value, leaf.depth as usize - 1);
                    totals[index] = T::of_leaf(shared, step.node, value, sample);
                    counts = counts.with(leaf.depth as usize, 1);
                }
            }
            let mut finished = totals[index];
            if finished.visits() > 0 {
                // Proven meanwhile: from here up the exact value counts.
                if let Some(outcome) = node.outcome() {
                    finished = T::of_outcome(shared, outcome, finished.visits());
                }
                finished.finish(shared, step);
                if let Some(parent) = step.parent {
                    let parent = &mut totals[parent as usize];
                    *parent = parent.plus(finished.for_parent());
                }
            }
            if step.announced > 0 {
                shared.withdraw(step, step.announced);
            }
        }
        *T::scratch(self) = totals;
        shared.counters.count_all(counts);
        let evaluated = gathered.waiting.len() as u64;
        shared.counters.network_evaluations.fetch_add(evaluated, Ordering::Relaxed);
    }

    /// Publishes a leaf with its priors. Where there is no room its claim is given back, and the result is `false`.
    pub(super) fn expand(
        &mut self,
        shared: &Shared,
        node: &Node,
        is_root: bool,
        moves: &[PackedMove],
        priors: &[f32],
    ) -> bool {
        let has_links = !is_root || self.link_root(shared, node, moves, priors);
        if has_links && shared.tree.expand(node, priors.iter().copied(), &mut self.allocator) {
            return true;
        }
        shared.report_full_tree();
        node.cancel_claim();
        false
    }

    /// Gives the root links for all its moves, with exact priors, for these are shown; and with noise where that is
    /// asked for.
    fn link_root(&mut self, shared: &Shared, node: &Node, moves: &[PackedMove], priors: &[f32]) -> bool {
        self.edges.clear();
        self.edges.extend(moves.iter().zip(priors).map(|(&m, &prior)| Edge::new(m, prior)));
        if shared.params.noise_epsilon > 0.0 {
            add_noise(&mut self.edges, shared.params.noise_epsilon, shared.params.noise_alpha);
        }
        // The move breaks ties, so that the order is the same everywhere.
        self.edges.sort_unstable_by(|a, b| b.prior().total_cmp(&a.prior()).then(a.bits().cmp(&b.bits())));
        shared.tree.link_exactly(node, &self.edges, &mut self.allocator)
    }
}

/// An evaluation's value for the search, `depth` plies below the root.
pub(super) fn value_at(shared: &Shared, value: Value, depth: usize) -> Sample {
    let sample = Sample { wl: value.q, d: value.d, m: value.m };
    let rescale = &shared.params.wdl_rescale;
    // The root's side is to move at even depths.
    let root_side = shared.history.last().side_to_move();
    rescale.apply(sample, if depth.is_multiple_of(2) { root_side } else { !root_side })
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
