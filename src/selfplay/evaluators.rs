//! The backends of the players: one for each network, shared by all games.

use super::config::PlayerConfig;
use crate::backend::multi::{BatchCounts, GatheringBackend, Searching};
use crate::backend::registry::{BackendConfig, create_without_cache};
use crate::backend::wrap::CachingBackend;
use crate::backend::{Attributes, Backend, BackendError};
use std::sync::Arc;

/// The evaluator of one network, which all games share.
pub(super) struct Evaluator {
    /// What the backend was made from, without the settings of the cache.
    config: BackendConfig,
    backend: Arc<dyn Backend>,
    /// The same backend if it collects the batches of all searches. A backend that evaluates without a network and
    /// without a device is faster alone.
    gathering: Option<Arc<GatheringBackend>>,
    /// The path of the network, or the backend's name if it has none.
    pub(super) name: String,
    /// Messages for the user.
    pub(super) notices: Vec<String>,
}

impl Evaluator {
    fn new(config: BackendConfig) -> Result<Evaluator, BackendError> {
        let created = create_without_cache(&config)?;
        let is_free = created.network.is_none() && created.backend.attributes().runs_on_cpu;
        let gathering = match is_free {
            true => None,
            false => Some(Arc::new(GatheringBackend::new(Arc::clone(&created.backend))?)),
        };
        let backend = gathering.clone().map_or(created.backend, |gathering| gathering as Arc<dyn Backend>);
        let name = created.network.unwrap_or_else(|| backend.attributes().name.clone());
        Ok(Evaluator { config, backend, gathering, name, notices: created.notices })
    }

    pub(super) fn attributes(&self) -> &Attributes {
        self.backend.attributes()
    }

    /// The backend for one player of one game, with a cache of its own: with a common one, the searches would depend on
    /// the order in which the games happen to run.
    pub(super) fn with_cache(
        &self,
        player: &PlayerConfig,
        entries: usize,
    ) -> Result<Arc<dyn Backend>, BackendError> {
        let rules = BackendConfig::from_options(&player.options).cache_key_rules;
        Ok(Arc::new(CachingBackend::new(Arc::clone(&self.backend), entries, rules)?))
    }

    /// Counts a search until the returned value is dropped.
    pub(super) fn begin_search(&self) -> Option<Searching> {
        self.gathering.as_ref().map(|gathering| gathering.begin_search())
    }

    /// What was evaluated so far, if the backend counts it.
    pub(super) fn counts(&self) -> Option<BatchCounts> {
        self.gathering.as_ref().map(|gathering| gathering.counts())
    }

    /// Ends all searches with an error.
    pub(super) fn close(&self) {
        if let Some(gathering) = &self.gathering {
            gathering.close();
        }
    }

    /// The number of games that keep this backend busy.
    fn games_to_fill(&self, player: &PlayerConfig) -> Option<usize> {
        /// A small tree fills its minibatch only to this part.
        const PART_OF_MINIBATCH: usize = 4;
        let gathering = self.gathering.as_ref()?;
        let minibatch = (player.options.minibatch_size as usize).max(1);
        let positions = 2 * gathering.batch_size() * gathering.slots();
        Some(positions / (minibatch / PART_OF_MINIBATCH).max(1))
    }
}

/// Makes the backends of both players. They are one if the players have the same network and the same settings of the
/// backend.
pub(super) fn make(players: &[PlayerConfig; 2]) -> Result<[Arc<Evaluator>; 2], BackendError> {
    let config = |player: &PlayerConfig| BackendConfig {
        cache_entries: 0,
        cache_key_rules: BackendConfig::default().cache_key_rules,
        ..BackendConfig::from_options(&player.options)
    };
    let [config1, config2] = [config(&players[0]), config(&players[1])];
    let first = Arc::new(Evaluator::new(config1)?);
    let second = match first.config == config2 {
        true => Arc::clone(&first),
        false => Arc::new(Evaluator::new(config2)?),
    };
    Ok([first, second])
}

/// The number of games to play at once if the user does not say: as many as keep the backends busy.
pub(super) fn games_at_once(evaluators: &[Arc<Evaluator>; 2], players: &[PlayerConfig; 2]) -> usize {
    /// More games need much memory and fill no batch better.
    const MOST_GAMES: usize = 512;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let to_fill =
        evaluators.iter().zip(players).filter_map(|(evaluator, player)| evaluator.games_to_fill(player));
    // Two networks take turns in each game.
    let factor = if Arc::ptr_eq(&evaluators[0], &evaluators[1]) { 1 } else { 2 };
    to_fill.max().map_or(cores, |games| (factor * games).clamp(cores, MOST_GAMES))
}
