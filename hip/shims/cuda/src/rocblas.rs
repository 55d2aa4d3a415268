//! rocBLAS's C interface over cuBLAS: GEMMs without an epilogue, with any alignment.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};

use hip_runtime_sys::hipStream_t;
use rocblas_sys as rb;
use rocblas_sys::{
    rocblas_atomics_mode, rocblas_datatype, rocblas_gemm_algo, rocblas_handle, rocblas_int,
    rocblas_operation, rocblas_pointer_mode, rocblas_status, rocblas_stride, signature,
};

use crate::cublas::{self, Status, cublas};
use crate::driver::{self, current};
use crate::profile;

fn check(status: Status) -> Result<(), rocblas_status> {
    Err(match status {
        0 => return Ok(()),
        cublas::STATUS_NOT_INITIALIZED => rb::rocblas_status_invalid_handle,
        cublas::STATUS_ALLOC_FAILED => rb::rocblas_status_memory_error,
        cublas::STATUS_INVALID_VALUE => rb::rocblas_status_invalid_value,
        cublas::STATUS_ARCH_MISMATCH => rb::rocblas_status_arch_mismatch,
        cublas::STATUS_NOT_SUPPORTED => rb::rocblas_status_not_implemented,
        _ => rb::rocblas_status_internal_error,
    })
}

/// cuBLAS's handle, and its stream, which the profile uses.
struct Handle {
    raw: cublas::Handle,
    stream: Cell<driver::Handle>,
}

/// # Safety
/// The handle is null or was made by `rocblas_create_handle`.
unsafe fn handle_of<'a>(handle: rocblas_handle) -> Result<&'a Handle, rocblas_status> {
    // SAFETY: as the caller promises.
    unsafe { handle.cast::<Handle>().as_ref() }.ok_or(rb::rocblas_status_invalid_handle)
}

macro_rules! api {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            /// rocBLAS's function of this name.
            ///
            /// # Safety
            /// As rocBLAS's documentation says, pointers are valid, and matrices stay valid until the GEMM is done.
            #[allow(non_snake_case, clippy::multiple_unsafe_ops_per_block, reason = "rocBLAS's names")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> rocblas_status {
                let body = || -> Result<(), rocblas_status> { $body };
                body().map_or_else(|error| error, |()| rb::rocblas_status_success)
            }
            const _: signature::$name = $name;
        )*
    };
}

api! {
    fn rocblas_create_handle(handle: *mut rocblas_handle) {
        if handle.is_null() {
            return Err(rb::rocblas_status_invalid_pointer);
        }
        current().map_err(|_| rb::rocblas_status_internal_error)?;
        let cublas = cublas().ok_or_else(|| {
            eprintln!("rocm-cuda-shim: cannot find cuBLAS 13 or 12 (RUKH_CUDA_SHIM_PATH can name its folder)");
            rb::rocblas_status_internal_error
        })?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: cuBLAS writes a handle.
        check(unsafe { (cublas.cublasCreate_v2)(&mut raw) })?;
        let made = Box::into_raw(Box::new(Handle { raw, stream: Cell::new(std::ptr::null_mut()) }));
        // SAFETY: the caller passes a valid pointer.
        unsafe { handle.write(made.cast()) };
        // SAFETY: the handle is alive.
        check(unsafe { (cublas.cublasSetMathMode)(raw, cublas::MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) })
    }

    fn rocblas_destroy_handle(handle: rocblas_handle) {
        // SAFETY: the caller passes a valid handle.
        let raw = unsafe { handle_of(handle) }?.raw;
        // SAFETY: `rocblas_create_handle` made the handle, and it is destroyed once.
        drop(unsafe { Box::from_raw(handle.cast::<Handle>()) });
        let cublas = cublas().ok_or(rb::rocblas_status_internal_error)?;
        current().map_err(|_| rb::rocblas_status_internal_error)?;
        // SAFETY: cuBLAS made the handle, which is destroyed once.
        check(unsafe { (cublas.cublasDestroy_v2)(raw) })
    }

    fn rocblas_set_stream(handle: rocblas_handle, stream: hipStream_t) {
        // SAFETY: the caller passes a valid handle.
        let handle = unsafe { handle_of(handle) }?;
        handle.stream.set(stream.cast());
        let cublas = cublas().ok_or(rb::rocblas_status_internal_error)?;
        // SAFETY: the caller passes a valid stream.
        check(unsafe { (cublas.cublasSetStream_v2)(handle.raw, stream.cast()) })
    }

    fn rocblas_set_pointer_mode(handle: rocblas_handle, mode: rocblas_pointer_mode) {
        // SAFETY: the caller passes a valid handle.
        let handle = unsafe { handle_of(handle) }?;
        let cublas = cublas().ok_or(rb::rocblas_status_internal_error)?;
        // Both libraries use the same numbers for the two modes.
        // SAFETY: the handle is alive.
        check(unsafe { (cublas.cublasSetPointerMode_v2)(handle.raw, mode as c_int) })
    }

    fn rocblas_set_atomics_mode(handle: rocblas_handle, mode: rocblas_atomics_mode) {
        // SAFETY: the caller passes a valid handle.
        let handle = unsafe { handle_of(handle) }?;
        let cublas = cublas().ok_or(rb::rocblas_status_internal_error)?;
        // SAFETY: the handle is alive, and both libraries use the same numbers.
        check(unsafe { (cublas.cublasSetAtomicsMode)(handle.raw, mode as c_int) })
    }

    fn rocblas_set_workspace(handle: rocblas_handle, address: *mut c_void, bytes: usize) {
        // SAFETY: the caller passes a valid handle.
        let handle = unsafe { handle_of(handle) }?;
        let cublas = cublas().ok_or(rb::rocblas_status_internal_error)?;
        // SAFETY: the caller passes valid memory.
        check(unsafe { (cublas.cublasSetWorkspace_v2)(handle.raw, address, bytes) })
    }

    fn rocblas_get_version_string_size(bytes: *mut usize) {
        if bytes.is_null() {
            return Err(rb::rocblas_status_invalid_pointer);
        }
        // SAFETY: the caller passes a valid pointer.
        unsafe { bytes.write(VERSION.len()) };
        Ok(())
    }

    fn rocblas_get_version_string(buffer: *mut c_char, bytes: usize) {
        if buffer.is_null() {
            return Err(rb::rocblas_status_invalid_pointer);
        }
        if bytes < VERSION.len() {
            return Err(rb::rocblas_status_invalid_size);
        }
        // SAFETY: the caller passes a valid buffer.
        unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(VERSION.as_ptr(), VERSION.len()) };
        Ok(())
    }

    fn rocblas_gemm_ex(
        handle: rocblas_handle, transpose_a: rocblas_operation, transpose_b: rocblas_operation, m: rocblas_int,
        n: rocblas_int, k: rocblas_int, alpha: *const c_void, a: *const c_void, a_type: rocblas_datatype,
        lda: rocblas_int, b: *const c_void, b_type: rocblas_datatype, ldb: rocblas_int, beta: *const c_void,
        c: *const c_void, c_type: rocblas_datatype, ldc: rocblas_int, d: *mut c_void, d_type: rocblas_datatype,
        ldd: rocblas_int, compute_type: rocblas_datatype, _algo: rocblas_gemm_algo, _solution: i32, _flags: u32,
    ) {
        same_output((c, c_type, ldc), (d, d_type, ldd))?;
        let cublas = cublas().ok_or(rb::rocblas_status_internal_error)?;
        // SAFETY: the caller passes a valid handle.
        let handle = unsafe { handle_of(handle) }?;
        let [transpose_a, transpose_b] = [operation(transpose_a)?, operation(transpose_b)?];
        let [a_type, b_type, d_type] = [data_type(a_type)?, data_type(b_type)?, data_type(d_type)?];
        let compute = compute(compute_type)?;
        let run = || {
            // SAFETY: the caller passes valid matrices and scalars.
            unsafe {
                (cublas.cublasGemmEx)(
                    handle.raw, transpose_a, transpose_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, d,
                    d_type, ldd, compute, cublas::GEMM_DEFAULT,
                )
            }
        };
        timed(handle, || format!("rocblas m={m} n={n} k={k} type={a_type}->{d_type}"), run)
    }

    fn rocblas_gemm_strided_batched_ex(
        handle: rocblas_handle, transpose_a: rocblas_operation, transpose_b: rocblas_operation, m: rocblas_int,
        n: rocblas_int, k: rocblas_int, alpha: *const c_void, a: *const c_void, a_type: rocblas_datatype,
        lda: rocblas_int, stride_a: rocblas_stride, b: *const c_void, b_type: rocblas_datatype, ldb: rocblas_int,
        stride_b: rocblas_stride, beta: *const c_void, c: *const c_void, c_type: rocblas_datatype, ldc: rocblas_int,
        stride_c: rocblas_stride, d: *mut c_void, d_type: rocblas_datatype, ldd: rocblas_int,
        stride_d: rocblas_stride, batch_count: rocblas_int, compute_type: rocblas_datatype, _algo: rocblas_gemm_algo,
        _solution: i32, _flags: u32,
    ) {
        same_output((c, c_type, ldc), (d, d_type, ldd))?;
        if stride_c != stride_d {
            return Err(rb::rocblas_status_not_implemented);
        }
        let cublas = cublas().ok_or(rb::rocblas_status_internal_error)?;
        // SAFETY: the caller passes a valid handle.
        let handle = unsafe { handle_of(handle) }?;
        let [transpose_a, transpose_b] = [operation(transpose_a)?, operation(transpose_b)?];
        let [a_type, b_type, d_type] = [data_type(a_type)?, data_type(b_type)?, data_type(d_type)?];
        let compute = compute(compute_type)?;
        let run = || {
            // SAFETY: the caller passes valid matrices and scalars.
            unsafe {
                (cublas.cublasGemmStridedBatchedEx)(
                    handle.raw, transpose_a, transpose_b, m, n, k, alpha, a, a_type, lda, stride_a, b, b_type, ldb,
                    stride_b, beta, d, d_type, ldd, stride_d, batch_count, compute, cublas::GEMM_DEFAULT,
                )
            }
        };
        timed(handle, || format!("rocblas m={m} n={n} k={k} batch={batch_count} type={a_type}->{d_type}"), run)
    }
}

/// The version, as a string that ends with zero.
const VERSION: &[u8] = b"4.4.0 (cuBLAS)\0";

/// Runs a GEMM, and writes its line to the profile if there is one.
fn timed(
    handle: &Handle,
    name: impl FnOnce() -> String,
    run: impl Fn() -> Status,
) -> Result<(), rocblas_status> {
    let driver = current().map_err(|_| rb::rocblas_status_internal_error)?;
    check(profile::time(driver, handle.stream.get(), name, || run().cast_unsigned()).cast_signed())
}

/// cuBLAS has one matrix for C and D, so they must be the same here.
fn same_output(
    c: (*const c_void, rocblas_datatype, rocblas_int),
    d: (*mut c_void, rocblas_datatype, rocblas_int),
) -> Result<(), rocblas_status> {
    let is_same = c == (d.0.cast_const(), d.1, d.2);
    if is_same { Ok(()) } else { Err(rb::rocblas_status_not_implemented) }
}

fn operation(operation: rocblas_operation) -> Result<c_int, rocblas_status> {
    match operation {
        rb::rocblas_operation_none => Ok(cublas::OPERATION_NONE),
        rb::rocblas_operation_transpose | rb::rocblas_operation_conjugate_transpose => {
            Ok(cublas::OPERATION_TRANSPOSE)
        }
        _ => Err(rb::rocblas_status_invalid_value),
    }
}

/// CUDA's number of a type, which is also the number in `hipDataType`.
fn data_type(kind: rocblas_datatype) -> Result<c_int, rocblas_status> {
    let kind = match kind {
        rb::rocblas_datatype_f32_r => hip_runtime_sys::HIP_R_32F,
        rb::rocblas_datatype_f16_r => hip_runtime_sys::HIP_R_16F,
        rb::rocblas_datatype_bf16_r => hip_runtime_sys::HIP_R_16BF,
        rb::rocblas_datatype_i8_r => hip_runtime_sys::HIP_R_8I,
        rb::rocblas_datatype_i32_r => hip_runtime_sys::HIP_R_32I,
        _ => return Err(rb::rocblas_status_not_implemented),
    };
    Ok(kind as c_int)
}

fn compute(kind: rocblas_datatype) -> Result<c_int, rocblas_status> {
    match kind {
        rb::rocblas_datatype_f32_r => Ok(cublas::COMPUTE_32F),
        rb::rocblas_datatype_f16_r => Ok(cublas::COMPUTE_16F),
        rb::rocblas_datatype_i32_r => Ok(cublas::COMPUTE_32I),
        _ => Err(rb::rocblas_status_not_implemented),
    }
}

/// rocBLAS's function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn rocblas_status_to_string(status: rocblas_status) -> *const c_char {
    rb::status_name(status).as_ptr()
}
const _: signature::rocblas_status_to_string = rocblas_status_to_string;
