//! A forward pass, laid out: its steps in order, with every address, size and descriptor settled.
//!
//! Running it allocates nothing, creates nothing and waits for nothing: it only enqueues.

use super::super::error::{Result, RocmError};
use super::gemm::{GemmOperands, GemmShape};
use super::hip::{Device, DeviceBuffer, Event, Function, Grid, Stream};
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

/// The BLAS handles of one stream, and the memory that they work in.
pub(crate) struct BlasHandles {
    rocblas: Option<Rocblas>,
    hipblaslt: Option<HipblasLt>,
    workspace: DeviceBuffer,
}

impl BlasHandles {
    /// Handles of the libraries that there are.
    pub(crate) fn new(
        device: Device,
        stream: &Stream,
        rocblas: Option<rocblas::Library>,
        hipblaslt: Option<hipblaslt::Library>,
        workspace_bytes: usize,
    ) -> Result<BlasHandles> {
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
    Kernel { function: Function, grid: Grid, arguments: ArgumentWords },
    Rocblas { shape: GemmShape, operands: GemmOperands, solution: Option<i32> },
    HipblasLt { plan: Arc<hipblaslt::Plan>, descriptor: Arc<hipblaslt::Descriptor>, operands: GemmOperands },
}

/// One launch.
pub(crate) struct Step {
    name: String,
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
        Step { name, operation: Operation::Kernel { function, grid, arguments: words }, operations: 0.0 }
    }

    /// A product by rocBLAS.
    pub(crate) fn rocblas(
        name: String,
        shape: GemmShape,
        operands: GemmOperands,
        solution: Option<i32>,
    ) -> Step {
        let operations = 2.0 * shape.operations();
        Step { name, operation: Operation::Rocblas { shape, operands, solution }, operations }
    }

    /// A product by hipBLASLt.
    pub(crate) fn hipblaslt(
        name: String,
        plan: Arc<hipblaslt::Plan>,
        descriptor: Arc<hipblaslt::Descriptor>,
        operands: GemmOperands,
    ) -> Step {
        let operations = 2.0 * plan.shape().operations();
        Step { name, operation: Operation::HipblasLt { plan, descriptor, operands }, operations }
    }

    fn enqueue(&self, stream: &Stream, blas: &BlasHandles) -> Result<()> {
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
    pub(crate) fn enqueue(&self, stream: &Stream, blas: &BlasHandles) -> Result<()> {
        self.steps.iter().try_for_each(|step| step.enqueue(stream, blas))
    }

    /// Runs the steps one by one, `repetitions` times, with the time of each: for tables, not for play.
    pub(crate) fn time(
        &self,
        device: Device,
        stream: &Stream,
        blas: &BlasHandles,
        repetitions: usize,
    ) -> Result<Vec<StepTime>> {
        let (start, end) = (Event::new(device, true)?, Event::new(device, true)?);
        self.steps
            .iter()
            .map(|step| {
                step.enqueue(stream, blas)?;
                start.record(stream)?;
                (0..repetitions).try_for_each(|_| step.enqueue(stream, blas))?;
                end.record(stream)?;
                end.synchronize()?;
                let milliseconds = end.milliseconds_since(&start)? / repetitions as f32;
                Ok(StepTime { name: step.name.clone(), milliseconds, operations: step.operations })
            })
            .collect()
    }
}
