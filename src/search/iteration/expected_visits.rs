//! Chooses positions for the cache by the visits that the search would make next.
//!
//! A simulated descent shares a number of visits among the children of each node as selection does, with every visit in
//! flight when the next is chosen, but without changing the tree's visits. The unevaluated positions where such visits
//! end are the ones that the next batches will want first.

use super::scratch::Scratch;
use super::selection::{Choice, MAX_DEPTH, RootFocus, list_candidates};
use crate::state::{Minibatch, SearchContext};
use rukh_backend::{Added, EvalRequest};
use rukh_tree::{NodeId, State};
use std::collections::HashSet;

/// The simulated visits for each wanted position. Several may end at the same position, or at one that is cached.
const VISITS_PER_POSITION: usize = 2;
/// The most untried moves that are listed at a node. It is enough for nearly all simulated visits, and links for more
/// moves would take memory.
const MOST_UNTRIED: u32 = 8;

/// Adds positions to `batch` until it has `target` requests, or as many as can be found.
pub(super) fn add_expected(
    context: &SearchContext,
    scratch: &mut Scratch,
    batch: &mut Minibatch,
    skips_ruled_out: bool,
    target: usize,
) {
    let wanted = target.saturating_sub(batch.request.len());
    let focus = RootFocus::new(context, None);
    let visits = u32::try_from(wanted * VISITS_PER_POSITION).unwrap_or(u32::MAX);
    let mut prefetch = Expected { context, scratch, batch, skips_ruled_out, target, added: HashSet::new() };
    prefetch.share_out(context.tree.root(), visits, 0, Some(&focus));
}

/// The state of a prefetch, and the parts of the search that it reads and changes.
struct Expected<'a> {
    context: &'a SearchContext,
    scratch: &'a mut Scratch,
    batch: &'a mut Minibatch,
    skips_ruled_out: bool,
    /// The number of requests at which the batch is full.
    target: usize,
    /// The keys of the positions that were found before.
    added: HashSet<u64>,
}

impl Expected<'_> {
    fn is_full(&self) -> bool {
        self.batch.request.len() >= self.target
    }

    /// Shares `budget` visits among the children of a node, and adds the unevaluated positions where they end.
    fn share_out(&mut self, id: NodeId, budget: u32, depth: usize, focus: Option<&RootFocus<'_>>) {
        let context = self.context;
        let node = context.tree.node(id);
        if node.state() != State::Expanded || depth >= MAX_DEPTH || self.is_full() {
            return;
        }
        // The factor of the node's visits in the middle of the simulated ones.
        let visits = if focus.is_some() { context.root_visits() } else { node.visits() };
        let visits = visits.saturating_sub(1).max(1) as f32;
        let growth = ((visits + budget as f32 / 2.0) / visits).sqrt();
        let exploration = context.exploration(id, focus.is_some()) * growth;
        let choice = Choice { node, exploration, focus, skips_ruled_out: self.skips_ruled_out };
        let least_untried = budget.saturating_add(1).min(MOST_UNTRIED);
        let Scratch { walk, candidates, chosen, .. } = &mut *self.scratch;
        list_candidates(context, walk, &choice, least_untried, candidates);
        let mut left = budget;
        while left > 0 {
            let Some((best, rival_score)) = candidates.best_and_rival() else { break };
            let Some(candidate) = candidates.get(best) else { break };
            let visits = candidate.visits_until_overtaken(exploration, rival_score).clamp(1, left);
            left -= visits;
            candidates.add_visits(best, visits, exploration);
        }
        // Deeper nodes append their own choices, and remove them again.
        let first = chosen.len();
        candidates.take_chosen(chosen);
        for index in first..self.scratch.chosen.len() {
            if self.is_full() {
                break;
            }
            let candidate = self.scratch.chosen[index];
            let m = context.tree.link(candidate.link).edge().packed_move();
            let history = &mut self.scratch.walk.history;
            history.push(m.unpack(history.last()));
            let evaluated = |&child: &NodeId| context.tree.node(child).state() != State::Unevaluated;
            match candidate.child.filter(evaluated) {
                Some(child) => self.share_out(child, candidate.share, depth + 1, None),
                None => self.add_position(),
            }
            self.scratch.walk.history.pop();
        }
        self.scratch.chosen.truncate(first);
    }

    /// Adds the last position of the walk to the batch, unless it is cached or was found before.
    fn add_position(&mut self) {
        let Scratch { walk, leaf_moves, .. } = &mut *self.scratch;
        let position = walk.history.last();
        if !self.added.insert(position.key()) {
            return;
        }
        position.packed_moves(leaf_moves);
        let request = EvalRequest { history: &walk.history, moves: leaf_moves };
        let needs_evaluation = !leaf_moves.is_empty()
            && !position.has_insufficient_material()
            && position.repetitions() == 0
            && self.context.backend.cached(request).is_none();
        if needs_evaluation && matches!(self.batch.request.add(request), Added::Queued) {
            self.batch.gathered.waiting.push(None);
        }
    }
}
