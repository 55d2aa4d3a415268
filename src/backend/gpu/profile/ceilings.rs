//! What the device can do at most: GEMMs, copies, and launches of empty kernels.

use crate::doctor::floors::{WIDTH, copying_kernel};
use crate::doctor::subject::Subject;
use crate::gemm::bytes::{ByteOperands, byte_gemm};
use crate::gemm::gemms::{Effort, GemmProblem};
use crate::measure::matrices::fill;
use crate::measure::measurer::{Measurer, Wanted};
use crate::measure::samples::PATTERN_BYTES;
use crate::network::layers::{ByteKind, ByteWeights};
use crate::runtime::error::Result;
use crate::runtime::ffi::gemm::{GemmOperands, GemmShape};
use crate::runtime::ffi::hip::{Address, DeviceBuffer};
use crate::runtime::ffi::hipblaslt::ScaledFactors;
use crate::runtime::ffi::program::{BlasLibraries, Lanes, Program, Step, Stopwatch};
use crate::runtime::ffi::stream::Stream;
use crate::runtime::precision::GpuPrecision;
use rukh_backend::profile::{Ceilings, CopySpeed};
use std::time::{Duration, Instant};

/// The sides of the square GEMMs, and the sizes of the two buffers of a copy together in bytes. They grow until one
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
        operations_per_second: gemms(subject)?,
        byte_operations_per_second: byte_gemms(subject)?,
        copies: copies(subject, &mut timer)?,
        launch_microseconds: launch(subject, &mut timer)?,
    })
}

/// A stream. The lanes' handles must go before it.
struct Timer {
    lanes: Lanes,
    stopwatch: Stopwatch,
    stream: Stream,
}

impl Timer {
    /// For our own kernels.
    fn new(subject: &Subject) -> Result<Timer> {
        Timer::with(subject, BlasLibraries { rocblas: None, hipblaslt: None, workspace_bytes: 0 })
    }

    fn with(subject: &Subject, libraries: BlasLibraries) -> Result<Timer> {
        let device = subject.gpu.device;
        let stream = Stream::new(device)?;
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

/// The operations per second of the best square GEMM.
fn gemms(subject: &Subject) -> Result<f64> {
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
        let Some(step) = subject.gemms.step("gemm", &shape, problem.operands, Address::NULL)? else {
            break;
        };
        let program = Program::new(vec![step], Vec::new());
        // The library loads its code at the first GEMM, which may take longer than the GEMM of the largest side.
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

/// The operations per second of the best square GEMM of 8-bit numbers in the backend's format; 0 if the backend
/// multiplies none.
fn byte_gemms(subject: &Subject) -> Result<f64> {
    let kind = match subject.precision {
        GpuPrecision::Int8 => Some(ByteKind::Integers),
        GpuPrecision::Fp8 => subject.gpu.facts.fp8.map(ByteKind::Floats),
        _ => None,
    };
    let Some(kind) = kind else { return Ok(0.0) };
    let mut timer = Timer::with(subject, subject.gemms.libraries(&subject.gpu))?;
    let mut best = 0.0_f64;
    for side in SIDES {
        // A card with little memory fails only where it must.
        let Ok(matrices) = ByteMatrices::new(subject, kind, side) else { break };
        let begin = Instant::now();
        for step in matrices.steps(subject)? {
            let microseconds = timer.microseconds(&Program::new(vec![step], Vec::new()))?;
            best = best.max(2.0 * matrices.shape.multiply_adds() / microseconds.max(1e-3) * 1e6);
        }
        if begin.elapsed() > LONG_ENOUGH {
            break;
        }
    }
    Ok(best)
}

/// The matrices of a square GEMM of 8-bit numbers.
struct ByteMatrices {
    shape: GemmShape,
    kind: ByteKind,
    /// `[side][side]` of bytes each: the weights and x.
    factors: [DeviceBuffer; 2],
    /// Room for the scales of the weights and of x: two of fp32 for each row.
    scales: [DeviceBuffer; 2],
    /// `[side][side]` of the element type.
    y: DeviceBuffer,
}

impl ByteMatrices {
    fn new(subject: &Subject, kind: ByteKind, side: usize) -> Result<ByteMatrices> {
        let device = subject.gpu.device;
        let zeroed = |bytes: usize| DeviceBuffer::zeroed(device, bytes, "a timed GEMM of 8-bit numbers");
        let bytes = || -> Result<DeviceBuffer> {
            let buffer = zeroed(side * side)?;
            fill(device, &buffer, &byte_pattern())?;
            Ok(buffer)
        };
        let scales = || zeroed(2 * side * size_of::<f32>());
        Ok(ByteMatrices {
            shape: GemmShape::plain(side, side, side, subject.element),
            kind,
            factors: [bytes()?, bytes()?],
            scales: [scales()?, scales()?],
            y: zeroed(side * side * subject.element.bytes())?,
        })
    }

    /// The GEMM by our own kernel, and by hipBLASLt where the engine would use it.
    fn steps(&self, subject: &Subject) -> Result<Vec<Step>> {
        let ByteMatrices { shape, kind, factors: [weights, x], scales: [weights_scales, row_scales], y } =
            self;
        let (bytes, y) = (x.address(), y.address());
        let [weights_scales, row_scales] = [weights_scales, row_scales].map(DeviceBuffer::address);
        let layer = ByteWeights {
            kind: *kind,
            weights: weights.address(),
            scales: weights_scales,
            factors: Address::NULL,
        };
        let memory = ByteOperands { x: Address::NULL, bytes, row_scales, y };
        let own = GemmShape { input_type: kind.element(), ..*shape };
        let choice = (subject.gemms.multiprocessors(), None);
        let gemm = byte_gemm("gemm", (&own, &layer, Address::NULL), &memory, &subject.kernels, choice)?;
        let ((function, grid), arguments) = gemm.gemm;
        let mut steps = vec![Step::kernel("gemm".to_owned(), function, grid, arguments)];
        if let ByteKind::Floats(format) = *kind {
            let operands = GemmOperands::plain(layer.weights, bytes, y);
            let problem = GemmProblem::plain(*shape, operands, Address::NULL);
            let factors = ScaledFactors { format, weights_scales, row_scales };
            steps.extend(subject.gemms.scaled_step("gemm", &problem, &factors));
        }
        Ok(steps)
    }
}

/// Bytes of an ordinary size, because GEMMs of zeros are faster. As numbers in e4m3 they are below 2, and none is a
/// NaN.
fn byte_pattern() -> Vec<u8> {
    let byte = |place: usize| (place as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3];
    (0..PATTERN_BYTES).map(|place| byte(place) & 0xbf | 1).collect()
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
