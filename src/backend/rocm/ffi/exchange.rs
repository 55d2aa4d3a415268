//! The pinned host memory and device memory of a slot's input and output, and the copies between them.
//!
//! The device reads and writes the pinned memory asynchronously, so the host may touch it only between batches:
//! [`Exchange::input`] and [`Exchange::output`] fail while a batch is in flight, and dropping an exchange waits for the
//! device.

use super::super::error::{Result, RocmError};
use super::hip::{Address, Device, DeviceBuffer, Event, EventKind, Stream};
use hip_runtime_sys as sys;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// The way in which a slot's thread waits for its batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// Sleeps until the device's interrupt. This adds 20 to 50 microseconds to a batch, but takes no processor time.
    Block,
    /// Polls, and yields the processor between two polls.
    Yield,
    /// Polls without yielding the processor.
    Spin,
}

/// The time between two polls. Each poll takes the driver's lock, which other slots need too.
const POLL_INTERVAL: Duration = Duration::from_micros(2);

/// Before its first poll, a thread sleeps for half of a batch's usual time, if that half is longer than this.
const SHORTEST_SLEEP: Duration = Duration::from_micros(400);

/// Page-locked host memory, which the device can copy asynchronously.
struct PinnedBuffer {
    device: Device,
    pointer: *mut u8,
    bytes: usize,
}

// SAFETY: the buffer owns plain memory.
unsafe impl Send for PinnedBuffer {}

impl PinnedBuffer {
    fn zeroed(device: Device, bytes: usize, what: &str) -> Result<PinnedBuffer> {
        let mut pointer = null_mut();
        // SAFETY: HIP writes one pointer.
        let status = unsafe { (device.hip.hipHostMalloc)(&mut pointer, bytes, sys::hipHostMallocDefault) };
        device.check(status, || format!("hipHostMalloc of {bytes} bytes for {what}"))?;
        let pointer = pointer.cast::<u8>();
        // SAFETY: the memory has this length, and nothing else uses it yet.
        unsafe { pointer.write_bytes(0, bytes) };
        Ok(PinnedBuffer { device, pointer, bytes })
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        // SAFETY: hipHostMalloc made the pointer, which is freed once, and no copy is in flight. A drop cannot report
        // an error.
        let _ = unsafe { (self.device.hip.hipHostFree)(self.pointer.cast()) };
    }
}

/// A slot's input and output, in host and device memory.
pub(crate) struct Exchange {
    device: Device,
    input: PinnedBuffer,
    output: PinnedBuffer,
    device_input: DeviceBuffer,
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
        let kind = if waiting == Waiting::Block { EventKind::Sleep } else { EventKind::Order };
        Ok(Exchange {
            device,
            input: PinnedBuffer::zeroed(device, input_bytes, "a batch's input")?,
            output: PinnedBuffer::zeroed(device, output_bytes, "a batch's output")?,
            device_input: DeviceBuffer::zeroed(device, input_bytes, "a batch's input")?,
            device_output: DeviceBuffer::zeroed(device, output_bytes, "a batch's output")?,
            done: Event::new(device, kind)?,
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
        self.device_input.address()
    }

    /// The device address of the output.
    pub(crate) fn output_address(&self) -> Address {
        self.device_output.address()
    }

    /// The host's copy of the input.
    ///
    /// # Errors
    /// A batch is in flight.
    pub(crate) fn input(&mut self) -> Result<&mut [u8]> {
        self.check_idle()?;
        // SAFETY: the memory is initialised and has this length; no copy is in flight, and the slice borrows `self`.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.input.pointer, self.input.bytes) })
    }

    /// The host's copy of the output.
    ///
    /// # Errors
    /// A batch is in flight.
    pub(crate) fn output(&self) -> Result<&[u8]> {
        self.check_idle()?;
        // SAFETY: as above.
        Ok(unsafe { std::slice::from_raw_parts(self.output.pointer, self.output.bytes) })
    }

    fn check_idle(&self) -> Result<()> {
        if self.is_in_flight {
            let text = "a batch is already in flight in this slot".to_owned();
            return Err(RocmError::Unsupported(text));
        }
        Ok(())
    }

    /// Enqueues the copy of `input_bytes` to the device, then the work of `enqueue`, then the copy of `output_bytes` to
    /// the host. [`Exchange::wait`] waits for all of it.
    pub(crate) fn start(
        &mut self,
        input_bytes: usize,
        output_bytes: usize,
        enqueue: impl FnOnce(&Stream) -> Result<()>,
    ) -> Result<()> {
        self.check_idle()?;
        let (input_bytes, output_bytes) =
            (input_bytes.min(self.input.bytes), output_bytes.min(self.output.bytes));
        // The device may read the input as soon as the first copy is enqueued.
        self.is_in_flight = true;
        let started = self.enqueue_all(input_bytes, output_bytes, enqueue);
        if started.is_err() {
            // The work that was enqueued before the error must end before the host accesses the memory again.
            let _ = self.stream.synchronize();
            self.is_in_flight = false;
        }
        started
    }

    fn enqueue_all(
        &self,
        input_bytes: usize,
        output_bytes: usize,
        enqueue: impl FnOnce(&Stream) -> Result<()>,
    ) -> Result<()> {
        let copy = self.device.hip.hipMemcpyAsync;
        let (to, from) = (self.device_input.address().pointer(), self.input.pointer);
        let kind = sys::hipMemcpyHostToDevice;
        // SAFETY: both sides have at least this length, and neither is freed while `is_in_flight` is set.
        let status = unsafe { copy(to, from.cast(), input_bytes, kind, self.stream.raw) };
        self.device.check(status, || format!("hipMemcpyAsync of {input_bytes} bytes to the device"))?;
        enqueue(&self.stream)?;
        let (to, from) = (self.output.pointer, self.device_output.address().pointer());
        let kind = sys::hipMemcpyDeviceToHost;
        // SAFETY: as above.
        let status = unsafe { copy(to.cast(), from, output_bytes, kind, self.stream.raw) };
        self.device.check(status, || format!("hipMemcpyAsync of {output_bytes} bytes from the device"))?;
        self.done.record(&self.stream)
    }

    /// Waits for the batch in flight. `usual` is the time that such a batch took before.
    pub(crate) fn wait(&mut self, usual: Duration) -> Result<()> {
        if !self.is_in_flight {
            return Ok(());
        }
        let done = match self.waiting {
            Waiting::Block => self.done.synchronize(),
            Waiting::Yield => self.poll_until_done(usual, std::thread::yield_now),
            Waiting::Spin => self.poll_until_done(usual, std::hint::spin_loop),
        };
        if done.is_err() {
            let _ = self.stream.synchronize();
        }
        // After an error the device does no more work for this process, so the memory is safe to touch.
        self.is_in_flight = false;
        done
    }

    fn poll_until_done(&self, usual: Duration, between_polls: impl Fn()) -> Result<()> {
        if usual / 2 > SHORTEST_SLEEP {
            std::thread::sleep(usual / 2);
        }
        while !self.done.is_done()? {
            let polled = Instant::now();
            while polled.elapsed() < POLL_INTERVAL {
                between_polls();
            }
        }
        Ok(())
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
