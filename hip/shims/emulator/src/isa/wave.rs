//! A wave with its registers, and decoded instructions with the functions that read and write operands.
//!
//! Handlers compute on 32 lanes. A wave of 64 lanes has two halves of 32, whose registers lie in different places: see
//! [`super::halves`].

use super::float;
use crate::memory::{POISON, Regions};

/// The number of lanes of a wave, or of half a wave of 64 lanes.
pub(crate) const WAVE: usize = 32;

/// A vector register: 32 bits per lane.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Lanes(pub(crate) [u32; WAVE]);

impl Lanes {
    pub(crate) const ZERO: Self = Self([0; WAVE]);
}

/// The function that executes an instruction.
pub(crate) type Handler = unsafe fn(&mut Wave, &Instruction);

/// Scalar registers with a special meaning.
pub(crate) const VCC: u8 = 106;
pub(crate) const NULL: u8 = 124;
pub(crate) const EXEC: u8 = 126;
/// On gfx12, the registers TTMP9 and TTMP7, which hold the workgroup's number in x, and in y and z (16 bits each).
pub(crate) const GROUP_X: u8 = 117;
pub(crate) const GROUP_YZ: u8 = 115;

/// A register after the machine's 256 vector registers. It holds the first result of a dual instruction until the
/// second instruction has read its sources.
pub(crate) const SCRATCH_RESULT: u16 = 256;
/// Two registers after the machine's 256, which hold the sources of an instruction that permutes or selects them first.
pub(crate) const SCRATCH_SOURCE: u16 = 257;
pub(crate) const SCRATCH_SECOND: u16 = 258;
/// The first accumulation register of CDNA.
pub(crate) const ACCUMULATOR: u16 = 512;
/// What is added to the number of a register for the upper 32 lanes of a wave of 64. Both halves share the scratch
/// registers, because one half is executed after the other.
pub(crate) const UPPER: u16 = 1024;
/// The number of vector registers, a power of two, and the mask that keeps a number in its range.
const REGISTERS: usize = 2048;
pub(crate) const REGISTER_MASK: usize = REGISTERS - 1;

/// The upper 32 bits of a flat address that means LDS.
pub(crate) const SHARED_APERTURE: u32 = 0x0001_0000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Vector,
    Scalar,
    /// A constant or a literal, which is in `value`.
    Constant,
    /// The scalar condition code, SCC.
    Scc,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) kind: Kind,
    pub(crate) negate: bool,
    pub(crate) absolute: bool,
    /// Whether a 16-bit operand is the upper half of its register, or the low result of a packed operation reads the
    /// upper half.
    pub(crate) high: bool,
    /// Whether the high result of a packed operation reads the upper half.
    pub(crate) high_for_high: bool,
    /// Whether the high result of a packed operation reads the negated value.
    pub(crate) negate_high: bool,
    pub(crate) index: u16,
    pub(crate) value: u32,
    /// The upper half of a 64-bit constant.
    pub(crate) value_high: u32,
}

impl Source {
    pub(crate) const NONE: Self = Self {
        kind: Kind::Constant,
        negate: false,
        absolute: false,
        high: false,
        high_for_high: false,
        negate_high: false,
        index: 0,
        value: 0,
        value_high: 0,
    };

    pub(crate) fn vector(index: u16) -> Self {
        Self { kind: Kind::Vector, index, ..Self::NONE }
    }

    pub(crate) fn scalar(index: u8) -> Self {
        Self { kind: Kind::Scalar, index: u16::from(index), ..Self::NONE }
    }

    pub(crate) fn constant(value: u32) -> Self {
        Self { value, ..Self::NONE }
    }
}

/// A decoded instruction.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub(crate) execute: Handler,
    pub(crate) name: &'static str,
    pub(crate) sources: [Source; 3],
    /// The first vector register that is written, or the first one with the data of a buffer store.
    pub(crate) destination: u16,
    /// The scalar register for the result of a scalar instruction or a comparison, or for a carry.
    pub(crate) scalar: u8,
    /// Whether a 16-bit result goes to the upper half, an atomic operation returns the old value, or a buffer access
    /// has a vector offset.
    pub(crate) high: bool,
    pub(crate) clamp: bool,
    /// The factor of the output modifier OMOD, or 1.
    pub(crate) scale: f32,
    /// An offset, a literal or a control word, depending on the instruction.
    pub(crate) immediate: i64,
    /// The index of the instruction that a taken branch leads to.
    pub(crate) target: u32,
    /// The offset in the code object.
    pub(crate) pc: u32,
    /// The two parts of a dual instruction or of a pair of LDS accesses, or the instruction whose sources are permuted or
    /// selected first.
    pub(crate) inner: Option<Box<[Instruction]>>,
}

/// Whether a wave is running, and if not, why it stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    Running,
    /// A jump to an address in memory, which the program looks up.
    Jump(u64),
    Barrier,
    End,
    Fault,
}

/// The registers that a wave uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Registers {
    /// The number of lanes: 32 or 64.
    pub(crate) lanes: usize,
    pub(crate) vector: usize,
    pub(crate) accumulators: usize,
}

/// The state of a wave. Registers start with [`POISON`].
#[repr(C)]
pub(crate) struct Wave {
    pub(crate) vector: [Lanes; REGISTERS],
    pub(crate) scalar: [u32; 128],
    pub(crate) scc: bool,
    pub(crate) stop: Stop,
    /// Whether the wave has signaled the workgroup's barrier and has not waited for it yet.
    pub(crate) signaled: bool,
    /// The number of the first lane of the half that is being executed: 0 or 32.
    pub(crate) first_lane: usize,
    /// The index of the next instruction.
    pub(crate) next: u32,
    /// The error, if `stop` is `Fault`.
    pub(crate) fault: String,
    /// The first byte of the workgroup's LDS.
    pub(crate) lds: *mut u8,
    pub(crate) lds_bytes: u32,
    /// The memory that the kernel may touch.
    pub(crate) regions: *const Regions,
    /// Start and end of the region of the last access.
    pub(crate) recent: (u64, u64),
    /// The lines that the wave's loads have touched, if these are counted.
    pub(crate) lines: u64,
}

impl Wave {
    /// A wave whose registers are not set yet: [`Wave::start`] sets them.
    pub(crate) fn new() -> Box<Self> {
        // SAFETY: every field is a number, a raw pointer, an empty text or a small enum, and is set below before
        // it is read.
        let mut wave: Box<Self> = unsafe {
            let mut space = Box::<Self>::new_zeroed();
            let pointer = space.as_mut_ptr();
            (&raw mut (*pointer).fault).write(String::new());
            (&raw mut (*pointer).stop).write(Stop::Running);
            space.assume_init()
        };
        wave.lds = std::ptr::null_mut();
        wave
    }

    /// Puts the wave at an instruction, and poisons all registers that the kernel may use.
    pub(crate) fn start(&mut self, entry: u32, registers: &Registers) {
        for half in 0..registers.lanes.div_ceil(WAVE) {
            let own = &mut self.vector[half * usize::from(UPPER)..];
            own[..registers.vector.min(256)].fill(Lanes([POISON; WAVE]));
            own[usize::from(ACCUMULATOR)..][..registers.accumulators.min(256)].fill(Lanes([POISON; WAVE]));
        }
        self.scalar = [POISON; 128];
        self.scalar[usize::from(NULL)] = 0;
        self.scc = false;
        self.signaled = false;
        self.lines = 0;
        self.first_lane = 0;
        self.stop = Stop::Running;
        self.next = entry;
        self.fault.clear();
        self.recent = (0, 0);
    }

    /// The active lanes of the half that is being executed.
    #[inline(always)]
    pub(crate) fn exec(&self) -> u32 {
        self.scalar[usize::from(EXEC)]
    }

    /// The active lanes of a wave of 64.
    pub(crate) fn exec64(&self) -> u64 {
        u64::from(self.scalar[usize::from(EXEC)]) | u64::from(self.scalar[usize::from(EXEC) + 1]) << 32
    }

    /// A lane's 32 bits of a register of a wave of 64 lanes.
    #[inline(always)]
    pub(crate) fn lane64(&mut self, index: u16, lane: usize) -> &mut u32 {
        let half = lane / WAVE * usize::from(UPPER);
        &mut self.vector[(usize::from(index) + half) & REGISTER_MASK].0[lane % WAVE]
    }

    #[inline(always)]
    pub(crate) fn set_scalar(&mut self, index: u8, value: u32) {
        if index != NULL {
            self.scalar[usize::from(index & 127)] = value;
        }
    }

    #[inline(always)]
    pub(crate) fn set_scalar64(&mut self, index: u8, value: u64) {
        if index != NULL {
            self.scalar[usize::from(index & 127)] = value as u32;
            self.scalar[usize::from((index + 1) & 127)] = (value >> 32) as u32;
        }
    }

    /// The 32 bits of a scalar source. For a vector register, those of the first active lane.
    #[inline(always)]
    pub(crate) fn uniform(&self, source: &Source) -> u32 {
        match source.kind {
            Kind::Scalar => self.scalar[usize::from(source.index & 127)],
            Kind::Constant => source.value,
            Kind::Scc => u32::from(self.scc),
            Kind::Vector => {
                self.vector[usize::from(source.index) & REGISTER_MASK].0
                    [self.exec().trailing_zeros() as usize & 31]
            }
        }
    }

    /// The 64 bits of a scalar source.
    #[inline(always)]
    pub(crate) fn uniform64(&self, source: &Source) -> u64 {
        match source.kind {
            Kind::Scalar if source.index == u16::from(NULL) => 0,
            Kind::Scalar => {
                let low = self.scalar[usize::from(source.index & 127)];
                let high = self.scalar[usize::from((source.index + 1) & 127)];
                u64::from(low) | u64::from(high) << 32
            }
            _ => u64::from(source.value) | u64::from(source.value_high) << 32,
        }
    }

    /// A source's 32 bits in every lane, without modifiers. If they are not in a vector register, `space` holds them.
    #[inline(always)]
    pub(crate) fn raw<'a>(&'a self, source: &Source, space: &'a mut Lanes) -> &'a Lanes {
        if source.kind == Kind::Vector {
            return &self.vector[usize::from(source.index) & REGISTER_MASK];
        }
        space.0 = [self.uniform(source); WAVE];
        space
    }

    /// A source in every lane, read as the operand's type says, with its half and its sign modifiers applied. If the
    /// result is not a vector register, `space` holds it.
    #[inline(always)]
    pub(crate) fn operand<'a, T: Lane>(&'a self, source: &Source, space: &'a mut Lanes) -> &'a Lanes {
        let plain = !source.negate && !source.absolute && !(T::HALF && source.high);
        if plain {
            return self.raw(source, space);
        }
        let mut bits = *self.raw(source, space);
        let shift = if T::HALF && source.high { 16 } else { 0 };
        let keep = if source.absolute { !T::SIGN } else { !0 };
        let flip = if source.negate { T::SIGN } else { 0 };
        for lane in 0..WAVE {
            bits.0[lane] = ((bits.0[lane] >> shift) & keep) ^ flip;
        }
        *space = bits;
        space
    }

    /// Writes 32 bits in the active lanes.
    #[inline(always)]
    pub(crate) fn write(&mut self, index: u16, result: &Lanes) {
        let exec = self.exec();
        let register = &mut self.vector[usize::from(index) & REGISTER_MASK];
        if exec == u32::MAX {
            *register = *result;
            return;
        }
        for lane in 0..WAVE {
            let mask = 0u32.wrapping_sub((exec >> lane) & 1);
            register.0[lane] = (result.0[lane] & mask) | (register.0[lane] & !mask);
        }
    }

    /// Writes 16 bits in the active lanes. The other half of the register keeps its value.
    #[inline(always)]
    pub(crate) fn write_half(&mut self, index: u16, high: bool, result: &Lanes) {
        let old = &self.vector[usize::from(index) & REGISTER_MASK];
        let mut merged = Lanes::ZERO;
        for lane in 0..WAVE {
            let (low_part, high_part) = (result.0[lane] & 0xffff, old.0[lane] & 0xffff_0000);
            let into_high = (result.0[lane] << 16) | (old.0[lane] & 0xffff);
            merged.0[lane] = if high { into_high } else { low_part | high_part };
        }
        self.write(index, &merged);
    }

    /// Writes an instruction's result with its output modifiers.
    #[inline(always)]
    pub(crate) fn finish<T: Lane>(&mut self, instruction: &Instruction, result: &mut Lanes) {
        if T::FLOAT && (instruction.clamp || instruction.scale != 1.0) {
            for bits in &mut result.0 {
                *bits = T::modify(*bits, instruction.scale, instruction.clamp);
            }
        }
        if T::HALF {
            self.write_half(instruction.destination, instruction.high, result);
        } else {
            self.write(instruction.destination, result);
        }
    }

    /// Writes one bit per active lane to a scalar register.
    #[inline(always)]
    pub(crate) fn write_mask(&mut self, index: u8, mask: u32) {
        let exec = self.exec();
        self.set_scalar(index, mask & exec);
    }

    /// Stops the wave with an error.
    #[cold]
    pub(crate) fn fail(&mut self, message: String) {
        self.stop = Stop::Fault;
        self.fault = message;
    }
}

/// The kind of an operand. It decides which part of a register the operand uses, and how constants are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operand {
    B32,
    /// Half of a register. Float constants are fp16.
    B16,
    /// Two registers. A literal is extended with zeros.
    B64,
    /// Two registers. A literal is extended with its sign.
    I64,
    /// Two registers. A literal is the upper half.
    F64,
    /// Two halves, each with its own selector. Float constants are fp16.
    Packed,
    /// A 32-bit float or half of a register. The operand's modifiers say which.
    Mixed,
    /// Two registers with a 32-bit number each. Constants are numbers of 32 bits.
    Pair,
}

/// A type of operands in a 32-bit register.
pub(crate) trait Lane {
    const OPERAND: Operand = Operand::B32;
    /// The type in which handlers compute.
    type Value;
    /// Whether the operand is half of a register.
    const HALF: bool = false;
    const FLOAT: bool = false;
    /// The bit that the sign modifiers change.
    const SIGN: u32 = 0x8000_0000;
    fn load(bits: u32) -> Self::Value;
    fn save(value: Self::Value) -> u32;
    /// Applies the output modifiers: the factor, then the clamp to 0..1.
    #[inline(always)]
    fn modify(bits: u32, _scale: f32, _clamp: bool) -> u32 {
        bits
    }
}

/// Scales and clamps as the hardware does: clamping turns NaNs into 0.
#[inline(always)]
fn modified(value: f32, scale: f32, clamp: bool) -> f32 {
    let scaled = value * scale;
    let clamped = if scaled > 0.0 { scaled.min(1.0) } else { 0.0 };
    if clamp { clamped } else { scaled }
}

macro_rules! lane {
    ($name:ident, $value:ty, $load:expr, $save:expr $(, $constant:ident: $kind:ty = $is:expr)* $(; $modify:item)?) => {
        #[allow(missing_docs, reason = "named after the instruction set's types")]
        pub(crate) struct $name;
        impl Lane for $name {
            type Value = $value;
            $(const $constant: $kind = $is;)*
            #[inline(always)]
            fn load(bits: u32) -> $value {
                ($load)(bits)
            }
            #[inline(always)]
            fn save(value: $value) -> u32 {
                ($save)(value)
            }
            $($modify)?
        }
    };
}

lane!(U32, u32, |bits| bits, |value| value);
lane!(I32, i32, |bits: u32| bits as i32, |value: i32| value as u32);
lane!(F32, f32, f32::from_bits, f32::to_bits, FLOAT: bool = true;
    #[inline(always)]
    fn modify(bits: u32, scale: f32, clamp: bool) -> u32 {
        modified(f32::from_bits(bits), scale, clamp).to_bits()
    }
);
lane!(U16, u32, |bits| bits & 0xffff, |value| value & 0xffff, HALF: bool = true, OPERAND: Operand = Operand::B16);
lane!(I16, i32, |bits: u32| i32::from(bits as u16 as i16), |value: i32| value as u32 & 0xffff, HALF: bool = true, OPERAND: Operand = Operand::B16);

/// fp16. Handlers compute in fp32, which has enough digits that a sum, a product, a quotient or a root is still rounded
/// correctly when it is converted to fp16.
pub(crate) struct F16;

impl Lane for F16 {
    const OPERAND: Operand = Operand::B16;
    type Value = f32;
    const HALF: bool = true;
    const FLOAT: bool = true;
    const SIGN: u32 = 0x8000;
    #[inline(always)]
    fn load(bits: u32) -> f32 {
        float::f16_to_f32(bits)
    }
    #[inline(always)]
    fn save(value: f32) -> u32 {
        float::f32_to_f16(value)
    }
    #[inline(always)]
    fn modify(bits: u32, scale: f32, clamp: bool) -> u32 {
        float::f32_to_f16(modified(float::f16_to_f32(bits), scale, clamp))
    }
}
