//! What recycling keeps in the tree and in its threads.

use super::allocator::Allocator;
use super::node_id::NodeId;
use rukh_base::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// The number of unreachable nodes that a thread takes at once.
const HANDFUL: usize = 256;

/// The part of recycling that all threads share.
#[derive(Default)]
pub(super) struct Recycler {
    /// Nodes that nothing refers to any more. The nodes that only they lead to are not listed.
    unreachable: Mutex<Vec<NodeId>>,
    sweep: Mutex<Sweep>,
    /// Is locked for reading while a thread frees edges, and for writing while another one reads edges of nodes that may
    /// be unreachable.
    edges: RwLock<()>,
}

/// The state of the [sweep](super::sweep), which goes on from one search to the next.
#[derive(Default)]
pub(super) struct Sweep {
    /// The entry of the arena at which the sweep goes on.
    pub(super) hand: u32,
    /// The number of entries that the hand passes before the next sample.
    pub(super) until_sample: u64,
    /// Nodes with fewer visits than this are condemned.
    pub(super) threshold: u32,
    /// The state of the generator of random numbers.
    pub(super) random: u64,
}

/// The nodes that one thread recycles at a time.
#[derive(Default)]
pub struct RecyclingShare {
    pub(super) condemned: Vec<NodeId>,
    /// Unreachable nodes that the thread has taken from the tree's list or found below other nodes.
    pub(super) unreachable: Vec<NodeId>,
    pub(super) freed: Allocator,
}

impl RecyclingShare {
    /// Whether the share has condemned nodes.
    pub fn has_condemned(&self) -> bool {
        !self.condemned.is_empty()
    }
}

impl Recycler {
    /// Adds a node that nothing refers to any more.
    pub(super) fn add_unreachable(&self, id: NodeId) {
        self.unreachable().push(id);
    }

    pub(super) fn has_unreachable(&self) -> bool {
        !self.unreachable().is_empty()
    }

    /// Moves some unreachable nodes into `share`. `false` if there are none.
    pub(super) fn take_unreachable(&self, share: &mut RecyclingShare) -> bool {
        let mut list = self.unreachable();
        let left = list.len().saturating_sub(HANDFUL);
        share.unreachable.extend(list.drain(left..));
        !share.unreachable.is_empty()
    }

    /// Takes back the unreachable nodes that a thread leaves to others.
    pub(super) fn give_back_unreachable(&self, share: &mut RecyclingShare) {
        if !share.unreachable.is_empty() {
            self.unreachable().append(&mut share.unreachable);
        }
    }

    pub(super) fn sweep(&self) -> MutexGuard<'_, Sweep> {
        self.sweep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to free edges that no thread uses. Several threads may have it.
    pub(super) fn free_edges(&self) -> impl Drop + '_ {
        self.edges.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// While this guard lives, no thread frees edges.
    pub(super) fn keep_edges(&self) -> impl Drop + '_ {
        self.edges.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn unreachable(&self) -> MutexGuard<'_, Vec<NodeId>> {
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
