//! Proofs: a node whose children have exact results gets an exact result itself.

use rukh_base::sync::atomic::{Ordering, fence};
use rukh_tree::{Bounds, Node, Outcome, TerminalKind, Totals, Tree};

/// The effect of a changed child on its parent.
#[derive(Debug)]
pub(super) enum Proof {
    /// Nothing new is known about the parent.
    Nothing,
    /// The parent is not proven, but the children bound its result, perhaps more narrowly than before.
    Narrowed,
    /// The parent is terminal now, and its sums changed by these totals.
    Proven(Totals),
}

/// Combines the bounds of all children of an expanded node. The node's bounds are the best of the children's bounds,
/// with the sign changed because the other side is to move. If the result is exact, the node becomes terminal, with the
/// shortest win or the longest loss.
pub(super) fn try_prove(tree: &Tree, node: &Node) -> Proof {
    if node.is_terminal() {
        return Proof::Nothing;
    }
    let edge_count = node.edge_count();
    let mut bounds = Bounds::exact(-1);
    let mut seen = 0;
    // Plies of the shortest mate, the shortest tablebase win, the longest draw and the longest loss.
    let (mut mate_plies, mut win_plies) = (None, u16::MAX);
    let (mut draw_plies, mut loss_plies) = (0, 0);
    let mut uses_tablebase = false;
    // Two threads may make two children terminal at the same time. Each stores its child's outcome and then comes here.
    // The fence orders that store before the loads below, so that at least one of them sees both outcomes and proves
    // this node.
    fence(Ordering::SeqCst);
    for child in tree.links(node).filter_map(|(_, link)| link.child()) {
        let child = tree.node(child);
        seen += 1;
        let outcome = child.outcome();
        let child_bounds = match outcome {
            // A first repetition is a draw on this path only: it proves nothing.
            Some(Outcome { kind: TerminalKind::TwoFold, .. }) => Bounds::UNKNOWN,
            _ => child.bounds(),
        }
        .flipped();
        bounds.lower = bounds.lower.max(child_bounds.lower);
        bounds.upper = bounds.upper.max(child_bounds.upper);
        if let Some(outcome) = outcome {
            let from_tablebase = outcome.kind == TerminalKind::Tablebase;
            uses_tablebase |= from_tablebase;
            match -outcome.result {
                1 if from_tablebase => win_plies = win_plies.min(outcome.plies),
                1 => mate_plies = Some(mate_plies.map_or(outcome.plies, |least| outcome.plies.min(least))),
                0 => draw_plies = draw_plies.max(outcome.plies),
                _ => loss_plies = loss_plies.max(outcome.plies),
            }
        }
    }
    if seen < edge_count {
        bounds.upper = 1;
    }
    if bounds.is_exact() || bounds.lower == 1 {
        let (plies, needs_tablebase) = match (bounds.lower, mate_plies) {
            // A mate needs no tablebase, whatever the other moves do.
            (1, Some(plies)) => (plies, false),
            (1, None) => (win_plies, uses_tablebase),
            (0, _) => (draw_plies, uses_tablebase),
            _ => (loss_plies, uses_tablebase),
        };
        let kind = if needs_tablebase { TerminalKind::Tablebase } else { TerminalKind::EndOfGame };
        let outcome = Outcome { result: bounds.lower, plies: plies.saturating_add(1), kind };
        return node.prove(outcome).map_or(Proof::Nothing, Proof::Proven);
    }
    if bounds == Bounds::UNKNOWN {
        return Proof::Nothing;
    }
    node.narrow_bounds(bounds);
    Proof::Narrowed
}
