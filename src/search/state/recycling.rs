//! The shares of the workers in recycling the tree. Each worker has one, and helps out with those of other workers.

use super::parking::Users;
use rukh_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use rukh_base::sync::{Mutex, MutexGuard, PoisonError, try_lock};
use rukh_tree::{RecyclingShare, Tree};

/// The shares of all workers, and whether nodes are condemned ([`rukh_tree::Tree::condemn`]).
pub(crate) struct Recycling {
    shares: Box<[Mutex<Share>]>,
    /// The number of shares with condemned nodes. Relaxed suffices, because a worker that reads an old value acts at its
    /// next look.
    with_condemned: AtomicUsize,
    /// Whether the user was told that memory is short.
    has_reported: AtomicBool,
}

/// What one worker recycles. It stays from one turn to the next.
#[derive(Default)]
pub(crate) struct Share {
    pub(crate) nodes: RecyclingShare,
    /// The workers that may still use edges of the nodes that are condemned.
    pub(crate) users: Option<Users>,
}

impl Recycling {
    /// Shares of so many workers.
    pub(crate) fn new(workers: usize) -> Recycling {
        Recycling {
            shares: (0..workers).map(|_| Mutex::default()).collect(),
            with_condemned: AtomicUsize::new(0),
            has_reported: AtomicBool::new(false),
        }
    }

    /// The number of shares.
    pub(crate) fn shares(&self) -> usize {
        self.shares.len()
    }

    /// Whether nodes are condemned.
    pub(crate) fn has_condemned(&self) -> bool {
        self.with_condemned.load(Ordering::Relaxed) > 0
    }

    /// Notes that a share has condemned nodes, if it has.
    pub(crate) fn note_condemned(&self, share: &Share) {
        if share.nodes.has_condemned() {
            self.with_condemned.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that a share which had condemned nodes has none any more.
    pub(crate) fn note_none_condemned(&self) {
        self.with_condemned.fetch_sub(1, Ordering::Relaxed);
    }

    /// The share of the worker with this `index`, unless another worker is busy with it.
    pub(crate) fn try_take(&self, index: usize) -> Option<MutexGuard<'_, Share>> {
        try_lock(&self.shares[index])
    }

    /// Whether this is the first call.
    pub(crate) fn may_report(&self) -> bool {
        !self.has_reported.swap(true, Ordering::Relaxed)
    }

    /// Pardons all condemned nodes. No worker may use the tree any more.
    pub(super) fn end(&self, tree: &Tree) {
        for share in &self.shares {
            let mut share = share.lock().unwrap_or_else(PoisonError::into_inner);
            share.users = None;
            if share.nodes.has_condemned() {
                tree.pardon_condemned(&mut share.nodes);
                self.note_none_condemned();
            }
        }
    }
}
