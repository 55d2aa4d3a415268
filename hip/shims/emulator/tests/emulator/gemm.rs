//! Tests of the kernels for matrix products of any size.

use std::ptr::{null, null_mut};

use crate::byte_weights::rounded;
use crate::kernels::{LayerNorm, Type, module, run};
use crate::{Libraries, architecture, has_matrix_instructions, libraries, noise};

/// `GemmArguments` of kernels.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Gemm {
    pub(crate) x: *const u8,
    pub(crate) weights: *const u8,
    pub(crate) output: *mut u8,
    pub(crate) bias: *const u8,
    pub(crate) multiply: *const u8,
    pub(crate) add: *const u8,
    pub(crate) residual: *const u8,
    pub(crate) partial: *mut f32,
    pub(crate) x_batch: i64,
    pub(crate) weights_batch: i64,
    pub(crate) output_batch: i64,
    pub(crate) rows: i32,
    pub(crate) outputs: i32,
    pub(crate) inputs: i32,
    pub(crate) x_stride: i32,
    pub(crate) weights_stride: i32,
    pub(crate) output_stride: i32,
    pub(crate) products: i32,
    pub(crate) splits: i32,
    pub(crate) activation: i32,
    pub(crate) is_preshuffled: i32,
}

impl Gemm {
    /// One product `x[rows][inputs] weights[outputs][inputs]^T` of matrices without gaps, in one part.
    pub(crate) fn dense(
        (x, weights, output): (*const u8, *const u8, *mut u8),
        [rows, outputs, inputs]: [usize; 3],
    ) -> Gemm {
        Gemm {
            x,
            weights,
            output,
            bias: null(),
            multiply: null(),
            add: null(),
            residual: null(),
            partial: null_mut(),
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
            splits: 1,
            activation: 0,
            is_preshuffled: 0,
        }
    }
}

/// `ChainLink` of kernels.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Link {
    product: Gemm,
    norm: LayerNorm,
    first_block: i32,
    first_norm_block: i32,
    group_rows: i32,
    first_counter: i32,
    partial_start: i64,
    before_tiles: [i32; 2],
    before_norm: [i32; 2],
}

/// `ChainArguments` of kernels.h.
#[repr(C)]
#[derive(Clone, Copy)]
struct Chain {
    links: [Link; 3],
    workspace: *mut f32,
    counters: *mut u8,
    count: i32,
    blocks: i32,
    last_group: i32,
    all: [i32; 2],
    reserved: i32,
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

/// `PreshuffleArguments` of kernels.h.
#[repr(C)]
struct Preshuffle {
    weights: *const u8,
    output: *mut u8,
    weights_batch: i64,
    output_batch: i64,
    outputs: i32,
    row: i32,
    stride: i32,
    reserved: i32,
}

/// The product with preshuffled weights, which the kernel `preshuffle` makes.
fn preshuffled(lib: &Libraries, kind: Type, plain: Gemm) -> Gemm {
    let bytes = kind.bytes();
    let row = (plain.inputs as usize * bytes).next_multiple_of(64);
    let product = (plain.outputs as usize).next_multiple_of(16) * row;
    let output = lib.upload(&vec![UNTOUCHED; product * plain.products as usize]);
    let arguments = Preshuffle {
        weights: plain.weights,
        output,
        weights_batch: plain.weights_batch * bytes as i64,
        output_batch: product as i64,
        outputs: plain.outputs,
        row: plain.inputs * bytes as i32,
        stride: plain.weights_stride * bytes as i32,
        reserved: 0,
    };
    let grid = ((product as u32 / 16).div_ceil(256), plain.products as u32);
    run(lib, module(lib), "preshuffle", grid, 256, arguments);
    Gemm {
        weights: output,
        weights_stride: (row / bytes) as i32,
        weights_batch: (product / bytes) as i64,
        is_preshuffled: 1,
        ..plain
    }
}

/// The byte that the memory of the results holds at first.
pub(crate) const UNTOUCHED: u8 = 0x5a;

/// Compares results with gaps after each row of `outputs`, at `stride` from one another, with those of `expected`, which
/// gets their index, row and column. They may differ by `slack` times the type's tolerance. The gaps must be untouched.
pub(crate) fn compare_results(
    what: &str,
    kind: Type,
    found: &[f64],
    (outputs, stride): (usize, usize),
    slack: f64,
    expected: impl Fn(usize, usize, usize) -> f64,
) {
    let gap = kind.load(&[UNTOUCHED; 4]);
    for (index, &result) in found.iter().enumerate() {
        let (row, column) = (index / stride, index % stride);
        if column >= outputs {
            assert!(result == gap, "{what} writes into the gap of row {row}");
            continue;
        }
        let expected = expected(index, row, column);
        assert!(
            (result - expected).abs() <= slack * kind.tolerance(expected),
            "{what} ({row}, {column}): {result}, not {expected}"
        );
    }
}

/// Computes products whose rows have gaps between them, with bias, mish and a residual, and checks results and gaps.
fn check(kind: Type, kernel: &str, tile: (usize, usize), threads: u32, sizes: Sizes) {
    check_with(kind, kernel, (tile, threads), sizes, Extras::default());
}

/// What else a product has.
#[derive(Clone, Copy, Default)]
struct Extras {
    is_preshuffled: bool,
    is_gated: bool,
}

const PRESHUFFLED: Extras = Extras { is_preshuffled: true, is_gated: false };
const GATED: Extras = Extras { is_preshuffled: false, is_gated: true };

/// As [`check`], with preshuffled weights or gates.
fn check_with(
    kind: Type,
    kernel: &str,
    ((tile_rows, tile_columns), threads): ((usize, usize), u32),
    sizes: Sizes,
    extras: Extras,
) {
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
    // Nothing lies behind the last output of the last square's gates.
    let gate_count = 63 * output_stride + outputs;
    let [(multiply, factors), (add, offsets)] =
        [85, 86].map(|seed| kind.upload(lib, &noise(seed, gate_count)));
    let arguments = Gemm {
        bias,
        multiply: if extras.is_gated { multiply } else { null() },
        add: if extras.is_gated { add } else { null() },
        residual,
        partial: lib.empty(splits * products * rows * outputs.next_multiple_of(8)),
        x_batch: (rows * x_stride) as i64,
        weights_batch: (outputs * inputs) as i64,
        output_batch: (rows * output_stride) as i64,
        x_stride: x_stride as i32,
        output_stride: output_stride as i32,
        products: products as i32,
        splits: splits as i32,
        activation: MISH,
        ..Gemm::dense((x, weights, output), [rows, outputs, inputs])
    };
    let arguments = if extras.is_preshuffled { preshuffled(lib, kind, arguments) } else { arguments };
    let tiles = (rows.div_ceil(tile_rows) * outputs.div_ceil(tile_columns)) as u32;
    run(lib, module, kernel, (tiles, (products * splits) as u32), threads, arguments);
    if splits > 1 {
        let blocks = (rows * outputs.div_ceil(8)).div_ceil(256) as u32;
        let name = format!("gemm_sum_{}", kind.name());
        run(lib, module, &name, (blocks, products as u32), 256, arguments);
    }
    let found = kind.download(lib, output, products * rows * output_stride);
    let what = format!("{kernel} {sizes:?}");
    compare_results(&what, kind, &found, (outputs, output_stride), 2.0, |index, row, column| {
        let w = &b[(row / rows * outputs + column) * inputs..][..inputs];
        let sum: f64 =
            a[row * x_stride..].iter().zip(w).map(|(x, w)| x * w).sum::<f64>() + bias_values[column];
        let mish = sum * sum.exp().ln_1p().tanh();
        let gate = row % rows % 64 * output_stride + column;
        let gated = if extras.is_gated { mish * factors[gate] + offsets[gate] } else { mish };
        gated + added[index]
    });
}

/// The size and the threads of the tile of 64 x 128, which only architectures with matrix instructions have.
fn wide_tile() -> Option<((usize, usize), u32)> {
    let threads = if architecture().starts_with("gfx9") { 256 } else { 128 };
    has_matrix_instructions().then_some(((64, 128), threads))
}

#[test]
fn products_of_odd_sizes_are_right_and_nothing_else_is_written() {
    let mut tiles = vec![((128, 128), 256), ((64, 64), 128), ((32, 64), 128), ((64, 32), 128)];
    tiles.extend(wide_tile());
    for kind in [Type::F16, Type::Bf16, Type::F32] {
        for &(tile, threads) in &tiles {
            if kind == Type::F32 && ![(128, 128), (64, 64)].contains(&tile) {
                continue;
            }
            let name = format!("gemm_{}_{}x{}_{threads}", kind.name(), tile.0, tile.1);
            check(kind, &name, tile, threads, (tile.0 - 3, tile.1 + 11, 40, 1, 1));
            check(kind, &name, tile, threads, (21, 40, 136, 2, 3));
            check_with(kind, &name, (tile, threads), (21, 40, 136, 2, 3), PRESHUFFLED);
            check_with(kind, &name, (tile, threads), (9, tile.1 + 11, 72, 1, 1), PRESHUFFLED);
            check_with(kind, &name, (tile, threads), (tile.0 + 3, tile.1 + 11, 40, 1, 1), GATED);
            check_with(kind, &name, (tile, threads), (67, 40, 136, 2, 3), GATED);
        }
        let name = format!("gemm_any_{}", kind.name());
        check(kind, &name, (16, 16), 256, (19, 5, 27, 2, 1));
        check_with(kind, &name, ((16, 16), 256), (67, 5, 27, 2, 1), GATED);
    }
}

/// A product of a chain and what follows it: rows of `group_rows` belong together, and the blocks of a group count.
struct Part {
    product: Gemm,
    norm: LayerNorm,
    group_rows: usize,
}

/// Launches a chain of products with tiles of this size, and checks that its counters are zero again.
fn run_chain(
    lib: &Libraries,
    kind: Type,
    (tile_rows, tile_columns, threads): (usize, usize, u32),
    parts: &[Part],
    is_of_bytes: bool,
) {
    let module = module(lib);
    let groups = (parts[0].product.rows as usize).div_ceil(parts[0].group_rows);
    let empty = Gemm { rows: 0, ..parts[0].product };
    let no_link = Link {
        product: empty,
        norm: NO_NORM,
        first_block: 0,
        first_norm_block: 0,
        group_rows: 1,
        first_counter: 0,
        partial_start: 0,
        before_tiles: [0; 2],
        before_norm: [0; 2],
    };
    let mut links = [no_link; 3];
    let (mut blocks, mut counters, mut partial, mut ended) = (0, 1 + groups, 0, [0; 2]);
    for (part, link) in parts.iter().zip(&mut links) {
        let Part { product, norm, group_rows } = part;
        let (rows, outputs) = (product.rows as usize, product.outputs as usize);
        let tiles = |rows: usize| rows.div_ceil(tile_rows) * outputs.div_ceil(tile_columns);
        let together = if norm.width > 1024 { 1 } else { threads as usize / 32 };
        let norms = |rows: usize| if norm.width > 0 { rows.div_ceil(together) } else { 0 };
        let group = [*group_rows, rows - (groups - 1) * group_rows];
        let before_norm = [0, 1].map(|i| ended[i] + tiles(group[i]) as i32);
        let splits = product.splits as usize;
        *link = Link {
            product: *product,
            norm: *norm,
            first_block: blocks as i32,
            first_norm_block: (blocks + tiles(rows) * splits) as i32,
            group_rows: *group_rows as i32,
            first_counter: counters as i32,
            partial_start: partial as i64,
            before_tiles: ended,
            before_norm,
        };
        ended = [0, 1].map(|i| before_norm[i] + norms(group[i]) as i32);
        blocks += tiles(rows) * splits + norms(rows);
        counters += tiles(rows);
        partial += splits * rows * outputs.next_multiple_of(8);
    }
    let counted = lib.upload(&vec![0; 4 * counters]);
    let chain = Chain {
        links,
        workspace: lib.empty(partial),
        counters: counted,
        count: parts.len() as i32,
        blocks: blocks as i32,
        last_group: groups as i32 - 1,
        all: ended,
        reserved: 0,
    };
    let weights = weights_name(is_of_bytes);
    let kernel = format!("gemm_chain_{weights}{}_{tile_rows}x{tile_columns}_{threads}", kind.name());
    run(lib, module, &kernel, (blocks as u32, 1), threads, chain);
    let counted = kind.download(lib, counted, 4 * counters / kind.bytes());
    assert!(counted.iter().all(|&count| count == 0.0), "the counters are not back at zero");
}

/// What the names of kernels for weights of 8 bits have.
fn weights_name(is_of_bytes: bool) -> &'static str {
    if is_of_bytes { "byte_weights_" } else { "" }
}

fn check_chain(kind: Type, tile: (usize, usize, u32), sizes: (usize, usize, usize)) {
    compare_chain(kind, tile, sizes, false);
}

/// The products of a chain compute what single products and the kernel `layer_norm` compute. The first
/// has `squares` rows for each row of the second, which is normalised; the third has wide rows if `outputs` are more
/// than 1024. `splits` parts of the summed axis need no further launch. The weights may have 8 bits.
pub(crate) fn compare_chain(
    kind: Type,
    tile: (usize, usize, u32),
    (squares, outputs, splits): (usize, usize, usize),
    is_of_bytes: bool,
) {
    let (tile_rows, tile_columns, threads) = tile;
    let rows = tile_rows + 5;
    let sizes = [(squares * rows, 8, 264), (rows, 72, 8 * squares), (rows, outputs, 72)];
    let launch = |as_chain: bool| {
        let (lib, _turn) = libraries();
        let module = module(lib);
        let upload = |seed, count| kind.upload(lib, &noise(seed, count)).0;
        let zeros = |count: usize| lib.upload(&vec![0; count * kind.bytes()]);
        let mut x = upload(91, squares * rows * 264);
        let mut parts = Vec::new();
        for (number, (rows, outputs, inputs)) in sizes.into_iter().enumerate() {
            let seed = 92 + 10 * number as u32;
            let output = zeros(rows * outputs);
            let (weights, weights_stride) = if is_of_bytes {
                (lib.upload(&rounded(outputs, inputs, seed).0), inputs.next_multiple_of(32))
            } else {
                (upload(seed, outputs * inputs), inputs)
            };
            let product = Gemm {
                partial: lib.empty(splits * rows * outputs.next_multiple_of(8)),
                weights_stride: weights_stride as i32,
                splits: if number == 0 { splits as i32 } else { 1 },
                ..Gemm::dense((x, weights, output), [rows, outputs, inputs])
            };
            let stream = upload(seed + 1, rows * outputs);
            let norm = LayerNorm {
                input: output,
                bias: upload(seed + 2, outputs),
                residual: stream,
                gammas: upload(seed + 3, outputs),
                betas: upload(seed + 4, outputs),
                multiply: upload(seed + 5, 64 * outputs),
                add: upload(seed + 6, 64 * outputs),
                output: stream,
                rows: rows as i32,
                width: outputs as i32,
                bias_rows: 1,
                activation: MISH,
                alpha: 0.7,
                epsilon: 1e-3,
            };
            x = if number == 0 { output } else { stream };
            let group_rows = if number == 0 { squares * tile_rows } else { tile_rows };
            parts.push(Part { product, norm: if number == 0 { NO_NORM } else { norm }, group_rows });
        }
        if as_chain {
            run_chain(lib, kind, tile, &parts, is_of_bytes);
        } else {
            for Part { product, norm, .. } in &parts {
                let (rows, outputs) = (product.rows as usize, product.outputs as usize);
                let tiles = (rows.div_ceil(tile_rows) * outputs.div_ceil(tile_columns)) as u32;
                let weights = weights_name(is_of_bytes);
                let kernel = format!("gemm_{weights}{}_{tile_rows}x{tile_columns}_{threads}", kind.name());
                run(lib, module, &kernel, (tiles, product.splits as u32), threads, *product);
                if product.splits > 1 {
                    let blocks = (rows * outputs.div_ceil(8)).div_ceil(256) as u32;
                    run(lib, module, &format!("gemm_sum_{}", kind.name()), (blocks, 1), 256, *product);
                }
                let (width, together) = if norm.width > 1024 { (8192, 1) } else { (1024, 8) };
                if norm.width > 0 {
                    let name = format!("layer_norm_{}_w{width}", kind.name());
                    run(lib, module, &name, (rows.div_ceil(together) as u32, 1), 256, *norm);
                }
            }
        }
        kind.download(lib, x, rows * outputs)
    };
    let (expected, found) = (launch(false), launch(true));
    assert!(expected.iter().all(|value| value.is_finite()));
    // A block adds up a wide row in another order than the kernel `layer_norm`, unless it has as many threads.
    let is_exact = outputs <= 1024 || threads == 256;
    let allowed = |value: f64| if is_exact { 0.0 } else { kind.tolerance(value) };
    let wrong = expected.iter().zip(&found).position(|(a, b)| (a - b).abs() > allowed(*a));
    assert_eq!(wrong, None, "{} {tile_rows}x{tile_columns}, {outputs} outputs, {splits} parts", kind.name());
}

#[test]
fn a_chain_of_products_and_norms_computes_what_single_kernels_compute() {
    for kind in [Type::F16, Type::Bf16] {
        check_chain(kind, (64, 64, 128), (16, 88, 1));
        check_chain(kind, (64, 64, 128), (4, 1032, 5));
    }
    check_chain(Type::F16, (128, 128, 256), (1, 1032, 1));
    check_chain(Type::Bf16, (64, 32, 128), (64, 40, 2));
    if let Some(((rows, columns), threads)) = wide_tile() {
        check_chain(Type::F16, (rows, columns, threads), (2, 136, 2));
        check_chain(Type::Bf16, (rows, columns, threads), (1, 1032, 1));
    }
}
