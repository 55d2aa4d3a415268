//! From the option table to what the backends' factory asks for.

use super::factory::BackendConfig;
use super::position_key::KeyRules;
use crate::options::Options;

impl BackendConfig {
    /// The backend that `options` describe.
    pub fn from_options(options: &Options) -> BackendConfig {
        BackendConfig {
            backend: options.backend.clone(),
            options: options.backend_opts.clone(),
            network: options.weights.clone(),
            policy_softmax_temperature: options.policy_softmax_temp,
            policy_optimism: options.policy_optimism,
            value_error: options.use_uncertainty_weighting || options.use_cpuct_uncertainty,
            history_fill: options.history_fill,
            cache_entries: options.nncache as usize,
            cache_key_rules: KeyRules {
                history_length: options.cache_history_length as usize,
                rule50_bucket: options.move_rule_bucket_size as u16,
            },
        }
    }
}
