//! Backends without a network, for tests and for measurements of the search alone.
//!
//! | module | how it evaluates |
//! |---|---|
//! | [`trivial`] | counts material |
//! | [`random`] | hashes the position; simulates a device that takes time |

mod random;
mod trivial;

pub use random::{RandomBackend, RandomOptions, Times};
pub use trivial::TrivialBackend;
