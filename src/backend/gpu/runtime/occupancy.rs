//! How many waves of each of our kernels a card can hold, from the metadata of the code objects and the limits of the
//! architecture.
//!
//! The limits are those of LLVM's AMDGPU backend (`AMDGPUBaseInfo.cpp` and `AMDGPUSubtarget.cpp` of LLVM 19), which a
//! test compares with the compiler's own remarks in `hip/kernels/RESOURCES.md`.

use super::code_objects;
use super::error::{GpuError, Result};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, read::elf::FileHeader};
use rmpv::Value;
use serde::Serialize;

/// The type of the ELF note that holds the kernels' metadata (*Code Object V3 and Above Metadata* in LLVM's AMDGPU
/// usage guide).
const METADATA_NOTE: u32 = 32;

/// The threads of a wave's SIMDs share the memory of so many SIMDs: a compute unit's, or a work-group processor's.
const SIMDS: usize = 4;

/// The resource that limits the number of waves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OccupancyLimit {
    /// The registers with a number for each lane, accumulation registers included.
    VectorRegisters,
    /// The registers with a number for each wave.
    ScalarRegisters,
    /// The memory that a block shares.
    SharedMemory,
    /// The waves that a SIMD can hold at most.
    Architecture,
}

impl OccupancyLimit {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            OccupancyLimit::VectorRegisters => "vector registers",
            OccupancyLimit::ScalarRegisters => "scalar registers",
            OccupancyLimit::SharedMemory => "shared memory",
            OccupancyLimit::Architecture => "architecture",
        }
    }
}

/// The resources of a kernel, and the waves that they allow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct KernelOccupancy {
    /// The kernel's name.
    pub kernel: String,
    /// Vector registers of a lane, with the accumulation registers where the two share a file. gfx908 has a file of 256
    /// for each of both, and this is the larger of their numbers.
    pub vector_registers: usize,
    /// Scalar registers of a wave.
    pub scalar_registers: usize,
    /// Bytes of shared memory of a block.
    pub shared_bytes: usize,
    /// Threads of a block.
    pub threads: usize,
    /// The waves that a SIMD can hold.
    pub waves: usize,
    /// The waves that a SIMD of the architecture can hold at most.
    pub most_waves: usize,
    /// The resource that limits the waves.
    pub limit: OccupancyLimit,
}

/// The limits of an architecture.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Threads of a wave.
    lanes: usize,
    /// Waves of a SIMD.
    waves: usize,
    /// Vector registers of a SIMD for each lane, and the number in which they are allocated.
    vector_registers: usize,
    vector_granule: usize,
    /// Whether the number of scalar registers limits the waves.
    counts_scalar_registers: bool,
    /// Bytes that the blocks of a compute unit or of a work-group processor share.
    shared_bytes: usize,
    /// Blocks of several waves that can wait at barriers.
    barriers: usize,
}

impl Limits {
    fn of(architecture: &str) -> Limits {
        let gfx9 = Limits {
            lanes: 64,
            waves: 10,
            vector_registers: 256,
            vector_granule: 4,
            counts_scalar_registers: true,
            shared_bytes: 64 << 10,
            barriers: 16,
        };
        // Two compute units share their memory, and a wave has 32 lanes.
        let gfx10 = Limits {
            lanes: 32,
            waves: 16,
            vector_registers: 1024,
            vector_granule: 16,
            counts_scalar_registers: false,
            shared_bytes: 128 << 10,
            barriers: 32,
        };
        match architecture {
            "gfx90a" | "gfx942" => Limits { waves: 8, vector_registers: 512, vector_granule: 8, ..gfx9 },
            _ if architecture.starts_with("gfx9") => gfx9,
            // These have half as many registers again.
            "gfx1100" | "gfx1101" | "gfx1151" | "gfx1200" | "gfx1201" => {
                Limits { vector_registers: 1536, vector_granule: 24, ..gfx10 }
            }
            _ => gfx10,
        }
    }

    /// The waves that so many vector registers allow.
    fn by_vector_registers(&self, registers: usize) -> usize {
        let allocated = registers.max(1).next_multiple_of(self.vector_granule);
        (self.vector_registers / allocated).clamp(1, self.waves)
    }

    /// The waves that so many scalar registers allow.
    fn by_scalar_registers(&self, registers: usize) -> usize {
        let waves = match registers {
            _ if !self.counts_scalar_registers => self.waves,
            0..=80 => 10,
            81..=88 => 9,
            89..=100 => 8,
            _ => 7,
        };
        waves.min(self.waves)
    }

    /// The waves that blocks of so many threads with so much shared memory allow.
    fn by_shared_memory(&self, bytes: usize, threads: usize) -> usize {
        let waves_of_block = threads.div_ceil(self.lanes).max(1);
        let most = self.waves * SIMDS;
        let most_blocks = if waves_of_block == 1 { most } else { (most / waves_of_block).min(self.barriers) };
        let blocks = (self.shared_bytes / bytes.max(1)).clamp(1, most_blocks.max(1));
        (blocks * waves_of_block).div_ceil(SIMDS).min(self.waves)
    }
}

/// The architectures with embedded code.
pub fn architectures() -> Vec<&'static str> {
    code_objects::architectures().collect()
}

/// The occupancy of each kernel of an embedded architecture.
///
/// # Errors
/// There is no embedded code for the architecture, or the code object is damaged.
pub fn occupancy(architecture: &str) -> std::result::Result<Vec<KernelOccupancy>, String> {
    let found = code_objects::embedded(architecture).ok_or_else(|| {
        format!("no embedded kernels for {architecture} (there are: {})", architectures().join(", "))
    })?;
    let kernels = found.and_then(|code| kernels(&code, &Limits::of(architecture)));
    kernels.map_err(|error| error.to_string())
}

/// The kernels of a code object, in the order of their names.
fn kernels(code: &[u8], limits: &Limits) -> Result<Vec<KernelOccupancy>> {
    let damaged =
        |reason: &dyn std::fmt::Display| GpuError::Unsupported(format!("a code object is damaged: {reason}"));
    let file = ElfFile64::<Endianness>::parse(code).map_err(|error| damaged(&error))?;
    let endian = file.endian();
    for header in file.elf_header().program_headers(endian, code).map_err(|error| damaged(&error))? {
        let Some(mut notes) = header.notes(endian, code).map_err(|error| damaged(&error))? else { continue };
        while let Some(note) = notes.next().map_err(|error| damaged(&error))? {
            if note.n_type(endian) == METADATA_NOTE {
                let metadata = rmpv::decode::read_value(&mut note.desc()).map_err(|error| damaged(&error))?;
                let list = field(&metadata, "amdhsa.kernels").and_then(Value::as_array);
                let list = list.ok_or_else(|| damaged(&"the metadata has no kernels"))?;
                let mut kernels: Vec<KernelOccupancy> =
                    list.iter().map(|kernel| kernel_occupancy(kernel, limits)).collect();
                kernels.sort_by(|a, b| a.kernel.cmp(&b.kernel));
                return Ok(kernels);
            }
        }
    }
    Err(damaged(&"it has no metadata"))
}

/// A value of a map.
fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
}

fn kernel_occupancy(kernel: &Value, limits: &Limits) -> KernelOccupancy {
    let number = |name: &str| {
        let value = field(kernel, name).and_then(Value::as_u64).unwrap_or(0);
        usize::try_from(value).unwrap_or(usize::MAX)
    };
    let (vector, scalar) = (number(".vgpr_count"), number(".sgpr_count"));
    let (shared, threads) = (number(".group_segment_fixed_size"), number(".max_flat_workgroup_size"));
    let (by_vector, by_scalar) = (limits.by_vector_registers(vector), limits.by_scalar_registers(scalar));
    let by_shared = limits.by_shared_memory(shared, threads);
    let waves = by_vector.min(by_scalar).min(by_shared);
    let limit = match waves {
        _ if waves == limits.waves => OccupancyLimit::Architecture,
        _ if waves == by_vector => OccupancyLimit::VectorRegisters,
        _ if waves == by_shared => OccupancyLimit::SharedMemory,
        _ => OccupancyLimit::ScalarRegisters,
    };
    KernelOccupancy {
        kernel: field(kernel, ".name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        vector_registers: vector,
        scalar_registers: scalar,
        shared_bytes: shared,
        threads,
        waves,
        most_waves: limits.waves,
        limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The waves of each kernel in the compiler's remarks, by architecture.
    fn remarks() -> BTreeMap<String, BTreeMap<String, usize>> {
        let text = include_str!("../../../../hip/kernels/RESOURCES.md");
        let mut found: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        let mut architecture = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("## ") {
                architecture = name.to_owned();
            }
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            if let (8.., Some(Ok(waves))) = (cells.len(), cells.get(6).map(|cell| cell.parse()))
                && !architecture.is_empty()
            {
                found.entry(architecture.clone()).or_default().insert(cells[1].to_owned(), waves);
            }
        }
        found
    }

    #[test]
    fn the_waves_are_those_of_the_compilers_remarks() {
        let remarks = remarks();
        assert!(remarks.len() >= 12, "{:?}", remarks.keys());
        for (architecture, kernels) in remarks {
            let found = occupancy(&architecture).unwrap();
            assert_eq!(found.len(), kernels.len(), "{architecture}");
            for one in found {
                assert_eq!(Some(&one.waves), kernels.get(&one.kernel), "{architecture}: {one:?}");
            }
        }
    }

    #[test]
    fn a_damaged_object_is_an_error() {
        let limits = Limits::of("gfx1100");
        for code in [&b""[..], b"\x7fELF", &[0; 64]] {
            assert!(kernels(code, &limits).is_err());
        }
        let code = code_objects::embedded("gfx1100").unwrap().unwrap();
        for end in (0..code.len()).step_by(code.len() / 50) {
            let _ = kernels(&code[..end], &limits);
        }
        assert!(occupancy("gfx803").unwrap_err().contains("no embedded kernels for gfx803"));
    }
}
