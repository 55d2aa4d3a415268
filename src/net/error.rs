//! Why a network file is not loaded: one line that names the file and the reason.

use std::io;
use std::path::PathBuf;

use crate::quote::quoted;

/// A network file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("network {}: {reason}", .path.display())]
pub struct NetworkError {
    /// The file, or a name in angle brackets for what came from elsewhere.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub reason: Reason,
}

/// What is wrong with a network file.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// Missing, unreadable, or failing while read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The path names a directory.
    #[error("is a directory, not a file")]
    Directory,
    /// A device, a pipe, a socket.
    #[error("is not a regular file")]
    NotAFile,
    /// No bytes at all, compressed or not.
    #[error("is empty")]
    Empty,
    /// The text format of before 2018.
    #[error("is in the old text format, which is not supported; convert it with lc0's tools")]
    Text,
    /// The first bytes are not those of a network.
    #[error("is not a Leela Chess Zero network (it begins with {found}, not with 0d c0 01 00 00)")]
    Magic {
        /// The first bytes in hexadecimal.
        found: String,
    },
    /// The gzip stream ends early or does not check.
    #[error("is a damaged or truncated gzip file: {0}")]
    Gzip(io::Error),
    /// More bytes than a network can have.
    #[error("is too large: more than {limit} bytes{}", if *.compressed { " after decompression" } else { "" })]
    TooLarge {
        /// What it may have at most.
        limit: u64,
        /// Whether `limit` is of the decompressed size.
        compressed: bool,
    },
    /// The protobuf message ends early or makes no sense.
    #[error("is damaged or truncated: {0}")]
    Protobuf(#[from] prost::DecodeError),
    /// A repeated field occurs more often than any network needs.
    #[error("is damaged: protobuf field {field} occurs more than {limit} times in one message")]
    Repeats {
        /// Field number.
        field: u32,
        /// The most allowed.
        limit: usize,
    },
    /// Written for a newer lc0 than the format that we know.
    #[error("needs support of lc0 version {needed}, and this program supports {supported}")]
    Version {
        /// The file's.
        needed: String,
        /// Ours.
        supported: String,
    },
    /// Holds an ONNX graph in place of weights.
    #[error("holds an ONNX model; only networks with weights are supported")]
    Onnx,
    /// Holds no weights at all.
    #[error("has no weights")]
    NoWeights,
    /// A kind of network that we do not evaluate.
    #[error("{0}")]
    Unsupported(String),
    /// A layer that the architecture needs is not there.
    #[error("layer {layer} is missing")]
    MissingLayer {
        /// The layer, by its name in the schema.
        layer: String,
    },
    /// A layer's size does not fit the layers around it.
    #[error("layer {layer} has {found} values, expected {expected}")]
    LayerSize {
        /// The layer.
        layer: String,
        /// Values that it should have, often with the dimensions that say so.
        expected: String,
        /// Values that it has.
        found: usize,
    },
    /// A layer's bytes are not a whole number of values.
    #[error("layer {layer} has {bytes} bytes, not a multiple of {width}")]
    LayerBytes {
        /// The layer.
        layer: String,
        /// Its length.
        bytes: usize,
        /// Bytes of one value.
        width: usize,
    },
    /// A layer is stored in a way that we do not know.
    #[error("layer {layer} has the unknown encoding {encoding}")]
    LayerEncoding {
        /// The layer.
        layer: String,
        /// The number in the file.
        encoding: i32,
    },
    /// A layer holds an infinity or a NaN.
    #[error("layer {layer} holds a value that is not finite ({value}, at {index})")]
    NotFinite {
        /// The layer.
        layer: String,
        /// NaN, inf or -inf.
        value: f32,
        /// Where in the flattened layer.
        index: usize,
    },
    /// A head was asked for that the file does not have.
    #[error("has no {kind} head {}; it has {available}", quoted(.name))]
    UnknownHead {
        /// `policy` or `value`.
        kind: &'static str,
        /// As the user gave it.
        name: String,
        /// The names that would do.
        available: String,
    },
}
