//! Shares the visits of a node among its children: the heart of selection.

use super::candidates::{Candidate, Choice, Task, list_candidates, list_next, score};
use super::ranking::Ranking;
use super::walk::Walk;
use crate::search::state::SearchContext;
use crate::tree::{Node, State};

/// The task of a visit at this child. An unevaluated child is claimed for the visit. `None` means that another thread
/// is evaluating the child.
pub(crate) fn task_at(child: &Node) -> Option<Task> {
    match child.state() {
        State::Unevaluated => child.try_claim().then_some(Task::Evaluate),
        State::Evaluating => None,
        State::Expanded => Some(Task::Descend),
        State::Terminal => Some(Task::Terminal),
    }
}

/// Decides how many of the `budget` visits each child gets, and adds them to the visits in flight of the child's link.
/// Afterwards `candidates` contains only the children that get visits. Returns the number of visits that no child gets,
/// because the chosen child is already being evaluated or because all moves are pruned.
pub(crate) fn plan(
    context: &SearchContext,
    walk: &mut Walk,
    ranking: &mut Ranking,
    choice: &Choice<'_>,
    budget: u32,
    candidates: &mut Vec<Candidate>,
) -> u32 {
    let exploration = choice.exploration;
    // Lists at least two untried moves, if there are any: one to visit, and its rival, whose score limits the number of
    // visits to the first. If only one visit is left, there is nothing to limit, and one untried move is enough.
    let (fpu, mut untried) = list_candidates(context, walk, choice, budget.min(2), candidates);
    // Only the root has a focus, and it already has links for all its moves.
    let mut may_be_more = choice.focus.is_none();
    let mut left = budget;
    let mut collided = 0;
    ranking.fill(candidates.iter().map(|candidate| candidate.score));
    while left > 0 {
        if may_be_more && untried < left.min(2) {
            let found = list_next(context, walk, choice, fpu, candidates);
            may_be_more = found > 0;
            untried += found;
            let listed = ranking.len();
            ranking.extend(candidates[listed..].iter().map(|next| next.score));
        }
        // If all moves were pruned, there is nothing to do.
        let Some((best, rival_score)) = ranking.best_and_rival() else { break };
        let candidate = &mut candidates[best];
        let visits = candidate.visits_until_overtaken(exploration, rival_score).min(left);
        if candidate.task == Task::Nothing {
            let task = match candidate.child {
                Some(child) => task_at(context.tree.node(child)),
                None => Some(Task::Enter),
            };
            candidate.task = task.unwrap_or(Task::Nothing);
        }
        let made = match candidate.task {
            Task::Nothing => 0,
            // The child gets a single visit, because it is evaluated once.
            Task::Enter | Task::Evaluate => u32::from(candidate.share == 0),
            Task::Descend | Task::Terminal => visits,
        };
        if made == 0 {
            // The child's score does not change, so all remaining visits would go to this busy child.
            break;
        }
        left -= visits;
        collided += visits - made;
        untried = untried.saturating_sub(u32::from(candidate.started == 0));
        candidate.share += made;
        candidate.started += made;
        if left > 0 {
            candidate.score = score(candidate, exploration);
            ranking.set(best, candidate.score);
        }
    }
    candidates.retain(|candidate| candidate.share > 0);
    for candidate in candidates {
        context.tree.link(candidate.link).add_in_flight(candidate.share);
    }
    collided + left
}
