//! The instruction sets of this processor, and the choice between them at run time.

use super::portable::Portable;
use super::vector::{Kernel, Simd};
#[cfg(target_arch = "x86_64")]
use super::{
    avx2::{self, Avx2},
    avx512::{self, Avx512},
};

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Isa {
    /// Plain Rust on groups of four numbers, which the compiler translates to SSE2 or NEON.
    Portable(Portable),
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 (F, BW, DQ, VL).
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512<false>),
    /// AVX-512 (F, BW, DQ, VL) with the BF16 extension.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16(Avx512<true>),
}

impl Isa {
    /// All instruction sets that this processor has. The fastest is the last.
    pub(crate) fn available() -> Vec<Isa> {
        let all = [
            Some(Isa::Portable(Portable)),
            #[cfg(target_arch = "x86_64")]
            Avx2::detect().map(Isa::Avx2),
            #[cfg(target_arch = "x86_64")]
            Avx512::<false>::detect().map(Isa::Avx512),
            #[cfg(target_arch = "x86_64")]
            Avx512::<true>::detect().map(Isa::Avx512Bf16),
        ];
        all.into_iter().flatten().collect()
    }

    /// The fastest instruction set that this processor has.
    pub(crate) fn best() -> Isa {
        Isa::available().pop().unwrap_or(Isa::Portable(Portable))
    }

    /// The name for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Isa::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16(_) => "AVX-512 BF16",
        }
    }

    /// Whether the instruction set can multiply bf16.
    pub(crate) fn has_bf16(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16(_) => true,
            _ => false,
        }
    }

    /// The number of fp32 elements in a vector.
    pub(crate) fn lanes(self) -> usize {
        match self {
            Isa::Portable(_) => Portable::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => Avx2::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) | Isa::Avx512Bf16(_) => Avx512::<false>::LANES,
        }
    }

    /// Runs the version of `kernel` that is compiled for this instruction set.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            Isa::Portable(simd) => kernel.run(simd),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(simd) => avx2::enter(simd, kernel),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(simd) => avx512::enter(simd, kernel),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16(simd) => {
                if K::MULTIPLIES_BF16 {
                    avx512::enter_bf16(simd, kernel)
                } else {
                    avx512::enter(simd.without_bf16(), kernel)
                }
            }
        }
    }
}
