//! Tools for backends and decorators: a ticket that is already complete, checks of batch sizes, a batch that keeps
//! requests in order, and a function that turns a panic into an error.

use super::{Added, Attributes, Backend, BackendError, Batch, EvalRequest, Evaluation, Evaluations, Ticket};
use rukh_net::InputPlanes;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A ticket whose outcome is already known, for backends that evaluate each request when it is added and for checks
/// that fail.
#[derive(Debug)]
pub struct Done(Result<Evaluations, BackendError>);

impl Done {
    /// A ticket that returns `outcome` at once.
    pub fn boxed(outcome: Result<Evaluations, BackendError>) -> Box<dyn Ticket> {
        Box::new(Done(outcome))
    }
}

impl Ticket for Done {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        self.0
    }
}

/// Checks that a batch of `length` requests does not exceed `maximum_batch_size`.
pub fn check_batch_size(attributes: &Attributes, length: usize) -> Result<(), BackendError> {
    if length <= attributes.maximum_batch_size {
        return Ok(());
    }
    Err(BackendError::Evaluate {
        name: attributes.name.clone(),
        reason: format!(
            "the batch has {length} positions, more than the maximum of {}",
            attributes.maximum_batch_size
        ),
    })
}

/// Runs `evaluate`. A panic in it becomes an error that names the backend.
///
/// `evaluate` is unwind safe: the caller does not use the batch again after a panic, and every structure that batches
/// share is behind a lock whose owner handles poisoning.
pub fn catch_panic<T>(
    name: &str,
    evaluate: impl FnOnce() -> Result<T, BackendError>,
) -> Result<T, BackendError> {
    catch_unwind(AssertUnwindSafe(evaluate)).unwrap_or_else(|payload| {
        Err(BackendError::Evaluate { name: name.to_owned(), reason: panic_reason(&*payload) })
    })
}

/// The message of a caught panic.
pub fn panic_reason(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("no message"))
}

/// A batch of the backend inside a decorator. Its evaluations come in the order of all requests, including those that
/// the backend answered with [`Added::Ready`]. An outcome of the wrong length is an error.
pub(crate) struct OrderedBatch {
    name: String,
    inner: Box<dyn Batch>,
    /// The evaluations that were ready at once, with the indices of their requests.
    ready: Vec<(usize, Evaluation)>,
    length: usize,
}

impl OrderedBatch {
    /// An empty batch around `inner`. `name` is the name of its backend, for error messages.
    pub(crate) fn new(name: &str, inner: Box<dyn Batch>) -> OrderedBatch {
        OrderedBatch { name: name.to_owned(), inner, ready: Vec::new(), length: 0 }
    }

    /// The number of requests added.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Whether no request was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn add(&mut self, request: EvalRequest<'_>) {
        if let Added::Ready(evaluation) = self.inner.add(request) {
            self.ready.push((self.length, evaluation));
        }
        self.length += 1;
    }

    /// Does what [`Batch::add_planes`] does.
    pub(crate) fn add_planes(&mut self, planes: &InputPlanes, indices: &[u16]) -> bool {
        let is_added = self.inner.add_planes(planes, indices);
        self.length += usize::from(is_added);
        is_added
    }

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
    /// Blocks until every request is evaluated. Returns one evaluation for each request, in the order of `add`.
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

/// Evaluates one position.
///
/// # Errors
/// The evaluation fails.
pub fn evaluate_one(backend: &dyn Backend, request: EvalRequest<'_>) -> Result<Evaluation, BackendError> {
    let mut batch = OrderedBatch::new(&backend.attributes().name, backend.new_batch());
    batch.add(request);
    // There are as many evaluations as requests.
    let evaluations = batch.submit().finish()?;
    let (value, priors) = evaluations.get(0);
    Ok(Evaluation { value, priors: priors.into() })
}

/// Checks that a backend returned as many evaluations as it was asked for.
pub(crate) fn check_outcome_length(name: &str, expected: usize, returned: usize) -> Result<(), BackendError> {
    if expected == returned {
        return Ok(());
    }
    Err(BackendError::Evaluate {
        name: name.to_owned(),
        reason: format!("the backend returned {returned} evaluations for {expected} positions"),
    })
}
