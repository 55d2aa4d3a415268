//! Chooses the library and the algorithm for each matrix product.
//!
//! [`Gemms`] is the dispatcher between the forward pass, the two BLAS libraries and our own kernels. It looks up each
//! shape in its [`GemmTable`], which [`super::tuning`] fills. A shape that is not in the table gets the architecture's default.

use super::avoided::{Avoided, BlasLibrary};
use super::chain::{Link, WholeConvolution};
use super::device::Gpu;
use super::error::{Result, RocmError};
use super::ffi::gemm::{ElementType, Epilogue, GemmOperands, GemmShape, WORKSPACE_BYTES};
use super::ffi::hip::{Address, Device, DeviceBuffer};
use super::ffi::hipblaslt::{self, ScaledFactors};
use super::ffi::module::Function;
use super::ffi::program::{BlasLibraries, Step};
use super::hipblaslt_steps::HipblasLtSteps;
use super::kernels::Kernels;
use super::libraries::GemmLibrary;
pub(super) use super::measured::{Effort, GemmChoice, GemmTable, Measured};
use super::own::{OwnChoice, OwnKernels, are_aligned};
use super::preshuffle::PreshuffledWeights;
use super::thresholds::{Thresholds, thresholds};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A matrix product that a forward pass needs: its shape and the addresses of its matrices.
#[derive(Clone, Copy, Debug)]
pub(super) struct GemmProblem {
    pub(super) shape: GemmShape,
    pub(super) operands: GemmOperands,
    pub(super) bias: Address,
    /// The preshuffled weights; null if there are none.
    pub(super) preshuffled: Address,
}

/// The dispatcher for matrix products on one device.
pub(super) struct Gemms {
    device: Device,
    compute_units: usize,
    table: RefCell<GemmTable>,
    /// Which products use preshuffled weights, according to the table.
    thresholds: RefCell<Thresholds>,
    /// The preshuffled weights of the layers that need them. They are made for the first one.
    preshuffled: RefCell<Option<PreshuffledWeights>>,
    has_rocblas: bool,
    hipblaslt: Option<HipblasLtSteps>,
    /// Our own kernels, unless the user wants a library.
    own: Option<OwnKernels>,
    /// The reasons why an installed library is not used.
    refusals: Vec<String>,
    /// Whether to prefer hipBLASLt for 16-bit products if both libraries are available.
    prefers_hipblaslt: bool,
    /// The fewest rows of a product in e4m3 that hipBLASLt computes.
    scaled_rows: usize,
    /// During a [`Gemms::survey`], the products that were requested so far.
    survey: RefCell<Option<Vec<GemmProblem>>>,
    /// The products that a library is not asked for, because a process that asked for them crashed or hung.
    avoided: RefCell<Avoided>,
    /// The products that a helper process asked hipBLASLt for and survived. `None` means that there was no helper
    /// process, and that every product may be asked for.
    survived: RefCell<Option<BTreeSet<GemmShape>>>,
}

/// The fewest rows of a product in e4m3 for hipBLASLt on an NVIDIA card, where it is cuBLASLt. Our own kernel lacks the
/// instruction `wgmma`, which large products need on sm_90. For fewer rows it saves the step that adds a bias and applies
/// an activation.
const SCALED_ROWS_ON_NVIDIA: usize = 512;

/// The fewest rows of a product in e4m3 that hipBLASLt computes. On AMD's cards our kernels compute all, unless the user
/// wants a library: nobody has asked AMD's hipBLASLt for such products, and no helper process asks it first.
fn scaled_rows(architecture: &str, has_own: bool) -> usize {
    match (architecture.starts_with("gfx"), has_own) {
        (_, false) => 0,
        (false, true) => SCALED_ROWS_ON_NVIDIA,
        (true, true) => usize::MAX,
    }
}

/// Architectures on which rocBLAS was faster than hipBLASLt in the latest published measurements. Tuning overrides
/// this.
const ROCBLAS_ARCHITECTURES: [&str; 5] = ["gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1103"];

impl Drop for Gemms {
    fn drop(&mut self) {
        // Destroying a handle or a stream may free memory, which would wait for the device.
        if self.device.is_hung() {
            std::mem::forget(self.hipblaslt.take());
            std::mem::forget(self.preshuffled.take());
        }
    }
}

impl Gemms {
    /// A dispatcher for the libraries of `gpu` and for the products among `kernels`.
    pub(super) fn new(gpu: &Gpu, kernels: &Kernels, library: GemmLibrary) -> Result<Gemms> {
        hipblaslt::check_room(gpu.device)?;
        let mut refusals = gpu.refusals.clone();
        let has_own = library.has_own();
        let hipblaslt = match gpu.hipblaslt {
            Some(library) => match HipblasLtSteps::new(library) {
                Ok(steps) => Some(steps),
                // rocBLAS or our own kernels are enough.
                Err(error) if gpu.rocblas.is_some() || has_own => {
                    if let RocmError::Unsupported(reason) = error {
                        refusals.push(reason);
                    }
                    None
                }
                Err(error) => return Err(error),
            },
            None => None,
        };
        let prefers_hipblaslt =
            library == GemmLibrary::HipblasLt || !ROCBLAS_ARCHITECTURES.contains(&gpu.architecture.as_str());
        Ok(Gemms {
            device: gpu.device,
            compute_units: gpu.compute_units.max(1),
            table: RefCell::default(),
            thresholds: RefCell::default(),
            preshuffled: RefCell::default(),
            has_rocblas: gpu.rocblas.is_some(),
            hipblaslt,
            own: has_own.then(|| OwnKernels::new(kernels.module(), gpu.compute_units)),
            refusals,
            prefers_hipblaslt,
            scaled_rows: scaled_rows(&gpu.architecture, has_own),
            survey: RefCell::default(),
            avoided: RefCell::default(),
            survived: RefCell::default(),
        })
    }

    /// Leaves out one of the libraries. Another one must be there.
    pub(super) fn without(mut self, library: BlasLibrary) -> Gemms {
        match library {
            BlasLibrary::Rocblas => (self.has_rocblas, self.prefers_hipblaslt) = (false, true),
            BlasLibrary::HipblasLt => self.hipblaslt = None,
            BlasLibrary::Own => self.own = None,
        }
        self
    }

    /// The device's compute units, at least 1.
    pub(super) fn compute_units(&self) -> usize {
        self.compute_units
    }

    /// Whether `library` is available.
    pub(super) fn has(&self, library: BlasLibrary) -> bool {
        match library {
            BlasLibrary::Rocblas => self.has_rocblas,
            BlasLibrary::HipblasLt => self.hipblaslt.is_some(),
            BlasLibrary::Own => self.own.is_some(),
        }
    }

    /// Sets the products that a library is not asked for.
    pub(super) fn avoid(&self, avoided: Avoided) {
        self.avoided.replace(avoided);
    }

    /// The products that a library is not asked for.
    pub(super) fn avoided(&self) -> Avoided {
        self.avoided.borrow().clone()
    }

    /// Limits hipBLASLt to the products that a helper process asked it for and survived. With `None` every product may
    /// be asked for.
    pub(super) fn limit_to(&self, survived: Option<BTreeSet<GemmShape>>) {
        self.survived.replace(survived);
    }

    /// A copy of [`Gemms::limit_to`]'s argument.
    pub(super) fn limits(&self) -> Option<BTreeSet<GemmShape>> {
        self.survived.borrow().clone()
    }

    /// A copy of the table.
    pub(super) fn table(&self) -> GemmTable {
        self.table.borrow().clone()
    }

    /// Whether `library` is available and may be asked for `shape`.
    fn may_ask(&self, library: BlasLibrary, shape: &GemmShape) -> bool {
        let survived = match library {
            BlasLibrary::Rocblas | BlasLibrary::Own => true,
            BlasLibrary::HipblasLt => {
                self.survived.borrow().as_ref().is_none_or(|survived| survived.contains(shape))
            }
        };
        self.has(library) && survived && !self.avoided.borrow().contains(library, shape)
    }

    /// The libraries for which a slot needs handles.
    pub(super) fn libraries(&self, gpu: &Gpu) -> BlasLibraries {
        let hipblaslt = self.hipblaslt.as_ref().map(HipblasLtSteps::library);
        BlasLibraries { rocblas: gpu.rocblas, hipblaslt, workspace_bytes: WORKSPACE_BYTES }
    }

    /// hipBLASLt's version, if the library is available and reports one.
    pub(super) fn hipblaslt_version(&self) -> Option<i32> {
        self.hipblaslt.as_ref().and_then(HipblasLtSteps::version)
    }

    /// The reasons why an installed library is not used.
    pub(super) fn refusals(&self) -> &[String] {
        &self.refusals
    }

    /// Replaces the table. Programs that have been laid out already keep their steps.
    pub(super) fn set_table(&self, table: GemmTable) {
        self.thresholds.replace(thresholds(&table));
        self.table.replace(table);
    }

    /// Runs `lay_out` and returns every product that it requested from [`Gemms::step`], with the requested epilogue. No
    /// library is asked, so the steps that `lay_out` gets must not be run.
    pub(super) fn survey(&self, lay_out: impl FnOnce() -> Result<()>) -> Result<Vec<GemmProblem>> {
        self.survey.replace(Some(Vec::new()));
        let outcome = lay_out();
        let found = self.survey.take().unwrap_or_default();
        outcome.map(|()| found)
    }

    /// The algorithms that hipBLASLt proposes for a product; none if it must not be asked.
    pub(super) fn proposals(&self, problem: &GemmProblem) -> Vec<GemmChoice> {
        if !self.may_ask(BlasLibrary::HipblasLt, &problem.shape) {
            return Vec::new();
        }
        let solutions = self.hipblaslt.as_ref().map(|steps| steps.solutions(&problem.shape, problem.bias));
        let solutions = solutions.and_then(Result::ok).unwrap_or_default();
        solutions.into_iter().map(|solution| GemmChoice::HipblasLt { solution: Some(solution) }).collect()
    }

    /// The choices that tuning should time: up to `most` algorithms of hipBLASLt, rocBLAS if there is no epilogue, and
    /// our own kernels.
    pub(super) fn candidates(&self, problem: &GemmProblem, most: usize) -> Vec<GemmChoice> {
        let hipblaslt = self.proposals(problem).into_iter().take(most);
        let rocblas = self.may_use_rocblas(&problem.shape).then_some(GemmChoice::Rocblas { solution: None });
        hipblaslt.chain(rocblas).chain(self.own_choices(&problem.shape)).collect()
    }

    /// Whether rocBLAS is available and may be asked for `shape`. It has no epilogues.
    pub(super) fn may_use_rocblas(&self, shape: &GemmShape) -> bool {
        shape.epilogue == Epilogue::None && self.may_ask(BlasLibrary::Rocblas, shape)
    }

    /// The choices of our own kernels, the one that should be fastest first.
    pub(super) fn own_choices(&self, shape: &GemmShape) -> Vec<GemmChoice> {
        let choices = self.own.as_ref().map(|own| own.candidates(shape)).unwrap_or_default();
        choices.into_iter().map(GemmChoice::Own).collect()
    }

    /// A choice of our own kernels with preshuffled weights instead of plain ones; `None` if there is none.
    pub(super) fn with_preshuffled_weights(
        &self,
        shape: &GemmShape,
        choice: GemmChoice,
    ) -> Option<GemmChoice> {
        let GemmChoice::Own(choice) = choice else { return None };
        let changed = choice.with_layout(true);
        let is_new = changed != choice && self.preshuffler(shape).is_some();
        is_new.then_some(GemmChoice::Own(changed))
    }

    /// The kernel that makes preshuffled weights for products of this shape.
    pub(super) fn preshuffler(&self, shape: &GemmShape) -> Option<Function> {
        self.own.as_ref().and_then(|own| own.preshuffler(shape))
    }

    /// The choice with the layout of the weights that the table says: of products of the same layer, those with many rows
    /// have preshuffled weights. The operands have the plain ones. Returns the address of the preshuffled ones, or null. Where
    /// these cannot be made, for example because memory is full, the plain ones do.
    fn laid_out(
        &self,
        shape: &GemmShape,
        (operands, bias): (&GemmOperands, Address),
        choice: OwnChoice,
    ) -> (OwnChoice, Address) {
        let plain = (choice.with_layout(false), Address::NULL);
        let changed = choice.with_layout(true);
        let is_wanted = self.thresholds.borrow().include(shape) && are_aligned(operands, bias);
        let function = if is_wanted && changed.is_preshuffled() { self.preshuffler(shape) } else { None };
        let Some(function) = function else { return plain };
        let mut known = self.preshuffled.borrow_mut();
        if known.is_none() {
            *known = PreshuffledWeights::new(self.device, function).ok();
        }
        let copy = known.as_mut().and_then(|copies| copies.of(shape, operands.weights).ok());
        copy.map_or(plain, |address| (changed, address))
    }

    /// Whether our own kernels compute a product with preshuffled weights, if there is memory for them.
    pub(super) fn prefers_preshuffled(&self, shape: &GemmShape) -> bool {
        let is_own = matches!(self.choice(shape), Some(GemmChoice::Own(_)));
        is_own && self.preshuffler(shape).is_some() && self.thresholds.borrow().include(shape)
    }

    /// The memory of preshuffled weights. A program that was laid out before must keep it.
    pub(super) fn memory(&self) -> Vec<Arc<DeviceBuffer>> {
        self.preshuffled.borrow().as_ref().map(|copies| copies.memory().to_vec()).unwrap_or_default()
    }

    /// The choice of our own kernels that should be the fastest.
    fn best_own_choice(&self, shape: &GemmShape) -> Option<GemmChoice> {
        self.own_choices(shape).into_iter().next()
    }

    /// Whether hipBLASLt is available and has the epilogue.
    pub(super) fn hipblaslt_has(&self, epilogue: Epilogue) -> bool {
        self.hipblaslt.as_ref().is_some_and(|steps| steps.supports(epilogue))
    }

    /// Whether tuning should also time a plain product followed by a separate kernel for the epilogue: where rocBLAS,
    /// which has no epilogues, is preferred, and where no library has this epilogue.
    pub(super) fn may_split(&self, shape: &GemmShape) -> bool {
        let plain = GemmShape { epilogue: Epilogue::None, ..*shape };
        let has_library = self.has(BlasLibrary::Rocblas) || self.has(BlasLibrary::HipblasLt);
        let is_only_ours = has_library && !self.hipblaslt_has(shape.epilogue);
        let prefers_rocblas = self.may_ask(BlasLibrary::Rocblas, &plain) && !self.prefers_hipblaslt;
        shape.epilogue != Epilogue::None && (is_only_ours || prefers_rocblas)
    }

    /// The choice of the table, or the architecture's default, or else our own kernel; `None` if there is none of these.
    pub(super) fn choice(&self, shape: &GemmShape) -> Option<GemmChoice> {
        let measured = self.table.borrow().get(shape).map(|measured| measured.choice);
        // For a product with an epilogue, this choice means a plain product by whoever computes that fastest, and then a
        // separate kernel.
        if let (Some(GemmChoice::Rocblas { .. }), true) = (measured, shape.epilogue != Epilogue::None) {
            return measured;
        }
        let rocblas = GemmChoice::Rocblas { solution: None };
        let hipblaslt = GemmChoice::HipblasLt { solution: None };
        let by_default = if self.prefers_hipblaslt && shape.input_type != ElementType::Fp32 {
            [hipblaslt, rocblas]
        } else {
            [rocblas, hipblaslt]
        };
        let choices = measured.into_iter().chain(by_default);
        let asked = choices.into_iter().find(|choice| self.may_ask(choice.library(), shape));
        asked.or_else(|| self.best_own_choice(shape))
    }

    /// The step for a product with its epilogue; `None` if no library offers that epilogue for that shape.
    ///
    /// # Errors
    /// No library can compute a plain product of this shape.
    pub(super) fn step(
        &self,
        name: &str,
        shape: &GemmShape,
        operands: GemmOperands,
        bias: Address,
    ) -> Result<Option<Step>> {
        let mut problem = GemmProblem { shape: *shape, operands, bias, preshuffled: Address::NULL };
        if let Some(survey) = &mut *self.survey.borrow_mut() {
            survey.push(problem);
            return Ok(Some(Step::rocblas(name.to_owned(), *shape, operands, None)));
        }
        let Some(choice) = self.choice(shape) else {
            return match shape.epilogue {
                Epilogue::None => {
                    Err(self.with_refusals(format!("no library may be asked for the product {shape}")))
                }
                _ => Ok(None),
            };
        };
        if let GemmChoice::Own(choice) = choice {
            let (choice, preshuffled) = self.laid_out(shape, (&operands, bias), choice);
            problem.preshuffled = preshuffled;
            return self.step_by(name, &problem, GemmChoice::Own(choice));
        }
        if let GemmChoice::HipblasLt { .. } = choice {
            match self.step_by(name, &problem, choice) {
                Ok(Some(step)) => return Ok(Some(step)),
                // hipBLASLt has no algorithm. rocBLAS supports every plain shape, and the caller can use a separate
                // step for the epilogue.
                Ok(None) | Err(_)
                    if shape.epilogue != Epilogue::None || self.may_ask(BlasLibrary::Rocblas, shape) => {}
                Ok(None) | Err(_) if self.own.is_some() => {
                    let own = self.best_own_choice(shape);
                    return own.map_or(Ok(None), |choice| self.step_by(name, &problem, choice));
                }
                Ok(None) => {
                    return Err(self.with_refusals(format!("hipBLASLt has no algorithm for {shape}")));
                }
                Err(error) => return Err(self.with_refusals(error.to_string())),
            }
        }
        let solution = match choice {
            GemmChoice::Rocblas { solution } => solution,
            _ => None,
        };
        self.step_by(name, &problem, GemmChoice::Rocblas { solution })
    }

    /// The step that computes a chain of products, each of which reads the results of the one before, and the LayerNorms
    /// of their results; `None` if a library computes one of the products, or our kernels cannot compute the chain.
    pub(super) fn chain(&self, name: &str, links: &[Link]) -> Option<Step> {
        if self.survey.borrow().is_some() {
            return None;
        }
        let own = self.own.as_ref()?;
        let choices = links.iter().map(|link| match self.choice(&link.shape) {
            Some(GemmChoice::Own(choice)) => Some(choice),
            _ => None,
        });
        let choices: Vec<OwnChoice> = choices.collect::<Option<_>>()?;
        let links = links.iter().zip(&choices).map(|(link, &choice)| {
            let (choice, preshuffled) = self.laid_out(&link.shape, (&link.operands, link.bias), choice);
            let is_preshuffled = choice.is_preshuffled();
            let weights = if is_preshuffled { preshuffled } else { link.operands.weights };
            Link { operands: GemmOperands { weights, ..link.operands }, is_preshuffled, ..*link }
        });
        own.chain(name, &links.collect::<Vec<_>>(), &choices)
    }

    /// The step that computes a whole convolution; `None` if a library computes its products, or our kernels cannot
    /// compute all of it in one launch.
    pub(super) fn convolution(&self, name: &str, convolution: &WholeConvolution) -> Option<Step> {
        if self.survey.borrow().is_some() {
            return None;
        }
        let WholeConvolution { shape, operands, .. } = convolution;
        match (self.choice(shape), &self.own) {
            (Some(GemmChoice::Own(choice)), Some(own)) => {
                let (choice, preshuffled) = self.laid_out(shape, (operands, Address::NULL), choice);
                let is_preshuffled = choice.is_preshuffled();
                let weights = if is_preshuffled { preshuffled } else { operands.weights };
                let operands = GemmOperands { weights, ..*operands };
                own.convolution(name, &WholeConvolution { operands, is_preshuffled, ..*convolution }, choice)
            }
            _ => None,
        }
    }

    /// An error with the failure `what` and the reason why the other library is not used.
    fn with_refusals(&self, what: String) -> RocmError {
        let refusals = self.refusals.iter().cloned();
        RocmError::Unsupported(std::iter::once(what).chain(refusals).collect::<Vec<_>>().join("; "))
    }

    /// The step that computes a product with `choice`; `None` if that library cannot compute it.
    pub(super) fn step_by(
        &self,
        name: &str,
        problem: &GemmProblem,
        choice: GemmChoice,
    ) -> Result<Option<Step>> {
        let GemmProblem { shape, operands, bias, preshuffled } = *problem;
        match choice {
            GemmChoice::Own(choice) if choice.is_preshuffled() && preshuffled == Address::NULL => Ok(None),
            GemmChoice::Own(choice) => match &self.own {
                Some(own) => {
                    let weights = if choice.is_preshuffled() { preshuffled } else { operands.weights };
                    let operands = GemmOperands { weights, ..operands };
                    own.step(name, &shape, (operands, bias), choice).map(Some)
                }
                None => Ok(None),
            },
            GemmChoice::Rocblas { .. } if shape.epilogue != Epilogue::None => Ok(None),
            GemmChoice::Rocblas { solution } => {
                Ok(Some(Step::rocblas(name.to_owned(), shape, operands, solution)))
            }
            GemmChoice::HipblasLt { solution } => {
                let hipblaslt = self.hipblaslt.as_ref();
                hipblaslt.map_or(Ok(None), |steps| steps.step(name, &shape, (operands, bias), solution))
            }
        }
    }

    /// hipBLASLt's step for a product in e4m3, whose x has as many rows as the shape says; `None` if our own kernel is to
    /// compute it, or hipBLASLt lacks the types or the shape's epilogue.
    pub(super) fn scaled_step(
        &self,
        name: &str,
        problem: &GemmProblem,
        factors: &ScaledFactors,
    ) -> Option<Step> {
        let GemmProblem { shape, operands, bias, .. } = *problem;
        if shape.rows < self.scaled_rows || self.survey.borrow().is_some() {
            return None;
        }
        self.hipblaslt.as_ref()?.scaled_step(name, &shape, (operands, bias), factors)
    }
}
