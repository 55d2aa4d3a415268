//! A stream with memory for single launches.

use crate::runtime::device::Gpu;
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::hip::DeviceBuffer;
use crate::runtime::ffi::pinned::Staging;
use crate::runtime::ffi::program::{BlasLibraries, Lanes, Program, Stopwatch};
use crate::runtime::ffi::stream::Stream;
use std::ops::Range;

/// A stream, its side lanes, and what moves data to the device and back. Fields are dropped in this order: the lanes'
/// handles must go before the stream.
pub(super) struct Bench {
    pub(super) lanes: Lanes,
    pub(super) stopwatch: Stopwatch,
    pub(super) stream: Stream,
    staging: Staging,
}

impl Bench {
    /// A bench for launches of our own kernels, with `sides` side lanes.
    pub(super) fn new(gpu: &Gpu, sides: usize) -> Result<Bench> {
        let libraries = BlasLibraries { rocblas: None, hipblaslt: None, workspace_bytes: 0 };
        let stream = Stream::new(gpu.device)?;
        Ok(Bench {
            lanes: Lanes::new(gpu.device, &stream, sides, libraries)?,
            stopwatch: Stopwatch::new(gpu.device)?,
            stream,
            staging: Staging::new(gpu.device)?,
        })
    }

    /// Copies `data` to the start of `buffer`.
    pub(super) fn upload(&mut self, buffer: &DeviceBuffer, data: &[u8], what: &str) -> Result<()> {
        self.staging.upload(buffer, 0, data, what)
    }

    /// Reads ranges of bytes of `buffer`, one after another.
    pub(super) fn download(
        &mut self,
        buffer: &DeviceBuffer,
        pieces: &[Range<usize>],
        what: &str,
    ) -> Result<Vec<u8>> {
        self.staging.download(buffer, pieces, what)
    }

    /// Runs a program and waits for it.
    pub(super) fn run(&self, program: &Program) -> Result<()> {
        program.enqueue(&self.stream, &self.lanes)?;
        self.stream.synchronize()
    }

    /// The device's time for one run of a program, in microseconds: the shortest of `runs`.
    pub(super) fn microseconds(&mut self, program: &Program, runs: usize) -> Result<f64> {
        let (stream, lanes) = (&self.stream, &self.lanes);
        let time = self.stopwatch.milliseconds(stream, runs, || program.enqueue(stream, lanes))?;
        Ok(f64::from(time) * 1e3)
    }

    /// Finds out after an error whether the device can still be used. Some errors last until the process ends, and then
    /// another process must go on.
    pub(super) fn examined(&self, error: GpuError) -> GpuError {
        examined(&self.stream, error)
    }
}

/// [`Bench::examined`] for any stream.
pub(super) fn examined(stream: &Stream, error: GpuError) -> GpuError {
    match stream.synchronize() {
        Ok(()) => error,
        Err(_) => GpuError::Hang(error.to_string()),
    }
}
