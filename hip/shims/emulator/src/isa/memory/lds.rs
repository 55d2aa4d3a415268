//! LDS, a workgroup's shared memory, and the exchanges between lanes that use its crossbar.

use super::access::{Form, accesses, load_lane, read, store_lane, write};
use super::atomic::Atomic;
use crate::isa::table::{Row, handler};
use crate::isa::wave::{Instruction, Lanes, REGISTER_MASK, SCRATCH_SOURCE, WAVE, Wave};

#[inline(always)]
fn load(wave: &mut Wave, instruction: &Instruction, form: Form) {
    let (exec, offset) = (wave.exec(), instruction.immediate as u64);
    let base = wave.vector[usize::from(instruction.sources[0].index) & REGISTER_MASK];
    for lane in 0..WAVE {
        if (exec >> lane) & 1 == 1 {
            let place = u64::from(base.0[lane]) + offset;
            if !wave.allowed_lds(instruction, lane, place, form.bytes()) {
                return;
            }
            // SAFETY: the range was checked just now.
            unsafe { load_lane(wave, instruction.destination, lane, wave.lds.add(place as usize), form) };
        }
    }
}

#[inline(always)]
fn store(wave: &mut Wave, instruction: &Instruction, form: Form) {
    let (exec, offset) = (wave.exec(), instruction.immediate as u64);
    let base = wave.vector[usize::from(instruction.sources[0].index) & REGISTER_MASK];
    for lane in 0..WAVE {
        if (exec >> lane) & 1 == 1 {
            let place = u64::from(base.0[lane]) + offset;
            if !wave.allowed_lds(instruction, lane, place, form.bytes()) {
                return;
            }
            // SAFETY: the range was checked just now.
            unsafe {
                store_lane(wave, instruction.sources[1].index, lane, wave.lds.add(place as usize), form)
            };
        }
    }
}

handler! {
    /// Two loads or stores in one instruction, each with its own offset. Both read the address from a copy, because the
    /// first load may overwrite the address register.
    fn lds_pair(wave, instruction) {
        let Some([first, second]) = instruction.inner.as_deref() else { return };
        let address = wave.vector[usize::from(instruction.sources[0].index) & REGISTER_MASK];
        wave.vector[usize::from(SCRATCH_SOURCE)] = address;
        // SAFETY: the instruction was decoded like any other load or store.
        unsafe { (first.execute)(wave, first) };
        // SAFETY: the reason above applies here too.
        unsafe { (second.execute)(wave, second) };
    }
}

#[inline(always)]
fn atomic(wave: &mut Wave, instruction: &Instruction, operation: Atomic, returns: bool) {
    let (exec, offset) = (wave.exec(), instruction.immediate as u64);
    let base = wave.vector[usize::from(instruction.sources[0].index) & REGISTER_MASK];
    let first = wave.vector[usize::from(instruction.sources[1].index) & REGISTER_MASK];
    let second = wave.vector[usize::from(instruction.sources[2].index) & REGISTER_MASK];
    for lane in 0..WAVE {
        if (exec >> lane) & 1 == 1 {
            let place = u64::from(base.0[lane]) + offset;
            if !wave.allowed_lds(instruction, lane, place, 4) {
                return;
            }
            // SAFETY: the range was checked just now, and a workgroup's waves run one at a time.
            let old = unsafe { read(wave.lds.add(place as usize), 4) };
            // SAFETY: the reason above applies here too.
            unsafe {
                write(wave.lds.add(place as usize), 4, operation.apply(old, first.0[lane], second.0[lane]))
            };
            if returns {
                wave.vector[usize::from(instruction.destination) & REGISTER_MASK].0[lane] = old;
            }
        }
    }
}

/// Moves values between lanes. In the backward form each lane names the lane that it reads, and in the forward form the
/// lane that it writes.
#[inline(always)]
fn permute(wave: &mut Wave, instruction: &Instruction, backward: bool) {
    let exec = wave.exec();
    let offset = instruction.immediate as u32;
    let base = wave.vector[usize::from(instruction.sources[0].index) & REGISTER_MASK];
    let data = wave.vector[usize::from(instruction.sources[1].index) & REGISTER_MASK];
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

/// An exchange between lanes whose pattern the offset encodes: a permutation within each group of four lanes, or masks
/// for the number of the lane to read.
#[inline(always)]
fn swizzle(wave: &mut Wave, instruction: &Instruction) {
    let (exec, code) = (wave.exec(), instruction.immediate as usize);
    let data = wave.vector[usize::from(instruction.sources[0].index) & REGISTER_MASK];
    let mut result = Lanes::ZERO;
    for lane in 0..WAVE {
        let other = if code >= 0xc000 {
            wave.fail(format!("{} {code:#x}: the emulator does not know this pattern", instruction.name));
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

accesses! {
    /// DS, the instructions that use LDS.
    LDS, "":
    0x00 ds_add_u32 = atomic(Atomic::Add, false);
    0x01 ds_sub_u32 = atomic(Atomic::Sub, false);
    0x03 ds_inc_u32 = atomic(Atomic::Increment, false);
    0x04 ds_dec_u32 = atomic(Atomic::Decrement, false);
    0x05 ds_min_i32 = atomic(Atomic::MinSigned, false);
    0x06 ds_max_i32 = atomic(Atomic::MaxSigned, false);
    0x07 ds_min_u32 = atomic(Atomic::MinUnsigned, false);
    0x08 ds_max_u32 = atomic(Atomic::MaxUnsigned, false);
    0x09 ds_and_b32 = atomic(Atomic::And, false);
    0x0a ds_or_b32 = atomic(Atomic::Or, false);
    0x0b ds_xor_b32 = atomic(Atomic::Xor, false);
    0x12 ds_min_f32 = atomic(Atomic::MinFloat, false);
    0x13 ds_max_f32 = atomic(Atomic::MaxFloat, false);
    0x15 ds_add_f32 = atomic(Atomic::AddFloat, false);
    0x0d ds_store_b32 = store(Form::Words(1));
    0x1e ds_store_b8 = store(Form::Unsigned(1));
    0x1f ds_store_b16 = store(Form::Unsigned(2));
    0x20 ds_add_rtn_u32 = atomic(Atomic::Add, true);
    0x21 ds_sub_rtn_u32 = atomic(Atomic::Sub, true);
    0x23 ds_inc_rtn_u32 = atomic(Atomic::Increment, true);
    0x24 ds_dec_rtn_u32 = atomic(Atomic::Decrement, true);
    0x25 ds_min_rtn_i32 = atomic(Atomic::MinSigned, true);
    0x26 ds_max_rtn_i32 = atomic(Atomic::MaxSigned, true);
    0x27 ds_min_rtn_u32 = atomic(Atomic::MinUnsigned, true);
    0x28 ds_max_rtn_u32 = atomic(Atomic::MaxUnsigned, true);
    0x29 ds_and_rtn_b32 = atomic(Atomic::And, true);
    0x2a ds_or_rtn_b32 = atomic(Atomic::Or, true);
    0x2b ds_xor_rtn_b32 = atomic(Atomic::Xor, true);
    0x32 ds_min_rtn_f32 = atomic(Atomic::MinFloat, true);
    0x33 ds_max_rtn_f32 = atomic(Atomic::MaxFloat, true);
    0x79 ds_add_rtn_f32 = atomic(Atomic::AddFloat, true);
    0x2d ds_storexchg_rtn_b32 = atomic(Atomic::Swap, true);
    0x35 ds_swizzle_b32 = swizzle();
    0x36 ds_load_b32 = load(Form::Words(1));
    0x39 ds_load_i8 = load(Form::Signed(1));
    0x3a ds_load_u8 = load(Form::Unsigned(1));
    0x3b ds_load_i16 = load(Form::Signed(2));
    0x3c ds_load_u16 = load(Form::Unsigned(2));
    0x4d ds_store_b64 = store(Form::Words(2));
    0x76 ds_load_b64 = load(Form::Words(2));
    0xa0 ds_store_b8_d16_hi = store(Form::HighUnsigned(1));
    0xa1 ds_store_b16_d16_hi = store(Form::HighUnsigned(2));
    0xa2 ds_load_u8_d16 = load(Form::LowUnsigned(1));
    0xa3 ds_load_u8_d16_hi = load(Form::HighUnsigned(1));
    0xa4 ds_load_i8_d16 = load(Form::LowSigned(1));
    0xa5 ds_load_i8_d16_hi = load(Form::HighSigned(1));
    0xa6 ds_load_u16_d16 = load(Form::LowUnsigned(2));
    0xa7 ds_load_u16_d16_hi = load(Form::HighUnsigned(2));
    0xb2 ds_permute_b32 = permute(false);
    0xb3 ds_bpermute_b32 = permute(true);
    0xde ds_store_b96 = store(Form::Words(3));
    0xdf ds_store_b128 = store(Form::Words(4));
    0xfe ds_load_b96 = load(Form::Words(3));
    0xff ds_load_b128 = load(Form::Words(4));
}

/// What an instruction of [`lds_pair`] consists of.
pub(crate) struct Pair {
    pub(crate) name: &'static str,
    /// The instruction that makes a single access.
    pub(crate) step: &'static str,
    /// The unit of the offsets in bytes.
    pub(crate) unit: i64,
    /// The number of registers of a single access.
    pub(crate) registers: u16,
}

macro_rules! pairs {
    ($($opcode:literal $name:literal = $step:literal ($unit:literal, $registers:literal);)*) => {
        /// The instructions that make two accesses.
        pub(crate) const LDS_PAIR_ROWS: &[Row] = &[$(Row::whole($opcode, $name, lds_pair)),*];
        /// What the instructions of [`LDS_PAIR_ROWS`] consist of.
        pub(crate) const LDS_PAIRS: &[Pair] =
            &[$(Pair { name: $name, step: $step, unit: $unit, registers: $registers }),*];
    };
}

pairs! {
    0x0e "ds_store_2addr_b32" = "ds_store_b32" (4, 1);
    0x0f "ds_store_2addr_stride64_b32" = "ds_store_b32" (256, 1);
    0x37 "ds_load_2addr_b32" = "ds_load_b32" (4, 1);
    0x38 "ds_load_2addr_stride64_b32" = "ds_load_b32" (256, 1);
    0x4e "ds_store_2addr_b64" = "ds_store_b64" (8, 2);
    0x4f "ds_store_2addr_stride64_b64" = "ds_store_b64" (512, 2);
    0x77 "ds_load_2addr_b64" = "ds_load_b64" (8, 2);
    0x78 "ds_load_2addr_stride64_b64" = "ds_load_b64" (512, 2);
}
