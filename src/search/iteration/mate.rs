//! `go mate`: a search that looks nowhere but where the mate can still come in time.
//!
//! A mate in n moves ends 2n - 1 plies below the root. A proven longer one would end the search below it, and hide
//! a shorter one (see [`super::proof`]). So in this search nothing lies deeper: a position before the last move mates
//! or is *ruled out*, and so is one in which the game has ended otherwise. What is ruled out is not visited again. It
//! goes up the tree like a proof: one reply rules a move out, and a side to mate is at a loss once all its moves are
//! ruled out. When the root is, there is no mate in time. Then the search goes on as an ordinary one, which finds
//! longer mates, until somebody stops it.
//!
//! How far a position lies below the root must be certain, so that nodes are not shared.

use crate::chess::Position;
use crate::search::state::{Counters, SearchContext, Step, StepIndex};
use crate::sync::atomic::{Ordering, fence};
use crate::tree::{Node, Outcome, TerminalKind};

/// The greatest depth, in plies, of a mate that the search looks for; `None` in an ordinary search.
pub(super) fn mate_plies(context: &SearchContext, counters: &Counters) -> Option<usize> {
    context.params.mate_plies.filter(|_| !counters.mate_is_refuted.load(Ordering::Relaxed))
}

/// In a search for a mate, the outcome of a position whose next move is the last one in time, if it can mate.
pub(super) fn outcome_by_last_move(
    context: &SearchContext,
    counters: &Counters,
    position: &Position,
    depth: usize,
) -> Option<Outcome> {
    let is_last_move = depth > 0 && mate_plies(context, counters) == Some(depth + 1);
    (is_last_move && position.mating_move().is_some()).then_some(Outcome {
        result: 1,
        plies: 1,
        kind: TerminalKind::EndOfGame,
    })
}

/// In a search for a mate, rules out a new leaf if the mate cannot come below it in time or if the game has ended there
/// without it. Then it rules out all nodes above that have no other hope.
///
/// `depth` is the leaf's, in plies below the root.
pub(super) fn rule_mate_out(
    context: &SearchContext,
    counters: &Counters,
    steps: &[Step],
    leaf: StepIndex,
    mut depth: usize,
) {
    let Some(plies) = mate_plies(context, counters) else { return };
    let mut index = leaf;
    let node = context.tree.node(steps[index as usize].node);
    // The side that shall mate is to move at even depths.
    let winning_result = if depth.is_multiple_of(2) { 1 } else { -1 };
    let is_out = match node.outcome() {
        Some(outcome) => outcome.result != winning_result,
        None => depth > 0 && depth + 1 >= plies,
    };
    if !is_out {
        return;
    }
    loop {
        let step = &steps[index as usize];
        context.tree.node(step.node).rule_out();
        let Some(parent) = step.parent else {
            report_refuted_mate(context, counters, plies);
            return;
        };
        depth -= 1;
        let above = context.tree.node(steps[parent as usize].node);
        if depth.is_multiple_of(2) && !all_moves_are_ruled_out(context, above, depth == 0) {
            return;
        }
        index = parent;
    }
}

fn all_moves_are_ruled_out(context: &SearchContext, node: &Node, is_root: bool) -> bool {
    // Two threads may rule out two children at the same time: each must see the other's, or nobody goes on.
    fence(Ordering::SeqCst);
    let mut seen = 0;
    for (_, link) in context.tree.links(node) {
        seen += 1;
        let is_open = link.child().is_none_or(|child| !context.tree.node(child).is_ruled_out());
        if is_open && (!is_root || context.is_searched(link.edge().packed_move())) {
            return false;
        }
    }
    seen == node.edge_count()
}

fn report_refuted_mate(context: &SearchContext, counters: &Counters, plies: usize) {
    if !counters.mate_is_refuted.swap(true, Ordering::Relaxed) {
        let moves = plies.div_ceil(2);
        context.responder.message(&format!("there is no mate in {moves}; looking for a longer one"));
    }
}
