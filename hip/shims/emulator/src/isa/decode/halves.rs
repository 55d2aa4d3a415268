//! Splits an instruction of a wave of 64 lanes into its halves; see [`crate::isa::halves`].

use super::reader::plain;
use crate::isa::halves::{MASK, both, both_with_mask, cleared};
use crate::isa::wave::{ACCUMULATOR, EXEC, Instruction, Kind, Source, UPPER};

/// Whether one handler treats all 64 lanes.
fn whole(name: &str) -> bool {
    let exchanges = [
        "v_readfirstlane_b32",
        "v_readlane_b32",
        "v_writelane_b32",
        "ds_permute_b32",
        "ds_bpermute_b32",
        "v_nop",
        "unknown",
    ];
    name.starts_with("s_") || name.starts_with("v_mfma_") || exchanges.contains(&name)
}

/// Whether the instruction writes a mask of lanes.
fn writes_mask(name: &str) -> bool {
    name.starts_with("v_cmp_")
        || name.contains("_co_")
        || matches!(name, "v_div_scale_f32" | "v_mad_u64_u32" | "v_mad_i64_i32")
}

/// Whether the instruction's third source is a mask of lanes.
fn reads_mask(name: &str) -> bool {
    matches!(name, "v_cndmask_b32" | "v_addc_co_u32" | "v_subb_co_u32" | "v_subbrev_co_u32")
}

/// Makes an instruction out of two, one for each half of the wave. The result keeps the operands of the lower half, and
/// its scalar register is the first one of the mask. Returns `None` for EXEC as a source of 64 bits, whose words are
/// not in order while the upper half is executed.
pub(super) fn split(instruction: Instruction) -> Option<Instruction> {
    let name = instruction.name;
    if whole(name) {
        return Some(instruction);
    }
    let mut innermost = &instruction;
    while let Some([inner]) = innermost.inner.as_deref() {
        innermost = inner;
    }
    let exec = |source: &Source| source.kind == Kind::Scalar && source.index == u16::from(EXEC);
    let wide = name.ends_with("64") || name.starts_with("v_pk_");
    if wide && innermost.sources.iter().any(exec) {
        return None;
    }
    let masks = writes_mask(name);
    let halves = [half(&instruction, false, masks), half(&instruction, true, masks)];
    let scalar = innermost.scalar;
    let execute = if masks { both_with_mask } else { both };
    Some(Instruction { execute, scalar, inner: Some(Box::new(halves)), ..instruction })
}

/// The number of a register in the upper half. Both halves share the scratch registers.
fn upper(index: u16) -> u16 {
    if (256..ACCUMULATOR).contains(&index) { index } else { index + UPPER }
}

/// The instruction for one half of the wave. If the instruction writes a mask, the half writes a part of [`MASK`].
fn half(instruction: &Instruction, is_upper: bool, masks: bool) -> Instruction {
    let mut half = instruction.clone();
    if masks {
        half.scalar = MASK + u8::from(is_upper);
    }
    if is_upper {
        half.destination = upper(half.destination);
        if half.name == "v_div_fmas_f32" {
            half.scalar += 1;
        }
        for (number, source) in half.sources.iter_mut().enumerate() {
            upper_source(source, number == 2 && reads_mask(instruction.name));
        }
    }
    half.inner = instruction
        .inner
        .as_deref()
        .map(|parts| parts.iter().map(|part| self::half(part, is_upper, masks)).collect());
    half
}

/// Changes a source for the upper half.
fn upper_source(source: &mut Source, mask: bool) {
    match source.kind {
        Kind::Vector => source.index = upper(source.index),
        Kind::Scalar => {
            source.index += u16::from(mask);
            // The words of EXEC change places while the upper half is executed.
            if source.index >> 1 == u16::from(EXEC) >> 1 {
                source.index ^= 1;
            }
        }
        Kind::Constant | Kind::Scc => {}
    }
}

/// Wraps an instruction in another one, which clears the upper half of the result.
pub(super) fn clear(inner: Instruction) -> Instruction {
    let mut outer = plain(cleared, inner.name);
    outer.sources = inner.sources;
    outer.destination = inner.destination;
    outer.inner = Some(Box::new([inner]));
    outer
}
