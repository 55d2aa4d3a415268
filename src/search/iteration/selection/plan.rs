//! Shares the visits of a node among its children: the heart of selection.

use super::candidates::{Candidates, Choice, Chosen, Task, list_candidates, list_next};
use super::walk::Walk;
use crate::state::SearchContext;
use rukh_tree::{Node, State};

/// At most this many visits pass a busy child at once. If more are needed before another child scores higher, that child is
/// clearly worse.
const MOST_PASSING: u32 = 4;

/// The task of a visit at this child. An unevaluated child is claimed for the visit. `None` means that another thread
/// is evaluating the child.
#[inline]
pub(crate) fn task_at(child: &Node) -> Option<Task> {
    match child.state() {
        State::Unevaluated => child.try_claim().then_some(Task::Evaluate),
        State::Evaluating => None,
        State::Expanded => Some(Task::Descend),
        State::Terminal => Some(Task::Terminal),
    }
}

/// Decides how many of the `budget` visits each child gets, and adds them to the visits in flight of the child's link.
/// Appends the children that get visits to `chosen`. Returns the number of visits that nobody makes, because the chosen
/// child is already being evaluated or because all moves are pruned.
///
/// With `pass_busy`, visits that fall on a child under evaluation count as in flight below it, so that its score drops and
/// the next visits go to another child. This is done only if at most [`MOST_PASSING`] of them suffice. If a child that is
/// entered turns out to have been evaluated in the meantime, these visits are made after all, although they were counted as
/// collisions.
pub(crate) fn plan(
    context: &SearchContext,
    walk: &mut Walk,
    candidates: &mut Candidates,
    choice: &Choice<'_>,
    budget: u32,
    pass_busy: bool,
    chosen: &mut Vec<Chosen>,
) -> u32 {
    let exploration = choice.exploration;
    // Lists at least two untried moves, if there are any: one to visit, and its rival, whose score limits the number of
    // visits to the first. If only one visit is left, there is nothing to limit, and one untried move is enough.
    let (fpu, mut untried) = list_candidates(context, walk, choice, budget.min(2), candidates);
    // Only the root has a focus, and it already has links for all its moves.
    let mut may_be_more = choice.focus.is_none();
    let mut left = budget;
    let mut collided = 0;
    while left > 0 {
        if may_be_more && untried < left.min(2) {
            let found = list_next(context, walk, choice, fpu, candidates);
            may_be_more = found > 0;
            untried += found;
        }
        // The last visit needs no rival, which would only limit the number of visits.
        let best = if left == 1 {
            candidates.best().map(|best| (best, f32::INFINITY))
        } else {
            candidates.best_and_rival()
        };
        // If all moves were pruned, there is nothing to do.
        let Some((best, rival_score)) = best else { break };
        let Some(candidate) = candidates.get(best) else { break };
        let visits =
            if left == 1 { 1 } else { candidate.visits_until_overtaken(exploration, rival_score).min(left) };
        let mut task = candidates.task(best);
        if task == Task::Nothing {
            task = match candidate.child {
                Some(child) => task_at(context.tree.node(child)).unwrap_or(Task::Nothing),
                None => Task::Enter,
            };
            candidates.set_task(best, task);
        }
        let made = match task {
            Task::Nothing => 0,
            // The child gets a single visit, because it is evaluated once.
            Task::Enter | Task::Evaluate => u32::from(candidates.share(best) == 0),
            Task::Descend | Task::Terminal => visits,
        };
        if made == 0 && !(pass_busy && visits <= MOST_PASSING) {
            // The child's score does not change, so all remaining visits would go to this busy child.
            break;
        }
        left -= visits;
        collided += visits - made;
        untried = untried.saturating_sub(u32::from(candidate.started == 0));
        candidates.add_visits(best, if made == 0 { visits } else { made }, exploration);
    }
    let first = chosen.len();
    candidates.take_chosen(chosen);
    for next in &chosen[first..] {
        context.tree.link(next.link).add_in_flight(next.share);
        if let (Task::Descend, Some(child)) = (next.task, next.child) {
            context.tree.load_edges_ahead(child);
        }
    }
    collided + left
}
