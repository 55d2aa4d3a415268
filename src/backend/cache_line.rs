//! Asking the processor for memory that will be wanted soon.

#![allow(
    unsafe_code,
    reason = "the processor's instruction takes an address: see the SAFETY note of the only block"
)]

/// Begins to bring the cache line that `value` starts in nearer to this processor. Nothing waits for it.
#[inline]
pub(super) fn load_ahead<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction; it reads nothing and never faults, and the address is a
        // reference's.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
