//! Modules, kernels, and launches.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use hip_runtime_sys::{
    HIP_LAUNCH_PARAM_BUFFER_POINTER, HIP_LAUNCH_PARAM_BUFFER_SIZE, HIP_LAUNCH_PARAM_END, hipError_t,
    hipErrorInvalidValue, hipErrorNotSupported, hipFunction_attribute, hipFunction_t, hipModule_t,
    hipStream_t,
};

use super::call::api;
use super::overlap::{joined, overlaps};
use crate::driver::{self, Handle, check, current};
use crate::profile;

/// The shared memory in bytes that every kernel may use. A kernel must request more with an attribute.
const USUAL_SHARED_BYTES: c_uint = 48 << 10;

api! {
    fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) {
        // SAFETY: the caller passes a valid pointer and a whole image.
        check(unsafe { (current()?.cuModuleLoadData)(module.cast(), image) })
    }

    fn hipModuleUnload(module: hipModule_t) {
        // SAFETY: the caller passes a valid module.
        check(unsafe { (current()?.cuModuleUnload)(module.cast()) })
    }

    fn hipModuleGetFunction(function: *mut hipFunction_t, module: hipModule_t, name: *const c_char) {
        // SAFETY: the caller passes a valid module, pointer and text.
        check(unsafe { (current()?.cuModuleGetFunction)(function.cast(), module.cast(), name) })
    }

    fn hipFuncGetAttribute(value: *mut c_int, attribute: hipFunction_attribute, function: hipFunction_t) {
        // SAFETY: the caller passes a valid pointer and function.
        check(unsafe { (current()?.cuFuncGetAttribute)(value, attribute as c_int, function.cast()) })
    }

    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: hipFunction_t, threads: c_int, shared_bytes: usize,
    ) {
        let ask = current()?.cuOccupancyMaxActiveBlocksPerMultiprocessor;
        // SAFETY: the caller passes a valid pointer and function.
        check(unsafe { ask(blocks, function.cast(), threads, shared_bytes) })
    }

    fn hipModuleLaunchKernel(
        function: hipFunction_t, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: hipStream_t, parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let driver = current()?;
        let (function, stream): (Handle, Handle) = (function.cast(), stream.cast());
        if shared_bytes > USUAL_SHARED_BYTES {
            let attribute = driver::FUNCTION_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the caller passes a valid function.
            check(unsafe { (driver.cuFuncSetAttribute)(function, attribute, shared_bytes as c_int) })?;
        }
        // SAFETY: the caller passes a valid list.
        let mut extra = unsafe { cuda_extra(extra) }?;
        let extra = extra.as_mut().map_or(std::ptr::null_mut(), |list| list.as_mut_ptr());
        // A launch after a wait for another stream must not begin early.
        let early = overlaps() && !joined().remove(&stream.addr());
        let attribute = driver::LaunchAttribute {
            id: driver::LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            padding: 0,
            value: [u32::from(early), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        };
        let config = driver::LaunchConfig {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
            stream,
            attributes: &attribute,
            attribute_count: 1,
        };
        let launch = || {
            if early {
                // SAFETY: the caller passes valid arguments, and the driver copies them.
                return unsafe { (driver.cuLaunchKernelEx)(&config, function, parameters, extra) };
            }
            // SAFETY: the reason above applies here too.
            unsafe {
                (driver.cuLaunchKernel)(
                    function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters,
                    extra,
                )
            }
        };
        let name = || {
            let mut name = std::ptr::null();
            // SAFETY: the driver writes a pointer to a text that lives as long as the function.
            let found = unsafe { (driver.cuFuncGetName)(&mut name, function) };
            // SAFETY: the reason above applies here too.
            let name = if found == 0 { unsafe { CStr::from_ptr(name) }.to_string_lossy() } else { "kernel".into() };
            format!("{name} {grid_x}x{grid_y}x{grid_z}")
        };
        check(profile::time(driver, stream, name, launch))
    }
}

/// The `extra` list of `hipModuleLaunchKernel` with CUDA's keys: buffer, size, end.
///
/// # Safety
/// The list is null or ends as HIP's documentation says.
#[allow(clippy::multiple_unsafe_ops_per_block, reason = "reading an entry of a C array is two operations")]
unsafe fn cuda_extra(extra: *mut *mut c_void) -> Result<Option<[*mut c_void; 5]>, hipError_t> {
    if extra.is_null() {
        return Ok(None);
    }
    let mut made = [std::ptr::null_mut(); 5];
    for index in [0, 2] {
        // SAFETY: the list's end has not been read yet.
        let what = unsafe { *extra.add(index) };
        if what == HIP_LAUNCH_PARAM_END {
            return Ok(Some(made));
        }
        let cuda = match what {
            HIP_LAUNCH_PARAM_BUFFER_POINTER => 1,
            HIP_LAUNCH_PARAM_BUFFER_SIZE => 2,
            _ => return Err(hipErrorInvalidValue),
        };
        made[index] = std::ptr::without_provenance_mut(cuda);
        // SAFETY: the reason above applies here too.
        made[index + 1] = unsafe { *extra.add(index + 1) };
    }
    // SAFETY: the reason above applies here too.
    let end = unsafe { *extra.add(4) };
    if end == HIP_LAUNCH_PARAM_END { Ok(Some(made)) } else { Err(hipErrorNotSupported) }
}
