//! The turns of the workers at recycling the tree. One worker at a time has its turn.

use super::parking::Users;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use crate::tree::Tree;

/// Whose turn it is, and whether nodes are condemned ([`crate::tree::Recycling`]).
#[derive(Default)]
pub(crate) struct Recycling {
    turn: Mutex<Turn>,
    /// Whether nodes are condemned. Relaxed suffices, because a worker that reads an old value acts at its next look.
    has_condemned: AtomicBool,
}

/// What one turn leaves to the next.
#[derive(Default)]
pub(crate) struct Turn {
    /// The workers that may still use edges of the nodes that are condemned.
    pub(crate) users: Option<Users>,
    /// Whether the user was told that memory is short.
    pub(crate) has_reported: bool,
}

impl Recycling {
    /// Whether nodes are condemned.
    pub(crate) fn has_condemned(&self) -> bool {
        self.has_condemned.load(Ordering::Relaxed)
    }

    /// Notes whether nodes are condemned.
    pub(crate) fn note_condemned(&self, has_condemned: bool) {
        self.has_condemned.store(has_condemned, Ordering::Relaxed);
    }

    /// The turn, unless another worker has it.
    pub(crate) fn try_take(&self) -> Option<MutexGuard<'_, Turn>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Pardons all condemned nodes. No worker may use the tree any more.
    pub(super) fn end(&self, tree: &Tree) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        turn.users = None;
        self.note_condemned(false);
        tree.recycling().pardon_condemned();
    }
}
