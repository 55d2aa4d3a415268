//! The backends on graphics cards. `no_cards.rs` takes the place of this file in a build without the feature `gpu`.

use super::config::BackendConfig;
use rukh_backend::options_dict::OptionsDict;
use rukh_backend::{Backend, BackendError, LARGEST_BATCH};
use rukh_gpu::{GpuBackend, GpuOptions, GpuPrecision};
use rukh_net::Network;
use rukh_options::BackendName;
use std::sync::Arc;

pub(super) use rukh_gpu::{Maker as CardMaker, has_usable_card, makers};

/// The lists of options of these backends.
pub(super) const OPTIONS: &[&[&str]] = GpuOptions::LISTS;

/// Makes a backend on a card, and tells `notice` what the user should know. The options are read before the device is
/// opened, so that a wrong option is reported even without a device. `network` is called once the device is there.
pub(super) fn make(
    config: &BackendConfig,
    name: BackendName,
    options: OptionsDict<'_>,
    network: impl FnOnce() -> Result<Arc<Network>, BackendError>,
    notice: impl Fn(String),
) -> Result<Arc<dyn Backend>, BackendError> {
    let precision = GpuPrecision::of_backend(name).unwrap_or(GpuPrecision::Auto);
    let gpu_options =
        GpuOptions::read(CardMaker::of_backend(name).unwrap_or_default(), options, LARGEST_BATCH)?;
    let device = GpuBackend::open(name.name(), &gpu_options)?;
    let backend = GpuBackend::new(
        device,
        Arc::unwrap_or_clone(network()?),
        precision,
        &gpu_options,
        config.policy_softmax_temperature,
        config.history_fill,
    )?;
    backend.notices().iter().cloned().for_each(notice);
    Ok(Arc::new(backend))
}
