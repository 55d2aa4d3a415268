//! Prepares a device for a network: looks up the kernels, uploads the weights, tunes the GEMMs, and makes slots whose
//! figures are checked.

use super::rungs::{Check, Measured, checked_slots};
use crate::gemm::gemms::Gemms;
use crate::network::device_network::DeviceNetwork;
use crate::options::{GpuOptions, Tuning};
use crate::pass::buckets::recommended_batch;
use crate::pass::slot::{Slot, SlotMaker};
use crate::runtime::device::Gpu;
use crate::runtime::error::Result;
use crate::runtime::ffi::gemm::GemmShape;
use crate::runtime::kernels::{AttentionKernel, Kernels};
use crate::runtime::maker::Maker;
use crate::runtime::precision::GpuPrecision;
use crate::tuning::choices;
use crate::tuning::kept_settings::{self, Kept, LADDER};
use crate::tuning::kept_tables;
use crate::tuning::load::Load;
use crate::tuning::passes;
use crate::tuning::settings::{BATCH, MeasuredSettings};
use rukh_net::Network;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The default limit on the batch size, in positions. Little device memory lowers the limit.
pub(crate) const MAXIMUM_BATCH: usize = 512;

/// The part of the tuning time on an AMD card that is reserved for settings until all are measured. A wrong setting costs
/// more than a GEMM that is tuned at the next start.
const FOR_SETTINGS: Duration = Duration::from_millis(2500);

/// A ladder of at most this many batch sizes is not measured.
const FEW_SIZES: usize = 3;

/// Little memory does not lower the limit on the batch size below this.
const LEAST_MAXIMUM_BATCH: usize = 16;

/// The slots, their batch sizes, and notices for the user.
pub(crate) struct Started {
    pub(crate) slots: Vec<Slot>,
    /// The batch sizes that forward passes are laid out for, in ascending order.
    pub(crate) bucket_sizes: Vec<usize>,
    /// The batch size, in positions, that is recommended to the search: a measured one, or the usual one of the card.
    pub(crate) recommended_batch: usize,
    pub(crate) notices: Vec<String>,
}

/// Makes [`GpuOptions::streams`] slots.
///
/// # Errors
/// A layer has a size that the kernels do not support, memory runs out, a call of HIP or a BLAS library fails, or the
/// figures are wrong whatever is left out.
pub(crate) fn start(
    gpu: &Gpu,
    network: Network,
    precision: GpuPrecision,
    options: &GpuOptions,
    inverse_temperature: f32,
) -> Result<Started> {
    gpu.device.set_patience(options.timeout);
    let kernels = Kernels::of(gpu, precision.element())?;
    let gemms = Gemms::new(gpu, &kernels, options.gemm)?.with_weights(options.weight_bits);
    let origin = kept_tables::origin(gpu, &gemms);
    let tunes = options.warm_up && options.tuning != Tuning::Off;
    let kept = kept_tables::recall(gpu, &gemms, options, &origin, tunes);
    let mut notices = gemms.refusals().to_vec();
    notices.extend(without_byte_weights(&gemms, precision));
    let key = passes::key(&origin.versions, precision, &network.architecture);
    let mut measured = Measured::default();
    let mut settings = Kept::nothing();
    if tunes {
        match passes::kept(&key) {
            Ok(sizes) => measured.ladder = sizes,
            Err(notice) => notices.push(notice),
        }
        match kept_settings::kept(&key) {
            Ok(kept) => settings = kept.unwrap_or(settings),
            Err(notice) => {
                notices.push(notice);
                // A file that cannot be read is not written over: the start has the defaults, and measures nothing.
                settings = Kept::tuned(MeasuredSettings::default());
            }
        }
        measured.settings = settings.settings.clone();
    }
    let is_free = |what: &str| is_free(options, recommended_batch(gpu.multiprocessors), what);
    // On NVIDIA's cards the defaults have been measured, and there is less time. Nothing is measured where nobody would
    // check the figures.
    let may_measure = tunes && gpu.maker == Maker::Amd && !settings.open(is_free).is_empty();
    let check = options.warm_up.then(|| {
        let depends_on = figures_depend_on(gpu, &origin.versions, precision, options);
        Check::new(&network, inverse_temperature, &depends_on, (&measured, &gemms), may_measure)
    });
    let network = Arc::new(DeviceNetwork::new(gpu, network, precision)?);
    let plain = SlotMaker { inverse_temperature, ..slot_maker(gpu, &network, &kernels, &gemms, options) };
    let (mut is_settled, mut has_tuned) = (true, false);
    if let Some(kept) = kept {
        let mut tell = |_, _| true;
        let mut control = options.tuning.control(gpu, &mut tell);
        if may_measure {
            control.budget = control.budget.saturating_sub(FOR_SETTINGS);
            control.later_budget = control.later_budget.min(control.budget);
        }
        let maker = with_measured(plain, &measured, options)?;
        let tuned = choices::tune(&maker, options, &origin, kept, &mut control)?;
        notices.extend(tuned.notices);
        (is_settled, has_tuned) = (tuned.is_settled, tuned.measured > 0);
    }
    if may_measure {
        let before = settings.to_string();
        let ladder = measure_passes(plain, options, &mut settings, !has_tuned);
        match ladder {
            Ok(None) => {}
            Ok(Some(ladder)) => {
                // Without a cache folder the next start measures again, here and below.
                let _ = passes::keep(&key, &ladder);
                measured.ladder = ladder;
            }
            Err(error) => {
                notices.push(format!("tuning: settings are not measured: {error}"));
                // The next start would fail again.
                settings.open(is_free).into_iter().for_each(|what| settings.has_measured(what));
            }
        }
        if settings.to_string() != before {
            let _ = kept_settings::keep(&key, &settings);
        }
        measured.settings = settings.settings;
    }
    let maker = with_measured(plain, &measured, options)?;
    let slots = match check {
        Some(check) => {
            let checked = checked_slots(&maker, options, check, (&measured, is_settled))?;
            notices.extend(checked.notices);
            checked.slots
        }
        None => (0..maker.streams).map(|_| maker.slot()).collect::<Result<Vec<_>>>()?,
    };
    kernels.module().keep();
    let bucket_sizes = slots.first().map(|slot| slot.bucket_sizes().to_vec()).unwrap_or_default();
    if bucket_sizes.len() < maker.bucket_sizes().len() {
        let most = bucket_sizes.last().copied().unwrap_or(0);
        let seconds = options.longest_batch.as_secs_f64();
        notices.push(format!(
            "batches have at most {most} positions: the card takes more than {seconds} s for more"
        ));
    }
    let recommended_batch = measured.settings.batch_or(recommended_batch(gpu.multiprocessors));
    Ok(Started { slots, bucket_sizes, recommended_batch, notices })
}

/// The maker with what was measured, as far as the user has not chosen otherwise.
fn with_measured<'a>(
    plain: SlotMaker<'a>,
    measured: &'a Measured,
    options: &GpuOptions,
) -> Result<SlotMaker<'a>> {
    let maker = measured.settings.applied(plain, |option| options.leaves(option));
    sized_maker(SlotMaker { ladder: &measured.ladder, ..maker }, options)
}

/// Whether starts and `rukh tune` may choose `what`: an option that the user has not set, or the batch size ([`BATCH`]).
/// The user's limit on batches fixes the latter if it is below `recommended`, the size of the card, because a size found
/// under the limit would be wrong without it.
pub(crate) fn is_free(options: &GpuOptions, recommended: usize, what: &str) -> bool {
    match what {
        BATCH => options.maximum_batch.is_none_or(|most| most >= recommended),
        option => options.leaves(option),
    }
}

/// Measures what earlier starts have left of the settings and of the ladder of batch sizes, as far as there is time. Returns
/// the ladder if it was measured. If not even the first item found time although no GEMM was tuned in this start, it is
/// dropped, so that the next start goes on with the one after it.
///
/// # Errors
/// The memory for the slots is missing, or a pass fails.
fn measure_passes(
    plain: SlotMaker<'_>,
    options: &GpuOptions,
    known: &mut Kept,
    has_all_time: bool,
) -> Result<Option<Vec<usize>>> {
    let plain = sized_maker(plain, options)?;
    let SlotMaker { gpu, network, .. } = plain;
    let left = options.tuning.budget(gpu.maker, Duration::ZERO).saturating_sub(gpu.opened.elapsed());
    let (begin, time) = (Instant::now(), left.max(FOR_SETTINGS));
    let goes_on = |expected: Duration| begin.elapsed().saturating_add(expected) < time;
    let recommended = recommended_batch(gpu.multiprocessors);
    let is_free = |what: &str| is_free(options, recommended, what);
    let load = Load { maker: plain, time: Duration::ZERO, batches: 2 };
    let usual = recommended.min(plain.maximum_batch);
    let open = known.open(is_free);
    if usual < recommended && open.contains(&BATCH) {
        // The memory is too small for batches of the card's size.
        known.has_measured(BATCH);
    }
    // Two loads of two batches in each slot after a warm-up of two, at a quarter of the data sheet's rate.
    let operations = (8 * plain.streams * usual) as f64 * network.flops as f64;
    let seconds = operations / (gpu.peak_operations_per_second() / 4.0);
    let expected = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    kept_settings::at_first_start(&load, usual, known, is_free, (expected, goes_on))?;
    let mut ladder = None;
    if known.open(is_free) == [LADDER] {
        let maker = SlotMaker { streams: 1, ..known.settings.applied(plain, is_free) };
        // With few sizes there is nothing to choose.
        if maker.bucket_sizes().len() <= FEW_SIZES {
            known.has_measured(LADDER);
        } else {
            // A batch of the next size may take half of the expected time.
            let times = passes::first_times(&maker, |expected| {
                expected / 2 <= options.longest_batch && goes_on(expected)
            })?;
            ladder = times.map(|times| passes::first_ladder_of(&times));
            ladder.iter().for_each(|_| known.has_measured(LADDER));
        }
    }
    if let Some(first) = open.first().filter(|_| has_all_time && known.open(is_free) == open) {
        known.has_measured(first);
    }
    Ok(ladder)
}

/// Says so if the user wants weights of 8 bits and no GEMM can have them.
fn without_byte_weights(gemms: &Gemms, precision: GpuPrecision) -> Option<String> {
    let usual = GemmShape { may_round: true, ..GemmShape::plain(64, 64, 64, precision.element()) };
    let is_missed = gemms.rounds_weights() && !gemms.may_use_bytes(&usual);
    is_missed.then(|| {
        format!(
            "weight_bits={} changes nothing: only Rukh's own kernels (gemm=auto or gemm=own) in fp16 or bf16 read weights of 8 bits",
            gemms.weights().key()
        )
    })
}

/// What the figures depend on, apart from the network and the GEMMs. Of several cards that are alike, each is checked.
fn figures_depend_on(gpu: &Gpu, versions: &str, precision: GpuPrecision, options: &GpuOptions) -> String {
    let GpuOptions {
        streams, maximum_batch, graph, fork, few_rows, fuse, attention, gemm, weight_bits, ..
    } = options;
    format!(
        "card {},{},{versions},{:016x},{},{streams:?},{maximum_batch:?},{graph:?},{fork:?},{few_rows:?},{fuse:?},{attention:?},{},{}",
        gpu.device.ordinal(),
        rukh_base::version::version(),
        gpu.code.digest(),
        precision.key(),
        gemm.key(),
        weight_bits.key()
    )
}

/// A maker of slots with these options, for batches of [`MAXIMUM_BATCH`] and without a temperature.
pub(crate) fn slot_maker<'a>(
    gpu: &'a Gpu,
    network: &'a Arc<DeviceNetwork>,
    kernels: &'a Kernels,
    gemms: &'a Gemms,
    options: &GpuOptions,
) -> SlotMaker<'a> {
    SlotMaker {
        gpu,
        network,
        kernels,
        gemms,
        inverse_temperature: 1.0,
        maximum_batch: MAXIMUM_BATCH,
        streams: options.settled_streams(),
        ladder: &[],
        has_graphs: options.graph.unwrap_or(true),
        fork: options.settled_fork(&gpu.facts),
        few_rows: options.few_rows.unwrap_or(0),
        fuse: options.settled_fuse(&gpu.facts),
        attention: options.attention.unwrap_or(AttentionKernel::Matrix),
        waiting: options.settled_waiting(),
    }
}

/// The maker with the largest batch that the user wants, or else that fits into the memory.
pub(crate) fn sized_maker<'a>(maker: SlotMaker<'a>, options: &GpuOptions) -> Result<SlotMaker<'a>> {
    let maximum_batch = match options.maximum_batch {
        Some(maximum) => maximum,
        None => fitting_batch(&maker, options.longest_batch)?,
    };
    Ok(SlotMaker { maximum_batch, ..maker })
}

/// The largest batch with which all slots together take at most half of the free memory, because the desktop may need the
/// rest, and that does not take longer than `longest` even at the rate of the card's data sheet. Tuning launches GEMMs of
/// such a batch before the warm-up measures how long it really takes.
pub(crate) fn fitting_batch(maker: &SlotMaker<'_>, longest: Duration) -> Result<usize> {
    let SlotMaker { gpu, network, .. } = maker;
    let budget = gpu.free_memory.saturating_sub(network.bytes()) / 2 / maker.streams;
    let seconds = |batch: usize| batch as f64 * network.flops as f64 / gpu.peak_operations_per_second();
    let mut batch = maker.maximum_batch;
    while batch > LEAST_MAXIMUM_BATCH
        && (maker.scratch_sizes(batch)?.total() > budget || seconds(batch) > longest.as_secs_f64())
    {
        batch /= 2;
    }
    Ok(batch)
}
