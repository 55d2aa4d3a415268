//! The candidates for the next visits of a node: its moves with their scores.
//!
//! Most of a search's time goes into listing and scoring candidates. So they are kept as one array for each figure, in
//! memory that a worker reuses: then several scores are computed together, and an index needs no bounds check.

use super::ranking::{self, LANES, LAST_CHOICE};
use super::root_focus::RootFocus;
use super::walk::Walk;
use crate::policy::policy_temperature::change_temperature;
use crate::policy::select;
use crate::state::SearchContext;
use rukh_tree::{LinkId, MOST_EDGES, Node, NodeId, Tree};

/// The length of the arrays, which an index of eight bits cannot exceed.
const CAPACITY: usize = 1 << u8::BITS;
const _: () = assert!(MOST_EDGES < CAPACITY && CAPACITY.is_multiple_of(LANES));

/// The node whose visits are shared out, and the figures by which its moves are chosen.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) node: &'a Node,
    /// The factor of `prior / (1 + started)` in a score.
    pub(crate) exploration: f32,
    /// At the root, the moves that may be tried; `None` elsewhere.
    pub(crate) focus: Option<&'a RootFocus<'a>>,
    /// Whether this is a search for a mate, which skips the moves that were ruled out.
    pub(crate) skips_ruled_out: bool,
}

/// A move of a node whose visits are being shared out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) link: LinkId,
    /// `None` if the link has no child yet.
    pub(crate) child: Option<NodeId>,
    pub(crate) prior: f32,
    /// The value plus the moves-left bonus. For an unvisited child, the first-play urgency.
    pub(crate) utility: f32,
    /// The number of visits that are finished or in flight.
    pub(crate) started: u32,
    /// The PUCT score: the exploration term plus the utility.
    pub(crate) score: f32,
}

impl Candidate {
    /// The number of visits after which the score is below `rival_score`; `exploration` is that of the choice.
    #[inline]
    pub(crate) fn visits_until_overtaken(&self, exploration: f32, rival_score: f32) -> u32 {
        select::visits_until_overtaken(self.prior, exploration, self.started, self.utility, rival_score)
    }
}

/// A move that gets visits in a descent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    pub(crate) link: LinkId,
    /// `None` if the link has no child yet.
    pub(crate) child: Option<NodeId>,
    /// The number of visits.
    pub(crate) share: u32,
    pub(crate) task: Task,
}

/// The way in which a descent uses a candidate's share of the visits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// No visits are made: the task is not decided yet, or the child is being evaluated.
    Nothing,
    /// Make the child's node, and then choose the task.
    Enter,
    /// Evaluate the child, which this thread has claimed.
    Evaluate,
    /// Count the exact value of the child.
    Terminal,
    /// Share the visits among the child's own children.
    Descend,
}

/// The candidates of one node, in the order in which they were listed. [`Candidate`] explains the figures.
#[derive(Debug)]
pub(crate) struct Candidates {
    count: usize,
    links: [Option<LinkId>; CAPACITY],
    children: [Option<NodeId>; CAPACITY],
    priors: [f32; CAPACITY],
    utilities: [f32; CAPACITY],
    started: [u32; CAPACITY],
    /// The scores, followed by [`LAST_CHOICE`] up to a multiple of [`LANES`].
    scores: [f32; CAPACITY],
    /// The number of visits to make, and their task. Outside of a plan, all are 0 and [`Task::Nothing`].
    shares: [u32; CAPACITY],
    tasks: [Task; CAPACITY],
    /// A bit for each candidate whose share or task is set.
    planned: [u64; CAPACITY / 64],
}

impl Default for Candidates {
    fn default() -> Candidates {
        Candidates {
            count: 0,
            links: [None; _],
            children: [None; _],
            priors: [0.0; _],
            utilities: [0.0; _],
            started: [0; _],
            scores: [LAST_CHOICE; _],
            shares: [0; _],
            tasks: [Task::Nothing; _],
            planned: [0; _],
        }
    }
}

/// The index without the bits that would need a bounds check.
#[inline]
fn place(index: usize) -> usize {
    index % CAPACITY
}

impl Candidates {
    /// The candidate with this index.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<Candidate> {
        let index = place(index);
        self.links[index].map(|link| Candidate {
            link,
            child: self.children[index],
            prior: self.priors[index],
            utility: self.utilities[index],
            started: self.started[index],
            score: self.scores[index],
        })
    }

    /// All candidates.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Candidate> {
        (0..self.count).filter_map(|index| self.get(index))
    }

    #[inline]
    fn push(&mut self, link: LinkId, child: Option<NodeId>, prior: f32, utility: f32, started: u32) {
        let index = place(self.count);
        self.links[index] = Some(link);
        self.children[index] = child;
        self.priors[index] = prior;
        self.utilities[index] = utility;
        self.started[index] = started;
        self.count = index + 1;
    }

    /// Sets the utilities that are not NaN to the values of the visited children. Children that win have no prior any
    /// more. Returns the sum of the priors of visited moves.
    #[inline]
    fn value_visited_children(&mut self, tree: &Tree, valuation: &select::Valuation<'_>) -> f32 {
        let mut visited_policy = 0.0;
        for index in 0..place(self.count) {
            let (Some(child), false) = (self.children[index], self.utilities[index].is_nan()) else {
                continue;
            };
            let child = tree.node(child);
            self.utilities[index] = match child.outcome() {
                None => valuation.of_mean(child),
                Some(outcome) => {
                    if select::leaves_nothing_to_explore(outcome) {
                        self.priors[index] = 0.0;
                    }
                    valuation.of(outcome.sample())
                }
            };
            visited_policy += self.priors[index];
        }
        visited_policy
    }

    /// Sets the utilities that are NaN.
    #[inline]
    fn value_unvisited(&mut self, fpu: f32) {
        for utility in &mut self.utilities[..place(self.count)] {
            *utility = if utility.is_nan() { fpu } else { *utility };
        }
    }

    /// Keeps the candidates of `list`, which were candidates before.
    fn replace(&mut self, list: &[Candidate]) {
        self.count = 0;
        for candidate in list {
            self.scores[place(self.count)] = candidate.score;
            let Candidate { link, child, prior, utility, started, .. } = *candidate;
            self.push(link, child, prior, utility, started);
        }
        self.end_scores();
    }

    /// Computes the scores of all candidates from `first` on.
    #[inline]
    fn compute_scores(&mut self, first: usize, exploration: f32) {
        let priors = self.priors.as_chunks::<LANES>().0;
        let started = self.started.as_chunks::<LANES>().0;
        let utilities = self.utilities.as_chunks::<LANES>().0;
        let scores = self.scores.as_chunks_mut::<LANES>().0;
        for chunk in first / LANES..self.count.div_ceil(LANES) {
            let chunk = chunk % (CAPACITY / LANES);
            let (priors, started, utilities) = (priors[chunk], started[chunk], utilities[chunk]);
            for lane in 0..LANES {
                scores[chunk][lane] = score(priors[lane], started[lane], utilities[lane], exploration);
            }
        }
        self.end_scores();
    }

    /// Overwrites the scores of an earlier list.
    #[inline]
    fn end_scores(&mut self) {
        for index in self.count..self.count.next_multiple_of(LANES) {
            self.scores[place(index)] = LAST_CHOICE;
        }
    }

    /// The index of the best candidate. Of equal candidates the first counts as the best.
    #[inline]
    pub(crate) fn best(&self) -> Option<usize> {
        ranking::best(self.scores_to_compare())
    }

    /// The index of the best candidate, and the second best score, which is -inf if there is only one candidate.
    #[inline]
    pub(crate) fn best_and_rival(&self) -> Option<(usize, f32)> {
        ranking::best_and_rival(self.scores_to_compare())
    }

    #[inline]
    fn scores_to_compare(&self) -> &[[f32; LANES]] {
        let (chunks, _) = self.scores.as_chunks();
        &chunks[..self.count.div_ceil(LANES).min(CAPACITY / LANES)]
    }

    /// The task that is planned for a candidate.
    #[inline]
    pub(super) fn task(&self, index: usize) -> Task {
        self.tasks[place(index)]
    }

    /// The number of visits that are planned for a candidate.
    #[inline]
    pub(super) fn share(&self, index: usize) -> u32 {
        self.shares[place(index)]
    }

    /// Plans a task for a candidate.
    #[inline]
    pub(super) fn set_task(&mut self, index: usize, task: Task) {
        let index = place(index);
        self.tasks[index] = task;
        self.planned[index / 64] |= 1 << (index % 64);
    }

    /// Plans visits to a candidate, which change its score.
    #[inline]
    pub(crate) fn add_visits(&mut self, index: usize, visits: u32, exploration: f32) {
        let index = place(index);
        self.shares[index] += visits;
        self.planned[index / 64] |= 1 << (index % 64);
        let started = self.started[index].saturating_add(visits);
        self.started[index] = started;
        self.scores[index] = score(self.priors[index], started, self.utilities[index], exploration);
    }

    /// Ends the plan, and appends the candidates that get visits to `chosen`, in the order in which they were listed.
    #[inline]
    pub(crate) fn take_chosen(&mut self, chosen: &mut Vec<Chosen>) {
        for word in 0..self.planned.len() {
            let mut bits = std::mem::take(&mut self.planned[word]);
            while bits != 0 {
                let index = place(64 * word + bits.trailing_zeros() as usize);
                bits &= bits - 1;
                let share = std::mem::take(&mut self.shares[index]);
                let task = std::mem::replace(&mut self.tasks[index], Task::Nothing);
                if let (1.., Some(link)) = (share, self.links[index]) {
                    chosen.push(Chosen { link, child: self.children[index], share, task });
                }
            }
        }
    }
}

/// Lists the tried children of the chosen node and then its untried moves in descending order of their priors: at least
/// `least_untried` untried moves, if the node has that many. Returns the utility of an untried move, and how many
/// untried moves are listed.
pub(crate) fn list_candidates(
    context: &SearchContext,
    walk: &mut Walk,
    choice: &Choice<'_>,
    least_untried: u32,
    candidates: &mut Candidates,
) -> (f32, u32) {
    let Choice { node, exploration, focus, .. } = *choice;
    let params = &context.params;
    let tree = &*context.tree;
    let restricted = focus.filter(|focus| focus.is_restricted());
    let parent = if restricted.is_some() { context.root_sample() } else { node.sample() };
    let draw_score = params.draw_score_for(walk.history.last().side_to_move());
    let valuation = select::Valuation::new(params, parent, draw_score);
    let mut links = tree.links(node);
    walk.enter_node();
    candidates.count = 0;
    let mut untried_count = 0;
    let mut is_in_order = true;
    loop {
        links.for_each_of_rest(|id, link| {
            let visits = link.visits();
            let started = visits.wrapping_add(link.in_flight());
            let child = link.child();
            let mut utility = f32::NAN;
            if let (1.., Some(visited)) = (visits, child) {
                // The second pass reads the children. By then, most of them are in the processor's cache.
                tree.node(visited).load_value_ahead();
                utility = 0.0;
            }
            let is_untried = started == 0;
            is_in_order &= is_untried || untried_count == 0;
            untried_count += u32::from(is_untried);
            candidates.push(id, child, link.edge().prior(), utility, started);
        });
        if untried_count >= least_untried || !walk.grow(links.clone()) {
            break;
        }
    }
    if let Some(focus) = restricted {
        untried_count = leave_out_unsearched(context, candidates, focus);
    }
    let mut visited_policy = candidates.value_visited_children(tree, &valuation);
    if focus.is_some() && params.root_policy_temperature != 1.0 {
        visited_policy = change_root_priors(candidates, params.root_policy_temperature);
    }
    let parent_q = select::utility(parent, draw_score);
    let fpu = select::first_play_urgency(params, parent_q, visited_policy, focus.is_some());
    candidates.value_unvisited(fpu);
    candidates.compute_scores(0, exploration);
    let focus = focus.filter(|focus| focus.is_narrow());
    if choice.skips_ruled_out || focus.is_some() || !is_in_order {
        untried_count = arrange(context, candidates, choice.skips_ruled_out, focus);
    }
    (fpu, untried_count)
}

/// Leaves out the root moves that are not searched. Returns the number of untried moves.
#[cold]
#[inline(never)]
fn leave_out_unsearched(context: &SearchContext, candidates: &mut Candidates, focus: &RootFocus<'_>) -> u32 {
    let is_searched = |candidate: &Candidate| focus.searches(context.tree.link(candidate.link));
    let list: Vec<Candidate> = candidates.iter().filter(is_searched).collect();
    candidates.replace(&list);
    list.iter().filter(|candidate| candidate.started == 0).count() as u32
}

/// Leaves out the root moves that are skipped, lists the moves that were ruled out as the worst ones, and puts
/// tried moves before untried ones. Returns the number of untried moves.
#[cold]
#[inline(never)]
fn arrange(
    context: &SearchContext,
    candidates: &mut Candidates,
    skips_ruled_out: bool,
    focus: Option<&RootFocus<'_>>,
) -> u32 {
    let tree = &*context.tree;
    let mut list: Vec<Candidate> = candidates.iter().collect();
    if skips_ruled_out {
        let is_ruled_out =
            |candidate: &&mut Candidate| candidate.child.is_some_and(|child| tree.node(child).is_ruled_out());
        for candidate in list.iter_mut().filter(is_ruled_out) {
            (candidate.utility, candidate.score) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        }
    }
    if let Some(focus) = focus {
        list.retain(|candidate| focus.allows(candidate.link, tree.link(candidate.link)));
    }
    // The sort is stable, so that tried and untried moves each stay in the order of their priors.
    list.sort_by_key(|candidate| candidate.started == 0);
    candidates.replace(&list);
    list.iter().filter(|candidate| candidate.started == 0).count() as u32
}

/// Changes the temperature of the root's priors. Returns the sum of the priors of visited moves.
#[cold]
#[inline(never)]
fn change_root_priors(candidates: &mut Candidates, factor: f32) -> f32 {
    let count = place(candidates.count);
    let priors = &mut candidates.priors[..count];
    change_temperature(priors, factor);
    let visited = priors.iter().zip(&candidates.utilities).filter(|(_, utility)| !utility.is_nan());
    visited.fold(0.0, |sum, (prior, _)| sum + prior)
}

/// Adds the next untried moves of the chosen node to `candidates`, which must already contain all its other links.
/// Returns the number of added moves.
pub(super) fn list_next(
    context: &SearchContext,
    walk: &mut Walk,
    choice: &Choice<'_>,
    fpu: f32,
    candidates: &mut Candidates,
) -> u32 {
    let mut links = context.tree.links(choice.node);
    let listed = candidates.count;
    if listed > 0 && links.nth(listed - 1).is_none() {
        return 0;
    }
    // Another thread may have added links in the meantime.
    let mut rest = links.clone();
    if rest.next().is_none() && !walk.grow(links.clone()) {
        return 0;
    }
    for (id, link) in links {
        candidates.push(id, link.child(), link.edge().prior(), fpu, link.started());
    }
    candidates.compute_scores(listed, choice.exploration);
    (candidates.count - listed) as u32
}

/// The PUCT score of a move.
#[inline]
fn score(prior: f32, started: u32, utility: f32, exploration: f32) -> f32 {
    prior * exploration / (1.0 + started as f32) + utility
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_chess::PackedMove;
    use rukh_tree::{Allocator, Edge};

    #[test]
    fn a_plan_ends_with_the_chosen_candidates_in_the_order_of_the_list() {
        const EXPLORATION: f32 = 2.0;
        let tree = Tree::new();
        let mut allocator = Allocator::default();
        let root = tree.node(tree.root());
        let edges: Vec<Edge> = (1..=201).map(|bits| Edge::new(PackedMove::from_bits(bits), 0.25)).collect();
        assert!(root.try_claim() && tree.link_exactly(root, &edges, &mut allocator));
        assert!(tree.expand(root, edges.iter().map(|edge| edge.prior()), &mut allocator));
        let mut candidates = Candidates::default();
        for (id, link) in tree.links(root) {
            candidates.push(id, None, link.edge().prior(), 0.5, 0);
        }
        candidates.compute_scores(0, EXPLORATION);
        assert_eq!(candidates.best_and_rival(), Some((0, 1.0)));
        let links: Vec<LinkId> = candidates.iter().map(|candidate| candidate.link).collect();
        for index in [130, 0, 200, 130] {
            candidates.set_task(index, Task::Enter);
            candidates.add_visits(index, 1, EXPLORATION);
        }
        candidates.set_task(50, Task::Evaluate);
        assert_eq!(candidates.best_and_rival(), Some((1, 1.0)));
        assert_eq!(candidates.get(130).map(|candidate| candidate.score), Some(0.5 / 3.0 + 0.5));
        let mut chosen = Vec::new();
        candidates.take_chosen(&mut chosen);
        let found: Vec<_> = chosen.iter().map(|next| (next.link, next.share, next.task)).collect();
        let expected = [(0, 1), (130, 2), (200, 1)];
        assert_eq!(found, expected.map(|(index, share)| (links[index], share, Task::Enter)));
        chosen.clear();
        candidates.take_chosen(&mut chosen);
        assert!(chosen.is_empty() && candidates.task(50) == Task::Nothing);
    }
}
