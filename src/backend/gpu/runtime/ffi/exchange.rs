//! The memory of a slot's input and output.
//!
//! The kernels read the input from pinned host memory themselves. A copy to the device before a graph's launch would
//! save nothing, because each kernel reads its part of the input once, and ROCm 7.2 lets large graphs read such a copy
//! too early (ROCm/hip issue 3887). The output is copied to pinned memory after the kernels.
//!
//! The device uses the pinned memory asynchronously, so the host may touch it only between batches: [`Exchange::input`]
//! and [`Exchange::output`] fail while a batch is in flight, and dropping an exchange waits for the device.

use super::super::error::{GpuError, Result};
use super::hip::{Address, Device, DeviceBuffer};
use super::pinned::PinnedBuffer;
use super::stream::{Event, EventKind, Stream};
use super::wait::{Waiting, Work};
use hip_runtime_sys as sys;
use std::time::Duration;

/// A slot's input in pinned memory, and its output in device memory and in pinned memory.
pub(crate) struct Exchange {
    device: Device,
    input: PinnedBuffer,
    output: PinnedBuffer,
    device_output: DeviceBuffer,
    done: Event,
    waiting: Waiting,
    is_in_flight: bool,
    stream: Stream,
}

impl Exchange {
    /// Allocates memory for batches of at most `input_bytes` and `output_bytes`, and creates a stream for them.
    pub(crate) fn new(
        device: Device,
        input_bytes: usize,
        output_bytes: usize,
        waiting: Waiting,
    ) -> Result<Exchange> {
        Ok(Exchange {
            device,
            input: PinnedBuffer::zeroed(device, input_bytes, "a batch's input")?,
            output: PinnedBuffer::zeroed(device, output_bytes, "a batch's output")?,
            device_output: DeviceBuffer::zeroed(device, output_bytes, "a batch's output")?,
            done: Event::new(device, EventKind::Order)?,
            waiting,
            is_in_flight: false,
            stream: Stream::new(device)?,
        })
    }

    /// The stream that the batches run on.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The device address of the input.
    pub(crate) fn input_address(&self) -> Address {
        self.input.address
    }

    /// The device address of the output.
    pub(crate) fn output_address(&self) -> Address {
        self.device_output.address()
    }

    /// The input, for the host to write.
    ///
    /// # Errors
    /// A batch is in flight, or the device is hung.
    pub(crate) fn input(&mut self) -> Result<&mut [u8]> {
        self.check_idle()?;
        // SAFETY: the memory is initialised and has this length; no batch is in flight, and the slice borrows `self`.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.input.pointer, self.input.bytes) })
    }

    /// The host's copy of the output.
    ///
    /// # Errors
    /// A batch is in flight, or the device is hung.
    pub(crate) fn output(&self) -> Result<&[u8]> {
        self.check_idle()?;
        // SAFETY: as above.
        Ok(unsafe { std::slice::from_raw_parts(self.output.pointer, self.output.bytes) })
    }

    fn check_idle(&self) -> Result<()> {
        self.device.health.check()?;
        if self.is_in_flight {
            let text = "a batch is already in flight in this slot".to_owned();
            return Err(GpuError::Unsupported(text));
        }
        Ok(())
    }

    /// Enqueues the work of `enqueue`, which reads the input, and then the copy of `output_bytes` to the host.
    /// [`Exchange::wait`] waits for all of it.
    pub(crate) fn start(
        &mut self,
        output_bytes: usize,
        enqueue: impl FnOnce(&Stream) -> Result<()>,
    ) -> Result<()> {
        self.check_idle()?;
        // The device may read the input as soon as the first kernel is enqueued.
        self.is_in_flight = true;
        let started = self.enqueue_all(output_bytes.min(self.output.bytes), enqueue);
        if started.is_err() {
            self.settle();
        }
        started
    }

    /// After an error, waits until the device no longer uses the memory. If the device hangs, the batch stays in flight
    /// for ever.
    fn settle(&mut self) {
        // After an error other than a hang the device does no more work for this process.
        let _ = self.stream.synchronize();
        self.is_in_flight = self.device.is_hung();
    }

    fn enqueue_all(&self, output_bytes: usize, enqueue: impl FnOnce(&Stream) -> Result<()>) -> Result<()> {
        enqueue(&self.stream)?;
        let (to, from) = (self.output.pointer, self.device_output.address().pointer());
        let (copy, kind) = (self.device.hip.hipMemcpyAsync, sys::hipMemcpyDeviceToHost);
        // SAFETY: both sides have at least this length, and neither is freed while `is_in_flight` is set.
        let status = unsafe { copy(to.cast(), from, output_bytes, kind, self.stream.raw) };
        self.device.check(status, || format!("hipMemcpyAsync of {output_bytes} bytes from the device"))?;
        self.done.record(&self.stream)
    }

    /// Waits for the batch in flight. `usual` is the time that such a batch took before, or `None` if this is the first
    /// one.
    ///
    /// # Errors
    /// The batch failed, or the device has not finished it in time.
    pub(crate) fn wait(&mut self, usual: Option<Duration>) -> Result<()> {
        if !self.is_in_flight {
            return Ok(());
        }
        let work = Work { hip: self.device.hip, stream: self.stream.raw, name: "a batch", usual };
        let done = self.device.health.wait(&work, self.waiting, || self.done.is_done());
        match done {
            Ok(()) => self.is_in_flight = false,
            Err(_) => self.settle(),
        }
        done
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.is_in_flight {
            // The memory must not be freed before the device is done. A drop cannot report an error.
            let _ = self.stream.synchronize();
        }
    }
}
