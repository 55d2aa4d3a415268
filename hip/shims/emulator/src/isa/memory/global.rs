//! Global and flat memory. Both have the same instructions, but a flat address may also mean LDS.

use super::access::{Form, load_lane, store_lane};
use super::atomic::Atomic;
use crate::isa::wave::{Instruction, Kind, NULL, REGISTER_MASK, SHARED_APERTURE, WAVE, Wave};
use crate::settings::{Clock, settings};
use std::collections::BTreeSet;

/// The bytes of a line of the cache.
const LINE_BYTES: u64 = 128;

/// The memory that an instruction's addresses can mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    /// Only global memory.
    Global,
    /// LDS where the upper half of the address is [`SHARED_APERTURE`], and global memory otherwise.
    Flat,
}

/// Whether an access reads or writes, for the message of a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Read,
    Write,
}

/// Each lane's address. The sources are the vector address, and the scalar base or [`NULL`].
#[inline(always)]
fn addresses(wave: &Wave, instruction: &Instruction) -> [u64; WAVE] {
    let [vector, base, _] = &instruction.sources;
    let low = &wave.vector[usize::from(vector.index) & REGISTER_MASK].0;
    let offset = instruction.immediate as u64;
    let mut result = [0; WAVE];
    if base.kind == Kind::Scalar && base.index != u16::from(NULL) {
        let start = wave.uniform64(base).wrapping_add(offset);
        for lane in 0..WAVE {
            result[lane] = start.wrapping_add(u64::from(low[lane]));
        }
    } else {
        let high = &wave.vector[usize::from(vector.index + 1) & REGISTER_MASK].0;
        for lane in 0..WAVE {
            result[lane] = (u64::from(low[lane]) | u64::from(high[lane]) << 32).wrapping_add(offset);
        }
    }
    result
}

/// Checks a lane's access and returns the host's address of its first byte.
#[inline(always)]
fn locate(
    wave: &mut Wave,
    instruction: &Instruction,
    lane: usize,
    address: u64,
    bytes: usize,
    space: Space,
    action: Action,
) -> Option<*mut u8> {
    if space == Space::Flat && (address >> 32) as u32 == SHARED_APERTURE {
        let offset = address & 0xffff_ffff;
        // SAFETY: LDS has these bytes.
        return wave
            .allowed_lds(instruction, lane, offset, bytes)
            .then(|| unsafe { wave.lds.add(offset as usize) });
    }
    wave.allowed(instruction, lane, address, bytes, action == Action::Write)
        .then(|| std::ptr::with_exposed_provenance_mut(address as usize))
}

#[inline(always)]
fn load(wave: &mut Wave, instruction: &Instruction, space: Space, form: Form) {
    let (exec, addresses) = (wave.exec(), addresses(wave, instruction));
    if settings().clock == Clock::Lines {
        let active = (0..WAVE).filter(|lane| (exec >> lane) & 1 == 1);
        let lines: BTreeSet<u64> = active.map(|lane| addresses[lane] / LINE_BYTES).collect();
        wave.lines += lines.len() as u64;
    }
    for (lane, &address) in addresses.iter().enumerate() {
        if (exec >> lane) & 1 == 1 {
            let Some(from) = locate(wave, instruction, lane, address, form.bytes(), space, Action::Read)
            else {
                return;
            };
            // SAFETY: the range was checked just now.
            unsafe { load_lane(wave, instruction.destination, lane, from, form) };
        }
    }
}

#[inline(always)]
fn store(wave: &mut Wave, instruction: &Instruction, space: Space, form: Form) {
    let (exec, addresses) = (wave.exec(), addresses(wave, instruction));
    for (lane, &address) in addresses.iter().enumerate() {
        if (exec >> lane) & 1 == 1 {
            let Some(to) = locate(wave, instruction, lane, address, form.bytes(), space, Action::Write)
            else {
                return;
            };
            // SAFETY: the range was checked just now.
            unsafe { store_lane(wave, instruction.sources[2].index, lane, to, form) };
        }
    }
}

/// An atomic operation. Workgroups run in parallel, so the operation must be atomic in the host's memory, too.
#[inline(always)]
fn atomic(wave: &mut Wave, instruction: &Instruction, space: Space, operation: Atomic) {
    use std::sync::atomic::{AtomicU32, Ordering};
    let (exec, addresses) = (wave.exec(), addresses(wave, instruction));
    let data = usize::from(instruction.sources[2].index);
    for (lane, &address) in addresses.iter().enumerate() {
        if (exec >> lane) & 1 == 0 {
            continue;
        }
        let Some(place) = locate(wave, instruction, lane, address, 4, space, Action::Write) else { return };
        if address % 4 != 0 {
            let lane = lane + wave.first_lane;
            wave.fail(format!("{} of lane {lane} at {address:#x}: not aligned", instruction.name));
            return;
        }
        let operand = wave.vector[data & REGISTER_MASK].0[lane];
        let compare = wave.vector[(data + 1) & REGISTER_MASK].0[lane];
        // SAFETY: the address is checked and aligned, and the emulated program accesses it through this type or with
        // plain loads.
        let place = unsafe { AtomicU32::from_ptr(place.cast()) };
        let change = |old| Some(operation.apply(old, operand, compare));
        let old = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).unwrap_or_default();
        // The flag `high` of an atomic instruction means that it returns the old value.
        if instruction.high {
            wave.vector[usize::from(instruction.destination) & REGISTER_MASK].0[lane] = old;
        }
    }
}

/// Defines the table of instructions of an address space. Their names begin with the prefix.
macro_rules! address_space {
    ($(#[$attribute:meta])* $module:ident, $prefix:literal, $space:expr) => {
        $(#[$attribute])*
        pub(crate) mod $module {
            use crate::isa::table::{Row, handler};
            use crate::isa::wave::{Instruction, Wave};
            use crate::isa::memory::access::{Form, accesses};
            use crate::isa::memory::atomic::Atomic;
            use super::{Space, atomic, load, store};

            const SPACE: Space = $space;

            accesses! {
                /// All instructions of this address space.
                TABLE, $prefix:
                0x10 load_u8 = load(SPACE, Form::Unsigned(1));
                0x11 load_i8 = load(SPACE, Form::Signed(1));
                0x12 load_u16 = load(SPACE, Form::Unsigned(2));
                0x13 load_i16 = load(SPACE, Form::Signed(2));
                0x14 load_b32 = load(SPACE, Form::Words(1));
                0x15 load_b64 = load(SPACE, Form::Words(2));
                0x16 load_b96 = load(SPACE, Form::Words(3));
                0x17 load_b128 = load(SPACE, Form::Words(4));
                0x18 store_b8 = store(SPACE, Form::Unsigned(1));
                0x19 store_b16 = store(SPACE, Form::Unsigned(2));
                0x1a store_b32 = store(SPACE, Form::Words(1));
                0x1b store_b64 = store(SPACE, Form::Words(2));
                0x1c store_b96 = store(SPACE, Form::Words(3));
                0x1d store_b128 = store(SPACE, Form::Words(4));
                0x1e load_d16_u8 = load(SPACE, Form::LowUnsigned(1));
                0x1f load_d16_i8 = load(SPACE, Form::LowSigned(1));
                0x20 load_d16_b16 = load(SPACE, Form::LowUnsigned(2));
                0x21 load_d16_hi_u8 = load(SPACE, Form::HighUnsigned(1));
                0x22 load_d16_hi_i8 = load(SPACE, Form::HighSigned(1));
                0x23 load_d16_hi_b16 = load(SPACE, Form::HighUnsigned(2));
                0x24 store_d16_hi_b8 = store(SPACE, Form::HighUnsigned(1));
                0x25 store_d16_hi_b16 = store(SPACE, Form::HighUnsigned(2));
                0x33 atomic_swap_b32 = atomic(SPACE, Atomic::Swap);
                0x34 atomic_cmpswap_b32 = atomic(SPACE, Atomic::Compare);
                0x35 atomic_add_u32 = atomic(SPACE, Atomic::Add);
                0x36 atomic_sub_u32 = atomic(SPACE, Atomic::Sub);
                0x38 atomic_min_i32 = atomic(SPACE, Atomic::MinSigned);
                0x39 atomic_min_u32 = atomic(SPACE, Atomic::MinUnsigned);
                0x3a atomic_max_i32 = atomic(SPACE, Atomic::MaxSigned);
                0x3b atomic_max_u32 = atomic(SPACE, Atomic::MaxUnsigned);
                0x3c atomic_and_b32 = atomic(SPACE, Atomic::And);
                0x3d atomic_or_b32 = atomic(SPACE, Atomic::Or);
                0x3e atomic_xor_b32 = atomic(SPACE, Atomic::Xor);
                0x3f atomic_inc_u32 = atomic(SPACE, Atomic::Increment);
                0x40 atomic_dec_u32 = atomic(SPACE, Atomic::Decrement);
                0x51 atomic_min_f32 = atomic(SPACE, Atomic::MinFloat);
                0x52 atomic_max_f32 = atomic(SPACE, Atomic::MaxFloat);
                0x56 atomic_add_f32 = atomic(SPACE, Atomic::AddFloat);
            }
        }
    };
}

address_space! {
    /// `global_...`: addresses that mean global memory.
    global, "global_", Space::Global
}
address_space! {
    /// `flat_...`: addresses that mean global memory or LDS.
    flat, "flat_", Space::Flat
}
