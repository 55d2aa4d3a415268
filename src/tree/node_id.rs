//! The index of a node.

use std::num::NonZeroU32;

/// The index of a node in the arena of nodes. Entry 0 is never used, so that an `Option<NodeId>` has four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeId(NonZeroU32);

impl NodeId {
    pub(super) fn from_raw(raw: u32) -> Option<NodeId> {
        NonZeroU32::new(raw).map(NodeId)
    }

    pub(super) fn raw(self) -> u32 {
        self.0.get()
    }
}
