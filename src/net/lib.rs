//! Networks: files, layers, input planes, policy index.
//!
//! A weight passes through these stages:
//!
//! ```text
//! bytes ─ file::{inflate or read} ─ file::proto ─ file::legacy ─► NetworkFile
//!       ─ file::assemble, layer by layer with file::decode ─► Network<FileLayers>: fp32 in lc0's layouts, checked
//!       ─ prepare, layer by layer with a backend's LayerStore ─► PreparedNetwork: packed, or in a device's memory
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`fingerprint`] | whether a network's file has changed |
//! | [`discover`] | the search for a network that the user did not name |
//! | [`mod@describe`] | the text of `describenet` |
//! | [`mod@file`] | from the bytes of a file to a checked network |
//! | [`onnx`] | networks as ONNX graphs |
//! | [`prepare`] | from a checked network to a backend's layers |
//! | [`digest`] | a number by which networks are told apart |
//! | [`flops`] | the operations of one evaluation |
//! | [`network`] | the structure of a network, generic over the types of its layers |
//! | [`weights`] | single layers in lc0's layouts |
//! | [`input`] | the 112 planes of a position |
//! | [`policy_index`] | the 1858 moves of the policy |
//! | [`architecture`] | kinds and sizes of a network's parts |
//! | [`bounded`] | decoding of protobuf messages whose memory is bounded |
//! | [`error`] | errors of loading a file |
//!
//! Every error of a file is a [`NetworkError`], one line that names the file, the layer and the sizes. This
//! module does not panic, whatever bytes a file contains, and no number in a file determines the size of an allocation.
//! The backends evaluate networks.

#![forbid(
    unsafe_code,
    reason = "a file that is mapped into memory ends the process if another program shortens it"
)]

pub mod architecture;
pub mod bounded;
pub mod describe;
pub mod digest;
pub mod discover;
pub mod error;
pub mod file;
pub mod fingerprint;
pub(crate) mod flops;
pub mod input;
pub mod network;
pub mod onnx;
pub mod policy_index;
pub mod prepare;
pub mod weights;

pub use architecture::{Architecture, InputFormat};
pub use describe::describe;
pub use discover::find_network;
pub use error::NetworkError;
pub use file::{HeadSelection, NetworkFile};
pub use input::{HistoryFill, InputPlanes};
pub use network::Network;
