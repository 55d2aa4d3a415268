//! Laying a forward pass out: each call appends the steps of one operation.
//!
//! The pass is laid out twice: once with no memory, which measures what each [`Region`] must hold, and then for
//! every bucket with the memory there.

use super::error::{Result, RocmError};
use super::ffi::arguments::{ActivationArguments, DenseArguments, LayerNormArguments};
use super::ffi::gemm::{ElementType, Epilogue, GemmOperands, GemmShape};
use super::ffi::hip::{Address, Device, DeviceBuffer, Function, Grid};
use super::ffi::program::{KernelArguments, Lane, MAIN_LANE, Step};
use super::gemm::Gemms;
use super::kernels::{Kernels, LARGEST_LAYER_NORM, activation_code, grid};
use super::layers::{Dense, LayerNorm, SQUARES, rows_together};
use crate::net::architecture::Activation;
use std::sync::Arc;

/// A place for intermediate results; what it holds changes in the course of a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(super) enum Region {
    /// Input planes, `[T][planes]`.
    Planes,
    /// The residual stream, `[T][channels]`.
    Stream,
    /// The policy head's residual stream.
    PolicyStream,
    /// Q, K and V; a feed-forward's hidden layer; a convolution's result.
    Wide,
    /// The result of the heads' attention; the first layer of a head.
    Narrow,
    /// What is added to the residual stream.
    Branch,
    /// Attention logits, `[B][heads][64][64]`.
    Logits,
    /// Smolgen's compressed squares, `[T][channels]`.
    Compressed,
    /// Hidden layer of smolgen.
    Hidden,
    /// Smolgen's generated vectors, `[B * heads][generated]`.
    Generated,
    /// Winograd's components of a convolution's input, `[36][4 B][channels]`.
    Components,
    /// Winograd's sums, `[36][4 B][channels]`.
    Sums,
    /// Means over each channel's squares, `[B][channels]` of fp32.
    Means,
    /// First layer of the value head, then of its error's: they may run beside the policy's.
    ValueSquares,
    /// Hidden layer of the value head, then of its error's.
    ValueHidden,
    /// First layer of the moves-left head.
    MovesLeftSquares,
    /// Hidden layer of the moves-left head.
    MovesLeftHidden,
}

const REGIONS: usize = 17;

/// Lanes for branches: the first is smolgen's and the value head's, the second the moves-left head's.
pub(super) const BRANCHES: usize = 2;

/// A slot's memory for intermediate results.
pub(super) struct Scratch {
    buffer: Arc<DeviceBuffer>,
    starts: [usize; REGIONS],
}

/// What each region must hold, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ScratchSizes([usize; REGIONS]);

impl ScratchSizes {
    /// Bytes of all regions.
    pub(super) fn total(&self) -> usize {
        self.0.iter().map(|size| size.next_multiple_of(ALIGNMENT)).sum()
    }
}

/// Regions begin at multiples of this many bytes.
const ALIGNMENT: usize = 256;

impl Scratch {
    /// Memory of these sizes.
    pub(super) fn new(device: Device, sizes: &ScratchSizes) -> Result<Scratch> {
        let mut starts = [0; REGIONS];
        let mut end = 0;
        for (start, size) in starts.iter_mut().zip(sizes.0) {
            *start = end;
            end += size.next_multiple_of(ALIGNMENT);
        }
        let buffer = Arc::new(DeviceBuffer::zeroed(device, end, "intermediate results")?);
        Ok(Scratch { buffer, starts })
    }

    /// To keep it alive.
    pub(super) fn buffer(&self) -> Arc<DeviceBuffer> {
        Arc::clone(&self.buffer)
    }
}

/// The steps of a pass for `positions`, so far.
pub(super) struct StepList<'a> {
    pub(super) positions: usize,
    pub(super) element: ElementType,
    pub(super) kernels: &'a Kernels,
    gemms: &'a Gemms,
    scratch: Option<&'a Scratch>,
    /// Whether branches have lanes of their own.
    forks: bool,
    /// Products of at most so many rows are our own kernel's.
    few_rows: usize,
    lane: Lane,
    sizes: ScratchSizes,
    steps: Vec<Step>,
}

impl<'a> StepList<'a> {
    /// Empty. Without `scratch` the pass is only measured.
    pub(super) fn new(
        positions: usize,
        element: ElementType,
        kernels: &'a Kernels,
        gemms: &'a Gemms,
        scratch: Option<&'a Scratch>,
    ) -> StepList<'a> {
        let sizes = ScratchSizes::default();
        StepList {
            positions,
            element,
            kernels,
            gemms,
            scratch,
            forks: false,
            few_rows: 0,
            lane: MAIN_LANE,
            sizes,
            steps: Vec::new(),
        }
    }

    /// The same with our own kernel for products of at most so many rows.
    pub(super) fn with_few_rows(self, few_rows: usize) -> StepList<'a> {
        StepList { few_rows, ..self }
    }

    /// The same with branches on lanes of their own, or without.
    pub(super) fn forking(self, forks: bool) -> StepList<'a> {
        StepList { forks, ..self }
    }

    /// Lays `branch` out on lane `lane`, after what is on this one so far and beside what follows here until
    /// [`StepList::join`]. The two sides of a fork must not write what the other reads or writes.
    pub(super) fn branch<R>(&mut self, lane: Lane, branch: impl FnOnce(&mut StepList<'a>) -> R) -> R {
        if !self.forks {
            return branch(self);
        }
        let before = std::mem::replace(&mut self.lane, lane);
        self.push(Step::wait_for(lane, before));
        let result = branch(self);
        self.lane = before;
        result
    }

    /// What follows comes after all that is on lane `lane`.
    pub(super) fn join(&mut self, lane: Lane) {
        if self.forks {
            self.push(Step::wait_for(self.lane, lane));
        }
    }

    fn push(&mut self, step: Step) {
        self.steps.push(step.on(self.lane));
    }

    /// What was laid out, and what memory it needs.
    pub(super) fn finish(self) -> (Vec<Step>, ScratchSizes) {
        (self.steps, self.sizes)
    }

    /// Rows of a matrix of squares: T = 64 B.
    pub(super) fn rows(&self) -> usize {
        self.positions * SQUARES
    }

    /// Where `region` is, to hold `elements` of the element type.
    pub(super) fn region(&mut self, region: Region, elements: usize) -> Address {
        self.region_bytes(region, elements * self.element.bytes())
    }

    /// Where `region` is, to hold `bytes`.
    pub(super) fn region_bytes(&mut self, region: Region, bytes: usize) -> Address {
        let size = &mut self.sizes.0[region as usize];
        *size = bytes.max(*size);
        match self.scratch {
            Some(scratch) => scratch.buffer.address().offset(scratch.starts[region as usize]),
            None => Address::NULL,
        }
    }

    /// Launches a kernel.
    pub(super) fn kernel<A: KernelArguments>(
        &mut self,
        name: impl Into<String>,
        (function, grid): (Function, Grid),
        arguments: A,
    ) {
        self.push(Step::kernel(name.into(), function, grid, arguments));
    }

    /// `y[rows][outputs] = act(x[rows][inputs] W^T + b)`
    pub(super) fn dense(
        &mut self,
        name: &str,
        layer: &Dense,
        rows: usize,
        (x, y): (Address, Address),
        activation: Activation,
    ) -> Result<()> {
        let has_bias = layer.bias != Address::NULL;
        let epilogue = match activation {
            Activation::None if !has_bias => return self.product(name, layer, rows, (x, y)),
            Activation::None => Some(Epilogue::Bias),
            Activation::Relu if has_bias => Some(Epilogue::BiasRelu),
            Activation::Swish if has_bias => Some(Epilogue::BiasSwish),
            _ => None,
        };
        if let Some(epilogue) = epilogue {
            let shape = GemmShape { epilogue, ..self.shape(layer, rows) };
            let operands = GemmOperands { weights: layer.weights, x, y };
            if let Some(step) = self.gemms.step(name, &shape, operands, layer.bias)? {
                self.push(step);
                return Ok(());
            }
        }
        self.product(name, layer, rows, (x, y))?;
        self.activate(&format!("{name} activation"), y, layer.bias, (rows, layer.outputs), activation)
    }

    /// `y[rows][outputs] = x[rows][inputs] W^T`: the bias is left to the next step.
    pub(super) fn product(
        &mut self,
        name: &str,
        layer: &Dense,
        rows: usize,
        (x, y): (Address, Address),
    ) -> Result<()> {
        if rows <= self.few_rows
            && let Some(launch) = self.kernels.dense(rows, (layer.outputs, layer.inputs), false)
        {
            let arguments = dense_arguments(layer, rows, (x, y), None);
            self.kernel(name, launch, arguments);
            return Ok(());
        }
        let shape = self.shape(layer, rows);
        self.gemm(name, &shape, GemmOperands { weights: layer.weights, x, y })
    }

    /// `y[rows][outputs] = norm(x) W^T`, where the norm works in place: what x holds afterwards is not said.
    pub(super) fn norm_product(
        &mut self,
        (norm_name, norm): (&str, Norm<'_>),
        (name, layer): (&str, &Dense),
        rows: usize,
        y: Address,
    ) -> Result<()> {
        let x = norm.output;
        if rows <= self.few_rows
            && norm.ln.width == layer.inputs
            && let Some(activation) = activation_code(norm.activation)
            && let Some(launch) = self.kernels.dense(rows, (layer.outputs, layer.inputs), true)
        {
            let arguments = dense_arguments(layer, rows, (x, y), Some((&norm, activation)));
            self.kernel(format!("{norm_name} and {}", last_word(name)), launch, arguments);
            return Ok(());
        }
        self.layer_norm(norm_name, norm, rows)?;
        self.product(name, layer, rows, (x, y))
    }

    /// `y += x W^T`
    pub(super) fn product_added(
        &mut self,
        name: &str,
        layer: &Dense,
        rows: usize,
        (x, y): (Address, Address),
    ) -> Result<()> {
        let shape = GemmShape { accumulate: true, ..self.shape(layer, rows) };
        self.gemm(name, &shape, GemmOperands { weights: layer.weights, x, y })
    }

    /// A product without epilogue.
    pub(super) fn gemm(&mut self, name: &str, shape: &GemmShape, operands: GemmOperands) -> Result<()> {
        let step = self.gemms.step(name, shape, operands, Address::NULL)?;
        if let Some(step) = step {
            self.push(step);
        }
        Ok(())
    }

    fn shape(&self, layer: &Dense, rows: usize) -> GemmShape {
        GemmShape::plain(rows, layer.outputs, layer.inputs, self.element)
    }

    /// `x = act(x + bias)`, in place; over rows for the softmax.
    pub(super) fn activate(
        &mut self,
        name: &str,
        x: Address,
        bias: Address,
        (rows, width): (usize, usize),
        activation: Activation,
    ) -> Result<()> {
        let code = activation_code(activation);
        // The softmax takes rows of any width.
        let together = if code.is_some() { rows_together(width) } else { 1 };
        if !rows.is_multiple_of(together) {
            let text =
                format!("{name}: {rows} rows of {width} channels, but the kernels need a multiple of 8");
            return Err(RocmError::Unsupported(text));
        }
        let (rows, width) = (rows / together, width * together);
        let launch = match code {
            Some(_) => {
                let blocks = (rows * width).div_ceil(2048);
                (self.kernels.function("activation", "")?, grid(blocks, 1, 256))
            }
            None => (self.kernels.function("softmax", "")?, grid(rows.div_ceil(8), 1, 256)),
        };
        let arguments = ActivationArguments {
            input: x,
            bias,
            multiply: Address::NULL,
            add: Address::NULL,
            output: x,
            rows: rows as i32,
            width: width as i32,
            bias_rows: 1,
            activation: code.unwrap_or(0),
        };
        self.kernel(name, launch, arguments);
        Ok(())
    }

    /// `output = LN(alpha * act(input + bias) + residual) * multiply + add`
    pub(super) fn layer_norm(&mut self, name: &str, norm: Norm<'_>, rows: usize) -> Result<()> {
        let width = norm.ln.width;
        if width > LARGEST_LAYER_NORM {
            let text = format!("{name}: {width} channels, at most {LARGEST_LAYER_NORM}");
            return Err(RocmError::Unsupported(text));
        }
        let activation = activation_code(norm.activation)
            .ok_or_else(|| RocmError::Unsupported(format!("{name}: a softmax before a LayerNorm")))?;
        let (multiply, add) = norm.gates.unwrap_or((Address::NULL, Address::NULL));
        let launch = self.kernels.layer_norm(rows, width)?;
        let arguments = LayerNormArguments {
            input: norm.input,
            bias: norm.bias,
            residual: norm.residual,
            gammas: norm.ln.gammas,
            betas: norm.ln.betas,
            multiply,
            add,
            output: norm.output,
            rows: rows as i32,
            width: width as i32,
            bias_rows: 1,
            activation,
            alpha: norm.alpha,
            epsilon: norm.ln.epsilon,
        };
        self.kernel(name, launch, arguments);
        Ok(())
    }
}

fn dense_arguments(
    layer: &Dense,
    rows: usize,
    (input, output): (Address, Address),
    norm: Option<(&Norm<'_>, i32)>,
) -> DenseArguments {
    let null = Address::NULL;
    let (bias, gammas, betas) =
        norm.map_or((null, null, null), |(norm, _)| (norm.bias, norm.ln.gammas, norm.ln.betas));
    DenseArguments {
        input,
        weights: layer.weights,
        output,
        bias,
        gammas,
        betas,
        rows: rows as i32,
        inputs: layer.inputs as i32,
        outputs: layer.outputs as i32,
        activation: norm.map_or(0, |(_, activation)| activation),
        epsilon: norm.map_or(0.0, |(norm, _)| norm.ln.epsilon),
        reserved: 0,
    }
}

fn last_word(name: &str) -> &str {
    name.rsplit(' ').next().unwrap_or(name)
}

/// What a LayerNorm step reads and writes.
pub(super) struct Norm<'a> {
    pub(super) ln: &'a LayerNorm,
    pub(super) input: Address,
    pub(super) bias: Address,
    pub(super) activation: Activation,
    pub(super) alpha: f32,
    pub(super) residual: Address,
    pub(super) gates: Option<(Address, Address)>,
    pub(super) output: Address,
}

impl<'a> Norm<'a> {
    /// `x = LN(act(x + bias))`
    pub(super) fn in_place(ln: &'a LayerNorm, x: Address, bias: Address, activation: Activation) -> Norm<'a> {
        let residual = Address::NULL;
        Norm { ln, input: x, bias, activation, alpha: 1.0, residual, gates: None, output: x }
    }

    /// `x = LN(alpha * (branch + bias) + x)`
    pub(super) fn join(
        ln: &'a LayerNorm,
        branch: Address,
        bias: Address,
        alpha: f32,
        x: Address,
    ) -> Norm<'a> {
        let activation = Activation::None;
        Norm { ln, input: branch, bias, activation, alpha, residual: x, gates: None, output: x }
    }
}
