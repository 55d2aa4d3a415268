//! Makes the backend that the engine uses, with the decorators that every backend gets.

use super::config::{BackendConfig, LARGEST_BATCH};
use super::kinds::BACKENDS;
use super::maker::Maker;
use crate::backend::options_dict::ParsedOptions;
use crate::backend::wrap::{BatchSplittingBackend, CachingBackend};
use crate::backend::{Backend, BackendError};
use std::sync::Arc;

/// A new backend, with the messages that its creation gave.
pub struct CreatedBackend {
    /// The backend, inside its cache and, if it needs one, its batch splitter.
    pub backend: Arc<dyn Backend>,
    /// Messages for the user (`info string`): why `auto` passed over a backend, or which network it found.
    pub notices: Vec<String>,
}

/// Makes the backend that `config` asks for. The cache is the outermost decorator. Inside it, a batch splitter
/// surrounds a backend that takes only small batches.
///
/// # Errors
/// The name is unknown, an option is malformed or was read by no backend, the network does not load, or the backend
/// cannot run on this machine.
pub fn create(config: &BackendConfig) -> Result<CreatedBackend, BackendError> {
    let parsed = ParsedOptions::parse(&config.options)?;
    let maker = Maker::new(config, BACKENDS);
    let backend = maker.make(&config.backend, parsed.root())?;
    parsed.check_all_used(&config.backend)?;
    let backend: Arc<dyn Backend> = if backend.attributes().maximum_batch_size < LARGEST_BATCH {
        Arc::new(BatchSplittingBackend::new(backend, LARGEST_BATCH))
    } else {
        backend
    };
    let backend = CachingBackend::new(backend, config.cache_entries, config.cache_key_rules)?;
    let mut notices = maker.into_notices();
    if config.value_error && !backend.attributes().has_value_error {
        notices.push(format!(
            "{} does not estimate the error of its values, so uncertainty does not weight visits or cpuct",
            backend.attributes().name
        ));
    }
    Ok(CreatedBackend { backend: Arc::new(backend), notices })
}
