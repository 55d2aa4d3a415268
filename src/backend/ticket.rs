//! Pieces that several backends share: a ticket that is already complete, the rule for batches that are too
//! large, a child's batch that answers for every request in order, and the net under a child that panics.

use super::{Added, Attributes, BackendError, Batch, EvalRequest, Evaluation, Evaluations, Ticket};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A ticket whose outcome is known: for backends that evaluate while the batch is filled, and for refusals.
#[derive(Debug)]
pub(crate) struct Done(Result<Evaluations, BackendError>);

impl Done {
    /// A ticket that hands out `outcome` at once.
    pub(crate) fn boxed(outcome: Result<Evaluations, BackendError>) -> Box<dyn Ticket> {
        Box::new(Done(outcome))
    }
}

impl Ticket for Done {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        self.0
    }
}

/// The error for a batch of `length` requests, if that is more than the backend takes.
pub(crate) fn check_batch_size(attributes: &Attributes, length: usize) -> Result<(), BackendError> {
    if length <= attributes.maximum_batch_size {
        return Ok(());
    }
    Err(BackendError::Evaluate {
        name: attributes.name.clone(),
        reason: format!("a batch of {length} positions, at most {} fit", attributes.maximum_batch_size),
    })
}

/// Runs `evaluate`; a panic in it becomes an error that names the backend.
///
/// Whatever the backend was at when it panicked is not used again by the caller (the batch is gone), and
/// every structure shared by batches is behind a lock whose poison its owner handles; so unwinding is safe
/// here.
pub(crate) fn catch_panic<T>(
    name: &str,
    evaluate: impl FnOnce() -> Result<T, BackendError>,
) -> Result<T, BackendError> {
    catch_unwind(AssertUnwindSafe(evaluate)).unwrap_or_else(|payload| {
        Err(BackendError::Evaluate { name: name.to_owned(), reason: panic_reason(&*payload) })
    })
}

/// What a caught panic said.
pub(super) fn panic_reason(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("no message"))
}

/// A child's batch, for decorators: requests that the child answers at once keep their place among the
/// others, and an outcome of the wrong length is an error.
pub(crate) struct OrderedBatch {
    name: String,
    inner: Box<dyn Batch>,
    ready: Vec<(usize, Evaluation)>,
    length: usize,
}

impl OrderedBatch {
    /// An empty batch around `inner`; `name` is its backend's.
    pub(crate) fn new(name: &str, inner: Box<dyn Batch>) -> OrderedBatch {
        OrderedBatch { name: name.to_owned(), inner, ready: Vec::new(), length: 0 }
    }

    /// All requests added.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds a request.
    pub(crate) fn add(&mut self, request: EvalRequest<'_>) {
        if let Added::Ready(evaluation) = self.inner.add(request) {
            self.ready.push((self.length, evaluation));
        }
        self.length += 1;
    }

    /// Starts the evaluation.
    pub(crate) fn submit(self) -> OrderedTicket {
        let OrderedBatch { name, inner, ready, length } = self;
        let ticket = catch_panic(&name, || Ok(inner.submit()));
        OrderedTicket { name, ticket, ready, length }
    }
}

/// The ticket of an [`OrderedBatch`].
pub(crate) struct OrderedTicket {
    name: String,
    ticket: Result<Box<dyn Ticket>, BackendError>,
    ready: Vec<(usize, Evaluation)>,
    length: usize,
}

impl Ticket for OrderedTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        self.finish()
    }
}

impl OrderedTicket {
    /// Blocks until every request is evaluated; one evaluation per request, in the order added.
    pub(crate) fn finish(self) -> Result<Evaluations, BackendError> {
        let OrderedTicket { name, ticket, ready, length } = self;
        let ticket = ticket?;
        let evaluated = catch_panic(&name, || ticket.wait())?;
        check_outcome_length(&name, length - ready.len(), evaluated.len())?;
        if ready.is_empty() {
            return Ok(evaluated);
        }
        let mut all = Evaluations::with_capacity(length);
        let mut ready = ready.into_iter().peekable();
        let mut evaluated = evaluated.iter();
        for index in 0..length {
            if let Some((_, evaluation)) = ready.next_if(|(at, _)| *at == index) {
                all.push(evaluation.value, evaluation.priors);
            } else if let Some((value, priors)) = evaluated.next() {
                all.push(value, priors.iter().copied());
            }
        }
        Ok(all)
    }
}

/// The error for a backend that returns another number of evaluations than it was asked for.
pub(crate) fn check_outcome_length(name: &str, expected: usize, returned: usize) -> Result<(), BackendError> {
    if expected == returned {
        return Ok(());
    }
    Err(BackendError::Evaluate {
        name: name.to_owned(),
        reason: format!("it returned {returned} evaluations for {expected} positions"),
    })
}
