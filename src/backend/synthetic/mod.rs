//! Backends without a network, for tests and for measurements of the search alone.
//!
//! | module | what it does |
//! |---|---|
//! | [`device`] | simulates a device, whose batches take time |
//! | [`trivial`] | evaluates by counting material |
//! | [`random`] | evaluates by hashing the position |

mod device;
mod random;
mod trivial;

pub use device::{DeviceOptions, SimulatedDevice, Times};
pub use random::{RandomBackend, RandomOptions};
pub use trivial::TrivialBackend;
