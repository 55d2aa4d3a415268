//! Prepares a device for a network: looks up the kernels, uploads the weights, tunes the GEMMs, and makes slots whose
//! figures are checked.

use super::rungs::{Check, checked_slots};
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
use crate::tuning::kept_tables;
use crate::tuning::load::Load;
use crate::tuning::passes;
use crate::tuning::settings::{self, MeasuredSettings};
use rukh_net::Network;
use std::sync::Arc;
use std::time::Duration;

/// The default limit on the batch size, in positions. Little device memory lowers the limit.
pub(crate) const MAXIMUM_BATCH: usize = 512;

/// After this time since the device was opened, a start measures no further setting.
const MEASURED_UNTIL: Duration = Duration::from_secs(10);

/// Little memory does not lower the limit on the batch size below this.
const LEAST_MAXIMUM_BATCH: usize = 16;

/// The slots, their batch sizes, and notices for the user.
pub(crate) struct Started {
    pub(crate) slots: Vec<Slot>,
    /// The batch sizes that forward passes are laid out for, in ascending order.
    pub(crate) bucket_sizes: Vec<usize>,
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
    let mut ladder = Vec::new();
    // `None` if no start and no tuning has measured them.
    let mut kept_settings = None;
    let key = passes::key(&origin.versions, precision, &network.architecture);
    if tunes {
        match passes::kept(&key) {
            Ok(sizes) => ladder = sizes,
            Err(notice) => notices.push(notice),
        }
        match settings::kept(&key) {
            Ok(settings) => kept_settings = settings,
            Err(notice) => notices.push(notice),
        }
    }
    let are_unmeasured = kept_settings.is_none();
    let mut settings = kept_settings.unwrap_or_default();
    let check = options.warm_up.then(|| {
        let depends_on = figures_depend_on(gpu, &origin.versions, precision, options);
        let depends_on = format!("{depends_on},{ladder:?}");
        Check::new(&network, inverse_temperature, &depends_on, (&settings, &gemms))
    });
    let network = Arc::new(DeviceNetwork::new(gpu, network, precision)?);
    let plain = slot_maker(gpu, &network, &kernels, &gemms, options);
    let maker_with = |settings: &MeasuredSettings| -> Result<SlotMaker<'_>> {
        let maker = settings.applied(plain, |option| options.leaves(option));
        Ok(SlotMaker { inverse_temperature, ladder: &ladder, ..sized_maker(maker, options)? })
    };
    let mut maker = maker_with(&settings)?;
    let mut is_settled = true;
    if let Some(kept) = kept {
        let mut tell = |_, _| true;
        let mut control = options.tuning.control(gpu, &mut tell);
        let tuned = choices::tune(&maker, options, &origin, kept, &mut control)?;
        notices.extend(tuned.notices);
        is_settled = tuned.is_settled;
    }
    // Settings are measured only where the figures are compared: nobody else would check the new ones.
    if tunes && are_unmeasured && check.as_ref().is_some_and(Check::has_reference) {
        settings = measure_settings(&maker, options, &key, &mut notices);
        maker = maker_with(&settings)?;
    }
    let slots = match check {
        Some(check) => {
            let checked = checked_slots(&maker, options, check, (&settings, is_settled))?;
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
    Ok(Started { slots, bucket_sizes, notices })
}

/// Measures the settings of AMD's cards for which there is time, and keeps them for the next start. On NVIDIA's cards the
/// defaults have been measured, and there is less time.
fn measure_settings(
    maker: &SlotMaker<'_>,
    options: &GpuOptions,
    key: &str,
    notices: &mut Vec<String>,
) -> MeasuredSettings {
    let gpu = maker.gpu;
    if gpu.maker != Maker::Amd {
        return MeasuredSettings::default();
    }
    let load = Load { maker: SlotMaker { ladder: &[], ..*maker }, time: Duration::ZERO, batches: 2 };
    let size = recommended_batch(gpu.multiprocessors).min(maker.maximum_batch);
    let is_free = |option: &str| options.leaves(option);
    match settings::at_first_start(&load, size, is_free, || gpu.opened.elapsed() < MEASURED_UNTIL) {
        Ok(found) => {
            // Without a cache folder the next start measures again.
            found.as_ref().into_iter().for_each(|found| drop(settings::keep(key, found)));
            found.unwrap_or_default()
        }
        Err(error) => {
            notices.push(format!("tuning: settings are not measured: {error}"));
            MeasuredSettings::default()
        }
    }
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

/// What the figures depend on, apart from the network and the GEMMs.
fn figures_depend_on(gpu: &Gpu, versions: &str, precision: GpuPrecision, options: &GpuOptions) -> String {
    let GpuOptions {
        streams, maximum_batch, graph, fork, few_rows, fuse, attention, gemm, weight_bits, ..
    } = options;
    format!(
        "{},{versions},{:016x},{},{streams:?},{maximum_batch:?},{graph:?},{fork:?},{few_rows:?},{fuse:?},{attention:?},{},{}",
        rukh_base::VERSION,
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
