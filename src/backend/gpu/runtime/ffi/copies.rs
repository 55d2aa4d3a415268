//! Copies of a chosen size between host and device, to time them.

use super::super::error::Result;
use super::hip::{Address, Device, DeviceBuffer};
use super::pinned::PinnedBuffer;
use super::stream::Stream;
use hip_runtime_sys as sys;

/// The way of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// From pinned host memory to the device's memory.
    ToDevice,
    /// From the device's memory to pinned host memory.
    ToHost,
    /// From the device's memory to its own memory.
    WithinDevice,
}

/// Memory on both sides, and the stream that copies between them. The host never looks at the contents.
pub(crate) struct Copies {
    device: Device,
    host: PinnedBuffer,
    from: DeviceBuffer,
    to: DeviceBuffer,
    stream: Stream,
}

impl Copies {
    /// Allocates memory for copies of at most `host_bytes` from or to the host, and `device_bytes` within the device.
    pub(crate) fn new(device: Device, host_bytes: usize, device_bytes: usize) -> Result<Copies> {
        Ok(Copies {
            device,
            host: PinnedBuffer::zeroed(device, host_bytes, "timed copies")?,
            from: DeviceBuffer::zeroed(device, device_bytes, "timed copies")?,
            to: DeviceBuffer::zeroed(device, device_bytes, "timed copies")?,
            stream: Stream::new(device)?,
        })
    }

    /// The stream of the copies. Kernels that use the memory must run on it, too.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The device's addresses of the host memory, and of both pieces of device memory.
    pub(crate) fn addresses(&self) -> [Address; 3] {
        [self.host.address, self.from.address(), self.to.address()]
    }

    /// Enqueues a copy of `bytes`, or of as many as there are.
    pub(crate) fn enqueue(&self, way: Way, bytes: usize) -> Result<()> {
        let within = self.from.bytes().min(self.to.bytes());
        let bytes = bytes.min(if way == Way::WithinDevice { within } else { self.host.bytes.min(within) });
        let (host, from, to) =
            (self.host.pointer.cast(), self.from.address().pointer(), self.to.address().pointer());
        let (to, from, kind) = match way {
            Way::ToDevice => (to, host, sys::hipMemcpyHostToDevice),
            Way::ToHost => (host, from, sys::hipMemcpyDeviceToHost),
            Way::WithinDevice => (to, from, sys::hipMemcpyDeviceToDevice),
        };
        let copy = self.device.hip.hipMemcpyAsync;
        // SAFETY: both sides have at least this length, and are not freed before the stream is done.
        let status = unsafe { copy(to, from, bytes, kind, self.stream.raw) };
        self.device.check(status, || format!("hipMemcpyAsync of {bytes} bytes ({way:?})"))
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // The memory must not be freed before the device is done. A drop cannot report an error.
        let _ = self.stream.synchronize();
    }
}
