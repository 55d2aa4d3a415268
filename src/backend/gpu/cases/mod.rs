//! The cases of all kernels: shapes, arguments, memory, and what must be in the memory after the launch.
//!
//! All tests of single kernels take their cases from here (`measure/samples.rs` checks the GEMMs that are timed). The
//! doctor launches the cases on a card, a test of the emulator does on emulated cards, and the program `kernel_cases`
//! writes them for the kernels on the host and for the second emulator.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`export`] | the cases as plain data |
//! | [`boards`], [`heads`], [`dense`], [`chains`], [`gemm`], [`bytes`], [`attention`], [`rows`] | the launches of some kernels |
//! | [`weights`] | the layouts of weights, and the kernel that makes one of them |
//! | [`case`] | a launch, and what it must compute |
//! | [`arena`] | the memory of a launch |
//! | [`reference`](mod@reference) | the formulas, in fp64 |

mod arena;
mod attention;
mod boards;
mod bytes;
mod case;
mod chains;
mod dense;
mod export;
mod gemm;
mod heads;
mod reference;
mod rows;
mod weights;

use crate::runtime::ffi::gemm::ElementType;

pub(crate) use arena::Arena;
pub(crate) use case::Case;
pub use export::{CaseArray, Expectation, KernelCase, KernelLaunch, Pointer, affordable_cases, kernel_cases};

/// The types of the kernels' elements.
pub(crate) const ELEMENTS: [ElementType; 3] = [ElementType::Fp16, ElementType::Bf16, ElementType::Fp32];

/// All cases of an element type, or some of them if `is_quick`. Cases of e4m3 are there for both of its variants.
pub(crate) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    let families = [
        rows::cases,
        attention::cases,
        dense::cases,
        gemm::cases,
        chains::cases,
        weights::cases,
        boards::cases,
        heads::cases,
        bytes::cases,
    ];
    families.into_iter().flat_map(|cases| cases(element, is_quick)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_has_a_name_of_its_own() {
        for (element, is_quick) in [(ElementType::Fp16, false), (ElementType::Fp32, true)] {
            let cases = cases(element, is_quick);
            let names: BTreeSet<String> =
                cases.iter().map(|case| format!("{} {} {:?}", case.kernel, case.shape, case.fp8)).collect();
            assert_eq!(names.len(), cases.len());
            assert!(
                cases.iter().all(|case| case.suffix.is_none() || case.kernel.contains(element.name())),
                "{names:?}"
            );
        }
    }

    /// The kernels that `kernels.h` lists are those that have cases.
    #[test]
    fn every_kernel_has_a_case() {
        let header = include_str!("../../../../hip/kernels/kernels.h");
        let listed: BTreeSet<&str> = header
            .lines()
            .filter_map(|line| line.strip_prefix("// | ")?.split_once(" | ").map(|(name, _)| name))
            .filter(|name| *name != "kernel")
            .map(|name| name.split_once("_T_").map_or(name, |(family, _)| family))
            .collect();
        let examined: BTreeSet<&str> =
            cases(ElementType::Fp16, true).iter().map(|case| case.family).collect();
        assert_eq!(examined, listed);
    }
}
