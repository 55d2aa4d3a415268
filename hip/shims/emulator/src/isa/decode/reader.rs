//! Reads the words of one instruction and their bit fields.

use super::family::{Encoding, Family, Known};
use crate::isa::wave::{Handler, Instruction, NULL, Source};

/// The code from an instruction's first word on, and how many words the instruction has used.
pub(super) struct Reader<'a> {
    pub(super) words: &'a [u32],
    pub(super) used: usize,
    pub(super) family: &'static Family,
}

impl Reader<'_> {
    pub(super) fn first(&self) -> u32 {
        self.words[0]
    }

    /// The instruction with an opcode, or `None` if the family or the emulator lacks it.
    pub(super) fn known(&self, encoding: Encoding, opcode: u32) -> Option<Known> {
        self.family.known(encoding, opcode)
    }

    /// The next word, or `None` at the end of the code.
    pub(super) fn next(&mut self) -> Option<u32> {
        let word = *self.words.get(self.used)?;
        self.used += 1;
        Some(word)
    }
}

/// An instruction of a family's table, whose fields are still to be filled in.
pub(super) fn of(known: Known) -> Instruction {
    plain(known.row.handler, known.name)
}

pub(super) fn plain(execute: Handler, name: &'static str) -> Instruction {
    Instruction {
        execute,
        name,
        sources: [Source::NONE; 3],
        destination: 0,
        scalar: NULL,
        high: false,
        clamp: false,
        scale: 1.0,
        immediate: 0,
        target: 0,
        pc: 0,
        inner: None,
    }
}

pub(super) fn bits(word: u32, low: u32, count: u32) -> u32 {
    (word >> low) & ((1u32 << count) - 1)
}
