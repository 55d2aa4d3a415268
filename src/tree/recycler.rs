//! What recycling keeps from one turn to the next.

use super::allocator::Allocator;
use super::node_id::NodeId;

/// The state of recycling, which goes on from one call to the next.
#[derive(Default)]
pub(super) struct Recycler {
    /// Nodes that nothing refers to any more. The nodes that only they lead to are not listed.
    pub(super) unreachable: Vec<NodeId>,
    pub(super) condemned: Vec<NodeId>,
    /// The entry of the arena at which the sweep goes on.
    pub(super) hand: u32,
    /// The number of entries that the hand passes before the next sample.
    pub(super) until_sample: u64,
    /// Nodes with fewer visits than this are condemned.
    pub(super) threshold: u32,
    /// The state of the generator of random numbers.
    pub(super) random: u64,
    pub(super) freed: Allocator,
}
