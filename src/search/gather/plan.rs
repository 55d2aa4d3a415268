//! Which child gets how many visits: the heart of selection.

use super::Gatherer;
use crate::chess::PackedMove;
use crate::search::{Shared, select};
use crate::tree::{Node, NodeId, State};

/// A child, or an edge without one, while its parent's visits are shared out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) edge_index: usize,
    pub(super) child: Option<NodeId>,
    pub(super) prior: f32,
    /// Value and moves-left bonus; first-play urgency where unvisited.
    pub(super) utility: f32,
    /// Visits made and under way.
    pub(super) started: u32,
    pub(super) score: f32,
    /// Visits to make in this descent.
    pub(super) share: u32,
    pub(super) task: Task,
}

/// What a candidate's share is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Task {
    Nothing,
    /// This thread has claimed it and evaluates it.
    Evaluate,
    /// Count its exact value.
    Terminal,
    /// Share the visits among its children.
    Descend,
}

impl Gatherer {
    /// Decides which child gets how many of `budget` visits, and announces them there. Returns how many visits
    /// found their child busy.
    pub(super) fn plan(
        &mut self,
        shared: &Shared,
        node: &Node,
        budget: u32,
        focus: Option<&RootFocus>,
        candidates: &mut Vec<Candidate>,
    ) -> u32 {
        let is_root = focus.is_some();
        let exploration = select::exploration(&shared.params, node.visits(), is_root);
        self.list_candidates(shared, node, budget, focus, exploration, candidates);
        let mut left = budget;
        let mut collided = 0;
        while left > 0 {
            let Some((best, rival_score)) = best_two(candidates) else {
                // No move may be tried (all were pruned): nothing to do here.
                return collided + left;
            };
            let candidate = &mut candidates[best];
            let visits = select::visits_until_overtaken(
                candidate.prior,
                exploration,
                candidate.started,
                candidate.utility,
                rival_score,
            )
            .min(left);
            left -= visits;
            if candidate.child.is_none() {
                candidate.child = shared.tree.child_or_new(node, candidate.edge_index, &mut self.allocator);
            }
            let Some(child) = candidate.child.map(|id| shared.tree.node(id)) else {
                // No room for a node.
                shared.report_full_tree();
                return collided + left + visits;
            };
            let made = match candidate.task {
                Task::Nothing => match child.state() {
                    State::Unevaluated if child.try_claim() => {
                        candidate.task = Task::Evaluate;
                        1
                    }
                    State::Unevaluated | State::Evaluating => 0,
                    State::Expanded => {
                        candidate.task = Task::Descend;
                        visits
                    }
                    State::Terminal => {
                        candidate.task = Task::Terminal;
                        visits
                    }
                },
                Task::Evaluate => 0,
                Task::Descend | Task::Terminal => visits,
            };
            child.add_in_flight(made);
            candidate.share += made;
            candidate.started += made;
            candidate.score = score(candidate, exploration);
            collided += visits - made;
        }
        collided
    }

    /// The children of `node` and as many untried edges as `budget` visits can reach.
    pub(super) fn list_candidates(
        &mut self,
        shared: &Shared,
        node: &Node,
        budget: u32,
        focus: Option<&RootFocus>,
        exploration: f32,
        candidates: &mut Vec<Candidate>,
    ) {
        let params = &shared.params;
        let parent = node.sample();
        let draw_score = params.draw_score_for(self.history.last().side_to_move());
        let moves_left_bonus = select::MovesLeftBonus::new(params, parent);
        let mut children = shared.tree.children(node);
        let mut visited_policy = 0.0;
        let mut untried = 0_u64;
        for (edge_index, edge) in shared.tree.edges(node).enumerate() {
            let child = children.next().flatten();
            let prior = edge.prior();
            let mut candidate = Candidate {
                edge_index,
                child,
                prior,
                utility: f32::NAN,
                started: 0,
                score: 0.0,
                share: 0,
                task: Task::Nothing,
            };
            let mut visits = 0;
            if let Some(child) = child.map(|id| shared.tree.node(id)) {
                candidate.started = child.started();
                visits = child.visits();
                if visits > 0 {
                    candidate.prior = select::prior_of(edge, Some(child));
                    visited_policy += candidate.prior;
                    let sample = child.sample().for_parent();
                    let q = select::utility(sample, draw_score);
                    // The bonus compares the child's own plies left with the parent's.
                    candidate.utility = q + moves_left_bonus.of(sample.m - 1.0, q);
                }
            }
            if focus.is_some_and(|focus| !focus.allows(edge.packed_move(), edge_index, visits)) {
                continue;
            }
            untried += u64::from(candidate.started == 0);
            candidates.push(candidate);
            // Edges are sorted by prior, so later untried edges come after this one: each visit can take up at
            // most one of them, and one more is needed as the rival.
            if untried > u64::from(budget) {
                break;
            }
        }
        let parent_q = select::utility(parent, draw_score);
        let fpu = select::first_play_urgency(params, parent_q, visited_policy, focus.is_some());
        for candidate in candidates {
            if candidate.utility.is_nan() {
                candidate.utility = fpu;
            }
            candidate.score = score(candidate, exploration);
        }
    }
}

/// Which root moves may be tried.
pub(super) struct RootFocus<'a> {
    /// Empty: all.
    searchmoves: &'a [PackedMove],
    /// The edge with the most visits, and its visits.
    best: Option<(usize, u32)>,
    /// How many more visits there will be: a move further behind cannot become the best.
    remaining_playouts: Option<u64>,
}

impl<'a> RootFocus<'a> {
    pub(super) fn new(shared: &'a Shared, remaining_playouts: Option<u64>) -> RootFocus<'a> {
        let best = remaining_playouts.and_then(|_| shared.most_visited_root_edge());
        RootFocus { searchmoves: &shared.searchmoves, best, remaining_playouts }
    }

    fn allows(&self, m: PackedMove, edge_index: usize, visits: u32) -> bool {
        if !self.searchmoves.is_empty() && !self.searchmoves.contains(&m) {
            return false;
        }
        match (self.best, self.remaining_playouts) {
            (Some((best_index, best_visits)), Some(remaining)) => {
                edge_index == best_index || u64::from(best_visits.saturating_sub(visits)) <= remaining
            }
            _ => true,
        }
    }
}

fn score(candidate: &Candidate, exploration: f32) -> f32 {
    candidate.prior * exploration / (1.0 + candidate.started as f32) + candidate.utility
}

/// The index of the best score and the second best score.
fn best_two(candidates: &[Candidate]) -> Option<(usize, f32)> {
    let mut best = None;
    let mut best_score = f32::NEG_INFINITY;
    let mut rival_score = f32::NEG_INFINITY;
    let mut seen_untried = 0;
    for (index, candidate) in candidates.iter().enumerate() {
        if candidate.score > best_score {
            rival_score = best_score;
            best_score = candidate.score;
            best = Some(index);
        } else if candidate.score > rival_score {
            rival_score = candidate.score;
        }
        // Untried edges have equal utility and falling priors: the first two are the best of them. Candidates with
        // visits may still follow only where moves were skipped at the root, which lists few.
        seen_untried += u32::from(candidate.started == 0 && candidate.child.is_none());
        if seen_untried == 2 {
            break;
        }
    }
    // All scores NaN or -inf: a broken evaluation must not stop the search.
    best.or((!candidates.is_empty()).then_some(0)).map(|index| (index, rival_score))
}
