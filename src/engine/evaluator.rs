//! The backend that the engine plays with: the one that the options ask for, or another if that one cannot be made.
//!
//! A chess program that asks for a move must get a good one, whatever is wrong with the options. If the backend of the
//! options cannot be made (the network cannot be read, a device is missing, or an option is wrong), the user gets one
//! error, and the engine goes on with the choice that worked last. If there was none, it takes the processor with the
//! user's network, or else with the embedded one. The refused choice is tried again after [`Evaluator::try_again`].

use rukh_backend::wrap::{CachingBackend, RecoveringBackend};
use rukh_backend::{Backend, BackendError, Fallback};
use rukh_base::sync::Arc;
use rukh_net::discover::{EMBEDDED, OWN_NETWORK};
use rukh_net::fingerprint::Fingerprint;
use rukh_options::BackendName;
use rukh_registry::{self, BackendConfig, CreatedBackend, ProcessorFallback, Recovery};
use rukh_search::Responder;
use rukh_search::memory::CacheBytes;

/// A backend that was made, and what it was made from.
struct Current {
    config: BackendConfig,
    /// The network's files before they were read.
    files: Fingerprint,
    backend: Arc<dyn Backend>,
    cache: Option<Arc<CachingBackend>>,
    recovering: Option<Arc<RecoveringBackend>>,
    /// The network, as the user is told its name; `None` if the backend has none.
    network: Option<String>,
    /// Whether the network moves as people do, and the user has not been told yet that a search spoils that.
    is_spoilt_by_search: bool,
    /// Evaluates single positions if the backend does not. `None` if a fault is an error.
    fallback: Option<Arc<dyn Fallback>>,
}

/// The backend for a configuration.
pub(super) struct Obtained {
    pub(super) backend: Arc<dyn Backend>,
    /// Whether the backend was made just now. Evaluations of an earlier one are not comparable with its own.
    pub(super) is_new: bool,
}

/// Makes the backend when it is first needed, and keeps it.
pub(super) struct Evaluator {
    current: Option<Current>,
    /// The last configuration of the user that worked.
    worked: Option<BackendConfig>,
    /// The configuration of the user that `current` plays in place of.
    refused: Option<BackendConfig>,
    /// Whether the network's file has changed since `current` was made from it.
    is_outdated: bool,
    /// What a user who asks for details wants to know about `current`.
    details: Vec<String>,
    /// Whether the user has asked for details.
    tells_details: bool,
    /// What the session knows about faults of devices. `None` means that a fault, or a backend that cannot be made, is
    /// an error, as a benchmark needs it.
    recovery: Option<Recovery>,
}

impl Evaluator {
    /// Makes no backend yet.
    pub(super) fn new(recovery: Option<Recovery>) -> Evaluator {
        Evaluator {
            current: None,
            worked: None,
            refused: None,
            is_outdated: false,
            details: Vec::new(),
            tells_details: false,
            recovery,
        }
    }

    /// The backend that was made last.
    pub(super) fn current(&self) -> Option<&dyn Backend> {
        self.current.as_ref().map(|current| &*current.backend)
    }

    /// The name of the network of the backend that was made last.
    pub(super) fn network(&self) -> Option<&str> {
        self.current.as_ref()?.network.as_deref()
    }

    /// Tells the details about the backend, now and whenever another is made, if `is_wanted`.
    pub(super) fn tell_details(&mut self, is_wanted: bool, responder: &dyn Responder) {
        self.tells_details = is_wanted;
        self.details.iter().filter(|_| is_wanted).for_each(|detail| responder.message(detail));
    }

    /// The evaluator of single positions in case the backend gives no evaluation.
    pub(super) fn fallback(&self) -> Option<&Arc<dyn Fallback>> {
        self.current.as_ref()?.fallback.as_ref()
    }

    /// The memory of the cache.
    pub(super) fn cache_bytes(&self) -> CacheBytes {
        let Some(cache) = self.current.as_ref().and_then(|current| current.cache.as_ref()) else {
            return CacheBytes::default();
        };
        let filled_permille = u64::from(cache.fullness_permille().min(1000));
        let full = cache.bytes();
        CacheBytes { full, missing: full / 1000 * (1000 - filled_permille) }
    }

    /// Gives the cache the size that `wanted` asks for, if the backend differs from `wanted` in nothing else. A new
    /// backend would have to load its network again.
    fn resize_cache(&mut self, wanted: &BackendConfig) {
        if let Some(current) = &mut self.current
            && current.config.is_same_but_for_cache(wanted)
            && current.config.cache_entries != wanted.cache_entries
            && let Some(cache) = &current.cache
            && cache.resize(wanted.cache_entries)
        {
            current.config.cache_entries = wanted.cache_entries;
            self.worked = Some(wanted.clone());
        }
    }

    /// Tells the user once of each network that imitates people that it does so only without a search. To be called before
    /// a search of more than one node.
    pub(super) fn warn_of_search(&mut self, responder: &dyn Responder) {
        let Some(current) = &mut self.current else { return };
        if std::mem::take(&mut current.is_spoilt_by_search) {
            responder.message(
                "this is a Maia network, which moves like people of its rating only without a search: set the option \
                 NodesPerMove to 1, unless you want a stronger opponent",
            );
        }
    }

    /// Lets the next call of [`Evaluator::get`] try a configuration again that was refused before.
    pub(super) fn try_again(&mut self) {
        self.refused = None;
    }

    /// Empties the cache, and tries refused configurations and lost devices again.
    pub(super) fn new_game(&mut self) {
        self.try_again();
        let Some(current) = &self.current else { return };
        current.backend.clear_cache();
        if let Some(recovering) = &current.recovering {
            recovering.retry_lost_devices();
        }
    }

    /// Prepares for the end of the process: see [`CachingBackend::leave_to_system`].
    pub(super) fn leave_cache_to_system(&self) {
        if let Some(cache) = self.current.as_ref().and_then(|current| current.cache.as_ref()) {
            cache.leave_to_system();
        }
    }

    /// Lets the next call of [`Evaluator::get`] read the network again if its file has changed.
    pub(super) fn notice_changed_file(&mut self) {
        let is_changed =
            |current: &Current| current.network.is_some() && current.files != files(&current.config);
        self.is_outdated |= self.current.as_ref().is_some_and(is_changed);
    }

    /// The backend for `wanted`, or one in its place.
    ///
    /// # Errors
    /// The backend cannot be made, and no other either.
    pub(super) fn get(
        &mut self,
        wanted: &BackendConfig,
        responder: &dyn Responder,
    ) -> Result<Obtained, BackendError> {
        self.resize_cache(wanted);
        if let Some(current) = &self.current
            && ((current.config == *wanted && !self.is_outdated) || self.refused.as_ref() == Some(wanted))
        {
            return Ok(Obtained { backend: Arc::clone(&current.backend), is_new: false });
        }
        let files = files(wanted);
        match self.make(wanted) {
            Ok(mut created) => {
                let before = self.current.as_ref().and_then(|current| current.network.as_ref());
                if let Some(network) =
                    before.filter(|_| self.is_outdated && created.network.as_ref() == before)
                {
                    let notice = format!("network {network} was read again, because its file has changed");
                    created.notices.push(notice);
                }
                self.worked = Some(wanted.clone());
                self.refused = None;
                Ok(self.adopt(wanted.clone(), files, created, responder))
            }
            Err(error) if self.recovery.is_none() => Err(error),
            Err(error) => self.replace(wanted, error, responder),
        }
    }

    fn make(&self, config: &BackendConfig) -> Result<CreatedBackend, BackendError> {
        match &self.recovery {
            Some(recovery) => rukh_registry::create_for_game(config, recovery),
            None => rukh_registry::create(config),
        }
    }

    fn adopt(
        &mut self,
        config: BackendConfig,
        files: Fingerprint,
        created: CreatedBackend,
        responder: &dyn Responder,
    ) -> Obtained {
        let CreatedBackend { backend, cache, recovering, network, imitates_people, mut notices, details } =
            created;
        // The user is told which network plays whenever that changes, and when it is not the chosen one.
        let is_other = self.current.as_ref().is_none_or(|current| current.network != network);
        if let Some(line) = network.as_ref().map(|network| format!("network {network}"))
            && (is_other || self.worked.as_ref() != Some(&config))
            && !notices.iter().any(|notice| notice.starts_with(&line))
        {
            notices.push(line);
        }
        for notice in &notices {
            responder.message(notice);
        }
        self.details = details;
        self.tell_details(self.tells_details, responder);
        self.is_outdated = false;
        let fallback =
            self.recovery.is_some().then(|| Arc::new(ProcessorFallback::new(&config)) as Arc<dyn Fallback>);
        let obtained = Obtained { backend: Arc::clone(&backend), is_new: true };
        self.current = Some(Current {
            config,
            files,
            backend,
            cache,
            recovering,
            network,
            is_spoilt_by_search: imitates_people,
            fallback,
        });
        obtained
    }

    /// Finds a backend to play in place of the one that `wanted` asks for, and reports the error.
    fn replace(
        &mut self,
        wanted: &BackendConfig,
        error: BackendError,
        responder: &dyn Responder,
    ) -> Result<Obtained, BackendError> {
        for substitute in self.substitutes(wanted, &error) {
            if let Some(current) = &self.current
                && current.config == substitute
            {
                report(&error, &*current.backend, current.network.as_deref(), responder);
                self.refused = Some(wanted.clone());
                return Ok(Obtained { backend: Arc::clone(&current.backend), is_new: false });
            }
            let files = files(&substitute);
            if let Ok(created) = self.make(&substitute) {
                report(&error, &*created.backend, created.network.as_deref(), responder);
                self.refused = Some(wanted.clone());
                return Ok(self.adopt(substitute, files, created, responder));
            }
        }
        Err(error)
    }

    /// The configurations to try in place of `wanted`, best first. They keep its other settings, except for those that
    /// are there in case that such a setting is the problem.
    fn substitutes(&self, wanted: &BackendConfig, error: &BackendError) -> Vec<BackendConfig> {
        let with = |backend: &str, options: &str, network: &str| BackendConfig {
            backend: backend.to_owned(),
            options: options.to_owned(),
            network: network.to_owned(),
            ..wanted.clone()
        };
        // A user who has chosen a number format on the processor keeps it.
        let processor = match BackendName::from_name(&wanted.backend) {
            Some(name @ (BackendName::Cpu | BackendName::CpuBf16 | BackendName::CpuInt8)) => name,
            _ => BackendName::CpuAuto,
        };
        let on_the_processor = |network| with(processor.name(), "", network);
        let unchanged = self.current.as_ref().map(|current| current.config.clone());
        let mut substitutes = Vec::new();
        if let Some(worked) = &self.worked {
            substitutes.push(with(&worked.backend, &worked.options, &worked.network));
            substitutes.extend(unchanged.clone());
        }
        if !matches!(error, BackendError::Network(_)) {
            substitutes.push(on_the_processor(&wanted.network));
        }
        substitutes.push(on_the_processor(EMBEDDED));
        substitutes.extend(unchanged);
        substitutes.push(BackendConfig {
            network: OWN_NETWORK.to_owned(),
            backend: BackendName::Cpu.name().to_owned(),
            ..BackendConfig::default()
        });
        substitutes
    }
}

/// The network's files, unless the backend has no network.
fn files(config: &BackendConfig) -> Fingerprint {
    match BackendName::from_name(&config.backend) {
        Some(BackendName::Trivial | BackendName::Random) => Fingerprint::default(),
        _ => Fingerprint::of(&config.network),
    }
}

/// Tells the user why the configuration is refused, and what plays instead.
fn report(error: &BackendError, backend: &dyn Backend, network: Option<&str>, responder: &dyn Responder) {
    let name = &backend.attributes().name;
    let instead = match network {
        Some(network) => format!("network {network} on {name}"),
        None => name.clone(),
    };
    responder.message(&format!("error: {error}; playing on with {instead}"));
}
