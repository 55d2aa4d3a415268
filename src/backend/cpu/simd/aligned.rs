//! Memory for weights and activations. It is zeroed and aligned to cache lines; large blocks use huge pages.

use memmap2::MmapMut;
use rukh_base::zeroed_array::zeroed_memory;
use std::ops::{Deref, DerefMut};

/// A number type that an [`AlignedVec`] can contain.
///
/// # Safety
/// Every pattern of bits, all zeros included, must be a value of the type. Its alignment must be at most that
/// of a cache line, 64 bytes.
pub(crate) unsafe trait Plain: Copy + 'static {}
// SAFETY: every pattern of 32 bits is an `f32`, whose alignment is 4 bytes.
unsafe impl Plain for f32 {}
// SAFETY: every pattern of 32 bits is a `u32`, whose alignment is 4 bytes.
unsafe impl Plain for u32 {}

/// Blocks of at least this size, in bytes, get a memory map of their own with huge pages. Each batch reads all
/// weights of the network, and with 4 kB pages the address translation is visible in profiles.
const MAPPED_BYTES: usize = 1 << 20;

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct CacheLine([u32; 16]);

enum Memory {
    Lines(Vec<CacheLine>),
    Mapped(MmapMut),
}

/// An array that starts at a cache line. Only [`AlignedVec::grow_to`] changes its length, and it replaces the memory.
pub(crate) struct AlignedVec<T> {
    memory: Memory,
    len: usize,
    element: std::marker::PhantomData<T>,
}

impl<T: Plain> AlignedVec<T> {
    /// Allocates `len` zeros.
    ///
    /// # Panics
    /// If the size in bytes is more than an allocation can have, as for a `Vec`.
    pub(crate) fn zeroed(len: usize) -> AlignedVec<T> {
        // The multiplication is checked because a wrapped product would make an allocation too small for the
        // slice.
        let bytes = len.checked_mul(size_of::<T>()).expect("a length in bytes fits a usize");
        let mapped = if bytes >= MAPPED_BYTES { zeroed_memory(bytes, 0).ok() } else { None };
        let memory = match mapped {
            Some(map) => Memory::Mapped(map),
            None => Memory::Lines(vec![CacheLine([0; 16]); bytes.div_ceil(size_of::<CacheLine>())]),
        };
        AlignedVec { memory, len, element: std::marker::PhantomData }
    }

    /// Makes the vector at least `len` long. If it grows, all its elements become zeros.
    pub(crate) fn grow_to(&mut self, len: usize) {
        if self.len < len {
            *self = AlignedVec::zeroed(len);
        }
    }
}

impl<T: Plain> Default for AlignedVec<T> {
    fn default() -> Self {
        AlignedVec::zeroed(0)
    }
}

impl<T: Plain> Clone for AlignedVec<T> {
    fn clone(&self) -> Self {
        let mut copy = AlignedVec::zeroed(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl<T: Plain> Deref for AlignedVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        let start: *const u8 = match &self.memory {
            Memory::Lines(lines) => lines.as_ptr().cast(),
            Memory::Mapped(map) => map.as_ptr(),
        };
        // SAFETY: the memory has room for `len` elements (`zeroed` allocates at least `len` times the size of
        // an element, and `len` does not change afterwards). It was initialised with zeros, it is aligned to a
        // cache line or a page, and all bytes are valid as a `T` (see `Plain`). It is borrowed as long as
        // `self` is.
        unsafe { std::slice::from_raw_parts(start.cast(), self.len) }
    }
}

impl<T: Plain> DerefMut for AlignedVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        let start: *mut u8 = match &mut self.memory {
            Memory::Lines(lines) => lines.as_mut_ptr().cast(),
            Memory::Mapped(map) => map.as_mut_ptr(),
        };
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(start.cast(), self.len) }
    }
}

impl<T: Plain> std::fmt::Debug for AlignedVec<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedVec({} elements)", self.len)
    }
}
