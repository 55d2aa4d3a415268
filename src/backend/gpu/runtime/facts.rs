//! What follows from a card's architecture: all that the host code decides by its name.

use super::fp8::Fp8Format;
use super::shared_launches::SharedLaunches;

/// Architectures that are always part of a processor. Some releases of HIP do not say so.
const INTEGRATED: [&str; 13] = [
    "gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1037", "gfx1103",
    "gfx1150", "gfx1151", "gfx1152", "gfx1153",
];

/// Architectures on which rocBLAS was faster than hipBLASLt in the latest published measurements. Tuning overrides this.
const ROCBLAS: [&str; 5] = ["gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1103"];

/// The fewest rows of a GEMM in e4m3 for cuBLASLt. Our own kernel lacks the instruction `wgmma`, which large GEMMs need on
/// sm_90. For fewer rows our kernel saves the step that adds a bias and applies an activation.
const SCALED_ROWS_ON_NVIDIA: usize = 512;

/// The oldest NVIDIA architecture that multiplies e4m3.
const FIRST_WITH_FP8: u32 = 89;

/// The oldest NVIDIA architecture that multiplies bf16.
const FIRST_WITH_BF16: u32 = 80;

/// The oldest NVIDIA architecture with instructions that multiply matrices, for which we have kernels.
const FIRST_WITH_MATRICES: u32 = 75;

/// What follows from a card's architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    /// Whether the device is always part of a processor.
    pub(crate) is_integrated: bool,
    /// Whether rocBLAS is preferred to hipBLASLt.
    pub(crate) prefers_rocblas: bool,
    /// Whether branches of a forward pass run in parallel. HIP launches a graph with branches node by node.
    pub(crate) forks: bool,
    /// Which GEMMs share a launch with the steps that follow. Blocks that wait for each other need what others have
    /// stored. The dies of gfx94x and gfx950 do not share their second-level caches. Each block writes its die's
    /// cache back for that, at an unknown cost, so that only smolgen's GEMMs, which have few blocks, share launches there.
    /// On an NVIDIA card it was slower (`docs/benchmarks.md`).
    pub(crate) shared_launches: SharedLaunches,
    /// The variant of e4m3 that the device multiplies.
    pub(crate) fp8: Option<Fp8Format>,
    /// Whether our kernels compute in fp16.
    pub(crate) has_fp16: bool,
    /// Whether our kernels compute in bf16.
    pub(crate) has_bf16: bool,
    /// What the driver counts as a multiprocessor. Each has four SIMDs (NVIDIA: sub-partitions) and their shared memory.
    pub(crate) multiprocessors: &'static str,
    /// How many operations on fp16 a multiprocessor does in a clock, by the makers' data sheets, with matrix instructions
    /// where our kernels use them. It serves to compare cards of two makers.
    pub(crate) operations_per_clock: usize,
    /// The fewest rows of a GEMM in e4m3 that a library computes beside our own kernels. On AMD's cards our kernels
    /// compute all: nobody has asked AMD's hipBLASLt for such GEMMs, and no helper process asks it first.
    pub(crate) scaled_rows: usize,
}

impl Facts {
    /// The facts about an architecture, which is named as the maker's compiler names it: `gfx1100`, `sm_89`.
    pub(crate) fn of(architecture: &str) -> Facts {
        match nvidia_number(architecture) {
            Some(number) => Facts {
                is_integrated: false,
                prefers_rocblas: false,
                forks: true,
                shared_launches: SharedLaunches::None,
                fp8: (number >= FIRST_WITH_FP8).then_some(Fp8Format::Ocp),
                has_fp16: number >= FIRST_WITH_MATRICES,
                has_bf16: number >= FIRST_WITH_BF16,
                multiprocessors: "multiprocessors",
                operations_per_clock: match number {
                    ..75 => 256,
                    75..80 => 1024,
                    80 | 90.. if number < 110 => 2048,
                    _ => 1024,
                },
                scaled_rows: SCALED_ROWS_ON_NVIDIA,
            },
            None => Facts {
                is_integrated: INTEGRATED.contains(&architecture),
                prefers_rocblas: ROCBLAS.contains(&architecture),
                forks: false,
                shared_launches: match ["gfx94", "gfx95"].iter().any(|start| architecture.starts_with(start))
                {
                    true => SharedLaunches::Smolgen,
                    false => SharedLaunches::All,
                },
                fp8: match architecture {
                    "gfx942" => Some(Fp8Format::Fnuz),
                    "gfx950" => Some(Fp8Format::Ocp),
                    name if name.starts_with("gfx12") => Some(Fp8Format::Ocp),
                    _ => None,
                },
                has_fp16: true,
                has_bf16: true,
                multiprocessors: match architecture.starts_with("gfx9") {
                    true => "compute units",
                    false => "work-group processors",
                },
                operations_per_clock: match architecture {
                    "gfx906" => 256,
                    "gfx942" | "gfx950" => 2048,
                    name if name.starts_with("gfx12") => 2048,
                    name if name.starts_with("gfx10") => 512,
                    _ => 1024,
                },
                scaled_rows: usize::MAX,
            },
        }
    }
}

/// The number of an NVIDIA architecture: 89 for `sm_89`.
pub(crate) fn nvidia_number(architecture: &str) -> Option<u32> {
    architecture.strip_prefix("sm_")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_architectures_multiply_e4m3() {
        let of = |architecture| Facts::of(architecture).fp8;
        assert_eq!(["gfx1200", "gfx1201", "gfx950", "sm_90", "sm_89"].map(of), [Some(Fp8Format::Ocp); 5]);
        assert_eq!(of("gfx942"), Some(Fp8Format::Fnuz));
        assert_eq!(["gfx1100", "gfx90a", "gfx1030", "sm_80", ""].map(of), [None; 5]);
    }

    #[test]
    fn amds_cards_share_launches_and_those_of_many_caches_only_smolgens() {
        let of = |architecture| (Facts::of(architecture).shared_launches, Facts::of(architecture).forks);
        assert_eq!(of("gfx1100"), (SharedLaunches::All, false));
        assert_eq!(["gfx942", "gfx950"].map(of), [(SharedLaunches::Smolgen, false); 2]);
        assert_eq!(of("sm_86"), (SharedLaunches::None, true));
    }
}
