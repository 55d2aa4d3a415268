//! A program: the steps of a forward pass in order, with all addresses, sizes and descriptors fixed.
//!
//! Running a program only enqueues its work on the device. It neither allocates memory nor waits.

use super::super::error::{GpuError, Result};
use super::gemm::{COUNTERS, GemmOperands, GemmShape};
use super::hip::{Device, DeviceBuffer};
use super::hipblaslt::{self, HipblasLt};
use super::module::{Function, Grid};
use super::rocblas::{self, Rocblas};
use super::stream::{Event, EventKind, Graph, Stream};
use std::sync::Arc;

/// A structure that a kernel takes as its only argument.
///
/// # Safety
/// The type must be `repr(C)`, have the fields of the kernel's structure and no bytes between or after them.
pub(crate) unsafe trait KernelArguments: Copy {}

/// A kernel's argument structure, as words because a word may be replaced when the kernel is enqueued.
#[derive(Clone)]
pub(crate) struct ArgumentWords(Box<[u64]>);

impl ArgumentWords {
    pub(crate) fn of<A: KernelArguments>(arguments: A) -> ArgumentWords {
        const { assert!(size_of::<A>().is_multiple_of(size_of::<u64>())) };
        let mut words = vec![0_u64; size_of::<A>() / size_of::<u64>()].into_boxed_slice();
        // SAFETY: the words have the size of the structure, as the assertion above checks, and all of its bytes are set.
        unsafe { words.as_mut_ptr().cast::<A>().write_unaligned(arguments) };
        ArgumentWords(words)
    }

    /// The bytes of the structure in memory.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// The index of a stream that a pass runs on. Lane 0 is the batch's main stream, and the other lanes run branches in
/// parallel to it.
pub(crate) type Lane = usize;

/// The lane of the batch's main stream.
pub(crate) const MAIN_LANE: Lane = 0;

/// The streams and BLAS handles that a slot runs programs with. The main stream belongs to the slot's exchange. Without
/// side streams, branches run one after another on the main stream.
pub(crate) struct Lanes {
    main: BlasHandles,
    /// The event that is recorded on the main lane when a side lane must wait for the main lane.
    reached: Event,
    sides: Vec<Side>,
}

/// A side lane. Fields are dropped in this order: the handles on the stream must go before the stream.
struct Side {
    blas: BlasHandles,
    /// The event that is recorded on this lane when another lane must wait for this lane.
    reached: Event,
    stream: Stream,
}

/// The BLAS libraries that are available.
#[derive(Clone, Copy)]
pub(crate) struct BlasLibraries {
    pub(crate) rocblas: Option<rocblas::Library>,
    pub(crate) hipblaslt: Option<hipblaslt::Library>,
    /// The size of the workspace of each lane, in bytes.
    pub(crate) workspace_bytes: usize,
}

impl Lanes {
    /// Creates the handles for `main`, and `sides` more streams with their own handles.
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

    /// The solution indexes of rocBLAS's kernels for a GEMM without an epilogue; none without rocBLAS.
    pub(crate) fn rocblas_solutions(&self, shape: &GemmShape, operands: &GemmOperands) -> Result<Vec<i32>> {
        let rocblas = self.main.rocblas.as_ref();
        rocblas.map_or(Ok(Vec::new()), |rocblas| rocblas.solutions(shape, operands))
    }

    /// A lane's stream, handles and event.
    fn at<'a>(&'a self, main: &'a Stream, lane: Lane) -> (&'a Stream, &'a BlasHandles, &'a Event) {
        match lane.checked_sub(1).and_then(|side| self.sides.get(side)) {
            Some(Side { blas, reached, stream }) => (stream, blas, reached),
            None => (main, &self.main, &self.reached),
        }
    }
}

/// The BLAS handles of one stream, their workspace, and the counters of our own kernels.
struct BlasHandles {
    device: Device,
    rocblas: Option<Rocblas>,
    hipblaslt: Option<HipblasLt>,
    workspace: DeviceBuffer,
    /// Zero between two kernels.
    counters: DeviceBuffer,
}

impl BlasHandles {
    fn new(device: Device, stream: &Stream, libraries: BlasLibraries) -> Result<BlasHandles> {
        let BlasLibraries { rocblas, hipblaslt, workspace_bytes } = libraries;
        hipblaslt::check_room(device)?;
        let workspace = DeviceBuffer::zeroed(device, workspace_bytes, "the BLAS workspace")?;
        Ok(BlasHandles {
            device,
            rocblas: rocblas.map(|library| Rocblas::new(library, stream, &workspace)).transpose()?,
            hipblaslt: hipblaslt.map(HipblasLt::new).transpose()?,
            workspace,
            counters: DeviceBuffer::zeroed(device, COUNTERS * size_of::<u32>(), "the counters of GEMMs")?,
        })
    }
}

impl Drop for BlasHandles {
    fn drop(&mut self) {
        // To destroy a handle can free memory, which would wait for the device.
        if self.device.is_hung() {
            std::mem::forget(self.rocblas.take());
            std::mem::forget(self.hipblaslt.take());
        }
    }
}

enum Operation {
    Kernel {
        function: Function,
        grid: Grid,
        arguments: ArgumentWords,
    },
    /// A GEMM or a chain of them by our own kernel, and the launch that adds up a GEMM's partial sums. These
    /// are in the lane's workspace. A chain's blocks count in the lane's counters.
    OwnGemm {
        launch: (Function, Grid),
        sum: Option<(Function, Grid)>,
        arguments: ArgumentWords,
        places: LanePlaces,
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
    /// The step's lane waits for all work that is already on another lane.
    WaitFor(Lane),
}

/// The arguments that a kernel gets from the lane that it runs on, as indices of 64-bit words.
#[derive(Clone, Copy)]
pub(crate) struct LanePlaces {
    /// The address of the workspace; `None` if the kernel needs none.
    pub(crate) workspace: Option<usize>,
    /// The address of the counters; `None` if the kernel does not count.
    pub(crate) counters: Option<usize>,
}

/// A kernel launch, a GEMM, or a wait of one lane for another.
pub(crate) struct Step {
    name: String,
    lane: Lane,
    operation: Operation,
    work: Work,
}

/// What a step has to do at least.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Work {
    /// Operations of a GEMM: two for each multiplication with its addition.
    pub(crate) operations: f64,
    /// Those of the operations whose factors are 8-bit numbers.
    pub(crate) byte_operations: f64,
    /// The bytes of inputs and results, each counted once.
    pub(crate) bytes: f64,
}

impl Work {
    fn of_gemm(shape: &GemmShape) -> Work {
        Work { operations: 2.0 * shape.multiply_adds(), bytes: shape.bytes(), ..Work::default() }
    }

    fn and(self, other: Work) -> Work {
        Work {
            operations: self.operations + other.operations,
            byte_operations: self.byte_operations + other.byte_operations,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Step {
    /// A kernel launch.
    pub(crate) fn kernel<A: KernelArguments>(
        name: String,
        function: Function,
        grid: Grid,
        arguments: A,
    ) -> Step {
        Step::launch(name, function, grid, ArgumentWords::of(arguments))
    }

    /// A kernel launch whose arguments are words already.
    pub(crate) fn launch(name: String, function: Function, grid: Grid, arguments: ArgumentWords) -> Step {
        Step::of(name, Operation::Kernel { function, grid, arguments }, Work::default())
    }

    /// GEMMs of these shapes by our own kernel. `sum` adds up the partial sums of a GEMM whose summed axis is
    /// divided. It takes the same arguments. Those at `places` are set when the step is enqueued.
    pub(crate) fn own_gemm<A: KernelArguments>(
        name: String,
        launch: (Function, Grid),
        sum: Option<(Function, Grid)>,
        (arguments, places): (A, LanePlaces),
        shapes: impl IntoIterator<Item = GemmShape>,
    ) -> Step {
        let operation = Operation::OwnGemm { launch, sum, arguments: ArgumentWords::of(arguments), places };
        let work = shapes.into_iter().map(|shape| Work::of_gemm(&shape)).fold(Work::default(), Work::and);
        Step::of(name, operation, work)
    }

    /// A GEMM by rocBLAS.
    pub(crate) fn rocblas(
        name: String,
        shape: GemmShape,
        operands: GemmOperands,
        solution: Option<i32>,
    ) -> Step {
        let work = Work::of_gemm(&shape);
        Step::of(name, Operation::Rocblas { shape, operands, solution }, work)
    }

    /// A GEMM by hipBLASLt.
    pub(crate) fn hipblaslt(
        name: String,
        plan: Arc<hipblaslt::Plan>,
        descriptor: Arc<hipblaslt::Descriptor>,
        operands: GemmOperands,
    ) -> Step {
        let work = Work::of_gemm(plan.shape());
        Step::of(name, Operation::HipblasLt { plan, descriptor, operands }, work)
    }

    /// A wait of `lane` for all work that is already on `other`.
    pub(crate) fn wait_for(lane: Lane, other: Lane) -> Step {
        Step::of("a branch's end".to_owned(), Operation::WaitFor(other), Work::default()).on(lane)
    }

    fn of(name: String, operation: Operation, work: Work) -> Step {
        Step { name, lane: MAIN_LANE, operation, work }
    }

    /// This step, which has so much to do.
    pub(crate) fn with_work(self, work: Work) -> Step {
        Step { work, ..self }
    }

    /// This step, moved to another lane.
    pub(crate) fn on(self, lane: Lane) -> Step {
        Step { lane, ..self }
    }

    /// The name of the kernel or library that runs, and the number of launches.
    fn runs_as(&self) -> (String, usize) {
        match &self.operation {
            Operation::Kernel { function, .. } => (function.name().to_owned(), 1),
            Operation::OwnGemm { launch, sum, .. } => {
                (launch.0.name().to_owned(), if sum.is_some() { 2 } else { 1 })
            }
            Operation::Rocblas { solution: Some(solution), .. } => (format!("rocBLAS {solution}"), 1),
            Operation::Rocblas { solution: None, .. } => ("rocBLAS".to_owned(), 1),
            Operation::HipblasLt { plan, .. } => (format!("hipBLASLt {}", plan.solution()), 1),
            Operation::WaitFor(_) => (String::new(), 0),
        }
    }

    fn is_wait(&self) -> bool {
        matches!(self.operation, Operation::WaitFor(_))
    }

    fn enqueue(&self, main: &Stream, lanes: &Lanes) -> Result<()> {
        let (stream, blas, _) = lanes.at(main, self.lane);
        let absent = |library: &str| GpuError::Unsupported(format!("no {library} handle in this slot"));
        let outcome = match &self.operation {
            Operation::Kernel { function, grid, arguments } => {
                // SAFETY: the forward pass filled the structure for this kernel, with addresses in memory that lives as
                // long as the program. The slot waits for the stream before it drops the program.
                unsafe { function.launch(stream, *grid, arguments.0.as_ptr().cast()) }
            }
            Operation::OwnGemm { launch, sum, arguments, places } => {
                let mut arguments = arguments.clone();
                if let Some(word) = places.workspace.and_then(|place| arguments.0.get_mut(place)) {
                    *word = blas.workspace.address().0;
                }
                if let Some(word) = places.counters.and_then(|place| arguments.0.get_mut(place)) {
                    *word = blas.counters.address().0;
                }
                std::iter::once(launch).chain(sum).try_for_each(|(function, grid)| {
                    // SAFETY: as above. The numbers of partial sums and of counters were limited to the memory there.
                    unsafe { function.launch(stream, *grid, arguments.0.as_ptr().cast()) }
                })
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
            GpuError::Call { call, reason } => {
                GpuError::Call { call: format!("{}: {call}", self.name), reason }
            }
            other => other,
        })
    }
}

/// The measured time of a step.
pub(crate) struct StepTime {
    pub(crate) name: String,
    pub(crate) milliseconds: f32,
    /// Floating-point operations of a GEMM; 0 for other steps.
    pub(crate) operations: f64,
}

/// What a step is, for a profile.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct StepFacts {
    pub(crate) name: String,
    /// The kernel or the library that computes it.
    pub(crate) kernel: String,
    pub(crate) launches: usize,
    pub(crate) work: Work,
}

/// The steps of a forward pass, and the memory that they work on.
pub(crate) struct Program {
    steps: Vec<Step>,
    _memory: Vec<Arc<DeviceBuffer>>,
}

impl Program {
    /// Makes a program of `steps`. Their addresses must lie in `memory`, in the network's weights, or in the exchange
    /// of the slot that runs the program.
    pub(crate) fn new(steps: Vec<Step>, memory: Vec<Arc<DeviceBuffer>>) -> Program {
        Program { steps, _memory: memory }
    }

    pub(crate) fn enqueue(&self, main: &Stream, lanes: &Lanes) -> Result<()> {
        self.steps.iter().try_for_each(|step| step.enqueue(main, lanes))
    }

    /// The steps that do something, in their order.
    pub(crate) fn facts(&self) -> Vec<StepFacts> {
        let steps = self.steps.iter().filter(|step| !step.is_wait());
        steps
            .map(|step| {
                let (kernel, launches) = step.runs_as();
                StepFacts { name: step.name.clone(), kernel, launches, work: step.work }
            })
            .collect()
    }

    /// Enqueues the steps with the name that `is_wanted` accepts, one after another, without waits between lanes.
    pub(crate) fn enqueue_some(
        &self,
        main: &Stream,
        lanes: &Lanes,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let mut steps = self.steps.iter().filter(|step| !step.is_wait() && is_wanted(&step.name));
        steps.try_for_each(|step| step.enqueue(main, lanes))
    }

    /// Times each step alone. The time of a step is the mean of `repetitions` consecutive runs.
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
                Ok(StepTime { name: step.name.clone(), milliseconds, operations: step.work.operations })
            })
            .collect()
    }
}

/// Measures the device's time for work. The work is captured as a graph if possible, so that the time of the host's
/// calls is not included.
pub(crate) struct Stopwatch {
    start: Event,
    end: Event,
}

/// A program that can be timed again and again.
pub(crate) struct Prepared {
    graph: Option<Graph>,
    program: Program,
}

impl Stopwatch {
    pub(crate) fn new(device: Device) -> Result<Stopwatch> {
        Ok(Stopwatch {
            start: Event::new(device, EventKind::Timing)?,
            end: Event::new(device, EventKind::Timing)?,
        })
    }

    /// Makes a program ready for [`Stopwatch::once`]: runs it, and captures it if that is possible.
    pub(crate) fn prepare(&self, stream: &Stream, lanes: &Lanes, program: Program) -> Result<Prepared> {
        let enqueue = || program.enqueue(stream, lanes);
        // Libraries load code at the first use of a GEMM, which must not happen during a capture.
        enqueue()?;
        stream.synchronize()?;
        let graph = stream.capture(enqueue).ok();
        Ok(Prepared { graph, program })
    }

    /// Times one run of a program in milliseconds.
    pub(crate) fn once(&mut self, stream: &Stream, lanes: &Lanes, prepared: &Prepared) -> Result<f32> {
        self.start.record(stream)?;
        match &prepared.graph {
            Some(graph) => graph.launch(stream)?,
            None => prepared.program.enqueue(stream, lanes)?,
        }
        self.end.record(stream)?;
        stream.synchronize()?;
        self.end.milliseconds_since(&self.start)
    }

    /// Times the work that `enqueue` enqueues on `stream`: the shortest of `runs` times, after one run that is not
    /// timed. `enqueue` is called twice: once for the untimed run, and once for the capture.
    pub(crate) fn milliseconds(
        &mut self,
        stream: &Stream,
        runs: usize,
        enqueue: impl Fn() -> Result<()>,
    ) -> Result<f32> {
        let samples = self.samples(stream, runs, enqueue)?;
        Ok(samples.into_iter().fold(f32::INFINITY, f32::min))
    }

    /// Does the same as [`Stopwatch::milliseconds`], and returns the times of all runs.
    pub(crate) fn samples(
        &mut self,
        stream: &Stream,
        runs: usize,
        enqueue: impl Fn() -> Result<()>,
    ) -> Result<Vec<f32>> {
        let mut samples = self.samples_in_turn(stream, runs, &[&enqueue])?;
        Ok(samples.pop().unwrap_or_default())
    }

    /// Times several works in turn, each as a graph if it can be captured. Returns the milliseconds of the runs of each.
    pub(crate) fn samples_in_turn(
        &mut self,
        stream: &Stream,
        runs: usize,
        works: &[&dyn Fn() -> Result<()>],
    ) -> Result<Vec<Vec<f32>>> {
        // Libraries load code at the first use of a GEMM, which must not happen during a capture.
        works.iter().try_for_each(|enqueue| enqueue())?;
        stream.synchronize()?;
        let graphs: Vec<_> = works.iter().map(|enqueue| stream.capture(enqueue).ok()).collect();
        let mut samples = vec![Vec::new(); works.len()];
        for _ in 0..runs.max(1) {
            for ((enqueue, graph), times) in works.iter().zip(&graphs).zip(&mut samples) {
                self.start.record(stream)?;
                match graph {
                    Some(graph) => graph.launch(stream)?,
                    None => enqueue()?,
                }
                self.end.record(stream)?;
                stream.synchronize()?;
                times.push(self.end.milliseconds_since(&self.start)?);
            }
        }
        Ok(samples)
    }
}
