//! A kernel's argument segment: the caller's arguments, and the hidden arguments that the compiler expects.

use std::ffi::c_void;

use hip_runtime_sys::{
    HIP_LAUNCH_PARAM_BUFFER_POINTER, HIP_LAUNCH_PARAM_BUFFER_SIZE, HIP_LAUNCH_PARAM_END, hipError_t,
    hipErrorInvalidValue,
};

use crate::calls::report;
use crate::code_object::Kernel;

/// Builds the argument segment from the caller's arguments. Either `parameters` is a list of pointers to the arguments,
/// or `extra` points to a buffer with the packed arguments.
///
/// # Safety
/// The arguments have the number and the types that the kernel takes.
pub(crate) unsafe fn arguments_of(
    kernel: &Kernel,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<Vec<u8>, hipError_t> {
    let mut segment = vec![0; kernel.argument_bytes];
    let explicit = kernel.arguments.iter().filter(|argument| !argument.kind.starts_with("hidden"));
    if !parameters.is_null() && !extra.is_null() {
        return Err(hipErrorInvalidValue);
    }
    if !parameters.is_null() {
        for (number, argument) in explicit.enumerate() {
            // SAFETY: there is a pointer for each argument.
            let from = unsafe { parameters.add(number).read() };
            let to = segment
                .get_mut(argument.offset..argument.offset + argument.bytes)
                .ok_or(hipErrorInvalidValue)?;
            // SAFETY: the pointer is to a value of the argument's size.
            to.copy_from_slice(unsafe { std::slice::from_raw_parts(from.cast(), argument.bytes) });
        }
        return Ok(segment);
    }
    if extra.is_null() {
        return if explicit.count() == 0 { Ok(segment) } else { Err(hipErrorInvalidValue) };
    }
    let (mut from, mut bytes, mut at) = (std::ptr::null(), 0, 0);
    loop {
        // SAFETY: the list consists of pairs of a key and a value, and ends with `HIP_LAUNCH_PARAM_END`.
        let key = unsafe { extra.add(at).read() };
        if key == HIP_LAUNCH_PARAM_END {
            break;
        }
        // SAFETY: the reason above applies here too.
        let value = unsafe { extra.add(at + 1).read() };
        if key == HIP_LAUNCH_PARAM_BUFFER_POINTER {
            from = value.cast_const().cast::<u8>();
        } else if key == HIP_LAUNCH_PARAM_BUFFER_SIZE {
            // SAFETY: the value of this key points to a length.
            bytes = unsafe { value.cast::<usize>().read() };
        } else {
            return Err(hipErrorInvalidValue);
        }
        at += 2;
    }
    let wanted = explicit.map(|argument| argument.offset + argument.bytes).max().unwrap_or_default();
    // rocBLAS passes four bytes more than its kernels take. The emulator does not read these four bytes.
    if from.is_null() || bytes < wanted || bytes > segment.len().max(wanted) + 4 {
        report(&format!(
            "kernel {}: no buffer, or {bytes} bytes of arguments instead of {wanted}",
            kernel.name
        ));
        return Err(hipErrorInvalidValue);
    }
    // SAFETY: the caller promises at least this many bytes.
    segment[..wanted].copy_from_slice(unsafe { std::slice::from_raw_parts(from, wanted) });
    Ok(segment)
}

/// Writes the launch's grid, block and LDS size to the hidden arguments. Hidden arguments of other kinds stay zero.
pub(crate) fn hidden_arguments(
    kernel: &Kernel,
    segment: &mut [u8],
    grid: [u32; 3],
    block: [u32; 3],
    lds_bytes: u32,
) {
    for argument in &kernel.arguments {
        let value = match argument.kind.as_str() {
            "hidden_block_count_x" => grid[0],
            "hidden_block_count_y" => grid[1],
            "hidden_block_count_z" => grid[2],
            "hidden_group_size_x" => block[0],
            "hidden_group_size_y" => block[1],
            "hidden_group_size_z" => block[2],
            "hidden_grid_dims" => 3,
            "hidden_dynamic_lds_size" => lds_bytes,
            _ => continue,
        };
        if let Some(place) = segment.get_mut(argument.offset..argument.offset + argument.bytes) {
            for (byte, value) in place.iter_mut().zip(value.to_le_bytes()) {
                *byte = value;
            }
        }
    }
}
