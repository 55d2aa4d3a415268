//! The contract between search and evaluators: [`Backend`], [`Batch`], [`Ticket`], all in this file.
//!
//! Requests are positions with history and legal moves. Evaluations are [`Value`]s (q, d, m, e) and one prior per legal
//! move. No tensor, stream or device type crosses the contract. One thread fills a batch and submits it once. The
//! ticket that `submit` returns then completes or fails. A failure is an error value, never a hang.
//!
//! | module | what it does |
//! |---|---|
//! | [`multi`] | presents several backends as one |
//! | [`wrap`] | decorates a backend with an evaluation cache, batch splitting, recovery, comparison or recording |
//! | [`synthetic`] | evaluates without a network, for tests and for measuring the search |
//! | [`queue`] | runs worker threads and their queue |
//! | [`owned_request`] | holds requests that own what they ask about |
//! | [`options_dict`] | parses the text of `BackendOptions` into a tree |
//! | [`ticket`], [`position_key`], [`winograd`] | provide tools that several backends use |
//! | [`profile`] | holds the time of each step of a forward pass |
//! | [`comparison`] | compares two evaluations of a position |
//! | [`batch_sizes`] | holds the sizes to which a device pads batches |
//! | [`evaluation`], [`error`] | define the result types |
//!
//! The search adds each request to a batch of the [cache](wrap). If the cache does not have the evaluation, it passes
//! the request on to the processor's or the card's backend. The ticket returns the evaluations, and the cache keeps them.

mod batch_sizes;
mod comparison;
mod error;
mod evaluation;
pub mod multi;
pub mod options_dict;
pub mod owned_request;
pub mod position_key;
pub mod profile;
pub mod queue;
pub mod synthetic;
pub mod ticket;
pub mod winograd;
pub mod wrap;

pub use batch_sizes::BatchSizes;
pub use comparison::{Comparison, Figure};
pub use error::BackendError;
pub use evaluation::{CompactPrior, Evaluation, Evaluations, Value};
use rukh_chess::{PackedMove, PositionHistory};
use rukh_net::InputPlanes;
use std::time::Duration;

/// The largest batch, in positions, that the search may submit: the upper end of the option `MinibatchSize`. The
/// registry makes every backend accept it.
pub const LARGEST_BATCH: usize = 1024;

/// The properties of a backend that the search adapts to.
#[derive(Clone, Debug)]
pub struct Attributes {
    /// The backend's name in messages, e.g. `cpu (AVX-512, fp32)`.
    pub name: String,
    /// Whether [`Value::d`] is evaluated; otherwise it is constant.
    pub has_wdl: bool,
    /// Whether [`Value::m`] is evaluated.
    pub has_mlh: bool,
    /// Whether [`Value::e`] is evaluated; otherwise it is 0.
    pub has_value_error: bool,
    /// Whether evaluation competes with the search for CPU cores.
    pub runs_on_cpu: bool,
    /// The number of batches that the backend evaluates at once. A search may want more threads.
    pub suggested_threads: usize,
    /// The batch size (in positions) that the search should aim for.
    pub recommended_batch_size: usize,
    /// The most positions that a batch may hold.
    pub maximum_batch_size: usize,
    /// The sizes to which the device pads batches. Empty if each added position costs time.
    pub batch_sizes: BatchSizes,
}

/// The devices that a backend evaluates on. A device is lost after a fault: every later batch on it fails at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Devices {
    /// The number of devices, lost ones included.
    pub total: usize,
    /// The number of lost devices.
    pub lost: usize,
}

impl Devices {
    /// Whether no device is left.
    pub fn are_all_lost(self) -> bool {
        self.lost == self.total
    }
}

/// What a device has done since its backend was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceWork {
    /// The time in which at least one batch was in flight.
    pub busy: Duration,
    /// The number of batches, in flight ones included.
    pub batches: u64,
    /// The positions in these batches.
    pub positions: u64,
}

impl DeviceWork {
    /// What was done since `before`; all of it if the device was made anew in the meantime.
    #[must_use]
    pub fn since(&self, before: &DeviceWork) -> DeviceWork {
        match self.batches < before.batches {
            true => *self,
            false => DeviceWork {
                busy: self.busy.saturating_sub(before.busy),
                batches: self.batches - before.batches,
                positions: self.positions.saturating_sub(before.positions),
            },
        }
    }
}

/// One position to evaluate.
#[derive(Clone, Copy, Debug)]
pub struct EvalRequest<'a> {
    /// The last position is the one to evaluate; the earlier ones fill the network's history planes.
    pub history: &'a PositionHistory,
    /// The legal moves of the last position. The priors come back in this order.
    pub moves: &'a [PackedMove],
}

/// What [`Batch::add`] did with a request.
#[derive(Debug)]
pub enum Added {
    /// The request has the next index in the batch.
    Queued,
    /// The evaluation was known (cached), so the request takes no place in the batch.
    Ready(Evaluation),
}

/// An evaluator. All search threads share it.
pub trait Backend: Send + Sync {
    /// The properties of this backend. The kinds of outputs and the largest batch do not change after its creation. The
    /// rest changes if [another evaluator](wrap::RecoveringBackend) takes the place of a lost device.
    fn attributes(&self) -> &Attributes;

    /// An empty batch.
    fn new_batch(&self) -> Box<dyn Batch>;

    /// The evaluation, if it is cached.
    fn cached(&self, request: EvalRequest<'_>) -> Option<Evaluation> {
        let _ = request;
        None
    }

    /// Empties the cache, for a new game.
    fn clear_cache(&self) {}

    /// The devices of this backend, and how many of them are lost.
    fn devices(&self) -> Devices {
        Devices { total: 1, lost: 0 }
    }

    /// The work of each device behind `multiplexing`, `demux` or `roundrobin`; empty if nothing measures it.
    fn work(&self) -> Vec<DeviceWork> {
        Vec::new()
    }

    /// What measures each step of this backend's forward pass; `None` if the backend does not evaluate a network itself.
    fn profiler(&self) -> Option<Box<dyn profile::Profiler + '_>> {
        None
    }
}

/// Evaluates single positions beside a backend that may hang or fail. Each function may take as long as the loading of
/// a network.
pub trait Fallback: Send + Sync {
    /// The priors by the embedded network, in the order of the request's moves. `None` if the evaluation fails.
    fn embedded_priors(&self, request: EvalRequest<'_>) -> Option<Vec<f32>>;

    /// The priors by the user's network. `None` if that is the embedded one, or if the evaluation fails.
    fn chosen_priors(&self, request: EvalRequest<'_>) -> Option<Vec<f32>>;
}

/// A batch that one search thread fills.
pub trait Batch: Send {
    /// The number of requests queued so far.
    fn len(&self) -> usize;

    /// Whether no request is queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hints that a request for the last position of `history` will probably follow soon, so that a cache can start to
    /// load its entry's memory.
    fn load_ahead(&self, _history: &PositionHistory) {}

    /// Adds a request. If the batch holds more than `maximum_batch_size`, its ticket fails.
    fn add(&mut self, request: EvalRequest<'_>) -> Added;

    /// Adds a position as the network's input planes, with the policy indices whose priors are wanted, at most 218: the
    /// most moves of a position. Returns false, and adds nothing, if this backend takes positions only.
    fn add_planes(&mut self, _planes: &InputPlanes, _indices: &[u16]) -> bool {
        false
    }

    /// Starts the evaluation. A backend without a device or threads of its own may leave the work to `wait`.
    fn submit(self: Box<Self>) -> Box<dyn Ticket>;
}

/// A submitted batch.
pub trait Ticket: Send {
    /// Blocks until every request is evaluated. The evaluations are in the order of the queued requests.
    ///
    /// # Errors
    /// [`BackendError::Evaluate`] if the batch failed; it then has no evaluations at all. [`BackendError::Interrupted`]
    /// if it failed, but a new batch with the same positions may succeed.
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError>;
}
