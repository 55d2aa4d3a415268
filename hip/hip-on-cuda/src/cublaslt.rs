//! The functions of cuBLASLt. Types and numbers are those of NVIDIA's *cuBLAS* documentation.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use hip_runtime_sys::loader::{self, Candidates, LoadError};
use hip_runtime_sys::search::{self, Platform, ThisMachine};
use std::path::{Path, PathBuf};

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

/// The attributes that identify an algorithm, each with its size in bytes (`cublasLtMatmulAlgoConfigAttributes_t`): the
/// kernel's number, its tile, split-K, the reduction of split-K, the swizzling of blocks, an option of the kernel's own,
/// the stages, the inner shape, and the shape of a cluster.
pub(crate) const CONFIGURATION: [(c_int, usize); 9] =
    [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4), (5, 4), (6, 4), (7, 2), (8, 2)];

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

mod functions {
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
        pub fn cublasLtMatmulDescCreate(description: *mut Handle, compute: c_int, scale: c_int) -> Status;
        pub fn cublasLtMatmulDescDestroy(description: Handle) -> Status;
        pub fn cublasLtMatmulDescSetAttribute(
            description: Handle,
            attribute: c_int,
            buffer: *const c_void,
            bytes: usize,
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
        pub fn cublasLtMatmulAlgoConfigGetAttribute(
            algorithm: *const Algorithm,
            attribute: c_int,
            buffer: *mut c_void,
            bytes: usize,
            written: *mut usize,
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

pub(crate) use functions::Functions;

/// The names of cuBLASLt's library.
const CUBLASLT: Candidates = Candidates {
    library: "cublasLt",
    has_link: false,
    versions: &["13", "12", "11"],
    windows: &["cublasLt64_13.dll", "cublasLt64_12.dll", "cublasLt64_11.dll"],
};

static LOADED: OnceLock<Functions> = OnceLock::new();

/// The functions of cuBLASLt, or `None` if it has not been loaded.
pub(crate) fn cublaslt() -> Option<&'static Functions> {
    LOADED.get()
}

/// Loads cuBLASLt, from `folder` if the user has named one. A process uses the library that it has loaded first.
pub(crate) fn load(folder: Option<&Path>) -> Result<&'static Functions, LoadError> {
    if let Some(known) = LOADED.get() {
        return Ok(known);
    }
    let places = search::cublaslt(Platform::HERE, &ThisMachine, folder);
    let functions = loader::load_from(&CUBLASLT, places, Functions::resolve)?;
    Ok(LOADED.get_or_init(|| functions))
}

/// The path of the loaded library, as the dynamic linker opened it.
pub(crate) fn file() -> Option<PathBuf> {
    loader::file_of(LOADED.get()?.cublasLtCreate as usize)
}
