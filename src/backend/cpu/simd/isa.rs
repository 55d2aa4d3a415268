//! The instruction sets of this processor, and the choice between them at run time.

#[cfg(target_arch = "aarch64")]
use super::neon::{self, Neon};
use super::portable::Portable;
use super::vector::{Factors, Kernel, Simd};
#[cfg(target_arch = "x86_64")]
use super::{
    amx::Amx,
    avx2::{self, Avx2},
    avx512::{self, Avx512},
};

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Isa {
    /// Plain Rust on groups of four numbers, which the compiler translates to SSE2 on x86-64.
    Portable(Portable),
    /// NEON.
    #[cfg(target_arch = "aarch64")]
    Neon {
        base: Neon<false, false, false>,
        /// The extension for 8-bit products.
        dot: Option<Neon<true, false, false>>,
        /// The extension for 8-bit products of blocks.
        i8mm: Option<Neon<true, true, false>>,
        /// The extension for products of blocks of bf16.
        bf16: Option<Neon<false, false, true>>,
    },
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2 {
        base: Avx2<false>,
        /// The extension for 8-bit products.
        vnni: Option<Avx2<true>>,
    },
    /// AVX-512 (F, BW, DQ, VL).
    #[cfg(target_arch = "x86_64")]
    Avx512 {
        base: Avx512<false, false>,
        /// The extension for 8-bit products.
        vnni: Option<Avx512<true, false>>,
        /// The extension for products of bf16.
        bf16: Option<Avx512<false, true>>,
        /// The extension for products of whole matrices.
        amx: Option<Amx>,
    },
}

/// The names of all instruction sets of all processors.
const NAMES: [&str; 11] = [
    "portable",
    "AVX2",
    "AVX-VNNI",
    "AVX-512",
    "AVX-512 VNNI",
    "AVX-512 BF16",
    "AMX",
    "NEON",
    "NEON DotProd",
    "NEON I8MM",
    "NEON BF16",
];

impl Isa {
    /// All instruction sets that this processor has. The fastest is the last. Each extension is listed together with
    /// the extensions that every processor with it has.
    pub(crate) fn available() -> Vec<Isa> {
        #[cfg_attr(
            not(any(target_arch = "x86_64", target_arch = "aarch64")),
            expect(unused_mut, reason = "only these processors have a choice")
        )]
        let mut all = vec![Isa::Portable(Portable)];
        #[cfg(target_arch = "aarch64")]
        if let Some(base) = Neon::detect() {
            let (dot, i8mm, bf16) = (Neon::detect(), Neon::detect(), Neon::detect());
            all.push(Isa::Neon { base, dot: None, i8mm: None, bf16: None });
            if dot.is_some() {
                all.push(Isa::Neon { base, dot, i8mm: None, bf16: None });
            }
            if i8mm.is_some() {
                all.push(Isa::Neon { base, dot, i8mm, bf16: None });
            }
            if bf16.is_some() {
                all.push(Isa::Neon { base, dot, i8mm, bf16 });
            }
        }
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(base) = Avx2::detect() {
                all.push(Isa::Avx2 { base, vnni: None });
                if let Some(vnni) = Avx2::detect() {
                    all.push(Isa::Avx2 { base, vnni: Some(vnni) });
                }
            }
            if let Some(base) = Avx512::detect() {
                let (vnni, bf16) = (Avx512::detect(), Avx512::detect());
                all.push(Isa::Avx512 { base, vnni: None, bf16: None, amx: None });
                if vnni.is_some() {
                    all.push(Isa::Avx512 { base, vnni, bf16: None, amx: None });
                }
                if bf16.is_some() {
                    all.push(Isa::Avx512 { base, vnni, bf16, amx: None });
                }
                if let Some(amx) = Amx::detect() {
                    all.push(Isa::Avx512 { base, vnni, bf16, amx: Some(amx) });
                }
            }
        }
        all
    }

    /// A line that names the instruction sets which tests of all of them skip on this machine; `None` if there are none.
    pub(crate) fn skipped() -> Option<String> {
        let available = Isa::available();
        let is_available = |name: &&str| available.iter().any(|isa| isa.name() == *name);
        let missing: Vec<&str> = NAMES.into_iter().filter(|name| !is_available(name)).collect();
        let reason = "this processor lacks them, or the system does not allow them";
        (!missing.is_empty()).then(|| format!("skipped: {}, because {reason}", missing.join(", ")))
    }

    /// All instruction sets that this processor has, for a test. It says which the test skips.
    #[cfg(test)]
    pub(crate) fn tested() -> Vec<Isa> {
        if let Some(line) = Isa::skipped() {
            println!("{line}");
        }
        Isa::available()
    }

    /// The fastest instruction set that this processor has.
    pub(crate) fn best() -> Isa {
        Isa::available().pop().unwrap_or(Isa::Portable(Portable))
    }

    /// The name for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Isa::Portable(_) => "portable",
            #[cfg(target_arch = "aarch64")]
            Isa::Neon { bf16: Some(_), .. } => "NEON BF16",
            #[cfg(target_arch = "aarch64")]
            Isa::Neon { i8mm: Some(_), .. } => "NEON I8MM",
            #[cfg(target_arch = "aarch64")]
            Isa::Neon { dot: Some(_), .. } => "NEON DotProd",
            #[cfg(target_arch = "aarch64")]
            Isa::Neon { .. } => "NEON",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 { vnni: None, .. } => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 { .. } => "AVX-VNNI",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { amx: Some(_), .. } => "AMX",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { bf16: Some(_), .. } => "AVX-512 BF16",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { vnni: Some(_), .. } => "AVX-512 VNNI",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { .. } => "AVX-512",
        }
    }

    /// The name of the instructions that products of these factors use.
    pub(crate) fn name_for(self, factors: Factors) -> &'static str {
        let mut name = self.name();
        for isa in Isa::available() {
            if isa.changes(factors) {
                name = isa.name();
            }
            if isa.name() == self.name() {
                break;
            }
        }
        name
    }

    /// Whether products of these factors have other instructions than with the sets before this one in
    /// [`Isa::available`].
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        expect(unused_variables, reason = "only these processors have extensions")
    )]
    pub(crate) fn changes(self, factors: Factors) -> bool {
        match self {
            #[cfg(target_arch = "aarch64")]
            Isa::Neon { bf16: Some(_), .. } => factors == Factors::Bf16,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon { dot: Some(_), .. } => factors == Factors::Int8,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { amx: Some(_), .. } => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { bf16: Some(_), .. } => factors == Factors::Bf16,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { vnni: Some(_), .. } | Isa::Avx2 { vnni: Some(_), .. } => factors == Factors::Int8,
            _ => true,
        }
    }

    /// Whether the instruction set can multiply bf16.
    pub(crate) fn has_bf16(self) -> bool {
        match self {
            #[cfg(target_arch = "aarch64")]
            Isa::Neon { bf16, .. } => bf16.is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { bf16, amx, .. } => bf16.is_some() || amx.is_some(),
            _ => false,
        }
    }

    /// Whether the processor multiplies blocks of these factors, so that panels have pairs of steps.
    #[cfg_attr(not(target_arch = "aarch64"), expect(unused_variables, reason = "only ARM multiplies blocks"))]
    pub(crate) fn multiplies_blocks(self, factors: Factors) -> bool {
        #[cfg(target_arch = "aarch64")]
        if let Isa::Neon { i8mm, bf16, .. } = self {
            return match factors {
                Factors::Fp32 => false,
                Factors::Bf16 => bf16.is_some(),
                Factors::Int8 => i8mm.is_some(),
            };
        }
        false
    }

    /// Whether the processor has instructions that multiply four bytes for each fp32 number of another instruction.
    pub(crate) fn multiplies_bytes(self) -> bool {
        match self {
            #[cfg(target_arch = "aarch64")]
            Isa::Neon { dot, .. } => dot.is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 { vnni, .. } => vnni.is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { vnni, amx, .. } => vnni.is_some() || amx.is_some(),
            Isa::Portable(_) => false,
        }
    }

    /// Whether the processor multiplies whole matrices.
    pub(crate) fn has_amx(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { amx, .. } => amx.is_some(),
            _ => false,
        }
    }

    /// The extension for products of whole matrices.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn amx(self) -> Option<Amx> {
        match self {
            Isa::Avx512 { amx, .. } => amx,
            _ => None,
        }
    }

    /// The largest absolute value of an 8-bit weight for which products are exact.
    pub(crate) fn largest_int8_weight(self) -> i8 {
        match self {
            Isa::Portable(_) => Portable::LARGEST_INT8_WEIGHT,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon { .. } => Neon::<false, false, false>::LARGEST_INT8_WEIGHT,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 { vnni: None, .. } => Avx2::<false>::LARGEST_INT8_WEIGHT,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 { .. } => Avx2::<true>::LARGEST_INT8_WEIGHT,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { vnni: None, amx: None, .. } => Avx512::<false, false>::LARGEST_INT8_WEIGHT,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { .. } => Avx512::<true, false>::LARGEST_INT8_WEIGHT,
        }
    }

    /// The number of fp32 elements in a vector.
    pub(crate) fn lanes(self) -> usize {
        match self {
            Isa::Portable(_) => Portable::LANES,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon { .. } => Neon::<false, false, false>::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 { .. } => Avx2::<false>::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { .. } => Avx512::<false, false>::LANES,
        }
    }

    /// Runs the version of `kernel` that is compiled for this instruction set.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            Isa::Portable(simd) => kernel.run(simd),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon { base, dot, i8mm, bf16 } => match (K::MULTIPLIES, dot, i8mm, bf16) {
                (Factors::Int8, _, Some(simd), _) => neon::enter_i8mm(simd, kernel),
                (Factors::Int8, Some(simd), _, _) => neon::enter_dot(simd, kernel),
                (Factors::Bf16, _, _, Some(simd)) => neon::enter_bf16(simd, kernel),
                _ => neon::enter(base, kernel),
            },
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 { base, vnni } => match (K::MULTIPLIES, vnni) {
                (Factors::Int8, Some(simd)) => avx2::enter_vnni(simd, kernel),
                _ => avx2::enter(base, kernel),
            },
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 { base, vnni, bf16, .. } => match (K::MULTIPLIES, vnni, bf16) {
                (Factors::Int8, Some(simd), _) => avx512::enter_vnni(simd, kernel),
                (Factors::Bf16, _, Some(simd)) => avx512::enter_bf16(simd, kernel),
                _ => avx512::enter(base, kernel),
            },
        }
    }
}
