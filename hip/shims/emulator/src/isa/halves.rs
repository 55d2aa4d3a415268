//! Waves of 64 lanes. The decoder turns an instruction that treats each lane by itself, or that exchanges numbers only
//! within 32 lanes, into two: one for each half of the wave. The registers of the upper half have numbers of their own,
//! so that both halves use the handlers for 32 lanes. Handlers for a whole wave of 64 lanes are in [`super::wave64`].
//!
//! While the upper half is executed, its active lanes lie in EXEC's lower word, where the handlers look for them. A
//! mask of lanes takes two scalar registers, one for each half.

use super::table::handler;
use super::wave::{EXEC, Instruction, REGISTER_MASK, Stop, WAVE, Wave};

/// Two scalar registers that programs cannot read on gfx9 (TTMP0 and TTMP1). They hold the halves of a mask until both
/// halves have read their sources.
pub(crate) const MASK: u8 = 108;

#[inline(always)]
fn each_half(wave: &mut Wave, instruction: &Instruction) {
    let Some([lower, upper]) = instruction.inner.as_deref() else { return };
    let exec = usize::from(EXEC);
    // SAFETY: the half was decoded like any other instruction.
    unsafe { (lower.execute)(wave, lower) };
    if wave.stop != Stop::Running {
        return;
    }
    wave.scalar.swap(exec, exec + 1);
    wave.first_lane = WAVE;
    // SAFETY: the reason above applies here too.
    unsafe { (upper.execute)(wave, upper) };
    wave.first_lane = 0;
    wave.scalar.swap(exec, exec + 1);
}

handler! {
    /// Executes an instruction for both halves of the wave.
    fn both(wave, instruction) { each_half(wave, instruction); }
}

handler! {
    /// Executes an instruction for both halves, each of which writes its half of a mask to [`MASK`].
    fn both_with_mask(wave, instruction) {
        each_half(wave, instruction);
        let [lower, upper] = [0, 1].map(|half| wave.scalar[usize::from(MASK) + half]);
        wave.set_scalar64(instruction.scalar, u64::from(lower) | u64::from(upper) << 32);
    }
}

handler! {
    /// Executes the inner instruction, whose result has 16 bits, and clears the other half of the register. That is what
    /// the short encodings do on gfx9.
    fn cleared(wave, instruction) {
        let Some([inner]) = instruction.inner.as_deref() else { return };
        // SAFETY: the instruction was decoded like any other.
        unsafe { (inner.execute)(wave, inner) };
        let mut result = wave.vector[usize::from(instruction.destination) & REGISTER_MASK];
        for bits in &mut result.0 {
            *bits &= 0xffff;
        }
        wave.write(instruction.destination, &result);
    }
}
