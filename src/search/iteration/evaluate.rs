//! Step 5, evaluate: the backend evaluates the batch while the worker's visits are parked.

use crate::state::{Counters, Gathered, Minibatch, Parking, SearchContext};
use rukh_backend::{BackendError, Batch, Evaluations};

/// Evaluates the batch of the worker with this `index`. `None` means that the search has released the tree
/// in the meantime and has cancelled the visits.
///
/// # Errors
/// If the backend fails. In that case the visits are cancelled.
pub(super) fn evaluate(
    context: &SearchContext,
    counters: &Counters,
    parking: &Parking,
    index: usize,
    minibatch: Minibatch,
) -> Result<Option<(Gathered, Evaluations)>, BackendError> {
    let Minibatch { request, gathered } = minibatch;
    let expected = gathered.waiting.len();
    parking.park(index, gathered);
    let evaluated = wait_for_results(context, request, expected);
    let Some(gathered) = parking.resume(index) else { return Ok(None) };
    match evaluated {
        Ok(evaluations) => Ok(Some((gathered, evaluations))),
        Err(error) => {
            gathered.cancel(&context.tree, counters);
            Err(error)
        }
    }
}

fn wait_for_results(
    context: &SearchContext,
    request: Box<dyn Batch>,
    expected: usize,
) -> Result<Evaluations, BackendError> {
    let evaluations = request.submit().wait()?;
    if evaluations.len() != expected {
        return Err(BackendError::Evaluate {
            name: context.backend.attributes().name.clone(),
            reason: format!("{} results for {expected} positions", evaluations.len()),
        });
    }
    Ok(evaluations)
}
