//! 4. Prefetch: positions for the cache.

use super::{Gatherer, MAX_DEPTH};
use crate::backend::{Added, EvalRequest};
use crate::search::minibatch::Minibatch;
use crate::search::{Shared, select};
use crate::tree::{NodeId, State};

impl Gatherer {
    /// 4. Prefetch: tops the batch up with positions that the search will probably want soon, for the cache.
    pub(in crate::search) fn prefetch(&mut self, shared: &Shared, batch: &mut Minibatch) {
        let target = shared.params.max_prefetch.min(shared.backend.attributes().maximum_batch_size);
        if batch.request.is_empty() || batch.request.len() >= target || shared.is_stopping() {
            return;
        }
        let budget = target - batch.request.len();
        self.prefetch_below(shared, batch, shared.tree.root(), budget, 0);
    }
    /// Sends likely leaves below `id` to the cache; returns how many of `budget` were used.
    fn prefetch_below(
        &mut self,
        shared: &Shared,
        batch: &mut Minibatch,
        id: NodeId,
        budget: usize,
        depth: usize,
    ) -> usize {
        let node = shared.tree.node(id);
        if node.state() != State::Expanded || depth >= MAX_DEPTH {
            return 0;
        }
        let exploration = shared.exploration(id, depth == 0);
        let mut candidates = self.candidates.pop().unwrap_or_default();
        // One more than can be used, as the last one's rival.
        self.list_candidates(shared, node, budget.min(64) as u32 + 1, None, exploration, &mut candidates);
        // Stable: of equals the better prior first.
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
        let mut used = 0;
        for (rank, candidate) in candidates.iter().enumerate() {
            if used >= budget {
                break;
            }
            // Proven to lose, or of no policy at all.
            if candidate.prior == 0.0 {
                continue;
            }
            let rival = candidates.get(rank + 1).map_or(f32::NEG_INFINITY, |next| next.score);
            let share = select::visits_until_overtaken(
                candidate.prior,
                exploration,
                candidate.started,
                candidate.utility,
                rival,
            );
            let share = (share as usize).min(budget - used);
            let m = shared.tree.link(candidate.link).edge().packed_move();
            self.history.push(m.unpack(self.history.last()));
            used += match candidate
                .child
                .filter(|&child| shared.tree.node(child).state() != State::Unevaluated)
            {
                Some(child) => self.prefetch_below(shared, batch, child, share, depth + 1),
                None => self.prefetch_leaf(shared, batch),
            };
            self.history.pop();
        }
        candidates.clear();
        self.candidates.push(candidates);
        used
    }

    fn prefetch_leaf(&mut self, shared: &Shared, batch: &mut Minibatch) -> usize {
        self.history.last().packed_moves(&mut self.leaf_moves);
        let request = EvalRequest { history: &self.history, moves: &self.leaf_moves };
        // A cached position takes its share of the budget too: hunting for one that is not cached costs more.
        if !self.leaf_moves.is_empty()
            && shared.backend.cached(request).is_none()
            && matches!(batch.request.add(request), Added::Queued)
        {
            batch.gathered.waiting.push(None);
        }
        1
    }
}
