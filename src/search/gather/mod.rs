//! 2. Gather: fills a batch with leaves worth evaluating.
//!
//! One descent hands out many visits at once: at each node the budget is shared among the children as if the visits
//! were made one by one (each counts as started at once), then each child gets its share. Positions are made and
//! unmade along the way, so a move is played once for all the visits that go through it.
//!
//! A visit that meets a node under evaluation is a *collision*: there is nothing to do for it. It stays announced
//! along its path until the batch is done, which drives later visits elsewhere, and enough of them end the batch.
//! A visit that ends in a known value (terminal, in the cache, or absorbed from a shared node's other parents, see
//! [`crate::tree`]) is backed up at once, *out of order*.

mod leaf;
mod plan;
mod prefetch;
mod ranking;

use super::Shared;
use super::minibatch::{Gathered, Leaf, Minibatch, Step, StepIndex};
use crate::backend::{Added, EvalRequest};
use crate::chess::{PackedMove, PositionHistory};
use crate::sync::atomic::Ordering;
use crate::tree::{Allocator, Edge, MOST_EDGES, State, Totals, Weighted};
use leaf::{outcome_by_rule, outcome_by_tablebase, value_at};
use plan::{Candidate, RootFocus, Task};
use ranking::Ranking;

/// Deeper than any game that matters; keeps recursion within the thread's stack.
const MAX_DEPTH: usize = 1500;

/// One thread's gathering state, reused from batch to batch.
pub(super) struct Gatherer {
    /// The game and, during a descent, the moves from the root on.
    history: PositionHistory,
    /// Positions before the root's own moves.
    root_length: usize,
    /// One list of candidates per depth, reused.
    candidates: Vec<Vec<Candidate>>,
    /// Scratch for sharing out visits.
    ranking: Ranking,
    allocator: Allocator,
    /// Scratch for a leaf's moves.
    leaf_moves: Vec<PackedMove>,
    /// The moves of the node whose candidates were listed last, where they were needed.
    node_moves: Vec<PackedMove>,
    /// Scratch for the root's edges.
    edges: Vec<Edge>,
    /// Scratch for backup: what each step has to finish.
    pub(in crate::search) totals: Vec<Totals>,
    /// The same where visits have weights.
    pub(in crate::search) weighted: Vec<Weighted>,
}

/// Where a descent is.
#[derive(Clone, Copy, Debug)]
struct Place {
    step: StepIndex,
    /// Plies below the root.
    depth: usize,
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
            candidates: Vec::new(),
            ranking: Ranking::default(),
            allocator: Allocator::default(),
            leaf_moves: Vec::new(),
            node_moves: Vec::new(),
            edges: Vec::new(),
            totals: Vec::new(),
            weighted: Vec::new(),
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
            let events_before = batch.gathered.collision_events;
            let found = self.descend_from_root(shared, batch, budget, &focus);
            batch.gathered.out_of_order += found.out_of_order;
            events_left = events_left.saturating_sub(batch.gathered.collision_events - events_before);
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

    /// Gives back what this thread has reserved in the tree.
    pub(super) fn give_back(&mut self, shared: &Shared) {
        self.allocator.give_back(&shared.tree);
    }

    fn descend_from_root(
        &mut self,
        shared: &Shared,
        batch: &mut Minibatch,
        budget: u32,
        focus: &RootFocus,
    ) -> Found {
        let root = shared.root();
        let announced = if root.state() == State::Unevaluated { 1 } else { budget };
        let step = Step { parent: None, link: None, node: shared.tree.root(), announced };
        shared.root_in_flight.fetch_add(announced, Ordering::Relaxed);
        let place = Place { step: batch.gathered.push(step), depth: 0 };
        let mut found = Found::default();
        match root.state() {
            State::Expanded => self.share_out(shared, batch, place, budget, Some(focus), &mut found),
            State::Unevaluated if announced == 1 && root.try_claim() => {
                self.evaluate(shared, batch, place, &mut found);
            }
            _ => collide(&mut batch.gathered, announced, &mut found),
        }
        debug_assert_eq!(self.history.positions().len(), self.root_length);
        found
    }

    /// Shares `budget` announced visits of the node at `place` among its children and makes them.
    fn share_out(
        &mut self,
        shared: &Shared,
        batch: &mut Minibatch,
        place: Place,
        budget: u32,
        focus: Option<&RootFocus>,
        found: &mut Found,
    ) {
        if place.depth >= MAX_DEPTH {
            return collide(&mut batch.gathered, budget, found);
        }
        let id = batch.gathered.step(place.step).node;
        let mut candidates = self.candidates.pop().unwrap_or_default();
        let collided = self.plan(shared, id, budget, focus, &mut candidates);
        if collided > 0 {
            collide(&mut batch.gathered, collided, found);
        }
        for candidate in &candidates {
            self.follow(shared, batch, place, candidate, found);
        }
        candidates.clear();
        self.candidates.push(candidates);
    }

    /// Makes the visits that were planned for a child of the node at `place`.
    fn follow(
        &mut self,
        shared: &Shared,
        batch: &mut Minibatch,
        place: Place,
        candidate: &Candidate,
        found: &mut Found,
    ) {
        let link = shared.tree.link(candidate.link);
        let is_terminal = candidate.task == Task::Terminal;
        if !is_terminal {
            self.history.push(link.edge().packed_move().unpack(self.history.last()));
            if candidate.child.is_none() {
                batch.request.load_ahead(&self.history);
            }
        }
        let child = candidate.child.or_else(|| {
            let key = shared.params.graph_search.then(|| self.history.future_key()).flatten();
            shared.tree.child_or_new(link, key, &mut self.allocator)
        });
        if let Some(id) = child {
            let step = Step {
                parent: Some(place.step),
                link: Some(candidate.link),
                node: id,
                announced: candidate.share,
            };
            let place = Place { step: batch.gathered.push(step), depth: place.depth + 1 };
            let task = match candidate.task {
                Task::Enter => plan::task_at(shared.tree.node(id)),
                planned => Some(planned),
            };
            match task {
                Some(Task::Evaluate) => self.evaluate(shared, batch, place, found),
                Some(Task::Descend) => self.descend(shared, batch, place, found),
                Some(Task::Terminal) => revisit_terminal(shared, batch, place, found),
                Some(Task::Enter | Task::Nothing) | None => {
                    collide(&mut batch.gathered, candidate.share, found);
                }
            }
            // Nothing is under way below: the step is of no more use.
            batch.gathered.steps.pop_if(|last| last.announced == 0);
        } else {
            shared.report_full_tree();
            link.withdraw(candidate.share);
            collide(&mut batch.gathered, candidate.share, found);
        }
        if !is_terminal {
            self.history.pop();
        }
    }

    /// Counts what the child at `place` has from other parents, and makes the rest of the announced visits below it.
    fn descend(&mut self, shared: &Shared, batch: &mut Minibatch, place: Place, found: &mut Found) {
        let step = *batch.gathered.step(place.step);
        let node = shared.tree.node(step.node);
        let mut left = step.announced;
        if node.is_shared()
            && let (Some(parent), Some(id)) = (step.parent, step.link)
        {
            let link = shared.tree.link(id);
            let absorbed = link.absorb(left, node);
            if absorbed > 0 {
                link.withdraw(absorbed);
                left -= absorbed;
                batch.gathered.steps[place.step as usize].announced = left;
                let sample = node.sample().for_parent();
                let weight = shared.mean_weight(step.node);
                shared.back_up(&mut batch.gathered.steps, parent, sample, absorbed, weight, false);
                shared.counters.count_visits(place.depth + 1, absorbed);
                shared.counters.absorbed.fetch_add(u64::from(absorbed), Ordering::Relaxed);
                found.out_of_order += absorbed;
            }
        }
        if left > 0 {
            self.share_out(shared, batch, place, left, None, found);
        }
    }

    /// Evaluates the node at `place`, which this thread has claimed and announced one visit of: by the rules, from
    /// the cache, or by putting it into the batch.
    fn evaluate(&mut self, shared: &Shared, batch: &mut Minibatch, place: Place, found: &mut Found) {
        let step = *batch.gathered.step(place.step);
        let node = shared.tree.node(step.node);
        let position = self.history.last();
        shared.begin_annex(step.node, position);
        position.packed_moves(&mut self.leaf_moves);
        self.leaf_moves.truncate(MOST_EDGES);
        let outcome = outcome_by_rule(shared, position, self.leaf_moves.is_empty(), place.depth)
            .or_else(|| {
                let parent = batch.gathered.step(step.parent?).node;
                outcome_by_tablebase(shared, position, shared.tree.node(parent).sample().m)
            })
            .or_else(|| shared.outcome_by_last_move(position, place.depth));
        if let Some(outcome) = outcome {
            node.publish_terminal(outcome);
            shared.rule_mate_out(&batch.gathered.steps, place.step, place.depth);
            if let Some(link) = step.link {
                shared.tree.link(link).note_result();
            }
            let weight = shared.params.uncertainty.certain_weight();
            shared.back_up(&mut batch.gathered.steps, place.step, outcome.sample(), 1, weight, true);
            shared.counters.count_visits(place.depth + 1, 1);
            found.out_of_order += 1;
            return;
        }
        let request = EvalRequest { history: &self.history, moves: &self.leaf_moves };
        match batch.request.add(request) {
            Added::Ready(evaluation) => {
                let moves = std::mem::take(&mut self.leaf_moves);
                let is_root = step.parent.is_none();
                if self.expand(shared, node, is_root, &moves, &evaluation.priors) {
                    shared.rule_mate_out(&batch.gathered.steps, place.step, place.depth);
                    let sample = value_at(shared, evaluation.value, place.depth);
                    let (sample, weight) = shared.leaf_value(step.node, evaluation.value, sample);
                    shared.back_up(&mut batch.gathered.steps, place.step, sample, 1, weight, false);
                    shared.counters.count_visits(place.depth + 1, 1);
                    found.out_of_order += 1;
                }
                self.leaf_moves = moves;
            }
            Added::Queued => {
                let first_move = batch.gathered.moves.len();
                batch.gathered.moves.extend_from_slice(&self.leaf_moves);
                batch.gathered.waiting.push(Some(Leaf {
                    step: place.step,
                    depth: place.depth as u32 + 1,
                    moves: first_move..batch.gathered.moves.len(),
                }));
                batch.gathered.leaf_count += 1;
                found.leaves += 1;
            }
        }
    }
}

/// Counts the exact value of the node at `place` again, now.
fn revisit_terminal(shared: &Shared, batch: &mut Minibatch, place: Place, found: &mut Found) {
    let step = *batch.gathered.step(place.step);
    let node = shared.tree.node(step.node);
    let (Some(outcome), visits) = (node.outcome(), step.announced) else { return };
    // Proven by way of another parent: this one does not know it yet.
    let is_news = node.is_shared() && step.link.is_some_and(|link| shared.tree.link(link).note_result());
    let weight = shared.params.uncertainty.certain_weight();
    shared.back_up(&mut batch.gathered.steps, place.step, outcome.sample(), visits, weight, is_news);
    shared.counters.count_visits(place.depth + 1, visits);
    found.out_of_order += visits;
}

/// Counts visits that found nothing to do. They stay announced on their way until the batch is done.
fn collide(gathered: &mut Gathered, visits: u32, found: &mut Found) {
    gathered.collision_events += 1;
    found.collisions += visits;
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
