//! The backend that many searches share.

use rukh_backend::multi::{BatchCounts, GatheringBackend, Searching};
use rukh_backend::wrap::CachingBackend;
use rukh_backend::{Attributes, Backend, BackendError};
use rukh_options::Options;
use rukh_registry::{BackendConfig, create_without_cache};
use std::sync::Arc;

/// The evaluator of one network, which all searches share.
pub(crate) struct SharedEvaluator {
    /// What the backend was made from, without the settings of the cache.
    config: BackendConfig,
    backend: Arc<dyn Backend>,
    /// The same backend if it collects the batches of all searches. A backend that evaluates without a network and
    /// without a device is faster alone.
    gathering: Option<Arc<GatheringBackend>>,
    /// The path of the network, or the backend's name if it has none.
    pub(crate) name: String,
    /// Messages for the user.
    pub(crate) notices: Vec<String>,
}

impl SharedEvaluator {
    /// Makes the backend that `options` ask for.
    ///
    /// # Errors
    /// The network or the backend cannot be used.
    pub(crate) fn new(options: &Options) -> Result<SharedEvaluator, BackendError> {
        let config = config_without_cache(options);
        let created = create_without_cache(&config)?;
        let is_free = created.network.is_none() && created.backend.attributes().runs_on_cpu;
        let gathering = match is_free {
            true => None,
            false => Some(Arc::new(GatheringBackend::new(Arc::clone(&created.backend))?)),
        };
        let backend = gathering.clone().map_or(created.backend, |gathering| gathering as Arc<dyn Backend>);
        let name = created.network.unwrap_or_else(|| backend.attributes().name.clone());
        Ok(SharedEvaluator { config, backend, gathering, name, notices: created.notices })
    }

    /// Whether `options` ask for this backend. The size of the cache does not count.
    pub(crate) fn serves(&self, options: &Options) -> bool {
        self.config == config_without_cache(options)
    }

    pub(crate) fn attributes(&self) -> &Attributes {
        self.backend.attributes()
    }

    /// The backend inside a new cache of at most `entries` evaluations. `options` say which positions share an entry.
    pub(crate) fn with_cache(&self, options: &Options, entries: usize) -> Arc<dyn Backend> {
        let rules = BackendConfig::from_options(options).cache_key_rules;
        Arc::new(CachingBackend::new(Arc::clone(&self.backend), entries, rules))
    }

    /// Counts a search until the returned value is dropped.
    pub(crate) fn begin_search(&self) -> Option<Searching> {
        self.gathering.as_ref().map(|gathering| gathering.begin_search())
    }

    /// What was evaluated so far, if the backend counts it.
    pub(crate) fn counts(&self) -> Option<BatchCounts> {
        self.gathering.as_ref().map(|gathering| gathering.counts())
    }

    /// Ends all searches with an error.
    pub(crate) fn close(&self) {
        if let Some(gathering) = &self.gathering {
            gathering.close();
        }
    }

    /// The number of searches with these options that keep the backend busy. `None` if the backend evaluates on the
    /// threads of the searches.
    pub(crate) fn searches_to_fill(&self, options: &Options) -> Option<usize> {
        /// A small tree fills its minibatch only to this part.
        const PART_OF_MINIBATCH: usize = 4;
        self.threads_to_fill(options.minibatch_size as usize / PART_OF_MINIBATCH)
    }

    /// The number of threads that keep the backend busy if each asks for so many positions at a time.
    pub(crate) fn threads_to_fill(&self, positions_of_each: usize) -> Option<usize> {
        let gathering = self.gathering.as_ref()?;
        let positions = 2 * gathering.batch_size() * gathering.slots();
        Some(positions.div_ceil(positions_of_each.max(1)))
    }
}

fn config_without_cache(options: &Options) -> BackendConfig {
    BackendConfig {
        cache_entries: 0,
        cache_key_rules: BackendConfig::default().cache_key_rules,
        ..BackendConfig::from_options(options)
    }
}

/// The number of searches to run at once if the user does not say. `to_fill` is the number that keeps the backend busy
/// ([`SharedEvaluator::searches_to_fill`]).
pub(crate) fn searches_at_once(to_fill: Option<usize>) -> usize {
    /// More searches need much memory and fill no batch better.
    const MOST_SEARCHES: usize = 512;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    to_fill.map_or(cores, |searches| searches.clamp(cores, MOST_SEARCHES))
}
