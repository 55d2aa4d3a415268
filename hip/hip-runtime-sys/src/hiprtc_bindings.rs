// Written by scripts/kernels/generate_bindings.sh from the ROCm headers: do not edit.

pub const HIPRTC_SUCCESS: hiprtcResult = 0;
pub const HIPRTC_ERROR_OUT_OF_MEMORY: hiprtcResult = 1;
pub const HIPRTC_ERROR_PROGRAM_CREATION_FAILURE: hiprtcResult = 2;
pub const HIPRTC_ERROR_INVALID_INPUT: hiprtcResult = 3;
pub const HIPRTC_ERROR_INVALID_PROGRAM: hiprtcResult = 4;
pub const HIPRTC_ERROR_INVALID_OPTION: hiprtcResult = 5;
pub const HIPRTC_ERROR_COMPILATION: hiprtcResult = 6;
pub const HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE: hiprtcResult = 7;
pub const HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION: hiprtcResult = 8;
pub const HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION: hiprtcResult = 9;
pub const HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID: hiprtcResult = 10;
pub const HIPRTC_ERROR_INTERNAL_ERROR: hiprtcResult = 11;
pub const HIPRTC_ERROR_LINKING: hiprtcResult = 100;
pub type hiprtcResult = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug)]
pub struct _hiprtcProgram {
    _unused: [u8; 0],
}
pub type hiprtcProgram = *mut _hiprtcProgram;
crate::function_table! {
    pub fn hiprtcGetErrorString(result: hiprtcResult) -> *const ::core::ffi::c_char;
    pub fn hiprtcVersion(major: *mut ::core::ffi::c_int, minor: *mut ::core::ffi::c_int) -> hiprtcResult;
    pub fn hiprtcCompileProgram(
        prog: hiprtcProgram,
        numOptions: ::core::ffi::c_int,
        options: *mut *const ::core::ffi::c_char,
    ) -> hiprtcResult;
    pub fn hiprtcCreateProgram(
        prog: *mut hiprtcProgram,
        src: *const ::core::ffi::c_char,
        name: *const ::core::ffi::c_char,
        numHeaders: ::core::ffi::c_int,
        headers: *mut *const ::core::ffi::c_char,
        includeNames: *mut *const ::core::ffi::c_char,
    ) -> hiprtcResult;
    pub fn hiprtcDestroyProgram(prog: *mut hiprtcProgram) -> hiprtcResult;
    pub fn hiprtcGetProgramLog(prog: hiprtcProgram, log: *mut ::core::ffi::c_char) -> hiprtcResult;
    pub fn hiprtcGetProgramLogSize(prog: hiprtcProgram, logSizeRet: *mut usize) -> hiprtcResult;
    pub fn hiprtcGetCode(prog: hiprtcProgram, code: *mut ::core::ffi::c_char) -> hiprtcResult;
    pub fn hiprtcGetCodeSize(prog: hiprtcProgram, codeSizeRet: *mut usize) -> hiprtcResult;
}
