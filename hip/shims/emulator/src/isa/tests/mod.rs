//! Compares each instruction of tests/fixtures/instructions.s, assembled by LLVM for each family that has it, with an
//! oracle that is independent of the handlers: plain Rust with fp64 and the `half` crate, one lane at a time.

use half::f16;

use super::decode::Program;
use super::decode::family::Family;
use super::wave::{EXEC, Lanes, Stop, VCC, Wave};

mod families;
mod lanes;
mod matrix;
mod one_lane;
mod waits;

/// The instructions by architecture. The names are gfx11's.
const FIXTURES: [(&str, &str); 3] = [
    ("gfx1100", include_str!("../../../tests/fixtures/instructions.txt")),
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
    fn decode(&self) -> Program {
        Program::decode(Family::of(self.architecture).unwrap(), &self.bytes, 0, 0)
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
    wave.start(0, 64);
    for register in 0..64 {
        wave.vector[register] = Lanes(numbers(seed * 64 + register as u32));
    }
    wave.set_scalar(4, S4);
    wave.set_scalar(5, S5);
    wave.set_scalar(6, 0);
    wave.set_scalar(7, 0);
    wave.set_scalar(VCC, CARRY);
    wave.set_scalar(EXEC, exec);
    wave.scc = seed % 2 == 1;
    wave
}

fn run(code: &Code, seed: u32, exec: u32, prepare: impl Fn(&mut Wave)) -> Ran {
    let program = code.decode();
    assert_eq!(program.instructions.len(), 2, "one instruction and the sentinel");
    let (mut before, mut after) = (start(seed, exec), start(seed, exec));
    prepare(&mut before);
    prepare(&mut after);
    // SAFETY: the instruction was decoded from a fixture, and the tests run only where the handlers do.
    unsafe { (program.instructions[0].execute)(&mut after, &program.instructions[0]) };
    assert!(after.stop == Stop::Running, "{}", after.fault);
    Ran { before, after }
}

fn f(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

fn h(bits: u32) -> f64 {
    f16::from_bits(bits as u16).to_f64()
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
            let subnormal = |bits: u32| f32::from_bits(bits).is_subnormal();
            f(found).is_nan() && f(expected).is_nan()
                || found.abs_diff(expected) <= tolerance
                || tolerance > 0 && subnormal(found) && subnormal(expected)
        }
        Kind::Half(tolerance) => found >> 16 == old >> 16 && same_half(found, expected, tolerance),
        Kind::Short => found == (old & 0xffff_0000) | (expected & 0xffff),
        Kind::Halves => same_half(found, expected, 0) && same_half(found >> 16, expected >> 16, 0),
    }
}
