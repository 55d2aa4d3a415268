//! Makes the steps that compute GEMMs, by the choices of [`crate::gemm::gemms`].

use crate::gemm::avoided::{Asked, BlasLibrary};
use crate::gemm::chain::{self, Link, WholeConvolution};
use crate::gemm::gemms::{GemmChoice, GemmProblem, Gemms};
use crate::gemm::own::{OwnChoice, are_aligned};
use crate::network::copies::CopiedLayout;
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::gemm::{GemmOperands, GemmShape, WeightLayout};
use crate::runtime::ffi::hip::Address;
use crate::runtime::ffi::hipblaslt::ScaledFactors;
use crate::runtime::ffi::program::Step;

impl Gemms {
    /// The step for a GEMM with its epilogue; `None` if no library offers that epilogue for that shape.
    ///
    /// # Errors
    /// No library can compute a plain GEMM of this shape.
    pub(crate) fn step(
        &self,
        name: &str,
        shape: &GemmShape,
        operands: GemmOperands,
        bias: Address,
    ) -> Result<Option<Step>> {
        let problem = GemmProblem::plain(*shape, operands, bias);
        if let Some(survey) = &mut *self.survey.borrow_mut() {
            survey.push(problem);
            return Ok(Some(Step::rocblas(name.to_owned(), *shape, operands, None)));
        }
        let Some(choice) = self.choice(shape) else {
            if shape.has_epilogue() {
                return Ok(None);
            }
            return Err(self.with_refusals(format!("no library may be asked for the GEMM {shape}")));
        };
        if let GemmChoice::Own(choice) = choice {
            let (choice, operands) = self.laid_out(shape, (&operands, bias), choice);
            return self.step_with(name, shape, (operands, bias), GemmChoice::Own(choice));
        }
        if choice.layout() == WeightLayout::Transposed {
            let copied = self.with_transposed_weights(&problem, choice);
            if let Ok(Some(step)) = self.step_by_choice(name, &copied, choice) {
                return Ok(Some(step));
            }
        }
        if let GemmChoice::HipblasLt { solution, layout } = choice {
            // Without memory for transposed weights, the library's own choice for the plain ones does.
            let solution = solution.filter(|_| layout == WeightLayout::Plain);
            let choice = GemmChoice::HipblasLt { solution, layout: WeightLayout::Plain };
            match self.step_by_choice(name, &problem, choice) {
                Ok(Some(step)) => return Ok(Some(step)),
                // hipBLASLt has no algorithm. rocBLAS supports every plain shape, and the caller can use a separate
                // step for the epilogue.
                Ok(None) | Err(_)
                    if shape.has_epilogue() || self.may_ask(Asked::plain(BlasLibrary::Rocblas), shape) => {}
                Ok(None) | Err(_) if self.own.is_some() => {
                    let own = self.best_own_choice(shape);
                    return own.map_or(Ok(None), |choice| self.step_by_choice(name, &problem, choice));
                }
                Ok(None) => {
                    return Err(self.with_refusals(format!("no library has an algorithm for {shape}")));
                }
                Err(error) => return Err(self.with_refusals(error.to_string())),
            }
        }
        let choice = match choice {
            GemmChoice::Rocblas { layout: WeightLayout::Plain, .. } => choice,
            _ => GemmChoice::ROCBLAS,
        };
        self.step_by_choice(name, &problem, choice)
    }

    /// The step that computes a chain of GEMMs, each of which reads the results of the one before, and the LayerNorms
    /// of their results; `None` if a library computes one of the GEMMs, or our kernels cannot compute the chain.
    pub(crate) fn chain(&self, name: &str, links: &[Link]) -> Option<Step> {
        if self.survey.borrow().is_some() {
            return None;
        }
        let own = self.own.as_ref()?;
        let choices = links.iter().map(|link| match self.choice(&link.shape) {
            Some(GemmChoice::Own(choice)) => Some(choice),
            _ => None,
        });
        let choices: Vec<OwnChoice> = choices.collect::<Option<_>>()?;
        let laid_out = |layout: WeightLayout| -> Option<Vec<Link>> {
            let laid_out = links.iter().zip(&choices).map(|(link, choice)| {
                let choice = choice.with_layout(layout)?;
                let (_, operands) = self.laid_out(&link.shape, (&link.operands, link.bias), choice);
                Some(Link { operands, ..*link })
            });
            laid_out.collect()
        };
        let of_bytes = chain::prefers_bytes(links, &choices).then(|| laid_out(WeightLayout::Bytes)).flatten();
        // Without memory for some of the copies, all GEMMs read the usual weights.
        let of_bytes = of_bytes.filter(|links| links.iter().all(Link::is_of_bytes));
        let step = of_bytes.and_then(|links| own.chain(name, &links, &choices));
        step.or_else(|| own.chain(name, &laid_out(WeightLayout::Plain)?, &choices))
    }

    /// The step that computes a whole convolution; `None` if a library computes its GEMMs, or our kernels cannot
    /// compute all of it in one launch.
    pub(crate) fn convolution(&self, name: &str, convolution: &WholeConvolution) -> Option<Step> {
        if self.survey.borrow().is_some() {
            return None;
        }
        let WholeConvolution { shape, operands, .. } = convolution;
        match (self.choice(shape), &self.own) {
            (Some(GemmChoice::Own(choice)), Some(own)) => {
                let (choice, operands) = self.laid_out(shape, (operands, Address::NULL), choice);
                own.convolution(name, &WholeConvolution { operands, ..*convolution }, choice)
            }
            _ => None,
        }
    }

    /// An error with the failure `what` and the reason why the other library is not used.
    fn with_refusals(&self, what: String) -> GpuError {
        let refusals = self.refusals().iter().cloned();
        GpuError::Unsupported(std::iter::once(what).chain(refusals).collect::<Vec<_>>().join("; "))
    }

    /// The step that computes a GEMM with `choice`; `None` if that library cannot compute it, or there are no
    /// weights of its layout.
    pub(crate) fn step_by_choice(
        &self,
        name: &str,
        problem: &GemmProblem,
        choice: GemmChoice,
    ) -> Result<Option<Step>> {
        let operands = problem.operands_in(choice.layout());
        operands.map_or(Ok(None), |operands| {
            self.step_with(name, &problem.shape, (operands, problem.bias), choice)
        })
    }

    /// As [`Gemms::step_by_choice`], with weights of the choice's layout.
    fn step_with(
        &self,
        name: &str,
        shape: &GemmShape,
        (operands, bias): (GemmOperands, Address),
        choice: GemmChoice,
    ) -> Result<Option<Step>> {
        match choice {
            GemmChoice::Own(choice) => match &self.own {
                Some(own) => own.step(name, shape, (operands, bias), choice).map(Some),
                None => Ok(None),
            },
            GemmChoice::Rocblas { .. } if shape.has_epilogue() => Ok(None),
            GemmChoice::Rocblas { solution, .. } => {
                Ok(Some(Step::rocblas(name.to_owned(), *shape, operands, solution)))
            }
            GemmChoice::HipblasLt { solution, .. } => {
                let hipblaslt = self.hipblaslt.as_ref();
                hipblaslt.map_or(Ok(None), |steps| steps.step(name, shape, (operands, bias), solution))
            }
        }
    }

    /// The choice with the layout of the weights that the table says, and the operands with weights of that layout.
    /// Where these cannot be made, for example because memory is full, the plain ones do.
    fn laid_out(
        &self,
        shape: &GemmShape,
        (operands, bias): (&GemmOperands, Address),
        choice: OwnChoice,
    ) -> (OwnChoice, GemmOperands) {
        let is_aligned = are_aligned(operands, bias);
        if choice.layout() == WeightLayout::Bytes && is_aligned {
            let copied = self.layouts.copied(shape, operands, &CopiedLayout::Bytes);
            if let Some(operands) = copied {
                return (choice, operands);
            }
        }
        let is_wanted = self.layouts.prefer_preshuffled(shape) && is_aligned;
        let changed = choice.with_layout(WeightLayout::Preshuffled).filter(|_| is_wanted);
        let copied = changed.and_then(|choice| {
            let layout = CopiedLayout::Preshuffled(self.preshuffler(shape)?);
            Some((choice, self.layouts.copied(shape, operands, &layout)?))
        });
        copied.unwrap_or((choice.with_plain_weights(), *operands))
    }

    /// hipBLASLt's step for a GEMM in e4m3, whose x has as many rows as the shape says; `None` if our own kernel is to
    /// compute it, or hipBLASLt lacks the types or the shape's epilogue.
    pub(crate) fn scaled_step(
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
