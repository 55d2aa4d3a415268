//! The functions of NVRTC that the shim calls. Types and numbers are those of NVIDIA's *NVRTC* documentation.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::library;

/// The result of a call; 0 means success. The numbers up to 11 are the same as hiprtc's.
pub(crate) type Status = u32;
pub(crate) type Program = *mut c_void;

mod functions {
    use super::*;
    hip_runtime_sys::function_table! {
        pub fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> Status;
        pub fn nvrtcCreateProgram(
            program: *mut Program,
            source: *const c_char,
            name: *const c_char,
            header_count: c_int,
            headers: *const *const c_char,
            header_names: *const *const c_char,
        ) -> Status;
        pub fn nvrtcDestroyProgram(program: *mut Program) -> Status;
        pub fn nvrtcCompileProgram(program: Program, count: c_int, options: *const *const c_char) -> Status;
        pub fn nvrtcGetCUBINSize(program: Program, bytes: *mut usize) -> Status;
        pub fn nvrtcGetCUBIN(program: Program, code: *mut c_char) -> Status;
        pub fn nvrtcGetProgramLogSize(program: Program, bytes: *mut usize) -> Status;
        pub fn nvrtcGetProgramLog(program: Program, log: *mut c_char) -> Status;
    }
}

pub(crate) use functions::Functions;

/// The functions of NVRTC, or `None` if it was not found. NVRTC does not need a device.
pub(crate) fn nvrtc() -> Option<&'static Functions> {
    static NVRTC: OnceLock<Option<Functions>> = OnceLock::new();
    NVRTC
        .get_or_init(|| {
            let names = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
            let builtins = [
                "libnvrtc-builtins.so.13.0",
                "libnvrtc-builtins.so.13.1",
                "libnvrtc-builtins.so.13.2",
                "libnvrtc-builtins.so.12.9",
                "libnvrtc-builtins.so.12.8",
            ];
            library::load(&names, &builtins, Functions::resolve)
        })
        .as_ref()
}
