//! Modules, kernels and launches.

use super::call::api;
use crate::driver::{self, check, current};
use hip_runtime_sys::{hipErrorNotSupported, hipFunction_attribute, hipFunction_t, hipModule_t, hipStream_t};
use std::ffi::{c_char, c_int, c_uint, c_void};

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

    // HIP's list `extra`, which the engine does not use, is not supported.
    fn hipModuleLaunchKernel(
        function: hipFunction_t, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: hipStream_t, parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        if !extra.is_null() {
            return Err(hipErrorNotSupported);
        }
        let driver = current()?;
        if shared_bytes > USUAL_SHARED_BYTES {
            let attribute = driver::FUNCTION_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the caller passes a valid function.
            check(unsafe { (driver.cuFuncSetAttribute)(function.cast(), attribute, shared_bytes as c_int) })?;
        }
        // SAFETY: the caller passes valid arguments, and the driver copies them.
        check(unsafe {
            (driver.cuLaunchKernel)(
                function.cast(), grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream.cast(),
                parameters, extra,
            )
        })
    }
}
