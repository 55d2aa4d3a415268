//! Memory for weights and activations: zeroed, on cache-line boundaries, in huge pages where it is large.

use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};

/// Plain numbers.
///
/// # Safety
/// All-zero bytes, and any other bytes, are a value, and a cache line is aligned enough for it.
pub(crate) unsafe trait Plain: Copy + 'static {}
// SAFETY: every pattern of 32 bits is a number, aligned to 4 bytes.
unsafe impl Plain for f32 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}

/// From this size on, memory is mapped by itself and asked for in huge pages: a network's weights are
/// streamed through once a batch, and with 4 kB pages the address translation shows in the profile.
const MAPPED_BYTES: usize = 1 << 20;

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct CacheLine([u32; 16]);

enum Memory {
    Lines(Vec<CacheLine>),
    Mapped(MmapMut),
}

/// A fixed number of `T`, starting on a cache line.
pub(crate) struct AlignedVec<T> {
    memory: Memory,
    len: usize,
    element: std::marker::PhantomData<T>,
}

impl<T: Plain> AlignedVec<T> {
    /// `len` zeros.
    ///
    /// # Panics
    /// If that is more bytes than an allocation can have, as a `Vec` does.
    pub(crate) fn zeroed(len: usize) -> AlignedVec<T> {
        // Checked: a product that wrapped round would be a small allocation under a long slice.
        let bytes = len.checked_mul(size_of::<T>()).expect("a length in bytes fits a usize");
        let mapped = if bytes >= MAPPED_BYTES { MmapMut::map_anon(bytes).ok() } else { None };
        let memory = match mapped {
            Some(map) => {
                #[cfg(target_os = "linux")]
                // Only a wish: without it everything still works, a little slower.
                let _ = map.advise(memmap2::Advice::HugePage);
                Memory::Mapped(map)
            }
            None => Memory::Lines(vec![CacheLine([0; 16]); bytes.div_ceil(size_of::<CacheLine>())]),
        };
        AlignedVec { memory, len, element: std::marker::PhantomData }
    }

    /// Makes it at least `len` long; what it held is lost when it grows.
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
        // SAFETY: the memory holds at least `len` elements (both allocations have room for `len` times the
        // size of one, in bytes; `len` never changes after), all of it was initialised with zeros, it is
        // aligned to a cache line or a page, and any bytes are a `T`. It is borrowed as long as `self` is.
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
