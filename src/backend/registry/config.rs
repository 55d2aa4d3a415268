//! The user's choice of a backend, a network and a cache.

use rukh_backend::position_key::KeyRules;
use rukh_backend::wrap::BYTES_PER_ENTRY;
use rukh_net::HistoryFill;
use rukh_options::Options;

/// The cache takes at most this part of the memory that the user allows. The tree has the rest.
const CACHE_PART: u64 = 4;

/// The options that decide which backend is made. The engine makes a new backend when one of them has changed.
#[derive(Clone, PartialEq, Debug)]
pub struct BackendConfig {
    /// The name of a backend, of Rukh or of lc0, or `auto`.
    pub backend: String,
    /// The backend's own options, in the syntax of [`rukh_backend::options_dict`].
    pub options: String,
    /// A path, or another location that [`find_network`](rukh_net::discover::find_network) accepts.
    pub network: String,
    /// The softmax temperature of the policy: the logits are divided by it.
    pub policy_softmax_temperature: f32,
    /// The weight of the optimistic policy head in the policy, 0 … 1.
    pub policy_optimism: f32,
    /// Whether to evaluate the network's value-error head.
    pub value_error: bool,
    /// How the input planes of positions before the start of the game are filled.
    pub history_fill: HistoryFill,
    /// The capacity of the cache, in evaluations; 0 turns the cache off.
    pub cache_entries: usize,
    /// The rules by which positions share a cache entry.
    pub cache_key_rules: KeyRules,
}

impl BackendConfig {
    /// Whether the two differ in nothing but the size of the cache.
    pub fn is_same_but_for_cache(&self, other: &BackendConfig) -> bool {
        *self == BackendConfig { cache_entries: self.cache_entries, ..other.clone() }
    }

    /// Reads the configuration from the engine's options.
    pub fn from_options(options: &Options) -> BackendConfig {
        BackendConfig {
            backend: options.backend.given().to_owned(),
            options: options.backend_opts.clone(),
            network: options.weights.clone(),
            policy_softmax_temperature: options.policy_softmax_temp,
            policy_optimism: options.policy_optimism,
            value_error: options.use_uncertainty_weighting || options.use_cpuct_uncertainty,
            history_fill: options.history_fill,
            cache_entries: cache_entries(options),
            cache_key_rules: KeyRules::from_options(options),
        }
    }
}

/// The user's limit for the tree and the cache together, in bytes; `None` if the user set no limit.
pub fn memory_limit(options: &Options) -> Option<u64> {
    let megabytes = u64::from(options.hash.max(options.ramlimit_mb));
    (megabytes > 0).then_some(megabytes * 1_000_000)
}

/// The number of evaluations in the cache: `NNCacheSize`, or fewer if the user's memory limit requires it.
fn cache_entries(options: &Options) -> usize {
    let fitting = memory_limit(options).map_or(u64::MAX, |bytes| bytes / CACHE_PART / BYTES_PER_ENTRY);
    usize::try_from(fitting).unwrap_or(usize::MAX).min(options.nncache as usize)
}

/// The defaults of the option table.
impl Default for BackendConfig {
    fn default() -> BackendConfig {
        BackendConfig::from_options(&Options::default())
    }
}
