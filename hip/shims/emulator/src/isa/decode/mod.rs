//! Decodes machine code, once per code object.
//!
//! A code object may contain instructions that are never executed, so an encoding that is in no table is not an error
//! when it is decoded. It becomes an instruction that stops the wave and reports the encoding's words.
//!
//! | module | what |
//! |---|---|
//! | [`waits`], [`effects`] | finds uses of loaded data that no wait precedes |
//! | [`memory`] | scalar loads, LDS, buffers, global and flat memory |
//! | [`scalar`] | SOP1, SOP2, SOPC, SOPK, SOPP |
//! | [`vector`] | VOP1, VOP2, VOPC, VOP3, VOP3P, VOPD |
//! | [`subword`] | SDWA, the form of VOP1, VOP2 and VOPC that selects bytes or halves |
//! | [`halves`] | makes two instructions of 32 lanes out of one of 64 |
//! | [`source`] | source operands by their code |
//! | [`reader`] | the words of one instruction |
//! | [`family`] | what differs between families: the instructions by opcode, and some fields |

mod effects;
pub(crate) mod family;
mod halves;
mod memory;
mod reader;
mod scalar;
mod source;
mod subword;
mod vector;
mod waits;

use super::scalar::BRANCH;
use super::table::handler;
use super::wave::{Instruction, WAVE, Wave};
use family::{Family, Generation};
use halves::split;
use memory::{
    buffer, flat_gfx9, flat_gfx10, flat_gfx11, flat_gfx12, global_gfx12, lds, lds_gfx9, smem, smem_gfx9,
    smem_gfx12,
};
use reader::{Reader, plain};
use scalar::scalar;
use vector::{vop3, vop3_gfx9, vop3p, vop3p_gfx9, vop12c, vopd};

handler! {
    /// Stops the wave and reports an encoding that the emulator does not know.
    fn unknown(wave, instruction) {
        let words = instruction.immediate as u64;
        wave.fail(format!("unknown instruction {:08x} {:08x}", words as u32, words >> 32));
    }
}

/// A decoded program, with its instructions in the order of their addresses.
pub(crate) struct Program {
    /// The address of the code object in memory.
    pub(crate) base: u64,
    pub(crate) instructions: Vec<Instruction>,
}

impl Program {
    /// Decodes a family's code, which begins `start` bytes after the beginning of a code object at `base`.
    pub(crate) fn decode(family: &'static Family, code: &[u8], start: u32, base: u64) -> Self {
        let words: Vec<u32> = code
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        let mut instructions = Vec::new();
        let mut branches = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let mut reader = Reader { words: &words[at..], used: 1, family };
            let mut instruction = decode(&mut reader).unwrap_or_else(|| plain(unknown, "unknown"));
            if instruction.name == "unknown" {
                reader.used = 1;
                let next = words.get(at + 1).copied().unwrap_or_default();
                instruction.immediate = (u64::from(words[at]) | u64::from(next) << 32) as i64;
            }
            instruction.pc = start + 4 * at as u32;
            if matches!(instruction.name, "s_getpc_b64" | "s_swappc_b64") {
                instruction.immediate = (base + u64::from(instruction.pc) + 4) as i64;
            }
            if BRANCH.iter().any(|row| row.name == instruction.name) {
                let target = i64::from(instruction.pc) + 4 + 4 * instruction.immediate;
                branches.push((instructions.len(), target as u32));
            }
            instructions.push(instruction);
            at += reader.used;
        }
        // A branch into the middle of an instruction, or out of the code, leads to the sentinel at the end.
        for (number, target) in branches {
            let found =
                instructions.binary_search_by_key(&target, |instruction: &Instruction| instruction.pc);
            instructions[number].target = found.unwrap_or(instructions.len()) as u32;
        }
        let mut sentinel = plain(unknown, "unknown");
        sentinel.pc = start + 4 * words.len() as u32;
        instructions.push(sentinel);
        Self { base, instructions }
    }

    /// Describes the first use of loaded data that no wait precedes, in the kernel that begins at the instruction
    /// `entry`.
    pub(crate) fn missing_wait(&self, family: &Family, entry: u32) -> Option<String> {
        waits::missing(family, &self.instructions, entry)
    }

    /// The index of the instruction at an address in memory.
    pub(crate) fn at_address(&self, address: u64) -> Option<u32> {
        self.at(u32::try_from(address.checked_sub(self.base)?).ok()?)
    }

    /// The index of the instruction at an offset in the code object.
    pub(crate) fn at(&self, pc: u32) -> Option<u32> {
        self.instructions
            .binary_search_by_key(&pc, |instruction| instruction.pc)
            .ok()
            .map(|number| number as u32)
    }
}

/// The function that decodes an encoding, and how its first word is recognized: the number of bits to the right of the
/// prefix, and the prefix.
type Format = (u32, u32, fn(&mut Reader<'_>) -> Option<Instruction>);

const GFX9: &[Format] = &[
    (23, 0b110100111, vop3p_gfx9),
    (26, 0b110100, vop3_gfx9),
    (26, 0b110110, lds_gfx9),
    (26, 0b110111, flat_gfx9),
    (26, 0b111000, buffer),
    (26, 0b110000, smem_gfx9),
];

const GFX10: &[Format] = &[
    (26, 0b110101, vop3),
    (26, 0b110011, vop3p),
    (26, 0b110110, lds),
    (26, 0b110111, flat_gfx10),
    (26, 0b111000, buffer),
    (26, 0b111101, smem),
];

const GFX11: &[Format] = &[
    (26, 0b110101, vop3),
    (26, 0b110010, vopd),
    (26, 0b110011, vop3p),
    (26, 0b110110, lds),
    (26, 0b110111, flat_gfx11),
    (26, 0b111000, buffer),
    (26, 0b111101, smem),
];

const GFX12: &[Format] = &[
    (26, 0b110101, vop3),
    (26, 0b110010, vopd),
    (26, 0b110011, vop3p),
    (26, 0b110110, lds),
    (24, 0b11101100, flat_gfx12),
    (24, 0b11101110, global_gfx12),
    (26, 0b111101, smem_gfx12),
];

/// Decodes one instruction. In a wave of 64 lanes it has two halves.
fn decode(reader: &mut Reader<'_>) -> Option<Instruction> {
    let instruction = decode_for_32_lanes(reader)?;
    if reader.family.lanes == WAVE { Some(instruction) } else { split(instruction) }
}

fn decode_for_32_lanes(reader: &mut Reader<'_>) -> Option<Instruction> {
    let word = reader.first();
    let formats = match reader.family.generation {
        Generation::Gfx9 => GFX9,
        Generation::Gfx10 => GFX10,
        Generation::Gfx11 => GFX11,
        Generation::Gfx12 => GFX12,
    };
    match formats.iter().find(|(shift, prefix, _)| word >> shift == *prefix) {
        Some((_, _, format)) => format(reader),
        None if word >> 31 == 0 => vop12c(reader),
        None => scalar(reader),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use object::{Object, ObjectSection, ObjectSymbol};

    use super::*;

    /// The stored code objects with the families of their architectures.
    fn objects() -> Vec<(PathBuf, &'static Family)> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut folders = vec![here.join("tests/fixtures"), here.join("../../kernels/objects")];
        folders.extend(std::env::var_os("RUKH_EMULATOR_OBJECTS").map(PathBuf::from));
        let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        let paths = files
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|it| it == "co" || it == "gz"));
        let architectures =
            ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1151", "gfx1200"];
        let of = |path: PathBuf| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            let found = architectures.into_iter().find(|architecture| name.contains(architecture))?;
            Some((path, Family::of(found)?))
        };
        paths.filter_map(of).collect()
    }

    /// A file's bytes, unpacked.
    fn unpacked(path: &Path) -> Vec<u8> {
        let file = std::fs::read(path).unwrap();
        if path.extension().is_none_or(|extension| extension != "gz") {
            return file;
        }
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&*file).read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// The offsets and names of a file's instructions from LLVM's disassembler, or `None` if the disassembler is not
    /// installed.
    fn disassembled(path: &Path) -> Option<Vec<(u32, String)>> {
        let tools = ["llvm-objdump-19", "llvm-objdump"];
        let run =
            |tool: &&str| Command::new(tool).args(["-d", "--mattr=-real-true16"]).arg(path).output().ok();
        let output = tools.iter().find_map(run).filter(|output| output.status.success())?;
        let text = String::from_utf8(output.stdout).ok()?;
        let lines = text.lines().filter_map(|line| {
            let (code, comment) = line.strip_prefix('\t')?.split_once("//")?;
            let pc = u32::from_str_radix(comment.trim().split(':').next()?, 16).ok()?;
            let name = code.split_whitespace().next()?;
            let short = ["_e32", "_e64", "_dpp", "_sdwa", "_e64_dpp"]
                .iter()
                .fold(name, |name, end| name.trim_end_matches(end));
            Some((pc, short.to_owned()))
        });
        Some(lines.collect())
    }

    #[test]
    fn the_decoder_knows_every_instruction_of_the_kernels_by_the_disassembler_s_name() {
        let objects = objects();
        assert!(!objects.is_empty(), "no code objects were found");
        let mut compared = 0;
        for (path, family) in objects {
            let file = unpacked(&path);
            let elf = object::File::parse(&*file).unwrap();
            let text = elf.section_by_name(".text").unwrap();
            let program = Program::decode(family, text.data().unwrap(), text.address() as u32, 0);
            let kernels = elf.dynamic_symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Text);
            let mut checked = 0;
            for kernel in kernels {
                let entry = program.at(kernel.address() as u32).unwrap();
                let missing = program.missing_wait(family, entry);
                assert!(missing.is_none(), "{}: {} {missing:?}", path.display(), kernel.name().unwrap());
                checked += 1;
            }
            assert!(checked > 5, "{} has {checked} kernels", path.display());
            let copy = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(copy.path(), &file).unwrap();
            let Some(names) = disassembled(copy.path()) else {
                eprintln!("skipped: llvm-objdump-19 is not installed");
                return;
            };
            let mut wrong: Vec<String> = Vec::new();
            for (pc, name) in names {
                let found = program.at(pc).map(|number| program.instructions[number as usize].name);
                let same = match found {
                    Some("v_dual") => name.starts_with("v_dual_"),
                    Some(found) => found == name || found == name.replace("v_cmpx", "v_cmp"),
                    None => false,
                };
                if !same && name != "s_code_end" {
                    let found = found.unwrap_or("a part of another instruction");
                    wrong.push(format!("{pc:#x}: {name} is decoded as {found}"));
                }
                compared += 1;
            }
            wrong.sort_by_key(|line| line.split_once(": ").map(|(_, rest)| rest.to_owned()));
            wrong.dedup_by_key(|line| line.split_once(": ").map(|(_, rest)| rest.to_owned()));
            assert!(wrong.is_empty(), "{}:\n{}", path.display(), wrong.join("\n"));
        }
        assert!(compared > 1000, "only {compared} instructions were compared");
    }
}
