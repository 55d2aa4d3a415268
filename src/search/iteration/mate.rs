//! `go mate`: searches only positions below which the mate is still possible in time.
//!
//! A mate in n moves ends 2n - 1 plies below the root. A proof of a longer mate would end the search below the proven
//! node, and so hide a shorter mate (see [`super::proof`]). So this search goes no deeper: a position before the last
//! move either has a mating move or is *ruled out*. A position in which the game has ended without the mate is ruled
//! out as well. Positions that are ruled out are not visited again. They propagate up the tree like a proof: one
//! reply that is ruled out rules out the move before it, and a position of the mating side is ruled out when all its
//! moves are. If the root is ruled out, there is no mate in time. Then the search continues as an ordinary search,
//! which finds longer mates, until it is stopped.
//!
//! Every node must have a single depth below the root, so in this search transpositions do not share nodes.

use crate::state::{Counters, SearchContext, Step, StepIndex};
use rukh_base::sync::atomic::{Ordering, fence};
use rukh_chess::Position;
use rukh_tree::{Node, Outcome, TerminalKind};

/// The greatest depth, in plies, of a mate that the search looks for; `None` in an ordinary search.
pub(super) fn mate_plies(context: &SearchContext, counters: &Counters) -> Option<usize> {
    context.params.mate_plies.filter(|_| !counters.mate_is_refuted.load(Ordering::Relaxed))
}

/// In a search for a mate: a win in one ply, if the next move is the last one in time and `position` has a mating move.
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

/// In a search for a mate, rules out a new leaf if no mate is possible below it in time, or if the game has ended there
/// without the mate. Then it rules out all ancestors that have no other way to the mate.
///
/// `depth` is the leaf's depth below the root, in plies.
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
    // The side that is to give mate moves at even depths.
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
    // Two threads may rule out two children at the same time. With the fence, at least one of them sees both.
    fence(Ordering::SeqCst);
    let mut seen = 0;
    for (_, link) in context.tree.links(node) {
        seen += 1;
        let is_open = link.child().is_none_or(|child| !context.tree.node(child).is_ruled_out());
        if is_open && (!is_root || context.is_searched(link.edge().packed_move())) {
            return false;
        }
    }
    // A condemned node has no edges for a moment.
    seen > 0 && seen == node.edge_count()
}

fn report_refuted_mate(context: &SearchContext, counters: &Counters, plies: usize) {
    if !counters.mate_is_refuted.swap(true, Ordering::Relaxed) {
        let moves = plies.div_ceil(2);
        context.responder.message(&format!("there is no mate in {moves}; looking for a longer one"));
    }
}
