//! Matrix instructions, and the operands that the hardware forbids.

use half::{bf16, f16};

use super::*;

/// Copies lanes 0 to 15 of a matrix operand's registers to lanes 16 to 31. The instructions read both halves of the
/// wave and need them equal.
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
    let of_gfx11 =
        |(text, code): &(String, Code)| text.starts_with("v_wmma") && code.architecture == "gfx1100";
    for (text, code) in instructions().into_iter().filter(of_gfx11) {
        let bytewise = text.contains("iu8");
        // Operands of bytes are random bits. All other numbers are floats of moderate size: fp32 in the accumulators of
        // v_wmma_f32, otherwise two 16-bit floats in each register. A 16-bit accumulator uses only the lower one.
        let ran = run(&code, 12, u32::MAX, |wave| {
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
    let (_, code) =
        instructions().into_iter().find(|(text, _)| text.starts_with("v_wmma_f32_16x16x16_f16")).unwrap();
    let program = code.decode();
    for (exec, words) in [(0x7fff_ffff, "inactive lanes"), (u32::MAX, "the two halves")] {
        let mut wave = start(1, exec);
        // SAFETY: the instruction was decoded from a fixture.
        unsafe { (program.instructions[0].execute)(&mut wave, &program.instructions[0]) };
        assert!(wave.stop == Stop::Fault && wave.fault.contains(words), "{}", wave.fault);
    }
    // The emulator has no image instructions.
    let program = Code { architecture: "gfx1100", bytes: vec![0, 0, 0, 0xf0, 0, 0, 0, 0] }.decode();
    let mut wave = start(1, u32::MAX);
    // SAFETY: the decoder made the instruction.
    unsafe { (program.instructions[0].execute)(&mut wave, &program.instructions[0]) };
    assert_eq!(wave.fault, "unknown instruction f0000000 00000000");
}
