//! 2. Gather: fills a batch with leaves worth evaluating.
//!
//! One descent hands out many visits at once: at each node the budget is shared among the children as if the visits
//! were made one by one (each counts as started at once), then each child gets its share. Positions are made and
//! unmade along the way, so a move is played once for all the visits that go through it.
//!
//! A visit that meets a node under evaluation is a *collision*: there is nothing to do for it. It stays announced
//! along its path until the batch is done, which drives later visits elsewhere, and enough of them end the batch.
//! A visit that ends in a known value (terminal, or in the cache) is backed up at once, *out of order*.

mod leaf;
mod plan;
mod prefetch;

use super::Shared;
use super::minibatch::{Collision, Leaf, Minibatch};
use crate::backend::{Added, EvalRequest};
use crate::chess::{PackedMove, PositionHistory};
use crate::tree::{Allocator, Edge, NodeId, State};
use leaf::{outcome_by_rule, outcome_by_tablebase};
use plan::{Candidate, RootFocus, Task};

/// Deeper than any game that matters; keeps recursion within the thread's stack.
const MAX_DEPTH: usize = 1500;

/// One thread's gathering state, reused from batch to batch.
pub(super) struct Gatherer {
    /// The game and, during a descent, the moves from the root on.
    history: PositionHistory,
    /// Positions before the root's own moves.
    root_length: usize,
    /// Root to the current node.
    path: Vec<NodeId>,
    /// One list of candidates per depth, reused.
    candidates: Vec<Vec<Candidate>>,
    allocator: Allocator,
    /// Scratch for a leaf's moves.
    leaf_moves: Vec<PackedMove>,
    /// Scratch for a leaf's edges.
    edges: Vec<Edge>,
}
/// What one descent found.
#[derive(Clone, Copy, Default, Debug)]
struct Found {
    leaves: u32,
    out_of_order: u32,
    collisions: u32,
}

impl Gatherer {
    pub(super) fn new(shared: &Shared) -> Gatherer {
        Gatherer {
            history: shared.history.clone(),
            root_length: shared.history.positions().len(),
            path: Vec::new(),
            candidates: Vec::new(),
            allocator: Allocator::default(),
            leaf_moves: Vec::new(),
            edges: Vec::new(),
        }
    }

    /// Fills `batch` up to `params.minibatch_size` leaves, or until collisions, the visit limit or a stop say
    /// that there is no more to find.
    pub(super) fn gather(&mut self, shared: &Shared, batch: &mut Minibatch, remaining_playouts: Option<u64>) {
        let params = &shared.params;
        let target = params.minibatch_size as u32;
        let max_out_of_order = ((params.max_out_of_order_factor * target as f32) as u32).max(1);
        let tree_size = u64::from(shared.root().visits());
        let mut collisions_left =
            collisions_allowed(shared, remaining_playouts.map_or(tree_size, |left| left.min(tree_size)));
        let mut events_left = params.collisions.max_events;
        let focus = RootFocus::new(shared, remaining_playouts);

        loop {
            // Without `OutOfOrderEval` known results take a place in the batch like any other.
            let known = if params.out_of_order_eval { 0 } else { batch.gathered.out_of_order };
            let budget = collisions_left
                .min(target.saturating_sub(batch.gathered.leaf_count as u32 + known))
                .min(max_out_of_order.saturating_sub(batch.gathered.out_of_order))
                .min(shared.visits_left());
            if budget == 0 {
                return;
            }
            let first_collision = batch.gathered.collisions.len();
            let found = self.descend_from_root(shared, batch, budget, &focus);
            batch.gathered.out_of_order += found.out_of_order;
            let events = batch.gathered.collisions.len() - first_collision;
            events_left = events_left.saturating_sub(events as u32);
            collisions_left = collisions_left.saturating_sub(found.collisions);
            // A descent of nothing but collisions: more of them would only drive visits to bad moves, and cost as
            // much as the leaves they find (a tenth of the speed on flat evaluations, where they are many).
            if collisions_left == 0 || events_left == 0 || found.leaves + found.out_of_order == 0 {
                return;
            }
            if shared.is_stopping() {
                return;
            }
        }
    }

    fn descend_from_root(
        &mut self,
        shared: &Shared,
        batch: &mut Minibatch,
        budget: u32,
        focus: &RootFocus,
    ) -> Found {
        self.path.clear();
        self.path.push(shared.tree.root());
        let root = shared.root();
        let mut found = Found::default();
        root.add_in_flight(budget);
        match root.state() {
            State::Expanded => self.share_out(shared, batch, budget, Some(focus), &mut found),
            State::Unevaluated if root.try_claim() => {
                root.cancel_in_flight(budget - 1);
                self.evaluate(shared, batch, &mut found);
            }
            _ => self.collide(batch, budget, &mut found),
        }
        debug_assert_eq!(self.history.positions().len(), self.root_length);
        found
    }

    /// Shares `budget` announced visits of the last node on the path among its children and makes them.
    fn share_out(
        &mut self,
        shared: &Shared,
        batch: &mut Minibatch,
        budget: u32,
        focus: Option<&RootFocus>,
        found: &mut Found,
    ) {
        let depth = self.path.len() - 1;
        let Some(&id) = self.path.last() else { return };
        if depth >= MAX_DEPTH {
            return self.collide(batch, budget, found);
        }
        let node = shared.tree.node(id);
        let mut candidates = self.candidates.pop().unwrap_or_default();
        let collided = self.plan(shared, node, budget, focus, &mut candidates);
        if collided > 0 {
            self.collide(batch, collided, found);
        }
        for candidate in &candidates {
            let (Some(child), true) = (candidate.child, candidate.task != Task::Nothing) else {
                continue;
            };
            self.path.push(child);
            match candidate.task {
                Task::Terminal => self.revisit_terminal(shared, candidate.share, found),
                Task::Evaluate | Task::Descend => {
                    let m = shared.tree.edge(node, candidate.edge_index).packed_move();
                    self.history.push(m.unpack(self.history.last()));
                    if candidate.task == Task::Evaluate {
                        self.evaluate(shared, batch, found);
                    } else {
                        self.share_out(shared, batch, candidate.share, None, found);
                    }
                    self.history.pop();
                }
                Task::Nothing => {}
            }
            self.path.pop();
        }
        candidates.clear();
        self.candidates.push(candidates);
    }

    /// Counts the exact value of the last node on the path again, now.
    fn revisit_terminal(&mut self, shared: &Shared, visits: u32, found: &mut Found) {
        let Some(outcome) = self.path.last().and_then(|&id| shared.tree.node(id).outcome()) else {
            return;
        };
        shared.back_up(&self.path, outcome.sample(), visits, false);
        shared.counters.count_visits(self.path.len(), visits);
        found.out_of_order += visits;
    }

    /// Evaluates the last node on the path, which this thread has claimed and announced one visit of: by the
    /// rules, from the cache, or by putting it into the batch.
    fn evaluate(&mut self, shared: &Shared, batch: &mut Minibatch, found: &mut Found) {
        let Some(&id) = self.path.last() else { return };
        let node = shared.tree.node(id);
        let depth = self.path.len() - 1;
        let position = self.history.last();
        self.leaf_moves.clear();
        self.leaf_moves.extend(position.legal_moves().iter().map(|&m| PackedMove::new(m)));
        let outcome = outcome_by_rule(shared, position, self.leaf_moves.is_empty(), depth).or_else(|| {
            let parent = self.path.get(depth.checked_sub(1)?)?;
            outcome_by_tablebase(shared, position, shared.tree.node(*parent).sample().m)
        });
        if let Some(outcome) = outcome {
            node.publish_terminal(outcome);
            shared.back_up(&self.path, outcome.sample(), 1, true);
            shared.counters.count_visits(depth + 1, 1);
            found.out_of_order += 1;
            return;
        }
        let request = EvalRequest { history: &self.history, moves: &self.leaf_moves };
        match batch.request.add(request) {
            Added::Ready(evaluation) => {
                let path = std::mem::take(&mut self.path);
                let moves = std::mem::take(&mut self.leaf_moves);
                self.finish_leaf(shared, &path, &moves, evaluation.value, &evaluation.priors);
                self.path = path;
                self.leaf_moves = moves;
                shared.counters.count_visits(depth + 1, 1);
                found.out_of_order += 1;
            }
            Added::Queued => {
                let first_move = batch.gathered.moves.len();
                batch.gathered.moves.extend_from_slice(&self.leaf_moves);
                let path = batch.gathered.keep_path(&self.path);
                batch
                    .gathered
                    .waiting
                    .push(Some(Leaf { path, moves: first_move..batch.gathered.moves.len() }));
                batch.gathered.leaf_count += 1;
                found.leaves += 1;
            }
        }
    }

    fn collide(&mut self, batch: &mut Minibatch, visits: u32, found: &mut Found) {
        let path = batch.gathered.keep_path(&self.path);
        batch.gathered.collisions.push(Collision { path, visits });
        found.collisions += visits;
    }
}

/// How many collisions a batch may meet in a tree of this size: few while it is small, when they would only
/// drive visits to bad moves.
fn collisions_allowed(shared: &Shared, tree_size: u64) -> u32 {
    let params = &shared.params.collisions;
    if tree_size >= params.scaling_end {
        return params.max_visits;
    }
    if tree_size <= params.scaling_start {
        return 1;
    }
    let share =
        (tree_size - params.scaling_start) as f32 / (params.scaling_end - params.scaling_start) as f32;
    // The default power without the platform's pow, so that search is the same on every machine.
    let grown = if params.scaling_power == 1.25 {
        share * share.sqrt().sqrt()
    } else {
        share.powf(params.scaling_power)
    };
    1 + ((params.max_visits - 1) as f32 * grown).round_ties_even() as u32
}
