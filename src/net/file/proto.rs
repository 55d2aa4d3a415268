//! The protobuf messages of lc0's network file, written by hand. Their definition is `net.proto` (package
//! `pblczero`) of the lczero-common repository.
//!
//! Protobuf needs only the field numbers and wire types, so there is no schema file, no `protoc` and no build
//! script. Fields that this program does not use are left out, and prost skips them: `Layer.dims`, the head
//! maps, and the categorical layers of a value head.
//!
//! The messages differ from a literal translation in two ways, because a file may come from anywhere:
//!
//! * **Tensors are not copied.** `Layer.params` is a [`Bytes`], a view of the buffer or memory map that holds
//!   the file. The first copy is made when the values are converted to `f32`.
//! * **Large messages are decoded on demand.** `Net.weights` and each policy head are `Bytes` here, and
//!   [`decode_bounded`] counts the repeated fields of such a message before it decodes it. An empty
//!   `EncoderLayer` takes two or three bytes in a file and kilobytes in memory, so without the limit a small
//!   file could exhaust the memory.
//!
//! Enumerations are plain numbers in the messages, because a file may contain any number; [`super::schema`] lists
//! the known values.

use prost::Message;
use prost::bytes::Bytes;

#[cfg(doc)]
use super::schema;
use crate::bounded::Counted;
pub use crate::bounded::decode_bounded;
#[cfg(doc)]
use crate::onnx;

/// The value of `Net.magic` in every network file.
pub const MAGIC: u32 = 0x1c0;

impl Counted for Weights {
    const REPEATED: &'static [u32] = &[2, 21, 27];
}

impl Counted for PolicyHead {
    const REPEATED: &'static [u32] = &[8];
}

/// The top-level message of a network file.
#[derive(Clone, PartialEq, Message)]
pub struct Net {
    /// Always [`MAGIC`].
    #[prost(fixed32, optional, tag = "1")]
    pub magic: Option<u32>,
    /// Free text that is not always UTF-8.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub license: Option<Bytes>,
    /// The oldest lc0 that can read the file.
    #[prost(message, optional, tag = "3")]
    pub min_version: Option<EngineVersion>,
    /// The encoding of the weights and the kind of network.
    #[prost(message, optional, tag = "4")]
    pub format: Option<Format>,
    /// Statistics of the training run.
    #[prost(message, optional, tag = "5")]
    pub training_params: Option<TrainingParams>,
    /// A [`Weights`] message; [`decode_bounded`] decodes it.
    #[prost(bytes = "bytes", optional, tag = "10")]
    pub weights: Option<Bytes>,
    /// The network as an ONNX graph, in files without `weights`.
    #[prost(message, optional, tag = "11")]
    pub onnx_model: Option<OnnxModel>,
}

/// A version of lc0, `major.minor.patch`.
#[derive(Clone, Copy, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct EngineVersion {
    #[prost(uint32, optional, tag = "1")]
    pub major: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub minor: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub patch: Option<u32>,
}

/// The encoding of the weights and the kind of network.
#[derive(Clone, PartialEq, Message)]
pub struct Format {
    /// The [`schema::WeightsEncoding`] of layers without an encoding of their own. Only LINEAR16 exists.
    #[prost(int32, optional, tag = "1")]
    pub weights_encoding: Option<i32>,
    /// Absent in the oldest files.
    #[prost(message, optional, tag = "2")]
    pub network_format: Option<NetworkFormat>,
}

/// The kind of network. Each field is a number of an enumeration in [`schema`].
#[derive(Clone, Copy, PartialEq, Message)]
pub struct NetworkFormat {
    /// A number of [`schema::InputFormat`].
    #[prost(int32, optional, tag = "1")]
    pub input: Option<i32>,
    /// OUTPUT_CLASSICAL (1) or OUTPUT_WDL (2). Ignored, because `value` contains the same information.
    #[prost(int32, optional, tag = "2")]
    pub output: Option<i32>,
    /// A number of [`schema::NetworkStructure`].
    #[prost(int32, optional, tag = "3")]
    pub network: Option<i32>,
    /// A number of [`schema::PolicyFormat`].
    #[prost(int32, optional, tag = "4")]
    pub policy: Option<i32>,
    /// A number of [`schema::ValueFormat`].
    #[prost(int32, optional, tag = "5")]
    pub value: Option<i32>,
    /// A number of [`schema::MovesLeftFormat`].
    #[prost(int32, optional, tag = "6")]
    pub moves_left: Option<i32>,
    /// A number of [`schema::DefaultActivation`].
    #[prost(int32, optional, tag = "7")]
    pub default_activation: Option<i32>,
    /// A number of [`schema::ActivationFunction`].
    #[prost(int32, optional, tag = "8")]
    pub smolgen_activation: Option<i32>,
    /// A number of [`schema::ActivationFunction`].
    #[prost(int32, optional, tag = "9")]
    pub ffn_activation: Option<i32>,
    /// A number of [`schema::InputEmbeddingFormat`].
    #[prost(int32, optional, tag = "10")]
    pub input_embedding: Option<i32>,
}

/// Statistics of the training run that made the file.
#[derive(Clone, PartialEq, Message)]
pub struct TrainingParams {
    /// The number of training steps so far.
    #[prost(uint32, optional, tag = "1")]
    pub training_steps: Option<u32>,
    /// The learning rate when the file was written.
    #[prost(float, optional, tag = "2")]
    pub learning_rate: Option<f32>,
    /// The mean squared error of the value.
    #[prost(float, optional, tag = "3")]
    pub mse_loss: Option<f32>,
    /// The cross-entropy of the policy.
    #[prost(float, optional, tag = "4")]
    pub policy_loss: Option<f32>,
    /// The accuracy of the policy: how often its most likely move is that of the training data.
    #[prost(float, optional, tag = "5")]
    pub accuracy: Option<f32>,
    /// Free text that is not always UTF-8.
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub lc0_params: Option<Bytes>,
}

/// A network as an ONNX graph. The last five fields are the names of tensors in the graph.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct OnnxModel {
    /// An [`onnx::proto::Model`]; [`decode_bounded`] decodes it.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub model: Option<Bytes>,
    /// A number of [`schema::OnnxDataType`].
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub input_planes: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub output_value: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub output_wdl: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub output_policy: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub output_mlh: Option<Bytes>,
}

/// A tensor, flattened in row-major order.
#[derive(Clone, PartialEq, Message)]
pub struct Layer {
    /// The value of code 0 in a LINEAR16 layer.
    #[prost(float, optional, tag = "1")]
    pub min_val: Option<f32>,
    /// The value of code 65535 in a LINEAR16 layer.
    #[prost(float, optional, tag = "2")]
    pub max_val: Option<f32>,
    /// Little-endian codes or floats. An empty layer counts as absent.
    #[prost(bytes = "bytes", tag = "3")]
    pub params: Bytes,
    /// A number of [`schema::LayerEncoding`]. It takes precedence over `Format::weights_encoding`.
    #[prost(int32, optional, tag = "4")]
    pub encoding: Option<i32>,
}

/// A convolution with weights `[output][input][rank][file]`, and its batch normalisation if that is not folded
/// in.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct ConvBlock {
    #[prost(message, optional, tag = "1")]
    pub weights: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub biases: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub bn_means: Option<Layer>,
    /// The variances, in spite of the name.
    #[prost(message, optional, tag = "4")]
    pub bn_stddivs: Option<Layer>,
    #[prost(message, optional, tag = "5")]
    pub bn_gammas: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub bn_betas: Option<Layer>,
}

/// A squeeze-and-excitation unit: two dense layers.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct SeUnit {
    #[prost(message, optional, tag = "1")]
    pub w1: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub b1: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub w2: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub b2: Option<Layer>,
}

/// A residual block of a tower.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct Residual {
    #[prost(message, optional, tag = "1")]
    pub conv1: Option<ConvBlock>,
    #[prost(message, optional, tag = "2")]
    pub conv2: Option<ConvBlock>,
    #[prost(message, optional, tag = "3")]
    pub se: Option<SeUnit>,
}

/// The smolgen layers of one encoder. All encoders also share the matrix `Weights::smolgen_w`.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct Smolgen {
    #[prost(message, optional, tag = "1")]
    pub compress: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub dense1_w: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub dense1_b: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub ln1_gammas: Option<Layer>,
    #[prost(message, optional, tag = "5")]
    pub ln1_betas: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub dense2_w: Option<Layer>,
    #[prost(message, optional, tag = "7")]
    pub dense2_b: Option<Layer>,
    #[prost(message, optional, tag = "8")]
    pub ln2_gammas: Option<Layer>,
    #[prost(message, optional, tag = "9")]
    pub ln2_betas: Option<Layer>,
}

/// The layers of multi-head attention.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct Mha {
    #[prost(message, optional, tag = "1")]
    pub q_w: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub q_b: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub k_w: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub k_b: Option<Layer>,
    #[prost(message, optional, tag = "5")]
    pub v_w: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub v_b: Option<Layer>,
    #[prost(message, optional, tag = "7")]
    pub dense_w: Option<Layer>,
    #[prost(message, optional, tag = "8")]
    pub dense_b: Option<Layer>,
    #[prost(message, optional, tag = "9")]
    pub smolgen: Option<Smolgen>,
    /// Relative position encodings, in this and the next two fields. A network that has them is rejected.
    #[prost(message, optional, tag = "10")]
    pub rpe_q: Option<Layer>,
    #[prost(message, optional, tag = "11")]
    pub rpe_k: Option<Layer>,
    #[prost(message, optional, tag = "12")]
    pub rpe_v: Option<Layer>,
}

/// A feed-forward block: two dense layers.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct Ffn {
    #[prost(message, optional, tag = "1")]
    pub dense1_w: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub dense1_b: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub dense2_w: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub dense2_b: Option<Layer>,
}

/// One encoder layer of a transformer: attention and a feed-forward block, each followed by a LayerNorm.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct EncoderLayer {
    #[prost(message, optional, tag = "1")]
    pub mha: Option<Mha>,
    #[prost(message, optional, tag = "2")]
    pub ln1_gammas: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub ln1_betas: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub ffn: Option<Ffn>,
    #[prost(message, optional, tag = "5")]
    pub ln2_gammas: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub ln2_betas: Option<Layer>,
}

/// One of several policy heads in a file.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct PolicyHead {
    /// The embedding of an attention policy. If it is absent, the head uses that of [`PolicyHeads`].
    #[prost(message, optional, tag = "1")]
    pub ip_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub ip_pol_b: Option<Layer>,
    /// The queries of an attention policy.
    #[prost(message, optional, tag = "3")]
    pub ip2_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub ip2_pol_b: Option<Layer>,
    /// The keys of an attention policy.
    #[prost(message, optional, tag = "5")]
    pub ip3_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub ip3_pol_b: Option<Layer>,
    /// The promotion offsets of an attention policy.
    #[prost(message, optional, tag = "7")]
    pub ip4_pol_w: Option<Layer>,
    #[prost(message, repeated, tag = "8")]
    pub pol_encoder: Vec<EncoderLayer>,
    #[prost(uint32, optional, tag = "9")]
    pub pol_headcount: Option<u32>,
    #[prost(message, optional, tag = "10")]
    pub policy1: Option<ConvBlock>,
    #[prost(message, optional, tag = "11")]
    pub policy: Option<ConvBlock>,
}

/// One of several value heads in a file.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct ValueHead {
    /// The first layer after an attention body, applied to each square.
    #[prost(message, optional, tag = "1")]
    pub ip_val_w: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub ip_val_b: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub ip1_val_w: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub ip1_val_b: Option<Layer>,
    #[prost(message, optional, tag = "5")]
    pub ip2_val_w: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub ip2_val_b: Option<Layer>,
    /// The output layer for the expected error of the value.
    #[prost(message, optional, tag = "7")]
    pub ip_val_err_w: Option<Layer>,
    #[prost(message, optional, tag = "8")]
    pub ip_val_err_b: Option<Layer>,
    #[prost(message, optional, tag = "11")]
    pub value: Option<ConvBlock>,
}

/// The policy heads of a file that has several. Each is a [`PolicyHead`]; [`decode_bounded`] decodes it.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct PolicyHeads {
    /// The embedding for the heads that have no embedding of their own.
    #[prost(message, optional, tag = "1")]
    pub ip_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub ip_pol_b: Option<Layer>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub vanilla: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub optimistic_st: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub soft: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub opponent: Option<Bytes>,
}

/// The value heads of a file that has several.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct ValueHeads {
    #[prost(message, optional, tag = "1")]
    pub winner: Option<ValueHead>,
    #[prost(message, optional, tag = "2")]
    pub q: Option<ValueHead>,
    #[prost(message, optional, tag = "3")]
    pub st: Option<ValueHead>,
}

/// The layers of a network. The header determines which of them are present. In their names `ip` means a dense
/// layer ("inner product"), `pol`, `val`, `mov` and `emb` mean policy, value, moves-left and embedding, and
/// `_w` and `_b` mean weights and biases.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the fields of net.proto")]
pub struct Weights {
    #[prost(message, optional, tag = "1")]
    pub input: Option<ConvBlock>,
    #[prost(message, repeated, tag = "2")]
    pub residual: Vec<Residual>,
    #[prost(message, optional, tag = "3")]
    pub policy: Option<ConvBlock>,
    /// The dense layer of a classical policy, or the embedding of an attention policy.
    #[prost(message, optional, tag = "4")]
    pub ip_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "5")]
    pub ip_pol_b: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub value: Option<ConvBlock>,
    #[prost(message, optional, tag = "7")]
    pub ip1_val_w: Option<Layer>,
    #[prost(message, optional, tag = "8")]
    pub ip1_val_b: Option<Layer>,
    #[prost(message, optional, tag = "9")]
    pub ip2_val_w: Option<Layer>,
    #[prost(message, optional, tag = "10")]
    pub ip2_val_b: Option<Layer>,
    #[prost(message, optional, tag = "11")]
    pub policy1: Option<ConvBlock>,
    #[prost(message, optional, tag = "12")]
    pub moves_left: Option<ConvBlock>,
    #[prost(message, optional, tag = "13")]
    pub ip1_mov_w: Option<Layer>,
    #[prost(message, optional, tag = "14")]
    pub ip1_mov_b: Option<Layer>,
    #[prost(message, optional, tag = "15")]
    pub ip2_mov_w: Option<Layer>,
    #[prost(message, optional, tag = "16")]
    pub ip2_mov_b: Option<Layer>,
    /// The queries of an attention policy.
    #[prost(message, optional, tag = "17")]
    pub ip2_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "18")]
    pub ip2_pol_b: Option<Layer>,
    /// The keys of an attention policy.
    #[prost(message, optional, tag = "19")]
    pub ip3_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "20")]
    pub ip3_pol_b: Option<Layer>,
    #[prost(message, repeated, tag = "21")]
    pub pol_encoder: Vec<EncoderLayer>,
    /// The promotion offsets of an attention policy.
    #[prost(message, optional, tag = "22")]
    pub ip4_pol_w: Option<Layer>,
    #[prost(uint32, optional, tag = "24")]
    pub pol_headcount: Option<u32>,
    #[prost(message, optional, tag = "25")]
    pub ip_emb_w: Option<Layer>,
    #[prost(message, optional, tag = "26")]
    pub ip_emb_b: Option<Layer>,
    #[prost(message, repeated, tag = "27")]
    pub encoder: Vec<EncoderLayer>,
    #[prost(uint32, optional, tag = "28")]
    pub headcount: Option<u32>,
    #[prost(message, optional, tag = "29")]
    pub ip_val_w: Option<Layer>,
    #[prost(message, optional, tag = "30")]
    pub ip_val_b: Option<Layer>,
    #[prost(message, optional, tag = "31")]
    pub ip_mov_w: Option<Layer>,
    #[prost(message, optional, tag = "32")]
    pub ip_mov_b: Option<Layer>,
    #[prost(message, optional, tag = "33")]
    pub ip_mult_gate: Option<Layer>,
    #[prost(message, optional, tag = "34")]
    pub ip_add_gate: Option<Layer>,
    /// The matrix of smolgen that all encoders share.
    #[prost(message, optional, tag = "35")]
    pub smolgen_w: Option<Layer>,
    #[prost(message, optional, tag = "37")]
    pub ip_emb_preproc_w: Option<Layer>,
    #[prost(message, optional, tag = "38")]
    pub ip_emb_preproc_b: Option<Layer>,
    #[prost(message, optional, tag = "39")]
    pub ip_emb_ln_gammas: Option<Layer>,
    #[prost(message, optional, tag = "40")]
    pub ip_emb_ln_betas: Option<Layer>,
    #[prost(message, optional, tag = "41")]
    pub ip_emb_ffn: Option<Ffn>,
    #[prost(message, optional, tag = "42")]
    pub ip_emb_ffn_ln_gammas: Option<Layer>,
    #[prost(message, optional, tag = "43")]
    pub ip_emb_ffn_ln_betas: Option<Layer>,
    #[prost(message, optional, tag = "44")]
    pub value_heads: Option<ValueHeads>,
    /// A [`PolicyHeads`] message.
    #[prost(bytes = "bytes", optional, tag = "45")]
    pub policy_heads: Option<Bytes>,
}
