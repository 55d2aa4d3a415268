//! Instructions that treat each lane by itself, and modifiers of operands and results.

use half::bf16;

use super::*;

fn each_half(a: u32, b: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    (f(a & 0xffff, b & 0xffff) & 0xffff) | f(a >> 16, b >> 16) << 16
}

fn flushed_half(bits: u32) -> u32 {
    let is_subnormal = f16::from_bits(bits as u16).classify() == std::num::FpCategory::Subnormal;
    if is_subnormal { bits & 0x8000 } else { bits }
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

/// The maximum that ignores NaNs.
fn most(a: f64, b: f64) -> f64 {
    a.max(b)
}

fn middle<T: PartialOrd + Copy>(mut values: [T; 3]) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values[1]
}

/// The result of an instruction `name v3, v0 [, v1 [, v2]]` in one lane, or `None` if this function does not know it.
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
        "v_exp_f32" => (Single(1), single(flushed(flushed(f(a)).exp2()))),
        "v_log_f32" => (Single(1), single(flushed(f(a)).log2())),
        "v_rcp_f32" => (Single(1), single(flushed(1.0 / flushed(f(a))))),
        "v_rsq_f32" => (Single(1), single(1.0 / flushed(f(a)).sqrt())),
        "v_sqrt_f32" => (Single(1), single(flushed(f(a)).sqrt())),
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
        "v_dot4_i32_i8" => (Bits, signed_dot(a, b, c)),
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

/// Whether the instruction clears the upper half of the register that holds its 16-bit result. On gfx9 all do but those
/// that exist only in VOP3.
fn clears(code: &Code, name: &str, kind: Kind) -> bool {
    code.family().clears_halves
        && matches!(kind, Kind::Half(_) | Kind::Short)
        && !["v_fma_f16", "v_fma_mixlo_f16"].contains(&name)
}

#[test]
fn instructions_on_one_lane_give_what_the_manual_says() {
    let mut tested = 0;
    for (text, code) in instructions() {
        let (name, operands) = text.split_once(' ').unwrap();
        if !["v3, v0", "v3, v0, v1", "v3, v0, v1, v2"].contains(&operands) || plain(name, 0, 0, 0).is_none() {
            continue;
        }
        tested += 1;
        for (seed, exec) in [(1, u32::MAX), (2, u32::MAX), (3, 0x0f33_55aa), (4, 0)] {
            let ran = run(&code, seed, exec, |_| {});
            for lane in 0..WAVE {
                let at = |register: usize| ran.before.vector[register].0[lane];
                let (old, found) = (at(3), ran.after.vector[3].0[lane]);
                if (exec >> lane) & 1 == 0 {
                    assert_eq!(found, old, "{text}: lane {lane} is not active");
                    continue;
                }
                let flushes = code.architecture == "gfx90a" && name == "v_dot2_f32_f16";
                let halves =
                    |bits| if flushes { each_half(bits, 0, |half, _| flushed_half(half)) } else { bits };
                let whole = |bits| if flushes { single(flushed(f(bits))) } else { bits };
                let result = plain(name, halves(at(0)), halves(at(1)), whole(at(2)));
                let Some((kind, expected)) = result.map(|(kind, bits)| (kind, whole(bits))) else { continue };
                let old = if clears(&code, name, kind) { 0 } else { old };
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
    assert!(tested > 330, "only {tested} instructions were tested");
}

/// The sum of four products of signed bytes and of `c`.
fn signed_dot(a: u32, b: u32, c: u32) -> u32 {
    let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    let products = pairs.map(|(a, b)| i32::from(a as i8) * i32::from(b as i8));
    products.fold(c as i32, i32::wrapping_add) as u32
}

/// Computes the result in one lane from that lane of v0, v1, v2 and the old v3.
type Oracle = Box<dyn Fn(u32, u32, u32, u32) -> (Kind, u32)>;

/// Instructions with modifiers, constants or an accumulator: the text, and the expected result per lane.
#[test]
fn modifiers_change_operands_and_results() {
    let one = |bits: u32| f32::from_bits(bits);
    let mut tested = 0;
    for (text, code) in instructions() {
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
            "v_dot4_i32_iu8 v3, v0, v1, v2 neg_lo:[1,1,0]" => {
                Box::new(|a, b, c, _| (Kind::Bits, signed_dot(a, b, c)))
            }
            "v_dot4c_i32_i8 v3, v0, v1" => Box::new(|a, b, _, d| (Kind::Bits, signed_dot(a, b, d))),
            _ => continue,
        };
        tested += 1;
        for seed in [5, 6, 7] {
            let ran = run(&code, seed, u32::MAX, |_| {});
            for lane in 0..WAVE {
                let at = |register: usize| ran.before.vector[register].0[lane];
                let (kind, expected) = expected(at(0), at(1), at(2), at(3));
                let found = ran.after.vector[3].0[lane];
                let name = text.split(' ').next().unwrap_or_default();
                let old = if clears(&code, name, kind) { 0 } else { at(3) };
                assert!(same(kind, found, expected, old), "{text}: {found:#x}, not {expected:#x}");
            }
        }
    }
    assert_eq!(tested, 14 + 12 + 14 + 14 + 14);
}
