//! Takes the place of `cards.rs` in a build without the feature `gpu`: the names of the backends on graphics cards are
//! known, and none can be made.

use super::config::BackendConfig;
use rukh_backend::options_dict::OptionsDict;
use rukh_backend::{Backend, BackendError};
use rukh_net::Network;
use rukh_options::BackendName;
use std::sync::Arc;

/// As `rukh_gpu::Maker`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CardMaker {
    Amd,
    Nvidia,
}

impl CardMaker {
    /// The maker of the cards that a backend uses; `None` for a backend that uses no card.
    pub(super) fn of_backend(name: BackendName) -> Option<CardMaker> {
        [("rocm", CardMaker::Amd), ("cuda", CardMaker::Nvidia)]
            .into_iter()
            .find_map(|(prefix, maker)| name.name().starts_with(prefix).then_some(maker))
    }
}

/// The makers of this machine's cards that can be used, and a message about their order.
pub(super) fn makers() -> (Vec<CardMaker>, Option<String>) {
    (Vec::new(), None)
}

/// Whether there is a card of this maker that can be used.
pub(super) fn has_usable_card(_: CardMaker) -> bool {
    false
}

/// The lists of options of these backends.
pub(super) const OPTIONS: &[&[&str]] = &[];

/// Says that this build has no code for cards.
pub(super) fn make(
    _: &BackendConfig,
    name: BackendName,
    _: OptionsDict<'_>,
    _: impl FnOnce() -> Result<Arc<Network>, BackendError>,
    _: impl Fn(String),
) -> Result<Arc<dyn Backend>, BackendError> {
    let reason = "this build has no code for graphics cards (feature `gpu`)".to_owned();
    Err(BackendError::Create { name: name.to_string(), reason })
}
