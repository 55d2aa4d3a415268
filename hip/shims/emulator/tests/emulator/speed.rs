//! Prints the emulator's speed on instructions and on matrix products.

use std::time::Instant;

use half::f16;
use rocblas_sys as rb;

use crate::kernels::{Attention, Type, attention_blocks, attention_name, module, run};
use crate::{argument, has_matrix_instructions, libraries, noise};

#[test]
fn instructions_per_second() {
    let (lib, _turn) = libraries();
    let mut x = lib.upload(&noise(1, 256));
    let (mut a, mut b, mut steps) = (0.5f32, 0.25f32, 2000i32);
    let stream = lib.stream();
    let mut arguments = [argument(&mut x), argument(&mut a), argument(&mut b), argument(&mut steps)];
    for groups in [1, 16] {
        let (before, start) = (lib.instructions(), Instant::now());
        lib.launch(c"busy", (groups, 256), stream, &mut arguments);
        lib.check(lib.wait(stream));
        let rate = (lib.instructions() - before) as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!("{groups} workgroups: {rate:.0} million wave instructions per second");
    }
}

/// Times part of a layer of a network with 256 channels at batch 64: the attention and the product before it.
#[test]
fn attention_and_product_of_a_layer() {
    let (lib, _turn) = libraries();
    let (positions, heads, depth) = (64usize, 8usize, 32usize);
    let width = heads * depth;
    let halves = |count: usize| noise(1, count).iter().map(|&v| f16::from_f32(v)).collect::<Vec<_>>();
    let qkv = lib.upload(&halves(positions * 64 * 3 * width));
    let logits = lib.upload(&halves(positions * heads * 4096));
    let output = lib.empty::<u16>(positions * 64 * width);
    let arguments = Attention {
        qkv: qkv.cast(),
        logits: logits.cast(),
        output: output.cast(),
        heads: heads as i32,
        depth: depth as i32,
        stride: 3 * width as i32,
        key_offset: width as i32,
        value_offset: 2 * width as i32,
        output_stride: width as i32,
        scale: 0.2,
    };
    let module = module(lib);
    let start = Instant::now();
    let matrix = has_matrix_instructions().then(|| attention_name(Type::F16, 32));
    let kernel = matrix.unwrap_or_else(|| "attention_any_f16".to_owned());
    let (blocks, threads) = attention_blocks(&kernel, heads);
    let count = run(lib, module, &kernel, (blocks, positions as u32), threads, arguments) as f64;
    let seconds = start.elapsed().as_secs_f64();
    println!("attention: {:.1} million wave instructions in {:.0} ms", count / 1e6, seconds * 1e3);

    let (rows, columns, sums) = (positions * 64, 3 * width, width);
    let (a, b) = (lib.upload(&halves(columns * sums)), lib.upload(&halves(rows * sums)));
    let (one, zero, kind) = (1.0f32, 0.0f32, rb::rocblas_datatype_f16_r);
    let (mut handle, stream) = (std::ptr::null_mut(), lib.stream());
    let start = Instant::now();
    // SAFETY: the pointers are to local variables, and the operands have the given sizes.
    unsafe {
        assert_eq!((lib.rocblas.rocblas_create_handle)(&mut handle), 0);
        assert_eq!((lib.rocblas.rocblas_set_stream)(handle, stream), 0);
        let (m, n, k) = (columns as i32, rows as i32, sums as i32);
        let (alpha, beta) = ((&raw const one).cast(), (&raw const zero).cast());
        let status = (lib.rocblas.rocblas_gemm_ex)(
            handle,
            rb::rocblas_operation_transpose,
            rb::rocblas_operation_none,
            m,
            n,
            k,
            alpha,
            a.cast(),
            kind,
            k,
            b.cast(),
            kind,
            k,
            beta,
            qkv.cast(),
            kind,
            m,
            qkv.cast(),
            kind,
            m,
            rb::rocblas_datatype_f32_r,
            rb::rocblas_gemm_algo_standard,
            0,
            0,
        );
        assert_eq!(status, 0, "{}", lib.fault());
    }
    lib.check(lib.wait(stream));
    let seconds = start.elapsed().as_secs_f64();
    let operations = 2.0 * (rows * columns * sums) as f64;
    println!("product of {rows} x {columns} x {sums}: {:.1} GFLOP/s", operations / seconds / 1e9);
}
