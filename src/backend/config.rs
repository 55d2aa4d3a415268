//! From the option table to what the backends' factory asks for.

use super::factory::BackendConfig;
use crate::net::HistoryFill;
use crate::options::{self, Options};

impl BackendConfig {
    /// The backend that `options` describe.
    pub fn from_options(options: &Options) -> BackendConfig {
        BackendConfig {
            backend: options.backend.clone(),
            options: options.backend_opts.clone(),
            network: options.weights.clone(),
            policy_softmax_temperature: options.policy_softmax_temp,
            history_fill: match options.history_fill {
                options::HistoryFill::No => HistoryFill::No,
                options::HistoryFill::FenOnly => HistoryFill::FenOnly,
                options::HistoryFill::Always => HistoryFill::Always,
            },
            cache_entries: options.nncache as usize,
            cache_history_length: options.cache_history_length as usize,
        }
    }
}
