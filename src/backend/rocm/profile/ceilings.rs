//! What the device can do at most: products, copies, and launches of empty kernels.

use super::super::doctor::floors::{WIDTH, copying_kernel};
use super::super::doctor::subject::Subject;
use super::super::error::Result;
use super::super::ffi::gemm::GemmShape;
use super::super::ffi::hip::Stream;
use super::super::ffi::hip::{Address, DeviceBuffer};
use super::super::ffi::program::{BlasLibraries, Lanes, Program, Stopwatch};
use super::super::gemm::Effort;
use super::super::measure::{Measurer, Wanted};
use crate::backend::profile::{Ceilings, CopySpeed};
use std::time::{Duration, Instant};

/// The sides of the square products, and the sizes of the two buffers of a copy together in bytes. They grow until one
/// takes long enough.
const SIDES: [usize; 6] = [128, 512, 1024, 2048, 4096, 8192];
const COPIES: [usize; 5] = [128 << 10, 2 << 20, 32 << 20, 128 << 20, 512 << 20];

/// Nothing larger is measured after a measurement that took so long. It is long for a card, and short for an emulator.
const LONG_ENOUGH: Duration = Duration::from_millis(40);

/// The number of times that each is measured; the shortest counts.
const RUNS: usize = 5;

/// The copies in a graph, which run one after another.
const CHAIN: usize = 8;

/// The empty kernels in a graph.
const EMPTY_KERNELS: usize = 100;

/// Measures all ceilings.
///
/// # Errors
/// A call fails, or memory runs out.
pub(super) fn measure(subject: &Subject) -> Result<Ceilings> {
    let mut timer = Timer::new(subject)?;
    Ok(Ceilings {
        operations_per_second: products(subject)?,
        copies: copies(subject, &mut timer)?,
        launch_microseconds: launch(subject, &mut timer)?,
    })
}

/// A stream for our own kernels. The lanes' handles must go before the stream.
struct Timer {
    lanes: Lanes,
    stopwatch: Stopwatch,
    stream: Stream,
}

impl Timer {
    fn new(subject: &Subject) -> Result<Timer> {
        let device = subject.gpu.device;
        let stream = Stream::new(device)?;
        let libraries = BlasLibraries { rocblas: None, hipblaslt: None, workspace_bytes: 0 };
        Ok(Timer {
            lanes: Lanes::new(device, &stream, 0, libraries)?,
            stopwatch: Stopwatch::new(device)?,
            stream,
        })
    }

    fn microseconds(&mut self, program: &Program) -> Result<f64> {
        let (stream, lanes) = (&self.stream, &self.lanes);
        let time = self.stopwatch.milliseconds(stream, RUNS, || program.enqueue(stream, lanes))?;
        Ok(f64::from(time) * 1e3)
    }
}

/// The operations per second of the best square product.
fn products(subject: &Subject) -> Result<f64> {
    let mut best = 0.0_f64;
    for side in SIDES {
        let shape = GemmShape::plain(side, side, side, subject.element);
        let wanted = Wanted { shape, layers: 1 };
        // Memory is allocated for each size, so that a card with little memory fails only where it must.
        let measurer = Measurer::new(
            &subject.gpu,
            &subject.gemms,
            &subject.kernels,
            subject.element,
            (&[wanted], Effort::Quick),
        );
        let Ok(mut measurer) = measurer else { break };
        let Some(problem) = measurer.layers(&wanted).pop() else { break };
        let Some(step) = subject.gemms.step("product", &shape, problem.operands, Address::NULL)? else {
            break;
        };
        let program = Program::new(vec![step], Vec::new());
        // The library loads its code at the first product, which may take longer than the product of the largest side.
        measurer.time(&program, 1)?;
        let begin = Instant::now();
        let microseconds = f64::from(measurer.time(&program, RUNS)?);
        best = best.max(2.0 * shape.multiply_adds() / microseconds.max(1e-3) * 1e6);
        if begin.elapsed() > LONG_ENOUGH {
            break;
        }
    }
    Ok(best)
}

/// Copies by a kernel between two buffers.
fn copies(subject: &Subject, timer: &mut Timer) -> Result<Vec<CopySpeed>> {
    let mut speeds = Vec::new();
    for bytes in COPIES {
        let buffer = || DeviceBuffer::zeroed(subject.gpu.device, bytes / 2, "a timed copy");
        let (Ok(from), Ok(to)) = (buffer(), buffer()) else { break };
        let rows = bytes / 2 / (WIDTH * subject.element.bytes());
        let step = || copying_kernel(&subject.kernels, rows, from.address(), to.address());
        let steps = (0..CHAIN).map(|_| step()).collect::<Result<Vec<_>>>()?;
        let begin = Instant::now();
        let microseconds = timer.microseconds(&Program::new(steps, Vec::new()))? / CHAIN as f64;
        let bytes = bytes as f64;
        speeds.push(CopySpeed { bytes, bytes_per_second: bytes / microseconds.max(1e-3) * 1e6 });
        if begin.elapsed() > LONG_ENOUGH {
            break;
        }
    }
    Ok(speeds)
}

/// The time of an empty kernel in a chain of them, in microseconds.
fn launch(subject: &Subject, timer: &mut Timer) -> Result<f64> {
    let memory = DeviceBuffer::zeroed(subject.gpu.device, 256, "empty kernels")?;
    let step = || copying_kernel(&subject.kernels, 0, memory.address(), memory.address());
    let steps = (0..EMPTY_KERNELS).map(|_| step()).collect::<Result<Vec<_>>>()?;
    Ok(timer.microseconds(&Program::new(steps, Vec::new()))? / EMPTY_KERNELS as f64)
}
