//! Networks: files, checked architecture and weights, input planes, policy index.
//!
//! A byte of weights goes this way: [`mod@file`] opens, inflates and decodes a file ([`proto`] has the messages,
//! [`schema`] the numbers in them), `legacy` upgrades an old header, `assemble` walks the layers that the
//! header asks for, and `decode` turns each into `f32`, its size checked against its neighbours. The result,
//! [`Network`], is plain data: an [`Architecture`] that says what there is and [`weights`] in lc0's layouts,
//! batch normalisation folded in. A backend reads it once and packs it as it likes.
//!
//! Whatever is wrong with a file is a [`NetworkError`], one line that names the file, the layer and the sizes.
//! No bytes make this module panic, and no number in a file sizes an allocation.
//!
//! Around it: [`discover`] finds a network that nobody named, [`describe()`] says what is in one, [`flops`] what
//! an evaluation costs; [`input`] makes the 112 planes of a position, [`policy_index`] names the 1858 moves.
//! Nothing here evaluates a network.

pub mod architecture;
mod assemble;
mod decode;
pub mod describe;
pub mod discover;
pub mod error;
pub mod file;
pub mod flops;
mod inflate;
pub mod input;
mod legacy;
mod map;
pub mod network;
pub mod policy_index;
pub mod prepare;
pub mod proto;
pub mod schema;
pub mod weights;

pub use architecture::{Architecture, InputFormat};
pub use assemble::HeadSelection;
pub use describe::describe;
pub use discover::find_network;
pub use error::NetworkError;
pub use file::NetworkFile;
pub use input::{HistoryFill, InputPlanes};
pub use network::Network;
