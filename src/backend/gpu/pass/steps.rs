//! The builder of a forward pass: each call of a [`StepList`] appends the steps of one operation.
//!
//! A pass is first laid out without memory, to measure the size of each [`Region`]. Then it is laid out for each bucket
//! with the allocated memory.

use super::kernel_work::KernelWork;
use super::norm::Norm;
use super::scratch::{Region, Scratch, ScratchSizes};
use crate::gemm::bytes::{ByteGemm, ByteOperands, byte_gemm};
use crate::gemm::chain::{Link, WholeConvolution};
use crate::gemm::gemms::{GemmProblem, Gemms};
use crate::network::layers::{ByteKind, ByteWeights, Dense, SQUARES, rows_together};
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::arguments::{ActivationArguments, DenseArguments};
use crate::runtime::ffi::gemm::{ElementType, Epilogue, GateOperands, GemmOperands, GemmShape};
use crate::runtime::ffi::hip::Address;
use crate::runtime::ffi::hipblaslt::ScaledFactors;
use crate::runtime::ffi::module::{Function, Grid};
use crate::runtime::ffi::program::{KernelArguments, Lane, MAIN_LANE, Step};
use crate::runtime::kernels::{AttentionKernel, Kernels, activation_code, grid};
use crate::runtime::shared_launches::SharedLaunches;
use rukh_net::architecture::Activation;

/// The number of side lanes: the first is for smolgen and the value head, the second for the moves-left head.
pub(crate) const BRANCHES: usize = 2;

/// The steps of a forward pass for `positions` that have been appended so far.
pub(crate) struct StepList<'a> {
    pub(crate) positions: usize,
    pub(crate) element: ElementType,
    pub(crate) kernels: &'a Kernels,
    /// The kernel for attention.
    pub(crate) attention: AttentionKernel,
    gemms: &'a Gemms,
    scratch: Option<&'a Scratch>,
    /// Whether branches run on side lanes.
    forks: bool,
    /// The most rows of a GEMM that our own kernel computes.
    few_rows: usize,
    /// Which GEMMs of our own share a launch with what follows them.
    shared_launches: SharedLaunches,
    /// Whether the next steps are those of smolgen.
    is_in_smolgen: bool,
    /// The lane of the next step.
    lane: Lane,
    sizes: ScratchSizes,
    steps: Vec<Step>,
}

impl<'a> StepList<'a> {
    /// Makes an empty list. Without `scratch` the pass is only measured.
    pub(crate) fn new(
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
            attention: AttentionKernel::Matrix,
            gemms,
            scratch,
            forks: false,
            few_rows: 0,
            shared_launches: SharedLaunches::None,
            is_in_smolgen: false,
            lane: MAIN_LANE,
            sizes,
            steps: Vec::new(),
        }
    }

    /// Uses our own kernel for GEMMs of at most `few_rows` rows.
    pub(crate) fn with_few_rows(self, few_rows: usize) -> StepList<'a> {
        StepList { few_rows, ..self }
    }

    /// Sets which GEMMs of our own share a launch with the LayerNorm or the GEMM that follows, where they can.
    pub(crate) fn sharing(self, shared_launches: SharedLaunches) -> StepList<'a> {
        StepList { shared_launches, ..self }
    }

    /// Uses this kernel for attention.
    pub(crate) fn with_attention(self, attention: AttentionKernel) -> StepList<'a> {
        StepList { attention, ..self }
    }

    /// Sets whether branches run on side lanes.
    pub(crate) fn forking(self, forks: bool) -> StepList<'a> {
        StepList { forks, ..self }
    }

    /// Appends the steps of `branch` on lane `lane`. The branch starts after the steps that are already on the current
    /// lane. It runs in parallel to the later steps of the current lane, until [`StepList::join`]. Neither side of the
    /// fork may write memory that the other side uses.
    pub(crate) fn branch<R>(&mut self, lane: Lane, branch: impl FnOnce(&mut StepList<'a>) -> R) -> R {
        if !self.forks {
            return branch(self);
        }
        let before = std::mem::replace(&mut self.lane, lane);
        self.push(Step::wait_for(lane, before));
        let result = branch(self);
        self.lane = before;
        result
    }

    /// Appends the steps of `smolgen`, which may share launches even if no others do.
    pub(crate) fn smolgen<R>(&mut self, smolgen: impl FnOnce(&mut StepList<'a>) -> R) -> R {
        self.is_in_smolgen = true;
        let result = smolgen(self);
        self.is_in_smolgen = false;
        result
    }

    /// Whether the next steps share launches.
    fn shares(&self) -> bool {
        match self.shared_launches {
            SharedLaunches::None => false,
            SharedLaunches::Smolgen => self.is_in_smolgen,
            SharedLaunches::All => true,
        }
    }

    /// Makes the following steps wait for all steps on lane `lane`.
    pub(crate) fn join(&mut self, lane: Lane) {
        if self.forks {
            self.push(Step::wait_for(self.lane, lane));
        }
    }

    fn push(&mut self, step: Step) {
        self.steps.push(step.on(self.lane));
    }

    /// The steps, and the memory that they need.
    pub(crate) fn finish(self) -> (Vec<Step>, ScratchSizes) {
        (self.steps, self.sizes)
    }

    /// The number of rows of a matrix of squares: T = 64 B.
    pub(crate) fn rows(&self) -> usize {
        self.positions * SQUARES
    }

    /// The address of `region`, which must hold `elements` of the element type.
    pub(crate) fn region(&mut self, region: Region, elements: usize) -> Address {
        self.region_bytes(region, elements * self.element.bytes())
    }

    /// The address of `region`, which must hold `bytes`.
    pub(crate) fn region_bytes(&mut self, region: Region, bytes: usize) -> Address {
        self.sizes.need(region, bytes);
        self.scratch.map_or(Address::NULL, |scratch| scratch.address(region))
    }

    /// Appends a kernel launch.
    pub(crate) fn kernel<A: KernelArguments + KernelWork>(
        &mut self,
        name: impl Into<String>,
        (function, grid): (Function, Grid),
        arguments: A,
    ) {
        let work = arguments.work(grid, self.element);
        self.push(Step::kernel(name.into(), function, grid, arguments).with_work(work));
    }

    /// `y[rows][outputs] = act(x[rows][inputs] W^T + b)`
    pub(crate) fn dense(
        &mut self,
        name: &str,
        layer: &Dense,
        rows: usize,
        (x, y): (Address, Address),
        activation: Activation,
    ) -> Result<()> {
        if let Some(weights) = &layer.bytes {
            let Some(epilogue) = epilogue(activation) else {
                let text = format!("{name}: a softmax after a GEMM of 8-bit numbers is not supported");
                return Err(GpuError::Unsupported(text));
            };
            return self.byte_gemm(name, (layer, weights), rows, (x, y), (epilogue, activation));
        }
        if activation == Activation::None && layer.bias == Address::NULL {
            return self.gemm(name, layer, rows, (x, y));
        }
        self.gated_dense(name, layer, rows, (x, y), (activation, None))
    }

    /// `y[rows][outputs] = act(x[rows][inputs] W^T + b) * multiply + add`, without the gates if there are none.
    pub(crate) fn gated_dense(
        &mut self,
        name: &str,
        layer: &Dense,
        rows: usize,
        (x, y): (Address, Address),
        (activation, gates): (Activation, Option<GateOperands>),
    ) -> Result<()> {
        let has_bias = layer.bias != Address::NULL;
        let is_only_gated = activation == Activation::None && !has_bias;
        let epilogue = if is_only_gated { Some(Epilogue::None) } else { epilogue(activation) };
        let is_possible = layer.bytes.is_none() && (has_bias || is_only_gated);
        if let Some(epilogue) = epilogue.filter(|_| is_possible) {
            let shape = GemmShape { epilogue, is_gated: gates.is_some(), ..self.shape(layer, rows) };
            let operands = GemmOperands { gates, ..GemmOperands::plain(layer.weights, x, y) };
            if let Some(step) = self.gemms.step(name, &shape, operands, layer.bias)? {
                self.push(step);
                return Ok(());
            }
        }
        self.gemm(name, layer, rows, (x, y))?;
        let name = format!("{name} activation{}", if gates.is_some() { " and gates" } else { "" });
        self.activate(&name, (y, layer.bias, gates), (rows, layer.outputs), activation)
    }

    /// `y = act(x W^T + b)` for a layer with weights of 8 bits. The epilogue says whether there are a bias and the
    /// activation.
    fn byte_gemm(
        &mut self,
        name: &str,
        (layer, weights): (&Dense, &ByteWeights),
        rows: usize,
        (x, y): (Address, Address),
        (epilogue, activation): (Epilogue, Activation),
    ) -> Result<()> {
        // x [rows][inputs] -> bytes [rows][inputs], scales [rows][1 or 2] -> y [rows][outputs]
        let bytes = self.region_bytes(Region::Bytes, rows * layer.inputs);
        let row_scales = self.region_bytes(Region::RowScales, rows * 2 * size_of::<f32>());
        let memory = ByteOperands { x, bytes, row_scales, y };
        let shape = GemmShape { epilogue, ..self.shape(layer, rows) };
        let byte_shape = GemmShape { input_type: weights.kind.element(), ..shape };
        let bias = layer.bias;
        let operands = GemmOperands::plain(weights.weights, bytes, y);
        let choice = self.gemms.byte_choice(GemmProblem::plain(byte_shape, operands, bias));
        let choice = (self.gemms.multiprocessors(), choice);
        let launches = byte_gemm(name, (&byte_shape, weights, bias), &memory, self.kernels, choice)?;
        let ByteGemm { rounding: (rounding, rounded), gemm: (gemm, factors) } = launches;
        self.kernel(format!("{name} rounding"), rounding, rounded);
        let ByteKind::Floats(format) = weights.kind else {
            self.kernel(name, gemm, factors);
            return Ok(());
        };
        let work = factors.work(gemm.1, self.element);
        let scaled = ScaledFactors { format, weights_scales: weights.scales, row_scales };
        let problem = GemmProblem::plain(shape, operands, bias);
        let plain = GemmProblem { shape: shape.without_epilogue(), ..problem };
        if let Some(step) = self.gemms.scaled_step(name, &problem, &scaled) {
            self.push(step.with_work(work));
        } else if let Some(step) = self.gemms.scaled_step(name, &plain, &scaled) {
            self.push(step.with_work(work));
            let activation_name = format!("{name} activation");
            self.activate(&activation_name, (y, bias, None), (rows, layer.outputs), activation)?;
        } else {
            self.kernel(name, gemm, factors);
        }
        Ok(())
    }

    /// Our own kernel for GEMMs of few rows, if it is to compute this one. `normalises` says whether a LayerNorm of
    /// the input is part of the kernel.
    fn few_rows_kernel(&self, layer: &Dense, rows: usize, normalises: bool) -> Option<(Function, Grid)> {
        let is_wanted = rows <= self.few_rows;
        is_wanted.then(|| self.kernels.dense(rows, (layer.outputs, layer.inputs), normalises)).flatten()
    }

    /// `y[rows][outputs] = x[rows][inputs] W^T`, without the bias, which the next step adds.
    pub(crate) fn gemm(
        &mut self,
        name: &str,
        layer: &Dense,
        rows: usize,
        (x, y): (Address, Address),
    ) -> Result<()> {
        if let Some(weights) = &layer.bytes {
            let epilogue = (Epilogue::None, Activation::None);
            return self.byte_gemm(name, (layer, weights), rows, (x, y), epilogue);
        }
        if let Some(launch) = self.few_rows_kernel(layer, rows, false) {
            let arguments = dense_arguments(layer, rows, (x, y), None);
            self.kernel(name, launch, arguments);
            return Ok(());
        }
        let shape = self.shape(layer, rows);
        self.gemm_of_shape(name, &shape, GemmOperands::plain(layer.weights, x, y))
    }

    /// `y = norm(x V^T) W^T`, where the first GEMM goes to `norm.input`, which is normalised in place.
    pub(crate) fn gemm_norm_gemm(
        &mut self,
        first: (&str, &Dense),
        (norm_name, norm): (&str, Norm<'_>),
        (name, layer): (&str, &Dense),
        rows: usize,
        (x, y): (Address, Address),
    ) -> Result<()> {
        let between = norm.output;
        if norm.ln.width == layer.inputs
            && let Some(activation) = activation_code(norm.activation)
            && let Some(launch) = self.few_rows_kernel(layer, rows, true)
        {
            self.gemm(first.0, first.1, rows, (x, between))?;
            let arguments = dense_arguments(layer, rows, (between, y), Some((&norm, activation)));
            self.kernel(format!("{norm_name} and {}", last_word(name)), launch, arguments);
            return Ok(());
        }
        self.gemm_and_norm(first, rows, x, (norm_name, norm))?;
        self.gemm(name, layer, rows, (between, y))
    }

    /// `y += x W^T`
    pub(crate) fn gemm_added(
        &mut self,
        name: &str,
        layer: &Dense,
        rows: usize,
        (x, y): (Address, Address),
    ) -> Result<()> {
        let shape = GemmShape { accumulate: true, ..self.shape(layer, rows) };
        self.gemm_of_shape(name, &shape, GemmOperands::plain(layer.weights, x, y))
    }

    /// Appends a GEMM of any shape, without an epilogue.
    pub(crate) fn gemm_of_shape(
        &mut self,
        name: &str,
        shape: &GemmShape,
        operands: GemmOperands,
    ) -> Result<()> {
        let step = self.gemms.step(name, shape, operands, Address::NULL)?;
        if let Some(step) = step {
            self.push(step);
        }
        Ok(())
    }

    /// Appends a chain of GEMMs, if our kernels are to compute all of them in one launch.
    fn chain(&mut self, name: &str, links: &[Link]) -> bool {
        let step = if self.shares() { self.gemms.chain(name, links) } else { None };
        self.push_if_some(step)
    }

    /// A GEMM of a chain: `y = act(x W^T + b)`, or the LayerNorm of `x W^T` that `norm` describes, with its name.
    /// `None` if our kernels lack the activation, or for weights of 8 bits.
    pub(crate) fn link(
        &self,
        layer: &Dense,
        rows: usize,
        (x, y): (Address, Address),
        activation: Activation,
        norm: Option<(&str, &Norm<'_>)>,
    ) -> Result<Option<Link>> {
        if layer.bytes.is_some() {
            return Ok(None);
        }
        // A LayerNorm adds the bias itself.
        let is_plain = norm.is_some() || activation == Activation::None && layer.bias == Address::NULL;
        let epilogue = if is_plain { Some(Epilogue::None) } else { epilogue(activation) };
        let norm = norm.map(|(name, norm)| norm.arguments(name, rows)).transpose()?;
        let operands = GemmOperands::plain(layer.weights, x, y);
        Ok(epilogue.map(|epilogue| Link {
            shape: GemmShape { epilogue, ..self.shape(layer, rows) },
            operands,
            bias: layer.bias,
            norm,
        }))
    }

    /// Appends the GEMMs of `links`, each of which reads the results of the one before, as one launch. Returns whether
    /// our kernels can do that; if not, nothing is appended.
    pub(crate) fn gemms_in_a_row(&mut self, name: &str, links: &[Option<Link>]) -> bool {
        let links: Option<Vec<Link>> = links.iter().copied().collect();
        let links = links.filter(|links| links.iter().all(|link| link.shape.rows > self.few_rows));
        links.is_some_and(|links| self.chain(name, &links))
    }

    /// Appends a convolution as one launch. Returns whether our kernels can do that; if not, nothing is appended.
    pub(crate) fn whole_convolution(&mut self, name: &str, convolution: &WholeConvolution) -> bool {
        let step = if self.shares() { self.gemms.convolution(name, convolution) } else { None };
        self.push_if_some(step)
    }

    fn push_if_some(&mut self, step: Option<Step>) -> bool {
        let is_some = step.is_some();
        step.into_iter().for_each(|step| self.push(step));
        is_some
    }

    fn shape(&self, layer: &Dense, rows: usize) -> GemmShape {
        let may_round = layer.may_round && self.gemms.rounds_weights();
        GemmShape { may_round, ..GemmShape::plain(rows, layer.outputs, layer.inputs, self.element) }
    }

    /// `x = act(x + bias) * multiply + add`, in place, without the gates if there are none. A softmax is taken over each
    /// row.
    pub(crate) fn activate(
        &mut self,
        name: &str,
        (x, bias, gates): (Address, Address, Option<GateOperands>),
        (rows, width): (usize, usize),
        activation: Activation,
    ) -> Result<()> {
        let code = activation_code(activation);
        // The softmax kernel supports rows of any width, but the elementwise kernel reads 8 elements at a time.
        let together = if code.is_some() { rows_together(width) } else { 1 };
        if gates.is_some() && (together > 1 || code.is_none()) {
            let text = format!(
                "{name}: gates of {width} channels, but the kernels need a multiple of 8 and no softmax"
            );
            return Err(GpuError::Unsupported(text));
        }
        if !rows.is_multiple_of(together) {
            let text =
                format!("{name}: {rows} rows of {width} channels, but the kernels need a multiple of 8");
            return Err(GpuError::Unsupported(text));
        }
        let (rows, width) = (rows / together, width * together);
        let launch = match code {
            Some(_) => {
                let blocks = (rows * width).div_ceil(2048);
                (self.kernels.function("activation", "")?, grid(blocks, 1, 256))
            }
            None => (self.kernels.function("softmax", "")?, grid(rows.div_ceil(8), 1, 256)),
        };
        let [multiply, add] = GateOperands::addresses(gates);
        let arguments = ActivationArguments {
            input: x,
            bias,
            multiply,
            add,
            output: x,
            rows: rows as i32,
            width: width as i32,
            bias_rows: 1,
            activation: code.unwrap_or(0),
        };
        self.kernel(name, launch, arguments);
        Ok(())
    }

    /// `norm.input = x W^T`, and then `norm`.
    pub(crate) fn gemm_and_norm(
        &mut self,
        (name, layer): (&str, &Dense),
        rows: usize,
        x: Address,
        (norm_name, norm): (&str, Norm<'_>),
    ) -> Result<()> {
        let y = norm.input;
        if layer.bytes.is_some() || self.few_rows_kernel(layer, rows, false).is_some() {
            self.gemm(name, layer, rows, (x, y))?;
            return self.layer_norm(norm_name, norm, rows);
        }
        let shape = self.shape(layer, rows);
        let operands = GemmOperands::plain(layer.weights, x, y);
        self.gemm_of_shape_and_norm(name, &shape, operands, (norm_name, norm))
    }

    /// A GEMM of any shape without an epilogue, and then `norm`, whose input is the GEMM's output.
    fn gemm_of_shape_and_norm(
        &mut self,
        name: &str,
        shape: &GemmShape,
        operands: GemmOperands,
        (norm_name, norm): (&str, Norm<'_>),
    ) -> Result<()> {
        let arguments = norm.arguments(norm_name, shape.rows)?;
        let both = format!("{name} and {}", last_words(norm_name));
        let bias = Address::NULL;
        let link = Link { shape: *shape, operands, bias, norm: Some(arguments) };
        if self.chain(&both, &[link]) {
            return Ok(());
        }
        self.gemm_of_shape(name, shape, operands)?;
        self.layer_norm(norm_name, norm, shape.rows)
    }

    /// `norm.input += x W^T`, and then `norm`.
    pub(crate) fn gemm_added_and_norm(
        &mut self,
        (name, layer): (&str, &Dense),
        rows: usize,
        x: Address,
        norm: (&str, Norm<'_>),
    ) -> Result<()> {
        let shape = GemmShape { accumulate: true, ..self.shape(layer, rows) };
        let operands = GemmOperands::plain(layer.weights, x, norm.1.input);
        self.gemm_of_shape_and_norm(name, &shape, operands, norm)
    }

    /// `output = LN(alpha * act(input + bias) + residual) * multiply + add`
    pub(crate) fn layer_norm(&mut self, name: &str, norm: Norm<'_>, rows: usize) -> Result<()> {
        let arguments = norm.arguments(name, rows)?;
        let launch = self.kernels.layer_norm(rows, norm.ln.width)?;
        self.kernel(name, launch, arguments);
        Ok(())
    }
}

/// The epilogue that adds a bias and then applies `activation`; `None` for a softmax.
fn epilogue(activation: Activation) -> Option<Epilogue> {
    match activation {
        Activation::None => Some(Epilogue::Bias),
        Activation::Relu => Some(Epilogue::BiasRelu),
        Activation::Relu2 => Some(Epilogue::BiasRelu2),
        Activation::Tanh => Some(Epilogue::BiasTanh),
        Activation::Sigmoid => Some(Epilogue::BiasSigmoid),
        Activation::Selu => Some(Epilogue::BiasSelu),
        Activation::Mish => Some(Epilogue::BiasMish),
        Activation::Swish => Some(Epilogue::BiasSwish),
        Activation::Softmax => None,
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

/// The name of a LayerNorm without the layer that it belongs to.
fn last_words(name: &str) -> &str {
    name.rfind("LayerNorm").and_then(|start| name.get(start..)).unwrap_or(name)
}
