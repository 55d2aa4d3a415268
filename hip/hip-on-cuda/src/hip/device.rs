//! Devices: a thread's current device, and the properties of devices.

use std::ffi::{c_char, c_int, c_uint};

use hip_runtime_sys::{
    hipDevice_t, hipDeviceAttribute_t, hipDeviceProp_tR0600, hipError_t, hipErrorInvalidValue, hipSuccess,
};

use super::call::{api, failed, write_result};
use crate::driver::{self, check, current, current_device, driver};

api! {
    fn hipInit(flags: c_uint) {
        if flags == 0 { driver().map(|_| ()) } else { Err(hipErrorInvalidValue) }
    }

    fn hipDriverGetVersion(version: *mut c_int) {
        // SAFETY: the caller passes a valid pointer.
        check(unsafe { (driver()?.functions.cuDriverGetVersion)(version) })
    }

    // The driver is the runtime.
    fn hipRuntimeGetVersion(version: *mut c_int) {
        // SAFETY: the caller passes a valid pointer.
        check(unsafe { (driver()?.functions.cuDriverGetVersion)(version) })
    }

    fn hipGetDeviceCount(count: *mut c_int) {
        let found = driver();
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(count, found.map_or(0, |driver| driver.device_count())) }?;
        found.map(|_| ())
    }

    fn hipGetDevice(device: *mut c_int) {
        driver()?;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(device, current_device()) }
    }

    fn hipSetDevice(device: c_int) { driver()?.make_current(device) }

    fn hipDeviceGetName(name: *mut c_char, bytes: c_int, device: hipDevice_t) {
        let driver = driver()?;
        // SAFETY: the caller passes a valid buffer.
        check(unsafe { (driver.functions.cuDeviceGetName)(name, bytes, driver.device(device)?) })
    }

    fn hipDeviceGetPCIBusId(name: *mut c_char, bytes: c_int, device: c_int) {
        let driver = driver()?;
        // SAFETY: the caller passes a valid buffer.
        check(unsafe { (driver.functions.cuDeviceGetPCIBusId)(name, bytes, driver.device(device)?) })
    }

    fn hipDeviceTotalMem(bytes: *mut usize, device: hipDevice_t) {
        let driver = driver()?;
        // SAFETY: the caller passes a valid pointer.
        check(unsafe { (driver.functions.cuDeviceTotalMem_v2)(bytes, driver.device(device)?) })
    }

    fn hipDeviceGetAttribute(value: *mut c_int, attribute: hipDeviceAttribute_t, device: c_int) {
        let driver = driver()?;
        let attribute = cuda_attribute(attribute).ok_or(hipErrorInvalidValue)?;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(value, driver.attribute(attribute, device)?) }
    }

    fn hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        // SAFETY: the caller passes valid pointers.
        check(unsafe { (current()?.cuCtxGetStreamPriorityRange)(least, greatest) })
    }

    fn hipDeviceSynchronize() {
        // SAFETY: the function takes no arguments.
        check(unsafe { (current()?.cuCtxSynchronize)() })
    }
}

/// Fills in the properties that CUDA has, and sets all others to zero. The architecture is named as NVIDIA's
/// compiler names it, for example `sm_90`.
///
/// # Safety
/// The pointer is null or may be written to.
#[allow(non_snake_case, reason = "HIP's name")]
pub(super) unsafe extern "C" fn hipGetDevicePropertiesR0600(
    properties: *mut hipDeviceProp_tR0600,
    device: c_int,
) -> hipError_t {
    let made = device_properties(device).and_then(|made| {
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(properties, made) }
    });
    made.map_or_else(failed, |()| hipSuccess)
}

fn device_properties(ordinal: c_int) -> Result<hipDeviceProp_tR0600, hipError_t> {
    let driver = driver()?;
    let device = driver.device(ordinal)?;
    let attribute = |hip| cuda_attribute(hip).map_or(Ok(0), |cuda| driver.attribute(cuda, ordinal));
    let size = |hip| attribute(hip).map(|value| usize::try_from(value).unwrap_or_default());
    // SAFETY: every field is a number, a pointer or an array of numbers.
    let mut made: hipDeviceProp_tR0600 = unsafe { std::mem::zeroed() };
    let name_bytes = made.name.len() as c_int;
    // SAFETY: the buffer has this length.
    check(unsafe { (driver.functions.cuDeviceGetName)(made.name.as_mut_ptr(), name_bytes, device) })?;
    // SAFETY: the driver writes a number.
    check(unsafe { (driver.functions.cuDeviceTotalMem_v2)(&mut made.totalGlobalMem, device) })?;
    made.major = driver.attribute(driver::DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal)?;
    made.minor = driver.attribute(driver::DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal)?;
    let architecture = format!("sm_{}{}", made.major, made.minor);
    for (place, byte) in made.gcnArchName.iter_mut().zip(architecture.bytes()) {
        *place = byte as c_char;
    }
    made.sharedMemPerBlock = size(hip_runtime_sys::hipDeviceAttributeMaxSharedMemoryPerBlock)?;
    made.regsPerBlock = attribute(hip_runtime_sys::hipDeviceAttributeMaxRegistersPerBlock)?;
    made.warpSize = attribute(hip_runtime_sys::hipDeviceAttributeWarpSize)?;
    made.maxThreadsPerBlock = attribute(hip_runtime_sys::hipDeviceAttributeMaxThreadsPerBlock)?;
    made.clockRate = attribute(hip_runtime_sys::hipDeviceAttributeClockRate)?;
    made.multiProcessorCount = attribute(hip_runtime_sys::hipDeviceAttributeMultiprocessorCount)?;
    made.integrated = attribute(hip_runtime_sys::hipDeviceAttributeIntegrated)?;
    made.memoryClockRate = attribute(hip_runtime_sys::hipDeviceAttributeMemoryClockRate)?;
    made.memoryBusWidth = attribute(hip_runtime_sys::hipDeviceAttributeMemoryBusWidth)?;
    made.l2CacheSize = attribute(hip_runtime_sys::hipDeviceAttributeL2CacheSize)?;
    made.maxThreadsPerMultiProcessor =
        attribute(hip_runtime_sys::hipDeviceAttributeMaxThreadsPerMultiProcessor)?;
    Ok(made)
}

/// CUDA's number for an attribute, or `None` if CUDA lacks the attribute.
fn cuda_attribute(attribute: hipDeviceAttribute_t) -> Option<c_int> {
    use hip_runtime_sys as hip;
    Some(match attribute {
        hip::hipDeviceAttributeMaxThreadsPerBlock => 1,
        hip::hipDeviceAttributeMaxBlockDimX => 2,
        hip::hipDeviceAttributeMaxBlockDimY => 3,
        hip::hipDeviceAttributeMaxBlockDimZ => 4,
        hip::hipDeviceAttributeMaxGridDimX => 5,
        hip::hipDeviceAttributeMaxGridDimY => 6,
        hip::hipDeviceAttributeMaxGridDimZ => 7,
        hip::hipDeviceAttributeMaxSharedMemoryPerBlock => 8,
        hip::hipDeviceAttributeTotalConstantMemory => 9,
        hip::hipDeviceAttributeWarpSize => 10,
        hip::hipDeviceAttributeMaxRegistersPerBlock => 12,
        hip::hipDeviceAttributeClockRate => 13,
        hip::hipDeviceAttributeMultiprocessorCount | hip::hipDeviceAttributePhysicalMultiProcessorCount => 16,
        hip::hipDeviceAttributeIntegrated => 18,
        hip::hipDeviceAttributeCanMapHostMemory => 19,
        hip::hipDeviceAttributeComputeMode => 20,
        hip::hipDeviceAttributeConcurrentKernels => 31,
        hip::hipDeviceAttributeEccEnabled => 32,
        hip::hipDeviceAttributePciBusId => 33,
        hip::hipDeviceAttributePciDeviceId => 34,
        hip::hipDeviceAttributeMemoryClockRate => 36,
        hip::hipDeviceAttributeMemoryBusWidth => 37,
        hip::hipDeviceAttributeL2CacheSize => 38,
        hip::hipDeviceAttributeMaxThreadsPerMultiProcessor => 39,
        hip::hipDeviceAttributeAsyncEngineCount => 40,
        hip::hipDeviceAttributeUnifiedAddressing => 41,
        hip::hipDeviceAttributePciDomainID => 50,
        hip::hipDeviceAttributeComputeCapabilityMajor => driver::DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        hip::hipDeviceAttributeComputeCapabilityMinor => driver::DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        hip::hipDeviceAttributeStreamPrioritiesSupported => 78,
        hip::hipDeviceAttributeMaxSharedMemoryPerMultiprocessor
        | hip::hipDeviceAttributeSharedMemPerMultiprocessor => 81,
        hip::hipDeviceAttributeMaxRegistersPerMultiprocessor => 82,
        hip::hipDeviceAttributeManagedMemory => 83,
        hip::hipDeviceAttributeCooperativeLaunch => 95,
        hip::hipDeviceAttributeSharedMemPerBlockOptin => 97,
        hip::hipDeviceAttributeMaxBlocksPerMultiProcessor => 106,
        _ => return None,
    })
}
