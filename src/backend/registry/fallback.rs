//! Evaluates single positions on the processor, for a move when the backend gives no evaluation in time.
//!
//! A card may hang, a file that a backend reads may have become unreadable, or an evaluation may fail. The priors of one
//! evaluation still give a far better move than chance.

use super::config::BackendConfig;
use super::create::create;
use rukh_backend::ticket::evaluate_one;
use rukh_backend::{Backend, EvalRequest, Fallback};
use rukh_net::discover::{EMBEDDED, OWN_NETWORK};
use rukh_options::BackendName;
use std::sync::{Arc, OnceLock};

/// Two networks on the processor. Each is loaded when it is first used.
pub struct ProcessorFallback {
    config: BackendConfig,
    embedded: OnceLock<Option<Arc<dyn Backend>>>,
    chosen: OnceLock<Option<Arc<dyn Backend>>>,
}

impl ProcessorFallback {
    /// The embedded network, and the network of `config`. Both use the other settings of `config`.
    pub fn new(config: &BackendConfig) -> ProcessorFallback {
        ProcessorFallback { config: config.clone(), embedded: OnceLock::new(), chosen: OnceLock::new() }
    }

    fn make(&self, network: &str) -> Option<Arc<dyn Backend>> {
        // The embedded network has no head for optimism.
        let policy_optimism = if network == OWN_NETWORK { 0.0 } else { self.config.policy_optimism };
        let config = BackendConfig {
            policy_optimism,
            backend: BackendName::Cpu.name().to_owned(),
            options: String::new(),
            network: network.to_owned(),
            cache_entries: 0,
            value_error: false,
            ..self.config.clone()
        };
        Some(create(&config).ok()?.backend)
    }
}

impl Fallback for ProcessorFallback {
    fn embedded_priors(&self, request: EvalRequest<'_>) -> Option<Vec<f32>> {
        let backend = self.embedded.get_or_init(|| self.make(OWN_NETWORK));
        priors(&**backend.as_ref()?, request)
    }

    fn chosen_priors(&self, request: EvalRequest<'_>) -> Option<Vec<f32>> {
        if [EMBEDDED, OWN_NETWORK].contains(&self.config.network.as_str()) {
            return None;
        }
        let backend = self.chosen.get_or_init(|| self.make(&self.config.network));
        priors(&**backend.as_ref()?, request)
    }
}

/// The priors of one position, in the order of its moves. `None` if the evaluation fails.
pub fn priors(backend: &dyn Backend, request: EvalRequest<'_>) -> Option<Vec<f32>> {
    Some(evaluate_one(backend, request).ok()?.priors.into_vec())
}
