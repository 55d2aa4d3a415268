//! Instructions on a whole wave of 64 lanes: exchanges between its halves, the masks of all lanes, and branches on
//! them. ("AMD Instinct MI200 Instruction Set Architecture" and "AMD Instinct MI300 Instruction Set Architecture",
//! chapters "Scalar ALU Operations", "Program Flow Control" and "Data Share Operations".)

use super::scalar::{Out, Scalar, scalars, test};
use super::table::{Row, handler, special_rows};
use super::wave::{EXEC, Instruction, Kind, Operand, VCC, WAVE, Wave};

/// The number of lanes.
const LANES: usize = 2 * WAVE;

scalars! {
    /// Logic with 64 bits, and the instructions that change all of EXEC.
    MASKS(wave, instruction):
    0x11 s_nand_b64 (a: u64 = 0, b: u64 = 1) -> u64 = test(!(a & b));
    0x13 s_nor_b64 (a: u64 = 0, b: u64 = 1) -> u64 = test(!(a | b));
    0x15 s_xnor_b64 (a: u64 = 0, b: u64 = 1) -> u64 = test(!(a ^ b));
    0x20 s_and_saveexec_b64 (a: u64 = 0) -> u64 = save_exec(wave, |exec| a & exec);
    0x21 s_or_saveexec_b64 (a: u64 = 0) -> u64 = save_exec(wave, |exec| a | exec);
    0x22 s_xor_saveexec_b64 (a: u64 = 0) -> u64 = save_exec(wave, |exec| a ^ exec);
    0x23 s_andn2_saveexec_b64 (a: u64 = 0) -> u64 = save_exec(wave, |exec| a & !exec);
    0x24 s_orn2_saveexec_b64 (a: u64 = 0) -> u64 = save_exec(wave, |exec| a | !exec);
    0x25 s_nand_saveexec_b64 (a: u64 = 0) -> u64 = save_exec(wave, |exec| !(a & exec));
    0x26 s_nor_saveexec_b64 (a: u64 = 0) -> u64 = save_exec(wave, |exec| !(a | exec));
    0x27 s_xnor_saveexec_b64 (a: u64 = 0) -> u64 = save_exec(wave, |exec| !(a ^ exec));
    0x33 s_andn1_saveexec_b64 (a: u64 = 0) -> u64 = save_exec(wave, |exec| !a & exec);
    0x34 s_orn1_saveexec_b64 (a: u64 = 0) -> u64 = save_exec(wave, |exec| !a | exec);
}

/// Changes EXEC and returns its old value.
fn save_exec(wave: &mut Wave, change: impl Fn(u64) -> u64) -> Out<u64> {
    let old = wave.exec64();
    let new = change(old);
    wave.set_scalar64(EXEC, new);
    Out(old, Some(new != 0))
}

/// Defines branches that depend on whether a mask of 64 lanes is zero.
macro_rules! branches {
    ($($opcode:literal $name:ident = $register:ident, $zero:literal;)*) => {
        /// The branches that depend on VCC or EXEC.
        pub(crate) const BRANCH64: &[Row] = &[$(Row::whole($opcode, stringify!($name), $name)),*];
        $(handler! { fn $name(wave, instruction) {
            let register = usize::from($register);
            if ((wave.scalar[register] | wave.scalar[register + 1]) == 0) == $zero {
                wave.next = instruction.target;
            }
        } })*
    };
}

branches! {
    0x06 branch64_vccz = VCC, true;
    0x07 branch64_vccnz = VCC, false;
    0x08 branch64_execz = EXEC, true;
    0x09 branch64_execnz = EXEC, false;
}

special_rows! {
    /// Instructions that move numbers between any two lanes, or between a lane and a scalar register.
    EXCHANGE64:
    0x02 read_first_lane64 (B32) -> B32;
    0x289 read_lane64 (B32, B32) -> B32;
    0x28a write_lane64 (B32, B32) -> B32;
    0x3e permute64 () -> B32;
    0x3f bpermute64 () -> B32;
}

/// Writes a lane's number to a scalar register.
fn read(wave: &mut Wave, instruction: &Instruction, lane: usize) {
    let source = &instruction.sources[0];
    let value = match source.kind {
        Kind::Vector => *wave.lane64(source.index, lane),
        _ => wave.uniform(source),
    };
    wave.set_scalar(instruction.scalar, value);
}

handler! { fn read_first_lane64(wave, instruction) {
    let exec = wave.exec64();
    read(wave, instruction, if exec == 0 { 0 } else { exec.trailing_zeros() as usize });
} }

handler! { fn read_lane64(wave, instruction) {
    let lane = wave.uniform(&instruction.sources[1]) as usize % LANES;
    read(wave, instruction, lane);
} }

handler! { fn write_lane64(wave, instruction) {
    let lane = wave.uniform(&instruction.sources[1]) as usize % LANES;
    let value = wave.uniform(&instruction.sources[0]);
    *wave.lane64(instruction.destination, lane) = value;
} }

/// Moves values between lanes. In the backward form each lane names the lane that it reads, and in the forward form the
/// lane that it writes.
fn move_lanes(wave: &mut Wave, instruction: &Instruction, backward: bool) {
    let exec = wave.exec64();
    let [address, data, _] = instruction.sources.map(|source| source.index);
    let mut result = [0; LANES];
    for lane in 0..LANES {
        let place = wave.lane64(address, lane).wrapping_add(instruction.immediate as u32);
        let other = (place >> 2) as usize % LANES;
        if backward {
            result[lane] = if (exec >> other) & 1 == 1 { *wave.lane64(data, other) } else { 0 };
        } else if (exec >> lane) & 1 == 1 {
            result[other] = *wave.lane64(data, lane);
        }
    }
    for (lane, value) in result.into_iter().enumerate() {
        if (exec >> lane) & 1 == 1 {
            *wave.lane64(instruction.destination, lane) = value;
        }
    }
}

handler! { fn permute64(wave, instruction) { move_lanes(wave, instruction, false); } }
handler! { fn bpermute64(wave, instruction) { move_lanes(wave, instruction, true); } }
