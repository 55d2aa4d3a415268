//! What a user may set, and how it is written in `-o`.

use super::device::GemmLibrary;
use super::ffi::exchange::Waiting;
use crate::backend::BackendError;
use crate::backend::options::Options;
use std::path::PathBuf;
use std::time::Duration;

/// The number format of weights, activations and products' factors. Sums, LayerNorm's statistics and softmax are
/// fp32 in all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RocmPrecision {
    /// fp32.
    Fp32,
    /// fp16.
    Fp16,
    /// bf16.
    Bf16,
    /// The fastest that is exact enough: fp16.
    Auto,
}

/// How much is tried to find the fastest way to multiply each shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tuning {
    /// Nothing, and no table is read: each library's own choice.
    Off,
    /// The libraries' first proposals, within ten seconds at the first start; the table is kept.
    Quick,
    /// All their proposals, within forty seconds.
    Full,
}

impl Tuning {
    /// Proposals of hipBLASLt that are timed for each shape.
    pub(super) fn proposals(self) -> usize {
        match self {
            Tuning::Off => 1,
            Tuning::Quick => 8,
            Tuning::Full => 16,
        }
    }

    /// All the time that may be spent.
    pub(super) fn budget(self) -> Duration {
        match self {
            Tuning::Off => Duration::ZERO,
            Tuning::Quick => Duration::from_secs(10),
            Tuning::Full => Duration::from_secs(40),
        }
    }
}

/// What a user may set.
#[derive(Clone, Debug)]
pub struct RocmOptions {
    /// The device's number, as HIP counts.
    pub gpu: usize,
    /// Batches in flight. Small ones leave much of a card idle: three of them are faster than two by a seventh.
    pub streams: usize,
    /// The most positions that a batch may have; `None`: what fits the device's memory well.
    pub maximum_batch: Option<usize>,
    /// Whether forward passes are captured as graphs.
    pub graph: bool,
    /// Up to how many positions a batch's branches (smolgen beside Q, K and V; the heads) run beside each other.
    pub fork: usize,
    /// Products of at most so many rows (smolgen's hidden layers, the scalar heads') are our own kernel's, not a
    /// library's, where there are matrix instructions. None by default: cuBLASLt is faster.
    pub few_rows: usize,
    /// How a slot's thread waits for its batch; `None`: without sleep where there are processors to spare.
    pub waiting: Option<Waiting>,
    /// Which BLAS library multiplies.
    pub gemm: GemmLibrary,
    /// Whether products are timed at warm-up.
    pub tuning: Tuning,
    /// The table of what was found; `None`: one in the user's cache folder.
    pub tuning_file: Option<PathBuf>,
    /// Whether every bucket runs once before the backend is ready. Without, the first batches are slower, and nothing
    /// is tuned.
    pub warm_up: bool,
    /// A batch whose steps are timed one by one when the backend is made; the table is among the notices.
    pub time_steps: Option<usize>,
}

/// More positions than any batch has.
const EVERY_BATCH: usize = 1024;

/// What was fastest, or next to it, in every batch size on the one card that could be measured, an NVIDIA H200 through
/// `hip/shims/cuda` (`scripts/cuda_check.sh FOLDER sweep`).
impl Default for RocmOptions {
    fn default() -> RocmOptions {
        RocmOptions {
            gpu: 0,
            streams: 3,
            maximum_batch: None,
            graph: true,
            fork: EVERY_BATCH,
            few_rows: 0,
            waiting: None,
            gemm: GemmLibrary::Auto,
            tuning: Tuning::Quick,
            tuning_file: None,
            warm_up: true,
            time_steps: None,
        }
    }
}

impl RocmOptions {
    /// As written in `-o`; no option may ask for more than `largest_batch` positions.
    ///
    /// # Errors
    /// A value that is none.
    pub fn read(options: Options<'_>, largest_batch: usize) -> Result<RocmOptions, BackendError> {
        let defaults = RocmOptions::default();
        let positions = |key: &str| match options.text(key) {
            Some(_) => options.number(key, 1, 1..=largest_batch).map(Some),
            None => Ok(None),
        };
        Ok(RocmOptions {
            gpu: options.number("gpu", defaults.gpu, 0..=255)?,
            streams: options.number("streams", defaults.streams, 1..=16)?,
            maximum_batch: positions("max_batch")?,
            graph: options.flag("graph", defaults.graph)?,
            fork: options.number("fork", defaults.fork, 0..=largest_batch)?,
            few_rows: options.number("few_rows", defaults.few_rows, 0..=largest_batch)?,
            waiting: options.choice(
                "wait",
                &[
                    ("auto", None),
                    ("spin", Some(Waiting::Spin)),
                    ("yield", Some(Waiting::Yield)),
                    ("block", Some(Waiting::Block)),
                ],
            )?,
            gemm: options.choice(
                "gemm",
                &[
                    ("auto", GemmLibrary::Auto),
                    ("rocblas", GemmLibrary::Rocblas),
                    ("hipblaslt", GemmLibrary::HipblasLt),
                ],
            )?,
            tuning: options
                .choice("tune", &[("quick", Tuning::Quick), ("full", Tuning::Full), ("off", Tuning::Off)])?,
            tuning_file: options.text("tuning_file").map(PathBuf::from),
            warm_up: options.flag("warm_up", defaults.warm_up)?,
            time_steps: positions("time_steps")?,
        })
    }

    /// [`RocmOptions::waiting`], settled: a thread that spins must not take a processor from those that search.
    pub(super) fn settled_waiting(&self) -> Waiting {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let spare = processors > 4 * self.streams;
        self.waiting.unwrap_or(if spare { Waiting::Spin } else { Waiting::Block })
    }
}
