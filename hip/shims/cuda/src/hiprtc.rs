//! hiprtc's C interface over NVRTC.

use std::ffi::{CStr, CString, c_char, c_int};

use hip_runtime_sys::hiprtc_bindings::{
    HIPRTC_ERROR_COMPILATION, HIPRTC_ERROR_INTERNAL_ERROR, HIPRTC_ERROR_INVALID_INPUT,
    HIPRTC_ERROR_INVALID_OPTION, HIPRTC_ERROR_INVALID_PROGRAM, HIPRTC_ERROR_OUT_OF_MEMORY,
    HIPRTC_ERROR_PROGRAM_CREATION_FAILURE, HIPRTC_SUCCESS, hiprtcProgram, hiprtcResult, signature,
};

use crate::nvrtc::{Functions, Status, nvrtc};

/// The functions of NVRTC, or an error if it was not found.
fn compiler() -> Result<&'static Functions, hiprtcResult> {
    nvrtc().ok_or_else(|| {
        eprintln!("rocm-cuda-shim: cannot find NVRTC, libnvrtc.so (RUKH_CUDA_SHIM_PATH can name its folder)");
        HIPRTC_ERROR_INTERNAL_ERROR
    })
}

fn check(status: Status) -> Result<(), hiprtcResult> {
    match status {
        0 => Ok(()),
        // Both libraries use the same numbers for these results.
        1..=11 => Err(status),
        _ => Err(HIPRTC_ERROR_INTERNAL_ERROR),
    }
}

macro_rules! api {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            /// hiprtc's function of this name.
            ///
            /// # Safety
            /// As hiprtc's documentation says, pointers are valid during the call.
            #[allow(non_snake_case, clippy::multiple_unsafe_ops_per_block, reason = "hiprtc's names")]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> hiprtcResult {
                let body = || -> Result<(), hiprtcResult> { $body };
                body().map_or_else(|error| error, |()| HIPRTC_SUCCESS)
            }
            const _: signature::$name = $name;
        )*
    };
}

api! {
    fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) {
        // SAFETY: the caller passes valid pointers.
        check(unsafe { (compiler()?.nvrtcVersion)(major, minor) })
    }

    fn hiprtcCreateProgram(
        program: *mut hiprtcProgram, source: *const c_char, name: *const c_char, count: c_int,
        headers: *mut *const c_char, names: *mut *const c_char,
    ) {
        let create = compiler()?.nvrtcCreateProgram;
        // SAFETY: the caller passes valid pointers and texts.
        check(unsafe { create(program.cast(), source, name, count, headers.cast_const(), names.cast_const()) })
    }

    fn hiprtcDestroyProgram(program: *mut hiprtcProgram) {
        // SAFETY: the caller passes a valid program.
        check(unsafe { (compiler()?.nvrtcDestroyProgram)(program.cast()) })
    }

    fn hiprtcCompileProgram(program: hiprtcProgram, count: c_int, options: *mut *const c_char) {
        let mut words = Vec::new();
        for index in 0..usize::try_from(count).map_err(|_| HIPRTC_ERROR_INVALID_INPUT)? {
            // SAFETY: the caller's list has `count` strings.
            let word = unsafe { CStr::from_ptr(options.add(index).read()) };
            words.extend(translated(word.to_str().map_err(|_| HIPRTC_ERROR_INVALID_OPTION)?));
        }
        let more = std::env::var("RUKH_CUDA_SHIM_NVRTC_OPTIONS").unwrap_or_default();
        words.extend(more.split_whitespace().map(str::to_owned));
        let words: Result<Vec<CString>, _> = words.into_iter().map(CString::new).collect();
        let words = words.map_err(|_| HIPRTC_ERROR_INVALID_OPTION)?;
        let pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
        // SAFETY: the program is the caller's, and the list's strings live until the call returns.
        check(unsafe { (compiler()?.nvrtcCompileProgram)(program.cast(), pointers.len() as c_int, pointers.as_ptr()) })
    }

    fn hiprtcGetCodeSize(program: hiprtcProgram, bytes: *mut usize) {
        // SAFETY: the caller passes a valid program and pointer.
        check(unsafe { (compiler()?.nvrtcGetCUBINSize)(program.cast(), bytes) })
    }

    fn hiprtcGetCode(program: hiprtcProgram, code: *mut c_char) {
        // SAFETY: the caller passes a valid program and buffer.
        check(unsafe { (compiler()?.nvrtcGetCUBIN)(program.cast(), code) })
    }

    fn hiprtcGetProgramLogSize(program: hiprtcProgram, bytes: *mut usize) {
        // SAFETY: the caller passes a valid program and pointer.
        check(unsafe { (compiler()?.nvrtcGetProgramLogSize)(program.cast(), bytes) })
    }

    fn hiprtcGetProgramLog(program: hiprtcProgram, log: *mut c_char) {
        // SAFETY: the caller passes a valid program and buffer.
        check(unsafe { (compiler()?.nvrtcGetProgramLog)(program.cast(), log) })
    }
}

/// NVRTC's equivalent of an option of hiprtc, or `None` if NVRTC does not need the option.
fn translated(option: &str) -> Option<String> {
    // A real architecture (`sm_...`) makes NVRTC produce machine code in addition to PTX.
    if let Some(architecture) = option.strip_prefix("--offload-arch=") {
        return Some(format!("--gpu-architecture={architecture}"));
    }
    // NVRTC always optimises.
    if option.starts_with("-O") { None } else { Some(option.to_owned()) }
}

/// hiprtc's function of this name.
#[allow(non_snake_case, reason = "hiprtc's name")]
#[unsafe(no_mangle)]
pub extern "C" fn hiprtcGetErrorString(result: hiprtcResult) -> *const c_char {
    let text = match result {
        HIPRTC_SUCCESS => c"HIPRTC_SUCCESS",
        HIPRTC_ERROR_OUT_OF_MEMORY => c"HIPRTC_ERROR_OUT_OF_MEMORY",
        HIPRTC_ERROR_PROGRAM_CREATION_FAILURE => c"HIPRTC_ERROR_PROGRAM_CREATION_FAILURE",
        HIPRTC_ERROR_INVALID_INPUT => c"HIPRTC_ERROR_INVALID_INPUT",
        HIPRTC_ERROR_INVALID_PROGRAM => c"HIPRTC_ERROR_INVALID_PROGRAM",
        HIPRTC_ERROR_INVALID_OPTION => c"HIPRTC_ERROR_INVALID_OPTION",
        HIPRTC_ERROR_COMPILATION => c"HIPRTC_ERROR_COMPILATION",
        _ => c"HIPRTC_ERROR_INTERNAL_ERROR",
    };
    text.as_ptr()
}
const _: signature::hiprtcGetErrorString = hiprtcGetErrorString;
