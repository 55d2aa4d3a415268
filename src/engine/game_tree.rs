//! The search tree across the moves of a game.

use super::game::Game;
use rukh_base::sync::atomic::{AtomicU64, Ordering};
use rukh_base::sync::{Arc, start_system_thread};
use rukh_options::Presses;
use rukh_search::counted_nodes;
use rukh_tree::Tree;

/// A tree of at least so many bytes is freed by a thread of its own, because that takes about 0.2 s per gigabyte.
const LEAST_TO_FREE_ASIDE: u64 = 16_000_000;

/// At the end of the process, a tree of at least so many bytes is freed by several threads.
const LEAST_TO_FREE_TOGETHER: u64 = 1_000_000_000;

/// The most threads that free a tree together. More of them wait for each other in the system.
const MOST_THREADS_TO_FREE: usize = 8;

/// The tree, and the state that decides whether the next search may reuse it.
pub(super) struct GameTree {
    tree: Arc<Tree>,
    /// Whether a discarded tree leaves its memory to the next one. If the user limits the memory, this keeps it within
    /// the limit: the system's allocator often keeps freed memory in pieces that a new tree cannot use.
    keeps_memory: bool,
    /// The bytes of replaced trees that are not yet freed.
    being_freed: Arc<AtomicU64>,
    /// How often `ClearTree` had been pressed at the last call of `prepare`.
    cleared_at: Presses,
    /// Whether the last search looked for a mate (`go mate`).
    served_mate: bool,
}

impl Default for GameTree {
    fn default() -> GameTree {
        GameTree::new()
    }
}

impl GameTree {
    pub(super) fn new() -> GameTree {
        GameTree {
            tree: Arc::new(Tree::new()),
            keeps_memory: false,
            being_freed: Arc::default(),
            cleared_at: Presses::default(),
            served_mate: false,
        }
    }

    /// Frees the tree if that is quicker than leaving it to the operating system, which does so with one thread while
    /// the GUI waits for the end of the process. No search may be running.
    pub(super) fn end_with_process(self) {
        let is_large = self.tree.reserved_bytes() >= LEAST_TO_FREE_TOGETHER;
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let left = if is_large && cores > 1 {
            match Arc::try_unwrap(self.tree) {
                Ok(tree) => return tree.free_together(cores.clamp(4, MOST_THREADS_TO_FREE)),
                Err(shared) => shared,
            }
        } else {
            self.tree
        };
        std::mem::forget(left);
    }

    pub(super) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// The memory of the tree, and of replaced trees that is not yet freed, in bytes.
    pub(super) fn used_bytes(&self) -> u64 {
        self.tree.used_bytes() + self.being_freed.load(Ordering::Relaxed)
    }

    /// Begins a new tree.
    pub(super) fn discard(&mut self) {
        if !self.keeps_memory || !self.tree.clear() {
            self.replace();
        }
    }

    /// Begins a new tree in new memory. The old tree may be broken.
    pub(super) fn replace(&mut self) {
        let old = std::mem::replace(&mut self.tree, Arc::new(Tree::new()));
        let (bytes, being_freed) = (old.reserved_bytes(), self.being_freed.clone());
        if bytes < LEAST_TO_FREE_ASIDE {
            return;
        }
        being_freed.fetch_add(bytes, Ordering::Relaxed);
        let free = move || {
            drop(old);
            being_freed.fetch_sub(bytes, Ordering::Relaxed);
        };
        // If the thread cannot start, the closure is dropped here, and with it the old tree.
        if start_system_thread("free tree", free).is_err() {
            self.being_freed.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Takes note of the user's limit on the tree, in bytes; `None` if there is none. Replaces a tree that is larger,
    /// because its memory never shrinks.
    pub(super) fn keep_to(&mut self, limit: Option<u64>) {
        self.keeps_memory = limit.is_some();
        if limit.is_some_and(|limit| self.tree.reserved_bytes() > limit.saturating_add(limit / 8)) {
            self.replace();
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

    /// Discards the tree if the next search must not reuse it: after `ClearTree`, if it has more than `most_nodes`, and
    /// before and after a search for a mate. Such a search must not start from proven results, because a longer mate proven earlier would hide a
    /// shorter one. And the tree that it leaves lacks the longer mates that an ordinary search would have proven.
    pub(super) fn prepare(&mut self, clear_presses: Presses, most_nodes: Option<u64>, looks_for_mate: bool) {
        let is_too_large = most_nodes.is_some_and(|most| counted_nodes(&self.tree, &[]) > most);
        if self.cleared_at != clear_presses || is_too_large || looks_for_mate || self.served_mate {
            self.cleared_at = clear_presses;
            self.discard();
        }
        self.served_mate = looks_for_mate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_end_of_the_process_a_small_tree_is_left_to_the_system() {
        let game_tree = GameTree::new();
        let tree = Arc::downgrade(game_tree.tree());
        game_tree.end_with_process();
        assert!(tree.upgrade().is_some());
    }
}
