//! A table of pairs of numbers that all threads read and change without a lock. Its users find a pair by a hash of a
//! position.

use crate::sync::atomic::{AtomicU64, Ordering};

/// The table has 2^16 slots of 8 bytes: 512 KiB.
const SLOT_BITS: u32 = 16;

/// The table. Each slot has two f32 in one atomic word, so that both always belong together.
pub(super) struct SlotTable(Box<[AtomicU64]>);

impl SlotTable {
    /// The size of the table.
    pub(super) const BYTES: u64 = 8 << SLOT_BITS;

    /// A table of zeros.
    pub(super) fn new() -> SlotTable {
        SlotTable((0..1 << SLOT_BITS).map(|_| AtomicU64::new(0)).collect())
    }

    /// The number of the slot of a hash, counted from 1. The number 0 means no slot.
    pub(super) fn slot(hash: u64) -> u32 {
        (hash >> (64 - SLOT_BITS)) as u32 + 1
    }

    /// `None` for the number 0.
    pub(super) fn entry(&self, slot: u32) -> Option<&AtomicU64> {
        self.0.get(slot.checked_sub(1)? as usize)
    }

    /// The pair in a slot. `None` for the number 0.
    pub(super) fn get(&self, slot: u32) -> Option<(f32, f32)> {
        self.entry(slot).map(|entry| unpack(entry.load(Ordering::Relaxed)))
    }
}

/// The first number is in the high half.
pub(super) fn pack((first, second): (f32, f32)) -> u64 {
    u64::from(first.to_bits()) << 32 | u64::from(second.to_bits())
}

pub(super) fn unpack(entry: u64) -> (f32, f32) {
    (f32::from_bits((entry >> 32) as u32), f32::from_bits(entry as u32))
}
