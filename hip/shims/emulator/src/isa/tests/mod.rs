//! Compares each instruction of tests/fixtures/instructions.s, assembled by LLVM for each family that has it, with an
//! oracle that is independent of the handlers: plain Rust with fp64 and the `half` crate, one lane at a time.

use half::f16;

use super::decode::Program;
use super::decode::family::Family;
use super::halves::MASK;
use super::wave::{ACCUMULATOR, EXEC, Kind as SourceKind, Lanes, Registers, Source, Stop, UPPER, VCC, Wave};

mod cdna;
mod families;
mod lanes;
mod matrix;
mod one_lane;
mod waits;

/// The instructions by architecture. The names are gfx11's.
const FIXTURES: [(&str, &str); 6] = [
    ("gfx1100", include_str!("../../../tests/fixtures/instructions.txt")),
    ("gfx908", include_str!("../../../tests/fixtures/instructions_gfx908.txt")),
    ("gfx90a", include_str!("../../../tests/fixtures/instructions_gfx90a.txt")),
    ("gfx942", include_str!("../../../tests/fixtures/instructions_gfx942.txt")),
    ("gfx1030", include_str!("../../../tests/fixtures/instructions_gfx1030.txt")),
    ("gfx1200", include_str!("../../../tests/fixtures/instructions_gfx1200.txt")),
];
const WAVE: usize = 32;
const S4: u32 = 0x7654_3210;
const S5: u32 = 0xfedc_ba98;
const CARRY: u32 = 0x5a3c_96e1;

/// An instruction's bytes, and the architecture that they are for.
struct Code {
    architecture: &'static str,
    bytes: Vec<u8>,
}

impl Code {
    fn family(&self) -> &'static Family {
        Family::of(self.architecture).unwrap()
    }

    fn decode(&self) -> Program {
        Program::decode(self.family(), &self.bytes, 0, 0)
    }
}

/// Each instruction's text, without the suffixes of its encoding, and its code.
fn instructions() -> Vec<(String, Code)> {
    let parse = |architecture: &'static str, line: &str| {
        let (text, bytes) = line.rsplit_once('|').unwrap();
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        let short = name.trim_end_matches("_dpp").trim_end_matches("_e32").trim_end_matches("_e64");
        let bytes = bytes.split(',').map(|byte| u8::from_str_radix(&byte[2..], 16).unwrap()).collect();
        (format!("{short} {rest}").trim().to_owned(), Code { architecture, bytes })
    };
    FIXTURES.iter().flat_map(|&(name, text)| text.lines().map(move |line| parse(name, line))).collect()
}

/// Test operands of all kinds: random bits, floats of moderate size in fp32 or in two halves, small integers, extremes.
fn numbers(seed: u32) -> [u32; WAVE] {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    std::array::from_fn(|lane| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let float = (state >> 8) as f32 / 1_000_000.0 - 8.0;
        match (lane + seed as usize) % 6 {
            0 => state,
            1 => float.to_bits(),
            2 => {
                u32::from(f16::from_f32(float).to_bits())
                    | u32::from(f16::from_f32(1.0 - float).to_bits()) << 16
            }
            3 => state % 41,
            4 => [0, 0x8000_0000, 0x7f80_0000, 0x7fff_ffff, 0x3c00_bc00, 0xffff_ffff][(state % 6) as usize],
            _ => (float * 0.01).to_bits(),
        }
    })
}

/// A wave after one instruction, and the contents of its registers before it.
struct Ran {
    before: Box<Wave>,
    after: Box<Wave>,
}

fn start(seed: u32, exec: u32) -> Box<Wave> {
    let mut wave = Wave::new();
    wave.start(0, &Registers { lanes: 64, vector: 64, accumulators: 16 });
    for register in 0..64 {
        let upper = register + usize::from(UPPER);
        wave.vector[register] = Lanes(numbers(seed * 64 + register as u32));
        wave.vector[upper] = Lanes(numbers(seed * 64 + 1000 + register as u32));
    }
    for register in usize::from(ACCUMULATOR)..usize::from(ACCUMULATOR) + 16 {
        wave.vector[register] = Lanes(numbers(seed * 64 + 2000 + register as u32));
        wave.vector[register + usize::from(UPPER)] = Lanes(numbers(seed * 64 + 3000 + register as u32));
    }
    wave.set_scalar(4, S4);
    wave.set_scalar(5, S5);
    wave.set_scalar(6, 0);
    wave.set_scalar(7, 0);
    wave.set_scalar(VCC, CARRY);
    wave.set_scalar(EXEC, exec);
    wave.set_scalar(VCC + 1, CARRY.rotate_left(5));
    wave.set_scalar(EXEC + 1, exec.rotate_left(7));
    wave.scc = seed % 2 == 1;
    wave
}

fn execute(code: &Code, wave: &mut Wave) {
    let program = code.decode();
    assert_eq!(program.instructions.len(), 2, "one instruction and the sentinel: {:x?}", code.bytes);
    let instruction = &program.instructions[0];
    // SAFETY: the instruction was decoded from a fixture, and the tests run only where the handlers do.
    unsafe { (instruction.execute)(wave, instruction) };
}

fn run(code: &Code, seed: u32, exec: u32, prepare: impl Fn(&mut Wave)) -> Ran {
    let ready = || {
        let mut wave = start(seed, exec);
        prepare(&mut wave);
        wave
    };
    let (before, mut after) = (ready(), ready());
    execute(code, &mut after);
    assert!(after.stop == Stop::Running, "{}", after.fault);
    if code.family().lanes == 64 && by_halves(code) {
        let mut exchanged = ready();
        exchange_halves(&mut exchanged);
        execute(code, &mut exchanged);
        exchange_halves(&mut exchanged);
        assert_same(&after, &exchanged, code);
    }
    Ran { before, after }
}

/// Whether both halves of a wave of 64 lanes do the same with their own registers and their words of VCC. Other masks
/// than VCC as a source have tests of their own.
fn by_halves(code: &Code) -> bool {
    let program = code.decode();
    let instruction = &program.instructions[0];
    let Some([lower, upper]) = instruction.inner.as_deref() else { return false };
    let symmetric = |lower: &Source, upper: &Source| {
        lower.kind != SourceKind::Scalar
            || (lower.index, upper.index) == (u16::from(VCC), u16::from(VCC) + 1)
            || lower.index == upper.index && [4, 5].contains(&lower.index)
    };
    let masks_rows = instruction.name.ends_with("_mov_b32") && lower.immediate as u32 >> 28 == 1;
    lower.sources.iter().zip(&upper.sources).all(|(lower, upper)| symmetric(lower, upper))
        && instruction.scalar != 4
        && !masks_rows
        && !instruction.name.starts_with("v_mbcnt_")
}

fn assert_same(wave: &Wave, other: &Wave, code: &Code) {
    for register in (0..64).chain(usize::from(ACCUMULATOR)..usize::from(ACCUMULATOR) + 16) {
        for register in [register, register + usize::from(UPPER)] {
            let [found, wanted] = [wave, other].map(|wave| wave.vector[register].0);
            assert_eq!(found, wanted, "v{register} after {:x?}", code.bytes);
        }
    }
    let scalars = |wave: &Wave| (wave.scalar[..usize::from(MASK)].to_vec(), wave.exec64());
    assert_eq!(scalars(wave), scalars(other), "scalar registers after {:x?}", code.bytes);
}

/// Exchanges the halves of a wave of 64 lanes: vector registers, and the words of the masks VCC, EXEC, s[6:7] and s[8:9].
fn exchange_halves(wave: &mut Wave) {
    let (lower, upper) = wave.vector.split_at_mut(usize::from(UPPER));
    lower.swap_with_slice(upper);
    for first in [6, 8, usize::from(VCC), usize::from(EXEC)] {
        wave.scalar.swap(first, first + 1);
    }
}

fn f(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

fn h(bits: u32) -> f64 {
    f16::from_bits(bits as u16).to_f64()
}

/// The number as those instructions see or give it that flush subnormal numbers.
fn flushed(value: f64) -> f64 {
    if value.abs() < f64::from(f32::MIN_POSITIVE) { 0.0_f64.copysign(value) } else { value }
}

fn single(value: f64) -> u32 {
    (value as f32).to_bits()
}

fn half(value: f64) -> u32 {
    u32::from(f16::from_f64(value).to_bits())
}

/// How a result is compared.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Bits,
    /// An fp32 number, which may differ by this many units in the last place.
    Single(u32),
    /// An fp16 number in the low half. The high half keeps its value.
    Half(u32),
    /// Sixteen bits in the low half. The high half keeps its value.
    Short,
    /// Two fp16 numbers.
    Halves,
}

fn same_half(found: u32, expected: u32, tolerance: u32) -> bool {
    let both_nan = h(found).is_nan() && h(expected).is_nan();
    both_nan || (found & 0xffff).abs_diff(expected & 0xffff) <= tolerance
}

fn same(kind: Kind, found: u32, expected: u32, old: u32) -> bool {
    match kind {
        Kind::Bits => found == expected,
        Kind::Single(tolerance) => {
            f(found).is_nan() && f(expected).is_nan() || found.abs_diff(expected) <= tolerance
        }
        Kind::Half(tolerance) => found >> 16 == old >> 16 && same_half(found, expected, tolerance),
        Kind::Short => found == (old & 0xffff_0000) | (expected & 0xffff),
        Kind::Halves => same_half(found, expected, 0) && same_half(found >> 16, expected >> 16, 0),
    }
}
