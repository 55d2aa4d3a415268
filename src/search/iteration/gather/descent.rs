//! One descent from the root, which makes many visits.
//!
//! At each node the budget of visits is shared among the children as if the visits were chosen one after another, with
//! each visit in flight when the next is chosen. Then the descent enters each child with its share. A move is played on
//! the way down and taken back on the way up, once for all visits that go through it.
//!
//! A visit whose value is already known is backed up at once, *out of order*. This is the case if the node is terminal,
//! if its evaluation is in the cache, or if the visit is absorbed from the other parents of a shared node (see
//! [`rukh_tree`]).

use super::leaf::{outcome_by_rule, outcome_by_tablebase};
use crate::iteration::accumulate::{begin_extra_statistics, mean_weight, store_leaf};
use crate::iteration::backup::{Finished, back_up};
use crate::iteration::expand::{end_search_of_full_tree, expand, value_at};
use crate::iteration::mate::{mate_plies, outcome_by_last_move, rule_mate_out};
use crate::iteration::recompute::recompute_if_stale;
use crate::iteration::scratch::Scratch;
use crate::iteration::selection::{Choice, Chosen, MAX_DEPTH, RootFocus, Task, plan, task_at};
use crate::state::{Counters, Leaf, Minibatch, SearchContext, SharedControl, Step, StepIndex, VisitCounts};
use rukh_backend::{Added, EvalRequest};
use rukh_base::sync::atomic::Ordering;
use rukh_tree::{MOST_EDGES, State};

/// The visits that a descent has made.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Found {
    pub(super) leaves: u32,
    pub(super) out_of_order: u32,
    pub(super) collisions: u32,
    /// The visits backed up out of order, and how many of them were absorbed. They are added to the counters of the
    /// search together, because other threads use these too.
    counts: VisitCounts,
    absorbed: u64,
}

/// A node on the path of a descent.
#[derive(Clone, Copy, Debug)]
struct Place {
    step: StepIndex,
    /// The number of plies from the root.
    depth: usize,
}

/// The state of a descent, and the parts of the search that it reads and changes.
pub(super) struct Descent<'a> {
    pub(super) context: &'a SearchContext,
    pub(super) counters: &'a Counters,
    pub(super) control: &'a SharedControl,
    pub(super) scratch: &'a mut Scratch,
    pub(super) batch: &'a mut Minibatch,
    /// Whether visits pass children that are being evaluated.
    pub(super) pass_busy: bool,
    pub(super) found: Found,
}

impl Descent<'_> {
    /// Makes `budget` visits of the root, or one visit if the root is not evaluated yet.
    pub(super) fn start(mut self, budget: u32, focus: &RootFocus<'_>) -> Found {
        let root = self.context.root();
        let in_flight = if root.state() == State::Unevaluated { 1 } else { budget };
        let node = self.context.tree.root();
        let step = Step { parent: None, link: None, node, in_flight, is_stale: false };
        self.counters.root_in_flight.fetch_add(in_flight, Ordering::Relaxed);
        let place = Place { step: self.batch.gathered.push(step), depth: 0 };
        match root.state() {
            State::Expanded => self.share_out(place, budget, Some(focus)),
            State::Unevaluated if in_flight == 1 && root.try_claim() => self.evaluate(place, false),
            _ => self.collide(in_flight),
        }
        recompute_if_stale(self.context, &mut self.batch.gathered.steps[place.step as usize]);
        if self.found.out_of_order > 0 {
            self.counters.count_visits(self.found.counts);
            self.counters.absorbed.fetch_add(self.found.absorbed, Ordering::Relaxed);
        }
        self.found
    }

    /// Shares the `budget` visits that are in flight at `place` among the node's children, and makes these visits.
    fn share_out(&mut self, place: Place, budget: u32, focus: Option<&RootFocus<'_>>) {
        if place.depth >= MAX_DEPTH {
            return self.collide(budget);
        }
        let context = self.context;
        let id = self.batch.gathered.step(place.step).node;
        let choice = Choice {
            node: context.tree.node(id),
            exploration: context.exploration(id, focus.is_some()),
            focus,
            skips_ruled_out: mate_plies(context, self.counters).is_some(),
        };
        let Scratch { walk, candidates, chosen, .. } = &mut *self.scratch;
        let first = chosen.len();
        let collided = plan(context, walk, candidates, &choice, budget, self.pass_busy, chosen);
        if collided > 0 {
            self.collide(collided);
        }
        // Deeper nodes append their own choices, and remove them again.
        for index in first..self.scratch.chosen.len() {
            let next = self.scratch.chosen[index];
            self.follow(place, &next);
        }
        self.scratch.chosen.truncate(first);
    }

    /// Makes the visits that were planned for a child of the node at `place`.
    fn follow(&mut self, place: Place, candidate: &Chosen) {
        let context = self.context;
        let link = context.tree.link(candidate.link);
        // Nothing is asked about the child, so its move need not be made.
        let stays = matches!(candidate.task, Task::Terminal | Task::Nothing);
        let mut key = None;
        let mut knows_moves = false;
        if !stays {
            let history = &mut self.scratch.walk.history;
            history.push(link.edge().packed_move().unpack(history.last()));
            if candidate.child.is_none() {
                key = context.params.graph_search.then(|| history.future_key()).flatten();
                self.batch.request.load_ahead(history);
                if let Some(key) = key {
                    context.tree.load_child_ahead(key);
                }
                // Nearly always the child is new, so its moves are needed. While they are generated, the memory answers.
                history.last().packed_moves(&mut self.scratch.leaf_moves);
                knows_moves = true;
            }
        }
        let child = candidate
            .child
            .or_else(|| context.tree.child_or_new(link, key, &mut self.scratch.walk.allocator));
        if let Some(id) = child {
            let step = Step {
                parent: Some(place.step),
                link: Some(candidate.link),
                node: id,
                in_flight: candidate.share,
                is_stale: false,
            };
            let place = Place { step: self.batch.gathered.push(step), depth: place.depth + 1 };
            let task = match candidate.task {
                Task::Enter => task_at(context.tree.node(id)),
                planned => Some(planned),
            };
            match task {
                Some(Task::Evaluate) => self.evaluate(place, knows_moves),
                Some(Task::Descend) => self.descend(place),
                Some(Task::Terminal) => self.revisit_terminal(place),
                // The plan has counted the collision. The visits only stay in flight.
                Some(Task::Nothing) => {}
                Some(Task::Enter) | None => self.collide(candidate.share),
            }
            // Backup needs the step only if visits are still in flight there.
            self.batch.gathered.steps.pop_if(|last| last.in_flight == 0);
        } else {
            end_search_of_full_tree(context, self.control);
            link.cancel_in_flight(candidate.share);
            self.collide(candidate.share);
        }
        if !stays {
            self.scratch.walk.history.pop();
        }
    }

    /// Absorbs the visits that the node at `place` has from other parents, and makes the remaining visits below it.
    fn descend(&mut self, place: Place) {
        let context = self.context;
        let step = *self.batch.gathered.step(place.step);
        let node = context.tree.node(step.node);
        let mut left = step.in_flight;
        if node.is_shared()
            && let (Some(parent), Some(id)) = (step.parent, step.link)
        {
            let link = context.tree.link(id);
            let absorbed = link.absorb(left, node);
            if absorbed > 0 {
                link.cancel_in_flight(absorbed);
                left -= absorbed;
                self.batch.gathered.steps[place.step as usize].in_flight = left;
                let finished = Finished {
                    sample: node.sample().for_parent(),
                    visits: absorbed,
                    weight: mean_weight(context, step.node),
                    is_proof: false,
                };
                self.back_up_from(parent, finished, place.depth);
                self.found.absorbed += u64::from(absorbed);
            }
        }
        if left > 0 {
            self.share_out(place, left, None);
            // All that this descent backs up through the node is backed up. Nothing has read the node's value meanwhile,
            // because a descent reads only the values of the nodes below it.
            recompute_if_stale(context, &mut self.batch.gathered.steps[place.step as usize]);
        }
    }

    /// Evaluates the node at `place`, which this thread has claimed and visits once. The value comes from the rules or
    /// from the cache, or the node is added to the batch. `knows_moves` says that `scratch.leaf_moves` are the node's.
    fn evaluate(&mut self, place: Place, knows_moves: bool) {
        let (context, counters) = (self.context, self.counters);
        let step = *self.batch.gathered.step(place.step);
        let node = context.tree.node(step.node);
        let Scratch { walk, leaf_moves, .. } = &mut *self.scratch;
        let position = walk.history.last();
        begin_extra_statistics(context, step.node);
        if !knows_moves {
            position.packed_moves(leaf_moves);
        }
        leaf_moves.truncate(MOST_EDGES);
        let outcome = outcome_by_rule(context, position, leaf_moves.is_empty(), place.depth)
            .or_else(|| {
                let parent = self.batch.gathered.step(step.parent?).node;
                let parent_m = context.tree.node(parent).sample().m;
                outcome_by_tablebase(context, counters, position, parent_m)
            })
            .or_else(|| outcome_by_last_move(context, counters, position, place.depth));
        if let Some(outcome) = outcome {
            node.publish_terminal(outcome);
            rule_mate_out(context, counters, &self.batch.gathered.steps, place.step, place.depth);
            if let Some(link) = step.link {
                context.tree.link(link).note_result();
            }
            let weight = context.params.uncertainty.certain_weight();
            let finished = Finished { sample: outcome.sample(), visits: 1, weight, is_proof: true };
            return self.back_up_from(place.step, finished, place.depth);
        }
        let request = EvalRequest { history: &walk.history, moves: leaf_moves };
        match self.batch.request.add(request) {
            Added::Ready(evaluation) => {
                let moves = std::mem::take(leaf_moves);
                let priors = &evaluation.priors;
                if expand(context, self.control, self.scratch, node, place.depth, &moves, priors) {
                    rule_mate_out(context, counters, &self.batch.gathered.steps, place.step, place.depth);
                    let sample = value_at(context, evaluation.value, place.depth);
                    let weight = store_leaf(context, step.node, evaluation.value, sample);
                    let finished = Finished { sample, visits: 1, weight, is_proof: false };
                    self.back_up_from(place.step, finished, place.depth);
                }
                self.scratch.leaf_moves = moves;
            }
            Added::Queued => {
                let gathered = &mut self.batch.gathered;
                let first_move = gathered.moves.len();
                gathered.moves.extend_from_slice(leaf_moves);
                gathered.waiting.push(Some(Leaf {
                    step: place.step,
                    depth: place.depth as u32 + 1,
                    moves: first_move..gathered.moves.len(),
                }));
                gathered.leaf_count += 1;
                self.found.leaves += 1;
            }
        }
    }

    /// Backs up more visits of the terminal node at `place`, with its exact value.
    fn revisit_terminal(&mut self, place: Place) {
        let context = self.context;
        let step = *self.batch.gathered.step(place.step);
        let node = context.tree.node(step.node);
        let (Some(outcome), visits) = (node.outcome(), step.in_flight) else { return };
        // In a large tree, the change of the root has left such results where there are few visits.
        if outcome.is_outlived_repetition(place.depth) {
            node.reopen_outlived_repetition(place.depth);
            return self.collide(visits);
        }
        // A shared node may have been proven through another parent, so that this parent does not know the proof yet.
        let is_news = node.is_shared() && step.link.is_some_and(|link| context.tree.link(link).note_result());
        let weight = context.params.uncertainty.certain_weight();
        let finished = Finished { sample: outcome.sample(), visits, weight, is_proof: is_news };
        self.back_up_from(place.step, finished, place.depth);
    }

    /// Backs visits up at once. `depth` is the depth of the visited node.
    fn back_up_from(&mut self, from: StepIndex, finished: Finished, depth: usize) {
        back_up(self.context, self.counters, &mut self.batch.gathered.steps, from, finished);
        self.found.counts = self.found.counts.with(depth + 1, finished.visits);
        self.found.out_of_order += finished.visits;
    }

    /// Counts colliding visits. They stay in flight on their path until the batch is done.
    fn collide(&mut self, visits: u32) {
        self.batch.gathered.collision_events += 1;
        self.found.collisions += visits;
    }
}
