//! Reads the words of one instruction and their bit fields.

use crate::isa::table::Row;
use crate::isa::wave::{Handler, Instruction, NULL, Source};

/// The code from an instruction's first word on, and how many words the instruction has used.
pub(super) struct Reader<'a> {
    pub(super) words: &'a [u32],
    pub(super) used: usize,
}

impl Reader<'_> {
    pub(super) fn first(&self) -> u32 {
        self.words[0]
    }

    /// The next word, or `None` at the end of the code.
    pub(super) fn next(&mut self) -> Option<u32> {
        let word = *self.words.get(self.used)?;
        self.used += 1;
        Some(word)
    }
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

pub(super) fn row(tables: &[&'static [Row]], opcode: u32) -> Option<&'static Row> {
    tables.iter().flat_map(|table| table.iter()).find(|row| u32::from(row.opcode) == opcode)
}

pub(super) fn bits(word: u32, low: u32, count: u32) -> u32 {
    (word >> low) & ((1u32 << count) - 1)
}
