//! Memory of zeros in maps of its own, and arrays in it. The system provides it page by page when it is first touched,
//! and gets all of it back when its owner is dropped.

#![allow(unsafe_code, reason = "a memory map is read as an array or a slice: see the SAFETY notes")]
#![cfg_attr(
    any(feature = "loom", feature = "shuttle"),
    allow(dead_code, reason = "the atomics of a model checker cannot be made from zeros")
)]

use memmap2::MmapMut;
use std::alloc::{Layout, handle_alloc_error};
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use zerocopy::FromZeros;

/// Maps memory of zeros, with huge pages from the byte `first_huge` on. Huge pages make it faster to read, but then the
/// smallest piece that the system provides is 2 MB.
///
/// # Errors
/// There is no address space.
pub fn zeroed_memory(bytes: usize, first_huge: usize) -> io::Result<MmapMut> {
    let map = MmapMut::map_anon(bytes)?;
    #[cfg(target_os = "linux")]
    if first_huge < bytes {
        // The advice may fail. The memory works without huge pages too, only a little slower.
        let _ = map.advise_range(memmap2::Advice::HugePage, first_huge, bytes - first_huge);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = first_huge;
    Ok(map)
}

/// An array of `LENGTH` elements, whose bytes are zero at first. Its elements can only be changed if they are atomics or
/// the like. They are never dropped.
pub struct ZeroedArray<T, const LENGTH: usize> {
    map: MmapMut,
    elements: PhantomData<[T; LENGTH]>,
}

impl<T: FromZeros, const LENGTH: usize> ZeroedArray<T, LENGTH> {
    /// Allocates the array, with huge pages from the byte `first_huge` on ([`zeroed_memory`]); ends the process if there
    /// is no address space, as a `Box` does.
    pub fn new(first_huge: usize) -> Self {
        const {
            assert!(size_of::<[T; LENGTH]>() > 0 && align_of::<T>() <= 4096 && !std::mem::needs_drop::<T>());
        }
        let Ok(map) = zeroed_memory(size_of::<[T; LENGTH]>(), first_huge) else {
            handle_alloc_error(Layout::new::<[T; LENGTH]>())
        };
        ZeroedArray { map, elements: PhantomData }
    }
}

impl<T, const LENGTH: usize> Deref for ZeroedArray<T, LENGTH> {
    type Target = [T; LENGTH];

    #[inline]
    fn deref(&self) -> &[T; LENGTH] {
        // SAFETY: the map has the size of the array and begins at a page, which `new` checks to be aligned enough. Its
        // bytes were zero at first, which is a value of `T` (`FromZeros`), and are only accessed as `T`s since. The map is
        // writable, so interior mutability is allowed. It is borrowed as long as `self` is, and `self` never replaces it.
        unsafe { &*self.map.as_ptr().cast() }
    }
}

/// Like [`ZeroedArray`], with a length that is not known at compile time.
pub struct ZeroedSlice<T> {
    map: MmapMut,
    length: usize,
    elements: PhantomData<[T]>,
}

impl<T: FromZeros> ZeroedSlice<T> {
    /// Allocates `length` elements, which may be in huge pages.
    ///
    /// # Errors
    /// There is no address space.
    pub fn new(length: usize) -> io::Result<Self> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= 4096 && !std::mem::needs_drop::<T>()) }
        let bytes = length.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(ZeroedSlice { map: zeroed_memory(bytes, 0)?, length, elements: PhantomData })
    }
}

impl<T> Deref for ZeroedSlice<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: as for `ZeroedArray`. The map has the size of `length` elements, and neither of the two ever changes.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn an_array_is_zero_at_first_and_keeps_what_is_written() {
        for first_huge in [0, 1 << 21, usize::MAX] {
            let array: ZeroedArray<AtomicU32, 1_000_003> = ZeroedArray::new(first_huge);
            for (index, element) in array.iter().enumerate() {
                assert_eq!(element.swap(index as u32, Ordering::Relaxed), 0);
            }
            assert!(
                array
                    .iter()
                    .enumerate()
                    .all(|(index, element)| element.load(Ordering::Relaxed) == index as u32)
            );
        }
    }

    #[test]
    fn a_slice_is_zero_at_first_and_an_impossible_length_is_refused() {
        let slice: ZeroedSlice<AtomicU32> = ZeroedSlice::new(1_000_003).expect("there is room for 4 MB");
        assert_eq!(slice.len(), 1_000_003);
        assert!(slice.iter().enumerate().all(|(i, element)| element.swap(i as u32, Ordering::Relaxed) == 0));
        assert!(slice.iter().enumerate().all(|(i, element)| element.load(Ordering::Relaxed) == i as u32));
        for length in [usize::MAX / 8, usize::MAX] {
            assert!(ZeroedSlice::<AtomicU32>::new(length).is_err(), "{length}");
        }
    }
}
