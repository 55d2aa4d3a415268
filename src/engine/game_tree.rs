//! The search tree across the moves of a game.

use super::game::Game;
use crate::options::Presses;
use crate::sync::Arc;
use crate::tree::Tree;

/// The tree, and the state that decides whether the next search may reuse it.
pub(super) struct GameTree {
    tree: Arc<Tree>,
    /// How often `ClearTree` had been pressed at the last call of `prepare`.
    cleared_at: Presses,
    /// Whether the last search looked for a mate (`go mate`).
    served_mate: bool,
}

impl GameTree {
    pub(super) fn new() -> GameTree {
        GameTree { tree: Arc::new(Tree::new()), cleared_at: Presses::default(), served_mate: false }
    }

    pub(super) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// Visits of the root.
    pub(super) fn root_visits(&self) -> u64 {
        u64::from(self.tree.node(self.tree.root()).visits())
    }

    /// Replaces the tree with a new one.
    pub(super) fn discard(&mut self) {
        self.tree = Arc::new(Tree::new());
    }

    /// Replaces the tree with a new one if it has more than `limit` bytes, because the user has lowered the limit. The
    /// memory of a tree never shrinks.
    pub(super) fn discard_if_larger(&mut self, limit: u64) {
        if self.tree.reserved_bytes() > limit.saturating_add(limit / 8) {
            self.discard();
        }
    }

    /// Moves the root from the last position of `old` to that of `new`. If `new` does not continue `old`, or if
    /// the tree does not reach that far, a new tree is made.
    pub(super) fn follow(&mut self, old: &Game, new: &Game) {
        let is_reusable = match new.moves_since(old) {
            None => false,
            Some([]) => true,
            Some(played) => self.tree.reroot(played),
        };
        if !is_reusable {
            self.discard();
        }
    }

    /// Discards the tree if the next search must not reuse it: after `ClearTree`, and before and after a search for a
    /// mate. Such a search must not start from proven results, because a longer mate proven earlier would hide a
    /// shorter one. And the tree that it leaves lacks the longer mates that an ordinary search would have proven.
    pub(super) fn prepare(&mut self, clear_presses: Presses, looks_for_mate: bool) {
        if self.cleared_at != clear_presses || looks_for_mate || self.served_mate {
            self.cleared_at = clear_presses;
            self.discard();
        }
        self.served_mate = looks_for_mate;
    }
}
