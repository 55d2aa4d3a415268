//! What HIP says of the device that is not there.

use std::ffi::{c_char, c_int};

use hip_runtime_sys::{
    hipDeviceAttribute_t, hipDeviceProp_tR0600, hipError_t, hipErrorInvalidValue, hipErrorUnknown,
};

use crate::control::{answer, settings};
use crate::hip::{checked_device, give};
use crate::launch::MOST_LDS_BYTES;

/// The device's properties: those that have a meaning here.
///
/// # Safety
/// The pointer is null or may be written to.
#[allow(non_snake_case, reason = "HIP's name")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDevicePropertiesR0600(
    properties: *mut hipDeviceProp_tR0600,
    device: c_int,
) -> hipError_t {
    answer("hipGetDevicePropertiesR0600", hipErrorUnknown, || {
        checked_device(device)?;
        // SAFETY: every field is a number or an array of numbers.
        let mut made: hipDeviceProp_tR0600 = unsafe { std::mem::zeroed() };
        for (place, byte) in made.name.iter_mut().zip(device_name().bytes()) {
            *place = byte as c_char;
        }
        for (place, byte) in made.gcnArchName.iter_mut().zip(settings().architecture.bytes()) {
            *place = byte as c_char;
        }
        made.totalGlobalMem = settings().memory_bytes as usize;
        made.sharedMemPerBlock = MOST_LDS_BYTES as usize;
        made.warpSize = 32;
        made.maxThreadsPerBlock = 1024;
        made.maxThreadsDim = [1024; 3];
        made.maxGridSize = [c_int::MAX, 65_535, 65_535];
        made.multiProcessorCount = compute_units();
        made.major = 11;
        made.regsPerBlock = 65_536;
        made.l2CacheSize = 6 << 20;
        made.maxThreadsPerMultiProcessor = 2048;
        // SAFETY: the caller's pointer.
        unsafe { give(properties, made) }
    })
}

pub(crate) fn device_name() -> String {
    format!("Rukh emulator for {}", settings().architecture)
}

/// The numbers of a Radeon RX 7900 XTX and of a Radeon 8060S.
fn compute_units() -> c_int {
    if settings().architecture == "gfx1151" { 40 } else { 96 }
}

pub(crate) fn attribute_value(attribute: hipDeviceAttribute_t) -> c_int {
    use hip_runtime_sys as hip;
    match attribute {
        hip::hipDeviceAttributeMultiprocessorCount | hip::hipDeviceAttributePhysicalMultiProcessorCount => {
            compute_units()
        }
        hip::hipDeviceAttributeWarpSize => 32,
        hip::hipDeviceAttributeMaxThreadsPerBlock => 1024,
        hip::hipDeviceAttributeMaxSharedMemoryPerBlock => MOST_LDS_BYTES as c_int,
        hip::hipDeviceAttributeComputeCapabilityMajor => 11,
        hip::hipDeviceAttributeComputeCapabilityMinor => {
            c_int::from(settings().architecture == "gfx1151") * 5
        }
        hip::hipDeviceAttributeIntegrated => c_int::from(settings().architecture == "gfx1151"),
        hip::hipDeviceAttributeClockRate => 2_500_000,
        hip::hipDeviceAttributeL2CacheSize => 6 << 20,
        hip::hipDeviceAttributeMaxThreadsPerMultiProcessor => 2048,
        _ => 0,
    }
}

/// Copies a text into a buffer, ended with zero.
///
/// # Safety
/// The buffer has so many bytes.
pub(crate) unsafe fn give_text(buffer: *mut c_char, bytes: c_int, text: &str) -> Result<(), hipError_t> {
    let room = usize::try_from(bytes).unwrap_or_default();
    if buffer.is_null() || room == 0 {
        return Err(hipErrorInvalidValue);
    }
    let count = text.len().min(room - 1);
    // SAFETY: as the caller promises.
    unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), count) };
    // SAFETY: as above.
    unsafe { buffer.add(count).write(0) };
    Ok(())
}
