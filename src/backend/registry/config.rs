//! The user's choice of a backend, a network and a cache.

use crate::backend::position_key::KeyRules;
use crate::net::HistoryFill;
use crate::options::Options;

/// The options that decide which backend is made. The engine makes a new backend when one of them has changed.
#[derive(Clone, PartialEq, Debug)]
pub struct BackendConfig {
    /// The name of a backend, of Rukh or of lc0, or `auto`.
    pub backend: String,
    /// The backend's own options, in the syntax of [`crate::backend::options_dict`].
    pub options: String,
    /// A path, or another location that [`find_network`](crate::net::discover::find_network) accepts.
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
            cache_entries: options.nncache as usize,
            cache_key_rules: KeyRules::from_options(options),
        }
    }
}

/// The defaults of the option table.
impl Default for BackendConfig {
    fn default() -> BackendConfig {
        BackendConfig::from_options(&Options::default())
    }
}
