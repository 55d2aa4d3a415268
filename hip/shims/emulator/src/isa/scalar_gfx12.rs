//! Scalar instructions that only gfx12 has: 64-bit arithmetic, split barriers, and one wait for each counter. ("RDNA4
//! Instruction Set Architecture", chapters "Scalar ALU Operations" and "Program Flow Control".)

use super::scalar::{Out, Scalar, keep, scalars};
use super::table::{Row, handler};
use super::wave::{Instruction, Stop, Wave};

scalars! {
    /// The 64-bit instructions of SOP2. They leave the condition code as it is.
    BINARY_WIDE(wave, instruction):
    0x53 s_add_nc_u64 (a: u64 = 0, b: u64 = 1) -> u64 = keep(a.wrapping_add(b));
    0x54 s_sub_nc_u64 (a: u64 = 0, b: u64 = 1) -> u64 = keep(a.wrapping_sub(b));
    0x55 s_mul_u64 (a: u64 = 0, b: u64 = 1) -> u64 = keep(a.wrapping_mul(b));
}

/// The number of the workgroup's barrier. Other numbers mean barriers that the emulator does not have.
const WORKGROUP: i32 = -1;

handler! {
    /// Tells the other waves that this one has reached the barrier. The wave goes on until it waits.
    fn s_barrier_signal(wave, instruction) {
        if instruction.sources[0].value as i32 != WORKGROUP {
            wave.fail("the emulator only knows the workgroup's barrier".to_owned());
        } else if std::mem::replace(&mut wave.signaled, true) {
            wave.fail("the wave signals the barrier twice without waiting for it".to_owned());
        }
    }
}

handler! {
    /// Waits until all waves have signaled. A wave that has not signaled would wait for ever.
    fn s_barrier_wait(wave, instruction) {
        if instruction.immediate as i32 != WORKGROUP {
            wave.fail("the emulator only knows the workgroup's barrier".to_owned());
        } else if std::mem::replace(&mut wave.signaled, false) {
            wave.stop = Stop::Barrier;
        } else {
            wave.fail("the wave waits for a barrier that it has not signaled".to_owned());
        }
    }
}

handler! {
    /// A wait for the results of earlier instructions. In the emulator they are ready.
    fn s_wait(_wave, _instruction) {}
}

/// The split barrier.
pub(crate) const BARRIER: &[Row] = &[
    Row::whole(0x4e, "s_barrier_signal", s_barrier_signal),
    Row::whole(0x14, "s_barrier_wait", s_barrier_wait),
];

/// All waits share one handler.
pub(crate) const WAIT: &[Row] = &[Row::whole(0x40, "s_wait", s_wait)];
