//! Stage 2: every kernel and every element type against plain loops, with guards around every array.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`boards`], [`heads`], [`dense`], [`gemm`], [`bytes`], [`byte_weights`], [`attention`], [`rows`] | the launches of some kernels |
//! | [`case`] | a launch to examine |
//! | [`arena`] | the memory of a launch |

mod arena;
mod attention;
mod boards;
mod byte_weights;
mod bytes;
mod case;
mod dense;
mod gemm;
mod heads;
mod rows;

use super::bench::Bench;
use super::reporter::Reporter;
use super::subject::Subject;
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::DeviceBuffer;
use crate::runtime::ffi::program::Program;
use crate::runtime::fp8::Fp8Format;
use crate::runtime::kernels::Kernels;
use crate::runtime::numbers::short;
use arena::Arena;
use case::Case;
use serde_json::Value;
use std::sync::Arc;

/// The memory for the arrays of a launch, in bytes.
const ARENA_BYTES: usize = 48 << 20;

const ELEMENTS: [ElementType; 3] = [ElementType::Fp16, ElementType::Bf16, ElementType::Fp32];

pub(super) fn run(subject: &Subject, report: &mut Reporter<'_>) -> Result<()> {
    let mut bench = Bench::new(&subject.gpu, 0)?;
    let what = "the arrays of examined kernels";
    let memory = Arc::new(DeviceBuffer::zeroed(subject.gpu.device, ARENA_BYTES, what)?);
    let format = Fp8Format::of(&subject.gpu.architecture).unwrap_or(Fp8Format::Ocp);
    for element in ELEMENTS {
        let kernels = subject.kernels_of(element)?;
        for case in cases(element, format, subject.is_quick) {
            let name = format!("{} {}", case.kernel, case.shape);
            report.item(&name, |report| {
                examine(&mut bench, &memory, &kernels, &case, report).map_err(|error| bench.examined(error))
            });
        }
    }
    Ok(())
}

/// All cases of an element type. `format` is the variant of e4m3 that the card multiplies, if it multiplies any.
fn cases(element: ElementType, format: Fp8Format, is_quick: bool) -> Vec<Case> {
    let families = [
        rows::cases,
        attention::cases,
        dense::cases,
        gemm::cases,
        byte_weights::cases,
        boards::cases,
        heads::cases,
    ];
    let all = families.into_iter().flat_map(|cases| cases(element, is_quick));
    all.chain(bytes::cases(element, format, is_quick)).collect()
}

/// Launches a kernel once, and adds a row about what it did.
fn examine(
    bench: &mut Bench,
    memory: &Arc<DeviceBuffer>,
    kernels: &Kernels,
    case: &Case,
    report: &mut Reporter<'_>,
) -> Result<()> {
    let mut row = |error: Value, allowed: Value, guards: Value, verdict: Value, detail: String| {
        let cells = [
            ("kernel", case.kernel.as_str().into()),
            ("shape", case.shape.as_str().into()),
            ("error", error),
            ("allowed", allowed),
            ("guards", guards),
            ("verdict", verdict),
            ("detail", detail.into()),
        ];
        report.row("kernels", cells);
    };
    let function = match case.function(kernels) {
        Ok(function) => function,
        Err(_) if case.is_optional => return Ok(()),
        Err(_) if case.needs_matrix_instructions => {
            let detail = "absent, because the card has no matrix instructions for it".to_owned();
            row(Value::Null, Value::Null, Value::Null, Value::Null, detail);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let mut arena = Arena::new(memory.address());
    let trial = (case.make)(&mut arena, function);
    let bytes = arena.bytes();
    if bytes.len() > memory.bytes() {
        return Err(GpuError::Unsupported(format!("its arrays take {} bytes", bytes.len())));
    }
    bench.upload(memory, bytes, &case.kernel)?;
    bench.run(&Program::new(vec![trial.step], vec![Arc::clone(memory)]))?;
    let after = bench.download(memory, std::slice::from_ref(&(0..bytes.len())), &case.kernel)?;
    let judgement = arena.judge(&after, &trial.expected);
    let verdict = match (&judgement.wrong, &judgement.damage) {
        (None, None) => "right",
        (Some(_), _) => "wrong",
        (None, Some(_)) => "damage",
    };
    let guards = if judgement.damage.is_some() { "damaged" } else { "intact" };
    let details: Vec<String> = judgement.wrong.into_iter().chain(judgement.damage).collect();
    let (error, allowed) = (short(judgement.error), short(judgement.allowed));
    row(error, allowed, guards.into(), verdict.into(), details.join("; "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_has_a_name_of_its_own_and_fits() {
        for (element, is_quick) in [(ElementType::Fp16, false), (ElementType::Fp32, true)] {
            let cases = cases(element, Fp8Format::Ocp, is_quick);
            let names: BTreeSet<String> =
                cases.iter().map(|case| format!("{} {}", case.kernel, case.shape)).collect();
            assert_eq!(names.len(), cases.len());
            assert!(
                cases.iter().all(|case| case.suffix.is_none() || case.kernel.contains(element.name())),
                "{names:?}"
            );
        }
    }

    /// The kernels that `kernels.h` lists are those that are examined.
    #[test]
    fn every_kernel_is_examined() {
        let header = include_str!("../../../../../hip/kernels/kernels.h");
        let listed: BTreeSet<&str> = header
            .lines()
            .filter_map(|line| line.strip_prefix("// | ")?.split_once(" | ").map(|(name, _)| name))
            .filter(|name| *name != "kernel")
            .map(|name| name.split_once("_T_").map_or(name, |(family, _)| family))
            .collect();
        let examined: BTreeSet<&str> =
            cases(ElementType::Fp16, Fp8Format::Ocp, true).iter().map(|case| case.family).collect();
        assert_eq!(examined, listed);
    }
}
