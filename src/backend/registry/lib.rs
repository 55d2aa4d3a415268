//! Makes the backend that the user's options (`Backend`, `BackendOptions`, `WeightsFile` …) ask for.
//!
//! To add a backend, add its name to [`BackendName`](rukh_options::BackendName), a row to [`BACKENDS`], and the
//! function that makes it.
//!
//! | module | what it does |
//! |---|---|
//! | [`fallback`] | evaluates single positions on the processor when the backend gives no evaluation in time |
//! | [`recovery`] | does the same for a game, which must go on after a fault of a device |
//! | [`create`](mod@create) | makes the backend that a [`BackendConfig`] asks for, inside its batch splitter and cache |
//! | [`kinds`] | lists every backend, and makes each from its options |
//! | [`maker`] | makes a backend by its name, together with its children; reads the network once for all |
//! | [`cards`] | makes the backends on graphics cards |
//! | [`config`] | holds the user's choice of a backend, a network and a cache |

#[cfg_attr(not(feature = "gpu"), path = "no_cards.rs")]
mod cards;
mod config;
mod create;
mod fallback;
mod kinds;
mod maker;
mod recovery;

pub use config::BackendConfig;
pub use config::memory_limit;
pub use create::{CreatedBackend, create, create_alone, create_for_file, create_without_cache};
pub use fallback::ProcessorFallback;
pub use fallback::priors;
pub use kinds::BACKENDS;
pub use kinds::evaluates_network;
pub use maker::{BackendKind, Selection};
pub use recovery::{Recovery, create_for_game};
