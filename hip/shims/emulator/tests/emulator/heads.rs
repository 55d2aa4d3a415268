//! Tests of the heads' kernels: softmax, the legal moves' policies, and the last layers of value and moves left.

use crate::kernels::{Activation, TYPES, module, run};
use crate::{Libraries, libraries, noise};

fn softmax(logits: &[f64], scale: f64) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::MIN, f64::max);
    let powers: Vec<f64> = logits.iter().map(|logit| ((logit - most) * scale).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

#[test]
fn rows_of_any_width_become_probabilities() {
    let (lib, _turn) = libraries();
    let module = module(lib);
    for kind in TYPES {
        for (rows, width) in [(1usize, 8usize), (9, 64), (13, 200), (3, 1864), (2, 4096)] {
            let (input, x) =
                kind.upload(lib, &noise(21, rows * width).iter().map(|v| v * 4.0).collect::<Vec<_>>());
            let (bias, b) = kind.upload(lib, &noise(22, width));
            let output = lib.empty::<u8>(rows * width * kind.bytes());
            let arguments = Activation::of((input, bias, output), (rows, width), 0);
            run(
                lib,
                module,
                &format!("softmax_{}", kind.name()),
                (rows.div_ceil(8) as u32, 1),
                256,
                arguments,
            );
            let found = kind.download(lib, output, rows * width);
            for row in 0..rows {
                let sums: Vec<f64> = (0..width).map(|i| x[row * width + i] + b[i]).collect();
                for (i, expected) in softmax(&sums, 1.0).into_iter().enumerate() {
                    let result = found[row * width + i];
                    assert!(
                        (result - expected).abs() <= kind.tolerance(0.0) / 4.0,
                        "{rows} x {width}: {result}, not {expected}"
                    );
                }
            }
        }
    }
}

/// For each position, the index of its first legal move, and the moves of all positions. A position has no legal move,
/// one, about as many as a wave has lanes, or many.
fn legal_moves() -> (Vec<u32>, Vec<u16>) {
    let counts = [0_u32, 1, 25, 31, 32, 33, 64, 218];
    let mut ends = vec![0];
    counts.iter().for_each(|count| ends.push(ends.last().unwrap() + count));
    let total = *ends.last().unwrap();
    (ends, (0..total).map(|i| ((i * 977 + 13) % 1858) as u16).collect())
}

/// `PolicyArguments` of kernels.h.
#[repr(C)]
struct Policy {
    logits: *const u8,
    bias: *const u8,
    places: *const u16,
    first_moves: *const u32,
    moves: *const u16,
    probabilities: *mut f32,
    width: i32,
    bias_width: i32,
    inverse_temperature: f32,
    reserved: i32,
}

/// Compares probabilities with the softmax of each position's logits, or with the logits themselves if `scale` is 0.
fn compare(
    lib: &Libraries,
    name: &str,
    found: *const f32,
    ends: &[u32],
    logit: impl Fn(usize, usize) -> f64,
    scale: f64,
    tolerance: f64,
) {
    let found = lib.download(found, *ends.last().unwrap() as usize);
    for (position, ends) in ends.windows(2).enumerate() {
        let logits: Vec<f64> = (ends[0]..ends[1]).map(|i| logit(position, i as usize)).collect();
        let expected = if scale == 0.0 { logits } else { softmax(&logits, scale) };
        for (i, expected) in expected.iter().enumerate() {
            let result = f64::from(found[ends[0] as usize + i]);
            assert!(
                (result - expected).abs() <= tolerance,
                "{name}, position {position}, move {i}: {result}, not {expected}"
            );
        }
    }
}

#[test]
fn policy_logits_become_probabilities_of_the_legal_moves() {
    let (lib, _turn) = libraries();
    let module = module(lib);
    let (ends, moves) = legal_moves();
    let positions = ends.len() - 1;
    for kind in TYPES {
        for (width, scale) in [(1858usize, 1.0_f32), (80 * 64, 0.625), (1861, 0.0)] {
            let places: Vec<u16> = (0..1858).map(|i| (i * 7 % width) as u16).collect();
            let (logits, x) =
                kind.upload(lib, &noise(31, positions * width).iter().map(|v| v * 5.0).collect::<Vec<_>>());
            let bias_width = if width == 1858 { 1858 } else { 80 };
            let (bias, b) = kind.upload(lib, &noise(32, bias_width));
            let probabilities = lib.empty::<f32>(moves.len());
            let arguments = Policy {
                logits,
                bias: if width == 1861 { std::ptr::null() } else { bias },
                places: lib.upload(&places),
                first_moves: lib.upload(&ends),
                moves: lib.upload(&moves),
                probabilities,
                width: width as i32,
                bias_width: bias_width as i32,
                inverse_temperature: scale,
                reserved: 0,
            };
            let name = format!("policy_{}", kind.name());
            run(lib, module, &name, (positions as u32, 1), 512, arguments);
            let logit = |position: usize, i: usize| {
                let place = usize::from(places[usize::from(moves[i])]);
                x[position * width + place] + if width == 1861 { 0.0 } else { b[place % bias_width] }
            };
            compare(lib, &name, probabilities, &ends, logit, f64::from(scale), 2e-5);
        }
    }
}

/// `AttentionPolicyArguments` of kernels.h.
#[repr(C)]
struct AttentionPolicy {
    queries: *const u8,
    keys: *const u8,
    promotions: *const u8,
    places: *const u16,
    first_moves: *const u32,
    moves: *const u16,
    probabilities: *mut f32,
    stride: i32,
    depth: i32,
    scale: f32,
    inverse_temperature: f32,
}

#[test]
fn queries_and_keys_become_probabilities_of_the_legal_moves() {
    let (lib, _turn) = libraries();
    let module = module(lib);
    let (ends, moves) = legal_moves();
    let positions = ends.len() - 1;
    // Moves from square to square, and promotions.
    let places: Vec<u16> = (0..1858)
        .map(|i| if i < 1792 { i * 2311 % 4096 } else { 4096 + (i - 1792) * 2 % 192 })
        .map(|i: u32| i as u16)
        .collect();
    for kind in TYPES {
        for (depth, scale) in [(8usize, 1.0_f32), (72, 0.75), (256, 1.0), (1024, 0.0)] {
            let stride = 2 * depth + 8;
            let (queries, x) = kind.upload(lib, &noise(41, positions * 64 * stride));
            let (promotions, p) = kind.upload(lib, &noise(42, 3 * depth));
            let probabilities = lib.empty::<f32>(moves.len());
            let factor = 2.0 / (depth as f32).sqrt();
            let arguments = AttentionPolicy {
                queries,
                keys: queries.wrapping_add(depth * kind.bytes()),
                promotions,
                places: lib.upload(&places),
                first_moves: lib.upload(&ends),
                moves: lib.upload(&moves),
                probabilities,
                stride: stride as i32,
                depth: depth as i32,
                scale: factor,
                inverse_temperature: scale,
            };
            let name = format!("attention_policy_{}", kind.name());
            run(lib, module, &name, (positions as u32, 1), 512, arguments);
            let logit = |position: usize, i: usize| {
                let place = usize::from(places[usize::from(moves[i])]);
                let row = |square: usize, part: usize| {
                    let start = (64 * position + square) * stride + part * depth;
                    &x[start..start + depth]
                };
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                if place < 4096 {
                    return f64::from(factor) * dot(row(place / 64, 0), row(place % 64, 1));
                }
                let (from, to, piece) = ((place - 4096) / 24, (place - 4096) / 3 % 8, (place - 4096) % 3);
                let key = row(56 + to, 1);
                f64::from(factor) * dot(row(48 + from, 0), key) + dot(&p[piece * depth..][..depth], key)
            };
            // The tolerance allows for an fp32 sum of a thousand products of the same magnitude.
            compare(lib, &name, probabilities, &ends, logit, f64::from(scale), 1e-4);
        }
    }
}

/// `ScalarHeadArguments` of kernels.h.
#[repr(C)]
struct ScalarHead {
    input: *const u8,
    hidden_bias: *const u8,
    weights: *const u8,
    bias: *const f32,
    output: *mut f32,
    positions: i32,
    hidden: i32,
    outputs: i32,
    activation: i32,
    finish: i32,
    reserved: i32,
}

#[test]
fn scalar_heads_end_in_one_number_or_three() {
    let (lib, _turn) = libraries();
    let module = module(lib);
    for kind in TYPES {
        for (positions, hidden, outputs, finish) in
            [(1usize, 8usize, 1usize, 2), (7, 128, 3, 1), (8, 200, 1, 3), (19, 1032, 3, 0)]
        {
            let (input, x) = kind.upload(lib, &noise(51, positions * hidden));
            let (hidden_bias, b) = kind.upload(lib, &noise(52, hidden));
            let scaled: Vec<f32> =
                noise(53, outputs * hidden).iter().map(|v| v * 4.0 / (hidden as f32).sqrt()).collect();
            let (weights, w) = kind.upload(lib, &scaled);
            let bias = noise(54, outputs);
            let output = lib.empty::<f32>(positions * outputs);
            let arguments = ScalarHead {
                input,
                hidden_bias: if finish == 3 { std::ptr::null() } else { hidden_bias },
                weights,
                bias: if finish == 0 { std::ptr::null() } else { lib.upload(&bias) },
                output,
                positions: positions as i32,
                hidden: hidden as i32,
                outputs: outputs as i32,
                activation: 1,
                finish,
                reserved: 0,
            };
            run(
                lib,
                module,
                &format!("scalar_head_{}", kind.name()),
                (positions.div_ceil(8) as u32, 1),
                256,
                arguments,
            );
            let found = lib.download(output, positions * outputs);
            for position in 0..positions {
                let sums: Vec<f64> = (0..outputs)
                    .map(|o| {
                        let products = (0..hidden).map(|i| {
                            let sum = x[position * hidden + i] + if finish == 3 { 0.0 } else { b[i] };
                            sum.max(0.0) * w[o * hidden + i]
                        });
                        products.sum::<f64>() + if finish == 0 { 0.0 } else { f64::from(bias[o]) }
                    })
                    .collect();
                let expected = match finish {
                    1 => softmax(&sums, 1.0),
                    2 => vec![sums[0].tanh()],
                    3 => vec![sums[0].max(0.0)],
                    _ => sums,
                };
                for (o, expected) in expected.iter().enumerate() {
                    let result = f64::from(found[position * outputs + o]);
                    assert!(
                        (result - expected).abs() <= 3e-5 * expected.abs().max(1.0),
                        "{} {finish}: {result}, not {expected}",
                        kind.name()
                    );
                }
            }
        }
    }
}
