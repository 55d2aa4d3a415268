//! Prints the emulator's speed on instructions and on matrix products.

use std::time::Instant;

use half::f16;
use rocblas_sys as rb;

use crate::kernels::{kernel_names, run};
use crate::{argument, libraries, noise};

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
    // `AttentionArguments` of kernels.h.
    let addresses = [qkv.expose_provenance(), logits.expose_provenance(), output.expose_provenance()];
    let counts = [heads, depth, 3 * width, width, 2 * width, width].map(|count| (count as u32).to_le_bytes());
    let mut arguments: Vec<u8> = addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
    arguments.extend(counts.concat());
    arguments.extend([0.2_f32.to_le_bytes(), [0; 4]].concat());
    // The usual kernel for heads of 32, with one or two heads in a block, or the one that all architectures have.
    let names = kernel_names();
    let kernels = [("attention_f16_d32", 1), ("attention_f16_d32_x2", 2), ("attention_any_f16", 1)];
    let (kernel, together) = kernels.into_iter().find(|(name, _)| names.contains(*name)).unwrap();
    let start = Instant::now();
    let before = lib.instructions();
    let grid = ((heads / together) as u32, positions as u32);
    run(lib, kernel, grid, 128 * together as u32, &mut arguments);
    let count = (lib.instructions() - before) as f64;
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
