//! `rukh tune`: measures all that the first start has no time for, and keeps it for the next start.

use crate::backend::{GpuBackend, GpuDevice, creation_error};
use crate::gemm::avoided::BlasLibrary;
use crate::gemm::gemms::{Effort, Gemms};
use crate::network::device_network::DeviceNetwork;
use crate::options::GpuOptions;
use crate::pass::buckets::{candidate_sizes, recommended_batch};
use crate::pass::slot::SlotMaker;
use crate::runtime::error::Result;
use crate::runtime::kernels::Kernels;
use crate::runtime::precision::GpuPrecision;
use crate::startup::prepare::{is_free, sized_maker, slot_maker};
use crate::tuning::choices::{self, Control};
use crate::tuning::defaults;
use crate::tuning::kept_settings::{self, Kept};
use crate::tuning::kept_tables;
use crate::tuning::load::Load;
use crate::tuning::passes::{self, PassTime};
use crate::tuning::settings::{self, BATCH};
use crate::tuning::winners::winners;
use rukh_backend::BackendError;
use rukh_base::os_error::in_words;
use rukh_net::Network;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Small batches, in positions, for which no setting may be slower.
const SMALL_BATCHES: [usize; 2] = [16, 4];

/// The time of a measurement with one setting, and the fewest batches of each slot.
const LOAD_TIME: Duration = Duration::from_millis(300);
const LEAST_BATCHES: usize = 4;

/// What is being measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TuneStage {
    /// Single GEMMs.
    Gemms,
    /// The settings of the backend's options, with batches in several slots at once.
    Settings,
    /// Whole forward passes, round by round.
    Passes,
    /// Whole evaluations with the tuned GEMMs and with the default's.
    Defaults,
}

/// What tuning has found.
#[derive(Debug)]
pub struct TuneOutcome {
    /// The device: its name and its architecture.
    pub device: String,
    /// The file with the GEMM table; `None` if there is no cache folder.
    pub table: Option<PathBuf>,
    /// The number of the network's GEMMs in all batch sizes.
    pub gemms: usize,
    /// The number of GEMMs that were measured now.
    pub measured: usize,
    /// The number of GEMMs that the next run measures.
    pub left: usize,
    /// For each library, and for our own kernels, the number of GEMMs that it computes fastest.
    pub by_library: Vec<(&'static str, usize)>,
    /// The number of GEMMs that our own kernels computed fastest with preshuffled weights, and of those that use such
    /// weights from now on.
    pub preshuffled: [usize; 2],
    /// The number of GEMMs that a library computes fastest with transposed weights, and so from now on.
    pub transposed: usize,
    /// The number of GEMMs with weights of 8 bits.
    pub byte_weights: usize,
    /// The settings that are faster than the defaults, as in `BackendOptions`; `None` if they were not measured.
    pub settings: Option<String>,
    /// The batch size, in positions, that is recommended to the search: a measured one, or the usual one of the card.
    pub batch: usize,
    /// The batch sizes of the next start, in ascending order; empty if they were not measured.
    pub ladder: Vec<usize>,
    /// The time of a pass of each size that could be in the ladder, if it was measured now.
    pub passes: Vec<PassTime>,
    /// By how much a batch takes longer in its batch size than in the fastest size that holds it, at most; 0 if
    /// nothing was measured now.
    pub padding: f32,
    /// The batch sizes, in positions, that keep the default's GEMMs, because whole evaluations are not measurably
    /// faster with the tuned ones; `None` if that was not measured.
    pub defaults: Option<Vec<usize>>,
    /// Messages for the user.
    pub notices: Vec<String>,
}

/// Measures every GEMM of the network that was not measured thoroughly before, for `budget` at most. When all of them
/// have been measured, finds the fastest settings of the options that the user left open, times whole passes with them,
/// and places the ladder of batch sizes. Where whole evaluations of a batch size are not faster with the tuned GEMMs
/// than with the default's, keeps the default's. `tell` gets what is being measured, how much of it is done, and how
/// much there is; if it returns false, tuning ends. What has been measured is kept in any case, and the next call goes
/// on from there.
///
/// # Errors
/// The device cannot be opened, or the network does not fit into it.
pub fn tune(
    name: &str,
    options: &GpuOptions,
    (network, precision): (Network, GpuPrecision),
    budget: Duration,
    tell: &mut dyn FnMut(TuneStage, usize, usize) -> bool,
) -> std::result::Result<TuneOutcome, BackendError> {
    let device = GpuBackend::open(name, options)?;
    tune_device(&device, options, (network, precision), budget, tell)
        .map_err(|error| creation_error(name, &error))
}

fn tune_device(
    device: &GpuDevice,
    options: &GpuOptions,
    (network, precision): (Network, GpuPrecision),
    budget: Duration,
    tell: &mut dyn FnMut(TuneStage, usize, usize) -> bool,
) -> Result<TuneOutcome> {
    let gpu = &device.gpu;
    gpu.device.set_patience(options.timeout);
    let precision = precision.for_network(&network).on(gpu)?;
    let element = precision.element();
    let kernels = Kernels::of(gpu, element)?;
    let gemms = Gemms::new(gpu, &kernels, options.gemm)?.with_weights(options.weight_bits);
    let origin = kept_tables::origin(gpu, &gemms);
    let kept = kept_tables::recall(gpu, &gemms, options, &origin, true).unwrap_or_default();
    let begin = Instant::now();
    let key = passes::key(&origin.versions, precision, &network.architecture);
    let network = Arc::new(DeviceNetwork::new(gpu, network, precision)?);
    let maker = sized_maker(slot_maker(gpu, &network, &kernels, &gemms, options), options)?;
    let mut notices = [gpu.notices.as_slice(), gemms.refusals()].concat();
    let candidates = candidate_sizes(maker.maximum_batch);
    let maker = SlotMaker { ladder: &candidates, ..maker };
    let mut of_gemms = |done, all| tell(TuneStage::Gemms, done, all);
    let mut control = Control { effort: Effort::Full, budget, later_budget: budget, tell: &mut of_gemms };
    let mut tuned = choices::tune(&maker, options, &origin, kept, &mut control)?;
    notices.append(&mut tuned.notices);
    let mut ladder = passes::kept(&key).unwrap_or_default();
    let mut measured = kept_settings::kept(&key).unwrap_or_default().and_then(Kept::of_tuning);
    let mut compared = defaults::kept(&key).filter(|_| tuned.measured == 0);
    let mut times = Vec::new();
    let most = maker.maximum_batch;
    let recommended = recommended_batch(gpu.multiprocessors);
    let usual = recommended.min(most);
    // GEMMs that run with the default would move the times of passes.
    if tuned.left == 0 && (tuned.measured > 0 || ladder.is_empty() || measured.is_none()) {
        let load =
            Load { maker: SlotMaker { ladder: &[], ..maker }, time: LOAD_TIME, batches: LEAST_BATCHES };
        let smaller = SMALL_BATCHES.into_iter().filter(|&small| small < usual);
        let sizes: Vec<usize> = std::iter::once(usual).chain(smaller).collect();
        let is_free =
            |what: &str| is_free(options, recommended, what) && (what != BATCH || usual == recommended);
        let found = settings::fastest(&load, &sizes, is_free, &mut notices, &mut |done, all| {
            begin.elapsed() < budget && tell(TuneStage::Settings, done, all)
        })?;
        if let Some(settings) = found {
            keep(kept_settings::keep(&key, &Kept::tuned(settings.clone())), "the settings are", &mut notices);
            let maker = settings.applied(maker, |_| true);
            times = passes::times(&maker, &mut |done, all| {
                begin.elapsed() < budget && tell(TuneStage::Passes, done, all)
            })?;
            measured = Some(settings);
        }
    }
    if !times.is_empty() {
        ladder = passes::ladder_of(&times);
        keep(passes::keep(&key, &ladder), "the batch sizes are", &mut notices);
    }
    let padding = passes::padding_of(&times, &ladder);
    if let (Some(settings), 0, None, false) = (&measured, tuned.left, &compared, ladder.is_empty()) {
        let maker = settings.applied(SlotMaker { ladder: &ladder, ..maker }, |option| options.leaves(option));
        let left = || budget.saturating_sub(begin.elapsed());
        let mut tell = |done, all| begin.elapsed() < budget && tell(TuneStage::Defaults, done, all);
        let found = defaults::compare(&maker, options, &origin, &mut tuned, (left(), &mut tell))?;
        if let Some(found) = found {
            notices.extend(found.notices);
            if found.ladder != ladder {
                ladder = found.ladder;
                keep(passes::keep(&key, &ladder), "the batch sizes are", &mut notices);
            }
            keep(defaults::keep(&key, &found.sizes, &origin, &tuned), "the comparison is", &mut notices);
            compared = Some(found.sizes);
        }
    }
    let winners = winners(&maker)?;
    let count = |library: BlasLibrary| winners.libraries.iter().filter(|&&by| by == library).count();
    let by_library = BlasLibrary::ALL.map(|library| (library.name(gpu.maker), count(library)));
    Ok(TuneOutcome {
        device: format!("{} ({})", gpu.name, gpu.architecture),
        table: tuned.path,
        gemms: winners.libraries.len(),
        measured: tuned.measured,
        left: tuned.left,
        by_library: by_library.into(),
        preshuffled: winners.preshuffled,
        transposed: winners.transposed,
        byte_weights: winners.bytes,
        settings: measured.as_ref().map(|settings| settings.texts().join(",")),
        batch: measured.map_or(usual, |settings| settings.batch_or(usual)).min(most),
        padding,
        ladder,
        passes: times,
        defaults: compared,
        notices,
    })
}

/// Tells the user that something is not kept for the next start.
fn keep(outcome: io::Result<()>, what: &str, notices: &mut Vec<String>) {
    if let Err(error) = outcome {
        notices.push(format!("{what} not kept: {}", in_words(&error)));
    }
}
