//! Scalar memory: loads into scalar registers.

use super::access::{accesses, read};
use crate::isa::table::{Row, handler};
use crate::isa::wave::{Instruction, Wave};

/// Loads `words` words. The sources are the base, and an offset in a register or [`NULL`](super::super::wave::NULL).
#[inline(always)]
fn load(wave: &mut Wave, instruction: &Instruction, words: usize) {
    let base = wave.uniform64(&instruction.sources[0]);
    let offset = u64::from(wave.uniform(&instruction.sources[1]));
    let address = base.wrapping_add(offset).wrapping_add(instruction.immediate as u64) & !3;
    if !wave.allowed(instruction, 0, address, 4 * words, false) {
        return;
    }
    let from: *const u8 = std::ptr::with_exposed_provenance(address as usize);
    for word in 0..words {
        // SAFETY: the range was checked above.
        let value = unsafe { read(from.add(4 * word), 4) };
        wave.set_scalar(instruction.scalar + word as u8, value);
    }
}

#[inline(always)]
fn nothing(_wave: &mut Wave, _instruction: &Instruction) {}

accesses! {
    /// The scalar load that only gfx12 has.
    SCALAR_MEMORY_GFX12, "":
    0x05 s_load_b96 = load(3);
}

accesses! {
    /// SMEM: scalar loads, and cache invalidations, which do nothing.
    SCALAR_MEMORY, "":
    0x00 s_load_b32 = load(1);
    0x01 s_load_b64 = load(2);
    0x02 s_load_b128 = load(4);
    0x03 s_load_b256 = load(8);
    0x04 s_load_b512 = load(16);
    0x20 s_gl1_inv = nothing();
    0x21 s_dcache_inv = nothing();
}
