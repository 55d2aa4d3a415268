//! Makes the backend that the engine uses, with the decorators that every backend gets.

use super::config::BackendConfig;
use super::kinds::{BACKENDS, own_options};
use super::maker::{Findings, Made, Maker, MissingDevices};
use rukh_backend::options_dict::ParsedOptions;
use rukh_backend::wrap::{BatchSplittingBackend, CachingBackend, RecoveringBackend};
use rukh_backend::{Backend, BackendError, LARGEST_BATCH};
use rukh_net::NetworkFile;
use rukh_options::{AUTODISCOVER, BackendName, lc0};
use std::path::Path;
use std::sync::Arc;

/// A new backend, with the messages that its creation gave.
pub struct CreatedBackend {
    /// The backend, inside its cache and, if it needs one, its batch splitter.
    pub backend: Arc<dyn Backend>,
    /// The outermost decorator of `backend`, if that is a cache.
    pub cache: Option<Arc<CachingBackend>>,
    /// The decorator of `backend` that plays on after a fault of a device, if it has one.
    pub recovering: Option<Arc<RecoveringBackend>>,
    /// The path of the network that it evaluates, or a name in angle brackets; `None` if it has none.
    pub network: Option<String>,
    /// Whether that network was trained to move as people do.
    pub imitates_people: bool,
    /// Messages for the user (`info string`): why `auto` passed over a backend, or which network it found.
    pub notices: Vec<String>,
    /// The same for users who ask for details.
    pub details: Vec<String>,
}

/// Makes the backend that `config` asks for. The cache is the outermost decorator. Inside it, a batch splitter
/// surrounds a backend that takes only small batches.
///
/// # Errors
/// The name is unknown, an option is malformed or was read by no backend, the network does not load, or the backend
/// cannot run on this machine.
pub fn create(config: &BackendConfig) -> Result<CreatedBackend, BackendError> {
    let maker = Maker::new(config, BACKENDS, MissingDevices::Fail);
    let backend = make_splitting(config, &maker)?;
    Ok(finish(config, backend, maker.into_findings()))
}

/// Does the same as [`create`](create()) without the cache, for searches that have a cache each. A notice names the
/// network.
///
/// # Errors
/// As for [`create`](create()).
pub fn create_without_cache(config: &BackendConfig) -> Result<CreatedBackend, BackendError> {
    let maker = Maker::new(config, BACKENDS, MissingDevices::Fail);
    let backend = make_splitting(config, &maker)?;
    Ok(without_cache(backend, maker.into_findings()))
}

/// Does the same as [`create`](create()) without the cache and the batch splitter, with a network whose file was read.
///
/// # Errors
/// As for [`create`](create()).
pub fn create_for_file(config: &BackendConfig, file: NetworkFile) -> Result<CreatedBackend, BackendError> {
    let maker = Maker::new(config, BACKENDS, MissingDevices::Fail);
    maker.set_file(file);
    let backend = make_checked(config, &maker)?;
    Ok(without_cache(backend, maker.into_findings()))
}

/// Does the same as [`create`](create()) without the cache and the batch splitter, to measure the backend itself. A notice
/// names the network.
///
/// # Errors
/// As for [`create`](create()).
pub fn create_alone(config: &BackendConfig) -> Result<CreatedBackend, BackendError> {
    let maker = Maker::new(config, BACKENDS, MissingDevices::Fail);
    let backend = make_checked(config, &maker)?;
    Ok(without_cache(backend, maker.into_findings()))
}

/// The backend with a notice that names the network.
fn without_cache(backend: Arc<dyn Backend>, findings: Findings) -> CreatedBackend {
    let Findings { network, imitates_people, mut notices, details } = findings;
    notices.extend(network.as_ref().map(|network| format!("network {network}")));
    CreatedBackend { backend, cache: None, recovering: None, network, imitates_people, notices, details }
}

/// Makes the backend that `config` asks for, inside a batch splitter if it takes only small batches.
pub(super) fn make_splitting(config: &BackendConfig, maker: &Maker<'_>) -> Made {
    Ok(splitting(make_checked(config, maker)?))
}

/// Makes the backend that `config` asks for, and checks that its options were read. With options that name backends,
/// `auto` is `multiplexing`.
fn make_checked(config: &BackendConfig, maker: &Maker<'_>) -> Made {
    let parsed = ParsedOptions::parse(&config.options)?;
    let root = parsed.root();
    // lc0's selfplay begins with `multiplexing`, so its users name only the backends inside.
    let names_children = || root.inherited_backend().is_some() || !root.children().is_empty();
    let name = match config.backend == BackendName::Auto.name() && names_children() {
        true => BackendName::Multiplexing.name(),
        false => &config.backend,
    };
    let backend = maker.make(name, root)?;
    // A device that `auto` avoids does not read its options.
    if !maker.avoids_devices() {
        let passed_over =
            parsed.check_all_used(&config.backend, own_options(name), lc0::is_backend_option)?;
        if !passed_over.is_empty() {
            maker.notice(format!(
                "backend options of lc0 that have no meaning here are passed over: {}",
                passed_over.join(", ")
            ));
        }
    }
    Ok(backend)
}

/// Puts `backend` into a batch splitter if it takes only small batches.
pub(super) fn splitting(backend: Arc<dyn Backend>) -> Arc<dyn Backend> {
    if backend.attributes().maximum_batch_size < LARGEST_BATCH {
        Arc::new(BatchSplittingBackend::new(backend, LARGEST_BATCH))
    } else {
        backend
    }
}

/// The notice about a network that was discovered. A file in the working folder may lie there by accident.
fn discovered(path: &str) -> String {
    let is_in_working_folder =
        Path::new(path).parent().is_some_and(|folder| ["", "."].contains(&&*folder.to_string_lossy()));
    let is_file = !path.starts_with('<');
    match is_in_working_folder && is_file {
        true => format!("network {path}, because it is in the working folder; WeightsFile chooses another"),
        false => format!("network {path}"),
    }
}

/// Puts `backend` into its cache, and adds a notice that names the network if the user did not choose one.
pub(super) fn finish(
    config: &BackendConfig,
    backend: Arc<dyn Backend>,
    findings: Findings,
) -> CreatedBackend {
    let Findings { network, imitates_people, mut notices, details } = findings;
    let was_discovered = ["", AUTODISCOVER].contains(&config.network.as_str());
    notices.extend(network.as_ref().filter(|_| was_discovered).map(|path| discovered(path)));
    let backend = CachingBackend::new(backend, config.cache_entries, config.cache_key_rules);
    if backend.entries() < config.cache_entries {
        notices.push(format!(
            "the memory suffices for a cache of {} positions instead of {}",
            backend.entries(),
            config.cache_entries
        ));
    }
    if config.value_error && !backend.attributes().has_value_error {
        notices.push(format!(
            "{} does not estimate the error of its values, so uncertainty does not weight visits or cpuct",
            backend.attributes().name
        ));
    }
    let cache = Arc::new(backend);
    let backend = Arc::clone(&cache) as Arc<dyn Backend>;
    CreatedBackend {
        backend,
        cache: Some(cache),
        recovering: None,
        network,
        imitates_people,
        notices,
        details,
    }
}
