// Written by scripts/kernels/generate_bindings.sh from the ROCm headers: do not edit.

use hip_runtime_sys::*;

#[repr(C)]
#[derive(Debug)]
pub struct _rocblas_handle {
    _unused: [u8; 0],
}
pub type rocblas_handle = *mut _rocblas_handle;
pub type rocblas_int = i32;
pub type rocblas_stride = i64;
pub const rocblas_operation_none: rocblas_operation_ = 111;
pub const rocblas_operation_transpose: rocblas_operation_ = 112;
pub const rocblas_operation_conjugate_transpose: rocblas_operation_ = 113;
pub type rocblas_operation_ = ::core::ffi::c_uint;
pub use self::rocblas_operation_ as rocblas_operation;
pub const rocblas_datatype_f16_r: rocblas_datatype_ = 150;
pub const rocblas_datatype_f32_r: rocblas_datatype_ = 151;
pub const rocblas_datatype_f64_r: rocblas_datatype_ = 152;
pub const rocblas_datatype_f16_c: rocblas_datatype_ = 153;
pub const rocblas_datatype_f32_c: rocblas_datatype_ = 154;
pub const rocblas_datatype_f64_c: rocblas_datatype_ = 155;
pub const rocblas_datatype_i8_r: rocblas_datatype_ = 160;
pub const rocblas_datatype_u8_r: rocblas_datatype_ = 161;
pub const rocblas_datatype_i32_r: rocblas_datatype_ = 162;
pub const rocblas_datatype_u32_r: rocblas_datatype_ = 163;
pub const rocblas_datatype_i8_c: rocblas_datatype_ = 164;
pub const rocblas_datatype_u8_c: rocblas_datatype_ = 165;
pub const rocblas_datatype_i32_c: rocblas_datatype_ = 166;
pub const rocblas_datatype_u32_c: rocblas_datatype_ = 167;
pub const rocblas_datatype_bf16_r: rocblas_datatype_ = 168;
pub const rocblas_datatype_bf16_c: rocblas_datatype_ = 169;
pub const rocblas_datatype_f8_r: rocblas_datatype_ = 170;
pub const rocblas_datatype_bf8_r: rocblas_datatype_ = 171;
pub const rocblas_datatype_invalid: rocblas_datatype_ = 255;
pub type rocblas_datatype_ = ::core::ffi::c_uint;
pub use self::rocblas_datatype_ as rocblas_datatype;
pub const rocblas_status_success: rocblas_status_ = 0;
pub const rocblas_status_invalid_handle: rocblas_status_ = 1;
pub const rocblas_status_not_implemented: rocblas_status_ = 2;
pub const rocblas_status_invalid_pointer: rocblas_status_ = 3;
pub const rocblas_status_invalid_size: rocblas_status_ = 4;
pub const rocblas_status_memory_error: rocblas_status_ = 5;
pub const rocblas_status_internal_error: rocblas_status_ = 6;
pub const rocblas_status_perf_degraded: rocblas_status_ = 7;
pub const rocblas_status_size_query_mismatch: rocblas_status_ = 8;
pub const rocblas_status_size_increased: rocblas_status_ = 9;
pub const rocblas_status_size_unchanged: rocblas_status_ = 10;
pub const rocblas_status_invalid_value: rocblas_status_ = 11;
pub const rocblas_status_continue: rocblas_status_ = 12;
pub const rocblas_status_check_numerics_fail: rocblas_status_ = 13;
pub const rocblas_status_excluded_from_build: rocblas_status_ = 14;
pub const rocblas_status_arch_mismatch: rocblas_status_ = 15;
pub type rocblas_status_ = ::core::ffi::c_uint;
pub use self::rocblas_status_ as rocblas_status;
pub const rocblas_pointer_mode_host: rocblas_pointer_mode_ = 0;
pub const rocblas_pointer_mode_device: rocblas_pointer_mode_ = 1;
pub type rocblas_pointer_mode_ = ::core::ffi::c_uint;
pub use self::rocblas_pointer_mode_ as rocblas_pointer_mode;
pub const rocblas_atomics_not_allowed: rocblas_atomics_mode_ = 0;
pub const rocblas_atomics_allowed: rocblas_atomics_mode_ = 1;
pub type rocblas_atomics_mode_ = ::core::ffi::c_uint;
pub use self::rocblas_atomics_mode_ as rocblas_atomics_mode;
pub const rocblas_gemm_algo_standard: rocblas_gemm_algo_ = 0;
pub const rocblas_gemm_algo_solution_index: rocblas_gemm_algo_ = 1;
pub type rocblas_gemm_algo_ = ::core::ffi::c_uint;
pub use self::rocblas_gemm_algo_ as rocblas_gemm_algo;
pub const rocblas_gemm_flags_none: rocblas_gemm_flags_ = 0;
pub const rocblas_gemm_flags_use_cu_efficiency: rocblas_gemm_flags_ = 2;
pub const rocblas_gemm_flags_fp16_alt_impl: rocblas_gemm_flags_ = 4;
pub const rocblas_gemm_flags_check_solution_index: rocblas_gemm_flags_ = 8;
pub const rocblas_gemm_flags_fp16_alt_impl_rnz: rocblas_gemm_flags_ = 16;
pub const rocblas_gemm_flags_stochastic_rounding: rocblas_gemm_flags_ = 32;
pub type rocblas_gemm_flags_ = ::core::ffi::c_uint;
hip_runtime_sys::function_table! {
    pub fn rocblas_create_handle(handle: *mut rocblas_handle) -> rocblas_status;
    pub fn rocblas_destroy_handle(handle: rocblas_handle) -> rocblas_status;
    pub fn rocblas_set_stream(handle: rocblas_handle, stream: hipStream_t) -> rocblas_status;
    pub fn rocblas_set_pointer_mode(
        handle: rocblas_handle,
        pointer_mode: rocblas_pointer_mode,
    ) -> rocblas_status;
    pub fn rocblas_set_atomics_mode(
        handle: rocblas_handle,
        atomics_mode: rocblas_atomics_mode,
    ) -> rocblas_status;
    pub fn rocblas_gemm_ex(
        handle: rocblas_handle,
        transA: rocblas_operation,
        transB: rocblas_operation,
        m: rocblas_int,
        n: rocblas_int,
        k: rocblas_int,
        alpha: *const ::core::ffi::c_void,
        a: *const ::core::ffi::c_void,
        a_type: rocblas_datatype,
        lda: rocblas_int,
        b: *const ::core::ffi::c_void,
        b_type: rocblas_datatype,
        ldb: rocblas_int,
        beta: *const ::core::ffi::c_void,
        c: *const ::core::ffi::c_void,
        c_type: rocblas_datatype,
        ldc: rocblas_int,
        d: *mut ::core::ffi::c_void,
        d_type: rocblas_datatype,
        ldd: rocblas_int,
        compute_type: rocblas_datatype,
        algo: rocblas_gemm_algo,
        solution_index: i32,
        flags: u32,
    ) -> rocblas_status;
    pub fn rocblas_gemm_strided_batched_ex(
        handle: rocblas_handle,
        transA: rocblas_operation,
        transB: rocblas_operation,
        m: rocblas_int,
        n: rocblas_int,
        k: rocblas_int,
        alpha: *const ::core::ffi::c_void,
        a: *const ::core::ffi::c_void,
        a_type: rocblas_datatype,
        lda: rocblas_int,
        stride_a: rocblas_stride,
        b: *const ::core::ffi::c_void,
        b_type: rocblas_datatype,
        ldb: rocblas_int,
        stride_b: rocblas_stride,
        beta: *const ::core::ffi::c_void,
        c: *const ::core::ffi::c_void,
        c_type: rocblas_datatype,
        ldc: rocblas_int,
        stride_c: rocblas_stride,
        d: *mut ::core::ffi::c_void,
        d_type: rocblas_datatype,
        ldd: rocblas_int,
        stride_d: rocblas_stride,
        batch_count: rocblas_int,
        compute_type: rocblas_datatype,
        algo: rocblas_gemm_algo,
        solution_index: i32,
        flags: u32,
    ) -> rocblas_status;
    pub fn rocblas_status_to_string(status: rocblas_status) -> *const ::core::ffi::c_char;
    pub fn rocblas_get_version_string(buf: *mut ::core::ffi::c_char, len: usize) -> rocblas_status;
    pub fn rocblas_get_version_string_size(len: *mut usize) -> rocblas_status;
    pub fn rocblas_set_workspace(
        handle: rocblas_handle,
        addr: *mut ::core::ffi::c_void,
        size: usize,
    ) -> rocblas_status;
}
