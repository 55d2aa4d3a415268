//! Instructions and layouts that only one of the families has.

use half::bf16;

use super::*;

fn of(architecture: &str, start: &str) -> (String, Code) {
    let fits = |(text, code): &(String, Code)| code.architecture == architecture && text.starts_with(start);
    instructions().into_iter().find(fits).unwrap_or_else(|| panic!("{architecture}: {start}"))
}

fn byte(word: u32, number: usize) -> u32 {
    u32::from(word.to_le_bytes()[number])
}

#[test]
fn gfx10_selects_bytes_and_halves() {
    type Expected = fn(u32, u32, u32) -> u32;
    let cases: [(&str, Expected); 4] = [
        ("v_cvt_f32_f16_sdwa", |a, _, _| single(h(a >> 16))),
        ("v_add_f32_sdwa", |a, b, _| single(f(b).abs() - f(a))),
        ("v_add_nc_u32_sdwa", |a, b, old| {
            (old & 0xffff) | (byte(a, 2) as u8 as i8 as i32 as u32).wrapping_add(b & 0xffff) << 16
        }),
        ("v_mov_b32_sdwa", |_, _, _| byte(S4, 0) << 8),
    ];
    for (start, expected) in cases {
        let (text, code) = of("gfx1030", start);
        let ran = run(&code, 21, 0xffff_fffb, |_| {});
        for lane in 0..WAVE {
            let at = |register: usize| ran.before.vector[register].0[lane];
            let expected = if lane == 2 { at(3) } else { expected(at(0), at(1), at(3)) };
            let kind = if text.contains("f32") && lane != 2 { Kind::Single(0) } else { Kind::Bits };
            let found = ran.after.vector[3].0[lane];
            assert!(same(kind, found, expected, 0), "{text}: lane {lane}: {found:#x}, not {expected:#x}");
        }
    }
    let (text, code) = of("gfx1030", "v_cmp_lt_u32_sdwa");
    let ran = run(&code, 22, u32::MAX, |_| {});
    let (a, b) = (ran.before.vector[0].0, ran.before.vector[1].0);
    let less = (0..WAVE).fold(0, |mask, lane| mask | u32::from(byte(a[lane], 0) < byte(b[lane], 3)) << lane);
    assert_eq!(ran.after.scalar[6], less, "{text}");
}

#[test]
fn gfx12_computes_with_64_bits_in_scalar_registers_and_in_short_encodings() {
    let s = u64::from(S4) | u64::from(S5) << 32;
    for (start, expected) in [
        ("s_add_nc_u64", s.wrapping_sub(1)),
        ("s_sub_nc_u64", s.wrapping_sub(0x1234_5678)),
        ("s_mul_u64", s.wrapping_mul(s)),
    ] {
        let (text, code) = of("gfx1200", start);
        let ran = run(&code, 23, u32::MAX, |_| {});
        let found = u64::from(ran.after.scalar[6]) | u64::from(ran.after.scalar[7]) << 32;
        assert_eq!((found, ran.after.scc), (expected, ran.before.scc), "{text}");
    }
    let instructions = instructions();
    for name in ["v_lshlrev_b64 v[4:5], v0", "v_mul_f64"] {
        let (text, code) = instructions.iter().find(|(text, _)| text.starts_with(name)).unwrap();
        assert_eq!(code.bytes.len(), 4, "{text} is a short encoding");
        let ran = run(code, 24, u32::MAX, |_| {});
        for lane in 0..WAVE {
            let wide = |wave: &Wave, register: usize| {
                u64::from(wave.vector[register].0[lane]) | u64::from(wave.vector[register + 1].0[lane]) << 32
            };
            let (a, b, found) = (wide(&ran.before, 0), wide(&ran.before, 6), wide(&ran.after, 4));
            if name == "v_mul_f64" {
                let (expected, found) = (f64::from_bits(a) * f64::from_bits(b), f64::from_bits(found));
                assert!(expected == found || expected.is_nan() && found.is_nan(), "{text}: {found}");
            } else {
                assert_eq!(found, b << (a & 63), "{text}");
            }
        }
    }
}

#[test]
fn gfx12_multiplies_tiles_whose_halves_lie_in_both_halves_of_the_wave() {
    for start in ["v_wmma_f32_16x16x16_f16", "v_wmma_f32_16x16x16_bf16"] {
        let brain = start.ends_with("bf16");
        let (text, code) = of("gfx1200", start);
        let ran = run(&code, 25, u32::MAX, |wave| {
            for register in 8..32 {
                for lane in 0..WAVE {
                    let number = numbers((register * 32 + lane) as u32)[0];
                    let value = |bits: u32| f64::from(bits % 1000) / 300.0 - 1.5;
                    let short = |value: f64| {
                        if brain { u32::from(bf16::from_f64(value).to_bits()) } else { half(value) }
                    };
                    let pair = short(value(number)) | short(value(number >> 10)) << 16;
                    wave.vector[register].0[lane] = if register < 24 { pair } else { single(value(number)) };
                }
            }
        });
        // The sum is over the same places of both operands, whatever k they mean.
        let places = || {
            (0..2).flat_map(|group| {
                (0..4).flat_map(move |register| [(group, register, 0), (group, register, 1)])
            })
        };
        let element = |first: usize, row: usize, (group, register, half): (usize, usize, usize)| {
            let bits = (ran.before.vector[first + register].0[row + 16 * group] >> (16 * half)) as u16;
            if brain { bf16::from_bits(bits).to_f64() } else { f16::from_bits(bits).to_f64() }
        };
        for row in 0..16 {
            for column in 0..16 {
                let (register, lane) = (row % 8, column + 16 * (row / 8));
                let sum: f64 =
                    places().map(|place| element(8, row, place) * element(16, column, place)).sum();
                let expected = f(ran.before.vector[24 + register].0[lane]) + sum;
                let found = f(ran.after.vector[32 + register].0[lane]);
                assert!((expected - found).abs() < 1e-5, "{text} ({row}, {column}): {found}, not {expected}");
            }
        }
    }
}

#[test]
fn gfx12_multiplies_tiles_of_bytes() {
    let (text, code) = of("gfx1200", "v_wmma_i32_16x16x16_iu8");
    let ran = run(&code, 26, u32::MAX, |_| {});
    // The sum is over the same places of both operands, whatever k they mean.
    let places = || (0..2).flat_map(|group| (0..8).map(move |place| (group, place)));
    let byte = |first: usize, row: usize, (group, place): (usize, usize)| {
        let word = ran.before.vector[first + place / 4].0[row + 16 * group];
        i64::from(word.to_le_bytes()[place % 4] as i8)
    };
    for row in 0..16 {
        for column in 0..16 {
            let (register, lane) = (row % 8, column + 16 * (row / 8));
            let sum: i64 = places().map(|place| byte(8, row, place) * byte(16, column, place)).sum();
            let expected = (ran.before.vector[24 + register].0[lane] as i32).wrapping_add(sum as i32);
            assert_eq!(ran.after.vector[32 + register].0[lane] as i32, expected, "{text} ({row}, {column})");
        }
    }
}

/// The value of a code in e4m3 whose exponents have this bias.
pub(super) fn fp8_value(code: u8, bias: i32) -> f64 {
    let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7) / 8.0);
    let magnitude = match exponent {
        0 => mantissa * 2f64.powi(1 - bias),
        _ => (1.0 + mantissa) * 2f64.powi(exponent - bias),
    };
    if code < 0x80 { magnitude } else { -magnitude }
}

/// Random codes in e4m3 for the operands A and B, without NaNs, and moderate sums.
pub(super) fn fp8_operand(register: u16, lane: usize, is_sum: bool) -> u32 {
    let number = numbers(u32::from(register) * 64 + lane as u32)[0];
    let codes = number.to_le_bytes().map(|byte| if matches!(byte, 0x7f | 0x80 | 0xff) { 0x38 } else { byte });
    if is_sum { single(f64::from(number % 1000) / 10.0 - 50.0) } else { u32::from_le_bytes(codes) }
}

#[test]
fn gfx12_multiplies_tiles_of_8_bit_floats() {
    let (text, code) = of("gfx1200", "v_wmma_f32_16x16x16_fp8_fp8");
    let ran = run(&code, 27, u32::MAX, |wave| {
        for register in 8..32 {
            for lane in 0..WAVE {
                wave.vector[register].0[lane] = fp8_operand(register as u16, lane, register >= 24);
            }
        }
    });
    // RDNA4's document: lane l holds the elements 8 (l / 16) to 8 (l / 16) + 7 of its row, the first in the lowest byte.
    let element = |first: usize, row: usize, k: usize| {
        let word = ran.before.vector[first + k % 8 / 4].0[row + 16 * (k / 8)];
        fp8_value(word.to_le_bytes()[k % 4], 7)
    };
    for row in 0..16 {
        for column in 0..16 {
            let (register, lane) = (row % 8, column + 16 * (row / 8));
            let products = || (0..16).map(|k| element(8, row, k) * element(16, column, k));
            let start = f(ran.before.vector[24 + register].0[lane]);
            let expected = start + products().sum::<f64>();
            let size = start.abs() + products().map(f64::abs).sum::<f64>();
            let found = f(ran.after.vector[32 + register].0[lane]);
            assert!(
                (expected - found).abs() <= 1e-6 * size,
                "{text} ({row}, {column}): {found}, not {expected}"
            );
        }
    }
}

/// The code that is nearest to a number among all codes that are numbers; of two, the even one. `None` if the number is
/// too large.
fn nearest_fp8(value: f64, bias: i32, is_number: impl Fn(u8) -> bool) -> Option<u8> {
    let distance = |code: u8| (fp8_value(code, bias) - value).abs();
    let better = |best: u8, code: u8| {
        let (old, new) = (distance(best), distance(code));
        if new < old || new == old && code.is_multiple_of(2) && !best.is_multiple_of(2) { code } else { best }
    };
    // gfx942 has only one zero.
    let has_sign = |code: u8| (code >= 0x80) == value.is_sign_negative() || bias == 8 && code == 0;
    let same_sign = (0..=255).filter(|&code| is_number(code) && has_sign(code));
    let best = same_sign.reduce(better)?;
    // From the middle between the largest number and the next one on, a number is too large. The middle is OCP's.
    let largest =
        (0..0x80).filter(|&code| is_number(code)).map(|code| fp8_value(code, bias)).fold(0.0, f64::max);
    let half_step = largest / if bias == 8 { 30.0 } else { 28.0 };
    let limit = value.abs() - largest;
    (limit < half_step || limit == half_step && bias == 7).then_some(best)
}

/// Two numbers are rounded to e4m3 and packed into the half of the register that the instruction names. gfx942's variant
/// has a NaN in the place of the negative zero.
#[test]
fn numbers_are_rounded_to_8_bits_and_packed() {
    for (architecture, bias, nan) in [("gfx1200", 7, 0x7f), ("gfx942", 8, 0x80)] {
        let is_number = |code: u8| if bias == 8 { code != 0x80 } else { code & 0x7f != 0x7f };
        let rounded = |bits: u32| {
            let value = f(bits);
            let code = if value.is_finite() { nearest_fp8(value, bias, is_number) } else { None };
            u32::from(code.unwrap_or(nan))
        };
        for (start, shift) in
            [("v_cvt_pk_fp8_f32 v3, v0, v1", 0), ("v_cvt_pk_fp8_f32 v3, v0, v1 op_sel:[0,0,1]", 16)]
        {
            let all = instructions();
            let (text, code) =
                all.iter().find(|(text, code)| code.architecture == architecture && text == start).unwrap();
            for seed in 0..20 {
                // Numbers of all sizes that the format has, and some that are too large.
                let ran = run(code, 50 + seed, u32::MAX, |wave| {
                    for register in 0..2 {
                        for lane in 0..WAVE {
                            let number = numbers(seed * 100 + register as u32 * 64 + lane as u32)[0];
                            let size = 2f64.powi((number % 21) as i32 - 12);
                            let value = (f64::from(number >> 8) / f64::from(1 << 23) - 1.0) * size;
                            wave.vector[register].0[lane] = single(value);
                        }
                    }
                });
                for lane in 0..WAVE {
                    let at = |register: usize| ran.before.vector[register].0[lane];
                    let pair = rounded(at(0)) | rounded(at(1)) << 8;
                    let expected = at(3) & !(0xffff << shift) | pair << shift;
                    let found = ran.after.vector[3].0[lane];
                    assert_eq!(
                        found,
                        expected,
                        "{text}: {} {}: {found:#x}, not {expected:#x}",
                        f(at(0)),
                        f(at(1))
                    );
                }
            }
        }
    }
}

/// Runs the barrier instructions in this order, and returns the state after the last one.
fn barrier(codes: &[u32]) -> Box<Wave> {
    let bytes = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
    let program = Code { architecture: "gfx1200", bytes }.decode();
    let mut wave = start(1, u32::MAX);
    for instruction in &program.instructions[..codes.len()] {
        wave.stop = Stop::Running;
        // SAFETY: the instruction was decoded from these codes.
        unsafe { (instruction.execute)(&mut wave, instruction) };
    }
    wave
}

#[test]
fn a_split_barrier_needs_a_signal_before_each_wait() {
    // s_barrier_signal -1, s_barrier_wait -1, s_barrier_wait 1
    let (signal, wait, other) = (0xbe80_4ec1, 0xbf94_ffff, 0xbf94_0001);
    assert!(barrier(&[signal]).stop == Stop::Running);
    assert!(barrier(&[signal, wait]).stop == Stop::Barrier);
    assert!(barrier(&[signal, wait, signal, wait]).stop == Stop::Barrier);
    for (codes, fault) in [
        (&[wait][..], "the wave waits for a barrier that it has not signaled"),
        (&[signal, wait, wait], "the wave waits for a barrier that it has not signaled"),
        (&[signal, signal], "the wave signals the barrier twice without waiting for it"),
        (&[signal, other], "the emulator only knows the workgroup's barrier"),
    ] {
        let wave = barrier(codes);
        assert!(wave.stop == Stop::Fault && wave.fault == fault, "{codes:x?}: {}", wave.fault);
    }
}

/// Every family must refuse what it lacks: gfx10 has neither dual nor matrix instructions, and gfx12 no MUBUF.
#[test]
fn an_instruction_of_another_family_is_unknown() {
    let dual = of("gfx1100", "v_dual_mul_f32").1.bytes;
    let matrix = of("gfx1100", "v_wmma_f32_16x16x16_f16").1.bytes;
    let buffer = 0xe050_0000_u64.to_le_bytes().to_vec();
    for (architecture, bytes) in [("gfx1030", dual), ("gfx1030", matrix), ("gfx1200", buffer)] {
        let program = Code { architecture, bytes }.decode();
        assert_eq!(program.instructions[0].name, "unknown", "{architecture}");
    }
}
