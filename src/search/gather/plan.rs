//! Which child gets how many visits: the heart of selection.

use super::Gatherer;
use crate::chess::PackedMove;
use crate::search::{Shared, select};
use crate::tree::{Link, LinkId, Links, Node, NodeId, State};

/// A link while its parent's visits are shared out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) link: LinkId,
    /// `None`: not known yet.
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

impl Candidate {
    /// Of the utility of untried moves, where it is tried.
    #[inline]
    fn new(id: LinkId, link: Link<'_>, visits: u32, prior: f32, fpu: f32) -> Candidate {
        Candidate {
            link: id,
            child: link.child(),
            prior,
            utility: fpu,
            started: visits.wrapping_add(link.in_flight()),
            score: 0.0,
            share: 0,
            task: Task::Nothing,
        }
    }
}

/// What a candidate's share is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Task {
    Nothing,
    /// Find out where it leads.
    Enter,
    /// This thread has claimed it and evaluates it.
    Evaluate,
    /// Count its exact value.
    Terminal,
    /// Share the visits among its children.
    Descend,
}

/// What a visit to a child has to do there; `None`: it is busy. An unevaluated child is claimed.
pub(super) fn task_at(child: &Node) -> Option<Task> {
    match child.state() {
        State::Unevaluated => child.try_claim().then_some(Task::Evaluate),
        State::Evaluating => None,
        State::Expanded => Some(Task::Descend),
        State::Terminal => Some(Task::Terminal),
    }
}

impl Gatherer {
    /// Decides which child gets how many of `budget` visits, and announces them there. `candidates` become those that
    /// get any. Returns how many visits found their child busy.
    pub(super) fn plan(
        &mut self,
        shared: &Shared,
        id: NodeId,
        budget: u32,
        focus: Option<&RootFocus>,
        candidates: &mut Vec<Candidate>,
    ) -> u32 {
        let is_root = focus.is_some();
        let node = shared.tree.node(id);
        let exploration = shared.exploration(id, is_root);
        // An untried move and its rival; the last visit needs no rival, for it has no more visits to bound.
        let (fpu, mut untried) =
            self.list_candidates(shared, node, budget.min(2), focus, exploration, candidates);
        // The root has links for all its moves, and not all of them may be tried.
        let mut may_be_more = !is_root;
        let mut left = budget;
        let mut collided = 0;
        self.ranking.fill(candidates.iter().map(|candidate| candidate.score));
        while left > 0 {
            if may_be_more && untried < left.min(2) {
                let found = self.list_next(shared, node, fpu, exploration, candidates);
                may_be_more = found > 0;
                untried += found;
                let listed = self.ranking.len();
                self.ranking.extend(candidates[listed..].iter().map(|next| next.score));
            }
            // Where no move may be tried (all were pruned) there is nothing to do.
            let Some((best, rival_score)) = self.ranking.best_and_rival() else { break };
            let candidate = &mut candidates[best];
            let visits = select::visits_until_overtaken(
                candidate.prior,
                exploration,
                candidate.started,
                candidate.utility,
                rival_score,
            )
            .min(left);
            if candidate.task == Task::Nothing {
                let task = match candidate.child {
                    Some(child) => task_at(shared.tree.node(child)),
                    None => Some(Task::Enter),
                };
                candidate.task = task.unwrap_or(Task::Nothing);
            }
            let made = match candidate.task {
                Task::Nothing => 0,
                // One visit, for there is one evaluation.
                Task::Enter | Task::Evaluate => u32::from(candidate.share == 0),
                Task::Descend | Task::Terminal => visits,
            };
            if made == 0 {
                // Its score stays what it is: all visits that are left would go there, and find it busy.
                break;
            }
            left -= visits;
            collided += visits - made;
            untried = untried.saturating_sub(u32::from(candidate.started == 0));
            candidate.share += made;
            candidate.started += made;
            if left > 0 {
                candidate.score = score(candidate, exploration);
                self.ranking.set(best, candidate.score);
            }
        }
        candidates.retain(|candidate| candidate.share > 0);
        for candidate in candidates {
            shared.tree.link(candidate.link).announce(candidate.share);
        }
        collided + left
    }

    /// The tried children of `node`, then by falling prior moves that were not, at least `least_untried` if there are so
    /// many. Returns what an untried move counts, and how many there are.
    pub(super) fn list_candidates(
        &mut self,
        shared: &Shared,
        node: &Node,
        least_untried: u32,
        focus: Option<&RootFocus>,
        exploration: f32,
        candidates: &mut Vec<Candidate>,
    ) -> (f32, u32) {
        let params = &shared.params;
        let tree = &*shared.tree;
        let parent = node.sample();
        let draw_score = params.draw_score_for(self.history.last().side_to_move());
        let valuation = select::Valuation::new(params, parent, draw_score);
        let mut links = tree.links(node);
        self.node_moves.clear();
        let mut visited_policy = 0.0;
        // Behind the first one that was not visited all are looked at once more.
        let mut first_unvisited = usize::MAX;
        let mut untried_count = 0;
        let mut is_in_order = true;
        loop {
            for (id, link) in links.by_ref() {
                let visits = link.visits();
                let edge = link.edge();
                let mut candidate = Candidate::new(id, link, visits, edge.prior(), f32::NAN);
                if let (1.., Some(child)) = (visits, candidate.child) {
                    let child = tree.node(child);
                    match child.outcome() {
                        None => candidate.utility = valuation.of_mean(child),
                        Some(outcome) => {
                            candidate.prior = select::prior_of(edge, Some(outcome));
                            candidate.utility = valuation.of(outcome.sample());
                        }
                    }
                    candidate.score = score(&candidate, exploration);
                    visited_policy += candidate.prior;
                } else {
                    first_unvisited = first_unvisited.min(candidates.len());
                }
                let is_untried = candidate.started == 0;
                is_in_order &= is_untried || untried_count == 0;
                untried_count += u32::from(is_untried);
                candidates.push(candidate);
            }
            if untried_count >= least_untried || !self.grow(links.clone()) {
                break;
            }
        }
        let parent_q = select::utility(parent, draw_score);
        let fpu = select::first_play_urgency(params, parent_q, visited_policy, focus.is_some());
        for candidate in candidates.iter_mut().skip(first_unvisited) {
            if candidate.utility.is_nan() {
                candidate.utility = fpu;
                candidate.score = score(candidate, exploration);
            }
        }
        if shared.mate_plies().is_some() {
            let is_ruled_out = |candidate: &&mut Candidate| {
                candidate.child.is_some_and(|child| tree.node(child).is_ruled_out())
            };
            for candidate in candidates.iter_mut().filter(is_ruled_out) {
                (candidate.utility, candidate.score) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
            }
        }
        if let Some(focus) = focus.filter(|focus| focus.is_narrow()) {
            candidates.retain(|candidate| focus.allows(candidate.link, tree.link(candidate.link)));
            untried_count = candidates.iter().filter(|candidate| candidate.started == 0).count() as u32;
        }
        if !is_in_order {
            // Stable: within each kind they stay in the order of their priors.
            candidates.sort_by_key(|candidate| candidate.started == 0);
        }
        (fpu, untried_count)
    }

    /// Adds the next untried moves to the candidates, which are all links of `node` that there were. Returns how many.
    fn list_next(
        &mut self,
        shared: &Shared,
        node: &Node,
        fpu: f32,
        exploration: f32,
        candidates: &mut Vec<Candidate>,
    ) -> u32 {
        let mut links = shared.tree.links(node);
        let listed = candidates.len();
        if listed > 0 && links.nth(listed - 1).is_none() {
            return 0;
        }
        // Another thread may have added links meanwhile.
        let mut rest = links.clone();
        if rest.next().is_none() && !self.grow(links.clone()) {
            return 0;
        }
        for (id, link) in links {
            let mut candidate = Candidate::new(id, link, link.visits(), link.edge().prior(), fpu);
            candidate.score = score(&candidate, exploration);
            candidates.push(candidate);
        }
        (candidates.len() - listed) as u32
    }

    /// Makes the links longer of the node that the candidates are listed of, if there are more moves.
    fn grow(&mut self, links: Links<'_>) -> bool {
        if self.node_moves.is_empty() {
            self.history.last().packed_moves(&mut self.node_moves);
        }
        links.grow(&self.node_moves, &mut self.allocator)
    }
}

/// Which root moves may be tried.
pub(super) struct RootFocus<'a> {
    /// Empty: all.
    searchmoves: &'a [PackedMove],
    /// The link with the most visits, and its visits.
    best: Option<(LinkId, u32)>,
    /// How many more visits there will be: a move further behind cannot become the best.
    remaining_playouts: Option<u64>,
}

impl<'a> RootFocus<'a> {
    pub(super) fn new(shared: &'a Shared, remaining_playouts: Option<u64>) -> RootFocus<'a> {
        let best = remaining_playouts.and_then(|_| shared.most_visited_root_link());
        RootFocus { searchmoves: &shared.searchmoves, best, remaining_playouts }
    }

    /// Whether there may be any that it does not allow.
    fn is_narrow(&self) -> bool {
        let best_visits = self.best.map_or(0, |(_, visits)| visits);
        !self.searchmoves.is_empty()
            || self.remaining_playouts.is_some_and(|remaining| u64::from(best_visits) > remaining)
    }

    fn allows(&self, id: LinkId, link: Link<'_>) -> bool {
        if !self.searchmoves.is_empty() && !self.searchmoves.contains(&link.edge().packed_move()) {
            return false;
        }
        match (self.best, self.remaining_playouts) {
            (Some((best, best_visits)), Some(remaining)) => {
                id == best || u64::from(best_visits.saturating_sub(link.visits())) <= remaining
            }
            _ => true,
        }
    }
}

fn score(candidate: &Candidate, exploration: f32) -> f32 {
    candidate.prior * exploration / (1.0 + candidate.started as f32) + candidate.utility
}
