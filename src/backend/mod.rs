//! The contract between search and evaluators.
//!
//! Chess-shaped: positions with history and legal moves go in; q, d, m, e and one prior per legal move come out.
//! No tensor, stream or device type crosses it. A batch is filled by one thread, submitted once, and becomes
//! a ticket that completes or fails; an error is a value, never a hang.
//!
//! | modules | what they are |
//! |---|---|
//! | [`factory`], [`options`], [`config`] | from the user's words to a backend |
//! | [`cpu`], [`rocm`] | evaluate a network |
//! | [`trivial`], [`random`] | evaluators that need none, for tests and for measuring the search |
//! | [`cache`], [`batch_split`] | decorators (backends around backends) around whatever is made |
//! | [`multiplexing`], [`demux`], [`round_robin`] | decorators around several backends; [`children`] is what they share |
//! | [`check`], [`record`] | decorators that compare, or write down |
//! | [`evaluation`], [`error`] | what comes back |
//! | [`ticket`], [`position_key`] | what backends share: finished tickets, and what counts as the same position |
//!
//! The way of a batch: `search` fills one of [`cache`], which passes on what it does not know, to [`cpu`].

pub mod batch_split;
pub mod cache;
mod cache_store;
pub mod check;
pub mod children;
pub mod config;
pub mod cpu;
pub mod demux;
pub mod error;
pub mod evaluation;
pub mod factory;
#[cfg(all(feature = "loom", test))]
mod models;
pub mod multiplexing;
pub mod options;
mod owned_request;
pub mod position_key;
mod prefetch;
pub mod random;
pub mod record;
pub mod rocm;
pub mod round_robin;
pub mod ticket;
pub mod trivial;
mod winograd;
mod work_queue;
mod worker;

use crate::chess::{PackedMove, PositionHistory};
pub use error::BackendError;
pub use evaluation::{CompactPrior, Evaluation, Evaluations, Value};

/// What search may need to know of a backend.
#[derive(Clone, Debug)]
pub struct Attributes {
    /// For messages, e.g. `cpu (AVX-512, fp32)`.
    pub name: String,
    /// Whether d is more than a constant.
    pub has_wdl: bool,
    /// Whether m means anything.
    pub has_mlh: bool,
    /// Whether e is more than 0.
    pub has_value_error: bool,
    /// Whether evaluating competes with search for CPU cores.
    pub runs_on_cpu: bool,
    /// Search threads that keep it busy.
    pub suggested_threads: usize,
    /// Batch size worth waiting for.
    pub recommended_batch_size: usize,
    /// The most that one batch may hold.
    pub maximum_batch_size: usize,
}

/// One position to evaluate.
#[derive(Clone, Copy, Debug)]
pub struct EvalRequest<'a> {
    /// Its last position is the one to evaluate.
    pub history: &'a PositionHistory,
    /// Its legal moves: priors come back in this order.
    pub moves: &'a [PackedMove],
}

/// What became of a request added to a batch.
#[derive(Debug)]
pub enum Added {
    /// It is in the batch, at the next index.
    Queued,
    /// It was known already (cache) and takes no place in the batch.
    Ready(Evaluation),
}

/// An evaluator. Shared by all search threads.
pub trait Backend: Send + Sync {
    /// Constant after creation.
    fn attributes(&self) -> &Attributes;

    /// An empty batch.
    fn new_batch(&self) -> Box<dyn Batch>;

    /// The evaluation, if it is known without work.
    fn cached(&self, request: EvalRequest<'_>) -> Option<Evaluation> {
        let _ = request;
        None
    }

    /// Forgets what is cached (a new game).
    fn clear_cache(&self) {}

    /// How full the cache is, in thousandths; `None` where there is no cache.
    fn cache_fullness_permille(&self) -> Option<u32> {
        None
    }
}

/// A batch being filled.
pub trait Batch: Send {
    /// Requests queued so far.
    fn len(&self) -> usize;

    /// Whether nothing is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says that a request for the last position of `history` will probably come soon: what it needs may be on its way
    /// from memory by then.
    fn prefetch(&self, _history: &PositionHistory) {}

    /// Adds a request; at most `maximum_batch_size` fit, more is an error at `submit`.
    fn add(&mut self, request: EvalRequest<'_>) -> Added;

    /// Starts the evaluation (asynchronous backends) or just wraps it up (the CPU evaluates in `wait`).
    fn submit(self: Box<Self>) -> Box<dyn Ticket>;
}

/// A batch under way.
pub trait Ticket: Send {
    /// Blocks until every request is evaluated, in the order queued.
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError>;
}
