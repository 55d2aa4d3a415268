//! Many searches at once that share a backend, as tournaments and analyses need them.
//!
//! Each search runs on a thread of its caller and has one thread and a tree of its own. All searches with one network
//! share one backend, [`GatheringBackend`](rukh_backend::multi::GatheringBackend), which evaluates their small batches
//! together in large ones.
//!
//! | module | what it does |
//! |---|---|
//! | [`run`] | runs one of the searches to its end |
//! | [`evaluator`] | makes the backend that the searches share |
//! | [`memory`] | divides the memory among the trees and caches |
//! | [`words`] | names a network and limits in outputs |

pub(crate) mod evaluator;
pub(crate) mod memory;
pub(crate) mod run;
pub(crate) mod words;
