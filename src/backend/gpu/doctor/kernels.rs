//! Stage 2: every kernel and every element type against loops in fp64, with guards around every array.

use super::bench::Bench;
use super::reporter::Reporter;
use super::subject::Subject;
use crate::cases::{Arena, Case, ELEMENTS, cases};
use crate::runtime::error::{GpuError, Result};
use crate::runtime::facts::Facts;
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::DeviceBuffer;
use crate::runtime::ffi::program::{Program, Step};
use crate::runtime::kernels::Kernels;
use crate::runtime::numbers::short;
use serde_json::Value;
use std::sync::Arc;

/// The memory for the arrays of a launch, in bytes.
const ARENA_BYTES: usize = 48 << 20;

pub(super) fn run(subject: &Subject, report: &mut Reporter<'_>) -> Result<()> {
    let mut bench = Bench::new(&subject.gpu, 0)?;
    let what = "the arrays of examined kernels";
    let memory = Arc::new(DeviceBuffer::zeroed(subject.gpu.device, ARENA_BYTES, what)?);
    // A card has no kernels for numbers that it does not multiply.
    let Facts { fp8: format, has_fp16, has_bf16, .. } = subject.gpu.facts;
    let is_there = |element: &ElementType| match element {
        ElementType::Fp16 => has_fp16,
        ElementType::Bf16 => has_bf16,
        _ => true,
    };
    for element in ELEMENTS.into_iter().filter(is_there) {
        let kernels = subject.kernels_of(element)?;
        let cases = cases(element, subject.is_quick).into_iter();
        for case in cases.filter(|case| case.fp8.is_none_or(|needed| Some(needed) == format)) {
            let name = format!("{} {}", case.kernel, case.shape);
            report.item(&name, |report| {
                examine(&mut bench, &memory, &kernels, &case, report).map_err(|error| bench.examined(error))
            });
        }
    }
    Ok(())
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
    let function = match &case.suffix {
        Some(suffix) => kernels.function(case.family, suffix),
        None => kernels.typeless(case.family),
    };
    let function = match function {
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
    let launch = (case.make)(&mut arena);
    let bytes = arena.bytes();
    if bytes.len() > memory.bytes() {
        return Err(GpuError::Unsupported(format!("its arrays take {} bytes", bytes.len())));
    }
    bench.upload(memory, bytes, &case.kernel)?;
    let step = Step::launch("an examined kernel".to_owned(), function, launch.grid, launch.arguments);
    bench.run(&Program::new(vec![step], vec![Arc::clone(memory)]))?;
    let after = bench.download(memory, std::slice::from_ref(&(0..bytes.len())), &case.kernel)?;
    let judgement = arena.judge(&after, &launch.expected);
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
