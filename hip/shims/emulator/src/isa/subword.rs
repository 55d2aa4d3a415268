//! Instructions that select bytes or halves of their operands (SDWA).

use super::table::handler;
use super::wave::{
    Instruction, Lanes, REGISTER_MASK, SCRATCH_RESULT, SCRATCH_SECOND, SCRATCH_SOURCE, WAVE, Wave,
};

/// The parts of the registers that an instruction uses. A part is 0 to 3 for a byte, 4 or 5 for a half, and 6 for the
/// whole register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Selection {
    pub(crate) first: u8,
    /// Whether the first source is sign-extended.
    pub(crate) first_signed: bool,
    pub(crate) second: u8,
    pub(crate) second_signed: bool,
    pub(crate) result: u8,
    /// What the rest of the destination becomes: 0 for zeros, 1 for the result's sign, 2 for its old bits.
    pub(crate) rest: u8,
}

impl Selection {
    /// All of every register.
    pub(crate) const WHOLE: Self =
        Self { first: 6, first_signed: false, second: 6, second_signed: false, result: 6, rest: 0 };

    /// The selection as the immediate of an instruction.
    pub(crate) fn encode(self) -> i64 {
        let signs = u8::from(self.first_signed) | u8::from(self.second_signed) << 1;
        i64::from_le_bytes([self.first, self.second, self.result, self.rest, signs, 0, 0, 0])
    }

    fn decode(immediate: i64) -> Self {
        let [first, second, result, rest, signs, ..] = immediate.to_le_bytes();
        Self { first, first_signed: signs & 1 == 1, second, second_signed: signs & 2 == 2, result, rest }
    }
}

/// The lowest bit of a part, and the number of its bits.
fn place(part: u8) -> (u32, u32) {
    match part {
        0..=3 => (8 * u32::from(part), 8),
        4 | 5 => (16 * u32::from(part - 4), 16),
        _ => (0, 32),
    }
}

/// A part of a word, extended to 32 bits.
#[inline(always)]
fn extract(word: u32, part: u8, signed: bool) -> u32 {
    let (low, bits) = place(part);
    let top = word << (32 - bits - low);
    if signed { (top as i32 >> (32 - bits)) as u32 } else { top >> (32 - bits) }
}

/// `old` with a part replaced by `result`. `rest` says what becomes of the other bits.
#[inline(always)]
fn insert(old: u32, result: u32, part: u8, rest: u8) -> u32 {
    let (low, bits) = place(part);
    let mask = (u32::MAX >> (32 - bits)) << low;
    let kept = match rest {
        1 if low + bits < 32 => {
            // The sign fills the bits above the part, and the bits below it become zero.
            let sign = 0u32.wrapping_sub((result >> (bits - 1)) & 1);
            sign << (low + bits)
        }
        2 => old & !mask,
        _ => 0,
    };
    (result << low) & mask | kept
}

handler! {
    /// Executes the inner instruction on the selected parts of the sources. Its vector result is in a scratch register;
    /// a comparison, which the flag `high` marks, has a scalar result.
    fn selected(wave, instruction) {
        let Some([inner]) = instruction.inner.as_deref() else { return };
        let selection = Selection::decode(instruction.immediate);
        let (mut space_a, mut space_b) = (Lanes::ZERO, Lanes::ZERO);
        let mut first = *wave.raw(&instruction.sources[0], &mut space_a);
        let mut second = *wave.raw(&instruction.sources[1], &mut space_b);
        for lane in 0..WAVE {
            first.0[lane] = extract(first.0[lane], selection.first, selection.first_signed);
            second.0[lane] = extract(second.0[lane], selection.second, selection.second_signed);
        }
        wave.vector[usize::from(SCRATCH_SOURCE)] = first;
        wave.vector[usize::from(SCRATCH_SECOND)] = second;
        wave.vector[usize::from(SCRATCH_RESULT)] = Lanes::ZERO;
        // SAFETY: the instruction was decoded like any other, for scratch registers.
        unsafe { (inner.execute)(wave, inner) };
        if instruction.high {
            return;
        }
        let mut result = wave.vector[usize::from(SCRATCH_RESULT)];
        let old = wave.vector[usize::from(instruction.destination) & REGISTER_MASK];
        for lane in 0..WAVE {
            result.0[lane] = insert(old.0[lane], result.0[lane], selection.result, selection.rest);
        }
        wave.write(instruction.destination, &result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_extended_and_put_back() {
        let word = 0x8765_43f1;
        assert_eq!(extract(word, 0, true), 0xffff_fff1);
        assert_eq!(extract(word, 3, false), 0x87);
        assert_eq!(extract(word, 5, true), 0xffff_8765);
        assert_eq!(extract(word, 6, true), word);
        assert_eq!(insert(word, 0x1234, 5, 0), 0x1234_0000);
        assert_eq!(insert(word, 0x80, 1, 1), 0xffff_8000);
        assert_eq!(insert(word, 0x22, 2, 2), 0x8722_43f1);
        assert_eq!(insert(word, 7, 6, 2), 7);
        let selection = Selection { second: 5, second_signed: true, rest: 2, ..Selection::WHOLE };
        assert_eq!(Selection::decode(selection.encode()), selection);
    }
}
