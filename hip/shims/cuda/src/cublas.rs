//! The functions of cuBLAS and cuBLASLt that the shim calls. Types and numbers are those of NVIDIA's *cuBLAS*
//! documentation.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use crate::library;

/// The result of a call; 0 means success.
pub(crate) type Status = c_int;
/// A handle, layout, descriptor or preference.
pub(crate) type Handle = *mut c_void;

pub(crate) const STATUS_NOT_INITIALIZED: Status = 1;
pub(crate) const STATUS_ALLOC_FAILED: Status = 3;
pub(crate) const STATUS_INVALID_VALUE: Status = 7;
pub(crate) const STATUS_ARCH_MISMATCH: Status = 8;
pub(crate) const STATUS_MAPPING_ERROR: Status = 11;
pub(crate) const STATUS_EXECUTION_FAILED: Status = 13;
pub(crate) const STATUS_NOT_SUPPORTED: Status = 15;

pub(crate) const OPERATION_NONE: c_int = 0;
pub(crate) const OPERATION_TRANSPOSE: c_int = 1;

pub(crate) const COMPUTE_16F: c_int = 64;
pub(crate) const COMPUTE_32F: c_int = 68;
pub(crate) const COMPUTE_32F_PEDANTIC: c_int = 69;
pub(crate) const COMPUTE_32I: c_int = 72;
pub(crate) const COMPUTE_32F_FAST_16F: c_int = 74;
pub(crate) const COMPUTE_32F_FAST_16BF: c_int = 75;
pub(crate) const COMPUTE_32F_FAST_TF32: c_int = 77;

/// cuBLAS chooses the algorithm.
pub(crate) const GEMM_DEFAULT: c_int = -1;
/// Partial sums of 16-bit GEMMs are added up in fp32.
pub(crate) const MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: c_int = 16;

pub(crate) const LAYOUT_TYPE: c_int = 0;
pub(crate) const LAYOUT_ORDER: c_int = 1;
pub(crate) const LAYOUT_ROWS: c_int = 2;
pub(crate) const LAYOUT_COLUMNS: c_int = 3;
pub(crate) const LAYOUT_LEADING: c_int = 4;
pub(crate) const LAYOUT_BATCH_COUNT: c_int = 5;
pub(crate) const LAYOUT_STRIDED_BATCH_OFFSET: c_int = 6;

pub(crate) const DESCRIPTION_POINTER_MODE: c_int = 2;
pub(crate) const DESCRIPTION_TRANSPOSE_A: c_int = 3;
pub(crate) const DESCRIPTION_TRANSPOSE_B: c_int = 4;
pub(crate) const DESCRIPTION_EPILOGUE: c_int = 7;
pub(crate) const DESCRIPTION_BIAS_POINTER: c_int = 8;
pub(crate) const DESCRIPTION_A_SCALE_POINTER: c_int = 17;
pub(crate) const DESCRIPTION_B_SCALE_POINTER: c_int = 18;
/// Sums of 8-bit floats are kept in fewer bits, as the fast instructions of sm_90 do.
pub(crate) const DESCRIPTION_FAST_ACCUMULATION: c_int = 25;
pub(crate) const DESCRIPTION_BIAS_DATA_TYPE: c_int = 26;
pub(crate) const DESCRIPTION_A_SCALE_MODE: c_int = 31;
pub(crate) const DESCRIPTION_B_SCALE_MODE: c_int = 32;

pub(crate) const PREFERENCE_MAX_WORKSPACE_BYTES: c_int = 1;
pub(crate) const PREFERENCE_REDUCTION_SCHEME_MASK: c_int = 3;
/// The attribute for the alignment of A. Those for B, C and D have the next three numbers.
pub(crate) const PREFERENCE_MIN_ALIGNMENT_A_BYTES: c_int = 5;
/// Partial sums are added up in the compute type.
pub(crate) const REDUCTION_SCHEME_COMPUTE_TYPE: u32 = 2;

/// An algorithm of cuBLASLt. Only cuBLASLt knows its contents.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Algorithm {
    pub(crate) data: [u64; 8],
}

/// One proposal of cuBLASLt's heuristic.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeuristicResult {
    pub(crate) algorithm: Algorithm,
    pub(crate) workspace_bytes: usize,
    pub(crate) state: Status,
    pub(crate) waves: f32,
    pub(crate) reserved: [c_int; 4],
}

const _: () = assert!(size_of::<Algorithm>() == 64 && size_of::<HeuristicResult>() == 96);

mod cublas_functions {
    use super::*;
    hip_runtime_sys::function_table! {
        pub fn cublasCreate_v2(handle: *mut Handle) -> Status;
        pub fn cublasDestroy_v2(handle: Handle) -> Status;
        pub fn cublasSetStream_v2(handle: Handle, stream: Handle) -> Status;
        pub fn cublasSetWorkspace_v2(handle: Handle, workspace: *mut c_void, bytes: usize) -> Status;
        pub fn cublasSetPointerMode_v2(handle: Handle, mode: c_int) -> Status;
        pub fn cublasSetAtomicsMode(handle: Handle, mode: c_int) -> Status;
        pub fn cublasSetMathMode(handle: Handle, mode: c_int) -> Status;
        pub fn cublasGemmStridedBatchedEx(
            handle: Handle,
            transpose_a: c_int,
            transpose_b: c_int,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const c_void,
            a: *const c_void,
            a_type: c_int,
            lda: c_int,
            stride_a: i64,
            b: *const c_void,
            b_type: c_int,
            ldb: c_int,
            stride_b: i64,
            beta: *const c_void,
            c: *mut c_void,
            c_type: c_int,
            ldc: c_int,
            stride_c: i64,
            batch_count: c_int,
            compute_type: c_int,
            algorithm: c_int,
        ) -> Status;
        pub fn cublasGemmEx(
            handle: Handle,
            transpose_a: c_int,
            transpose_b: c_int,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const c_void,
            a: *const c_void,
            a_type: c_int,
            lda: c_int,
            b: *const c_void,
            b_type: c_int,
            ldb: c_int,
            beta: *const c_void,
            c: *mut c_void,
            c_type: c_int,
            ldc: c_int,
            compute_type: c_int,
            algorithm: c_int,
        ) -> Status;
    }
}

mod cublaslt_functions {
    use super::*;
    hip_runtime_sys::function_table! {
        pub fn cublasLtCreate(handle: *mut Handle) -> Status;
        pub fn cublasLtDestroy(handle: Handle) -> Status;
        pub fn cublasLtGetVersion() -> usize;
        pub fn cublasLtMatrixLayoutCreate(
            layout: *mut Handle,
            kind: c_int,
            rows: u64,
            columns: u64,
            leading: i64,
        ) -> Status;
        pub fn cublasLtMatrixLayoutDestroy(layout: Handle) -> Status;
        pub fn cublasLtMatrixLayoutSetAttribute(
            layout: Handle,
            attribute: c_int,
            buffer: *const c_void,
            bytes: usize,
        ) -> Status;
        pub fn cublasLtMatrixLayoutGetAttribute(
            layout: Handle,
            attribute: c_int,
            buffer: *mut c_void,
            bytes: usize,
            written: *mut usize,
        ) -> Status;
        pub fn cublasLtMatmulDescCreate(description: *mut Handle, compute: c_int, scale: c_int) -> Status;
        pub fn cublasLtMatmulDescDestroy(description: Handle) -> Status;
        pub fn cublasLtMatmulDescSetAttribute(
            description: Handle,
            attribute: c_int,
            buffer: *const c_void,
            bytes: usize,
        ) -> Status;
        pub fn cublasLtMatmulDescGetAttribute(
            description: Handle,
            attribute: c_int,
            buffer: *mut c_void,
            bytes: usize,
            written: *mut usize,
        ) -> Status;
        pub fn cublasLtMatmulPreferenceCreate(preference: *mut Handle) -> Status;
        pub fn cublasLtMatmulPreferenceDestroy(preference: Handle) -> Status;
        pub fn cublasLtMatmulPreferenceSetAttribute(
            preference: Handle,
            attribute: c_int,
            buffer: *const c_void,
            bytes: usize,
        ) -> Status;
        pub fn cublasLtMatmulAlgoGetHeuristic(
            handle: Handle,
            description: Handle,
            a: Handle,
            b: Handle,
            c: Handle,
            d: Handle,
            preference: Handle,
            wanted: c_int,
            results: *mut HeuristicResult,
            found: *mut c_int,
        ) -> Status;
        pub fn cublasLtMatmul(
            handle: Handle,
            description: Handle,
            alpha: *const c_void,
            a: *const c_void,
            a_layout: Handle,
            b: *const c_void,
            b_layout: Handle,
            beta: *const c_void,
            c: *const c_void,
            c_layout: Handle,
            d: *mut c_void,
            d_layout: Handle,
            algorithm: *const Algorithm,
            workspace: *mut c_void,
            workspace_bytes: usize,
            stream: Handle,
        ) -> Status;
    }
}

/// The functions of cuBLAS, or `None` if it was not found.
pub(crate) fn cublas() -> Option<&'static cublas_functions::Functions> {
    static CUBLAS: OnceLock<Option<cublas_functions::Functions>> = OnceLock::new();
    let names = ["libcublas.so.13", "libcublas.so.12", "libcublas.so"];
    let beside = ["libcublasLt.so.13", "libcublasLt.so.12"];
    CUBLAS.get_or_init(|| library::load(&names, &beside, cublas_functions::Functions::resolve)).as_ref()
}

/// The functions of cuBLASLt, or `None` if it was not found.
pub(crate) fn cublaslt() -> Option<&'static cublaslt_functions::Functions> {
    static CUBLASLT: OnceLock<Option<cublaslt_functions::Functions>> = OnceLock::new();
    let names = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];
    CUBLASLT.get_or_init(|| library::load(&names, &[], cublaslt_functions::Functions::resolve)).as_ref()
}
