//! A forward pass, laid out: its steps in order, with every address, size and descriptor settled.
//!
//! Running it allocates nothing, creates nothing and waits for nothing: it only enqueues.

use super::super::error::{Result, RocmError};
use super::gemm::{GemmOperands, GemmShape};
use super::hip::{Device, DeviceBuffer, Event, EventKind, Function, Grid, Stream};
use super::hipblaslt::{self, HipblasLt};
use super::rocblas::{self, Rocblas};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Words that any kernel's structure of arguments fits into.
const ARGUMENT_WORDS: usize = 20;

/// Memory for any of them; its end is not written.
type ArgumentWords = [MaybeUninit<u64>; ARGUMENT_WORDS];

/// A structure that a kernel takes as its one argument, laid out as in C.
///
/// # Safety
/// `repr(C)`, with the fields of the kernel's structure.
pub(crate) unsafe trait KernelArguments: Copy {}

/// One of the streams that a pass runs on: 0 is the batch's own, the others are for branches beside it.
pub(crate) type Lane = usize;

/// The batch's own stream.
pub(crate) const MAIN_LANE: Lane = 0;

/// What a slot runs programs with: the batch's stream comes from outside, all else is here. Where there are no streams
/// for branches, branches run one after another.
pub(crate) struct Lanes {
    main: BlasHandles,
    /// Where the main lane is.
    reached: Event,
    sides: Vec<Side>,
}

/// A lane beside the main one. The fields are dropped in this order: what works on the stream before the stream.
struct Side {
    blas: BlasHandles,
    /// Where the lane is.
    reached: Event,
    stream: Stream,
}

/// The BLAS libraries that there are.
#[derive(Clone, Copy)]
pub(crate) struct BlasLibraries {
    pub(crate) rocblas: Option<rocblas::Library>,
    pub(crate) hipblaslt: Option<hipblaslt::Library>,
    /// Memory that each lane's products may work in.
    pub(crate) workspace_bytes: usize,
}

impl Lanes {
    /// The handles for `main` and for `sides` more streams.
    pub(crate) fn new(device: Device, main: &Stream, sides: usize, blas: BlasLibraries) -> Result<Lanes> {
        let side = || {
            let stream = Stream::urgent(device)?;
            Ok(Side {
                blas: BlasHandles::new(device, &stream, blas)?,
                reached: Event::new(device, EventKind::Order)?,
                stream,
            })
        };
        Ok(Lanes {
            main: BlasHandles::new(device, main, blas)?,
            reached: Event::new(device, EventKind::Order)?,
            sides: (0..sides).map(|_| side()).collect::<Result<_>>()?,
        })
    }

    /// A lane's stream, its handles, and the event that says where it is.
    fn at<'a>(&'a self, main: &'a Stream, lane: Lane) -> (&'a Stream, &'a BlasHandles, &'a Event) {
        match lane.checked_sub(1).and_then(|side| self.sides.get(side)) {
            Some(Side { blas, reached, stream }) => (stream, blas, reached),
            None => (main, &self.main, &self.reached),
        }
    }
}

/// The BLAS handles of one stream, and the memory that they work in.
struct BlasHandles {
    rocblas: Option<Rocblas>,
    hipblaslt: Option<HipblasLt>,
    workspace: DeviceBuffer,
}

impl BlasHandles {
    /// Handles of the libraries that there are.
    fn new(device: Device, stream: &Stream, libraries: BlasLibraries) -> Result<BlasHandles> {
        let BlasLibraries { rocblas, hipblaslt, workspace_bytes } = libraries;
        hipblaslt::check_room(device)?;
        let workspace = DeviceBuffer::zeroed(device, workspace_bytes, "the BLAS workspace")?;
        Ok(BlasHandles {
            rocblas: rocblas.map(|library| Rocblas::new(library, stream, &workspace)).transpose()?,
            hipblaslt: hipblaslt.map(HipblasLt::new).transpose()?,
            workspace,
        })
    }
}

/// What a step does.
enum Operation {
    Kernel {
        function: Function,
        grid: Grid,
        arguments: ArgumentWords,
    },
    Rocblas {
        shape: GemmShape,
        operands: GemmOperands,
        solution: Option<i32>,
    },
    HipblasLt {
        plan: Arc<hipblaslt::Plan>,
        descriptor: Arc<hipblaslt::Descriptor>,
        operands: GemmOperands,
    },
    /// The lane waits for what is in another so far.
    WaitFor(Lane),
}

/// One launch, or one wait.
pub(crate) struct Step {
    name: String,
    lane: Lane,
    operation: Operation,
    /// Floating-point operations, where it is a product.
    operations: f64,
}

impl Step {
    /// A kernel's launch.
    pub(crate) fn kernel<A: KernelArguments>(
        name: String,
        function: Function,
        grid: Grid,
        arguments: A,
    ) -> Step {
        const { assert!(size_of::<A>() <= size_of::<ArgumentWords>()) };
        let mut words = [MaybeUninit::uninit(); ARGUMENT_WORDS];
        // SAFETY: the structure fits.
        unsafe { words.as_mut_ptr().cast::<A>().write_unaligned(arguments) };
        Step::of(name, Operation::Kernel { function, grid, arguments: words }, 0.0)
    }

    /// A product by rocBLAS.
    pub(crate) fn rocblas(
        name: String,
        shape: GemmShape,
        operands: GemmOperands,
        solution: Option<i32>,
    ) -> Step {
        let operations = 2.0 * shape.operations();
        Step::of(name, Operation::Rocblas { shape, operands, solution }, operations)
    }

    /// A product by hipBLASLt.
    pub(crate) fn hipblaslt(
        name: String,
        plan: Arc<hipblaslt::Plan>,
        descriptor: Arc<hipblaslt::Descriptor>,
        operands: GemmOperands,
    ) -> Step {
        let operations = 2.0 * plan.shape().operations();
        Step::of(name, Operation::HipblasLt { plan, descriptor, operands }, operations)
    }

    /// `lane` waits for what is in `other` so far.
    pub(crate) fn wait_for(lane: Lane, other: Lane) -> Step {
        Step::of("a branch's end".to_owned(), Operation::WaitFor(other), 0.0).on(lane)
    }

    fn of(name: String, operation: Operation, operations: f64) -> Step {
        Step { name, lane: MAIN_LANE, operation, operations }
    }

    /// The same on another lane.
    pub(crate) fn on(self, lane: Lane) -> Step {
        Step { lane, ..self }
    }

    fn is_wait(&self) -> bool {
        matches!(self.operation, Operation::WaitFor(_))
    }

    fn enqueue(&self, main: &Stream, lanes: &Lanes) -> Result<()> {
        let (stream, blas, _) = lanes.at(main, self.lane);
        let absent = |library: &str| RocmError::Unsupported(format!("no {library} handle in this slot"));
        let outcome = match &self.operation {
            Operation::Kernel { function, grid, arguments } => {
                // SAFETY: the forward pass wrote the structure for this kernel with addresses in the program's
                // memory, which lives as long as the program; whoever drops that waits for the stream.
                unsafe { function.launch(stream, *grid, arguments.as_ptr().cast()) }
            }
            Operation::Rocblas { shape, operands, solution } => {
                let rocblas = blas.rocblas.as_ref().ok_or_else(|| absent("rocBLAS"))?;
                // SAFETY: as above.
                unsafe { rocblas.run(shape, operands, *solution) }
            }
            Operation::HipblasLt { plan, descriptor, operands } => {
                let hipblaslt = blas.hipblaslt.as_ref().ok_or_else(|| absent("hipBLASLt"))?;
                // SAFETY: as above.
                unsafe { hipblaslt.run(stream, plan, descriptor, operands, &blas.workspace) }
            }
            Operation::WaitFor(other) => {
                let (other, _, reached) = lanes.at(main, *other);
                reached.record(other).and_then(|()| stream.wait_for(reached))
            }
        };
        outcome.map_err(|error| match error {
            RocmError::Call { call, reason } => {
                RocmError::Call { call: format!("{}: {call}", self.name), reason }
            }
            other => other,
        })
    }
}

/// What a step took.
pub(crate) struct StepTime {
    /// The step.
    pub(crate) name: String,
    /// Its time.
    pub(crate) milliseconds: f32,
    /// Floating-point operations, where it is a product.
    pub(crate) operations: f64,
}

/// All steps, and the memory that they work on.
pub(crate) struct Program {
    steps: Vec<Step>,
    _memory: Vec<Arc<DeviceBuffer>>,
}

impl Program {
    /// The steps' addresses lie in `memory` (and in the exchange of the slot that runs them).
    pub(crate) fn new(steps: Vec<Step>, memory: Vec<Arc<DeviceBuffer>>) -> Program {
        Program { steps, _memory: memory }
    }

    /// Enqueues all steps.
    pub(crate) fn enqueue(&self, main: &Stream, lanes: &Lanes) -> Result<()> {
        self.steps.iter().try_for_each(|step| step.enqueue(main, lanes))
    }

    /// Runs the steps one by one, `repetitions` times, with the time of each: for tables, not for play.
    pub(crate) fn time(
        &self,
        device: Device,
        stream: &Stream,
        lanes: &Lanes,
        repetitions: usize,
    ) -> Result<Vec<StepTime>> {
        let mut stopwatch = Stopwatch::new(device)?;
        let steps = self.steps.iter().filter(|step| !step.is_wait());
        steps
            .map(|step| {
                let lane = lanes.at(stream, step.lane).0;
                let run = || (0..repetitions).try_for_each(|_| step.enqueue(stream, lanes));
                let milliseconds = stopwatch.milliseconds(lane, 2, run)? / repetitions as f32;
                Ok(StepTime { name: step.name.clone(), milliseconds, operations: step.operations })
            })
            .collect()
    }
}

/// Measures what a device takes for work that is recorded as a graph: the host's calls are not part of it.
pub(crate) struct Stopwatch {
    start: Event,
    end: Event,
}

impl Stopwatch {
    /// Its events are of this device.
    pub(crate) fn new(device: Device) -> Result<Stopwatch> {
        Ok(Stopwatch {
            start: Event::new(device, EventKind::Timing)?,
            end: Event::new(device, EventKind::Timing)?,
        })
    }

    /// The shortest time of `runs` after a first that does not count, for what `enqueue` enqueues in `stream`. It is
    /// called twice: once to run, and once to be recorded.
    pub(crate) fn milliseconds(
        &mut self,
        stream: &Stream,
        runs: usize,
        enqueue: impl Fn() -> Result<()>,
    ) -> Result<f32> {
        // What libraries load at first use must not happen in a capture.
        enqueue()?;
        stream.synchronize()?;
        let graph = stream.capture(&enqueue)?;
        let mut shortest = f32::INFINITY;
        for _ in 0..runs.max(1) {
            self.start.record(stream)?;
            graph.launch(stream)?;
            self.end.record(stream)?;
            self.end.synchronize()?;
            shortest = shortest.min(self.end.milliseconds_since(&self.start)?);
        }
        Ok(shortest)
    }
}
