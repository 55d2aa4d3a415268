//! hipBLASLt's C interface over cuBLASLt: GEMMs with bias and activation, whose algorithm the caller gets from the
//! heuristic.
//!
//! Handles, layouts and descriptors are cuBLASLt's own. cuBLASLt's algorithms are larger than hipBLASLt's, so an algorithm
//! here holds only the address of cuBLASLt's algorithm, which is kept until the process ends.
//!
//! cuBLASLt has no epilogue with swish. A request for it returns `NOT_SUPPORTED`, as hipBLASLt does before ROCm 7.

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hip_runtime_sys::loader::LoadError;
use hip_runtime_sys::{hipDataType, hipStream_t};
use hipblaslt_sys as lt;
use hipblaslt_sys::{
    HipblasLt, hipblasComputeType_t, hipblasLtHandle_t, hipblasLtMatmulAlgo_t, hipblasLtMatmulDesc_t,
    hipblasLtMatmulDescAttributes_t, hipblasLtMatmulHeuristicResult_t, hipblasLtMatmulPreference_t,
    hipblasLtMatmulPreferenceAttributes_t, hipblasLtMatrixLayout_t, hipblasLtMatrixLayoutAttribute_t,
    hipblasStatus_t, signature,
};

use crate::cublaslt::{self as cublas, Algorithm, Handle, HeuristicResult, Status, cublaslt};
use crate::driver::current;

/// The bytes by which this module recognises its own algorithms. They follow the first word, which is the algorithm's index,
/// as in the real library.
const ALGORITHM_MARK: u32 = u32::from_le_bytes(*b"RUKH");
/// The alignment of all matrices in bytes. The engine's kernels require the same.
const ALIGNMENT: u32 = 16;

fn check(status: Status) -> Result<(), hipblasStatus_t> {
    Err(match status {
        0 => return Ok(()),
        cublas::STATUS_NOT_INITIALIZED => lt::HIPBLAS_STATUS_NOT_INITIALIZED,
        cublas::STATUS_ALLOC_FAILED => lt::HIPBLAS_STATUS_ALLOC_FAILED,
        cublas::STATUS_INVALID_VALUE => lt::HIPBLAS_STATUS_INVALID_VALUE,
        cublas::STATUS_ARCH_MISMATCH => lt::HIPBLAS_STATUS_ARCH_MISMATCH,
        cublas::STATUS_MAPPING_ERROR => lt::HIPBLAS_STATUS_MAPPING_ERROR,
        cublas::STATUS_EXECUTION_FAILED => lt::HIPBLAS_STATUS_EXECUTION_FAILED,
        cublas::STATUS_NOT_SUPPORTED => lt::HIPBLAS_STATUS_NOT_SUPPORTED,
        _ => lt::HIPBLAS_STATUS_INTERNAL_ERROR,
    })
}

macro_rules! api {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            /// hipBLASLt's function of this name.
            ///
            /// # Safety
            /// As hipBLASLt's documentation says, pointers are valid, and matrices stay valid until the GEMM is
            /// done.
            #[allow(non_snake_case, clippy::multiple_unsafe_ops_per_block, reason = "hipBLASLt's names")]
            unsafe extern "C" fn $name($($argument: $type),*) -> hipblasStatus_t {
                let body = || -> Result<(), hipblasStatus_t> { $body };
                body().map_or_else(|error| error, |()| lt::HIPBLAS_STATUS_SUCCESS)
            }
            const _: signature::$name = $name;
        )*
    };
}

/// A function of cuBLASLt, or an error if the library was not found.
macro_rules! cublaslt {
    ($name:ident) => {
        cublaslt().ok_or(lt::HIPBLAS_STATUS_NOT_INITIALIZED)?.$name
    };
}

api! {
    fn hipblasLtCreate(handle: *mut hipblasLtHandle_t) {
        if current().is_err() {
            return Err(lt::HIPBLAS_STATUS_NOT_INITIALIZED);
        }
        // SAFETY: the caller passes a valid pointer.
        check(unsafe { cublaslt!(cublasLtCreate)(handle) })
    }

    fn hipblasLtDestroy(handle: hipblasLtHandle_t) {
        current().map_err(|_| lt::HIPBLAS_STATUS_NOT_INITIALIZED)?;
        // SAFETY: the caller passes a valid handle.
        check(unsafe { cublaslt!(cublasLtDestroy)(handle) })
    }

    fn hipblasLtGetVersion(_handle: hipblasLtHandle_t, version: *mut c_int) {
        if version.is_null() {
            return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
        }
        // SAFETY: the function takes no arguments.
        let found = unsafe { cublaslt!(cublasLtGetVersion)() };
        // SAFETY: the caller passes a valid pointer.
        unsafe { version.write(found as c_int) };
        Ok(())
    }

    fn hipblasLtMatrixLayoutCreate(
        layout: *mut hipblasLtMatrixLayout_t, kind: hipDataType, rows: u64, columns: u64, leading: i64,
    ) {
        // HIP and CUDA use the same numbers for data types.
        // SAFETY: the caller passes a valid pointer.
        check(unsafe { cublaslt!(cublasLtMatrixLayoutCreate)(layout.cast(), kind as c_int, rows, columns, leading) })
    }

    fn hipblasLtMatrixLayoutDestroy(layout: hipblasLtMatrixLayout_t) {
        // SAFETY: the caller passes a valid layout.
        check(unsafe { cublaslt!(cublasLtMatrixLayoutDestroy)(layout.cast()) })
    }

    fn hipblasLtMatrixLayoutSetAttribute(
        layout: hipblasLtMatrixLayout_t, name: hipblasLtMatrixLayoutAttribute_t, buffer: *const c_void, bytes: usize,
    ) {
        let attribute = match name {
            lt::HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT => cublas::LAYOUT_BATCH_COUNT,
            lt::HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET => cublas::LAYOUT_STRIDED_BATCH_OFFSET,
            lt::HIPBLASLT_MATRIX_LAYOUT_TYPE => cublas::LAYOUT_TYPE,
            // Both libraries use the same numbers for orders.
            lt::HIPBLASLT_MATRIX_LAYOUT_ORDER => cublas::LAYOUT_ORDER,
            lt::HIPBLASLT_MATRIX_LAYOUT_ROWS => cublas::LAYOUT_ROWS,
            lt::HIPBLASLT_MATRIX_LAYOUT_COLS => cublas::LAYOUT_COLUMNS,
            lt::HIPBLASLT_MATRIX_LAYOUT_LD => cublas::LAYOUT_LEADING,
            _ => return Err(lt::HIPBLAS_STATUS_INVALID_VALUE),
        };
        // SAFETY: the caller passes a valid layout and buffer.
        check(unsafe { cublaslt!(cublasLtMatrixLayoutSetAttribute)(layout.cast(), attribute, buffer, bytes) })
    }

    fn hipblasLtMatmulDescCreate(
        description: *mut hipblasLtMatmulDesc_t, compute: hipblasComputeType_t, scale: hipDataType,
    ) {
        let compute = match compute {
            lt::HIPBLAS_COMPUTE_16F => cublas::COMPUTE_16F,
            lt::HIPBLAS_COMPUTE_32F => cublas::COMPUTE_32F,
            lt::HIPBLAS_COMPUTE_32F_PEDANTIC => cublas::COMPUTE_32F_PEDANTIC,
            lt::HIPBLAS_COMPUTE_32F_FAST_16F => cublas::COMPUTE_32F_FAST_16F,
            lt::HIPBLAS_COMPUTE_32F_FAST_16BF => cublas::COMPUTE_32F_FAST_16BF,
            lt::HIPBLAS_COMPUTE_32F_FAST_TF32 => cublas::COMPUTE_32F_FAST_TF32,
            lt::HIPBLAS_COMPUTE_32I => cublas::COMPUTE_32I,
            _ => return Err(lt::HIPBLAS_STATUS_NOT_SUPPORTED),
        };
        // SAFETY: the caller passes a valid pointer.
        check(unsafe { cublaslt!(cublasLtMatmulDescCreate)(description.cast(), compute, scale as c_int) })
    }

    fn hipblasLtMatmulDescDestroy(description: hipblasLtMatmulDesc_t) {
        // SAFETY: the caller passes a valid description.
        check(unsafe { cublaslt!(cublasLtMatmulDescDestroy)(description.cast()) })
    }

    fn hipblasLtMatmulDescSetAttribute(
        description: hipblasLtMatmulDesc_t, name: hipblasLtMatmulDescAttributes_t, buffer: *const c_void, bytes: usize,
    ) {
        let attribute = match name {
            lt::HIPBLASLT_MATMUL_DESC_TRANSA => cublas::DESCRIPTION_TRANSPOSE_A,
            lt::HIPBLASLT_MATMUL_DESC_TRANSB => cublas::DESCRIPTION_TRANSPOSE_B,
            lt::HIPBLASLT_MATMUL_DESC_EPILOGUE => cublas::DESCRIPTION_EPILOGUE,
            lt::HIPBLASLT_MATMUL_DESC_BIAS_POINTER => cublas::DESCRIPTION_BIAS_POINTER,
            lt::HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE => cublas::DESCRIPTION_BIAS_DATA_TYPE,
            lt::HIPBLASLT_MATMUL_DESC_POINTER_MODE => cublas::DESCRIPTION_POINTER_MODE,
            lt::HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER => cublas::DESCRIPTION_A_SCALE_POINTER,
            lt::HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER => cublas::DESCRIPTION_B_SCALE_POINTER,
            // Both libraries use the same numbers for the modes.
            lt::HIPBLASLT_MATMUL_DESC_A_SCALE_MODE => cublas::DESCRIPTION_A_SCALE_MODE,
            lt::HIPBLASLT_MATMUL_DESC_B_SCALE_MODE => cublas::DESCRIPTION_B_SCALE_MODE,
            _ => return Err(lt::HIPBLAS_STATUS_NOT_SUPPORTED),
        };
        let is_pointer = matches!(
            attribute,
            cublas::DESCRIPTION_BIAS_POINTER
                | cublas::DESCRIPTION_A_SCALE_POINTER
                | cublas::DESCRIPTION_B_SCALE_POINTER
        );
        let wanted = if is_pointer { 8 } else { 4 };
        if buffer.is_null() || bytes != wanted {
            return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
        }
        let set = cublaslt!(cublasLtMatmulDescSetAttribute);
        if wanted == 8 {
            // SAFETY: the caller passes a valid description and buffer.
            return check(unsafe { set(description.cast(), attribute, buffer, bytes) });
        }
        // SAFETY: the caller passes a valid buffer.
        let value = unsafe { buffer.cast::<u32>().read_unaligned() };
        let value = match name {
            lt::HIPBLASLT_MATMUL_DESC_TRANSA | lt::HIPBLASLT_MATMUL_DESC_TRANSB => operation(value)?,
            lt::HIPBLASLT_MATMUL_DESC_EPILOGUE => epilogue(value)?,
            _ => value,
        };
        // SAFETY: the caller passes a valid description.
        check(unsafe { set(description.cast(), attribute, (&raw const value).cast(), size_of::<u32>()) })?;
        if name == lt::HIPBLASLT_MATMUL_DESC_A_SCALE_MODE {
            // Fast sums, for which hipBLASLt has no attribute. They lose far less than the factors lost in rounding.
            let fast = 1_i8;
            // SAFETY: the caller passes a valid description.
            check(unsafe {
                set(description.cast(), cublas::DESCRIPTION_FAST_ACCUMULATION, (&raw const fast).cast(), 1)
            })?;
        }
        Ok(())
    }

    fn hipblasLtMatmulPreferenceCreate(preference: *mut hipblasLtMatmulPreference_t) {
        if preference.is_null() {
            return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
        }
        let mut made: Handle = std::ptr::null_mut();
        // SAFETY: cuBLASLt writes a handle.
        check(unsafe { cublaslt!(cublasLtMatmulPreferenceCreate)(&mut made) })?;
        let set = cublaslt!(cublasLtMatmulPreferenceSetAttribute);
        let first = cublas::PREFERENCE_MIN_ALIGNMENT_A_BYTES;
        let alignments = (first..first + 4).map(|attribute| (attribute, ALIGNMENT));
        let reduction = (cublas::PREFERENCE_REDUCTION_SCHEME_MASK, cublas::REDUCTION_SCHEME_COMPUTE_TYPE);
        for (attribute, value) in alignments.chain([reduction]) {
            // SAFETY: the preference is alive.
            check(unsafe { set(made, attribute, (&raw const value).cast(), size_of::<u32>()) })?;
        }
        // SAFETY: the caller passes a valid pointer.
        unsafe { preference.write(made.cast()) };
        Ok(())
    }

    fn hipblasLtMatmulPreferenceDestroy(preference: hipblasLtMatmulPreference_t) {
        // SAFETY: the caller passes a valid preference.
        check(unsafe { cublaslt!(cublasLtMatmulPreferenceDestroy)(preference.cast()) })
    }

    fn hipblasLtMatmulPreferenceSetAttribute(
        preference: hipblasLtMatmulPreference_t, name: hipblasLtMatmulPreferenceAttributes_t, buffer: *const c_void,
        bytes: usize,
    ) {
        let attribute = match name {
            lt::HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES => cublas::PREFERENCE_MAX_WORKSPACE_BYTES,
            lt::HIPBLASLT_MATMUL_PREF_SEARCH_MODE => return Ok(()),
            _ => return Err(lt::HIPBLAS_STATUS_INVALID_VALUE),
        };
        // SAFETY: the caller passes a valid preference and buffer.
        check(unsafe { cublaslt!(cublasLtMatmulPreferenceSetAttribute)(preference.cast(), attribute, buffer, bytes) })
    }

    fn hipblasLtMatmulAlgoGetHeuristic(
        handle: hipblasLtHandle_t, description: hipblasLtMatmulDesc_t, a: hipblasLtMatrixLayout_t,
        b: hipblasLtMatrixLayout_t, c: hipblasLtMatrixLayout_t, d: hipblasLtMatrixLayout_t,
        preference: hipblasLtMatmulPreference_t, wanted: c_int, results: *mut hipblasLtMatmulHeuristicResult_t,
        count: *mut c_int,
    ) {
        if wanted < 1 || results.is_null() || count.is_null() {
            return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
        }
        // SAFETY: the caller passes a valid pointer.
        unsafe { count.write(0) };
        let nothing = HeuristicResult {
            algorithm: Algorithm { data: [0; 8] },
            workspace_bytes: 0,
            state: cublas::STATUS_NOT_SUPPORTED,
            waves: 0.0,
            reserved: [0; 4],
        };
        let mut found = vec![nothing; wanted as usize];
        let mut found_count = 0;
        // SAFETY: the caller passes valid objects, and a list with room for the requested number of results.
        let status = unsafe {
            cublaslt!(cublasLtMatmulAlgoGetHeuristic)(
                handle, description.cast(), a.cast(), b.cast(), c.cast(), d.cast(), preference.cast(), wanted,
                found.as_mut_ptr(), &mut found_count,
            )
        };
        if status == cublas::STATUS_NOT_SUPPORTED {
            // hipBLASLt reports this case by returning no algorithm.
            return Ok(());
        }
        check(status)?;
        found.truncate(usize::try_from(found_count).unwrap_or_default());
        found.retain(|result| result.state == 0);
        for (index, result) in found.iter().enumerate() {
            let made = hipblasLtMatmulHeuristicResult_t {
                algo: store_algorithm(result),
                workspaceSize: result.workspace_bytes,
                state: lt::HIPBLAS_STATUS_SUCCESS,
                wavesCount: result.waves,
                reserved: [0; 4],
            };
            // SAFETY: the caller's list has as many places as it asks for results.
            unsafe { results.add(index).write(made) };
        }
        // SAFETY: the caller passes a valid pointer.
        unsafe { count.write(found.len() as c_int) };
        Ok(())
    }

    fn hipblasLtMatmul(
        handle: hipblasLtHandle_t, description: hipblasLtMatmulDesc_t, alpha: *const c_void, a: *const c_void,
        a_layout: hipblasLtMatrixLayout_t, b: *const c_void, b_layout: hipblasLtMatrixLayout_t, beta: *const c_void,
        c: *const c_void, c_layout: hipblasLtMatrixLayout_t, d: *mut c_void, d_layout: hipblasLtMatrixLayout_t,
        algorithm: *const hipblasLtMatmulAlgo_t, workspace: *mut c_void, workspace_bytes: usize, stream: hipStream_t,
    ) {
        current().map_err(|_| lt::HIPBLAS_STATUS_NOT_INITIALIZED)?;
        let matmul = cublaslt!(cublasLtMatmul);
        // SAFETY: the caller passes a valid pointer.
        let algorithm = unsafe { original(algorithm) }?;
        // SAFETY: the caller passes valid objects, matrices and scalars.
        check(unsafe {
            matmul(
                handle, description.cast(), alpha, a, a_layout.cast(), b, b_layout.cast(), beta, c, c_layout.cast(), d,
                d_layout.cast(), algorithm, workspace, workspace_bytes, stream.cast(),
            )
        })
    }
}

fn operation(hip: u32) -> Result<u32, hipblasStatus_t> {
    match hip {
        lt::HIPBLAS_OP_N => Ok(cublas::OPERATION_NONE as u32),
        lt::HIPBLAS_OP_T | lt::HIPBLAS_OP_C => Ok(cublas::OPERATION_TRANSPOSE as u32),
        _ => Err(lt::HIPBLAS_STATUS_INVALID_ENUM),
    }
}

/// The epilogue's number, which is the same in both libraries. Fails with `NOT_SUPPORTED` if cuBLASLt lacks the
/// epilogue.
fn epilogue(hip: u32) -> Result<u32, hipblasStatus_t> {
    match hip {
        lt::HIPBLASLT_EPILOGUE_DEFAULT
        | lt::HIPBLASLT_EPILOGUE_RELU
        | lt::HIPBLASLT_EPILOGUE_BIAS
        | lt::HIPBLASLT_EPILOGUE_RELU_BIAS
        | lt::HIPBLASLT_EPILOGUE_GELU
        | lt::HIPBLASLT_EPILOGUE_GELU_BIAS => Ok(hip),
        _ => Err(lt::HIPBLAS_STATUS_NOT_SUPPORTED),
    }
}

/// Stores an algorithm of cuBLASLt, and returns the algorithm here that refers to it.
fn store_algorithm(result: &HeuristicResult) -> hipblasLtMatmulAlgo_t {
    static STORED: Mutex<Vec<&'static Algorithm>> = Mutex::new(Vec::new());
    let mut list = STORED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = list.iter().find(|known| known.data == result.algorithm.data).copied();
    let algorithm = known.unwrap_or_else(|| {
        let made: &'static Algorithm = Box::leak(Box::new(result.algorithm));
        list.push(made);
        made
    });
    let mut data = [0; 16];
    data[..4].copy_from_slice(&solution_index(&result.algorithm).to_ne_bytes());
    data[4..8].copy_from_slice(&ALGORITHM_MARK.to_ne_bytes());
    let address = (&raw const *algorithm).expose_provenance() as u64;
    data[8..].copy_from_slice(&address.to_ne_bytes());
    hipblasLtMatmulAlgo_t { data, max_workspace_bytes: result.workspace_bytes }
}

/// A number that is the same in every process and on every card of the same model: a hash of the algorithm's
/// configuration (FNV-1a, shortened to a positive number). An attribute that this version of cuBLASLt does not have counts
/// as zero.
fn solution_index(algorithm: &Algorithm) -> i32 {
    let bytes = cublas::CONFIGURATION.into_iter().flat_map(|(attribute, bytes)| {
        let mut value = [0_u8; 4];
        if let Some(cublaslt) = cublas::cublaslt() {
            // SAFETY: the buffer has room for `bytes` bytes, and the algorithm is one that cuBLASLt has made.
            unsafe {
                (cublaslt.cublasLtMatmulAlgoConfigGetAttribute)(
                    algorithm,
                    attribute,
                    value.as_mut_ptr().cast(),
                    bytes,
                    &mut 0,
                )
            };
        }
        value
    });
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 1) as i32
}

/// The cuBLASLt algorithm that an algorithm of this module refers to. Null stays null and lets cuBLASLt choose.
///
/// # Safety
/// The pointer is null or points to an algorithm.
unsafe fn original(algorithm: *const hipblasLtMatmulAlgo_t) -> Result<*const Algorithm, hipblasStatus_t> {
    if algorithm.is_null() {
        return Ok(std::ptr::null());
    }
    // SAFETY: as the caller promises.
    let words = unsafe { algorithm.cast::<[u64; 2]>().read_unaligned() };
    let [_, _, _, _, mark @ ..] = words[0].to_ne_bytes();
    if u32::from_ne_bytes(mark) != ALGORITHM_MARK {
        return Err(lt::HIPBLAS_STATUS_INVALID_VALUE);
    }
    Ok(std::ptr::with_exposed_provenance(words[1] as usize))
}

/// hipBLASLt's functions over cuBLASLt, which is loaded from `folder` if the user has named one. None of its functions is
/// called.
///
/// # Errors
/// cuBLASLt is not installed, or lacks functions. The error lists every file that was tried, with the reason of its
/// failure.
pub fn hipblaslt(folder: Option<&Path>) -> Result<HipblasLt, LoadError> {
    cublas::load(folder).map(|_| HipblasLt::of(FUNCTIONS))
}

/// The path of cuBLASLt's library. `None` if it has not been loaded.
pub fn hipblaslt_file() -> Option<PathBuf> {
    cublas::file()
}

const FUNCTIONS: lt::Functions = lt::Functions {
    hipblasLtGetVersion,
    hipblasLtCreate,
    hipblasLtDestroy,
    hipblasLtMatrixLayoutCreate,
    hipblasLtMatrixLayoutDestroy,
    hipblasLtMatrixLayoutSetAttribute,
    hipblasLtMatmulDescCreate,
    hipblasLtMatmulDescDestroy,
    hipblasLtMatmulDescSetAttribute,
    hipblasLtMatmulPreferenceCreate,
    hipblasLtMatmulPreferenceDestroy,
    hipblasLtMatmulPreferenceSetAttribute,
    hipblasLtMatmulAlgoGetHeuristic,
    hipblasLtMatmul,
};
