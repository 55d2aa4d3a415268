//! Chooses the library and the algorithm for each matrix product.
//!
//! [`Gemms`] is the dispatcher between the forward pass and the two BLAS libraries. It looks up each shape in its
//! [`GemmTable`], which [`super::tuning`] fills. A shape that is not in the table gets the architecture's default.
//! Plans and descriptors are cached, so that all buckets and slots share them.

use super::device::Gpu;
use super::error::{Result, RocmError};
use super::ffi::gemm::{ElementType, Epilogue, GemmOperands, GemmShape};
use super::ffi::hip::{Address, Device};
use super::ffi::hipblaslt::{self, Descriptor, HipblasLt, Plan};
use super::ffi::program::{BlasLibraries, Step};
use super::libraries::GemmLibrary;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The library and algorithm for one shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GemmChoice {
    /// rocBLAS, with the kernel of this solution index; `None` leaves the choice to rocBLAS.
    Rocblas { solution: Option<i32> },
    /// hipBLASLt, with the algorithm that has this index among its proposals.
    HipblasLt { rank: usize },
}

/// The fastest choice for a shape, and the time of one product.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Measured {
    pub(super) choice: GemmChoice,
    pub(super) microseconds: f32,
}

/// The tuned products by shape, in sorted order, so that the files of two tunings can be compared.
pub(super) type GemmTable = BTreeMap<GemmShape, Measured>;

/// A matrix product that a forward pass needs: its shape and the addresses of its matrices.
#[derive(Clone, Copy, Debug)]
pub(super) struct GemmProblem {
    pub(super) shape: GemmShape,
    pub(super) operands: GemmOperands,
    pub(super) bias: Address,
}

/// The size of the workspace for a product, in bytes. hipBLASLt's split-K and stream-K kernels keep partial sums in it.
pub(super) const WORKSPACE_BYTES: usize = 32 << 20;

/// The number of algorithms to request from hipBLASLt when more than its first proposal is wanted.
const PROPOSALS: usize = 16;

/// The dispatcher for matrix products on one device.
pub(super) struct Gemms {
    device: Device,
    table: RefCell<GemmTable>,
    has_rocblas: bool,
    hipblaslt: Option<(hipblaslt::Library, HipblasLt)>,
    /// The reasons why an installed library is not used, for error messages.
    refusals: Vec<String>,
    /// Whether to prefer hipBLASLt for 16-bit products if both libraries are available.
    prefers_hipblaslt: bool,
    plans: RefCell<HashMap<GemmShape, Vec<Arc<Plan>>>>,
    descriptors: RefCell<HashMap<(Epilogue, Address), Arc<Descriptor>>>,
    /// During a [`Gemms::survey`], the products that were requested so far.
    survey: RefCell<Option<Vec<GemmProblem>>>,
}

/// Architectures on which rocBLAS was faster than hipBLASLt in the latest published measurements. Tuning overrides
/// this.
const ROCBLAS_ARCHITECTURES: [&str; 5] = ["gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1103"];

impl Drop for Gemms {
    fn drop(&mut self) {
        // To destroy the handle can free memory, which would wait for the device.
        if self.device.is_hung() {
            std::mem::forget(self.hipblaslt.take());
        }
    }
}

impl Gemms {
    /// A dispatcher for the libraries of `gpu`.
    pub(super) fn new(gpu: &Gpu, library: GemmLibrary) -> Result<Gemms> {
        hipblaslt::check_room(gpu.device)?;
        let hipblaslt = match gpu.hipblaslt {
            Some(library) => match HipblasLt::new(library) {
                Ok(handle) => Some((library, handle)),
                // rocBLAS alone is enough.
                Err(_) if gpu.rocblas.is_some() => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        let prefers_hipblaslt =
            library == GemmLibrary::HipblasLt || !ROCBLAS_ARCHITECTURES.contains(&gpu.architecture.as_str());
        Ok(Gemms {
            device: gpu.device,
            table: RefCell::default(),
            has_rocblas: gpu.rocblas.is_some(),
            hipblaslt,
            refusals: gpu.refusals.clone(),
            prefers_hipblaslt,
            plans: RefCell::default(),
            descriptors: RefCell::default(),
            survey: RefCell::default(),
        })
    }

    /// The libraries for which a slot needs handles.
    pub(super) fn libraries(&self, gpu: &Gpu) -> BlasLibraries {
        let hipblaslt = self.hipblaslt.as_ref().map(|(library, _)| *library);
        BlasLibraries { rocblas: gpu.rocblas, hipblaslt, workspace_bytes: WORKSPACE_BYTES }
    }

    /// hipBLASLt's version, if the library is available and reports one.
    pub(super) fn hipblaslt_version(&self) -> Option<i32> {
        self.hipblaslt.as_ref().and_then(|(_, handle)| handle.version().ok())
    }

    /// Replaces the table. Programs that have been laid out already keep their steps.
    pub(super) fn set_table(&self, table: GemmTable) {
        self.table.replace(table);
    }

    /// Runs `lay_out` and returns every product that it requested from [`Gemms::step`], with the requested epilogue.
    pub(super) fn survey(&self, lay_out: impl FnOnce() -> Result<()>) -> Result<Vec<GemmProblem>> {
        self.survey.replace(Some(Vec::new()));
        let outcome = lay_out();
        let found = self.survey.take().unwrap_or_default();
        outcome.map(|()| found)
    }

    /// The choices that tuning should time: up to `proposals` algorithms of hipBLASLt, and rocBLAS if there is no
    /// epilogue.
    pub(super) fn candidates(&self, problem: &GemmProblem, proposals: usize) -> Vec<GemmChoice> {
        let count = self.plans(&problem.shape, problem.bias, PROPOSALS).map_or(0, |plans| plans.len());
        let hipblaslt = (0..count.min(proposals)).map(|rank| GemmChoice::HipblasLt { rank });
        let rocblas = self.has_rocblas && problem.shape.epilogue == Epilogue::None;
        hipblaslt.chain(rocblas.then_some(GemmChoice::Rocblas { solution: None })).collect()
    }

    /// Whether tuning should also time a product by rocBLAS followed by a separate kernel for the epilogue.
    pub(super) fn may_split(&self, shape: &GemmShape) -> bool {
        shape.epilogue != Epilogue::None && self.has_rocblas && !self.prefers_hipblaslt
    }

    fn choice(&self, shape: &GemmShape) -> GemmChoice {
        let rocblas = GemmChoice::Rocblas { solution: None };
        let hipblaslt = GemmChoice::HipblasLt { rank: 0 };
        let measured = self.table.borrow().get(shape).map(|measured| measured.choice);
        let is_there = |choice: &GemmChoice| match choice {
            GemmChoice::Rocblas { .. } => self.has_rocblas,
            GemmChoice::HipblasLt { .. } => self.hipblaslt.is_some(),
        };
        let prefers_hipblaslt = self.prefers_hipblaslt && shape.input_type != ElementType::Fp32;
        let default = match (self.has_rocblas, self.hipblaslt.is_some()) {
            (true, true) if prefers_hipblaslt => hipblaslt,
            (true, _) => rocblas,
            (false, _) => hipblaslt,
        };
        measured.filter(is_there).unwrap_or(default)
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
        let problem = GemmProblem { shape: *shape, operands, bias };
        if let Some(survey) = &mut *self.survey.borrow_mut() {
            survey.push(problem);
        }
        let choice = self.choice(shape);
        if let GemmChoice::HipblasLt { .. } = choice {
            match self.step_by(name, &problem, choice) {
                Ok(Some(step)) => return Ok(Some(step)),
                // hipBLASLt has no algorithm. rocBLAS supports every plain shape, and the caller can use a separate
                // step for the epilogue.
                Ok(None) | Err(_) if shape.epilogue != Epilogue::None || self.has_rocblas => {}
                Ok(None) => {
                    return Err(self.with_refusals(format!("hipBLASLt has no algorithm for {shape}")));
                }
                Err(error) => return Err(self.with_refusals(error.to_string())),
            }
        }
        let solution = match choice {
            GemmChoice::Rocblas { solution } => solution,
            GemmChoice::HipblasLt { .. } => None,
        };
        self.step_by(name, &problem, GemmChoice::Rocblas { solution })
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
        let GemmProblem { shape, operands, bias } = *problem;
        match choice {
            GemmChoice::Rocblas { .. } if shape.epilogue != Epilogue::None => Ok(None),
            GemmChoice::Rocblas { solution } => {
                Ok(Some(Step::rocblas(name.to_owned(), shape, operands, solution)))
            }
            GemmChoice::HipblasLt { rank } => {
                let plans = self.plans(&shape, bias, if rank == 0 { 1 } else { PROPOSALS })?;
                let Some(plan) = plans.get(rank).or(plans.first()) else {
                    return Ok(None);
                };
                let descriptor = self.descriptor(&shape, bias)?;
                let plan = Arc::clone(plan);
                Ok(descriptor.map(|descriptor| Step::hipblaslt(name.to_owned(), plan, descriptor, operands)))
            }
        }
    }

    /// hipBLASLt's algorithms for a shape: at least `wanted`, if hipBLASLt proposes that many.
    fn plans(&self, shape: &GemmShape, bias: Address, wanted: usize) -> Result<Vec<Arc<Plan>>> {
        let known = self.plans.borrow().get(shape).cloned();
        if let Some(known) = known
            && (known.len() >= wanted || known.len() != 1)
        {
            return Ok(known);
        }
        let (Some((_, handle)), Some(descriptor)) = (&self.hipblaslt, self.descriptor(shape, bias)?) else {
            return Ok(Vec::new());
        };
        let plans = handle.plans(shape, &descriptor, WORKSPACE_BYTES, wanted)?;
        let plans: Vec<Arc<Plan>> = plans.into_iter().map(Arc::new).collect();
        self.plans.borrow_mut().insert(*shape, plans.clone());
        Ok(plans)
    }

    fn descriptor(&self, shape: &GemmShape, bias: Address) -> Result<Option<Arc<Descriptor>>> {
        let Some((library, _)) = &self.hipblaslt else {
            return Ok(None);
        };
        let bias = if shape.epilogue == Epilogue::None { Address::NULL } else { bias };
        let key = (shape.epilogue, bias);
        if let Some(known) = self.descriptors.borrow().get(&key) {
            return Ok(Some(Arc::clone(known)));
        }
        let made = Arc::new(Descriptor::new(library, shape.epilogue, bias, shape.output_type)?);
        self.descriptors.borrow_mut().insert(key, Arc::clone(&made));
        Ok(Some(made))
    }
}
