//! Buffer memory: accesses through a descriptor in four scalar registers. Loads outside of the descriptor's range
//! return zero, and stores outside of it do nothing. AMD's own libraries use buffer memory, and the engine's kernels do
//! not.

use super::access::{Form, accesses, load_lane, store_lane};
use crate::isa::table::{Row, handler};
use crate::isa::wave::{Instruction, REGISTER_MASK, Source, WAVE, Wave};

accesses! {
    /// Loads and stores. The instructions that invalidate caches do nothing, because the emulator has no caches.
    BUFFER, "buffer_":
    0x10 load_u8 = load(Form::Unsigned(1));
    0x11 load_i8 = load(Form::Signed(1));
    0x12 load_u16 = load(Form::Unsigned(2));
    0x13 load_i16 = load(Form::Signed(2));
    0x14 load_b32 = load(Form::Words(1));
    0x15 load_b64 = load(Form::Words(2));
    0x16 load_b96 = load(Form::Words(3));
    0x17 load_b128 = load(Form::Words(4));
    0x18 store_b8 = store(Form::Unsigned(1));
    0x19 store_b16 = store(Form::Unsigned(2));
    0x1a store_b32 = store(Form::Words(1));
    0x1b store_b64 = store(Form::Words(2));
    0x1c store_b96 = store(Form::Words(3));
    0x1d store_b128 = store(Form::Words(4));
    0x1e load_d16_u8 = load(Form::LowUnsigned(1));
    0x1f load_d16_i8 = load(Form::LowSigned(1));
    0x20 load_d16_b16 = load(Form::LowUnsigned(2));
    0x21 load_d16_hi_u8 = load(Form::HighUnsigned(1));
    0x22 load_d16_hi_i8 = load(Form::HighSigned(1));
    0x23 load_d16_hi_b16 = load(Form::HighUnsigned(2));
    0x24 store_d16_hi_b8 = store(Form::HighUnsigned(1));
    0x25 store_d16_hi_b16 = store(Form::HighUnsigned(2));
    0x2b gl0_inv = nothing();
    0x2c gl1_inv = nothing();
}

#[inline(always)]
fn nothing(_wave: &mut Wave, _instruction: &Instruction) {}

/// The address and the size in bytes of a buffer, from its descriptor.
struct Buffer {
    base: u64,
    bytes: u64,
}

/// The buffer of an instruction. Its second source is the first of the descriptor's four scalar registers. The emulator
/// has only raw buffers, whose range is in bytes: no stride, no swizzle, no index from the lane's number.
fn buffer(wave: &mut Wave, instruction: &Instruction) -> Option<Buffer> {
    let first = instruction.sources[1].index as u8;
    let word = |number: u8| wave.uniform(&Source::scalar(first + number));
    let (low, high, bytes, format) = (word(0), word(1), word(2), word(3));
    let raw = (format >> 28) & 3 == 3;
    if high >> 16 != 0 || !raw || (format >> 23) & 1 != 0 {
        let message =
            format!("{}: unknown descriptor {low:#x} {high:#x} {bytes:#x} {format:#x}", instruction.name);
        wave.fail(message);
        return None;
    }
    Some(Buffer { base: u64::from(low) | u64::from(high & 0xffff) << 32, bytes: u64::from(bytes) })
}

/// Each lane's offset into the buffer, and the scalar offset. The sources are the vector offset (if the decoder has set
/// the flag `high`), the descriptor, and the scalar offset.
fn offsets(wave: &Wave, instruction: &Instruction) -> ([u64; WAVE], u64) {
    let own = wave.vector[usize::from(instruction.sources[0].index) & REGISTER_MASK].0;
    let immediate = instruction.immediate as u64;
    let offsets = own.map(|offset| if instruction.high { u64::from(offset) + immediate } else { immediate });
    (offsets, u64::from(wave.uniform(&instruction.sources[2])))
}

/// Whether the `bytes` bytes at the sum of both offsets are inside the buffer.
fn within(buffer: &Buffer, offset: u64, scalar: u64, bytes: u64) -> bool {
    offset + scalar + bytes <= buffer.bytes
}

/// Loads the words that are in range, and sets the others to zero.
#[inline(always)]
fn load(wave: &mut Wave, instruction: &Instruction, form: Form) {
    let exec = wave.exec();
    let Some(buffer) = buffer(wave, instruction) else { return };
    let (offsets, scalar) = offsets(wave, instruction);
    // A lane that is out of range reads these zeros.
    let zeros = [0_u8; 16];
    for (lane, &offset) in offsets.iter().enumerate() {
        if (exec >> lane) & 1 == 0 {
            continue;
        }
        let address = buffer.base.wrapping_add(offset).wrapping_add(scalar);
        if within(&buffer, offset, scalar, form.bytes() as u64) {
            if !wave.allowed(instruction, lane, address, form.bytes(), false) {
                return;
            }
            let from = std::ptr::with_exposed_provenance(address as usize);
            // SAFETY: the range was checked just now.
            unsafe { load_lane(wave, instruction.destination, lane, from, form) };
            continue;
        }
        // SAFETY: no form has more bytes than there are zeros.
        unsafe { load_lane(wave, instruction.destination, lane, zeros.as_ptr(), form) };
        let Form::Words(count) = form else { continue };
        for word in (0..count).take_while(|&word| within(&buffer, offset, scalar, 4 * word as u64 + 4)) {
            let place = address + 4 * word as u64;
            if !wave.allowed(instruction, lane, place, 4, false) {
                return;
            }
            let from = std::ptr::with_exposed_provenance(place as usize);
            // SAFETY: the range was checked just now.
            unsafe { load_lane(wave, instruction.destination + word as u16, lane, from, Form::Words(1)) };
        }
    }
}

/// Stores the words that are in range.
#[inline(always)]
fn store(wave: &mut Wave, instruction: &Instruction, form: Form) {
    let exec = wave.exec();
    let Some(buffer) = buffer(wave, instruction) else { return };
    let (offsets, scalar) = offsets(wave, instruction);
    for (lane, &offset) in offsets.iter().enumerate() {
        if (exec >> lane) & 1 == 0 {
            continue;
        }
        let (unit, count) = if let Form::Words(count) = form { (Form::Words(1), count) } else { (form, 1) };
        let bytes = unit.bytes();
        for part in 0..count {
            let further = (part * bytes) as u64;
            if !within(&buffer, offset + further, scalar, bytes as u64) {
                break;
            }
            let address = buffer.base.wrapping_add(offset).wrapping_add(scalar) + further;
            if !wave.allowed(instruction, lane, address, bytes, true) {
                return;
            }
            let to = std::ptr::with_exposed_provenance_mut(address as usize);
            // SAFETY: the range was checked just now.
            unsafe { store_lane(wave, instruction.destination + part as u16, lane, to, unit) };
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::isa::decode::Program;
    use crate::isa::decode::family::Family;
    use crate::isa::wave::{EXEC, Stop, Wave};
    use crate::memory::{self, Place, Regions};

    /// Runs an instruction. The descriptor in s8 to s11 has a range of `bytes` bytes, and v9 holds each lane's offset.
    fn run(words: [u32; 2], memory: u64, bytes: u32) -> Box<Wave> {
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let program = Program::decode(Family::of("gfx1100").unwrap(), &code, 0, 0);
        let regions = Regions::of(5, (0, 0));
        let mut wave = Wave::new();
        wave.start(0, &crate::isa::wave::Registers { lanes: 32, vector: 64, accumulators: 0 });
        wave.regions = &regions;
        wave.set_scalar(EXEC, 0xffff_fffe);
        wave.set_scalar64(8, memory);
        wave.set_scalar(10, bytes);
        wave.set_scalar(11, 0x3100_4000);
        wave.set_scalar(5, 16);
        for lane in 0..32 {
            wave.vector[9].0[lane] = if lane == 7 { 0x8000_0000 } else { 4 * lane as u32 };
            wave.vector[3].0[lane] = 1000 + lane as u32;
        }
        // SAFETY: the instruction was decoded just now, for a machine that has the handlers' instructions.
        unsafe { (program.instructions[0].execute)(&mut wave, &program.instructions[0]) };
        wave
    }

    #[test]
    fn buffers_end_where_their_descriptor_says() {
        if !crate::isa::available() {
            return;
        }
        let memory = memory::allocate(256, Place::Device(5)).unwrap();
        let start: *mut u32 = std::ptr::with_exposed_provenance_mut(memory as usize);
        for i in 0..64 {
            // SAFETY: 64 words are allocated there.
            unsafe { start.add(i).write(i as u32) };
        }
        // buffer_load_b128 v[4:7], v9, s[8:11], s5 offen offset:16
        let wave = run([0xe05c_0010, 0x0542_0409], memory, 128);
        assert_eq!(wave.stop, Stop::Running, "{}", wave.fault);
        for lane in 1..32 {
            for word in 0..4 {
                // The immediate and the scalar offset are 16 bytes each. Words past 128 bytes and lane 7 are zero.
                let index = lane + 8 + word;
                let expected = if lane == 7 || index >= 32 { 0 } else { index as u32 };
                assert_eq!(wave.vector[4 + word].0[lane], expected, "lane {lane}, word {word}");
            }
        }
        assert_ne!(wave.vector[4].0[0], 8, "lane 0 is inactive");
        // buffer_store_b32 v3, v9, s[8:11], 0 offen: 10 lanes are in range, but lane 0 is inactive.
        let wave = run([0xe068_0000, 0x8042_0309], memory, 40);
        assert_eq!(wave.stop, Stop::Running, "{}", wave.fault);
        // SAFETY: 64 words are allocated there.
        let after = unsafe { std::slice::from_raw_parts(start, 64) };
        for (i, &word) in after.iter().enumerate() {
            let stored = (1..10).contains(&i) && i != 7;
            assert_eq!(word, if stored { 1000 + i as u32 } else { i as u32 }, "word {i}");
        }
        // The range of this descriptor reaches past the end of the allocation.
        let wave = run([0xe068_0000, 0x8042_0309], memory + 160, 128);
        assert!(
            wave.stop == Stop::Fault && wave.fault.contains("of an allocation of 256 bytes"),
            "{}",
            wave.fault
        );
        memory::free(memory, |_| true).unwrap();
    }
}
