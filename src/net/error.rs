//! The errors of loading a network file. Each is one line that names the file and the reason.

use std::io;
use std::path::{Path, PathBuf};

use rukh_base::os_error::{in_words, why_not_read};
use rukh_base::quote::quoted;
use rukh_base::regular_file::FileError;

/// A network file that cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error("cannot load network {}: {}", .path.display(), .reason.about(.path))]
pub struct NetworkError {
    /// The path of the file, or a name in angle brackets such as `<embedded>` if the bytes came from memory.
    pub path: PathBuf,
    /// Why the file cannot be loaded.
    #[source]
    pub reason: Reason,
}

impl Reason {
    /// The reason in words, for the file `path`.
    fn about(&self, path: &Path) -> String {
        match self {
            Reason::Io(error) => why_not_read(path, error),
            reason => reason.to_string(),
        }
    }
}

/// Why a network file cannot be loaded. The text of each variant is a clause without a full stop; `describenet`
/// prints it without the file name.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// The file does not exist, or the operating system cannot open or read it.
    #[error("{}", in_words(.0))]
    Io(#[from] io::Error),
    /// The program was built without a network of its own.
    #[error("no network was compiled into this program (feature `embedded`)")]
    NotEmbedded,
    /// The path names a directory.
    #[error("it is a directory, not a file")]
    Directory,
    /// The path names a device, a pipe or a socket.
    #[error("it is not a regular file")]
    NotAFile,
    /// The file has no bytes, before or after decompression.
    #[error("the file is empty")]
    Empty,
    /// The file is in lc0's text format, which protobuf replaced in 2018.
    #[error("the old text format is not supported; convert the file with lc0's tools")]
    Text,
    /// The file does not begin with field 1 and [`MAGIC`](super::file::proto::MAGIC).
    #[error("it is not a Leela Chess Zero network (the file begins with {found}, not with 0d c0 01 00 00)")]
    Magic {
        /// The first five bytes of the file (or all of them, if there are fewer) in hexadecimal.
        found: String,
    },
    /// The gzip stream ends early, or its checksum is wrong.
    #[error("the gzip data is damaged or truncated: {0}")]
    Gzip(io::Error),
    /// The file has more bytes than a network can have, or decompresses to more bytes than its size allows.
    #[error("the file is too large: more than {limit} bytes{}", if *.compressed { " after decompression" } else { "" })]
    TooLarge {
        /// The largest size allowed, in bytes.
        limit: u64,
        /// Whether `limit` applies to the size after decompression.
        compressed: bool,
    },
    /// The bytes are not a valid protobuf message.
    #[error("the file is damaged or truncated: {0}")]
    Protobuf(#[from] prost::DecodeError),
    /// A repeated field occurs more often than any network needs.
    #[error("the file is damaged: protobuf field {field} occurs more than {limit} times in one message")]
    Repeats {
        /// The number of the field in its message.
        field: u32,
        /// The largest number of occurrences allowed.
        limit: usize,
    },
    /// The file's `min_version` is newer than the newest lc0 whose files this program can read.
    #[error("it needs lc0 {needed} or newer, and this program reads files for lc0 {supported} or older")]
    Version {
        /// The version in the file.
        needed: String,
        /// The newest version whose files are supported.
        supported: String,
    },
    /// The graph of an ONNX model has an operator where no network of lc0 has it.
    #[error(
        "its ONNX model is not a network that Rukh knows: the operator {operator} of node {node} {problem}"
    )]
    OnnxOperator {
        /// The type of the operator, quoted.
        operator: String,
        /// The name of the node, quoted.
        node: String,
        /// What is wrong, a predicate whose subject is the operator.
        problem: String,
    },
    /// A tensor of an ONNX model is not as in the networks of lc0.
    #[error("its ONNX model is not a network that Rukh knows: the tensor {tensor} {problem}")]
    OnnxTensor {
        /// The name of the tensor, quoted.
        tensor: String,
        /// What is wrong, a predicate whose subject is the tensor.
        problem: String,
    },
    /// The file is an ONNX model that does not say in which format it expects the planes.
    #[error(
        "it is an ONNX model that does not name the format of its input; make a network file of it with \
         `rukh onnx2leela`"
    )]
    BareOnnx,
    /// The file contains neither weights nor an ONNX graph.
    #[error("it has no weights")]
    NoWeights,
    /// The network has a part that this program cannot evaluate. The text is a predicate whose subject is the
    /// network, such as `has relative position encoding (RPE), which is not supported`.
    #[error("it {0}")]
    Unsupported(String),
    /// A layer that the header or another layer requires is absent.
    #[error("layer {layer} is missing")]
    MissingLayer {
        /// The name of the layer in `net.proto`, with the messages that contain it: `encoder[3].mha.q_w`.
        layer: String,
    },
    /// The size of a layer does not fit the layers around it.
    #[error("layer {layer} has {found} values, expected {expected}")]
    LayerSize {
        /// The name of the layer in `net.proto`.
        layer: String,
        /// The number of values expected, as a product of dimensions if there are several: `64 x 32 = 2048`.
        expected: String,
        /// The number of values in the file.
        found: usize,
    },
    /// The length of a layer in bytes is not a multiple of the size of one value.
    #[error("layer {layer} has {bytes} bytes, which is not a multiple of {width}")]
    LayerBytes {
        /// The name of the layer in `net.proto`.
        layer: String,
        /// The length of the layer in bytes.
        bytes: usize,
        /// The size of one value in bytes.
        width: usize,
    },
    /// The encoding of a layer is not in [`LayerEncoding`](super::file::schema::LayerEncoding).
    #[error("layer {layer} has unknown encoding {encoding}")]
    LayerEncoding {
        /// The name of the layer in `net.proto`.
        layer: String,
        /// The number of the encoding in the file.
        encoding: i32,
    },
    /// A value of a layer is infinite or NaN.
    #[error("layer {layer} contains a value that is not finite ({value} at index {index})")]
    NotFinite {
        /// The name of the layer in `net.proto`.
        layer: String,
        /// `NaN`, `inf` or `-inf`.
        value: f32,
        /// The index of the value in the flattened layer.
        index: usize,
    },
    /// The user selected a head that the file does not have.
    #[error("it has no {kind} head {} (available: {available})", quoted(.name))]
    UnknownHead {
        /// `policy` or `value`.
        kind: &'static str,
        /// The name that the user selected.
        name: String,
        /// The names of the heads in the file, separated by commas.
        available: String,
    },
}

impl From<FileError> for Reason {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io(error) => Reason::Io(error),
            FileError::Directory => Reason::Directory,
            FileError::NotRegular => Reason::NotAFile,
            FileError::TooLarge { limit_bytes } => Reason::TooLarge { limit: limit_bytes, compressed: false },
        }
    }
}
