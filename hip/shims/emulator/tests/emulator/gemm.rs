//! Tests of the kernels for matrix products of any size.

use std::ptr::{null, null_mut};

use crate::kernels::{LayerNorm, Type, module, run};
use crate::{libraries, noise};

/// `GemmArguments` of kernels.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Gemm {
    x: *const u8,
    weights: *const u8,
    output: *mut u8,
    bias: *const u8,
    residual: *const u8,
    partial: *mut f32,
    x_batch: i64,
    weights_batch: i64,
    output_batch: i64,
    rows: i32,
    outputs: i32,
    inputs: i32,
    x_stride: i32,
    weights_stride: i32,
    output_stride: i32,
    products: i32,
    splits: i32,
    activation: i32,
    reserved: i32,
    counters: *mut u8,
    norm: LayerNorm,
}

/// No LayerNorm after a product.
const NO_NORM: LayerNorm = LayerNorm {
    input: null(),
    bias: null(),
    residual: null(),
    gammas: null(),
    betas: null(),
    multiply: null(),
    add: null(),
    output: null_mut(),
    rows: 0,
    width: 0,
    bias_rows: 1,
    activation: 0,
    alpha: 0.0,
    epsilon: 0.0,
};

/// The sizes of one test: rows, outputs, inputs, products, splits.
type Sizes = (usize, usize, usize, usize, usize);

const MISH: i32 = 6;

/// The byte that the memory of the results holds at first.
const UNTOUCHED: u8 = 0x5a;

/// Computes products whose rows have gaps between them, with bias, mish and a residual, and checks results and gaps.
fn check(kind: Type, kernel: &str, (tile_rows, tile_columns): (usize, usize), threads: u32, sizes: Sizes) {
    let (lib, _turn) = libraries();
    let module = module(lib);
    let (rows, outputs, inputs, products, splits) = sizes;
    let (x_stride, output_stride) = (inputs + 8, outputs + 16);
    let scaled = |seed, count, scale: f32| noise(seed, count).iter().map(|v| v * scale).collect::<Vec<f32>>();
    let (x, a) = kind.upload(lib, &noise(81, products * rows * x_stride));
    let weights_scale = 2.0 / (inputs as f32).sqrt();
    let (weights, b) = kind.upload(lib, &scaled(82, products * outputs * inputs, weights_scale));
    let (bias, bias_values) = kind.upload(lib, &noise(83, outputs));
    let (residual, added) = kind.upload(lib, &noise(84, products * rows * output_stride));
    let output = lib.upload(&vec![UNTOUCHED; products * rows * output_stride * kind.bytes()]);
    let arguments = Gemm {
        x,
        weights,
        output,
        bias,
        residual,
        partial: lib.empty(splits * products * rows * outputs.next_multiple_of(8)),
        x_batch: (rows * x_stride) as i64,
        weights_batch: (outputs * inputs) as i64,
        output_batch: (rows * output_stride) as i64,
        rows: rows as i32,
        outputs: outputs as i32,
        inputs: inputs as i32,
        x_stride: x_stride as i32,
        weights_stride: inputs as i32,
        output_stride: output_stride as i32,
        products: products as i32,
        splits: splits as i32,
        activation: MISH,
        reserved: 0,
        counters: null_mut(),
        norm: NO_NORM,
    };
    let tiles = (rows.div_ceil(tile_rows) * outputs.div_ceil(tile_columns)) as u32;
    run(lib, module, kernel, (tiles, (products * splits) as u32), threads, arguments);
    if splits > 1 {
        let blocks = (rows * outputs.div_ceil(8)).div_ceil(256) as u32;
        let name = format!("gemm_sum_{}", kind.name());
        run(lib, module, &name, (blocks, products as u32), 256, arguments);
    }
    let found = kind.download(lib, output, products * rows * output_stride);
    let gap = kind.load(&[UNTOUCHED; 4]);
    for (index, &result) in found.iter().enumerate() {
        let (row, column) = (index / output_stride, index % output_stride);
        if column >= outputs {
            assert!(result == gap, "{kernel} {sizes:?} writes into the gap of row {row}");
            continue;
        }
        let w = &b[(row / rows * outputs + column) * inputs..][..inputs];
        let sum: f64 =
            a[row * x_stride..].iter().zip(w).map(|(x, w)| x * w).sum::<f64>() + bias_values[column];
        let expected = sum * sum.exp().ln_1p().tanh() + added[index];
        assert!(
            (result - expected).abs() <= 2.0 * kind.tolerance(expected),
            "{kernel} {sizes:?} ({row}, {column}): {result}, not {expected}"
        );
    }
}

#[test]
fn products_of_odd_sizes_are_right_and_nothing_else_is_written() {
    let tiles = [((128, 128), 256), ((64, 64), 128), ((32, 64), 128), ((64, 32), 128)];
    for kind in [Type::F16, Type::Bf16, Type::F32] {
        for (tile, threads) in tiles {
            if kind == Type::F32 && tile.0.min(tile.1) < 64 {
                continue;
            }
            let name = format!("gemm_{}_{}x{}_{threads}", kind.name(), tile.0, tile.1);
            check(kind, &name, tile, threads, (tile.0 - 3, tile.1 + 11, 40, 1, 1));
            check(kind, &name, tile, threads, (21, 40, 136, 2, 3));
        }
        check(kind, &format!("gemm_any_{}", kind.name()), (16, 16), 256, (19, 5, 27, 2, 1));
    }
}

/// A product and a LayerNorm of its rows: the last block of each row of tiles computes what the kernel `layer_norm`
/// computes, to the last bit, in place of the residual. `splits` parts of the summed axis need no further launch.
fn check_norm(kind: Type, (tile_rows, tile_columns, threads): (usize, usize, u32), splits: usize) {
    let (lib, _turn) = libraries();
    let module = module(lib);
    let (rows, outputs, inputs) = (2 * tile_rows + 5, tile_columns + 24, 264);
    let upload = |seed, count| kind.upload(lib, &noise(seed, count)).0;
    let (x, weights) = (upload(91, rows * inputs), upload(92, outputs * inputs));
    let (bias, gammas, betas) = (upload(93, outputs), upload(94, outputs), upload(95, outputs));
    let (multiply, add) = (upload(96, 64 * outputs), upload(97, 64 * outputs));
    let zeros = |count: usize| lib.upload(&vec![0; count]);
    let (tiles_down, tiles_across) = (rows.div_ceil(tile_rows), outputs.div_ceil(tile_columns));
    let tiles = tiles_down * tiles_across;
    let launch = |with_norm: bool| {
        let output = zeros(rows * outputs * kind.bytes());
        let (stream, _) = kind.upload(lib, &noise(98, rows * outputs));
        let norm = LayerNorm {
            input: output,
            bias,
            residual: stream,
            gammas,
            betas,
            multiply,
            add,
            output: stream,
            rows: rows as i32,
            width: outputs as i32,
            bias_rows: 1,
            activation: MISH,
            alpha: 0.7,
            epsilon: 1e-3,
        };
        let counters = zeros(4 * (tiles_down + tiles));
        let arguments = Gemm {
            x,
            weights,
            output,
            bias: null(),
            residual: null(),
            partial: lib.empty(splits * rows * outputs.next_multiple_of(8)),
            x_batch: 0,
            weights_batch: 0,
            output_batch: 0,
            rows: rows as i32,
            outputs: outputs as i32,
            inputs: inputs as i32,
            x_stride: inputs as i32,
            weights_stride: inputs as i32,
            output_stride: outputs as i32,
            products: 1,
            splits: splits as i32,
            activation: 0,
            reserved: 0,
            counters: if with_norm { counters } else { null_mut() },
            norm: if with_norm { norm } else { NO_NORM },
        };
        let kernel = format!("gemm_{}_{tile_rows}x{tile_columns}_{threads}", kind.name());
        run(lib, module, &kernel, (tiles as u32, splits as u32), threads, arguments);
        if !with_norm {
            if splits > 1 {
                let blocks = (rows * outputs.div_ceil(8)).div_ceil(256) as u32;
                run(lib, module, &format!("gemm_sum_{}", kind.name()), (blocks, 1), 256, arguments);
            }
            let name = format!("layer_norm_{}_w1024", kind.name());
            run(lib, module, &name, (rows.div_ceil(8) as u32, 1), 256, norm);
        }
        let ended = kind.download(lib, counters, 4 * (tiles_down + tiles) / kind.bytes());
        assert!(ended.iter().all(|&count| count == 0.0), "the counters are not back at zero");
        kind.download(lib, stream, rows * outputs)
    };
    let (expected, found) = (launch(false), launch(true));
    assert!(expected.iter().all(|value| value.is_finite()));
    assert_eq!(expected, found, "{} {tile_rows}x{tile_columns}, {splits} parts", kind.name());
}

#[test]
fn the_last_block_of_a_row_of_tiles_normalises_it() {
    for kind in [Type::F16, Type::Bf16, Type::F32] {
        check_norm(kind, (64, 64, 128), 1);
        check_norm(kind, (64, 64, 128), 3);
    }
    check_norm(Type::F16, (128, 128, 256), 1);
    check_norm(Type::Bf16, (32, 64, 128), 2);
}
