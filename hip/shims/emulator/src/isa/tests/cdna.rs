//! Instructions and layouts of gfx908, gfx90a and gfx942, and instructions on all of a wave of 64 lanes.

use half::bf16;

use super::super::wave::NULL;
use super::families::{fp8_operand, fp8_value};
use super::*;

/// All instructions of these architectures whose text begins like this.
fn of_cdna(start: &str) -> Vec<(String, Code)> {
    let fits =
        |(text, code): &(String, Code)| code.architecture.starts_with("gfx9") && text.starts_with(start);
    let found: Vec<_> = instructions().into_iter().filter(fits).collect();
    assert!(!found.is_empty(), "{start}");
    found
}

/// A register's number in one of 64 lanes.
fn at(wave: &Wave, register: u16, lane: usize) -> u32 {
    wave.vector[usize::from(register) + lane / WAVE * usize::from(UPPER)].0[lane % WAVE]
}

fn wide(wave: &Wave, register: u16, lane: usize) -> u64 {
    u64::from(at(wave, register, lane)) | u64::from(at(wave, register + 1, lane)) << 32
}

fn scalar(wave: &Wave, register: u8) -> u64 {
    let first = usize::from(register);
    u64::from(wave.scalar[first]) | u64::from(wave.scalar[first + 1]) << 32
}

fn active(wave: &Wave, lane: usize) -> bool {
    (wave.exec64() >> lane) & 1 == 1
}

/// The lanes for which a test is true, among the active ones.
fn mask(wave: &Wave, test: impl Fn(usize) -> bool) -> u64 {
    (0..64).fold(0, |mask, lane| mask | u64::from(test(lane) && active(wave, lane)) << lane)
}

/// Runs one instruction. The oracles here know all 64 lanes.
fn run_once(code: &Code, seed: u32, exec: u32, prepare: impl Fn(&mut Wave)) -> Ran {
    let (mut before, mut after) = (start(seed, exec), start(seed, exec));
    prepare(&mut before);
    prepare(&mut after);
    execute(code, &mut after);
    assert!(after.stop == Stop::Running, "{}", after.fault);
    Ran { before, after }
}

const EXEC_LOW: u32 = 0xffff_0ff0;

/// Registers that an instruction writes, and what each lane should hold after it.
type Expected = fn(&Wave, usize) -> u64;

#[test]
fn each_of_64_lanes_gets_its_result() {
    fn pair(low: f32, high: f32) -> u64 {
        u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
    }
    fn one(wave: &Wave, register: u16, lane: usize) -> f32 {
        f32::from_bits(at(wave, register, lane))
    }
    let cases: [(&str, u16, Expected); 18] = [
        ("v_pk_fma_f32 v[4:5], v[0:1], v[6:7], v[8:9]", 4, |w, l| {
            pair(
                one(w, 0, l).mul_add(one(w, 6, l), one(w, 8, l)),
                one(w, 1, l).mul_add(one(w, 7, l), one(w, 9, l)),
            )
        }),
        (
            "v_pk_fma_f32 v[4:5], v[0:1], s[4:5], v[8:9] op_sel_hi:[1,0,1] neg_lo:[1,0,0] neg_hi:[0,0,1]",
            4,
            |w, l| {
                let by = f32::from_bits(S4);
                pair((-one(w, 0, l)).mul_add(by, one(w, 8, l)), one(w, 1, l).mul_add(by, -one(w, 9, l)))
            },
        ),
        ("v_pk_fma_f32 v[4:5], v[0:1], 2.0, 1.0 op_sel_hi:[1,0,0]", 4, |w, l| {
            pair(one(w, 0, l).mul_add(2.0, 1.0), one(w, 1, l).mul_add(2.0, 1.0))
        }),
        ("v_pk_mul_f32 v[4:5], v[0:1], s[4:5]", 4, |w, l| {
            pair(one(w, 0, l) * f32::from_bits(S4), one(w, 1, l) * f32::from_bits(S5))
        }),
        ("v_pk_add_f32 v[0:1], v[0:1], v[6:7] op_sel:[1,0] op_sel_hi:[0,1]", 0, |w, l| {
            pair(one(w, 1, l) + one(w, 6, l), one(w, 0, l) + one(w, 7, l))
        }),
        ("v_pk_mov_b32 v[4:5], v[0:1], v[6:7] op_sel:[0,1]", 4, |w, l| {
            u64::from(at(w, 0, l)) | u64::from(at(w, 7, l)) << 32
        }),
        ("v_pk_mov_b32 v[0:1], v[0:1], s[4:5] op_sel:[1,0]", 0, |w, l| {
            u64::from(at(w, 1, l)) | u64::from(S4) << 32
        }),
        ("v_pk_mov_b32 v[4:5], 0, 0", 4, |_, _| 0),
        ("v_mov_b64 v[4:5], v[0:1]", 4, |w, l| wide(w, 0, l)),
        ("v_mov_b64 v[4:5], s[4:5]", 4, |_, _| u64::from(S4) | u64::from(S5) << 32),
        ("v_lshl_add_u64 v[4:5], v[0:1], 3, v[6:7]", 4, |w, l| {
            (wide(w, 0, l) << 3).wrapping_add(wide(w, 6, l))
        }),
        ("v_lshl_add_u64 v[4:5], s[4:5], 4, v[6:7]", 4, |w, l| {
            ((u64::from(S4) | u64::from(S5) << 32) << 4).wrapping_add(wide(w, 6, l))
        }),
        ("v_accvgpr_read_b32 v3, a2", 3, |w, l| wide(w, ACCUMULATOR + 2, l)),
        ("v_accvgpr_write_b32 a2, v0", ACCUMULATOR + 2, |w, l| wide(w, 0, l)),
        ("v_accvgpr_write_b32 a2, 1.0", ACCUMULATOR + 2, |_, _| u64::from(1f32.to_bits())),
        ("v_accvgpr_mov_b32 a1, a2", ACCUMULATOR + 1, |w, l| wide(w, ACCUMULATOR + 2, l)),
        ("v_mov_b32 v3, exec_hi", 3, |w, _| w.exec64() >> 32),
        ("v_mov_b32 v3, vcc_lo", 3, |_, _| u64::from(CARRY)),
    ];
    for (start, register, expected) in cases {
        for (text, code) in of_cdna(start) {
            let single = ["v_accvgpr", "v_mov_b32"].iter().any(|name| text.starts_with(name));
            let ran = run_once(&code, 31, EXEC_LOW, |_| {});
            for lane in 0..64 {
                let (old, new) = (wide(&ran.before, register, lane), wide(&ran.after, register, lane));
                let expected = if active(&ran.before, lane) { expected(&ran.before, lane) } else { old };
                let words = if single { 1 } else { 2 };
                for word in 0..words {
                    let [found, wanted] = [new, expected].map(|bits| (bits >> (32 * word)) as u32);
                    let same = found == wanted || f(found).is_nan() && f(wanted).is_nan();
                    assert!(same, "{text}: lane {lane}: {found:#x}, not {wanted:#x}");
                }
            }
        }
    }
}

#[test]
fn parts_of_registers_are_operands_and_the_short_forms_clear_the_upper_half() {
    type Expected = fn(u32, u32) -> u32;
    let cases: [(&str, Expected); 6] = [
        ("v_cvt_f32_f16_sdwa", |a, _| single(h(a >> 16))),
        ("v_mul_lo_u16_sdwa", |a, b| (a >> 16).wrapping_mul(b) & 0xffff),
        ("v_lshlrev_b16_sdwa", |a, b| ((b >> 16) << (a & 15)) & 0xffff),
        ("v_xor_b32_sdwa", |a, b| a ^ (b >> 16)),
        ("v_mul_lo_u16 v3, v0, v1", |a, b| (a & 0xffff).wrapping_mul(b & 0xffff) & 0xffff),
        ("v_sub_nc_u16 v3, v0, v1", |a, b| a.wrapping_sub(b) & 0xffff),
    ];
    for (start, expected) in cases {
        for (text, code) in of_cdna(start) {
            let ran = run_once(&code, 32, EXEC_LOW, |_| {});
            for lane in 0..64 {
                let (a, b) = (at(&ran.before, 0, lane), at(&ran.before, 1, lane));
                let expected =
                    if active(&ran.before, lane) { expected(a, b) } else { at(&ran.before, 3, lane) };
                let found = at(&ran.after, 3, lane);
                let same = found == expected || f(found).is_nan() && f(expected).is_nan();
                assert!(same, "{text}: lane {lane}: {found:#x}, not {expected:#x}");
            }
        }
    }
}

#[test]
fn masks_have_a_bit_for_each_of_64_lanes() {
    let s = u64::from(S4) | u64::from(S5) << 32;
    for (text, code) in of_cdna("v_").into_iter().filter(|(text, _)| !text.starts_with("v_mfma")) {
        let ran = run_once(&code, 33, EXEC_LOW, |_| {});
        let (before, after) = (&ran.before, &ran.after);
        let (a, b) = (|lane| at(before, 0, lane), |lane| at(before, 1, lane));
        match text.as_str() {
            "v_cmp_lt_u32_sdwa s[6:7], v0, v1 src0_sel:BYTE_0 src1_sel:BYTE_3" => {
                assert_eq!(scalar(after, 6), mask(before, |lane| a(lane) & 255 < b(lane) >> 24));
            }
            "v_cmp_eq_u32 s6, v0, v1" => {
                assert_eq!(scalar(after, 6), mask(before, |lane| a(lane) == b(lane)))
            }
            "v_cmp_lt_f32 vcc_lo, v0, v1" => {
                assert_eq!(scalar(after, VCC), mask(before, |lane| f(a(lane)) < f(b(lane))));
            }
            // The mask's registers are a source, too. Both halves read the old numbers.
            "v_cmp_lt_u64 s[4:5], s[4:5], v[0:1]" => {
                assert_eq!(scalar(after, 4), mask(before, |lane| s < wide(before, 0, lane)));
            }
            "v_cndmask_b32 v3, v0, v1, s[4:5]" => {
                for lane in (0..64).filter(|&lane| active(before, lane)) {
                    let expected = if (s >> lane) & 1 == 1 { b(lane) } else { a(lane) };
                    assert_eq!(at(after, 3, lane), expected, "{text}: lane {lane}");
                }
            }
            "v_addc_co_u32 v3, s[4:5], v0, v1, s[4:5]" => {
                let sum = |lane| u64::from(a(lane)) + u64::from(b(lane)) + ((s >> lane) & 1);
                assert_eq!(scalar(after, 4), mask(before, |lane| sum(lane) >> 32 == 1));
                for lane in (0..64).filter(|&lane| active(before, lane)) {
                    assert_eq!(at(after, 3, lane), sum(lane) as u32, "{text}: lane {lane}");
                }
            }
            "v_mad_u64_u32 v[4:5], s[6:7], v0, v1, v[6:7]" => {
                let sum =
                    |lane| u128::from(a(lane)) * u128::from(b(lane)) + u128::from(wide(before, 6, lane));
                assert_eq!(scalar(after, 6), mask(before, |lane| sum(lane) >> 64 == 1));
            }
            _ => {}
        }
    }
    // A scalar source that is a part of the mask.
    for (start, first) in [("v_cmp_gt_u32 s[6:7], s6, v0", 6), ("v_cmp_gt_u32 s[6:7], s7, v0", 7)] {
        for (text, code) in of_cdna(start) {
            let ran = run_once(&code, 34, EXEC_LOW, |wave| wave.set_scalar64(6, 0x0100_0000_4000_0000));
            let limit = ran.before.scalar[first];
            let expected = mask(&ran.before, |lane| limit > at(&ran.before, 0, lane));
            assert_eq!(scalar(&ran.after, 6), expected, "{text}");
        }
    }
}

#[test]
fn scalar_instructions_compute_on_all_of_exec() {
    let s = u64::from(S4) | u64::from(S5) << 32;
    let mut tested = 0;
    for (text, code) in of_cdna("s_") {
        let ran = run_once(&code, 35, EXEC_LOW, |_| {});
        let (exec, vcc) = (ran.before.exec64(), scalar(&ran.before, VCC));
        let (name, operands) = text.split_once(' ').unwrap();
        let logic: fn(u64, u64) -> u64 = match name.strip_prefix("s_").unwrap().split('_').next().unwrap() {
            "and" => |a, b| a & b,
            "or" => |a, b| a | b,
            "xor" => |a, b| a ^ b,
            "andn2" => |a, b| a & !b,
            "orn2" => |a, b| a | !b,
            "andn1" => |a, b| !a & b,
            "orn1" => |a, b| !a | b,
            "nand" => |a, b| !(a & b),
            "nor" => |a, b| !(a | b),
            "xnor" => |a, b| !(a ^ b),
            _ => continue,
        };
        if name.ends_with("_saveexec_b64") {
            let source = if operands.ends_with("vcc") { vcc } else { s };
            assert_eq!((ran.after.exec64(), scalar(&ran.after, 6)), (logic(source, exec), exec), "{text}");
            assert_eq!(ran.after.scc, logic(source, exec) != 0, "{text}");
        } else if operands == "s[6:7], s[4:5], vcc" {
            assert_eq!((scalar(&ran.after, 6), ran.after.exec64()), (logic(s, vcc), exec), "{text}");
        } else {
            continue;
        }
        tested += 1;
    }
    assert_eq!(tested, 2 * 15);
}

#[test]
fn numbers_move_between_all_64_lanes() {
    for (text, code) in of_cdna("v_readfirstlane_b32") {
        // No lane of the lower half is active.
        let ran = run_once(&code, 36, 0, |wave| wave.set_scalar(EXEC + 1, 0x50));
        assert_eq!(ran.after.scalar[6], at(&ran.before, 0, 36), "{text}");
    }
    for (text, code) in of_cdna("v_readlane_b32 s6, v0, 45") {
        let ran = run_once(&code, 36, 1, |_| {});
        assert_eq!(ran.after.scalar[6], at(&ran.before, 0, 45), "{text}");
    }
    for (text, code) in of_cdna("v_writelane_b32 v3, s4, 45") {
        let ran = run_once(&code, 36, 1, |_| {});
        let expected = |lane| if lane == 45 { S4 } else { at(&ran.before, 3, lane) };
        assert!((0..64).all(|lane| at(&ran.after, 3, lane) == expected(lane)), "{text}");
    }
    for (start, part, from) in [("v_mbcnt_lo_u32_b32", S4, 0), ("v_mbcnt_hi_u32_b32", S5, 32)] {
        for (text, code) in of_cdna(start) {
            let Ran { before, after } = run_once(&code, 37, EXEC_LOW, |_| {});
            for lane in (0..64).filter(|&lane| active(&before, lane)) {
                let below = (0..32).filter(|bit| bit + from < lane && (part >> bit) & 1 == 1).count() as u32;
                let expected = at(&before, 1, lane).wrapping_add(below);
                assert_eq!(at(&after, 3, lane), expected, "{text}: lane {lane}");
            }
        }
    }
    // The mask has a bit for each row of 16 lanes.
    for (text, code) in of_cdna("v_mov_b32 v3, v0 row_mirror row_mask:0x1") {
        let ran = run_once(&code, 41, u32::MAX, |_| {});
        let expected =
            |lane| if lane < 16 { at(&ran.before, 0, 15 - lane) } else { at(&ran.before, 3, lane) };
        assert!((0..64).all(|lane| at(&ran.after, 3, lane) == expected(lane)), "{text}");
    }
    type From = fn(&Wave, usize) -> Option<usize>;
    let cases: [(&str, u16, From); 3] = [
        ("ds_swizzle_b32 v3, v0 offset:swizzle(SWAP,16)", 0, |_, lane| Some(lane ^ 16)),
        ("ds_bpermute_b32 v3, v0, v1", 1, |wave, lane| Some((at(wave, 0, lane) / 4) as usize % 64)),
        ("ds_permute_b32 v3, v0, v1", 1, |wave, lane| {
            let writes = |&from: &usize| active(wave, from) && (at(wave, 0, from) / 4) as usize % 64 == lane;
            (0..64).rev().find(writes)
        }),
    ];
    for (start, data, from) in cases {
        for (text, code) in of_cdna(start) {
            let ran = run_once(&code, 38, EXEC_LOW, |_| {});
            for lane in 0..64 {
                let read = from(&ran.before, lane).filter(|&from| active(&ran.before, from));
                let moved = read.map_or(0, |from| at(&ran.before, data, from));
                let expected = if active(&ran.before, lane) { moved } else { at(&ran.before, 3, lane) };
                assert_eq!(at(&ran.after, 3, lane), expected, "{text}: lane {lane}");
            }
        }
    }
}

#[test]
fn matrix_instructions_multiply_tiles_of_bytes() {
    let mut tested = 0;
    for (text, code) in of_cdna("v_mfma_i32_16x16x") {
        let ran = run_once(&code, 40, u32::MAX, |_| {});
        // The registers of A, of B, of C and of D, and the bytes of a row of A in a lane.
        let (a, b, c, d, each) = match text.as_str() {
            "v_mfma_i32_16x16x16i8 a[0:3], v8, v10, a[4:7]" => (8, 10, ACCUMULATOR + 4, ACCUMULATOR, 4),
            "v_mfma_i32_16x16x32_i8 v[32:35], v[8:9], v[10:11], v[24:27]" => (8, 10, 24, 32, 8),
            _ => panic!("{text} has no test"),
        };
        let byte = |first: u16, row: usize, k: usize| {
            let (lane, place) = (row + 16 * (k / each), k % each);
            i64::from(at(&ran.before, first + place as u16 / 4, lane).to_le_bytes()[place % 4] as i8)
        };
        for row in 0..16 {
            for column in 0..16 {
                let (register, lane) = (row as u16 % 4, column + 16 * (row / 4));
                let sum: i64 = (0..4 * each).map(|k| byte(a, row, k) * byte(b, column, k)).sum();
                let expected = (at(&ran.before, c + register, lane) as i32).wrapping_add(sum as i32);
                let found = at(&ran.after, d + register, lane) as i32;
                assert_eq!(found, expected, "{text} ({row}, {column})");
            }
        }
        tested += 1;
    }
    // gfx908 and gfx90a have the same instruction.
    assert_eq!(tested, 3);
}

#[test]
fn matrix_instructions_multiply_tiles_of_8_bit_floats() {
    let all = of_cdna("v_mfma_f32_16x16x32_fp8_fp8");
    for (text, code) in &all {
        let ran = run_once(code, 41, u32::MAX, |wave| {
            for register in 8..28 {
                for lane in 0..64 {
                    *wave.lane64(register, lane) = fp8_operand(register, lane, register >= 24);
                }
            }
        });
        let element = |first: u16, row: usize, k: usize| {
            let word = at(&ran.before, first + k as u16 % 8 / 4, row + 16 * (k / 8));
            fp8_value(word.to_le_bytes()[k % 4], 8)
        };
        for row in 0..16 {
            for column in 0..16 {
                let (register, lane) = (row as u16 % 4, column + 16 * (row / 4));
                let products = || (0..32).map(|k| element(8, row, k) * element(10, column, k));
                let start = f(at(&ran.before, 24 + register, lane));
                let expected = start + products().sum::<f64>();
                let size = start.abs() + products().map(f64::abs).sum::<f64>();
                let found = f(at(&ran.after, 32 + register, lane));
                assert!(
                    (expected - found).abs() <= 1e-6 * size,
                    "{text} ({row}, {column}): {found}, not {expected}"
                );
            }
        }
    }
    assert_eq!(all.len(), 1);
}

#[test]
fn matrix_instructions_multiply_tiles_of_64_lanes() {
    let all: Vec<_> =
        ["v_mfma_f32_16x16x16", "v_mfma_f32_16x16x8bf16"].into_iter().flat_map(of_cdna).collect();
    assert_eq!(all.len(), 6);
    for (text, code) in all {
        // The elements of a row of A, and those of them that a lane holds.
        let depth = if text.contains("x8bf16") { 8 } else { 16 };
        let each = depth / 4;
        let brain = text.contains("bf16");
        let accumulates = text.contains("a[4:7]");
        let (sums, result) = if accumulates { (ACCUMULATOR + 4, ACCUMULATOR) } else { (24, 32) };
        let prepare = |wave: &mut Wave| {
            for register in (8..12).chain(sums..sums + 4) {
                for lane in 0..64 {
                    let number = numbers(u32::from(register) * 64 + lane as u32)[0];
                    let value = |bits: u32| f64::from(bits % 1000) / 300.0 - 1.5;
                    let short = |value: f64| {
                        if brain { u32::from(bf16::from_f64(value).to_bits()) } else { half(value) }
                    };
                    let pair = short(value(number)) | short(value(number >> 10)) << 16;
                    *wave.lane64(register, lane) = if register < 12 { pair } else { single(value(number)) };
                }
            }
        };
        let ran = run_once(&code, 39, u32::MAX, prepare);
        // Element k of a row of A, or of a column of B.
        let element = |first: u16, row: usize, k: usize| {
            let (lane, place) = (row + 16 * (k / each), k % each);
            let bits = (at(&ran.before, first + place as u16 / 2, lane) >> (16 * (place % 2))) as u16;
            if brain { bf16::from_bits(bits).to_f64() } else { f16::from_bits(bits).to_f64() }
        };
        for row in 0..16 {
            for column in 0..16 {
                let (register, lane) = (row as u16 % 4, column + 16 * (row / 4));
                let products = (0..depth).map(|k| element(8, row, k) * element(10, column, k));
                let expected = f(at(&ran.before, sums + register, lane)) + products.sum::<f64>();
                let found = f(at(&ran.after, result + register, lane));
                assert!((expected - found).abs() < 1e-5, "{text} ({row}, {column}): {found}, not {expected}");
            }
        }
        // The instruction is an error where a lane is inactive.
        let mut wave = start(39, u32::MAX);
        wave.set_scalar(EXEC + 1, 0x7fff_ffff);
        execute(&code, &mut wave);
        assert!(wave.stop == Stop::Fault && wave.fault.contains("with inactive lanes"), "{}", wave.fault);
    }
}

/// AMD's documents: "On the MI200, MFMA_F16, MFMA_BF16, and MFMA_BF16_1K flush subnormal input/output data to zero."
#[test]
fn only_gfx90a_flushes_subnormal_numbers_in_matrix_products() {
    const LARGE: u32 = 0x7000_7000;
    for (text, code) in of_cdna("v_mfma_f32_16x16x16") {
        let (sums, result) = if text.contains("a[4:7]") { (ACCUMULATOR + 4, ACCUMULATOR) } else { (24, 32) };
        // A, B, C: one of A, B and C is the smallest subnormal number, and A or B are large or 0.
        for (number, [a, b, c]) in
            [[0x1_0001, LARGE, 0], [LARGE, 0x1_0001, 0], [0, 0, 1]].into_iter().enumerate()
        {
            let ran = run_once(&code, 41, u32::MAX, |wave| {
                for (registers, bits) in [(8..10, a), (10..12, b), (sums..sums + 4, c)] {
                    for (register, lane) in registers.flat_map(|r| (0..64).map(move |lane| (r, lane))) {
                        *wave.lane64(register, lane) = bits;
                    }
                }
            });
            let is_zero = (0..4).all(|r| (0..64).all(|lane| at(&ran.after, result + r, lane) == 0));
            assert_eq!(is_zero, code.architecture == "gfx90a", "{}: {text}, {number}", code.architecture);
        }
    }
}

#[test]
fn branches_look_at_both_words_of_a_mask() {
    // s_cbranch_vccz, vccnz, execz and execnz, to the instruction after the next one.
    for (code, register, on_zero) in [
        (0xbf86_0001_u32, VCC, true),
        (0xbf87_0001, VCC, false),
        (0xbf88_0001, EXEC, true),
        (0xbf89_0001, EXEC, false),
    ] {
        let bytes = [code, 0xbf80_0000, 0xbf80_0000].iter().flat_map(|word| word.to_le_bytes()).collect();
        let program = Code { architecture: "gfx90a", bytes }.decode();
        for mask in [0_u64, 1, 1 << 40] {
            let mut wave = start(40, u32::MAX);
            wave.set_scalar64(register, mask);
            wave.next = 1;
            // SAFETY: the instruction was decoded above.
            unsafe { (program.instructions[0].execute)(&mut wave, &program.instructions[0]) };
            let expected = if (mask == 0) == on_zero { 2 } else { 1 };
            assert_eq!(wave.next, expected, "{code:#x} with {mask:#x}");
        }
    }
}

#[test]
fn memory_instructions_name_accumulation_registers_and_scalar_offsets() {
    let decode = |words: [u32; 2]| {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Code { architecture: "gfx90a", bytes }.decode().instructions.swap_remove(0)
    };
    // global_load_dword a2, v[0:1], off; global_store_dword v[0:1], a3, off; ds_read2_b32 a[2:3], v0 offset0:1 offset1:2
    let load = decode([0xdc50_8000, 0x02ff_0000]);
    assert_eq!((load.destination, load.sources[1].index), (ACCUMULATOR + 2, u16::from(NULL)));
    assert_eq!(decode([0xdc70_8000, 0x00ff_0300]).sources[2].index, ACCUMULATOR + 3);
    let pair = decode([0xda6e_0201, 0x0200_0000]);
    let both = pair.inner.as_deref().unwrap().iter().flat_map(|half| half.inner.as_deref().unwrap());
    let places: Vec<_> = both.map(|access| (access.destination, access.immediate)).collect();
    let upper = ACCUMULATOR + UPPER;
    let lower = [(ACCUMULATOR + 2, 4), (ACCUMULATOR + 3, 8)];
    assert_eq!(places, [lower[0], lower[1], (upper + 2, 4), (upper + 3, 8)]);
    // global_load_dword v2, v3, s[4:5] offset:-8
    let load = decode([0xdc50_9ff8, 0x0204_0003]);
    assert_eq!((load.destination, load.sources[1].index, load.immediate), (2, 4, -8));
    // s_load_dword s6, s[4:5] with the offsets s7, -8, and s7 + 16
    let offsets = [[0xc000_0182, 7], [0xc002_0182, 0x001f_fff8], [0xc002_4182, 0x0e00_0010]].map(decode);
    let found = offsets.map(|load| (load.sources[0].index, load.sources[1].index, load.immediate));
    assert_eq!(found, [(4, 7, 0), (4, u16::from(NULL), -8), (4, 7, 16)]);
}

#[test]
fn a_large_shift_before_a_sum_of_64_bits_is_an_error() {
    // v_lshl_add_u64 v[4:5], v[0:1], v8, v[6:7]
    let code = Code { architecture: "gfx942", bytes: vec![0x04, 0x00, 0x08, 0xd2, 0x00, 0x11, 0x1a, 0x04] };
    for (shift, told) in [(4, ""), (5, "v_lshl_add_u64: a shift by 0x5, more than 4")] {
        let mut wave = start(42, 1 << 3);
        wave.set_scalar(EXEC + 1, 0);
        wave.vector[8].0[3] = shift;
        execute(&code, &mut wave);
        assert_eq!(wave.fault, told);
    }
}
