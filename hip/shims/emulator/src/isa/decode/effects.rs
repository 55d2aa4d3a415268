//! What an instruction means for the waits: the registers that it reads, the memory operation that it starts, and the
//! operations that it waits for.

use super::family::{Family, Generation};
use crate::isa::wave::{Instruction, Kind, NULL, Operand, Source, VCC, WAVE};

/// The number of the first scalar register. The vector registers have the numbers below.
pub(super) const SCALAR: u16 = 1024;
/// The number of all registers.
pub(super) const REGISTERS: u16 = SCALAR + 128;

/// Consecutive registers.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Registers {
    pub(super) first: u16,
    pub(super) count: u16,
}

impl Registers {
    fn vector(first: u16, count: u16) -> Self {
        Self { first, count: count.min(SCALAR.saturating_sub(first)) }
    }

    fn scalar(first: u16, count: u16) -> Self {
        let first = SCALAR + first;
        let count = if first == SCALAR + u16::from(NULL) { 0 } else { count };
        Self { first, count: count.min(REGISTERS.saturating_sub(first)) }
    }

    fn of(source: &Source, count: u16) -> Self {
        match source.kind {
            Kind::Vector => Self::vector(source.index, count),
            Kind::Scalar => Self::scalar(source.index, count),
            Kind::Constant | Kind::Scc => Self::default(),
        }
    }
}

/// The places of the counters in arrays.
pub(super) const VECTOR_MEMORY: usize = 0;
pub(super) const LDS: usize = 1;
pub(super) const SCALAR_MEMORY: usize = 2;

/// A memory operation that a counter counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    /// The counters that count it.
    pub(super) counters: [bool; 3],
    /// Whether it ends after all earlier ordered operations of its counter and before all later ones. Scalar loads and
    /// flat accesses end in any order.
    pub(super) ordered: bool,
    /// The registers that it writes when it ends.
    pub(super) data: Registers,
}

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Effect {
    /// How many operations of each counter may still be under way after the instruction, or `None` if it does not wait.
    pub(super) waits: [Option<u16>; 3],
    pub(super) operation: Option<Operation>,
    /// The registers that it is known to read. Unused entries are empty.
    pub(super) reads: [Registers; 6],
}

impl Effect {
    pub(super) fn of(family: &Family, instruction: &Instruction) -> Self {
        let mut effect = Self::default();
        let mut reads = Reads { all: &mut effect.reads, used: 0 };
        let name = instruction.name;
        let (start, rest) = name.split_once('_').unwrap_or((name, ""));
        match start {
            "global" | "flat" | "buffer" => {
                effect.operation = vector_memory(family, instruction, start, rest, &mut reads);
            }
            "ds" => effect.operation = Some(lds(instruction, rest, &mut reads)),
            "s" if rest.starts_with("load") => {
                reads.add(Registers::of(&instruction.sources[0], 2));
                reads.add(Registers::of(&instruction.sources[1], 1));
                let data = Registers::scalar(u16::from(instruction.scalar), words(name));
                effect.operation = Some(Operation { counters: [false, false, true], ordered: false, data });
            }
            "s" if rest.starts_with("wait") => effect.waits = waits(family, instruction),
            _ => calculation(family, instruction, &mut reads),
        }
        effect
    }

    /// Whether the instruction means nothing for the waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waits == [None; 3]
            && self.operation.is_none()
            && self.reads.iter().all(|registers| registers.count == 0)
    }
}

/// The list of registers that an instruction reads.
struct Reads<'a> {
    all: &'a mut [Registers; 6],
    used: usize,
}

impl Reads<'_> {
    fn add(&mut self, registers: Registers) {
        if registers.count > 0
            && let Some(place) = self.all.get_mut(self.used)
        {
            *place = registers;
            self.used += 1;
        }
    }
}

/// The number of registers of an element of a memory instruction, from the end of the instruction's name: `b64`, `u16`,
/// or `dwordx4`.
fn words(name: &str) -> u16 {
    let letters = name.trim_end_matches(|end: char| end.is_ascii_digit());
    let number: u16 = name[letters.len()..].parse().unwrap_or_default();
    match letters.bytes().last() {
        Some(b'x') => number.clamp(1, 16),
        Some(b'b' | b'u' | b'i' | b'f') => number.div_ceil(32).max(1),
        _ => 1,
    }
}

/// Global, flat and buffer memory. `start` and `rest` are the parts of the name.
fn vector_memory(
    family: &Family,
    instruction: &Instruction,
    start: &str,
    rest: &str,
    reads: &mut Reads<'_>,
) -> Option<Operation> {
    let [first, second, third] = &instruction.sources;
    let (loads, stores) = (rest.starts_with("load"), rest.starts_with("store"));
    let atomic = rest.starts_with("atomic");
    if !loads && !stores && !atomic {
        return None;
    }
    let moved = words(rest);
    if start == "buffer" {
        reads.add(Registers::of(first, u16::from(instruction.high)));
        reads.add(Registers::of(second, 4));
        reads.add(Registers::of(third, 1));
        if !loads {
            reads.add(Registers::vector(instruction.destination, moved));
        }
    } else {
        let has_base = second.kind == Kind::Scalar && second.index != u16::from(NULL);
        reads.add(Registers::of(first, if has_base { 1 } else { 2 }));
        reads.add(Registers::of(second, 2));
        if !loads {
            reads.add(Registers::of(third, if rest.contains("cmpswap") { 2 * moved } else { moved }));
        }
    }
    let returns = loads || atomic && start != "buffer" && instruction.high;
    let counted = returns || family.counting.stores_with_loads;
    let data = Registers::vector(instruction.destination, if returns { moved } else { 0 });
    let flat = start == "flat";
    (counted || flat).then_some(Operation { counters: [counted, flat, false], ordered: !flat, data })
}

/// LDS and exchanges between lanes. `rest` is the name without `ds_`.
fn lds(instruction: &Instruction, rest: &str, reads: &mut Reads<'_>) -> Operation {
    let [address, first, second] = &instruction.sources;
    let moved = words(rest);
    let returns_old = rest.contains("_rtn_");
    let loads = rest.starts_with("load") || rest.starts_with("read");
    let stores = !returns_old && (rest.starts_with("store") || rest.starts_with("write"));
    let pair = ["2addr", "read2", "write2"].iter().any(|part| rest.contains(part));
    let swizzles = rest.starts_with("swizzle");
    reads.add(Registers::of(address, 1));
    if !loads && !swizzles {
        reads.add(Registers::of(first, moved));
    }
    if stores && pair || rest.starts_with("cmp") {
        reads.add(Registers::of(second, moved));
    }
    let returns = loads || swizzles || returns_old || rest.contains("permute");
    let count = if pair { 2 * moved } else { moved };
    let data = Registers::vector(instruction.destination, if returns { count } else { 0 });
    Operation { counters: [false, true, false], ordered: true, data }
}

/// The counts that the instruction waits for.
fn waits(family: &Family, instruction: &Instruction) -> [Option<u16>; 3] {
    let code = instruction.immediate as u16;
    let field = |parts: &[(u32, u32)]| {
        let mut at = 0;
        let mut count = 0;
        for &(low, bits) in parts {
            count |= ((code >> low) & ((1 << bits) - 1)) << at;
            at += bits;
        }
        Some(count)
    };
    match instruction.name {
        "s_waitcnt" => {
            let others = field(family.counting.others);
            [field(family.counting.vector), others, others]
        }
        "s_waitcnt_vmcnt" | "s_wait_loadcnt" => [field(&[(0, 6)]), None, None],
        "s_waitcnt_lgkmcnt" => [None, field(&[(0, 6)]), field(&[(0, 6)])],
        "s_wait_dscnt" | "s_wait_storecnt_dscnt" => [None, field(&[(0, 6)]), None],
        "s_wait_kmcnt" => [None, None, field(&[(0, 5)])],
        "s_wait_loadcnt_dscnt" => [field(&[(8, 6)]), field(&[(0, 6)]), None],
        _ => [None; 3],
    }
}

/// All instructions without memory: the sources as the family's table describes them.
fn calculation(family: &Family, instruction: &Instruction, reads: &mut Reads<'_>) {
    let name = instruction.name;
    let matrix = matrix_words(family, name);
    let operands = family.row(name).map(|row| row.operands);
    for (number, source) in instruction.sources.iter().enumerate() {
        let count = match (operands, matrix) {
            _ if name == "s_getpc_b64" => 0,
            (_, Some(words)) => words[number],
            (Some(operands), _) => match operands.get(number) {
                Some(Operand::B64 | Operand::I64 | Operand::F64 | Operand::Pair) => 2,
                Some(_) => 1,
                None => 0,
            },
            (None, None) => 1,
        };
        reads.add(Registers::of(source, count));
    }
    // The old value of the destination is a source that the encoding does not name.
    if ["s_addk_", "s_mulk_", "s_cmpk_"].iter().any(|start| name.starts_with(start)) {
        reads.add(Registers::scalar(u16::from(instruction.scalar), 1));
    }
    if name.starts_with("s_cbranch_vcc") {
        reads.add(Registers::scalar(u16::from(VCC), 1));
    }
    // The wide instructions have no parts, so that each source of a part is one register.
    for part in instruction.inner.as_deref().unwrap_or_default() {
        for source in &part.sources {
            reads.add(Registers::of(source, 1));
        }
    }
}

/// The numbers of registers of a matrix product's operands A, B and C, from a name such as `v_wmma_f32_16x16x16_f16`.
fn matrix_words(family: &Family, name: &str) -> Option<[u16; 3]> {
    // On CDNA the results of all shapes are 16 x 16 sums of 32 bits in 64 lanes. A row of A has 16 elements of 16 bits or
    // as many bytes, but with 16 bytes or 8 elements only half of that.
    if name.starts_with("v_mfma_") {
        return Some(if name.ends_with("16i8") || name.ends_with("x8bf16") { [1, 1, 4] } else { [2, 2, 4] });
    }
    let (sums, rest) = name.strip_prefix("v_wmma_")?.split_once('_')?;
    let (shape, elements) = rest.split_once('_')?;
    let mut sizes = shape.split('x').map(|size| size.parse::<u16>().ok());
    let (m, n, k) = (sizes.next()??, sizes.next()??, sizes.next()??);
    let bits = |kind: &str| kind.trim_start_matches(|start: char| start.is_ascii_alphabetic()).parse::<u16>();
    let words = |count: u16, bits: u16| count * bits / (32 * WAVE as u16);
    // On gfx11 both halves of the wave hold all of A and B, and a sum of 16 bits has a register of its own.
    let (copies, least) = if family.generation == Generation::Gfx11 { (2, 32) } else { (1, 0) };
    // The names of products of 8-bit floats have a format for each operand, and both have the same size.
    let elements = bits(elements.rsplit('_').next()?).ok()?;
    Some([
        copies * words(m * k, elements),
        copies * words(n * k, elements),
        words(m * n, bits(sums).ok()?.max(least)),
    ])
}
