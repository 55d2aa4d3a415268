//! Pieces that several backends share: a ticket that is already complete, and the rule for batches that are too
//! large.

use super::{Attributes, BackendError, Evaluations, Ticket};

/// A ticket whose outcome is known: for backends that evaluate while the batch is filled, and for refusals.
#[derive(Debug)]
pub struct Done(Result<Evaluations, BackendError>);

impl Done {
    /// A ticket that hands out `outcome` at once.
    pub fn boxed(outcome: Result<Evaluations, BackendError>) -> Box<dyn Ticket> {
        Box::new(Done(outcome))
    }
}

impl Ticket for Done {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        self.0
    }
}

/// The error for a batch of `length` requests, if that is more than the backend takes.
pub fn check_batch_size(attributes: &Attributes, length: usize) -> Result<(), BackendError> {
    if length <= attributes.maximum_batch_size {
        return Ok(());
    }
    Err(BackendError::Evaluate {
        name: attributes.name.clone(),
        reason: format!(
            "a batch of {length} positions, at most {} fit",
            attributes.maximum_batch_size
        ),
    })
}
