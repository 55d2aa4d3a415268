//! Networks: files, checked architecture and weights, input planes, policy index.
//!
//! [`file`] reads and decodes a file, [`legacy`] upgrades old headers, [`architecture`] and [`weights`] are
//! the checked, plain result; [`input`] makes the 112 planes, [`policy_index`] names the 1858 moves.

pub mod architecture;
mod assemble;
mod decode;
pub mod error;
pub mod file;
mod inflate;
pub mod input;
mod legacy;
mod map;
pub mod policy_index;
pub mod proto;
pub mod schema;
pub mod weights;

pub use architecture::{Architecture, InputFormat};
pub use assemble::HeadSelection;
pub use error::NetworkError;
pub use file::NetworkFile;
pub use input::{HistoryFill, InputPlanes};
pub use weights::Network;
