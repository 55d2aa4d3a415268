//! Compares the engine's kernels, from the code objects in hip/kernels/objects, with plain loops in fp64.

use std::ffi::{CString, c_void};
use std::io::Read;
use std::sync::OnceLock;
use std::time::Instant;

use half::{bf16, f16};
use hip_runtime_sys as hip;

use crate::{Libraries, architecture, has_matrix_instructions, libraries, noise};

/// An element type of the kernels.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Type {
    F32,
    F16,
    Bf16,
}

pub(crate) const TYPES: [Type; 3] = [Type::F32, Type::F16, Type::Bf16];

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    pub(crate) fn bytes(self) -> usize {
        if self == Self::F32 { 4 } else { 2 }
    }

    pub(crate) fn store(self, value: f32) -> Vec<u8> {
        match self {
            Self::F32 => value.to_le_bytes().to_vec(),
            Self::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
            Self::Bf16 => bf16::from_f32(value).to_le_bytes().to_vec(),
        }
    }

    pub(crate) fn load(self, bytes: &[u8]) -> f64 {
        match self {
            Self::F32 => f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
            Self::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
            Self::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f64(),
        }
    }

    /// Stores numbers in device memory, and returns their values after rounding.
    pub(crate) fn upload(self, lib: &Libraries, values: &[f32]) -> (*mut u8, Vec<f64>) {
        let bytes: Vec<u8> = values.iter().flat_map(|&value| self.store(value)).collect();
        let rounded = bytes.chunks(self.bytes()).map(|bytes| self.load(bytes)).collect();
        (lib.upload(&bytes), rounded)
    }

    pub(crate) fn download(self, lib: &Libraries, memory: *const u8, count: usize) -> Vec<f64> {
        lib.download(memory, count * self.bytes())
            .chunks(self.bytes())
            .map(|bytes| self.load(bytes))
            .collect()
    }

    /// The allowed error of a result near `value`: the rounding of the result and of its operands.
    pub(crate) fn tolerance(self, value: f64) -> f64 {
        value.abs().max(1.0) * [1e-5, 2e-3, 1.6e-2][self as usize]
    }
}

/// The module of the stored code object, or of the one in the folder `RUKH_EMULATOR_OBJECTS`.
pub(crate) fn module(lib: &Libraries) -> hip::hipModule_t {
    static MODULE: OnceLock<usize> = OnceLock::new();
    lib.module(&MODULE, code)
}

fn code() -> Vec<u8> {
    let stored = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/objects").to_owned();
    let objects = std::env::var("RUKH_EMULATOR_OBJECTS").unwrap_or(stored);
    let file = std::fs::File::open(format!("{objects}/{}.co.gz", architecture())).unwrap();
    let mut code = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut code).unwrap();
    code
}

/// Runs a kernel with its structure of arguments. Returns the number of wave instructions that it executed.
pub(crate) fn run<A>(
    lib: &Libraries,
    module: hip::hipModule_t,
    name: &str,
    grid: (u32, u32),
    threads: u32,
    mut arguments: A,
) -> u64 {
    let name = CString::new(name).unwrap();
    let (mut function, stream) = (std::ptr::null_mut(), lib.stream());
    let mut bytes = size_of::<A>();
    let mut extra: [*mut c_void; 5] = [
        hip::HIP_LAUNCH_PARAM_BUFFER_POINTER,
        (&raw mut arguments).cast(),
        hip::HIP_LAUNCH_PARAM_BUFFER_SIZE,
        (&raw mut bytes).cast(),
        hip::HIP_LAUNCH_PARAM_END,
    ];
    let before = lib.instructions();
    // SAFETY: the structure is the one that kernels.h declares for the kernel's arguments.
    unsafe {
        lib.check((lib.hip.hipModuleGetFunction)(&mut function, module, name.as_ptr()));
        lib.check((lib.hip.hipModuleLaunchKernel)(
            function,
            grid.0,
            grid.1,
            1,
            threads,
            1,
            1,
            0,
            stream,
            std::ptr::null_mut(),
            extra.as_mut_ptr(),
        ));
    }
    lib.check(lib.wait(stream));
    lib.instructions() - before
}

/// `AttentionArguments` of kernels.h.
#[repr(C)]
pub(crate) struct Attention {
    pub(crate) qkv: *const u8,
    pub(crate) logits: *const u8,
    pub(crate) output: *mut u8,
    pub(crate) heads: i32,
    pub(crate) depth: i32,
    pub(crate) stride: i32,
    pub(crate) key_offset: i32,
    pub(crate) value_offset: i32,
    pub(crate) output_stride: i32,
    pub(crate) scale: f32,
}

/// The head dimensions that have a kernel of their own.
const DEPTHS: [usize; 6] = [8, 16, 32, 64, 96, 128];

/// Checks that every kernel has a test: the names in the code object, without type and size, must be those of a list.
#[test]
fn every_kernel_has_a_test() {
    // The digit of "fp8" ends a name here.
    let tested = [
        "activation",
        "attention_any",
        "attention_d",
        "attention_other_d",
        "attention_policy",
        "convolution",
        "dense",
        "gemm",
        "gemm_any",
        "gemm_byte_weights",
        "gemm_bytes",
        "gemm_chain",
        "gemm_chain_byte_weights",
        "gemm_fp",
        "gemm_sum",
        "layer_norm_w",
        "norm_dense",
        "planes",
        "policy",
        "preshuffle",
        "quantise",
        "quantise_fp",
        "scalar_head",
        "softmax",
        "squeeze_excite",
        "winograd_input",
        "winograd_output",
    ];
    let code = code();
    let file = object::File::parse(&*code).unwrap();
    let symbols = object::Object::dynamic_symbols(&file);
    let names = symbols.filter_map(|symbol| {
        object::ObjectSymbol::name(&symbol).ok()?.strip_suffix(".kd").map(str::to_owned)
    });
    let names: Vec<String> = names.collect();
    assert!(names.len() > 40, "{names:?}");
    for name in &names {
        let of_all_types =
            ["_bf16", "_f16", "_f32"].iter().fold(name.clone(), |name, kind| name.replace(kind, ""));
        // A size or a tile follows, as in attention_f16_d32 and gemm_f16_128x128_256.
        let family = of_all_types.split(|c: char| c.is_ascii_digit()).next().unwrap().trim_end_matches('_');
        assert!(tested.contains(&family), "{name} has no test");
    }
    for depth in DEPTHS.into_iter().filter(|_| has_matrix_instructions()) {
        assert!(names.contains(&attention_name(Type::F16, depth)));
    }
}

/// The kernel with matrix instructions for heads of `depth`. On gfx942 a block computes two small heads.
pub(crate) fn attention_name(kind: Type, depth: usize) -> String {
    let pairs = if architecture() == "gfx942" && depth <= 32 { "_x2" } else { "" };
    format!("attention_{}_d{depth}{pairs}", kind.name())
}

/// The blocks of a position, and their threads, of the attention kernel with this name.
pub(crate) fn attention_blocks(name: &str, heads: usize) -> (u32, u32) {
    let together = if name.ends_with("_x2") { 2 } else { 1 };
    (heads.div_ceil(together) as u32, 128 * together as u32)
}

#[test]
fn attention_is_softmax_of_scores_and_logits_times_values() {
    let (lib, _turn) = libraries();
    let module = module(lib);
    let (positions, heads) = (2usize, 3usize);
    let mut shapes: Vec<(String, Type, usize, bool)> = Vec::new();
    for kind in [Type::F16, Type::Bf16] {
        for depth in DEPTHS.into_iter().filter(|_| has_matrix_instructions()) {
            shapes.push((attention_name(kind, depth), kind, depth, depth != 16));
        }
        if has_matrix_instructions() {
            shapes.push((format!("attention_other_{}_d32", kind.name()), kind, 32, kind == Type::F16));
        }
    }
    for kind in [Type::F32, Type::F16, Type::Bf16] {
        for depth in [8, 20, 32, 128] {
            shapes.push((
                format!("attention_any_{}", kind.name()),
                kind,
                depth,
                (depth == 20) != (kind == Type::F16),
            ));
        }
    }
    for (name, kind, depth, with_logits) in shapes {
        let width = heads * depth;
        let stride = 3 * width + 8;
        let (qkv, numbers) =
            kind.upload(lib, &noise(1, positions * 64 * stride).iter().map(|v| v * 2.0).collect::<Vec<_>>());
        let (logits, added) = kind.upload(lib, &noise(2, positions * heads * 4096));
        let output_stride = width + 8;
        let output = lib.empty::<u8>(positions * 64 * output_stride * kind.bytes());
        let scale = 1.0 / (depth as f32).sqrt();
        let arguments = Attention {
            qkv,
            logits: if with_logits { logits } else { std::ptr::null() },
            output,
            heads: heads as i32,
            depth: depth as i32,
            stride: stride as i32,
            key_offset: width as i32,
            value_offset: 2 * width as i32,
            output_stride: output_stride as i32,
            scale,
        };
        let start = Instant::now();
        let (blocks, threads) = attention_blocks(&name, heads);
        let instructions = run(lib, module, &name, (blocks, positions as u32), threads, arguments);
        println!("{name}: {instructions} wave instructions, {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        let found = kind.download(lib, output, positions * 64 * output_stride);
        for position in 0..positions {
            for head in 0..heads {
                let row = |square: usize, part: usize| {
                    let start = (64 * position + square) * stride + part * width + head * depth;
                    &numbers[start..start + depth]
                };
                for query in 0..64 {
                    let scores: Vec<f64> = (0..64)
                        .map(|key| {
                            let dot: f64 = row(query, 0).iter().zip(row(key, 1)).map(|(q, k)| q * k).sum();
                            let logit = added[((position * heads + head) * 64 + query) * 64 + key];
                            dot * f64::from(scale) + if with_logits { logit } else { 0.0 }
                        })
                        .collect();
                    let most = scores.iter().copied().fold(f64::MIN, f64::max);
                    let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
                    for column in 0..depth {
                        let weighted = |key: usize| (scores[key] - most).exp() / sum * row(key, 2)[column];
                        let expected: f64 = (0..64).map(weighted).sum();
                        let result = found[(64 * position + query) * output_stride + head * depth + column];
                        let error = (result - expected).abs();
                        assert!(
                            error <= kind.tolerance(1.0),
                            "{name} ({position}, {head}, {query}, {column}): {result}, not {expected}"
                        );
                    }
                }
            }
        }
        // The gaps between the rows of the output are still poisoned.
        assert!(
            found.chunks(output_stride).all(|row| row[width..].iter().all(|value| value.is_nan())),
            "{name}"
        );
    }
}

/// `LayerNormArguments` of kernels.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LayerNorm {
    pub(crate) input: *const u8,
    pub(crate) bias: *const u8,
    pub(crate) residual: *const u8,
    pub(crate) gammas: *const u8,
    pub(crate) betas: *const u8,
    pub(crate) multiply: *const u8,
    pub(crate) add: *const u8,
    pub(crate) output: *mut u8,
    pub(crate) rows: i32,
    pub(crate) width: i32,
    pub(crate) bias_rows: i32,
    pub(crate) activation: i32,
    pub(crate) alpha: f32,
    pub(crate) epsilon: f32,
}

#[test]
fn layer_norm_normalises_the_sum_of_input_bias_and_residual() {
    let (lib, _turn) = libraries();
    let module = module(lib);
    for kind in [Type::F32, Type::F16, Type::Bf16] {
        for (limit, width, rows) in
            [(256, 64, 1), (256, 200, 13), (512, 512, 9), (1024, 768, 3), (8192, 1032, 2)]
        {
            let (input, x) = kind.upload(lib, &noise(3, rows * width));
            let (bias, b) = kind.upload(lib, &noise(4, width));
            let (residual, r) = kind.upload(lib, &noise(5, rows * width));
            let (gammas, g) = kind.upload(lib, &noise(6, width));
            let (betas, e) = kind.upload(lib, &noise(7, width));
            let output = lib.empty::<u8>(rows * width * kind.bytes());
            let arguments = LayerNorm {
                input,
                bias,
                residual,
                gammas,
                betas,
                multiply: std::ptr::null(),
                add: std::ptr::null(),
                output,
                rows: rows as i32,
                width: width as i32,
                bias_rows: 1,
                activation: 0,
                alpha: 0.75,
                epsilon: 1e-3,
            };
            let groups = if limit == 8192 { rows } else { rows.div_ceil(8) };
            let name = format!("layer_norm_{}_w{limit}", kind.name());
            run(lib, module, &name, (groups as u32, 1), 256, arguments);
            let found = kind.download(lib, output, rows * width);
            for row in 0..rows {
                let sums: Vec<f64> =
                    (0..width).map(|i| 0.75 * (x[row * width + i] + b[i]) + r[row * width + i]).collect();
                let mean = sums.iter().sum::<f64>() / width as f64;
                let variance = sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / width as f64;
                for i in 0..width {
                    let expected = (sums[i] - mean) / (variance + 1e-3).sqrt() * g[i] + e[i];
                    let error = (found[row * width + i] - expected).abs();
                    assert!(
                        error <= kind.tolerance(expected),
                        "{name} ({row}, {i}): {}, not {expected}",
                        found[row * width + i]
                    );
                }
            }
        }
    }
}

/// `ActivationArguments` of kernels.h.
#[repr(C)]
pub(crate) struct Activation {
    pub(crate) input: *const u8,
    pub(crate) bias: *const u8,
    pub(crate) multiply: *const u8,
    pub(crate) add: *const u8,
    pub(crate) output: *mut u8,
    pub(crate) rows: i32,
    pub(crate) width: i32,
    pub(crate) bias_rows: i32,
    pub(crate) activation: i32,
}

impl Activation {
    /// The arguments that compute `activation(input + bias)` on rows of a width, with one bias for all rows.
    pub(crate) fn of(
        (input, bias, output): (*const u8, *const u8, *mut u8),
        (rows, width): (usize, usize),
        activation: i32,
    ) -> Activation {
        Activation {
            input,
            bias,
            multiply: std::ptr::null(),
            add: std::ptr::null(),
            output,
            rows: rows as i32,
            width: width as i32,
            bias_rows: 1,
            activation,
        }
    }
}

pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn activations_are_right_for_small_and_large_arguments() {
    let (lib, _turn) = libraries();
    let module = module(lib);
    let functions: [&dyn Fn(f64) -> f64; 8] = [
        &|x| x,
        &|x| x.max(0.0),
        &|x| x.max(0.0).powi(2),
        &f64::tanh,
        &sigmoid,
        &|x| 1.050_700_987_355_480_5 * if x > 0.0 { x } else { 1.673_263_242_354_377_2 * x.exp_m1() },
        &|x| x * x.exp().ln_1p().tanh(),
        &|x| x * sigmoid(x),
    ];
    let (rows, width) = (67usize, 40usize);
    for kind in [Type::F32, Type::F16, Type::Bf16] {
        // Large and small arguments on both sides of zero.
        let values: Vec<f32> = noise(8, rows * width)
            .iter()
            .enumerate()
            .map(|(i, v)| v * [0.01, 1.0, 9.0, 60.0][i % 4])
            .collect();
        let (input, x) = kind.upload(lib, &values);
        let (bias, b) = kind.upload(lib, &noise(9, width));
        for (number, function) in functions.iter().enumerate() {
            let output = lib.empty::<u8>(rows * width * kind.bytes());
            let arguments = Activation::of((input, bias, output), (rows, width), number as i32);
            let groups = (rows * width).div_ceil(2048) as u32;
            run(lib, module, &format!("activation_{}", kind.name()), (groups, 1), 256, arguments);
            let found = kind.download(lib, output, rows * width);
            for i in 0..rows * width {
                let (sum, result) = (x[i] + b[i % width], found[i]);
                let expected = function(sum);
                let error = (result - expected).abs();
                assert!(
                    error <= kind.tolerance(expected),
                    "{} {number} of {sum}: {result}, not {expected}",
                    kind.name()
                );
            }
        }
    }
}
