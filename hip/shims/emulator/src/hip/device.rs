//! The current device of each thread, and the properties of devices.

use std::ffi::{c_char, c_int, c_uint};

use hip_runtime_sys::{
    hipDevice_t, hipDeviceAttribute_t, hipDeviceProp_tR0600, hipError_t, hipErrorInvalidDevice,
    hipErrorInvalidValue, hipErrorNoDevice, hipErrorUnknown,
};

use super::call::{api, write_result, write_text};
use crate::c_interface::answer;
use crate::isa::decode::family::Family;
use crate::launch::MAX_LDS_BYTES;
use crate::settings::{Card, settings};

/// The version number of HIP 6.4, from whose headers the bindings are generated.
const RUNTIME_VERSION: c_int = 60_443_484;

thread_local! {
    static DEVICE: std::cell::Cell<i32> = const { std::cell::Cell::new(0) };
}

/// The calling thread's device, or an error if the machine has none.
pub(crate) fn current_device() -> Result<i32, hipError_t> {
    if settings().cards.is_empty() { Err(hipErrorNoDevice) } else { Ok(DEVICE.get()) }
}

pub(crate) fn checked_device(device: c_int) -> Result<i32, hipError_t> {
    current_device()?;
    if (0..device_count()).contains(&device) { Ok(device) } else { Err(hipErrorInvalidDevice) }
}

fn device_count() -> c_int {
    settings().cards.len() as c_int
}

/// The card of the calling thread's device.
pub(crate) fn current_card() -> Card {
    settings().card(DEVICE.get())
}

/// The card of a device, or an error if there is no such device.
fn checked_card(device: c_int) -> Result<Card, hipError_t> {
    checked_device(device).map(|device| settings().card(device))
}

api! {
    fn hipInit(flags: c_uint) {
        if flags == 0 { current_device().map(|_| ()) } else { Err(hipErrorInvalidValue) }
    }

    fn hipDriverGetVersion(version: *mut c_int) {
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(version, RUNTIME_VERSION) }
    }

    fn hipRuntimeGetVersion(version: *mut c_int) {
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(version, RUNTIME_VERSION) }
    }

    fn hipGetDeviceCount(count: *mut c_int) {
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(count, device_count()) }?;
        current_device().map(|_| ())
    }

    fn hipGetDevice(device: *mut c_int) {
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(device, current_device()?) }
    }

    fn hipSetDevice(device: c_int) {
        DEVICE.set(checked_device(device)?);
        Ok(())
    }

    fn hipDeviceGetName(name: *mut c_char, bytes: c_int, device: hipDevice_t) {
        let card = checked_card(device)?;
        // SAFETY: the caller passes null or a buffer of this size.
        unsafe { write_text(name, bytes, &card.name) }
    }

    fn hipDeviceGetPCIBusId(name: *mut c_char, bytes: c_int, device: c_int) {
        // SAFETY: the caller passes null or a buffer of this size.
        unsafe { write_text(name, bytes, &format!("0000:{:02x}:00.0", checked_device(device)? + 1)) }
    }

    fn hipDeviceTotalMem(bytes: *mut usize, device: hipDevice_t) {
        let card = checked_card(device)?;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(bytes, card.memory_bytes as usize) }
    }

    fn hipDeviceGetAttribute(value: *mut c_int, attribute: hipDeviceAttribute_t, device: c_int) {
        let card = checked_card(device)?;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(value, attribute_value(&card, attribute)) }
    }

    fn hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(least, 1) }?;
        // SAFETY: the reason above applies here too.
        unsafe { write_result(greatest, -1) }
    }
}

/// Fills in the properties that the emulator has, and sets all others to zero.
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
        let card = checked_card(device)?;
        // SAFETY: every field is a number or an array of numbers.
        let mut made: hipDeviceProp_tR0600 = unsafe { std::mem::zeroed() };
        for (place, byte) in made.name.iter_mut().zip(card.name.bytes()) {
            *place = byte as c_char;
        }
        for (place, byte) in made.gcnArchName.iter_mut().zip(card.architecture.bytes()) {
            *place = byte as c_char;
        }
        made.totalGlobalMem = card.memory_bytes as usize;
        made.sharedMemPerBlock = MAX_LDS_BYTES as usize;
        made.warpSize = lanes(&card);
        made.maxThreadsPerBlock = 1024;
        made.maxThreadsDim = [1024; 3];
        made.maxGridSize = [c_int::MAX, 65_535, 65_535];
        made.multiProcessorCount = card.multiprocessors;
        made.integrated = c_int::from(card.is_integrated);
        made.major = generation(&card);
        made.regsPerBlock = 65_536;
        made.l2CacheSize = 6 << 20;
        made.maxThreadsPerMultiProcessor = 2048;
        // SAFETY: the caller passes null or a pointer that may be written to.
        unsafe { write_result(properties, made) }
    })
}

/// The first digits of the architecture: 11 for gfx1100, and 9 for gfx90a. The last two digits have other meanings.
fn generation(card: &Card) -> c_int {
    let digits = card.architecture.trim_start_matches("gfx");
    let first = digits.len().saturating_sub(2);
    digits.get(..first).and_then(|digits| digits.parse().ok()).unwrap_or(11)
}

/// The number of lanes of a wave.
fn lanes(card: &Card) -> c_int {
    Family::of(&card.architecture).map_or(32, |family| family.lanes as c_int)
}

pub(crate) fn attribute_value(card: &Card, attribute: hipDeviceAttribute_t) -> c_int {
    use hip_runtime_sys as hip;
    match attribute {
        hip::hipDeviceAttributeMultiprocessorCount | hip::hipDeviceAttributePhysicalMultiProcessorCount => {
            card.multiprocessors
        }
        hip::hipDeviceAttributeWarpSize => lanes(card),
        hip::hipDeviceAttributeMaxThreadsPerBlock => 1024,
        hip::hipDeviceAttributeMaxSharedMemoryPerBlock => MAX_LDS_BYTES as c_int,
        hip::hipDeviceAttributeComputeCapabilityMajor => generation(card),
        hip::hipDeviceAttributeComputeCapabilityMinor => c_int::from(card.architecture == "gfx1151") * 5,
        hip::hipDeviceAttributeIntegrated => c_int::from(card.is_integrated),
        hip::hipDeviceAttributeClockRate => 2_500_000,
        hip::hipDeviceAttributeL2CacheSize => 6 << 20,
        hip::hipDeviceAttributeMaxThreadsPerMultiProcessor => 2048,
        _ => 0,
    }
}
