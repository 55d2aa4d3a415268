//! Device memory and pinned memory. Both are host memory between guards, and are poisoned when they are allocated.
//!
//! A kernel, a copy or a GEMM may touch only live allocations. There is a guard between any two allocations,
//! so that an access just past the end of one allocation never reaches the next.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::sync::lock;

/// The word that fills registers and memory before anything is written. It is a NaN in every float format, and as an
/// index it is far outside of every buffer.
pub(crate) const POISON: u32 = 0x7fff_7fff;

/// The size in bytes of the guard on each side of an allocation. Allocations are aligned to this size.
const GUARD: usize = 4096;
/// The byte that fills guards.
const GUARD_BYTE: u8 = 0xa5;

/// The bytes that are poisoned at the start and at the end of an allocation. A larger allocation is zero between them,
/// because only the libraries' workspaces are that large, and most of their pages are never touched. Poisoning them
/// took three quarters of the tests' time.
const POISONED_BYTES: usize = 1 << 20;

/// The kind of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Memory of the device with this number.
    Device(i32),
    /// Pinned host memory, which the host and every device may use.
    Pinned,
    /// A code object that is loaded on the device with this number.
    Code(i32),
}

#[derive(Clone, Copy)]
struct Allocation {
    bytes: usize,
    place: Place,
    /// The bytes between the start of the block and the first guard.
    offset: usize,
}

/// All live allocations, ordered by address.
#[derive(Default)]
struct Heap {
    allocations: BTreeMap<u64, Allocation>,
    /// The regions that each device may touch, computed anew after each change.
    views: BTreeMap<i32, Arc<[(u64, u64)]>>,
    allocated: BTreeMap<i32, u64>,
}

static HEAP: Mutex<Option<Heap>> = Mutex::new(None);

/// Runs an action with the heap locked.
fn with_heap<T>(action: impl FnOnce(&mut Heap) -> T) -> T {
    action(lock(&HEAP).get_or_insert_default())
}

/// The layout of an allocation's block: the bytes with a guard on each side, and room to align them to [`GUARD`]. The
/// layout itself asks for no alignment, because only then `alloc_zeroed` leaves large blocks to the system, which clears
/// a page when it is first touched.
fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(3 * GUARD)?, 1).ok()
}

/// Allocates poisoned memory and returns its address, or `None` if there is not enough memory.
pub(crate) fn allocate(bytes: usize, place: Place) -> Option<u64> {
    let layout = layout(bytes)?;
    // SAFETY: the size is not zero, because of the guards.
    let block = unsafe { alloc_zeroed(layout) };
    if block.is_null() {
        return None;
    }
    let offset = block.align_offset(GUARD);
    // SAFETY: the block is `3 * GUARD` longer than the bytes, and the offset is less than `GUARD`.
    let guarded = unsafe { std::slice::from_raw_parts_mut(block.add(offset), bytes + 2 * GUARD) };
    let (before, rest) = guarded.split_at_mut(GUARD);
    let (inside, after) = rest.split_at_mut(bytes);
    before.fill(GUARD_BYTE);
    after.fill(GUARD_BYTE);
    poison(inside);
    // SAFETY: the guard before the start lies in the block.
    let address = unsafe { block.add(offset + GUARD) }.expose_provenance() as u64;
    with_heap(|heap| {
        heap.allocations.insert(address, Allocation { bytes, place, offset });
        heap.views.clear();
        if let Place::Device(device) = place {
            *heap.allocated.entry(device).or_default() += bytes as u64;
        }
    });
    Some(address)
}

/// Fills the first and the last [`POISONED_BYTES`] with [`POISON`]. Each word at a multiple of four bytes is poison.
fn poison(bytes: &mut [u8]) {
    let (first, rest) = bytes.split_at_mut(bytes.len().min(POISONED_BYTES));
    let clean = rest.len().saturating_sub(POISONED_BYTES).next_multiple_of(4).min(rest.len());
    for part in [first, &mut rest[clean..]] {
        let mut words = part.chunks_exact_mut(4);
        words.by_ref().for_each(|word| word.copy_from_slice(&POISON.to_ne_bytes()));
        let tail = words.into_remainder();
        let length = tail.len();
        tail.copy_from_slice(&POISON.to_ne_bytes()[..length]);
    }
}

/// Why an address could not be freed properly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum FreeError {
    /// No allocation of this kind starts at the address.
    Unknown,
    /// The allocation was freed, but something had written to its guards.
    Overrun(String),
}

/// Frees the allocation at an address, if `kind` accepts the allocation's place.
pub(crate) fn free(address: u64, kind: impl Fn(Place) -> bool) -> Result<(), FreeError> {
    let allocation = with_heap(|heap| {
        let found = heap.allocations.get(&address).copied().filter(|allocation| kind(allocation.place));
        if let Some(allocation) = found {
            heap.allocations.remove(&address);
            heap.views.clear();
            if let Place::Device(device) = allocation.place {
                *heap.allocated.entry(device).or_default() -= allocation.bytes as u64;
            }
        }
        found
    });
    let Some(Allocation { bytes, offset, .. }) = allocation else {
        return Err(FreeError::Unknown);
    };
    let start: *mut u8 = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the allocation was live until now, with its guards.
    let before = unsafe { std::slice::from_raw_parts(start.sub(GUARD), GUARD) };
    // SAFETY: the reason above applies here too.
    let after = unsafe { std::slice::from_raw_parts(start.add(bytes), GUARD) };
    let damage = if before.iter().any(|&byte| byte != GUARD_BYTE) {
        Some("before the start")
    } else if after.iter().any(|&byte| byte != GUARD_BYTE) {
        Some("past the end")
    } else {
        None
    };
    if let Some(layout) = layout(bytes) {
        // SAFETY: `allocate` made the block with this layout, and the block is no longer in the table.
        unsafe { dealloc(start.sub(GUARD + offset), layout) };
    }
    match damage {
        Some(place) => Err(FreeError::Overrun(format!(
            "the program has written {place} of an allocation of {bytes} bytes at {address:#x}"
        ))),
        None => Ok(()),
    }
}

/// The number of bytes that are allocated on a device.
pub(crate) fn allocated(device: i32) -> u64 {
    with_heap(|heap| heap.allocated.get(&device).copied().unwrap_or_default())
}

/// The live allocation that contains an address or ends there, as its start, its size in bytes and its place.
pub(crate) fn find(address: u64) -> Option<(u64, usize, Place)> {
    with_heap(|heap| {
        let (&start, allocation) = heap.allocations.range(..=address).next_back()?;
        (address - start <= allocation.bytes as u64).then_some((start, allocation.bytes, allocation.place))
    })
}

/// The memory that a kernel may touch.
#[derive(Clone)]
pub(crate) struct Regions {
    /// The start and end of each live allocation, in ascending order.
    list: Arc<[(u64, u64)]>,
    /// The start and end of the kernel's argument segment.
    arguments: (u64, u64),
}

impl Regions {
    /// The allocations that a device may touch now, with a kernel's argument segment.
    pub(crate) fn of(device: i32, arguments: (u64, u64)) -> Self {
        let list = with_heap(|heap| {
            if let Some(view) = heap.views.get(&device) {
                return Arc::clone(view);
            }
            let seen = heap.allocations.iter().filter(|(_, allocation)| match allocation.place {
                Place::Device(owner) | Place::Code(owner) => owner == device,
                Place::Pinned => true,
            });
            let view: Arc<[(u64, u64)]> =
                seen.map(|(&start, allocation)| (start, start + allocation.bytes as u64)).collect();
            heap.views.insert(device, Arc::clone(&view));
            view
        });
        Self { list, arguments }
    }

    /// The region that holds all `bytes` bytes at an address, or `None` if there is no such region.
    pub(crate) fn find(&self, address: u64, bytes: usize) -> Option<(u64, u64)> {
        let end = address.checked_add(bytes as u64)?;
        let inside = |&(start, stop): &(u64, u64)| start <= address && end <= stop;
        if inside(&self.arguments) {
            return Some(self.arguments);
        }
        let below = self.list.partition_point(|&(start, _)| start <= address);
        self.list[..below].last().copied().filter(inside)
    }

    /// Describes an address that lies outside of all regions by naming the nearest allocation.
    pub(crate) fn describe(&self, address: u64) -> String {
        let below = self.list.partition_point(|&(start, _)| start <= address);
        let text = |&(start, stop): &(u64, u64)| {
            let (bytes, place) = (stop - start, address.wrapping_sub(start));
            format!("byte {place} of an allocation of {bytes} bytes at {start:#x}")
        };
        let after = self.list.get(below).filter(|(start, _)| start - address <= GUARD as u64);
        match (self.list[..below].last(), after) {
            (Some(region), _) if address < region.1 + GUARD as u64 => text(region),
            (_, Some((start, stop))) => {
                format!(
                    "{} bytes before an allocation of {} bytes at {start:#x}",
                    start - address,
                    stop - start
                )
            }
            _ => "no allocation is near".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_poisoned_guarded_and_found() {
        let address = allocate(10, Place::Device(7)).unwrap();
        let start: *mut u8 = std::ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: ten bytes are allocated there.
        assert_eq!(unsafe { start.cast::<u32>().read() }, POISON);
        let regions = Regions::of(7, (0, 0));
        assert_eq!(regions.find(address, 10), Some((address, address + 10)));
        assert_eq!(regions.find(address + 8, 4), None);
        assert!(regions.describe(address + 12).contains("byte 12 of an allocation of 10 bytes"));
        assert!(Regions::of(6, (0, 0)).find(address, 1).is_none(), "another device's memory");
        assert_eq!(allocated(7), 10);
        assert_eq!(free(address, |place| place == Place::Pinned), Err(FreeError::Unknown));
        // SAFETY: the guard behind the bytes is part of the block.
        unsafe { start.add(10).write(0) };
        assert!(
            matches!(free(address, |_| true), Err(FreeError::Overrun(text)) if text.contains("past the end"))
        );
        assert_eq!(free(address, |_| true), Err(FreeError::Unknown));
    }
}
