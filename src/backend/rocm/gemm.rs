//! Which library multiplies what, and how.
//!
//! One dispatcher stands between the forward pass and the two BLAS libraries. For each shape it asks its
//! [`GemmTable`]; what the table does not know gets the default of the architecture. Whatever is planned is
//! planned once and kept, so that laying out the next bucket or slot finds it.

use super::device::{GemmLibrary, Gpu};
use super::error::{Result, RocmError};
use super::ffi::gemm::{ElementType, Epilogue, GemmOperands, GemmShape};
use super::ffi::hip::Address;
use super::ffi::hipblaslt::{self, Descriptor, HipblasLt, Plan};
use super::ffi::program::Step;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// How one shape is multiplied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GemmChoice {
    /// rocBLAS, by solution index or by its own choice.
    Rocblas { solution: Option<i32> },
    /// hipBLASLt, with the algorithm of this rank among those that it proposes.
    HipblasLt { rank: usize },
}

/// What was measured, per shape.
#[derive(Clone, Default, Debug)]
pub(super) struct GemmTable {
    choices: HashMap<GemmShape, GemmChoice>,
}

impl GemmTable {
    fn get(&self, shape: &GemmShape) -> Option<GemmChoice> {
        self.choices.get(shape).copied()
    }
}

/// Bytes that a product may work in: hipBLASLt's split-K and stream-K partial sums.
pub(super) const WORKSPACE_BYTES: usize = 32 << 20;

/// The dispatcher of one device.
pub(super) struct Gemms {
    table: GemmTable,
    has_rocblas: bool,
    hipblaslt: Option<(hipblaslt::Library, HipblasLt)>,
    /// Whether hipBLASLt is the better of two for half precision here.
    prefers_hipblaslt: bool,
    plans: RefCell<HashMap<GemmShape, Vec<Arc<Plan>>>>,
    descriptors: RefCell<HashMap<(Epilogue, Address), Arc<Descriptor>>>,
}

/// Architectures whose rocBLAS was the faster one when last published (see also what [`GemmTable`] knows).
const ROCBLAS_ARCHITECTURES: [&str; 5] = ["gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1103"];

impl Gemms {
    /// For the libraries that `gpu` has.
    pub(super) fn new(gpu: &Gpu, library: GemmLibrary, table: GemmTable) -> Result<Gemms> {
        let hipblaslt = match gpu.hipblaslt {
            Some(library) => match HipblasLt::new(library) {
                Ok(handle) => Some((library, handle)),
                // rocBLAS can do all that is needed.
                Err(_) if gpu.rocblas.is_some() => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        let prefers_hipblaslt =
            library == GemmLibrary::HipblasLt || !ROCBLAS_ARCHITECTURES.contains(&gpu.architecture.as_str());
        Ok(Gemms {
            table,
            has_rocblas: gpu.rocblas.is_some(),
            hipblaslt,
            prefers_hipblaslt,
            plans: RefCell::default(),
            descriptors: RefCell::default(),
        })
    }

    /// Whether slots need a hipBLASLt handle.
    pub(super) fn hipblaslt(&self) -> Option<hipblaslt::Library> {
        self.hipblaslt.as_ref().map(|(library, _)| *library)
    }

    fn choice(&self, shape: &GemmShape) -> GemmChoice {
        let rocblas = GemmChoice::Rocblas { solution: None };
        let hipblaslt = GemmChoice::HipblasLt { rank: 0 };
        match (self.has_rocblas, self.hipblaslt.is_some()) {
            (true, false) => rocblas,
            (false, _) => hipblaslt,
            (true, true) => self.table.get(shape).unwrap_or(
                if self.prefers_hipblaslt && shape.input_type != ElementType::Fp32 {
                    hipblaslt
                } else {
                    rocblas
                },
            ),
        }
    }

    /// The step for a product with its epilogue; `None` if nothing here has that epilogue for that shape.
    ///
    /// # Errors
    /// A plain product that no library takes.
    pub(super) fn step(
        &self,
        name: &str,
        shape: &GemmShape,
        operands: GemmOperands,
        bias: Address,
    ) -> Result<Option<Step>> {
        if let GemmChoice::HipblasLt { rank } = self.choice(shape) {
            match self.hipblaslt_step(name, shape, operands, bias, rank) {
                Ok(Some(step)) => return Ok(Some(step)),
                // No algorithm for it: rocBLAS takes every shape.
                Ok(None) | Err(_) if shape.epilogue != Epilogue::None || self.has_rocblas => {}
                Ok(None) => {
                    return Err(RocmError::Unsupported(format!("hipBLASLt has no algorithm for {shape}")));
                }
                Err(error) => return Err(error),
            }
        }
        if shape.epilogue != Epilogue::None {
            return Ok(None);
        }
        let solution = match self.choice(shape) {
            GemmChoice::Rocblas { solution } => solution,
            GemmChoice::HipblasLt { .. } => None,
        };
        Ok(Some(Step::rocblas(name.to_owned(), *shape, operands, solution)))
    }

    fn hipblaslt_step(
        &self,
        name: &str,
        shape: &GemmShape,
        operands: GemmOperands,
        bias: Address,
        rank: usize,
    ) -> Result<Option<Step>> {
        let Some((library, handle)) = &self.hipblaslt else {
            return Ok(None);
        };
        let bias = if shape.epilogue == Epilogue::None { Address::NULL } else { bias };
        let key = (shape.epilogue, bias);
        let known = self.descriptors.borrow().get(&key).map(Arc::clone);
        let descriptor = match known {
            Some(known) => known,
            None => {
                let made = Arc::new(Descriptor::new(library, shape.epilogue, bias, shape.output_type)?);
                self.descriptors.borrow_mut().insert(key, Arc::clone(&made));
                made
            }
        };
        if !self.plans.borrow().contains_key(shape) {
            let plans = handle.plans(shape, &descriptor, WORKSPACE_BYTES, rank + 1)?;
            self.plans.borrow_mut().insert(*shape, plans.into_iter().map(Arc::new).collect());
        }
        let plans = self.plans.borrow();
        let plan = plans.get(shape).and_then(|plans| plans.get(rank).or(plans.first()));
        Ok(plan.map(|plan| Step::hipblaslt(name.to_owned(), Arc::clone(plan), descriptor, operands)))
    }
}
