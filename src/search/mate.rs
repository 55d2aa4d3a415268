//! `go mate`: a search that looks nowhere but where the mate can still come in time.
//!
//! A mate in n moves ends 2n - 1 plies below the root. A proven longer one would end the search below it, and hide
//! a shorter one (see [`super::backup`]). So in this search nothing lies deeper: a position before the last move mates
//! or is *ruled out*, and so is one in which the game has ended otherwise. What is ruled out is not visited again. It
//! goes up the tree like a proof: one reply rules a move out, and a side to mate is at a loss once all its moves are
//! ruled out. When the root is, there is no mate in time. Then the search goes on as an ordinary one, which finds
//! longer mates, until somebody stops it.
//!
//! How far a position lies below the root must be certain, so that nodes are not shared.

use super::Shared;
use super::minibatch::{Step, StepIndex};
use crate::chess::{Move, Position};
use crate::sync::atomic::{Ordering, fence};
use crate::tree::{Node, Outcome, TerminalKind};

impl Shared {
    /// Plies to the latest mate that is looked for; `None`: an ordinary search.
    pub(super) fn mate_plies(&self) -> Option<usize> {
        self.params.mate_plies.filter(|_| !self.mate_is_refuted.load(Ordering::Relaxed))
    }

    /// In a search for a mate: the outcome of a position from which the last move mates.
    pub(super) fn outcome_by_last_move(&self, position: &Position, depth: usize) -> Option<Outcome> {
        let is_last_move = depth > 0 && self.mate_plies() == Some(depth + 1);
        (is_last_move && mating_move(position).is_some()).then_some(Outcome {
            result: 1,
            plies: 1,
            kind: TerminalKind::EndOfGame,
        })
    }

    /// In a search for a mate: rules out a new leaf that does not mate, at the latest place for it or because the
    /// game is over, and all above that this rules out.
    pub(super) fn rule_mate_out(&self, steps: &[Step], leaf: StepIndex, mut depth: usize) {
        let Some(plies) = self.mate_plies() else { return };
        let mut index = leaf;
        let node = self.tree.node(steps[index as usize].node);
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
            self.tree.node(step.node).rule_out();
            let Some(parent) = step.parent else {
                self.tell_that_there_is_no_mate(plies);
                return;
            };
            depth -= 1;
            let above = self.tree.node(steps[parent as usize].node);
            if depth.is_multiple_of(2) && !self.all_moves_are_ruled_out(above, depth == 0) {
                return;
            }
            index = parent;
        }
    }

    fn all_moves_are_ruled_out(&self, node: &Node, is_root: bool) -> bool {
        // Two threads may rule out two children at the same time: each must see the other's, or nobody goes on.
        fence(Ordering::SeqCst);
        let mut seen = 0;
        for (_, link) in self.tree.links(node) {
            seen += 1;
            let is_open = link.child().is_none_or(|child| !self.tree.node(child).is_ruled_out());
            if is_open && (!is_root || self.is_searched(link.edge().packed_move())) {
                return false;
            }
        }
        seen == node.edge_count()
    }

    fn tell_that_there_is_no_mate(&self, plies: usize) {
        if !self.mate_is_refuted.swap(true, Ordering::Relaxed) {
            let moves = plies.div_ceil(2);
            self.responder.message(&format!("there is no mate in {moves}; looking for a longer one"));
        }
    }
}

/// A move that ends the game.
pub(super) fn mating_move(position: &Position) -> Option<Move> {
    position.legal_moves().into_iter().find(|&m| {
        let next = position.play(m);
        next.is_check() && next.legal_moves().is_empty()
    })
}
