//! Step 4, prefetch: fills up the batch with positions that the search will probably need soon, so that their
//! evaluations are in the cache. [`super::expected_visits`] chooses them, or this file does as lc0 does.

use super::expected_visits::add_expected;
use super::mate::mate_plies;
use super::scratch::Scratch;
use super::selection::{Candidate, Choice, MAX_DEPTH, RootFocus, list_candidates};
use crate::state::{Counters, Minibatch, SearchContext, SharedControl};
use rukh_backend::{Added, EvalRequest};
use rukh_tree::{NodeId, State};

/// Adds positions for the cache to `batch`. Does nothing for a backend on the CPU, because a larger batch does not make a
/// position cheaper there.
///
/// By expected visits, a batch that has fewer leaves than wanted is filled up to the size to which the device pads it, and
/// only if the worker `mostly_waits` for the backend, because choosing positions takes a worker's time. A larger batch
/// would take longer, and part of the additional evaluations would never be used: fewer nodes would be searched in the same
/// time. As lc0 does it, a batch is filled up to `params.max_prefetch` requests.
pub(super) fn prefetch(
    context: &SearchContext,
    counters: &Counters,
    control: &SharedControl,
    scratch: &mut Scratch,
    batch: &mut Minibatch,
    mostly_waits: bool,
) {
    let attributes = context.backend.attributes();
    let most = context.params.max_prefetch;
    let filled = batch.request.len();
    if attributes.runs_on_cpu || most == 0 || filled == 0 || control.is_stopping() {
        return;
    }
    let by_visits = context.params.prefetch_by_visits;
    let wanted = match by_visits {
        true if mostly_waits && filled < context.minibatch_size() => attributes.batch_sizes.padded(filled),
        true => 0,
        false => most,
    };
    let target = wanted.min(attributes.maximum_batch_size);
    if filled >= target {
        return;
    }
    let skips_ruled_out = mate_plies(context, counters).is_some();
    if by_visits {
        return add_expected(context, scratch, batch, skips_ruled_out, target);
    }
    Prefetch { context, scratch, batch, skips_ruled_out }.below(context.tree.root(), target - filled, 0);
}

/// The state of a prefetch, and the parts of the search that it reads and changes.
struct Prefetch<'a> {
    context: &'a SearchContext,
    scratch: &'a mut Scratch,
    batch: &'a mut Minibatch,
    skips_ruled_out: bool,
}

impl Prefetch<'_> {
    /// Adds likely leaves below `id` to the batch. Returns how many of `budget` were used.
    fn below(&mut self, id: NodeId, budget: usize, depth: usize) -> usize {
        let context = self.context;
        let node = context.tree.node(id);
        if node.state() != State::Expanded || depth >= MAX_DEPTH {
            return 0;
        }
        let exploration = context.exploration(id, depth == 0);
        let focus = (depth == 0).then(|| RootFocus::new(context, None));
        let choice =
            Choice { node, exploration, focus: focus.as_ref(), skips_ruled_out: self.skips_ruled_out };
        // The list has one move more than the budget can use, as the rival of the last move.
        let least_untried = budget.min(64) as u32 + 1;
        let Scratch { walk, candidates, .. } = &mut *self.scratch;
        list_candidates(context, walk, &choice, least_untried, candidates);
        let mut candidates: Vec<Candidate> = candidates.iter().collect();
        // The sort is stable, so that among equal scores the better prior comes first.
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
        let mut used = 0;
        for (rank, candidate) in candidates.iter().enumerate() {
            if used >= budget {
                break;
            }
            // The move is proven to lose, or the network gives it no probability.
            if candidate.prior == 0.0 {
                continue;
            }
            let rival = candidates.get(rank + 1).map_or(f32::NEG_INFINITY, |next| next.score);
            let share = candidate.visits_until_overtaken(exploration, rival);
            let share = (share as usize).min(budget - used);
            let m = context.tree.link(candidate.link).edge().packed_move();
            let history = &mut self.scratch.walk.history;
            history.push(m.unpack(history.last()));
            let evaluated_child =
                candidate.child.filter(|&child| context.tree.node(child).state() != State::Unevaluated);
            used += match evaluated_child {
                Some(child) => self.below(child, share, depth + 1),
                None => self.add_position(),
            };
            self.scratch.walk.history.pop();
        }
        used
    }

    /// Adds the last position of the walk to the batch. Returns how much of the budget it takes.
    fn add_position(&mut self) -> usize {
        let Scratch { walk, leaf_moves, .. } = &mut *self.scratch;
        walk.history.last().packed_moves(leaf_moves);
        let request = EvalRequest { history: &walk.history, moves: leaf_moves };
        // A cached position uses up its share of the budget too, because the search for an uncached position would take
        // longer than it saves.
        if !leaf_moves.is_empty()
            && self.context.backend.cached(request).is_none()
            && matches!(self.batch.request.add(request), Added::Queued)
        {
            self.batch.gathered.waiting.push(None);
        }
        1
    }
}
