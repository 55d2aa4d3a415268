//! `rukh tune`: measures all that the first start has no time for, and keeps it for the next start.

use super::avoided::BlasLibrary;
use super::backend::{RocmBackend, RocmDevice, creation_error};
use super::error::Result;
use super::gemm::{Effort, Gemms};
use super::kernels::Kernels;
use super::network::DeviceNetwork;
use super::options::{RocmOptions, RocmPrecision};
use super::startup::{sized_maker, slot_maker};
use super::tuning::{self, Control};
use crate::backend::BackendError;
use crate::net::Network;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What tuning has found.
#[derive(Debug)]
pub struct TuneOutcome {
    /// The device: its name and its architecture.
    pub device: String,
    /// The file with the table of products; `None` if there is no cache folder.
    pub table: Option<PathBuf>,
    /// The number of the network's products in all batch sizes.
    pub products: usize,
    /// The number of products that were measured now.
    pub measured: usize,
    /// The number of products that the next run measures.
    pub left: usize,
    /// For each library, and for our own kernels, the number of products that it computes fastest.
    pub by_library: Vec<(&'static str, usize)>,
    /// Messages for the user.
    pub notices: Vec<String>,
}

/// Measures every product of the network that was not measured thoroughly before, for `budget` at most. `tell` gets the
/// number of products that have been measured, and of those to measure; if it returns false, tuning ends. What has been
/// measured is kept in any case, and the next call goes on from there.
///
/// # Errors
/// The device cannot be opened, or the network does not fit into it.
pub fn tune(
    name: &str,
    options: &RocmOptions,
    (network, precision): (Network, RocmPrecision),
    budget: Duration,
    tell: &mut dyn FnMut(usize, usize) -> bool,
) -> std::result::Result<TuneOutcome, BackendError> {
    let device = RocmBackend::open(name, options)?;
    let control = Control { effort: Effort::Full, budget, tell };
    tune_device(&device, options, network, precision, control).map_err(|error| creation_error(name, &error))
}

fn tune_device(
    device: &RocmDevice,
    options: &RocmOptions,
    network: Network,
    precision: RocmPrecision,
    mut control: Control<'_>,
) -> Result<TuneOutcome> {
    let gpu = &device.gpu;
    gpu.device.set_patience(options.timeout);
    let element = precision.element();
    let kernels = Kernels::of(gpu, element)?;
    let gemms = Gemms::new(gpu, &kernels, options.gemm)?;
    let origin = tuning::origin(gpu, &gemms);
    let kept = tuning::recall(gpu, &gemms, options, &origin, true).unwrap_or_default();
    let network = Arc::new(DeviceNetwork::new(gpu.device, network, element)?);
    let maker = sized_maker(slot_maker(gpu, &network, &kernels, &gemms, options), options)?;
    let mut notices = [gpu.notices.as_slice(), gemms.refusals()].concat();
    let tuned = tuning::tune(&maker, options, &origin, kept, &mut control)?;
    notices.extend(tuned.notices);
    let count = |library: BlasLibrary| tuned.libraries.iter().filter(|&&by| by == library).count();
    let by_library = BlasLibrary::ALL.map(|library| (library.name(), count(library)));
    Ok(TuneOutcome {
        device: format!("{} ({})", gpu.name, gpu.architecture),
        table: tuned.path,
        products: tuned.libraries.len(),
        measured: tuned.measured,
        left: tuned.left,
        by_library: by_library.into(),
        notices,
    })
}
