//! Memory instructions: scalar loads, global and flat memory, LDS, and the exchange of numbers between lanes
//! through its wires.

use super::table::{Row, handler};
use super::wave::{Instruction, Kind, Lanes, NULL, SCRATCH_SOURCE, SHARED_APERTURE, WAVE, Wave};

/// Rows of instructions whose handler is a call with constants.
macro_rules! accesses {
    ($(#[$attribute:meta])* $table:ident: $($opcode:literal $name:ident = $function:ident($($argument:expr),*);)*) => {
        $(#[$attribute])*
        pub(crate) const $table: &[Row] = &[$(Row::whole($opcode, stringify!($name), $name)),*];
        $(handler! { fn $name(wave, instruction) { $function(wave, instruction $(, $argument)*); } })*
    };
}

/// What a load or store moves, and where in a register it belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// So many whole registers.
    Words(usize),
    /// One byte or two, extended with zeros or the sign.
    Unsigned(usize),
    Signed(usize),
    /// One byte or two, extended to 16 bits; into the lower half or the upper, the other stays.
    LowUnsigned(usize),
    LowSigned(usize),
    HighUnsigned(usize),
    HighSigned(usize),
}

impl Form {
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Words(count) => 4 * count,
            Self::Unsigned(bytes)
            | Self::Signed(bytes)
            | Self::LowUnsigned(bytes)
            | Self::LowSigned(bytes)
            | Self::HighUnsigned(bytes)
            | Self::HighSigned(bytes) => bytes,
        }
    }
}

/// What an atomic instruction makes of the old value and its operand(s).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Atomic {
    Swap,
    Compare,
    Add,
    Sub,
    MinSigned,
    MinUnsigned,
    MaxSigned,
    MaxUnsigned,
    And,
    Or,
    Xor,
    Increment,
    Decrement,
    AddFloat,
    MinFloat,
    MaxFloat,
}

impl Atomic {
    /// The new value; `compare` is the second operand of [`Atomic::Compare`].
    fn apply(self, old: u32, operand: u32, compare: u32) -> u32 {
        let float = |f: fn(f32, f32) -> f32| f(f32::from_bits(old), f32::from_bits(operand)).to_bits();
        match self {
            Self::Swap => operand,
            Self::Compare => {
                if old == compare {
                    operand
                } else {
                    old
                }
            }
            Self::Add => old.wrapping_add(operand),
            Self::Sub => old.wrapping_sub(operand),
            Self::MinSigned => (old as i32).min(operand as i32) as u32,
            Self::MinUnsigned => old.min(operand),
            Self::MaxSigned => (old as i32).max(operand as i32) as u32,
            Self::MaxUnsigned => old.max(operand),
            Self::And => old & operand,
            Self::Or => old | operand,
            Self::Xor => old ^ operand,
            Self::Increment => {
                if old >= operand {
                    0
                } else {
                    old + 1
                }
            }
            Self::Decrement => {
                if old == 0 || old > operand {
                    operand
                } else {
                    old - 1
                }
            }
            Self::AddFloat => float(|a, b| a + b),
            Self::MinFloat => float(f32::min),
            Self::MaxFloat => float(f32::max),
        }
    }
}

/// Reads a number of at most four bytes.
///
/// # Safety
/// The address has so many bytes, which may be changed by other threads only under the emulated program's own rules.
#[inline(always)]
unsafe fn read(address: *const u8, bytes: usize) -> u32 {
    // SAFETY: the caller has checked the range.
    unsafe {
        match bytes {
            1 => u32::from(address.read()),
            2 => u32::from(address.cast::<u16>().read_unaligned()),
            _ => address.cast::<u32>().read_unaligned(),
        }
    }
}

/// Writes a number of at most four bytes.
///
/// # Safety
/// As for [`read`].
#[inline(always)]
unsafe fn write(address: *mut u8, bytes: usize, value: u32) {
    // SAFETY: the caller has checked the range.
    unsafe {
        match bytes {
            1 => address.write(value as u8),
            2 => address.cast::<u16>().write_unaligned(value as u16),
            _ => address.cast::<u32>().write_unaligned(value),
        }
    }
}

impl Wave {
    /// Whether the kernel may touch these bytes; a fault otherwise.
    #[inline(always)]
    pub(super) fn allowed(
        &mut self,
        instruction: &Instruction,
        lane: usize,
        address: u64,
        bytes: usize,
        store: bool,
    ) -> bool {
        let end = address.wrapping_add(bytes as u64);
        if address >= self.recent.0 && end <= self.recent.1 && address < end {
            return true;
        }
        // SAFETY: a launch keeps its regions until all of its waves are done.
        match unsafe { &*self.regions }.find(address, bytes) {
            Some(region) => {
                self.recent = region;
                true
            }
            None => {
                self.stray(instruction, lane, address, bytes, store);
                false
            }
        }
    }

    #[cold]
    fn stray(&mut self, instruction: &Instruction, lane: usize, address: u64, bytes: usize, store: bool) {
        let action = if store { "writes" } else { "reads" };
        // SAFETY: a launch keeps its regions until all of its waves are done.
        let near = unsafe { &*self.regions }.describe(address);
        let message =
            format!("{} of lane {lane} {action} {bytes} bytes at {address:#x}: {near}", instruction.name);
        self.fail(message);
    }

    /// Whether LDS has these bytes; a fault otherwise.
    #[inline(always)]
    fn allowed_lds(&mut self, instruction: &Instruction, lane: usize, offset: u64, bytes: usize) -> bool {
        if offset + bytes as u64 <= u64::from(self.lds_bytes) {
            return true;
        }
        let size = self.lds_bytes;
        self.fail(format!(
            "{} of lane {lane}: {bytes} bytes at {offset:#x} of {size:#x} bytes of LDS",
            instruction.name
        ));
        false
    }
}

/// Loads a lane's numbers into registers from `destination` on.
///
/// # Safety
/// The address has as many bytes as the form.
#[inline(always)]
pub(super) unsafe fn load_lane(
    wave: &mut Wave,
    destination: u16,
    lane: usize,
    address: *const u8,
    form: Form,
) {
    let register = usize::from(destination);
    if let Form::Words(count) = form {
        for word in 0..count {
            // SAFETY: within the form's bytes.
            wave.vector[(register + word) & 511].0[lane] = unsafe { read(address.add(4 * word), 4) };
        }
        return;
    }
    // SAFETY: exactly the form's bytes.
    let bits = unsafe { read(address, form.bytes()) };
    let extended = match form {
        Form::Signed(1) | Form::LowSigned(1) | Form::HighSigned(1) => i32::from(bits as i8) as u32,
        Form::Signed(_) | Form::LowSigned(_) | Form::HighSigned(_) => i32::from(bits as i16) as u32,
        _ => bits,
    };
    let out = &mut wave.vector[register & 511].0[lane];
    *out = match form {
        Form::LowUnsigned(_) | Form::LowSigned(_) => (*out & 0xffff_0000) | (extended & 0xffff),
        Form::HighUnsigned(_) | Form::HighSigned(_) => (*out & 0xffff) | extended << 16,
        _ => extended,
    };
}

/// Stores a lane's numbers from registers from `source` on.
///
/// # Safety
/// As for [`load_lane`].
#[inline(always)]
pub(super) unsafe fn store_lane(wave: &Wave, source: u16, lane: usize, address: *mut u8, form: Form) {
    let register = usize::from(source);
    match form {
        Form::Words(count) => {
            for word in 0..count {
                // SAFETY: within the form's bytes.
                unsafe { write(address.add(4 * word), 4, wave.vector[(register + word) & 511].0[lane]) };
            }
        }
        Form::HighUnsigned(bytes) | Form::HighSigned(bytes) => {
            // SAFETY: exactly the form's bytes.
            unsafe { write(address, bytes, wave.vector[register & 511].0[lane] >> 16) };
        }
        // SAFETY: exactly the form's bytes.
        _ => unsafe { write(address, form.bytes(), wave.vector[register & 511].0[lane]) },
    }
}

/// Each lane's address. Sources: the vector address, then the scalar base or nothing.
#[inline(always)]
fn addresses(wave: &Wave, instruction: &Instruction) -> [u64; WAVE] {
    let [vector, base, _] = &instruction.sources;
    let low = &wave.vector[usize::from(vector.index & 511)].0;
    let offset = instruction.immediate as u64;
    let mut result = [0; WAVE];
    if base.kind == Kind::Scalar && base.index != u16::from(NULL) {
        let start = wave.uniform64(base).wrapping_add(offset);
        for lane in 0..WAVE {
            result[lane] = start.wrapping_add(u64::from(low[lane]));
        }
    } else {
        let high = &wave.vector[usize::from((vector.index + 1) & 511)].0;
        for lane in 0..WAVE {
            result[lane] = (u64::from(low[lane]) | u64::from(high[lane]) << 32).wrapping_add(offset);
        }
    }
    result
}

/// The byte an address of a global or flat instruction means, after all checks.
#[inline(always)]
fn locate(
    wave: &mut Wave,
    instruction: &Instruction,
    lane: usize,
    address: u64,
    bytes: usize,
    (flat, store): (bool, bool),
) -> Option<*mut u8> {
    if flat && (address >> 32) as u32 == SHARED_APERTURE {
        let offset = address & 0xffff_ffff;
        // SAFETY: LDS has so many bytes.
        return wave
            .allowed_lds(instruction, lane, offset, bytes)
            .then(|| unsafe { wave.lds.add(offset as usize) });
    }
    wave.allowed(instruction, lane, address, bytes, store)
        .then(|| std::ptr::with_exposed_provenance_mut(address as usize))
}

#[inline(always)]
fn load(wave: &mut Wave, instruction: &Instruction, flat: bool, form: Form) {
    let (exec, addresses) = (wave.exec(), addresses(wave, instruction));
    for (lane, &address) in addresses.iter().enumerate() {
        if (exec >> lane) & 1 == 1 {
            let Some(from) = locate(wave, instruction, lane, address, form.bytes(), (flat, false)) else {
                return;
            };
            // SAFETY: checked just now.
            unsafe { load_lane(wave, instruction.destination, lane, from, form) };
        }
    }
}

#[inline(always)]
fn store(wave: &mut Wave, instruction: &Instruction, flat: bool, form: Form) {
    let (exec, addresses) = (wave.exec(), addresses(wave, instruction));
    for (lane, &address) in addresses.iter().enumerate() {
        if (exec >> lane) & 1 == 1 {
            let Some(to) = locate(wave, instruction, lane, address, form.bytes(), (flat, true)) else {
                return;
            };
            // SAFETY: checked just now.
            unsafe { store_lane(wave, instruction.sources[2].index, lane, to, form) };
        }
    }
}

/// Atomic operations of all kinds on global memory are atomic against each other: workgroups run in parallel.
#[inline(always)]
fn atomic(wave: &mut Wave, instruction: &Instruction, flat: bool, operation: Atomic) {
    use std::sync::atomic::{AtomicU32, Ordering};
    let (exec, addresses) = (wave.exec(), addresses(wave, instruction));
    let data = usize::from(instruction.sources[2].index);
    for (lane, &address) in addresses.iter().enumerate() {
        if (exec >> lane) & 1 == 0 {
            continue;
        }
        let Some(place) = locate(wave, instruction, lane, address, 4, (flat, true)) else { return };
        if address % 4 != 0 {
            wave.fail(format!("{} of lane {lane} at {address:#x}: not aligned", instruction.name));
            return;
        }
        let operand = wave.vector[data & 511].0[lane];
        let compare = wave.vector[(data + 1) & 511].0[lane];
        // SAFETY: checked and aligned; the emulated program reaches it through this type or plain loads.
        let place = unsafe { AtomicU32::from_ptr(place.cast()) };
        let change = |old| Some(operation.apply(old, operand, compare));
        let old = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).unwrap_or_default();
        // Here this flag says that the old value is wanted.
        if instruction.high {
            wave.vector[usize::from(instruction.destination) & 511].0[lane] = old;
        }
    }
}

#[inline(always)]
fn lds_load(wave: &mut Wave, instruction: &Instruction, form: Form) {
    let (exec, offset) = (wave.exec(), instruction.immediate as u64);
    let base = wave.vector[usize::from(instruction.sources[0].index & 511)];
    for lane in 0..WAVE {
        if (exec >> lane) & 1 == 1 {
            let place = u64::from(base.0[lane]) + offset;
            if !wave.allowed_lds(instruction, lane, place, form.bytes()) {
                return;
            }
            // SAFETY: checked just now.
            unsafe { load_lane(wave, instruction.destination, lane, wave.lds.add(place as usize), form) };
        }
    }
}

#[inline(always)]
fn lds_store(wave: &mut Wave, instruction: &Instruction, form: Form) {
    let (exec, offset) = (wave.exec(), instruction.immediate as u64);
    let base = wave.vector[usize::from(instruction.sources[0].index & 511)];
    for lane in 0..WAVE {
        if (exec >> lane) & 1 == 1 {
            let place = u64::from(base.0[lane]) + offset;
            if !wave.allowed_lds(instruction, lane, place, form.bytes()) {
                return;
            }
            // SAFETY: checked just now.
            unsafe {
                store_lane(wave, instruction.sources[1].index, lane, wave.lds.add(place as usize), form)
            };
        }
    }
}

handler! {
    /// Two loads or stores in one, each with an offset of its own. The address register may be one of those loaded,
    /// so both use a copy.
    fn lds_pair(wave, instruction) {
        let Some([first, second]) = instruction.inner.as_deref() else { return };
        let address = wave.vector[usize::from(instruction.sources[0].index & 511)];
        wave.vector[usize::from(SCRATCH_SOURCE)] = address;
        // SAFETY: decoded like any other load or store.
        unsafe { (first.execute)(wave, first) };
        // SAFETY: as above.
        unsafe { (second.execute)(wave, second) };
    }
}

#[inline(always)]
fn lds_atomic(wave: &mut Wave, instruction: &Instruction, operation: Atomic, returns: bool) {
    let (exec, offset) = (wave.exec(), instruction.immediate as u64);
    let base = wave.vector[usize::from(instruction.sources[0].index & 511)];
    let first = wave.vector[usize::from(instruction.sources[1].index & 511)];
    let second = wave.vector[usize::from(instruction.sources[2].index & 511)];
    for lane in 0..WAVE {
        if (exec >> lane) & 1 == 1 {
            let place = u64::from(base.0[lane]) + offset;
            if !wave.allowed_lds(instruction, lane, place, 4) {
                return;
            }
            // SAFETY: checked just now; a workgroup's waves run one at a time.
            let old = unsafe { read(wave.lds.add(place as usize), 4) };
            // SAFETY: as above.
            unsafe {
                write(wave.lds.add(place as usize), 4, operation.apply(old, first.0[lane], second.0[lane]))
            };
            if returns {
                wave.vector[usize::from(instruction.destination) & 511].0[lane] = old;
            }
        }
    }
}

/// Lanes read each other's numbers: backward, each names the lane it reads; forward, the lane it writes.
#[inline(always)]
fn lds_permute(wave: &mut Wave, instruction: &Instruction, backward: bool) {
    let exec = wave.exec();
    let offset = instruction.immediate as u32;
    let base = wave.vector[usize::from(instruction.sources[0].index & 511)];
    let data = wave.vector[usize::from(instruction.sources[1].index & 511)];
    let mut result = Lanes::ZERO;
    for lane in 0..WAVE {
        let other = (base.0[lane].wrapping_add(offset) >> 2) as usize & (WAVE - 1);
        if backward {
            result.0[lane] = if (exec >> other) & 1 == 1 { data.0[other] } else { 0 };
        } else if (exec >> lane) & 1 == 1 {
            result.0[other] = data.0[lane];
        }
    }
    wave.write(instruction.destination, &result);
}

/// A fixed exchange between lanes that the offset encodes: within four, or by masks within 32.
#[inline(always)]
fn lds_swizzle(wave: &mut Wave, instruction: &Instruction) {
    let (exec, code) = (wave.exec(), instruction.immediate as usize);
    let data = wave.vector[usize::from(instruction.sources[0].index & 511)];
    let mut result = Lanes::ZERO;
    for lane in 0..WAVE {
        let other = if code >= 0xe000 {
            wave.fail(format!("{} {code:#x}: this pattern is not there", instruction.name));
            return;
        } else if code & 0x8000 != 0 {
            (lane & !3) | ((code >> (2 * (lane & 3))) & 3)
        } else {
            ((lane & code) | ((code >> 5) & 31)) ^ ((code >> 10) & 31)
        };
        result.0[lane] = if (exec >> other) & 1 == 1 { data.0[other] } else { 0 };
    }
    wave.write(instruction.destination, &result);
}

/// Scalar loads of so many words. Sources: the base, and an offset in a register or nothing.
#[inline(always)]
fn scalar_load(wave: &mut Wave, instruction: &Instruction, words: usize) {
    let base = wave.uniform64(&instruction.sources[0]);
    let offset = u64::from(wave.uniform(&instruction.sources[1]));
    let address = base.wrapping_add(offset).wrapping_add(instruction.immediate as u64) & !3;
    if !wave.allowed(instruction, 0, address, 4 * words, false) {
        return;
    }
    let from: *const u8 = std::ptr::with_exposed_provenance(address as usize);
    for word in 0..words {
        // SAFETY: checked above.
        let value = unsafe { read(from.add(4 * word), 4) };
        wave.set_scalar(instruction.scalar + word as u8, value);
    }
}

#[inline(always)]
fn nothing(_wave: &mut Wave, _instruction: &Instruction) {}

accesses! {
    /// Global memory.
    GLOBAL:
    0x10 global_load_u8 = load(false, Form::Unsigned(1));
    0x11 global_load_i8 = load(false, Form::Signed(1));
    0x12 global_load_u16 = load(false, Form::Unsigned(2));
    0x13 global_load_i16 = load(false, Form::Signed(2));
    0x14 global_load_b32 = load(false, Form::Words(1));
    0x15 global_load_b64 = load(false, Form::Words(2));
    0x16 global_load_b96 = load(false, Form::Words(3));
    0x17 global_load_b128 = load(false, Form::Words(4));
    0x18 global_store_b8 = store(false, Form::Unsigned(1));
    0x19 global_store_b16 = store(false, Form::Unsigned(2));
    0x1a global_store_b32 = store(false, Form::Words(1));
    0x1b global_store_b64 = store(false, Form::Words(2));
    0x1c global_store_b96 = store(false, Form::Words(3));
    0x1d global_store_b128 = store(false, Form::Words(4));
    0x1e global_load_d16_u8 = load(false, Form::LowUnsigned(1));
    0x1f global_load_d16_i8 = load(false, Form::LowSigned(1));
    0x20 global_load_d16_b16 = load(false, Form::LowUnsigned(2));
    0x21 global_load_d16_hi_u8 = load(false, Form::HighUnsigned(1));
    0x22 global_load_d16_hi_i8 = load(false, Form::HighSigned(1));
    0x23 global_load_d16_hi_b16 = load(false, Form::HighUnsigned(2));
    0x24 global_store_d16_hi_b8 = store(false, Form::HighUnsigned(1));
    0x25 global_store_d16_hi_b16 = store(false, Form::HighUnsigned(2));
    0x33 global_atomic_swap_b32 = atomic(false, Atomic::Swap);
    0x34 global_atomic_cmpswap_b32 = atomic(false, Atomic::Compare);
    0x35 global_atomic_add_u32 = atomic(false, Atomic::Add);
    0x36 global_atomic_sub_u32 = atomic(false, Atomic::Sub);
    0x38 global_atomic_min_i32 = atomic(false, Atomic::MinSigned);
    0x39 global_atomic_min_u32 = atomic(false, Atomic::MinUnsigned);
    0x3a global_atomic_max_i32 = atomic(false, Atomic::MaxSigned);
    0x3b global_atomic_max_u32 = atomic(false, Atomic::MaxUnsigned);
    0x3c global_atomic_and_b32 = atomic(false, Atomic::And);
    0x3d global_atomic_or_b32 = atomic(false, Atomic::Or);
    0x3e global_atomic_xor_b32 = atomic(false, Atomic::Xor);
    0x3f global_atomic_inc_u32 = atomic(false, Atomic::Increment);
    0x40 global_atomic_dec_u32 = atomic(false, Atomic::Decrement);
    0x51 global_atomic_min_f32 = atomic(false, Atomic::MinFloat);
    0x52 global_atomic_max_f32 = atomic(false, Atomic::MaxFloat);
    0x56 global_atomic_add_f32 = atomic(false, Atomic::AddFloat);
}

accesses! {
    /// Flat memory.
    FLAT:
    0x10 flat_load_u8 = load(true, Form::Unsigned(1));
    0x11 flat_load_i8 = load(true, Form::Signed(1));
    0x12 flat_load_u16 = load(true, Form::Unsigned(2));
    0x13 flat_load_i16 = load(true, Form::Signed(2));
    0x14 flat_load_b32 = load(true, Form::Words(1));
    0x15 flat_load_b64 = load(true, Form::Words(2));
    0x16 flat_load_b96 = load(true, Form::Words(3));
    0x17 flat_load_b128 = load(true, Form::Words(4));
    0x18 flat_store_b8 = store(true, Form::Unsigned(1));
    0x19 flat_store_b16 = store(true, Form::Unsigned(2));
    0x1a flat_store_b32 = store(true, Form::Words(1));
    0x1b flat_store_b64 = store(true, Form::Words(2));
    0x1c flat_store_b96 = store(true, Form::Words(3));
    0x1d flat_store_b128 = store(true, Form::Words(4));
    0x1e flat_load_d16_u8 = load(true, Form::LowUnsigned(1));
    0x1f flat_load_d16_i8 = load(true, Form::LowSigned(1));
    0x20 flat_load_d16_b16 = load(true, Form::LowUnsigned(2));
    0x21 flat_load_d16_hi_u8 = load(true, Form::HighUnsigned(1));
    0x22 flat_load_d16_hi_i8 = load(true, Form::HighSigned(1));
    0x23 flat_load_d16_hi_b16 = load(true, Form::HighUnsigned(2));
    0x24 flat_store_d16_hi_b8 = store(true, Form::HighUnsigned(1));
    0x25 flat_store_d16_hi_b16 = store(true, Form::HighUnsigned(2));
    0x33 flat_atomic_swap_b32 = atomic(true, Atomic::Swap);
    0x34 flat_atomic_cmpswap_b32 = atomic(true, Atomic::Compare);
    0x35 flat_atomic_add_u32 = atomic(true, Atomic::Add);
    0x36 flat_atomic_sub_u32 = atomic(true, Atomic::Sub);
    0x38 flat_atomic_min_i32 = atomic(true, Atomic::MinSigned);
    0x39 flat_atomic_min_u32 = atomic(true, Atomic::MinUnsigned);
    0x3a flat_atomic_max_i32 = atomic(true, Atomic::MaxSigned);
    0x3b flat_atomic_max_u32 = atomic(true, Atomic::MaxUnsigned);
    0x3c flat_atomic_and_b32 = atomic(true, Atomic::And);
    0x3d flat_atomic_or_b32 = atomic(true, Atomic::Or);
    0x3e flat_atomic_xor_b32 = atomic(true, Atomic::Xor);
    0x3f flat_atomic_inc_u32 = atomic(true, Atomic::Increment);
    0x40 flat_atomic_dec_u32 = atomic(true, Atomic::Decrement);
    0x51 flat_atomic_min_f32 = atomic(true, Atomic::MinFloat);
    0x52 flat_atomic_max_f32 = atomic(true, Atomic::MaxFloat);
    0x56 flat_atomic_add_f32 = atomic(true, Atomic::AddFloat);
}

accesses! {
    /// Scalar memory.
    SCALAR_MEMORY:
    0x00 s_load_b32 = scalar_load(1);
    0x01 s_load_b64 = scalar_load(2);
    0x02 s_load_b128 = scalar_load(4);
    0x03 s_load_b256 = scalar_load(8);
    0x04 s_load_b512 = scalar_load(16);
    0x20 s_gl1_inv = nothing();
    0x21 s_dcache_inv = nothing();
}

accesses! {
    /// LDS.
    LDS:
    0x00 ds_add_u32 = lds_atomic(Atomic::Add, false);
    0x01 ds_sub_u32 = lds_atomic(Atomic::Sub, false);
    0x03 ds_inc_u32 = lds_atomic(Atomic::Increment, false);
    0x04 ds_dec_u32 = lds_atomic(Atomic::Decrement, false);
    0x05 ds_min_i32 = lds_atomic(Atomic::MinSigned, false);
    0x06 ds_max_i32 = lds_atomic(Atomic::MaxSigned, false);
    0x07 ds_min_u32 = lds_atomic(Atomic::MinUnsigned, false);
    0x08 ds_max_u32 = lds_atomic(Atomic::MaxUnsigned, false);
    0x09 ds_and_b32 = lds_atomic(Atomic::And, false);
    0x0a ds_or_b32 = lds_atomic(Atomic::Or, false);
    0x0b ds_xor_b32 = lds_atomic(Atomic::Xor, false);
    0x12 ds_min_f32 = lds_atomic(Atomic::MinFloat, false);
    0x13 ds_max_f32 = lds_atomic(Atomic::MaxFloat, false);
    0x15 ds_add_f32 = lds_atomic(Atomic::AddFloat, false);
    0x0d ds_store_b32 = lds_store(Form::Words(1));
    0x1e ds_store_b8 = lds_store(Form::Unsigned(1));
    0x1f ds_store_b16 = lds_store(Form::Unsigned(2));
    0x20 ds_add_rtn_u32 = lds_atomic(Atomic::Add, true);
    0x21 ds_sub_rtn_u32 = lds_atomic(Atomic::Sub, true);
    0x23 ds_inc_rtn_u32 = lds_atomic(Atomic::Increment, true);
    0x24 ds_dec_rtn_u32 = lds_atomic(Atomic::Decrement, true);
    0x25 ds_min_rtn_i32 = lds_atomic(Atomic::MinSigned, true);
    0x26 ds_max_rtn_i32 = lds_atomic(Atomic::MaxSigned, true);
    0x27 ds_min_rtn_u32 = lds_atomic(Atomic::MinUnsigned, true);
    0x28 ds_max_rtn_u32 = lds_atomic(Atomic::MaxUnsigned, true);
    0x29 ds_and_rtn_b32 = lds_atomic(Atomic::And, true);
    0x2a ds_or_rtn_b32 = lds_atomic(Atomic::Or, true);
    0x2b ds_xor_rtn_b32 = lds_atomic(Atomic::Xor, true);
    0x32 ds_min_rtn_f32 = lds_atomic(Atomic::MinFloat, true);
    0x33 ds_max_rtn_f32 = lds_atomic(Atomic::MaxFloat, true);
    0x79 ds_add_rtn_f32 = lds_atomic(Atomic::AddFloat, true);
    0x2d ds_storexchg_rtn_b32 = lds_atomic(Atomic::Swap, true);
    0x35 ds_swizzle_b32 = lds_swizzle();
    0x36 ds_load_b32 = lds_load(Form::Words(1));
    0x39 ds_load_i8 = lds_load(Form::Signed(1));
    0x3a ds_load_u8 = lds_load(Form::Unsigned(1));
    0x3b ds_load_i16 = lds_load(Form::Signed(2));
    0x3c ds_load_u16 = lds_load(Form::Unsigned(2));
    0x4d ds_store_b64 = lds_store(Form::Words(2));
    0x76 ds_load_b64 = lds_load(Form::Words(2));
    0xa0 ds_store_b8_d16_hi = lds_store(Form::HighUnsigned(1));
    0xa1 ds_store_b16_d16_hi = lds_store(Form::HighUnsigned(2));
    0xa2 ds_load_u8_d16 = lds_load(Form::LowUnsigned(1));
    0xa3 ds_load_u8_d16_hi = lds_load(Form::HighUnsigned(1));
    0xa4 ds_load_i8_d16 = lds_load(Form::LowSigned(1));
    0xa5 ds_load_i8_d16_hi = lds_load(Form::HighSigned(1));
    0xa6 ds_load_u16_d16 = lds_load(Form::LowUnsigned(2));
    0xa7 ds_load_u16_d16_hi = lds_load(Form::HighUnsigned(2));
    0xb2 ds_permute_b32 = lds_permute(false);
    0xb3 ds_bpermute_b32 = lds_permute(true);
    0xde ds_store_b96 = lds_store(Form::Words(3));
    0xdf ds_store_b128 = lds_store(Form::Words(4));
    0xfe ds_load_b96 = lds_load(Form::Words(3));
    0xff ds_load_b128 = lds_load(Form::Words(4));
}

/// The instructions that [`lds_pair`] does in two steps: opcode, name, opcode of a step, what an offset counts in
/// (bytes), registers of a step.
pub(crate) const LDS_PAIRS: &[(u16, &str, u16, i64, u16)] = &[
    (0x0e, "ds_store_2addr_b32", 0x0d, 4, 1),
    (0x0f, "ds_store_2addr_stride64_b32", 0x0d, 256, 1),
    (0x37, "ds_load_2addr_b32", 0x36, 4, 1),
    (0x38, "ds_load_2addr_stride64_b32", 0x36, 256, 1),
    (0x4e, "ds_store_2addr_b64", 0x4d, 8, 2),
    (0x4f, "ds_store_2addr_stride64_b64", 0x4d, 512, 2),
    (0x77, "ds_load_2addr_b64", 0x76, 8, 2),
    (0x78, "ds_load_2addr_stride64_b64", 0x76, 512, 2),
];
