//! Devices and their memory. Dropping a buffer frees it. [`super::stream`] has streams, events and graphs.
//!
//! A failed call becomes an error that names the call and its relevant arguments. HIP keeps a current device for each
//! thread, so a new thread calls [`Device::make_current`] before it uses a device.

use super::super::error::{GpuError, Result};
use super::super::maker::Maker;
use super::wait::{Health, Waiting, Work};
use hip_runtime_sys as sys;
use hip_runtime_sys::loader::file_of;
use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::time::Duration;

/// One device, with HIP's function table.
#[derive(Clone, Copy)]
pub(crate) struct Device {
    pub(super) hip: &'static sys::Hip,
    ordinal: i32,
    pub(super) health: &'static Health,
}

/// An address in a device's memory.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Address(pub(super) u64);

impl Address {
    /// The null address, which stands for an absent optional argument.
    pub(crate) const NULL: Address = Address(0);

    pub(crate) fn offset(self, bytes: usize) -> Address {
        Address(self.0 + bytes as u64)
    }

    /// Whether the address is a multiple of `bytes`.
    pub(crate) fn is_aligned(self, bytes: u64) -> bool {
        self.0.is_multiple_of(bytes)
    }

    pub(super) fn pointer(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0 as usize)
    }
}

/// Loads the library of a maker's driver and calls none of its functions: HIP's runtime, or NVIDIA's driver.
///
/// # Errors
/// The library cannot be loaded.
pub(crate) fn load(maker: Maker) -> Result<&'static sys::Hip> {
    Ok(keep(match maker {
        Maker::Amd => sys::Hip::load_useful(has_device)?,
        Maker::Nvidia => hip_on_cuda::hip()?,
    }))
}

/// Whether a runtime finds a device. On Windows HIP 7 may find none where HIP 6, which is installed beside it, finds a
/// Radeon RX 6800 XT (<https://github.com/ROCm/hip/issues/3899>). Elsewhere one version is installed, and only it is
/// asked.
fn has_device(hip: &sys::Hip) -> bool {
    !cfg!(windows) || count(hip).is_ok()
}

/// Keeps a runtime's function table until the process ends, because the library stays loaded until then, too.
pub(crate) fn keep(hip: sys::Hip) -> &'static sys::Hip {
    Box::leak(Box::new(hip))
}

/// The number of devices, which is at least 1.
///
/// This must succeed before a function of any other ROCm library is called: hipBLASLt ends the process if there is no
/// device.
///
/// # Errors
/// HIP fails or finds no device.
pub(crate) fn count(hip: &sys::Hip) -> Result<i32> {
    let mut count: c_int = 0;
    // SAFETY: HIP writes one integer.
    let status = unsafe { (hip.hipGetDeviceCount)(&mut count) };
    check(hip, status, || "hipGetDeviceCount".to_owned())?;
    if count < 1 {
        return Err(GpuError::Unsupported(
            "the driver finds no device (hipGetDeviceCount says 0)".to_owned(),
        ));
    }
    Ok(count)
}

/// The path of the runtime's file, as the dynamic linker opened it.
pub(crate) fn file(hip: &sys::Hip) -> Option<PathBuf> {
    file_of(hip.address())
}

/// What a version is that of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Versioned {
    Runtime,
    /// AMD's runtime reports its own version here.
    Driver,
}

/// A version as HIP encodes it. A machine without a device has one, too.
///
/// # Errors
/// HIP knows none.
pub(crate) fn version(hip: &sys::Hip, of: Versioned) -> Result<i32> {
    let (get, name) = match of {
        Versioned::Runtime => (hip.hipRuntimeGetVersion, "hipRuntimeGetVersion"),
        Versioned::Driver => (hip.hipDriverGetVersion, "hipDriverGetVersion"),
    };
    let mut version: c_int = 0;
    // SAFETY: HIP writes one integer.
    let status = unsafe { get(&mut version) };
    check(hip, status, || name.to_owned())?;
    Ok(version)
}

fn check(hip: &sys::Hip, status: sys::hipError_t, call: impl FnOnce() -> String) -> Result<()> {
    if status == sys::hipSuccess {
        return Ok(());
    }
    Err(GpuError::Call { call: call(), reason: hip.describe(status) })
}

fn make_current(hip: &sys::Hip, ordinal: i32) -> Result<()> {
    // SAFETY: the argument is a number, and HIP reports an invalid one as an error.
    let status = unsafe { (hip.hipSetDevice)(ordinal) };
    check(hip, status, || format!("hipSetDevice({ordinal})"))
}

impl Device {
    /// Selects device `ordinal` and makes it current for this thread.
    ///
    /// # Errors
    /// The device does not exist, or it hung before and has not finished since.
    pub(crate) fn new(hip: &'static sys::Hip, ordinal: i32) -> Result<Device> {
        make_current(hip, ordinal)?;
        Ok(Device { hip, ordinal, health: Health::of(ordinal)? })
    }

    /// Sets the time after which a batch counts as hung. A batch that usually is long gets more time.
    pub(crate) fn set_patience(&self, patience: Duration) {
        self.health.set_patience(patience);
    }

    /// Whether the device has left work unfinished, so that nothing may wait for it or free what it may still use.
    pub(crate) fn is_hung(&self) -> bool {
        self.health.is_hung()
    }

    /// Waits for all work that is in a stream of this device. The null stream stands for HIP's own stream.
    pub(super) fn finish(&self, stream: sys::hipStream_t, name: &str) -> Result<()> {
        self.finish_by(Waiting::Block, stream, name)
    }

    pub(super) fn finish_by(&self, waiting: Waiting, stream: sys::hipStream_t, name: &str) -> Result<()> {
        let work = Work { hip: self.hip, stream, name, usual: None };
        self.health.wait(&work, waiting, || {
            // SAFETY: the caller passes a stream that is alive, or null.
            let status = unsafe { (self.hip.hipStreamQuery)(stream) };
            self.is_ready(status, "hipStreamQuery")
        })
    }

    /// Reads the status of a call that asks whether work is done.
    pub(super) fn is_ready(&self, status: sys::hipError_t, call: &str) -> Result<bool> {
        if status == sys::hipErrorNotReady {
            return Ok(false);
        }
        self.check(status, || call.to_owned()).map(|()| true)
    }

    /// HIP's number of the device.
    pub(crate) fn ordinal(&self) -> usize {
        usize::try_from(self.ordinal).unwrap_or(0)
    }

    pub(super) fn check(&self, status: sys::hipError_t, call: impl FnOnce() -> String) -> Result<()> {
        check(self.hip, status, call)
    }

    /// Makes this device the calling thread's current device.
    pub(crate) fn make_current(&self) -> Result<()> {
        make_current(self.hip, self.ordinal)
    }

    /// The compiler's name of the architecture, e.g. `gfx1100`.
    pub(crate) fn architecture(&self) -> Result<String> {
        let found = self.hip.architecture(self.ordinal);
        found.map_err(|status| GpuError::Call {
            call: format!("hipGetDeviceProperties of device {}", self.ordinal),
            reason: self.hip.describe(status),
        })
    }

    /// The product name, e.g. `AMD Radeon RX 7900 XTX`.
    pub(crate) fn name(&self) -> Result<String> {
        let mut text = [0 as c_char; 256];
        // SAFETY: HIP writes at most the given length, with a zero at the end.
        let status =
            unsafe { (self.hip.hipDeviceGetName)(text.as_mut_ptr(), text.len() as c_int, self.ordinal) };
        self.check(status, || format!("hipDeviceGetName of device {}", self.ordinal))?;
        let bytes: Vec<u8> = text.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn attribute(&self, attribute: sys::hipDeviceAttribute_t, name: &str) -> Result<usize> {
        let mut value: c_int = 0;
        // SAFETY: HIP writes one integer.
        let status = unsafe { (self.hip.hipDeviceGetAttribute)(&mut value, attribute, self.ordinal) };
        self.check(status, || format!("hipDeviceGetAttribute({name}) of device {}", self.ordinal))?;
        Ok(usize::try_from(value).unwrap_or(0))
    }

    /// As the function [`version`].
    pub(crate) fn version(&self, of: Versioned) -> Result<i32> {
        version(self.hip, of)
    }

    /// The number of lanes of a wave.
    pub(crate) fn warp_size(&self) -> Result<usize> {
        self.attribute(sys::hipDeviceAttributeWarpSize, "WarpSize")
    }

    /// The number of multiprocessors. HIP counts compute units on gfx9, and from gfx10 on work-group processors, each of
    /// which has two compute units (<https://github.com/ROCm/hip/issues/3767>).
    pub(crate) fn multiprocessors(&self) -> Result<usize> {
        self.attribute(sys::hipDeviceAttributeMultiprocessorCount, "MultiprocessorCount")
    }

    /// The highest clock of the compute units.
    pub(crate) fn kilohertz(&self) -> Result<usize> {
        self.attribute(sys::hipDeviceAttributeClockRate, "ClockRate")
    }

    /// Whether HIP says that the device is part of a processor and shares its memory.
    pub(crate) fn is_integrated(&self) -> Result<bool> {
        Ok(self.attribute(sys::hipDeviceAttributeIntegrated, "Integrated")? != 0)
    }

    /// Free and total memory, in bytes.
    pub(crate) fn memory(&self) -> Result<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: HIP writes two numbers.
        let status = unsafe { (self.hip.hipMemGetInfo)(&mut free, &mut total) };
        self.check(status, || "hipMemGetInfo".to_owned())?;
        Ok((free, total))
    }

    /// Checks that `bytes` can be allocated now. `what` says in the error message what the memory is for.
    ///
    /// HIP's amount of free memory is not enough to decide this, because an integrated GPU can allocate more than it
    /// reports.
    pub(crate) fn check_room(&self, bytes: usize, what: &str) -> Result<()> {
        let mut pointer = null_mut();
        // SAFETY: HIP writes one pointer.
        let status = unsafe { (self.hip.hipMalloc)(&mut pointer, bytes) };
        self.check(status, || format!("hipMalloc of {bytes} bytes for {what}"))?;
        // SAFETY: the pointer was just allocated, and nothing else uses it.
        let status = unsafe { (self.hip.hipFree)(pointer) };
        self.check(status, || format!("hipFree of {bytes} bytes for {what}"))
    }
}

/// A block of device memory, freed on drop. The objects of a hung device are not freed ([`super::wait`]).
pub(crate) struct DeviceBuffer {
    device: Device,
    address: Address,
    bytes: usize,
}

impl DeviceBuffer {
    /// Allocates `bytes` of zeroed memory (at least 256). `what` says in the error message what the
    /// memory is for.
    pub(crate) fn zeroed(device: Device, bytes: usize, what: &str) -> Result<DeviceBuffer> {
        let mut pointer = null_mut();
        // A null address means an absent argument, so even an empty buffer gets memory.
        let bytes = bytes.max(256);
        // SAFETY: HIP writes one pointer.
        let status = unsafe { (device.hip.hipMalloc)(&mut pointer, bytes) };
        device.check(status, || format!("hipMalloc of {bytes} bytes for {what}"))?;
        let buffer = DeviceBuffer { device, address: Address(pointer.expose_provenance() as u64), bytes };
        buffer.fill(0, what)?;
        Ok(buffer)
    }

    /// Sets all bytes of the memory, and waits until that is done. `what` says in the error message what the memory is
    /// for.
    pub(crate) fn fill(&self, byte: u8, what: &str) -> Result<()> {
        let DeviceBuffer { device, address, bytes } = *self;
        // SAFETY: the memory is `bytes` long.
        let status =
            unsafe { (device.hip.hipMemsetAsync)(address.pointer(), c_int::from(byte), bytes, null_mut()) };
        let call = || format!("hipMemsetAsync of {bytes} bytes for {what}");
        device.check(status, call)?;
        // Our streams do not wait for HIP's own stream. A late fill would overwrite what they have written.
        device.finish(null_mut(), &call())
    }

    /// The start of the memory, aligned to at least 256 bytes.
    pub(crate) fn address(&self) -> Address {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.device.is_hung() {
            return;
        }
        // SAFETY: hipMalloc made the pointer, which is freed once; hipFree waits for running work. A drop cannot report
        // an error.
        let _ = unsafe { (self.device.hip.hipFree)(self.address.pointer()) };
    }
}
