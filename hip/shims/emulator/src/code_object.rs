//! Loads and decodes code objects, the ELF files that AMD's device compiler writes.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, SymbolIndex};
use rmpv::Value;

use crate::isa::decode::Program;
use crate::isa::decode::family::Family;
use crate::memory::{self, Place};

/// ELF's machine number for AMD GPUs, and the bits of the ELF flags that name the architecture.
const MACHINE_AMDGPU: u16 = 224;
const ARCHITECTURE_MASK: u32 = 0xff;
/// The architectures and their numbers in the ELF flags.
const ARCHITECTURES: &[(u32, &str)] = &[
    (0x02f, "gfx906"),
    (0x030, "gfx908"),
    (0x03f, "gfx90a"),
    (0x04c, "gfx942"),
    (0x036, "gfx1030"),
    (0x037, "gfx1031"),
    (0x038, "gfx1032"),
    (0x039, "gfx1033"),
    (0x03e, "gfx1034"),
    (0x03d, "gfx1035"),
    (0x045, "gfx1036"),
    (0x041, "gfx1100"),
    (0x046, "gfx1101"),
    (0x047, "gfx1102"),
    (0x044, "gfx1103"),
    (0x043, "gfx1150"),
    (0x04a, "gfx1151"),
    (0x055, "gfx1152"),
    (0x048, "gfx1200"),
    (0x04e, "gfx1201"),
];
/// The types of relocations: the address of a symbol, and an address relative to the code object.
const ABSOLUTE_64: u32 = 3;
const RELATIVE_64: u32 = 13;
/// The type of the ELF note that holds the kernels' metadata.
const METADATA_NOTE: u32 = 32;

/// Why a code object cannot be loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LoadError {
    /// The code object was compiled for another architecture, which this field names.
    OtherArchitecture(String),
    /// The code object is damaged, or contains something that the emulator does not support.
    Invalid(String),
}

fn invalid(error: impl ToString) -> LoadError {
    LoadError::Invalid(error.to_string())
}

/// One argument of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    /// `by_value`, `global_buffer`, or `hidden_...` for an argument that the runtime fills in.
    pub(crate) kind: String,
}

/// A kernel, as its descriptor and its metadata describe it.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// The index of the kernel's first instruction in the program.
    pub(crate) entry: u32,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) argument_bytes: usize,
    pub(crate) lds_bytes: u32,
    pub(crate) vector_registers: usize,
    /// The number of CDNA's accumulation registers.
    pub(crate) accumulators: usize,
    pub(crate) max_threads: u32,
    /// The descriptor's word `compute_pgm_rsrc2`. It says which registers hold the workgroup's and the work item's
    /// indices when a wave starts.
    pub(crate) registers: u32,
    /// The descriptor's `kernel_code_properties`. It says which values the first scalar registers hold when a wave
    /// starts.
    pub(crate) properties: u32,
    /// The use of loaded data that no wait precedes, if there is one. The first launch looks for it, because a process
    /// launches few of a code object's kernels.
    missing_wait: OnceLock<Option<String>>,
}

/// A loaded code object. It stays at its address until it is dropped.
pub(crate) struct Module {
    image: u64,
    pub(crate) family: &'static Family,
    pub(crate) program: Program,
    /// The kernels by name. Looking up a kernel that the emulator refuses returns its error.
    pub(crate) kernels: BTreeMap<String, Result<Arc<Kernel>, LoadError>>,
}

impl Drop for Module {
    fn drop(&mut self) {
        // Freeing fails only if the guards are damaged, and the emulator has refused every store to them.
        let _ = memory::free(self.image, |place| matches!(place, Place::Code(_)));
    }
}

impl Module {
    /// Loads a code object for an architecture into a device's memory.
    pub(crate) fn load(file: &[u8], architecture: &str, device: i32) -> Result<Self, LoadError> {
        let elf = ElfFile64::<Endianness>::parse(file).map_err(invalid)?;
        let header = elf.elf_header();
        if header.e_machine.get(Endianness::Little) != MACHINE_AMDGPU {
            return Err(invalid("it is not for an AMD GPU"));
        }
        let number = header.e_flags.get(Endianness::Little) & ARCHITECTURE_MASK;
        match ARCHITECTURES.iter().find(|(code, _)| *code == number) {
            Some((_, name)) if *name == architecture => {}
            Some((_, name)) => return Err(LoadError::OtherArchitecture((*name).to_owned())),
            None => return Err(LoadError::OtherArchitecture(format!("number {number:#x}"))),
        }
        let unsupported = || invalid(format!("the emulator does not execute code for {architecture}"));
        let family = Family::of(architecture).ok_or_else(unsupported)?;

        let loads: Vec<_> = elf
            .elf_program_headers()
            .iter()
            .filter(|part| part.p_type(Endianness::Little) == object::elf::PT_LOAD)
            .collect();
        let end = |part: &&&object::elf::ProgramHeader64<Endianness>| {
            part.p_vaddr(Endianness::Little).saturating_add(part.p_memsz(Endianness::Little))
        };
        let bytes = loads.iter().map(|part| end(&part)).max().unwrap_or_default() as usize;
        if bytes == 0 || bytes > 1 << 30 {
            return Err(invalid("it has no segments to load, or more than 1 GiB of them"));
        }
        let image = memory::allocate(bytes, Place::Code(device)).ok_or_else(|| invalid("out of memory"))?;
        // Dropping the module frees the image, also on the errors below.
        let mut module = Self {
            image,
            family,
            program: Program { base: image, instructions: Vec::new() },
            kernels: BTreeMap::new(),
        };
        let start: *mut u8 = std::ptr::with_exposed_provenance_mut(image as usize);
        // SAFETY: the image was allocated just now, and nothing else uses it yet.
        let memory = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
        memory.fill(0);
        for part in loads {
            let data = part
                .data(Endianness::Little, file)
                .map_err(|()| invalid("a segment lies outside of the file"))?;
            let at = part.p_vaddr(Endianness::Little) as usize;
            memory
                .get_mut(at..at + data.len())
                .ok_or_else(|| invalid("a segment is larger than its memory"))?
                .copy_from_slice(data);
        }

        if let Some(relocations) = elf.section_by_name(".rela.dyn") {
            relocate(&elf, relocations.data().map_err(invalid)?, memory, image)?;
        }

        let text = elf.section_by_name(".text").ok_or_else(|| invalid("it has no section .text"))?;
        let code = text.data().map_err(invalid)?;
        module.program = Program::decode(family, code, text.address() as u32, image);
        let metadata = metadata(&elf)?;
        for symbol in elf.dynamic_symbols() {
            let Some(name) = symbol.name().ok().and_then(|name| name.strip_suffix(".kd")) else {
                continue;
            };
            let kernel = kernel(name, symbol.address(), memory, family, &module.program, &metadata);
            module.kernels.insert(name.to_owned(), kernel.map(Arc::new));
        }
        Ok(module)
    }

    /// Refuses a kernel that uses loaded data without a wait.
    pub(crate) fn check_waits(&self, kernel: &Kernel) -> Result<(), String> {
        let missing =
            kernel.missing_wait.get_or_init(|| self.program.missing_wait(self.family, kernel.entry));
        missing.as_ref().map_or(Ok(()), |missing| Err(format!("kernel {} {missing}", kernel.name)))
    }
}

/// Applies the relocations: entries of 24 bytes (`Elf64_Rela`) with offset, info and addend.
fn relocate(elf: &ElfFile64<'_>, entries: &[u8], memory: &mut [u8], image: u64) -> Result<(), LoadError> {
    for entry in entries.chunks_exact(24) {
        let [place, info, addend] = [0, 8, 16]
            .map(|at| entry[at..at + 8].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)));
        let start = match info as u32 {
            ABSOLUTE_64 => {
                let index = SymbolIndex((info >> 32) as usize);
                let table = elf.dynamic_symbol_table().ok_or_else(|| invalid("it has no symbol table"))?;
                table.symbol_by_index(index).map_err(invalid)?.address()
            }
            RELATIVE_64 => 0,
            kind => return Err(invalid(format!("it has a relocation of unknown type {kind}"))),
        };
        let target =
            usize::try_from(place).ok().and_then(|place| memory.get_mut(place..place.checked_add(8)?));
        let target = target.ok_or_else(|| invalid("a relocation lies outside of the image"))?;
        target.copy_from_slice(&image.wrapping_add(start).wrapping_add(addend).to_le_bytes());
    }
    Ok(())
}

/// The kernels' metadata by kernel name. Each object that was linked in has its own note.
fn metadata(elf: &ElfFile64<'_>) -> Result<BTreeMap<String, Value>, LoadError> {
    let section = elf.section_by_name(".note").ok_or_else(|| invalid("it has no section .note"))?;
    let data = section.data().map_err(invalid)?;
    let word = |at: usize| -> Option<usize> {
        Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?) as usize)
    };
    let (mut at, mut found) = (0, BTreeMap::new());
    while let (Some(name_bytes), Some(bytes), Some(kind)) = (word(at), word(at + 4), word(at + 8)) {
        let start = at + 12 + name_bytes.next_multiple_of(4);
        let Some(mut note) = data.get(start..start + bytes) else { break };
        if kind == METADATA_NOTE as usize {
            let value = rmpv::decode::read_value(&mut note).map_err(invalid)?;
            let kernels =
                field(&value, "amdhsa.kernels").and_then(Value::as_array).cloned().unwrap_or_default();
            found.extend(kernels.into_iter().filter_map(|kernel| {
                let name = field(&kernel, ".name")?.as_str()?.to_owned();
                Some((name, kernel))
            }));
        }
        at = start + bytes.next_multiple_of(4);
    }
    Ok(found)
}

fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.as_map()?.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
}

fn number(value: &Value, name: &str) -> u64 {
    field(value, name).and_then(Value::as_u64).unwrap_or_default()
}

/// Reads a kernel's descriptor of 64 bytes, and refuses kernels that the emulator cannot run.
fn kernel(
    name: &str,
    descriptor: u64,
    memory: &[u8],
    family: &Family,
    program: &Program,
    metadata: &BTreeMap<String, Value>,
) -> Result<Kernel, LoadError> {
    let at = descriptor as usize;
    let outside =
        |part: &str| invalid(format!("the {part} of kernel {name} lies outside of the code object"));
    let bytes = memory.get(at..at + 64).ok_or_else(|| outside("descriptor"))?;
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let offset = i64::from(word(16)) | i64::from(word(20)) << 32;
    let entry = u32::try_from(descriptor.wrapping_add_signed(offset)).ok().and_then(|pc| program.at(pc));
    let (mode, registers, properties) = (word(48), word(52), word(56) & 0xffff);
    let metadata = metadata.get(name).ok_or_else(|| invalid(format!("kernel {name} has no metadata")))?;
    let refuse = |reason: &str| Err(invalid(format!("kernel {name} {reason}")));
    if word(4) != 0 || number(metadata, ".private_segment_fixed_size") != 0 {
        return refuse("uses scratch memory (for spilled registers or local arrays)");
    }
    let lanes = if properties & (1 << 10) == 0 { 64 } else { 32 };
    if lanes != family.lanes {
        return refuse(&format!(
            "is compiled for waves of {lanes} lanes, and the emulator has {}",
            family.lanes
        ));
    }
    if mode >> 16 & 3 != 3 || mode >> 18 & 3 != 3 {
        return refuse("flushes denormal numbers to zero");
    }
    // The pointers to scratch memory (bits 0 and 5) are never read, because no scratch memory is used.
    // The upper half of the word is the number of arguments that the hardware loads into registers (gfx90a, gfx942).
    if properties & 0b101_0110 != 0 || word(56) >> 16 != 0 {
        return refuse("expects a value in its first registers that the emulator does not provide");
    }
    let arguments = field(metadata, ".args").and_then(Value::as_array).cloned().unwrap_or_default();
    Ok(Kernel {
        name: name.to_owned(),
        entry: entry.ok_or_else(|| invalid(format!("kernel {name} does not begin at an instruction")))?,
        arguments: arguments
            .iter()
            .map(|argument| Argument {
                offset: number(argument, ".offset") as usize,
                bytes: number(argument, ".size") as usize,
                kind: field(argument, ".value_kind").and_then(Value::as_str).unwrap_or_default().to_owned(),
            })
            .collect(),
        // The size in the descriptor is only informative, and assemblers write 0.
        argument_bytes: (word(8) as usize).max(number(metadata, ".kernarg_segment_size") as usize),
        lds_bytes: word(0),
        vector_registers: number(metadata, ".vgpr_count") as usize,
        accumulators: number(metadata, ".agpr_count") as usize,
        max_threads: number(metadata, ".max_flat_workgroup_size") as u32,
        registers,
        properties,
        missing_wait: OnceLock::new(),
    })
}
