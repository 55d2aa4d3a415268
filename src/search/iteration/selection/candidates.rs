//! The candidates for the next visits of a node: its children with their scores.

use super::root_focus::RootFocus;
use super::walk::Walk;
use crate::search::policy::policy_temperature::change_temperature;
use crate::search::policy::select;
use crate::search::state::SearchContext;
use crate::tree::{Link, LinkId, Node, NodeId};

/// The node whose visits are shared out, and the figures by which its moves are chosen.
#[derive(Clone, Copy)]
pub(crate) struct Choice<'a> {
    pub(crate) node: &'a Node,
    /// The factor of `prior / (1 + started)` in a score.
    pub(crate) exploration: f32,
    /// At the root, the moves that may be tried; `None` elsewhere, and everywhere in a prefetch.
    pub(crate) focus: Option<&'a RootFocus<'a>>,
    /// Whether this is a search for a mate, which skips the moves that were ruled out.
    pub(crate) skips_ruled_out: bool,
}

/// A child of a node whose visits are being shared out.
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
    /// The number of visits to make in this descent.
    pub(crate) share: u32,
    pub(crate) task: Task,
}

impl Candidate {
    /// A candidate without a share of the visits yet. `fpu` is the utility of an untried move.
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

    /// The number of visits after which the score is below `rival_score`; `exploration` is that of the choice.
    #[inline]
    pub(crate) fn visits_until_overtaken(&self, exploration: f32, rival_score: f32) -> u32 {
        select::visits_until_overtaken(self.prior, exploration, self.started, self.utility, rival_score)
    }
}

/// The way in which a descent uses a candidate's share of the visits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// No visits go to the candidate: it is not decided yet, or another thread is evaluating the child.
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

/// Lists the tried children of the chosen node and then its untried moves in descending order of their priors: at least
/// `least_untried` untried moves, if the node has that many. Returns the utility of an untried move, and how many
/// untried moves are listed.
pub(crate) fn list_candidates(
    context: &SearchContext,
    walk: &mut Walk,
    choice: &Choice<'_>,
    least_untried: u32,
    candidates: &mut Vec<Candidate>,
) -> (f32, u32) {
    let Choice { node, exploration, focus, .. } = *choice;
    let params = &context.params;
    let tree = &*context.tree;
    let parent = node.sample();
    let draw_score = params.draw_score_for(walk.history.last().side_to_move());
    let valuation = select::Valuation::new(params, parent, draw_score);
    let mut links = tree.links(node);
    walk.enter_node();
    let mut visited_policy = 0.0;
    // The candidates from the first unvisited one on get a second pass.
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
        if untried_count >= least_untried || !walk.grow(links.clone()) {
            break;
        }
    }
    if focus.is_some()
        && let Some(factor) = params.policy_temperature.at_root()
    {
        visited_policy = change_root_priors(candidates, exploration, factor);
    }
    let parent_q = select::utility(parent, draw_score);
    let fpu = select::first_play_urgency(params, parent_q, visited_policy, focus.is_some());
    for candidate in candidates.iter_mut().skip(first_unvisited) {
        if candidate.utility.is_nan() {
            candidate.utility = fpu;
            candidate.score = score(candidate, exploration);
        }
    }
    if choice.skips_ruled_out {
        let is_ruled_out =
            |candidate: &&mut Candidate| candidate.child.is_some_and(|child| tree.node(child).is_ruled_out());
        for candidate in candidates.iter_mut().filter(is_ruled_out) {
            (candidate.utility, candidate.score) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        }
    }
    if let Some(focus) = focus.filter(|focus| focus.is_narrow()) {
        candidates.retain(|candidate| focus.allows(candidate.link, tree.link(candidate.link)));
        untried_count = candidates.iter().filter(|candidate| candidate.started == 0).count() as u32;
    }
    if !is_in_order {
        // The sort is stable, so that tried and untried moves each stay in the order of their priors.
        candidates.sort_by_key(|candidate| candidate.started == 0);
    }
    (fpu, untried_count)
}

/// Changes the temperature of the root's priors, and the scores of visited moves. Returns the sum of the priors of visited
/// moves.
#[cold]
#[inline(never)]
fn change_root_priors(candidates: &mut [Candidate], exploration: f32, factor: f32) -> f32 {
    let mut priors: Vec<f32> = candidates.iter().map(|candidate| candidate.prior).collect();
    change_temperature(&mut priors, factor);
    let mut visited_policy = 0.0;
    for (candidate, prior) in candidates.iter_mut().zip(priors) {
        candidate.prior = prior;
        // An unvisited move has no utility yet.
        if !candidate.utility.is_nan() {
            candidate.score = score(candidate, exploration);
            visited_policy += prior;
        }
    }
    visited_policy
}

/// Adds the next untried moves of the chosen node to `candidates`, which must already contain all its other links.
/// Returns the number of added moves.
pub(super) fn list_next(
    context: &SearchContext,
    walk: &mut Walk,
    choice: &Choice<'_>,
    fpu: f32,
    candidates: &mut Vec<Candidate>,
) -> u32 {
    let mut links = context.tree.links(choice.node);
    let listed = candidates.len();
    if listed > 0 && links.nth(listed - 1).is_none() {
        return 0;
    }
    // Another thread may have added links in the meantime.
    let mut rest = links.clone();
    if rest.next().is_none() && !walk.grow(links.clone()) {
        return 0;
    }
    for (id, link) in links {
        let mut candidate = Candidate::new(id, link, link.visits(), link.edge().prior(), fpu);
        candidate.score = score(&candidate, choice.exploration);
        candidates.push(candidate);
    }
    (candidates.len() - listed) as u32
}

/// The PUCT score of a candidate.
#[inline]
pub(crate) fn score(candidate: &Candidate, exploration: f32) -> f32 {
    candidate.prior * exploration / (1.0 + candidate.started as f32) + candidate.utility
}
