//! What differs between families of cards: which instruction an opcode means, and a few fields of the encodings.
//!
//! The tables of handlers name the opcodes of gfx11. A text file for each other family names its opcodes and the
//! handlers that they share with gfx11.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use crate::isa::compare::{CLASS, COMPARE, COMPARE_WIDE};
use crate::isa::fp8::FP8;
use crate::isa::matrix::MATRIX;
use crate::isa::matrix_gfx9::MATRIX_GFX9;
use crate::isa::matrix_gfx12::MATRIX_GFX12;
use crate::isa::memory::buffer::BUFFER;
use crate::isa::memory::global::{flat, global};
use crate::isa::memory::lds::{LDS, LDS_PAIR_ROWS};
use crate::isa::memory::scalar::{SCALAR_MEMORY, SCALAR_MEMORY_GFX12};
use crate::isa::packed::{BYTES, PACKED};
use crate::isa::pairs::{PAIRS, WIDE_GFX9};
use crate::isa::scalar::{BINARY, BRANCH, CONDITION, CONSTANT, PROGRAM, UNARY, UNARY_SPECIAL};
use crate::isa::scalar_gfx12::{BARRIER, BINARY_WIDE, WAIT};
use crate::isa::special::{ONE_SPECIAL, THREE_SPECIAL, TWO_SPECIAL};
use crate::isa::table::Row;
use crate::isa::vector::{DOT, DOT_BYTES, DOT_FLUSHED, ONE, THREE, TWO};
use crate::isa::wave::{NULL, WAVE};
use crate::isa::wave64::{BRANCH64, EXCHANGE64, MASKS};

/// The encodings, each of which numbers its instructions from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    Sop2,
    Sop1,
    Sopc,
    Sopk,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    Vop3p,
    Lds,
    Global,
    Flat,
    Buffer,
}

/// Every encoding with its name in the text files and the tables of its instructions on gfx11.
const ENCODINGS: [(Encoding, &str, &[&[Row]]); 15] = [
    (Encoding::Sop2, "sop2", &[BINARY]),
    (Encoding::Sop1, "sop1", &[UNARY, UNARY_SPECIAL]),
    (Encoding::Sopc, "sopc", &[CONDITION]),
    (Encoding::Sopk, "sopk", &[CONSTANT]),
    (Encoding::Sopp, "sopp", &[PROGRAM, BRANCH]),
    (Encoding::Smem, "smem", &[SCALAR_MEMORY]),
    (Encoding::Vop1, "vop1", &[ONE, ONE_SPECIAL]),
    (Encoding::Vop2, "vop2", &[TWO, TWO_SPECIAL, DOT]),
    (Encoding::Vopc, "vopc", &[COMPARE, COMPARE_WIDE, CLASS]),
    (Encoding::Vop3, "vop3", &[THREE, THREE_SPECIAL]),
    (Encoding::Vop3p, "vop3p", &[PACKED, MATRIX]),
    (Encoding::Lds, "ds", &[LDS, LDS_PAIR_ROWS]),
    (Encoding::Global, "global", &[global::TABLE]),
    (Encoding::Flat, "flat", &[flat::TABLE]),
    (Encoding::Buffer, "buffer", &[BUFFER]),
];

/// The tables of instructions that gfx11 does not have. Their opcodes are those of gfx12 or of CDNA.
const OTHERS: [&[Row]; 15] = [
    BINARY_WIDE,
    BARRIER,
    WAIT,
    SCALAR_MEMORY_GFX12,
    MATRIX_GFX12,
    MASKS,
    BRANCH64,
    EXCHANGE64,
    PAIRS,
    WIDE_GFX9,
    MATRIX_GFX9,
    BYTES,
    DOT_BYTES,
    DOT_FLUSHED,
    FP8,
];

/// On gfx11, the comparisons that write EXEC have the opcodes of the others plus this bit.
const TO_EXEC_GFX11: usize = 0x80;

/// An instruction of a family.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    /// The name on this family.
    pub(crate) name: &'static str,
    /// The handler. Its own name is the one on gfx11.
    pub(crate) row: &'static Row,
    /// Whether a comparison writes EXEC instead of a scalar register.
    pub(crate) to_exec: bool,
}

/// The generations of encodings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Generation {
    /// Vega and CDNA.
    Gfx9,
    Gfx10,
    Gfx11,
    Gfx12,
}

/// How a family counts the memory operations that are under way (each family's "Instruction Set Architecture", chapter
/// "Program Flow Control", S_WAITCNT). A field of `s_waitcnt` is a list of parts from the lowest bits on, each of which
/// has a first bit and a number of bits.
pub(crate) struct Counting {
    /// The names of the counters of vector memory, LDS and scalar memory. One counter may count two kinds.
    pub(crate) names: [&'static str; 3],
    /// The field for vector memory.
    pub(crate) vector: &'static [(u32, u32)],
    /// The field for LDS and scalar memory.
    pub(crate) others: &'static [(u32, u32)],
    /// Whether stores to vector memory have the counter of the loads.
    pub(crate) stores_with_loads: bool,
}

/// A family of cards with the same instructions.
pub(crate) struct Family {
    pub(crate) generation: Generation,
    pub(crate) counting: Counting,
    /// The code of the register that is always 0. Its neighbour, 124 or 125, is M0.
    null: u8,
    /// Whether the registers with the codes 108 to 123 can be read. Where they can, they hold the workgroup's indices
    /// ("RDNA4 Instruction Set Architecture", chapter "Wave State", "Initial Wave State": TTMP9 and TTMP7).
    pub(crate) group_in_trap_registers: bool,
    /// Whether bit 7 of a vector register's number in the short encodings selects the upper half for a 16-bit operand.
    pub(crate) halves: bool,
    /// The number of lanes of a wave.
    pub(crate) lanes: usize,
    /// Whether 16-bit results of VOP1 and VOP2 clear the other half of the register.
    pub(crate) clears_halves: bool,
    /// Whether v0 holds a work item's numbers in all three dimensions (10 bits each) when a wave starts. Otherwise v0
    /// to v2 hold them.
    pub(crate) packed_items: bool,
    /// Whether the sums of matrix products always lie in accumulation registers. On later CDNA a bit of the instruction
    /// says so.
    pub(crate) sums_always_accumulate: bool,
    /// The known instructions, by encoding and opcode.
    known: Vec<Vec<Option<Known>>>,
    /// The rows of the opcode tables by the instructions' names, filled when one is needed first.
    rows: OnceLock<HashMap<&'static str, &'static Row>>,
}

static GFX10: LazyLock<Family> = LazyLock::new(|| Family {
    generation: Generation::Gfx10,
    counting: Counting {
        names: ["vmcnt", "lgkmcnt", "lgkmcnt"],
        vector: &[(0, 4), (14, 2)],
        others: &[(8, 6)],
        stores_with_loads: false,
    },
    null: 125,
    group_in_trap_registers: false,
    halves: false,
    lanes: WAVE,
    clears_halves: false,
    packed_items: true,
    sums_always_accumulate: false,
    known: from_texts(&[include_str!("gfx10.txt")]),
    rows: OnceLock::new(),
});

static GFX11: LazyLock<Family> = LazyLock::new(|| Family {
    generation: Generation::Gfx11,
    counting: Counting {
        names: ["vmcnt", "lgkmcnt", "lgkmcnt"],
        vector: &[(10, 6)],
        others: &[(4, 6)],
        stores_with_loads: false,
    },
    null: NULL,
    group_in_trap_registers: false,
    halves: true,
    lanes: WAVE,
    clears_halves: false,
    packed_items: true,
    sums_always_accumulate: false,
    known: of_gfx11(),
    rows: OnceLock::new(),
});

static GFX12: LazyLock<Family> = LazyLock::new(|| Family {
    generation: Generation::Gfx12,
    // gfx12 has an instruction for each counter besides `s_waitcnt`.
    counting: Counting {
        names: ["loadcnt", "dscnt", "kmcnt"],
        vector: &[(10, 6)],
        others: &[(4, 6)],
        stores_with_loads: false,
    },
    null: NULL,
    group_in_trap_registers: true,
    halves: true,
    lanes: WAVE,
    clears_halves: false,
    packed_items: true,
    sums_always_accumulate: false,
    known: from_texts(&[include_str!("gfx12.txt")]),
    rows: OnceLock::new(),
});

/// Vega and CDNA. `own` are the instructions that not all of these cards have.
fn gfx9(own: &[&'static str], packed_items: bool, sums_always_accumulate: bool) -> Family {
    Family {
        generation: Generation::Gfx9,
        counting: Counting {
            names: ["vmcnt", "lgkmcnt", "lgkmcnt"],
            vector: &[(0, 4), (14, 2)],
            others: &[(8, 4)],
            stores_with_loads: true,
        },
        null: 125,
        group_in_trap_registers: false,
        halves: false,
        lanes: 2 * WAVE,
        clears_halves: true,
        packed_items,
        sums_always_accumulate,
        known: from_texts(&[&[include_str!("gfx9.txt")], own].concat()),
        rows: OnceLock::new(),
    }
}

static GFX906: LazyLock<Family> = LazyLock::new(|| gfx9(&[], false, false));
static GFX908: LazyLock<Family> = LazyLock::new(|| gfx9(&[include_str!("gfx908.txt")], false, true));
static GFX90A: LazyLock<Family> = LazyLock::new(|| gfx9(&[include_str!("gfx90a.txt")], true, false));
static GFX942: LazyLock<Family> = LazyLock::new(|| gfx9(&[include_str!("gfx942.txt")], true, false));

impl Family {
    /// The family of an architecture, or `None` if the emulator cannot run its code.
    pub(crate) fn of(architecture: &str) -> Option<&'static Self> {
        match architecture {
            "gfx906" => Some(&GFX906),
            "gfx908" => Some(&GFX908),
            "gfx90a" => Some(&GFX90A),
            "gfx942" => Some(&GFX942),
            name if name.starts_with("gfx103") => Some(&GFX10),
            name if name.starts_with("gfx110") || name.starts_with("gfx115") => Some(&GFX11),
            name if name.starts_with("gfx120") => Some(&GFX12),
            _ => None,
        }
    }

    pub(crate) fn known(&self, encoding: Encoding, opcode: u32) -> Option<Known> {
        self.known[encoding as usize].get(opcode as usize).copied().flatten()
    }

    /// The table's row of an instruction with this name.
    pub(crate) fn row(&self, name: &str) -> Option<&'static Row> {
        let of = |known: &Known| (known.name, known.row);
        let rows = self.rows.get_or_init(|| self.known.iter().flatten().flatten().map(of).collect());
        rows.get(name).copied()
    }

    /// The number of a scalar register from the code in the low seven bits. The emulator numbers them as gfx11 does.
    pub(crate) fn scalar(&self, code: u32) -> u8 {
        // The codes of M0 and of the null register differ only in the lowest bit.
        let exchanged = u32::from(self.null ^ NULL);
        let code = code & 127;
        if code >> 1 == u32::from(NULL) >> 1 { (code ^ exchanged) as u8 } else { code as u8 }
    }
}

fn put(known: &mut Vec<Option<Known>>, opcode: usize, instruction: Known) {
    if known.len() <= opcode {
        known.resize(opcode + 1, None);
    }
    known[opcode] = Some(instruction);
}

fn of_gfx11() -> Vec<Vec<Option<Known>>> {
    let of = |&(encoding, _, tables): &(Encoding, &str, &'static [&'static [Row]])| {
        let mut known = Vec::new();
        for row in tables.iter().copied().flatten() {
            let opcode = usize::from(row.opcode);
            put(&mut known, opcode, Known { name: row.name, row, to_exec: false });
            if encoding == Encoding::Vopc {
                put(&mut known, opcode | TO_EXEC_GFX11, Known { name: row.name, row, to_exec: true });
            }
        }
        known
    };
    ENCODINGS.iter().map(of).collect()
}

/// The row with this name, in any table.
fn named(name: &str) -> Option<&'static Row> {
    let tables = ENCODINGS.iter().flat_map(|(_, _, tables)| tables.iter()).chain(&OTHERS);
    tables.copied().flatten().find(|row| row.name == name)
}

/// The entries of a family's text: encoding, opcode, name, the handler's name.
fn entries(text: &'static str) -> impl Iterator<Item = (&'static str, usize, &'static str, &'static str)> {
    let mut encoding = "";
    text.lines().filter(|line| !line.starts_with('#')).flat_map(move |line| {
        if let Some(name) = line.strip_prefix('[') {
            encoding = name.trim_end_matches(']');
            return Vec::new();
        }
        let of = |entry: &'static str| {
            let (opcode, names) = entry.trim().split_once(' ')?;
            let (name, handler) = names.split_once('=').unwrap_or((names, names));
            Some((encoding, usize::from_str_radix(opcode, 16).ok()?, name, handler))
        };
        line.split(',').filter_map(of).collect()
    })
}

fn from_texts(texts: &[&'static str]) -> Vec<Vec<Option<Known>>> {
    let mut known = vec![Vec::new(); ENCODINGS.len()];
    for (encoding, opcode, name, handler) in texts.iter().copied().flat_map(entries) {
        let to_exec = name.starts_with("v_cmpx_");
        let place = ENCODINGS.iter().find(|(_, its_name, _)| *its_name == encoding);
        if let (Some(&(encoding, ..)), Some(row)) = (place, named(handler)) {
            put(&mut known[encoding as usize], opcode, Known { name, row, to_exec });
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_of_the_texts_has_a_handler_and_a_place_of_its_own() {
        for text in [
            include_str!("gfx9.txt"),
            include_str!("gfx908.txt"),
            include_str!("gfx90a.txt"),
            include_str!("gfx942.txt"),
            include_str!("gfx10.txt"),
            include_str!("gfx12.txt"),
        ] {
            let all: Vec<_> = entries(text).collect();
            let stated =
                text.lines().filter(|line| !line.starts_with(['#', '['])).flat_map(|line| line.split(','));
            assert_eq!(all.len(), stated.filter(|entry| !entry.is_empty()).count());
            for (encoding, opcode, name, handler) in &all {
                assert!(ENCODINGS.iter().any(|(_, known, _)| known == encoding), "[{encoding}]");
                assert!(named(handler).is_some(), "{name} has no handler {handler}");
                let same = |other: &&(&str, usize, &str, &str)| (other.0, other.1) == (*encoding, *opcode);
                assert_eq!(all.iter().filter(same).count(), 1, "{encoding} {opcode:#x}");
            }
        }
        for (number, (encoding, name, _)) in ENCODINGS.iter().enumerate() {
            assert_eq!(*encoding as usize, number, "{name}");
        }
    }

    #[test]
    fn m0_and_the_null_register_change_places_on_gfx10() {
        for (architecture, codes) in [("gfx1030", [123, 125, 124, 126]), ("gfx1200", [123, 124, 125, 126])] {
            let family = Family::of(architecture).unwrap();
            assert_eq!([123, 124, 125, 126].map(|code| u32::from(family.scalar(code))), codes);
        }
        assert!(Family::of("gfx803").is_none());
    }
}
