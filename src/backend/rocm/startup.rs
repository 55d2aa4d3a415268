//! Prepares a device for a network: looks up the kernels, uploads the weights, tunes the products, and makes slots whose
//! figures are checked.

use super::cache;
use super::device::Gpu;
use super::error::Result;
use super::ffi::gemm::ElementType;
use super::gemm::Gemms;
use super::kernels::Kernels;
use super::network::DeviceNetwork;
use super::options::{RocmOptions, Tuning};
use super::passes;
use super::rungs::{Check, checked_slots};
use super::slot::{Slot, SlotMaker};
use super::tuning;
use crate::net::Network;
use std::sync::Arc;

/// The default limit on the batch size, in positions. Little device memory lowers the limit.
pub(super) const MAXIMUM_BATCH: usize = 512;

/// Little memory does not lower the limit on the batch size below this.
const LEAST_MAXIMUM_BATCH: usize = 16;

/// The slots, their batch sizes, and notices for the user.
pub(super) struct Started {
    pub(super) slots: Vec<Slot>,
    /// The batch sizes that forward passes are laid out for, in ascending order.
    pub(super) bucket_sizes: Vec<usize>,
    pub(super) notices: Vec<String>,
}

/// Makes [`RocmOptions::streams`] slots.
///
/// # Errors
/// A layer has a size that the kernels do not support, memory runs out, a call of HIP or a BLAS library fails, or the
/// figures are wrong whatever is left out.
pub(super) fn start(
    gpu: &Gpu,
    network: Network,
    element: ElementType,
    options: &RocmOptions,
    inverse_temperature: f32,
) -> Result<Started> {
    gpu.device.set_patience(options.timeout);
    let kernels = Kernels::of(gpu, element)?;
    let gemms = Gemms::new(gpu, &kernels, options.gemm)?;
    let origin = tuning::origin(gpu, &gemms);
    let tunes = options.warm_up && options.tuning != Tuning::Off;
    let kept = tuning::recall(gpu, &gemms, options, &origin, tunes);
    let mut notices = gemms.refusals().to_vec();
    let mut ladder = Vec::new();
    let mut fused = None;
    if tunes {
        let key = passes::key(&origin.versions, element, &network.architecture);
        match passes::kept(&key) {
            Ok(sizes) => ladder = sizes,
            Err(notice) => notices.push(notice),
        }
        fused = passes::kept_fusing(&key);
    }
    let fuse = options.settled_fuse(&gpu.architecture, fused);
    let check = options.warm_up.then(|| {
        let depends_on = figures_depend_on(gpu, &origin.versions, element, options);
        let depends_on = format!("{depends_on},{fuse},{ladder:?}");
        Check::new(&network, inverse_temperature, &depends_on, &gemms)
    });
    let network = Arc::new(DeviceNetwork::new(gpu.device, network, element)?);
    let maker = sized_maker(slot_maker(gpu, &network, &kernels, &gemms, options), options)?;
    let maker = SlotMaker { inverse_temperature, ladder: &ladder, fuse, ..maker };
    let mut is_settled = true;
    if let Some(kept) = kept {
        let tuned =
            tuning::tune(&maker, options, &origin, kept, &mut options.tuning.control(&mut |_, _| true))?;
        notices.extend(tuned.notices);
        is_settled = tuned.is_settled;
    }
    let slots = match check {
        Some(check) => {
            let checked = checked_slots(&maker, options, check, is_settled)?;
            notices.extend(checked.notices);
            checked.slots
        }
        None => (0..options.streams).map(|_| maker.slot()).collect::<Result<Vec<_>>>()?,
    };
    Ok(Started { slots, bucket_sizes: maker.bucket_sizes(), notices })
}

/// What the figures depend on, apart from the network and the products.
fn figures_depend_on(gpu: &Gpu, versions: &str, element: ElementType, options: &RocmOptions) -> String {
    let RocmOptions { streams, maximum_batch, graph, fork, few_rows, gemm, .. } = options;
    format!(
        "{},{versions},{:016x},{},{streams},{maximum_batch:?},{graph},{fork:?},{few_rows},{}",
        env!("RUKH_VERSION"),
        cache::hash_of(&gpu.code.0),
        element.name(),
        gemm.key()
    )
}

/// A maker of slots with these options, for batches of [`MAXIMUM_BATCH`] and without a temperature.
pub(super) fn slot_maker<'a>(
    gpu: &'a Gpu,
    network: &'a Arc<DeviceNetwork>,
    kernels: &'a Kernels,
    gemms: &'a Gemms,
    options: &RocmOptions,
) -> SlotMaker<'a> {
    SlotMaker {
        gpu,
        network,
        kernels,
        gemms,
        inverse_temperature: 1.0,
        maximum_batch: MAXIMUM_BATCH,
        ladder: &[],
        has_graphs: options.graph,
        fork: options.settled_fork(&gpu.architecture),
        few_rows: options.few_rows,
        fuse: options.settled_fuse(&gpu.architecture, None),
        waiting: options.settled_waiting(),
    }
}

/// The maker with the largest batch that the user wants, or else that fits into the memory.
pub(super) fn sized_maker<'a>(maker: SlotMaker<'a>, options: &RocmOptions) -> Result<SlotMaker<'a>> {
    let maximum_batch = match options.maximum_batch {
        Some(maximum) => maximum,
        None => fitting_batch(&maker, options.streams)?,
    };
    Ok(SlotMaker { maximum_batch, ..maker })
}

/// The largest batch with which all slots together take at most half of the free memory. The desktop may need the rest.
pub(super) fn fitting_batch(maker: &SlotMaker<'_>, slots: usize) -> Result<usize> {
    let budget = maker.gpu.free_memory.saturating_sub(maker.network.bytes()) / 2 / slots;
    let mut batch = maker.maximum_batch;
    while batch > LEAST_MAXIMUM_BATCH && maker.scratch_sizes(batch)?.total() > budget {
        batch /= 2;
    }
    Ok(batch)
}
