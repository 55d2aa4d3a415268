//! hiprtc, HIP's run-time compiler. It compiles the kernels for architectures that have no embedded code object.

use super::super::error::{GpuError, Result};
use hip_runtime_sys as sys;
use hip_runtime_sys::loader::file_of;
use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::ptr::null_mut;

/// Loads the library without using it. Returns its version and the path of its file, if they are known.
///
/// # Errors
/// The library cannot be loaded.
pub(crate) fn find() -> Result<(Option<String>, Option<PathBuf>)> {
    let hiprtc = sys::Hiprtc::load()?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: hiprtc writes two numbers.
    let status = unsafe { (hiprtc.hiprtcVersion)(&mut major, &mut minor) };
    let version = (status == sys::hiprtc_bindings::HIPRTC_SUCCESS).then(|| format!("{major}.{minor}"));
    Ok((version, file_of(hiprtc.hiprtcVersion as usize)))
}

/// Compiles `source` to a code object. The source must not include files, and `name` is its name in messages.
///
/// # Errors
/// The library cannot be loaded, or the source does not compile. The message contains the start of the compiler's log.
pub(crate) fn compile(name: &str, source: &str, options: &[String]) -> Result<Vec<u8>> {
    let hiprtc = sys::Hiprtc::load()?;
    let text = |text: &str| {
        CString::new(text)
            .map_err(|_| GpuError::Unsupported(format!("the source of {name} contains a zero byte")))
    };
    let (source, program_name) = (text(source)?, text(name)?);
    let options = options.iter().map(|option| text(option)).collect::<Result<Vec<_>>>()?;
    let mut option_pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();

    let check = |status: sys::hiprtc_bindings::hiprtcResult, call: &str| {
        if status == sys::hiprtc_bindings::HIPRTC_SUCCESS {
            return Ok(());
        }
        // SAFETY: the function takes any number, and returns a static string or null.
        let text = unsafe { (hiprtc.hiprtcGetErrorString)(status) };
        let reason = if text.is_null() {
            format!("error {status}")
        } else {
            // SAFETY: the string is static and ends with a zero byte.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Err(GpuError::Call { call: call.to_owned(), reason })
    };

    let mut program = Program { hiprtc, raw: null_mut() };
    // SAFETY: both strings end with a zero byte and live until the call returns; there are no headers.
    let status = unsafe {
        (hiprtc.hiprtcCreateProgram)(
            &mut program.raw,
            source.as_ptr(),
            program_name.as_ptr(),
            0,
            null_mut(),
            null_mut(),
        )
    };
    check(status, "hiprtcCreateProgram")?;
    // SAFETY: the program is alive, and the options end with zero bytes and live until the call returns.
    let status = unsafe {
        (hiprtc.hiprtcCompileProgram)(program.raw, count(options.len()), option_pointers.as_mut_ptr())
    };
    if status == sys::hiprtc_bindings::HIPRTC_ERROR_COMPILATION {
        let call = format!("hiprtcCompileProgram({name})");
        return Err(GpuError::Call { call, reason: program.log() });
    }
    check(status, &format!("hiprtcCompileProgram({name})"))?;
    let mut bytes = 0;
    // SAFETY: hiprtc writes one number.
    let status = unsafe { (hiprtc.hiprtcGetCodeSize)(program.raw, &mut bytes) };
    check(status, "hiprtcGetCodeSize")?;
    let mut code = vec![0_u8; bytes];
    // SAFETY: the buffer has the size that hiprtc reported.
    let status = unsafe { (hiprtc.hiprtcGetCode)(program.raw, code.as_mut_ptr().cast()) };
    check(status, "hiprtcGetCode")?;
    Ok(code)
}

fn count(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

struct Program {
    hiprtc: sys::Hiprtc,
    raw: sys::hiprtc_bindings::hiprtcProgram,
}

impl Program {
    /// The first 1,000 characters of the compiler's log.
    fn log(&self) -> String {
        let mut bytes = 0;
        // SAFETY: hiprtc writes one number.
        let status = unsafe { (self.hiprtc.hiprtcGetProgramLogSize)(self.raw, &mut bytes) };
        if status != sys::hiprtc_bindings::HIPRTC_SUCCESS || bytes == 0 {
            return "the source does not compile".to_owned();
        }
        let mut log = vec![0_u8; bytes];
        // SAFETY: the buffer has the size that hiprtc reported.
        let status = unsafe { (self.hiprtc.hiprtcGetProgramLog)(self.raw, log.as_mut_ptr().cast()) };
        if status != sys::hiprtc_bindings::HIPRTC_SUCCESS {
            return "the source does not compile".to_owned();
        }
        let text = String::from_utf8_lossy(&log);
        text.trim_end_matches('\0').chars().take(1000).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: made by hiprtcCreateProgram and destroyed once. A drop cannot report an error.
            let _ = unsafe { (self.hiprtc.hiprtcDestroyProgram)(&mut self.raw) };
        }
    }
}
