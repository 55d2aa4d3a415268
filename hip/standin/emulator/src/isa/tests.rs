//! Each instruction of tests/fixtures/instructions.s, assembled by LLVM, against an oracle that knows nothing of the
//! handlers: plain Rust, fp64 and the `half` crate, one lane at a time.

use half::{bf16, f16};

use super::decode::Program;
use super::special::dpp_source;
use super::wave::{EXEC, Lanes, Stop, VCC, Wave};

const FIXTURE: &str = include_str!("../../tests/fixtures/instructions.txt");
const WAVE: usize = 32;
const S4: u32 = 0x7654_3210;
const S5: u32 = 0xfedc_ba98;
const CARRY: u32 = 0x5a3c_96e1;

/// The instructions: text without the suffixes of the encoding, and words.
fn instructions() -> Vec<(String, Vec<u8>)> {
    let parse = |line: &str| {
        let (text, bytes) = line.rsplit_once('|').unwrap();
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        let short = name.trim_end_matches("_dpp").trim_end_matches("_e32").trim_end_matches("_e64");
        let bytes = bytes.split(',').map(|byte| u8::from_str_radix(&byte[2..], 16).unwrap()).collect();
        (format!("{short} {rest}").trim().to_owned(), bytes)
    };
    FIXTURE.lines().map(parse).collect()
}

/// Numbers of all kinds: any bits, floats of moderate size in fp32 or in two halves, small integers, extremes.
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

/// A wave after one instruction, with what was in the registers before it.
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

fn run(bytes: &[u8], seed: u32, exec: u32, prepare: impl Fn(&mut Wave)) -> Ran {
    let program = Program::decode(bytes, 0, 0);
    assert_eq!(program.instructions.len(), 2, "one instruction and the sentinel");
    let (mut before, mut after) = (start(seed, exec), start(seed, exec));
    prepare(&mut before);
    prepare(&mut after);
    // SAFETY: decoded from a fixture; the tests run only where the handlers do.
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

/// What kind of number a result is, for the comparison.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Bits,
    /// An fp32 number, wrong by at most so many units in the last place.
    Single(u32),
    /// An fp16 number in the low half; the high half stays as it was.
    Half(u32),
    /// Sixteen bits in the low half; the high half stays.
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

fn each_half(a: u32, b: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    (f(a & 0xffff, b & 0xffff) & 0xffff) | f(a >> 16, b >> 16) << 16
}

fn short(bits: u32) -> i32 {
    i32::from(bits as u16 as i16)
}

fn low24(bits: u32) -> u64 {
    u64::from(bits & 0xff_ffff)
}

fn frexp(value: f64) -> (f64, i32) {
    if value == 0.0 || !value.is_finite() {
        return (value, 0);
    }
    let exponent = value.abs().log2().floor() as i32 + 1;
    let mantissa = value / 2f64.powi(exponent);
    if mantissa.abs() >= 1.0 { (mantissa / 2.0, exponent + 1) } else { (mantissa, exponent) }
}

/// The maximum that ignores what is not a number.
fn most(a: f64, b: f64) -> f64 {
    a.max(b)
}

fn middle<T: PartialOrd + Copy>(mut values: [T; 3]) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values[1]
}

/// The result of an instruction `name v3, v0 [, v1 [, v2]]` in one lane, or nothing where this list lacks it.
fn plain(name: &str, a: u32, b: u32, c: u32) -> Option<(Kind, u32)> {
    use Kind::{Bits, Half, Halves, Short, Single};
    let (ai, bi, ci) = (a as i32, b as i32, c as i32);
    let any_nan = f(a).is_nan() || f(b).is_nan() || f(c).is_nan();
    Some(match name {
        "v_mov_b32" => (Bits, a),
        "v_cvt_f32_i32" => (Single(0), (ai as f32).to_bits()),
        "v_cvt_f32_u32" => (Single(0), (a as f32).to_bits()),
        "v_cvt_u32_f32" => (Bits, f(a) as u32),
        "v_cvt_i32_f32" => (Bits, f(a) as i32 as u32),
        "v_cvt_f16_f32" => (Half(0), half(f(a))),
        "v_cvt_f32_f16" => (Single(0), single(h(a))),
        "v_cvt_f32_ubyte0" => (Single(0), (a.to_le_bytes()[0] as f32).to_bits()),
        "v_cvt_f32_ubyte3" => (Single(0), (a.to_le_bytes()[3] as f32).to_bits()),
        "v_trunc_f32" => (Single(0), single(f(a).trunc())),
        "v_ceil_f32" => (Single(0), single(f(a).ceil())),
        "v_rndne_f32" => (Single(0), single(f(a).round_ties_even())),
        "v_floor_f32" => (Single(0), single(f(a).floor())),
        "v_exp_f32" => (Single(1), single(f(a).exp2())),
        "v_log_f32" => (Single(1), single(f(a).log2())),
        "v_rcp_f32" => (Single(1), single(1.0 / f(a))),
        "v_rsq_f32" => (Single(1), single(1.0 / f(a).sqrt())),
        "v_sqrt_f32" => (Single(1), single(f(a).sqrt())),
        "v_not_b32" => (Bits, a ^ u32::MAX),
        "v_bfrev_b32" => (Bits, (0..32).fold(0, |r, bit| r | ((a >> bit) & 1) << (31 - bit))),
        "v_clz_i32_u32" => (Bits, (0..32).find(|bit| (a >> (31 - bit)) & 1 == 1).unwrap_or(u32::MAX)),
        "v_ctz_i32_b32" => (Bits, (0..32).find(|bit| (a >> bit) & 1 == 1).unwrap_or(u32::MAX)),
        "v_frexp_exp_i32_f32" => (Bits, frexp(f(a)).1 as u32),
        "v_frexp_mant_f32" => (Single(0), single(frexp(f(a)).0)),
        "v_cvt_f16_u16" => (Half(0), half(f64::from(a as u16))),
        "v_cvt_f16_i16" => (Half(0), half(f64::from(short(a)))),
        "v_cvt_u16_f16" => (Short, u32::from(h(a) as u16)),
        "v_cvt_i16_f16" => (Short, h(a) as i16 as u32),
        "v_rcp_f16" => (Half(1), half(1.0 / h(a))),
        "v_sqrt_f16" => (Half(1), half(h(a).sqrt())),
        "v_exp_f16" => (Half(1), half(h(a).exp2())),
        "v_floor_f16" => (Half(0), half(h(a).floor())),
        "v_rndne_f16" => (Half(0), half(h(a).round_ties_even())),
        "v_add_f32" => (Single(0), single(f(a) + f(b))),
        "v_sub_f32" => (Single(0), single(f(a) - f(b))),
        "v_subrev_f32" => (Single(0), single(f(b) - f(a))),
        "v_mul_f32" => (Single(0), single(f(a) * f(b))),
        "v_min_f32" => (Single(0), single(-most(-f(a), -f(b)))),
        "v_max_f32" => (Single(0), single(most(f(a), f(b)))),
        "v_mul_i32_i24" => (Bits, ((ai << 8 >> 8) as i64 * (bi << 8 >> 8) as i64) as u32),
        "v_mul_u32_u24" => (Bits, (low24(a) * low24(b)) as u32),
        "v_min_i32" => (Bits, ai.min(bi) as u32),
        "v_max_i32" => (Bits, ai.max(bi) as u32),
        "v_min_u32" => (Bits, a.min(b)),
        "v_max_u32" => (Bits, a.max(b)),
        "v_lshlrev_b32" => (Bits, b.wrapping_shl(a)),
        "v_lshrrev_b32" => (Bits, b.wrapping_shr(a)),
        "v_ashrrev_i32" => (Bits, bi.wrapping_shr(a) as u32),
        "v_and_b32" => (Bits, a & b),
        "v_or_b32" => (Bits, a | b),
        "v_xor_b32" => (Bits, a ^ b),
        "v_xnor_b32" => (Bits, !a ^ b),
        "v_add_nc_u32" => (Bits, (u64::from(a) + u64::from(b)) as u32),
        "v_sub_nc_u32" => (Bits, (i64::from(a) - i64::from(b)) as u32),
        "v_subrev_nc_u32" => (Bits, (i64::from(b) - i64::from(a)) as u32),
        "v_add_f16" => (Half(0), half(h(a) + h(b))),
        "v_sub_f16" => (Half(0), half(h(a) - h(b))),
        "v_mul_f16" => (Half(0), half(h(a) * h(b))),
        "v_max_f16" => (Half(0), half(most(h(a), h(b)))),
        "v_min_f16" => (Half(0), half(-most(-h(a), -h(b)))),
        "v_cvt_pk_rtz_f16_f32" => {
            let down = |bits: u32| {
                let near = half(f(bits));
                if h(near).abs() > f(bits).abs() && f(bits).is_finite() { near - 1 } else { near }
            };
            (Halves, down(a) | down(b) << 16)
        }
        "v_mul_lo_u32" => (Bits, (u64::from(a) * u64::from(b)) as u32),
        "v_mul_hi_u32" => (Bits, ((u128::from(a) * u128::from(b)) >> 32) as u32),
        "v_mul_hi_i32" => (Bits, ((i128::from(ai) * i128::from(bi)) >> 32) as u32),
        "v_ldexp_f32" => (Single(0), single(f(a) * 2f64.powi(bi.clamp(-400, 400)))),
        "v_pack_b32_f16" => (Bits, (a & 0xffff) | b << 16),
        "v_mul_lo_u16" => (Short, a.wrapping_mul(b)),
        "v_add_nc_u16" => (Short, a.wrapping_add(b)),
        "v_sub_nc_u16" => (Short, a.wrapping_sub(b)),
        "v_lshlrev_b16" => (Short, b << (a % 16)),
        "v_lshrrev_b16" => (Short, (b & 0xffff) >> (a % 16)),
        "v_ashrrev_i16" => (Short, (short(b) >> (a % 16)) as u32),
        "v_max_i16" => (Short, short(a).max(short(b)) as u32),
        "v_min_u16" => (Short, (a & 0xffff).min(b & 0xffff)),
        "v_bfm_b32" => (Bits, (((1u64 << (a % 32)) - 1) << (b % 32)) as u32),
        "v_bcnt_u32_b32" => (Bits, a.count_ones().wrapping_add(b)),
        "v_cvt_pk_i16_i32" => {
            (Bits, (ai.clamp(-0x8000, 0x7fff) as u32 & 0xffff) | (bi.clamp(-0x8000, 0x7fff) as u32) << 16)
        }
        "v_cvt_pk_u16_u32" => (Bits, a.min(0xffff) | b.min(0xffff) << 16),
        "v_pk_add_f16" => (Halves, each_half(a, b, |a, b| half(h(a) + h(b)))),
        "v_pk_mul_f16" => (Halves, each_half(a, b, |a, b| half(h(a) * h(b)))),
        "v_pk_max_f16" => (Halves, each_half(a, b, |a, b| half(most(h(a), h(b))))),
        "v_pk_min_f16" => (Halves, each_half(a, b, |a, b| half(-most(-h(a), -h(b))))),
        "v_pk_add_u16" => (Bits, each_half(a, b, |a, b| a + b)),
        "v_pk_sub_i16" => (Bits, each_half(a, b, |a, b| a.wrapping_sub(b))),
        "v_pk_mul_lo_u16" => (Bits, each_half(a, b, |a, b| a.wrapping_mul(b))),
        "v_pk_lshlrev_b16" => (Bits, each_half(a, b, |a, b| b << (a % 16))),
        "v_pk_ashrrev_i16" => (Bits, each_half(a, b, |a, b| (short(b) >> (a % 16)) as u32)),
        "v_pk_max_i16" => (Bits, each_half(a, b, |a, b| short(a).max(short(b)) as u32)),
        "v_fma_f32" => (Single(0), f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c)).to_bits()),
        "v_mad_u32_u24" => (Bits, (low24(a) * low24(b)).wrapping_add(u64::from(c)) as u32),
        "v_bfe_u32" => (Bits, ((u64::from(a) >> (b % 32)) & ((1 << (c % 32)) - 1)) as u32),
        "v_bfe_i32" => {
            let (offset, width) = (b % 32, c % 32);
            let field = (u64::from(a) >> offset) & ((1 << width) - 1);
            let negative = width > 0 && (field >> (width - 1)) & 1 == 1;
            // Bits beyond the word are zeros.
            (Bits, if negative { (field as i64 - (1i64 << width)) as u32 } else { field as u32 })
        }
        "v_bfi_b32" => {
            (Bits, (0..32).fold(0, |r, bit| r | (if (a >> bit) & 1 == 1 { b } else { c }) & (1 << bit)))
        }
        "v_alignbit_b32" => (Bits, ((u128::from(a) << 32 | u128::from(b)) >> (c % 32)) as u32),
        "v_min3_f32" => (Single(0), single(-most(most(-f(a), -f(b)), -f(c)))),
        "v_max3_f32" => (Single(0), single(most(most(f(a), f(b)), f(c)))),
        "v_max3_i32" => (Bits, *[ai, bi, ci].iter().max()? as u32),
        "v_med3_f32" if any_nan => return None,
        "v_med3_f32" => (Single(0), single(middle([f(a), f(b), f(c)]))),
        "v_med3_i32" => (Bits, middle([ai, bi, ci]) as u32),
        "v_xor3_b32" => (Bits, a ^ b ^ c),
        "v_perm_b32" => {
            let bytes = [b.to_le_bytes(), a.to_le_bytes()].concat();
            let pick = |choice: u8| match choice {
                0..8 => bytes[usize::from(choice)],
                8..12 => {
                    if bytes[usize::from(2 * (choice - 8) + 1)] >= 128 {
                        255
                    } else {
                        0
                    }
                }
                12 => 0,
                _ => 255,
            };
            (Bits, u32::from_le_bytes(c.to_le_bytes().map(pick)))
        }
        "v_lshl_add_u32" => (Bits, a.wrapping_shl(b).wrapping_add(c)),
        "v_add_lshl_u32" => (Bits, a.wrapping_add(b).wrapping_shl(c)),
        "v_fma_f16" => (Half(0), half(h(a) * h(b) + h(c))),
        "v_add3_u32" => (Bits, a.wrapping_add(b).wrapping_add(c)),
        "v_lshl_or_b32" => (Bits, a.wrapping_shl(b) | c),
        "v_and_or_b32" => (Bits, a & b | c),
        "v_or3_b32" => (Bits, a | b | c),
        "v_maxmin_f32" => (Single(0), single(-most(-most(f(a), f(b)), -f(c)))),
        "v_minmax_u32" => (Bits, a.min(b).max(c)),
        "v_dot2_f32_f16" => {
            let low = (h(a & 0xffff) as f32).mul_add(h(b & 0xffff) as f32, f32::from_bits(c));
            (Single(0), (h(a >> 16) as f32).mul_add(h(b >> 16) as f32, low).to_bits())
        }
        "v_dot2_f32_bf16" => {
            let at = |bits: u32, place: u32| bf16::from_bits((bits >> place) as u16).to_f32();
            let low = at(a, 0).mul_add(at(b, 0), f32::from_bits(c));
            (Single(0), at(a, 16).mul_add(at(b, 16), low).to_bits())
        }
        "v_dot4_u32_u8" => {
            let products =
                a.to_le_bytes().into_iter().zip(b.to_le_bytes()).map(|(a, b)| u32::from(a) * u32::from(b));
            (Bits, products.fold(c, u32::wrapping_add))
        }
        "v_pk_fma_f16" => {
            let low = half(h(a & 0xffff) * h(b & 0xffff) + h(c & 0xffff));
            (Halves, low | half(h(a >> 16) * h(b >> 16) + h(c >> 16)) << 16)
        }
        "v_pk_mad_u16" => {
            let low = (a & 0xffff).wrapping_mul(b & 0xffff).wrapping_add(c) & 0xffff;
            (Bits, low | (a >> 16).wrapping_mul(b >> 16).wrapping_add(c >> 16) << 16)
        }
        "v_mad_u32_u16" => (Bits, (a & 0xffff).wrapping_mul(b & 0xffff).wrapping_add(c)),
        _ => return None,
    })
}

#[test]
fn instructions_on_one_lane_give_what_the_manual_says() {
    let mut tested = 0;
    for (text, bytes) in instructions() {
        let (name, operands) = text.split_once(' ').unwrap();
        if !["v3, v0", "v3, v0, v1", "v3, v0, v1, v2"].contains(&operands) || plain(name, 0, 0, 0).is_none() {
            continue;
        }
        tested += 1;
        for (seed, exec) in [(1, u32::MAX), (2, u32::MAX), (3, 0x0f33_55aa), (4, 0)] {
            let ran = run(&bytes, seed, exec, |_| {});
            for lane in 0..WAVE {
                let at = |register: usize| ran.before.vector[register].0[lane];
                let (old, found) = (at(3), ran.after.vector[3].0[lane]);
                if (exec >> lane) & 1 == 0 {
                    assert_eq!(found, old, "{text}: lane {lane} is not active");
                    continue;
                }
                let Some((kind, expected)) = plain(name, at(0), at(1), at(2)) else { continue };
                assert!(
                    same(kind, found, expected, old),
                    "{text}: {:#x} {:#x} {:#x} give {found:#x}, not {expected:#x}",
                    at(0),
                    at(1),
                    at(2)
                );
            }
        }
    }
    assert!(tested > 110, "only {tested} instructions were tested");
}

/// The result in one lane of v0, v1, v2 and the old v3.
type Oracle = Box<dyn Fn(u32, u32, u32, u32) -> (Kind, u32)>;

/// Instructions with modifiers, masks and several registers: the text, and the expected v3 (or other) per lane.
#[test]
fn modifiers_change_operands_and_results() {
    let one = |bits: u32| f32::from_bits(bits);
    let mut tested = 0;
    for (text, bytes) in instructions() {
        let expected: Oracle = match text.as_str() {
            "v_add_f32 v3, -v0, |v1|" => {
                Box::new(move |a, b, _, _| (Kind::Single(0), (one(b).abs() - one(a)).to_bits()))
            }
            "v_mul_f32 v3, v0, v1 mul:2" => {
                Box::new(move |a, b, _, _| (Kind::Single(0), (one(a) * one(b) * 2.0).to_bits()))
            }
            "v_add_f32 v3, v0, v1 clamp" => Box::new(move |a, b, _, _| {
                let sum = one(a) + one(b);
                (Kind::Single(0), if sum > 0.0 { sum.min(1.0) } else { 0.0 }.to_bits())
            }),
            "v_fma_f32 v3, v0, 0.5, -1.0" => {
                Box::new(move |a, _, _, _| (Kind::Single(0), one(a).mul_add(0.5, -1.0).to_bits()))
            }
            "v_add_f16 v3, 2.0, v0" | "v_add_f16 v3, v0, 2.0" => {
                Box::new(|a, _, _, _| (Kind::Half(0), half(h(a) + 2.0)))
            }
            "v_add_nc_u32 v3, 0x12345, v1" => Box::new(|_, b, _, _| (Kind::Bits, b.wrapping_add(0x12345))),
            "v_fmac_f32 v3, v0, v1" => {
                Box::new(move |a, b, _, d| (Kind::Single(0), one(a).mul_add(one(b), one(d)).to_bits()))
            }
            "v_fmaak_f32 v3, v0, v1, 0x40490fdb" => Box::new(move |a, b, _, _| {
                (Kind::Single(0), one(a).mul_add(one(b), one(0x4049_0fdb)).to_bits())
            }),
            "v_fmamk_f32 v3, v0, 0x40490fdb, v1" => Box::new(move |a, b, _, _| {
                (Kind::Single(0), one(a).mul_add(one(0x4049_0fdb), one(b)).to_bits())
            }),
            "v_fma_mix_f32 v3, v0, v1, v2 op_sel:[1,0,0] op_sel_hi:[1,1,0]" => Box::new(move |a, b, c, _| {
                (Kind::Single(0), (h(a >> 16) as f32).mul_add(h(b) as f32, one(c)).to_bits())
            }),
            "v_fma_mixlo_f16 v3, v0, v1, v2 op_sel_hi:[1,1,1]" => Box::new(|a, b, c, _| {
                (Kind::Half(0), half(f64::from((h(a) as f32).mul_add(h(b) as f32, h(c) as f32))))
            }),
            "v_fma_mixhi_f16 v3, v0, v1, v2 op_sel_hi:[1,1,1]" => Box::new(|a, b, c, d| {
                (
                    Kind::Halves,
                    (d & 0xffff) | half(f64::from((h(a) as f32).mul_add(h(b) as f32, h(c) as f32))) << 16,
                )
            }),
            "v_pk_fma_f16 v3, v0, v1, v2 op_sel:[1,0,0] op_sel_hi:[0,1,1] neg_lo:[1,0,0] neg_hi:[0,1,0]" => {
                Box::new(|a, b, c, _| {
                    let low = half(-h(a >> 16) * h(b) + h(c));
                    (Kind::Halves, low | half(h(a) * -h(b >> 16) + h(c >> 16)) << 16)
                })
            }
            "v_dot4_i32_iu8 v3, v0, v1, v2 neg_lo:[1,1,0]" => Box::new(|a, b, c, _| {
                let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
                let sum = pairs
                    .map(|(a, b)| i32::from(a as i8) * i32::from(b as i8))
                    .fold(c as i32, i32::wrapping_add);
                (Kind::Bits, sum as u32)
            }),
            _ => continue,
        };
        tested += 1;
        for seed in [5, 6, 7] {
            let ran = run(&bytes, seed, u32::MAX, |_| {});
            for lane in 0..WAVE {
                let at = |register: usize| ran.before.vector[register].0[lane];
                let (kind, expected) = expected(at(0), at(1), at(2), at(3));
                let found = ran.after.vector[3].0[lane];
                assert!(same(kind, found, expected, at(3)), "{text}: {found:#x}, not {expected:#x}");
            }
        }
    }
    assert_eq!(tested, 14);
}

#[test]
fn lanes_exchange_numbers() {
    let quad = [1, 0, 3, 2];
    type Source = Box<dyn Fn(usize) -> Option<usize>>;
    let in_row = |lane: usize, place: usize| (lane & 16) | place;
    let mut tested = 0;
    for (text, bytes) in instructions() {
        // The lane that is read, or `None` where the result stays as it was; and the lanes that are written at all.
        let (from, written): (Source, u32) = match text.as_str() {
            t if t.contains("quad_perm:[1,0,3,2]") => {
                (Box::new(move |lane| Some((lane & !3) | quad[lane & 3])), !0)
            }
            t if t.contains("row_shr:4") => (Box::new(|lane| (lane % 16 >= 4).then(|| lane - 4)), !0),
            t if t.contains("row_ror:3") => {
                (Box::new(move |lane| Some(in_row(lane, (lane + 13) % 16))), 0x0f0f_0f0f)
            }
            t if t.contains("row_mirror") => {
                (Box::new(move |lane| Some(in_row(lane, 15 - lane % 16))), 0x0000_ffff)
            }
            t if t.contains("row_half_mirror") => (Box::new(|lane| Some(lane ^ 7)), !0),
            t if t.contains("row_share:5") => (Box::new(move |lane| Some(in_row(lane, 5))), !0),
            t if t.contains("row_xmask:6") => (Box::new(|lane| Some(lane ^ 6)), !0),
            t if t.contains("dpp8:") => (Box::new(|lane| Some(lane ^ 7)), !0),
            t if t.starts_with("v_permlanex16") => (Box::new(|lane| Some(lane ^ 16)), !0),
            t if t.starts_with("v_permlane16") => (Box::new(Some), !0),
            _ => continue,
        };
        tested += 1;
        let ran = run(&bytes, 8, u32::MAX, |_| {});
        for lane in 0..WAVE {
            let old = ran.before.vector[3].0[lane];
            let moved = from(lane).filter(|_| (written >> lane) & 1 == 1);
            let expected = moved.map_or(old, |from| {
                let value = ran.before.vector[0].0[from];
                let other = ran.before.vector[1].0[lane];
                if text.starts_with("v_add_f32") { single(f(value) + f(other)) } else { value }
            });
            let found = ran.after.vector[3].0[lane];
            assert!(
                same(Kind::Single(0), found, expected, old),
                "{text}: lane {lane}: {found:#x}, not {expected:#x}"
            );
        }
        assert_eq!(ran.after.exec(), u32::MAX, "{text}");
    }
    assert_eq!(tested, 10);
    // Lanes that are not active are not read; with `bound_ctrl` zero comes instead.
    let (text, bytes) = instructions().into_iter().find(|(text, _)| text.contains("row_shl:1")).unwrap();
    let ran = run(&bytes, 9, 0xffff_fff7, |_| {});
    for lane in (0..WAVE).filter(|&lane| lane != 3) {
        let value = if lane % 16 == 15 || lane == 2 { 0 } else { ran.before.vector[0].0[lane + 1] };
        let expected = single(f(value) + f(ran.before.vector[1].0[lane]));
        assert!(same(Kind::Single(0), ran.after.vector[3].0[lane], expected, 0), "{text}: lane {lane}");
    }
    assert_eq!(dpp_source(0x111, 0), None);
}

#[test]
fn scalar_registers_take_masks_carries_and_sums() {
    let mut tested = 0;
    for (text, bytes) in instructions().into_iter().filter(|(text, _)| !text.starts_with("v_wmma")) {
        let exec = 0xffff_0ff0;
        let ran = run(&bytes, 11, exec, |_| {});
        let (before, after) = (&ran.before, &ran.after);
        let (a, b) = (&before.vector[0].0, &before.vector[1].0);
        let mask = |test: &dyn Fn(usize) -> bool| {
            (0..WAVE).fold(0, |mask, lane| mask | u32::from(test(lane)) << lane) & exec
        };
        let wide = |wave: &Wave, register: usize, lane: usize| {
            u64::from(wave.vector[register].0[lane]) | u64::from(wave.vector[register + 1].0[lane]) << 32
        };
        let active = |lane: &usize| (exec >> lane) & 1 == 1;
        let vcc = after.scalar[usize::from(VCC)];
        let (s6, s7) = (after.scalar[6], after.scalar[7]);
        let (p, q) = (S4 as i32, S5 as i32);
        match text.as_str() {
            "v_cmp_lt_f32 vcc_lo, v0, v1" => assert_eq!(vcc, mask(&|lane| f(a[lane]) < f(b[lane]))),
            "v_cmp_nge_f32 vcc_lo, v0, v1" => assert_eq!(vcc, mask(&|lane| !(f(a[lane]) >= f(b[lane])))),
            "v_cmp_eq_u32 s6, v0, v1" => assert_eq!(s6, mask(&|lane| a[lane] == b[lane])),
            "v_cmp_gt_i32 vcc_lo, v0, v1" => assert_eq!(vcc, mask(&|lane| a[lane] as i32 > b[lane] as i32)),
            "v_cmpx_le_u16 v0, v1" => {
                assert_eq!(after.exec(), mask(&|lane| a[lane] & 0xffff <= b[lane] & 0xffff));
            }
            "v_cmp_class_f32 vcc_lo, v0, v1" => {
                let class = |bits: u32| {
                    let value = f32::from_bits(bits);
                    let sign = |positive: u32, negative: u32| {
                        if value.is_sign_negative() { negative } else { positive }
                    };
                    match value.classify() {
                        std::num::FpCategory::Nan => u32::from(bits & 0x40_0000 != 0),
                        std::num::FpCategory::Infinite => sign(9, 2),
                        std::num::FpCategory::Normal => sign(8, 3),
                        std::num::FpCategory::Subnormal => sign(7, 4),
                        std::num::FpCategory::Zero => sign(6, 5),
                    }
                };
                assert_eq!(vcc, mask(&|lane| (b[lane] >> class(a[lane])) & 1 == 1));
            }
            "v_cndmask_b32 v3, v0, v1, vcc_lo" => {
                for lane in (0..WAVE).filter(active) {
                    let expected = if (CARRY >> lane) & 1 == 1 { b[lane] } else { a[lane] };
                    assert_eq!(after.vector[3].0[lane], expected);
                }
            }
            "v_mad_u64_u32 v[4:5], null, v0, v1, v[6:7]" => {
                for lane in (0..WAVE).filter(active) {
                    let product =
                        u128::from(a[lane]) * u128::from(b[lane]) + u128::from(wide(before, 6, lane));
                    assert_eq!(wide(after, 4, lane), product as u64);
                }
            }
            "v_lshlrev_b64 v[4:5], 7, v[6:7]" => {
                for lane in (0..WAVE).filter(active) {
                    assert_eq!(wide(after, 4, lane), wide(before, 6, lane) << 7);
                }
            }
            "v_add_co_u32 v3, vcc_lo, v0, v1" => {
                assert_eq!(vcc, mask(&|lane| u64::from(a[lane]) + u64::from(b[lane]) > u64::from(u32::MAX)));
            }
            "v_sub_co_ci_u32 v3, vcc_lo, v0, v1, vcc_lo" => {
                let borrow = |lane: usize| i64::from(b[lane]) + i64::from((CARRY >> lane) & 1);
                assert_eq!(vcc, mask(&|lane| i64::from(a[lane]) < borrow(lane)));
                for lane in (0..WAVE).filter(active) {
                    assert_eq!(after.vector[3].0[lane], (i64::from(a[lane]) - borrow(lane)) as u32);
                }
            }
            "v_readlane_b32 s6, v0, 17" => assert_eq!(s6, a[17]),
            "v_readfirstlane_b32 s6, v0" => assert_eq!(s6, a[4]),
            "v_writelane_b32 v3, s4, 5" => {
                assert_eq!(after.vector[3].0[5], S4);
                assert_eq!(after.vector[3].0[6], before.vector[3].0[6]);
            }
            "v_mbcnt_lo_u32_b32 v3, s4, v1" => {
                for lane in (0..WAVE).filter(active) {
                    let below = (0..lane).filter(|bit| (S4 >> bit) & 1 == 1).count() as u32;
                    assert_eq!(after.vector[3].0[lane], below.wrapping_add(b[lane]));
                }
            }
            "v_dual_mul_f32 v4, v1, v0 :: v_dual_add_f32 v5, v4, v3" => {
                for lane in (0..WAVE).filter(active) {
                    let at = |register: usize| f(before.vector[register].0[lane]);
                    assert!(same(Kind::Single(0), after.vector[4].0[lane], single(at(1) * at(0)), 0));
                    assert!(
                        same(Kind::Single(0), after.vector[5].0[lane], single(at(4) + at(3)), 0),
                        "the old v4"
                    );
                }
            }
            "v_dual_fmac_f32 v4, v0, v1 :: v_dual_cndmask_b32 v5, v2, v3" => {
                for lane in (0..WAVE).filter(active) {
                    let at = |register: usize| before.vector[register].0[lane];
                    let sum = f32::from_bits(at(0)).mul_add(f32::from_bits(at(1)), f32::from_bits(at(4)));
                    assert!(same(Kind::Single(0), after.vector[4].0[lane], sum.to_bits(), 0));
                    assert_eq!(after.vector[5].0[lane], if (CARRY >> lane) & 1 == 1 { at(3) } else { at(2) });
                }
            }
            "s_add_u32 s6, s4, s5" => assert_eq!((s6, after.scc), S4.overflowing_add(S5)),
            "s_addc_u32 s6, s4, s5" => {
                let sum = u64::from(S4) + u64::from(S5) + 1;
                assert_eq!((s6, after.scc), (sum as u32, sum >> 32 == 1));
            }
            "s_sub_i32 s6, s4, s5" => assert_eq!((s6 as i32, after.scc), p.overflowing_sub(q)),
            "s_lshl_b64 s[6:7], s[4:5], 5" => {
                let shifted = (u64::from(S4) | u64::from(S5) << 32) << 5;
                assert_eq!(u64::from(s6) | u64::from(s7) << 32, shifted);
            }
            "s_bfe_u32 s6, s4, 0x70003" => assert_eq!(s6, (S4 / 8) % 128),
            "s_bfe_i32 s6, s4, 0x70003" => assert_eq!(s6 as i32, ((S4 / 8) % 128) as i32 - 128),
            "s_mul_hi_i32 s6, s4, s5" => assert_eq!(s6, ((i64::from(p) * i64::from(q)) >> 32) as u32),
            "s_ashr_i32 s6, s4, s5" => assert_eq!(s6 as i32, p >> (S5 % 32)),
            "s_and_not1_b32 s6, s4, s5" => assert_eq!((s6, after.scc), (S4 & !S5, S4 & !S5 != 0)),
            "s_cselect_b32 s6, s4, s5" => assert_eq!(s6, S4, "the condition code is set"),
            "s_pack_lh_b32_b16 s6, s4, s5" => assert_eq!(s6, 0xfedc_3210),
            "s_lshl3_add_u32 s6, s4, s5" => {
                let sum = u64::from(S4) * 8 + u64::from(S5);
                assert_eq!((s6, after.scc), (sum as u32, sum >> 32 != 0));
            }
            "s_min_i32 s6, s4, s5" => assert_eq!((s6 as i32, after.scc), (q, false)),
            "s_ctz_i32_b32 s6, s4" => assert_eq!(s6, 4),
            "s_bcnt1_i32_b32 s6, s4" => assert_eq!(s6, S4.count_ones()),
            "s_brev_b32 s6, s4" => assert_eq!(s6, S4.reverse_bits()),
            "s_movk_i32 s6, 0xff00" => assert_eq!(s6, 0xffff_ff00),
            "s_mov_b64 s[6:7], -1" => assert_eq!((s6, s7), (u32::MAX, u32::MAX)),
            "s_mov_b32 s6, 0x12345678" => assert_eq!(s6, 0x1234_5678),
            "s_cmp_lt_i32 s4, s5" => assert!(!after.scc),
            "s_cmp_gt_u32 s4, s5" => assert!(!after.scc),
            "s_cmpk_lt_i32 s4, 0xfff0" => assert!(!after.scc),
            "s_and_saveexec_b32 s6, s4" => assert_eq!((s6, after.exec(), after.scc), (exec, exec & S4, true)),
            _ => continue,
        }
        tested += 1;
    }
    assert_eq!(tested, 40, "an instruction of the fixture is not tested here");
}

/// A matrix operand's element k of row or column `index`, for both halves of the wave alike.
fn mirrored(wave: &mut Wave, first: usize, count: usize) {
    for register in first..first + count {
        let lanes = &mut wave.vector[register].0;
        let (low, high) = lanes.split_at_mut(16);
        high.copy_from_slice(low);
    }
}

#[test]
fn matrix_instructions_multiply_tiles() {
    let mut tested = 0;
    for (text, bytes) in instructions().into_iter().filter(|(text, _)| text.starts_with("v_wmma")) {
        let bytewise = text.contains("iu8");
        // Floats of moderate size in all halves; 16-bit accumulators lie in the low halves.
        let ran = run(&bytes, 12, u32::MAX, |wave| {
            for register in 8..32 {
                for lane in 0..WAVE {
                    let number = numbers((register * 32 + lane) as u32)[0];
                    let value = |bits: u32| f64::from(bits % 1000) / 300.0 - 1.5;
                    let pair =
                        |make: &dyn Fn(f64) -> u32| make(value(number)) | make(value(number >> 10)) << 16;
                    let brain = |value: f64| u32::from(bf16::from_f64(value).to_bits());
                    wave.vector[register].0[lane] = match (bytewise, register) {
                        (true, _) => number,
                        (false, 24..) if text.starts_with("v_wmma_f32") => single(value(number)),
                        _ if text.contains("bf16") => pair(&brain),
                        _ => pair(&half),
                    };
                }
            }
            let count = if bytewise { 4 } else { 8 };
            mirrored(wave, 8, count);
            mirrored(wave, 16, count);
        });
        let wave = &ran.before;
        let element = |first: usize, index: usize, k: usize| -> f64 {
            if bytewise {
                return f64::from(wave.vector[first + k / 4].0[index].to_le_bytes()[k % 4] as i8);
            }
            let bits = (wave.vector[first + k / 2].0[index] >> (16 * (k % 2))) as u16;
            if text.contains("bf16") { bf16::from_bits(bits).to_f64() } else { f16::from_bits(bits).to_f64() }
        };
        for row in 0..16 {
            for column in 0..16 {
                let (register, lane) = (row / 2, column + 16 * (row % 2));
                let sum: f64 = (0..16).map(|k| element(8, row, k) * element(16, column, k)).sum();
                let (start, found) =
                    (wave.vector[24 + register].0[lane], ran.after.vector[32 + register].0[lane]);
                let (expected, result, tolerance) = match text.split(' ').next().unwrap() {
                    "v_wmma_f16_16x16x16_f16" => (h(start) + sum, h(found), 0.02),
                    "v_wmma_bf16_16x16x16_bf16" => continue,
                    "v_wmma_i32_16x16x16_iu8" => {
                        (f64::from((start as i32).wrapping_add(sum as i32)), f64::from(found as i32), 0.0)
                    }
                    _ => (f(start) + sum, f(found), 1e-5),
                };
                assert!(
                    (expected - result).abs() <= tolerance,
                    "{text} ({row}, {column}): {result}, not {expected}"
                );
            }
        }
        tested += 1;
    }
    assert_eq!(tested, 4);
}

#[test]
fn what_the_hardware_forbids_is_a_fault() {
    let (_, bytes) =
        instructions().into_iter().find(|(text, _)| text.starts_with("v_wmma_f32_16x16x16_f16")).unwrap();
    let program = Program::decode(&bytes, 0, 0);
    for (exec, words) in [(0x7fff_ffff, "inactive lanes"), (u32::MAX, "the two halves")] {
        let mut wave = start(1, exec);
        // SAFETY: decoded from a fixture.
        unsafe { (program.instructions[0].execute)(&mut wave, &program.instructions[0]) };
        assert!(wave.stop == Stop::Fault && wave.fault.contains(words), "{}", wave.fault);
    }
    // An image instruction.
    let program = Program::decode(&[0, 0, 0, 0xf0, 0, 0, 0, 0], 0, 0);
    let mut wave = start(1, u32::MAX);
    // SAFETY: as above.
    unsafe { (program.instructions[0].execute)(&mut wave, &program.instructions[0]) };
    assert_eq!(wave.fault, "unknown instruction f0000000 00000000");
}
