//! The processor's cache lines: loading memory before it is read, and keeping what some threads write apart from what
//! others read.

#![allow(
    unsafe_code,
    reason = "the processor's instruction takes an address: see the SAFETY note of the only block"
)]

/// Starts to load the cache line that contains the first byte of `value`, without waiting for the data. Does nothing on
/// processors other than x86-64.
#[inline]
pub fn load_ahead<T>(value: &T) {
    load_ahead_at(std::ptr::from_ref(value).addr());
}

/// The same for the cache line with this address. Nothing happens if the address is not valid.
#[inline]
pub fn load_ahead_at(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction. It reads nothing and never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A value in cache lines of its own. Otherwise each change of it would take its neighbours out of the caches of the
/// threads that read those. (Some processors fetch two lines at a time.)
#[derive(Default, Debug)]
#[repr(align(128))]
pub struct OwnLines<T>(pub T);

impl<T> std::ops::Deref for OwnLines<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
