//! Tests that need a card: memory, a captured graph, GEMMs. Without a card they are skipped.

use std::ptr::{from_ref, null_mut};

use hip_runtime_sys as hip;
use hipblaslt_sys as lt;
use rocblas_sys as rb;

use super::{Libraries, libraries};

/// The libraries, or `None` if there is no card.
fn with_card() -> Option<Libraries> {
    let lib = libraries();
    let (status, _) = lib.devices();
    if status != hip::hipSuccess {
        println!("skipped: no NVIDIA card");
        return None;
    }
    Some(lib)
}

impl Libraries {
    fn check(&self, status: hip::hipError_t) {
        assert_eq!(status, hip::hipSuccess, "{}", self.hip.describe(status));
    }

    fn upload(&self, values: &[f32]) -> *mut f32 {
        let mut memory = null_mut();
        let bytes = size_of_val(values);
        // SAFETY: the pointers are to local variables, and both buffers have this many bytes.
        unsafe {
            self.check((self.hip.hipMalloc)(&mut memory, bytes));
            self.check((self.hip.hipMemcpy)(
                memory,
                values.as_ptr().cast(),
                bytes,
                hip::hipMemcpyHostToDevice,
            ));
        }
        memory.cast()
    }

    fn download(&self, memory: *const f32, count: usize) -> Vec<f32> {
        let mut values = vec![0.0; count];
        let kind = hip::hipMemcpyDeviceToHost;
        // SAFETY: both buffers have this many bytes.
        self.check(unsafe {
            (self.hip.hipMemcpy)(values.as_mut_ptr().cast(), memory.cast(), 4 * count, kind)
        });
        values
    }
}

/// Pseudo-random numbers from -1 to 1. The same seed always gives the same numbers.
fn noise(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

const M: usize = 48;
const N: usize = 40;
const K: usize = 64;

/// Computes `relu(W x + b)`, or `W x` if there is no bias, for each of N vectors x. The layouts are `w` [M][K], `x`
/// [N][K] and result [N][M]; BLAS sees each of them as the transpose, in column-major order.
fn expected(w: &[f32], x: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    let mut d = vec![0.0; M * N];
    for n in 0..N {
        for m in 0..M {
            let sum: f64 = (0..K).map(|k| f64::from(w[m * K + k]) * f64::from(x[n * K + k])).sum();
            d[n * M + m] = match bias {
                Some(bias) => (sum + f64::from(bias[m])).max(0.0) as f32,
                None => sum as f32,
            };
        }
    }
    d
}

fn assert_near(found: &[f32], expected: &[f32]) {
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-4, "{index}: {found}, not {expected}");
    }
}

#[test]
fn gemms_run_in_a_captured_graph() {
    let Some(lib) = with_card() else { return };
    let (w, x, bias) = (noise(1, M * K), noise(2, N * K), noise(3, M));
    let [dw, dx, db] = [&w, &x, &bias].map(|values| lib.upload(values));
    let (d1, d2) = (lib.upload(&vec![f32::NAN; M * N]), lib.upload(&vec![f32::NAN; M * N]));
    let workspace = lib.upload(&vec![0.0; 1 << 20]);
    let (one, zero) = (1.0_f32, 0.0_f32);
    let (one, zero) = (from_ref(&one).cast(), from_ref(&zero).cast());
    let (m, n, k) = (M as i32, N as i32, K as i32);
    let f32_type = rb::rocblas_datatype_f32_r;
    let (mut stream, mut rocblas, mut handle) = (null_mut(), null_mut(), null_mut());
    let (mut description, mut preference) = (null_mut(), null_mut());
    let (mut graph, mut executable) = (null_mut(), null_mut());
    // SAFETY: the pointers are to local variables, the objects are alive, and the matrices have the given sizes.
    unsafe {
        lib.check((lib.hip.hipStreamCreateWithFlags)(&mut stream, hip::hipStreamNonBlocking));
        assert_eq!((lib.rocblas.rocblas_create_handle)(&mut rocblas), rb::rocblas_status_success);
        assert_eq!((lib.rocblas.rocblas_set_stream)(rocblas, stream), rb::rocblas_status_success);
        let set = (lib.rocblas.rocblas_set_workspace)(rocblas, workspace.cast(), 4 << 20);
        assert_eq!(set, rb::rocblas_status_success);
        let blas = &lib.hipblaslt;
        assert_eq!((blas.hipblasLtCreate)(&mut handle), lt::HIPBLAS_STATUS_SUCCESS);
        let created =
            (blas.hipblasLtMatmulDescCreate)(&mut description, lt::HIPBLAS_COMPUTE_32F, hip::HIP_R_32F);
        assert_eq!(created, lt::HIPBLAS_STATUS_SUCCESS);
        for (name, value) in [
            (lt::HIPBLASLT_MATMUL_DESC_TRANSA, lt::HIPBLAS_OP_T),
            (lt::HIPBLASLT_MATMUL_DESC_TRANSB, lt::HIPBLAS_OP_N),
            (lt::HIPBLASLT_MATMUL_DESC_EPILOGUE, lt::HIPBLASLT_EPILOGUE_RELU_BIAS),
        ] {
            let set = (blas.hipblasLtMatmulDescSetAttribute)(description, name, from_ref(&value).cast(), 4);
            assert_eq!(set, lt::HIPBLAS_STATUS_SUCCESS);
        }
        let pointer = lt::HIPBLASLT_MATMUL_DESC_BIAS_POINTER;
        let set = (blas.hipblasLtMatmulDescSetAttribute)(description, pointer, from_ref(&db).cast(), 8);
        assert_eq!(set, lt::HIPBLAS_STATUS_SUCCESS);
        let layout = |rows: usize, columns: usize| {
            let mut layout = null_mut();
            let (rows, columns) = (rows as u64, columns as u64);
            let made =
                (blas.hipblasLtMatrixLayoutCreate)(&mut layout, hip::HIP_R_32F, rows, columns, rows as i64);
            assert_eq!(made, lt::HIPBLAS_STATUS_SUCCESS);
            layout
        };
        let (a, b, d) = (layout(K, M), layout(K, N), layout(M, N));
        assert_eq!((blas.hipblasLtMatmulPreferenceCreate)(&mut preference), lt::HIPBLAS_STATUS_SUCCESS);
        let bytes = 4_u64 << 20;
        let most = lt::HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let set = (blas.hipblasLtMatmulPreferenceSetAttribute)(preference, most, from_ref(&bytes).cast(), 8);
        assert_eq!(set, lt::HIPBLAS_STATUS_SUCCESS);
        let mut results: [lt::hipblasLtMatmulHeuristicResult_t; 8] = std::mem::zeroed();
        let mut found = 0;
        let asked = (blas.hipblasLtMatmulAlgoGetHeuristic)(
            handle,
            description,
            a,
            b,
            d,
            d,
            preference,
            8,
            results.as_mut_ptr(),
            &mut found,
        );
        assert_eq!(asked, lt::HIPBLAS_STATUS_SUCCESS);
        assert!(found > 0, "there is an algorithm for a GEMM with bias and relu");
        let gemm = |result: &lt::hipblasLtMatmulHeuristicResult_t| {
            let (w, x, y) = (dw.cast_const().cast(), dx.cast_const().cast(), d2.cast());
            let status = (blas.hipblasLtMatmul)(
                handle,
                description,
                one,
                w,
                a,
                x,
                b,
                zero,
                y,
                d,
                y,
                d,
                &result.algo,
                workspace.cast(),
                4 << 20,
                stream,
            );
            assert_eq!(status, lt::HIPBLAS_STATUS_SUCCESS);
        };
        for result in &results[..found as usize] {
            lib.check((lib.hip.hipMemset)(d2.cast(), 0xff, 4 * M * N));
            gemm(result);
            lib.check((lib.hip.hipStreamSynchronize)(stream));
            assert_near(&lib.download(d2, M * N), &expected(&w, &x, Some(&bias)));
        }
        lib.check((lib.hip.hipMemset)(d2.cast(), 0xff, 4 * M * N));
        lib.check((lib.hip.hipStreamBeginCapture)(stream, hip::hipStreamCaptureModeThreadLocal));
        let (transpose, none) = (rb::rocblas_operation_transpose, rb::rocblas_operation_none);
        let status = (lib.rocblas.rocblas_gemm_ex)(
            rocblas,
            transpose,
            none,
            m,
            n,
            k,
            one,
            dw.cast(),
            f32_type,
            k,
            dx.cast(),
            f32_type,
            k,
            zero,
            d1.cast(),
            f32_type,
            m,
            d1.cast(),
            f32_type,
            m,
            f32_type,
            rb::rocblas_gemm_algo_standard,
            0,
            0,
        );
        assert_eq!(status, rb::rocblas_status_success);
        gemm(&results[0]);
        lib.check((lib.hip.hipStreamEndCapture)(stream, &mut graph));
        lib.check((lib.hip.hipGraphInstantiate)(&mut executable, graph, null_mut(), null_mut(), 0));
        lib.check((lib.hip.hipGraphDestroy)(graph));
        assert!(lib.download(d1, 1)[0].is_nan(), "a captured GEMM does not run");
        lib.check((lib.hip.hipGraphLaunch)(executable, stream));
        lib.check((lib.hip.hipStreamSynchronize)(stream));
        assert_near(&lib.download(d1, M * N), &expected(&w, &x, None));
        assert_near(&lib.download(d2, M * N), &expected(&w, &x, Some(&bias)));
        lib.check((lib.hip.hipGraphExecDestroy)(executable));
        assert_eq!((lib.rocblas.rocblas_destroy_handle)(rocblas), rb::rocblas_status_success);
        assert_eq!((blas.hipblasLtDestroy)(handle), lt::HIPBLAS_STATUS_SUCCESS);
        lib.check((lib.hip.hipStreamDestroy)(stream));
        [dw, dx, db, d1, d2, workspace]
            .into_iter()
            .for_each(|memory| lib.check((lib.hip.hipFree)(memory.cast())));
    }
}

#[test]
fn the_card_has_an_architecture_and_attributes() {
    let Some(lib) = with_card() else { return };
    let architecture = lib.hip.architecture(0).unwrap_or_else(|error| panic!("{}", lib.hip.describe(error)));
    assert!(architecture.starts_with("sm_"), "{architecture}");
    let (mut lanes, mut units) = (0, 0);
    // SAFETY: the pointers are to local variables.
    unsafe {
        lib.check((lib.hip.hipDeviceGetAttribute)(&mut lanes, hip::hipDeviceAttributeWarpSize, 0));
        lib.check((lib.hip.hipDeviceGetAttribute)(&mut units, hip::hipDeviceAttributeMultiprocessorCount, 0));
        assert_eq!((lib.hip.hipSetDevice)(1000), hip::hipErrorInvalidDevice);
    }
    assert!(lanes == 32 && units > 0, "{lanes} lanes, {units} units");
}
