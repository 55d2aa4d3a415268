//! The pinned memory through which a slot's batches come and go.
//!
//! The device reads and writes it behind the processor's back, so it can only be touched between batches:
//! [`Exchange::input`] and [`Exchange::output`] exist while nothing is under way, and whoever drops an exchange
//! under way waits for the device first.

use super::super::error::{Result, RocmError};
use super::hip::{Address, Device, DeviceBuffer, Event, EventKind, Stream};
use hip_runtime_sys as sys;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// How a slot's thread waits for its batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// It sleeps until the device's interrupt wakes it: costs 20 to 50 microseconds a batch, and no processor time.
    Block,
    /// It asks again and again, and lets others run in between.
    Yield,
    /// It asks again and again, and keeps its processor.
    Spin,
}

/// Who spins or yields asks this often: each question takes the driver's lock, which other slots want too.
const BETWEEN_QUESTIONS: Duration = Duration::from_micros(2);

/// Whoever expects a batch to take longer than twice this sleeps for the first half of it.
const SHORTEST_SLEEP: Duration = Duration::from_micros(400);

/// Pinned memory of the host.
struct PinnedBuffer {
    device: Device,
    pointer: *mut u8,
    bytes: usize,
}

// SAFETY: plain memory, owned.
unsafe impl Send for PinnedBuffer {}

impl PinnedBuffer {
    fn zeroed(device: Device, bytes: usize, what: &str) -> Result<PinnedBuffer> {
        let mut pointer = null_mut();
        // SAFETY: HIP writes one pointer.
        let status = unsafe { (device.hip.hipHostMalloc)(&mut pointer, bytes, sys::hipHostMallocDefault) };
        device.check(status, || format!("hipHostMalloc of {bytes} bytes for {what}"))?;
        let pointer = pointer.cast::<u8>();
        // SAFETY: the memory is that long, and nobody else's.
        unsafe { pointer.write_bytes(0, bytes) };
        Ok(PinnedBuffer { device, pointer, bytes })
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        // SAFETY: made by hipHostMalloc and given back once; no copy is under way. There is nobody to tell.
        let _ = unsafe { (self.device.hip.hipHostFree)(self.pointer.cast()) };
    }
}

/// A slot's input and output, on both sides.
pub(crate) struct Exchange {
    device: Device,
    input: PinnedBuffer,
    output: PinnedBuffer,
    device_input: DeviceBuffer,
    device_output: DeviceBuffer,
    done: Event,
    waiting: Waiting,
    is_under_way: bool,
    stream: Stream,
}

impl Exchange {
    /// For batches with inputs and outputs of at most so many bytes, on a stream of its own.
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
            is_under_way: false,
            stream: Stream::new(device)?,
        })
    }

    /// The stream that the batches run on.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Where the device finds its input.
    pub(crate) fn input_address(&self) -> Address {
        self.device_input.address()
    }

    /// Where the device puts its output.
    pub(crate) fn output_address(&self) -> Address {
        self.device_output.address()
    }

    /// The host's side of the input.
    pub(crate) fn input(&mut self) -> Result<&mut [u8]> {
        self.check_idle()?;
        // SAFETY: initialised memory of this length; no copy is under way, and it is borrowed like `self`.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.input.pointer, self.input.bytes) })
    }

    /// The host's side of the output.
    pub(crate) fn output(&self) -> Result<&[u8]> {
        self.check_idle()?;
        // SAFETY: as above.
        Ok(unsafe { std::slice::from_raw_parts(self.output.pointer, self.output.bytes) })
    }

    fn check_idle(&self) -> Result<()> {
        if self.is_under_way {
            let text = "a batch is under way in this slot".to_owned();
            return Err(RocmError::Unsupported(text));
        }
        Ok(())
    }

    /// Enqueues: `input_bytes` to the device, what `enqueue` enqueues, `output_bytes` back. Then
    /// [`Exchange::wait`].
    pub(crate) fn start(
        &mut self,
        input_bytes: usize,
        output_bytes: usize,
        enqueue: impl FnOnce(&Stream) -> Result<()>,
    ) -> Result<()> {
        self.check_idle()?;
        let (input_bytes, output_bytes) =
            (input_bytes.min(self.input.bytes), output_bytes.min(self.output.bytes));
        // From the first call on, the device may be reading.
        self.is_under_way = true;
        let started = self.enqueue_all(input_bytes, output_bytes, enqueue);
        if started.is_err() {
            // What was enqueued before the error must end before the memory is touched again.
            let _ = self.stream.synchronize();
            self.is_under_way = false;
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
        // SAFETY: both sides are that long, and stay until `is_under_way` ends.
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

    /// Waits for what was started, which took `usual` the last time.
    pub(crate) fn wait(&mut self, usual: Duration) -> Result<()> {
        if !self.is_under_way {
            return Ok(());
        }
        let done = match self.waiting {
            Waiting::Block => self.done.synchronize(),
            Waiting::Yield => self.ask_until_done(usual, std::thread::yield_now),
            Waiting::Spin => self.ask_until_done(usual, std::hint::spin_loop),
        };
        if done.is_err() {
            let _ = self.stream.synchronize();
        }
        // After an error the device does no more work for this process.
        self.is_under_way = false;
        done
    }

    fn ask_until_done(&self, usual: Duration, meanwhile: impl Fn()) -> Result<()> {
        if usual / 2 > SHORTEST_SLEEP {
            std::thread::sleep(usual / 2);
        }
        while !self.done.is_done()? {
            let asked = Instant::now();
            while asked.elapsed() < BETWEEN_QUESTIONS {
                meanwhile();
            }
        }
        Ok(())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.is_under_way {
            // There is nobody to tell; only the memory must not go before the device is done.
            let _ = self.stream.synchronize();
        }
    }
}
