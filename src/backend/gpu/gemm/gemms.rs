//! Chooses the library and the algorithm for each GEMM.
//!
//! [`Gemms`] is the dispatcher between the forward pass, the two BLAS libraries and our own kernels. It looks up each
//! shape in its [`GemmTable`], which [`crate::tuning::choices`] fills. A shape that is not in the table gets the
//! architecture's default. [`crate::pass::gemm_steps`] makes the steps.

use super::avoided::{Asked, Avoided, BlasLibrary};
use super::hipblaslt_steps::HipblasLtSteps;
pub(crate) use super::layouts::GemmProblem;
use super::layouts::Layouts;
pub(crate) use super::measured::{Effort, GemmChoice, GemmTable, Measured};
use super::own::{OwnChoice, OwnKernels};
use crate::network::copies::CopiedLayout;
use crate::runtime::device::Gpu;
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::gemm::{ElementType, GemmShape, WORKSPACE_BYTES, WeightLayout};
use crate::runtime::ffi::hip::{Address, Device, DeviceBuffer};
use crate::runtime::ffi::hipblaslt;
use crate::runtime::ffi::module::Function;
use crate::runtime::ffi::program::BlasLibraries;
use crate::runtime::kernels::Kernels;
use crate::runtime::libraries::GemmLibrary;
use crate::runtime::weight_bits::WeightBits;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The dispatcher for GEMMs on one device.
pub(crate) struct Gemms {
    device: Device,
    multiprocessors: usize,
    table: RefCell<GemmTable>,
    /// The layouts in which GEMMs read their weights, according to the table.
    pub(crate) layouts: Layouts,
    has_rocblas: bool,
    pub(crate) hipblaslt: Option<HipblasLtSteps>,
    /// Our own kernels, unless the user wants a library.
    pub(crate) own: Option<OwnKernels>,
    /// How many bits the weights of GEMMs with few rows have.
    weights: WeightBits,
    /// The reasons why an installed library is not used.
    refusals: Vec<String>,
    /// Whether to prefer hipBLASLt for 16-bit GEMMs if both libraries are available.
    prefers_hipblaslt: bool,
    /// The fewest rows of a GEMM in e4m3 that hipBLASLt computes.
    pub(crate) scaled_rows: usize,
    /// During a [`Gemms::survey`], the GEMMs that were requested so far.
    pub(crate) survey: RefCell<Option<Vec<GemmProblem>>>,
    /// The GEMMs that a library is not asked for, because a process that asked for them crashed or hung.
    avoided: RefCell<Avoided>,
    /// The GEMMs that a helper process asked hipBLASLt for and survived. `None` means that there was no helper
    /// process, and that every GEMM may be asked for.
    survived: RefCell<Option<BTreeSet<GemmShape>>>,
}

impl Drop for Gemms {
    fn drop(&mut self) {
        // Destroying a handle or a stream may free memory, which would wait for the device.
        if self.device.is_hung() {
            std::mem::forget(self.hipblaslt.take());
            self.layouts.leak();
        }
    }
}

impl Gemms {
    /// A dispatcher for the libraries of `gpu` and for the GEMMs among `kernels`.
    pub(crate) fn new(gpu: &Gpu, kernels: &Kernels, library: GemmLibrary) -> Result<Gemms> {
        hipblaslt::check_room(gpu.device)?;
        let mut refusals = gpu.refusals.clone();
        let has_own = library.has_own();
        let hipblaslt = match gpu.hipblaslt {
            Some(library) => match HipblasLtSteps::new(library) {
                Ok(steps) => Some(steps),
                // rocBLAS or our own kernels are enough.
                Err(error) if gpu.rocblas.is_some() || has_own => {
                    if let GpuError::Unsupported(reason) = error {
                        refusals.push(reason);
                    }
                    None
                }
                Err(error) => return Err(error),
            },
            None => None,
        };
        let prefers_hipblaslt = library == GemmLibrary::HipblasLt || !gpu.facts.prefers_rocblas;
        let own = has_own.then(|| OwnKernels::new(kernels.module(), gpu.multiprocessors));
        Ok(Gemms {
            device: gpu.device,
            multiprocessors: gpu.multiprocessors.max(1),
            table: RefCell::default(),
            layouts: Layouts::new(gpu.device),
            has_rocblas: gpu.rocblas.is_some(),
            hipblaslt,
            own,
            weights: WeightBits::Sixteen,
            refusals,
            prefers_hipblaslt,
            scaled_rows: if has_own { gpu.facts.scaled_rows } else { 0 },
            survey: RefCell::default(),
            avoided: RefCell::default(),
            survived: RefCell::default(),
        })
    }

    /// Leaves out one of the libraries. Another one must be there.
    pub(crate) fn without(mut self, library: BlasLibrary) -> Gemms {
        match library {
            BlasLibrary::Rocblas => (self.has_rocblas, self.prefers_hipblaslt) = (false, true),
            BlasLibrary::HipblasLt => self.hipblaslt = None,
            BlasLibrary::Own => self.own = None,
        }
        self
    }

    /// Sets how many bits the weights of GEMMs with few rows have.
    pub(crate) fn with_weights(mut self, weights: WeightBits) -> Gemms {
        self.weights = weights;
        self
    }

    /// How many bits the weights of GEMMs with few rows have.
    pub(crate) fn weights(&self) -> WeightBits {
        self.weights
    }

    /// Whether the weights of some layers may be rounded to 8 bits.
    pub(crate) fn rounds_weights(&self) -> bool {
        self.weights != WeightBits::Sixteen
    }

    /// Whether a GEMM may have weights of 8 bits.
    pub(crate) fn may_use_bytes(&self, shape: &GemmShape) -> bool {
        !self.byte_choices(shape).is_empty()
    }

    /// Whether a GEMM must have weights of 8 bits, because the user wants them and there is a kernel.
    pub(crate) fn must_use_bytes(&self, shape: &GemmShape) -> bool {
        self.weights == WeightBits::Eight && self.may_use_bytes(shape)
    }

    /// The choices of our own kernels with weights of 8 bits, the one that should be fastest first.
    fn byte_choices(&self, shape: &GemmShape) -> Vec<OwnChoice> {
        let own = self.own.as_ref().filter(|_| self.rounds_weights());
        own.map(|own| own.byte_candidates(shape)).unwrap_or_default()
    }

    /// The device's multiprocessors, at least 1.
    pub(crate) fn multiprocessors(&self) -> usize {
        self.multiprocessors
    }

    /// Whether `library` is available.
    pub(crate) fn has(&self, library: BlasLibrary) -> bool {
        match library {
            BlasLibrary::Rocblas => self.has_rocblas,
            BlasLibrary::HipblasLt => self.hipblaslt.is_some(),
            BlasLibrary::Own => self.own.is_some(),
        }
    }

    /// Whether our own kernels may compute several GEMMs in one launch.
    pub(crate) fn has_chains(&self, element: ElementType) -> bool {
        self.own.as_ref().is_some_and(|own| own.has_chains(element))
    }

    /// Sets the GEMMs that a library is not asked for.
    pub(crate) fn avoid(&self, avoided: Avoided) {
        self.avoided.replace(avoided);
    }

    /// The GEMMs that a library is not asked for.
    pub(crate) fn avoided(&self) -> Avoided {
        self.avoided.borrow().clone()
    }

    /// Limits hipBLASLt to the GEMMs that a helper process asked it for and survived. With `None` every GEMM may
    /// be asked for.
    pub(crate) fn limit_to(&self, survived: Option<BTreeSet<GemmShape>>) {
        self.survived.replace(survived);
    }

    /// A copy of [`Gemms::limit_to`]'s argument.
    pub(crate) fn limits(&self) -> Option<BTreeSet<GemmShape>> {
        self.survived.borrow().clone()
    }

    /// A copy of the table.
    pub(crate) fn table(&self) -> GemmTable {
        self.table.borrow().clone()
    }

    /// Whether a library is available and may be asked for `shape`. Of GEMMs with transposed weights, the table has
    /// only those for which a helper process has asked and survived.
    pub(crate) fn may_ask(&self, asked: Asked, shape: &GemmShape) -> bool {
        let survived = match asked.library {
            BlasLibrary::Rocblas | BlasLibrary::Own => true,
            BlasLibrary::HipblasLt => {
                self.survived.borrow().as_ref().is_none_or(|survived| survived.contains(shape))
            }
        };
        self.has(asked.library) && survived && !self.avoided.borrow().contains(asked, shape)
    }

    /// The libraries for which a slot needs handles.
    pub(crate) fn libraries(&self, gpu: &Gpu) -> BlasLibraries {
        let hipblaslt = self.hipblaslt.as_ref().map(HipblasLtSteps::library);
        BlasLibraries { rocblas: gpu.rocblas, hipblaslt, workspace_bytes: WORKSPACE_BYTES }
    }

    /// hipBLASLt's version, if the library is available and reports one.
    pub(crate) fn hipblaslt_version(&self) -> Option<i32> {
        self.hipblaslt.as_ref().and_then(HipblasLtSteps::version)
    }

    /// The reasons why an installed library is not used.
    pub(crate) fn refusals(&self) -> &[String] {
        &self.refusals
    }

    /// Replaces the table. Programs that have been laid out already keep their steps.
    pub(crate) fn set_table(&self, table: GemmTable) {
        self.layouts.set_table(&table);
        self.table.replace(table);
    }

    /// Runs `lay_out` and returns every GEMM that it requested from [`Gemms::step`], with the requested epilogue. No
    /// library is asked, so the steps that `lay_out` gets must not be run.
    pub(crate) fn survey(&self, lay_out: impl FnOnce() -> Result<()>) -> Result<Vec<GemmProblem>> {
        self.survey.replace(Some(Vec::new()));
        let outcome = lay_out();
        let found = self.survey.take().unwrap_or_default();
        outcome.map(|()| found)
    }

    /// The algorithms that hipBLASLt proposes for a GEMM with weights of this layout; none if it must not be asked.
    pub(crate) fn proposals(&self, problem: &GemmProblem, layout: WeightLayout) -> Vec<GemmChoice> {
        self.proposed(problem, layout, HipblasLtSteps::solutions)
    }

    /// The algorithms that hipBLASLt proposes for a thorough tuning, without those of [`Gemms::proposals`].
    pub(crate) fn more_proposals(&self, problem: &GemmProblem, layout: WeightLayout) -> Vec<GemmChoice> {
        self.proposed(problem, layout, HipblasLtSteps::more_solutions)
    }

    /// The algorithms that `ask` gets from hipBLASLt; none if it must not be asked.
    fn proposed(
        &self,
        problem: &GemmProblem,
        layout: WeightLayout,
        ask: impl FnOnce(&HipblasLtSteps, &GemmShape, WeightLayout, Address) -> Result<Vec<i32>>,
    ) -> Vec<GemmChoice> {
        let GemmProblem { shape, bias, .. } = problem;
        if !self.may_ask(Asked::new(BlasLibrary::HipblasLt, layout), shape) {
            return Vec::new();
        }
        let solutions = self.hipblaslt.as_ref().map(|steps| ask(steps, shape, layout, *bias));
        let solutions = solutions.and_then(Result::ok).unwrap_or_default().into_iter();
        solutions.map(|solution| GemmChoice::HipblasLt { solution: Some(solution), layout }).collect()
    }

    /// The libraries' choices that tuning should time with weights of this layout: up to `most` algorithms of
    /// hipBLASLt, and rocBLAS if there is no epilogue.
    pub(crate) fn library_choices(
        &self,
        problem: &GemmProblem,
        layout: WeightLayout,
        most: usize,
    ) -> Vec<GemmChoice> {
        let hipblaslt = self.proposals(problem, layout).into_iter().take(most);
        let uses_rocblas = self.may_use_rocblas(&problem.shape, layout);
        hipblaslt.chain(uses_rocblas.then_some(GemmChoice::Rocblas { solution: None, layout })).collect()
    }

    /// Whether rocBLAS is available and may be asked for `shape` with weights of this layout. It has no epilogues.
    pub(crate) fn may_use_rocblas(&self, shape: &GemmShape, layout: WeightLayout) -> bool {
        !shape.has_epilogue() && self.may_ask(Asked::new(BlasLibrary::Rocblas, layout), shape)
    }

    /// The choices of our own kernels, the one that should be fastest first.
    pub(crate) fn own_choices(&self, shape: &GemmShape) -> Vec<GemmChoice> {
        let own = self.own.as_ref().filter(|_| !self.must_use_bytes(shape));
        let plain = own.map(|own| own.candidates(shape)).unwrap_or_default();
        plain.into_iter().chain(self.byte_choices(shape)).map(GemmChoice::Own).collect()
    }

    /// A choice of our own kernels with preshuffled weights instead of plain ones; `None` if there is none.
    pub(crate) fn with_preshuffled_weights(
        &self,
        shape: &GemmShape,
        choice: GemmChoice,
    ) -> Option<GemmChoice> {
        let GemmChoice::Own(choice) = choice else { return None };
        if choice.layout() == WeightLayout::Bytes {
            return None;
        }
        let changed = choice.with_layout(WeightLayout::Preshuffled).filter(|changed| *changed != choice)?;
        self.preshuffler(shape).map(|_| GemmChoice::Own(changed))
    }

    /// The kernel that makes preshuffled weights for GEMMs of this shape.
    pub(crate) fn preshuffler(&self, shape: &GemmShape) -> Option<Function> {
        self.own.as_ref().and_then(|own| own.preshuffler(shape))
    }

    /// A GEMM with a copy of its weights for a library, if `choice` is one that reads transposed weights. Where the
    /// copy cannot be made, there is none.
    pub(crate) fn with_transposed_weights(&self, problem: &GemmProblem, choice: GemmChoice) -> GemmProblem {
        if choice.layout() != WeightLayout::Transposed {
            return *problem;
        }
        let copied = self.layouts.copied(&problem.shape, &problem.operands, &CopiedLayout::Transposed);
        let transposed = copied.map_or(Address::NULL, |operands| operands.weights);
        GemmProblem { transposed, ..*problem }
    }

    /// Whether our own kernels compute a GEMM with preshuffled weights, if there is memory for them.
    pub(crate) fn prefers_preshuffled(&self, shape: &GemmShape) -> bool {
        let is_own = matches!(self.choice(shape), Some(GemmChoice::Own(_)));
        is_own && self.preshuffler(shape).is_some() && self.layouts.prefer_preshuffled(shape)
    }

    /// The memory of the copies of weights. A program that was laid out before must keep it.
    pub(crate) fn memory(&self) -> Vec<Arc<DeviceBuffer>> {
        self.layouts.memory()
    }

    /// The choice of our own kernels that should be the fastest.
    pub(crate) fn best_own_choice(&self, shape: &GemmShape) -> Option<GemmChoice> {
        self.own_choices(shape).into_iter().next()
    }

    /// Whether hipBLASLt is available and has the shape's epilogue.
    pub(crate) fn hipblaslt_has_epilogue_of(&self, shape: &GemmShape) -> bool {
        self.hipblaslt.as_ref().is_some_and(|steps| steps.has_epilogue_of(shape))
    }

    /// Whether tuning should also time a plain GEMM followed by a separate kernel for the epilogue: where rocBLAS,
    /// which has no epilogues, is preferred, and where no library has this epilogue.
    pub(crate) fn may_split(&self, shape: &GemmShape) -> bool {
        let plain = shape.without_epilogue();
        let has_library = self.has(BlasLibrary::Rocblas) || self.has(BlasLibrary::HipblasLt);
        let is_only_ours = has_library && !self.hipblaslt_has_epilogue_of(shape);
        let prefers_rocblas =
            self.may_ask(Asked::plain(BlasLibrary::Rocblas), &plain) && !self.prefers_hipblaslt;
        shape.has_epilogue() && (is_only_ours || prefers_rocblas)
    }

    /// The choice of the table, or the architecture's default, or else our own kernel; `None` if there is none of
    /// these.
    pub(crate) fn choice(&self, shape: &GemmShape) -> Option<GemmChoice> {
        let measured = self.table.borrow().get(shape).map(|measured| measured.choice);
        if self.must_use_bytes(shape) {
            let of_bytes = measured.filter(|choice| choice.layout() == WeightLayout::Bytes);
            return of_bytes.or_else(|| self.best_own_choice(shape));
        }
        // For a GEMM with an epilogue, this choice means a plain GEMM by whoever computes that fastest, and then a
        // separate kernel.
        if let (Some(GemmChoice::Rocblas { .. }), true) = (measured, shape.has_epilogue()) {
            return measured;
        }
        let (rocblas, hipblaslt) = (GemmChoice::ROCBLAS, GemmChoice::HIPBLASLT);
        let by_default = if self.prefers_hipblaslt && shape.input_type != ElementType::Fp32 {
            [hipblaslt, rocblas]
        } else {
            [rocblas, hipblaslt]
        };
        let choices = measured.into_iter().chain(by_default);
        let asked = choices.into_iter().find(|choice| self.may_ask(choice.asked(), shape));
        asked.or_else(|| self.best_own_choice(shape))
    }

    /// The tile that the table has for a GEMM of 8-bit numbers. A [`Gemms::survey`] gets the GEMM instead, unless
    /// hipBLASLt is to compute it.
    pub(crate) fn byte_choice(&self, problem: GemmProblem) -> Option<OwnChoice> {
        let GemmShape { rows, input_type, .. } = problem.shape;
        let is_of_library =
            matches!(input_type, ElementType::Fp8(_)) && rows >= self.scaled_rows && self.hipblaslt.is_some();
        if let Some(survey) = &mut *self.survey.borrow_mut() {
            survey.extend((!is_of_library).then_some(problem));
            return None;
        }
        let table = self.table.borrow();
        match table.get(&problem.shape).filter(|row| row.is_timed())?.choice {
            GemmChoice::Own(choice) => Some(choice),
            _ => None,
        }
    }
}
