//! hipBLASLt's steps for GEMMs. Its algorithms and descriptors are kept, so that all buckets and slots share
//! them.

use super::measured::{MOST_PROPOSALS, PROPOSALS};
use crate::runtime::error::Result;
use crate::runtime::ffi::gemm::{Epilogue, GemmOperands, GemmShape, WORKSPACE_BYTES, WeightLayout};
use crate::runtime::ffi::hip::Address;
use crate::runtime::ffi::hipblaslt::{Descriptor, HipblasLt, Library, Plan, ScaledFactors};
use crate::runtime::ffi::program::Step;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// What the library is asked for: a GEMM, the layout of its weights, and the most algorithms.
type Question = (GemmShape, WeightLayout, usize);

/// The library with a handle, and what was asked of it.
pub(crate) struct HipblasLtSteps {
    library: Library,
    handle: HipblasLt,
    /// The algorithms for each shape and layout of the weights, the one that the library prefers first.
    plans: RefCell<HashMap<Question, Vec<Arc<Plan>>>>,
    /// The layouts of the weights, and the epilogues with the addresses of their biases.
    descriptors: RefCell<HashMap<(WeightLayout, Epilogue, Address), Arc<Descriptor>>>,
    /// The first algorithm for each GEMM in e4m3; `None` if there is none.
    scaled_plans: RefCell<HashMap<GemmShape, Option<Arc<Plan>>>>,
}

impl HipblasLtSteps {
    /// Nothing has been asked yet.
    ///
    /// # Errors
    /// The library makes no handle.
    pub(crate) fn new(library: Library) -> Result<HipblasLtSteps> {
        Ok(HipblasLtSteps {
            library,
            handle: HipblasLt::new(library)?,
            plans: RefCell::default(),
            descriptors: RefCell::default(),
            scaled_plans: RefCell::default(),
        })
    }

    /// The library, for the handles of the slots.
    pub(crate) fn library(&self) -> Library {
        self.library
    }

    /// The version, if the library reports one.
    pub(crate) fn version(&self) -> Option<i32> {
        self.handle.version()
    }

    /// Whether the library has the shape's epilogue. It has no gates.
    pub(crate) fn has_epilogue_of(&self, shape: &GemmShape) -> bool {
        !shape.is_gated && self.handle.supports(shape.epilogue)
    }

    /// The library's numbers of its algorithms for a GEMM; none if it lacks the epilogue.
    ///
    /// # Errors
    /// The library refuses the GEMM.
    pub(crate) fn solutions(
        &self,
        shape: &GemmShape,
        layout: WeightLayout,
        bias: Address,
    ) -> Result<Vec<i32>> {
        Ok(self.plans(shape, layout, bias, PROPOSALS)?.iter().map(|plan| plan.solution()).collect())
    }

    /// The numbers of the algorithms that a thorough tuning asks for, without those of [`HipblasLtSteps::solutions`].
    ///
    /// # Errors
    /// The library refuses the GEMM.
    pub(crate) fn more_solutions(
        &self,
        shape: &GemmShape,
        layout: WeightLayout,
        bias: Address,
    ) -> Result<Vec<i32>> {
        let first = self.solutions(shape, layout, bias)?;
        if first.len() < PROPOSALS {
            return Ok(Vec::new());
        }
        let all = self.plans(shape, layout, bias, MOST_PROPOSALS)?;
        Ok(all.iter().map(|plan| plan.solution()).filter(|solution| !first.contains(solution)).collect())
    }

    /// The step for a GEMM by an algorithm, or by the one that the library prefers; `None` if it has no such algorithm
    /// or lacks the epilogue.
    ///
    /// # Errors
    /// The library refuses the GEMM.
    pub(crate) fn step(
        &self,
        name: &str,
        shape: &GemmShape,
        (operands, bias): (GemmOperands, Address),
        solution: Option<i32>,
    ) -> Result<Option<Step>> {
        let is_chosen = |plan: &Arc<Plan>| solution.is_none_or(|solution| plan.solution() == solution);
        let first = self.plans(shape, operands.layout, bias, PROPOSALS)?;
        let may_be_later = first.len() == PROPOSALS;
        let mut plan = first.into_iter().find(is_chosen);
        if plan.is_none() && may_be_later {
            let more = self.plans(shape, operands.layout, bias, MOST_PROPOSALS)?;
            plan = more.into_iter().find(is_chosen);
        }
        let Some(plan) = plan else { return Ok(None) };
        let descriptor = self.descriptor(shape, operands.layout, bias)?;
        Ok(descriptor.map(|descriptor| Step::hipblaslt(name.to_owned(), plan, descriptor, operands)))
    }

    /// The step for a GEMM in e4m3 by the algorithm that the library prefers; `None` if it lacks the types, the scales
    /// or the epilogue.
    pub(crate) fn scaled_step(
        &self,
        name: &str,
        shape: &GemmShape,
        (operands, bias): (GemmOperands, Address),
        factors: &ScaledFactors,
    ) -> Option<Step> {
        if !self.has_epilogue_of(shape) {
            return None;
        }
        // A library that does not know the types or the scales refuses them here.
        let bias = (bias, shape.output_type);
        let descriptor = Descriptor::new(self.library, operands.layout, shape.epilogue, bias).ok()?;
        let descriptor = descriptor.scaled(factors).ok()?;
        let plan = || {
            let plans = self.handle.plans(shape, &descriptor, WORKSPACE_BYTES, 1).unwrap_or_default();
            plans.into_iter().next().map(Arc::new)
        };
        let plan = self.scaled_plans.borrow_mut().entry(*shape).or_insert_with(plan).clone()?;
        Some(Step::hipblaslt(name.to_owned(), plan, Arc::new(descriptor), operands))
    }

    /// The algorithms for a shape, with weights of this layout: `most` of them.
    ///
    /// `most` is one of two numbers, so that hipBLASLt does here what it did in the helper process that survived the
    /// same request.
    fn plans(
        &self,
        shape: &GemmShape,
        layout: WeightLayout,
        bias: Address,
        most: usize,
    ) -> Result<Vec<Arc<Plan>>> {
        let question = (*shape, layout, most);
        if let Some(known) = self.plans.borrow().get(&question) {
            return Ok(known.clone());
        }
        let Some(descriptor) = self.descriptor(shape, layout, bias)? else { return Ok(Vec::new()) };
        let plans = self.handle.plans(shape, &descriptor, WORKSPACE_BYTES, most)?;
        let plans: Vec<Arc<Plan>> = plans.into_iter().map(Arc::new).collect();
        self.plans.borrow_mut().insert(question, plans.clone());
        Ok(plans)
    }

    /// `None` if the library lacks the shape's epilogue.
    fn descriptor(
        &self,
        shape: &GemmShape,
        layout: WeightLayout,
        bias: Address,
    ) -> Result<Option<Arc<Descriptor>>> {
        if !self.has_epilogue_of(shape) {
            return Ok(None);
        }
        let bias = if shape.epilogue == Epilogue::None { Address::NULL } else { bias };
        let key = (layout, shape.epilogue, bias);
        if let Some(known) = self.descriptors.borrow().get(&key) {
            return Ok(Some(Arc::clone(known)));
        }
        let bias = (bias, shape.output_type);
        let made = Arc::new(Descriptor::new(self.library, layout, shape.epilogue, bias)?);
        self.descriptors.borrow_mut().insert(key, Arc::clone(&made));
        Ok(Some(made))
    }
}
