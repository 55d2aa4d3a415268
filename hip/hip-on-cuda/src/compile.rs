//! Machine code from PTX, made by the driver.

use crate::driver::{Functions, Handle, Status, check, current, error_text};
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::ptr::null_mut;

/// The options of `cuLinkCreate`, with the numbers of `CUjit_option`.
const ERROR_LOG_BUFFER: c_int = 5;
const ERROR_LOG_BUFFER_SIZE_BYTES: c_int = 6;
/// The kind of input that is PTX, of `CUjitInputType`.
const INPUT_PTX: c_int = 1;
/// The longest message of the compiler that is shown.
const LOG_BYTES: usize = 4096;

/// The machine code (a cubin) of a PTX module for the calling thread's device.
///
/// # Errors
/// The compiler's message, or the driver's error. A driver that is older than the text's PTX version says
/// `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`.
pub fn compile(ptx: &str) -> Result<Vec<u8>, String> {
    let driver = current().map_err(|error| format!("the driver cannot be used ({})", name(error)))?;
    let text = CString::new(ptx).map_err(|_| "the PTX has a zero byte".to_owned())?;
    let mut log = vec![0_u8; LOG_BYTES];
    let mut options = [ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE_BYTES];
    // An option that is a number stands in the place of the pointer.
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(LOG_BYTES)];
    let mut link = null_mut();
    // SAFETY: the options and their values live until the link is destroyed, below.
    let status = unsafe { (driver.cuLinkCreate_v2)(2, options.as_mut_ptr(), values.as_mut_ptr(), &mut link) };
    check(status).map_err(name)?;
    let code = link_text(driver, link, &text);
    // SAFETY: `cuLinkCreate` made it, and it is destroyed once. The code has been copied.
    let _ = unsafe { (driver.cuLinkDestroy)(link) };
    code.map_err(|status| {
        let message = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
        let first: Vec<&str> =
            message.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
        match first.as_slice() {
            [] => name(status),
            lines => format!("{}: {}", name(status), lines.join("; ")),
        }
    })
}

fn link_text(driver: &Functions, link: Handle, text: &CStr) -> Result<Vec<u8>, Status> {
    let bytes = text.to_bytes_with_nul();
    // SAFETY: the text has this length with its zero, and the driver does not write to it.
    check(unsafe {
        (driver.cuLinkAddData_v2)(
            link,
            INPUT_PTX,
            bytes.as_ptr().cast_mut().cast(),
            bytes.len(),
            c"kernels.ptx".as_ptr(),
            0 as c_uint,
            null_mut(),
            null_mut(),
        )
    })?;
    let (mut code, mut length) = (null_mut(), 0);
    // SAFETY: the driver writes a pointer and a number.
    check(unsafe { (driver.cuLinkComplete)(link, &mut code, &mut length) })?;
    // SAFETY: the driver's code has this length, and lives until the link is destroyed.
    Ok(unsafe { std::slice::from_raw_parts(code.cast::<u8>(), length) }.to_vec())
}

/// The driver's name of an error.
fn name(status: Status) -> String {
    let found = error_text(status, |driver| driver.cuGetErrorName);
    found.map_or_else(|| format!("error {status}"), |name| name.to_string_lossy().into_owned())
}
