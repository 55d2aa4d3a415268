//! The protobuf messages of lc0's network file (`package pblczero`), written by hand.
//!
//! Only field numbers and wire types matter to the format, and they are all here: no schema file, no `protoc`,
//! no build script. What nobody reads is left out (prost skips unknown fields): `Layer.dims`, the head maps,
//! the value-error and categorical layers of a value head.
//!
//! Two departures from a literal translation, both for files of unknown origin:
//!
//! * **Bytes stay where they are.** `Layer.params` is a [`Bytes`], a view of the buffer (or the memory map)
//!   that the file was read into; nothing is copied before the weights become `f32`.
//! * **Large messages are opaque until they are looked at.** `Net.weights` and each head are `Bytes` here;
//!   [`decode_bounded`] decodes one after counting its repeated fields. An empty `EncoderLayer` is two bytes
//!   in the file and kilobytes in memory: without the count, a small file could ask for all of it.
//!
//! Enumerations are plain numbers in the messages, as a file may hold any; [`super::schema`] names those we know.

use prost::Message;
use prost::bytes::{Buf, Bytes};
use prost::encoding::{DecodeContext, decode_key, skip_field};

use super::error::Reason;
#[cfg(doc)]
use super::schema;

/// `Net.magic` of every network file.
pub const MAGIC: u32 = 0x1c0;

/// How often a counted field may occur in a message: far above any network's encoders or residual blocks.
pub const MAXIMUM_REPEATS: usize = 512;

/// A message with repeated messages in it, and their field numbers.
pub trait Counted: Message + Default {
    /// Fields of which [`decode_bounded`] refuses more than [`MAXIMUM_REPEATS`].
    const REPEATED: &'static [u32];
}

/// Decodes a message after counting its repeated fields, before it allocates anything for them.
pub fn decode_bounded<M: Counted>(bytes: &Bytes) -> Result<M, Reason> {
    let mut repeats = vec![0; M::REPEATED.len()];
    let mut rest = bytes.clone();
    while rest.has_remaining() {
        let (field, wire_type) = decode_key(&mut rest)?;
        skip_field(wire_type, field, &mut rest, DecodeContext::default())?;
        if let Some(index) = M::REPEATED.iter().position(|&counted| counted == field) {
            repeats[index] += 1;
            if repeats[index] > MAXIMUM_REPEATS {
                return Err(Reason::Repeats { field, limit: MAXIMUM_REPEATS });
            }
        }
    }
    Ok(M::decode(bytes.clone())?)
}

impl Counted for Weights {
    const REPEATED: &'static [u32] = &[2, 21, 27];
}

impl Counted for PolicyHead {
    const REPEATED: &'static [u32] = &[8];
}

impl Counted for OnnxFile {
    const REPEATED: &'static [u32] = &[8];
}

impl Counted for OnnxGraph {
    const REPEATED: &'static [u32] = &[11, 12];
}

/// A whole file.
#[derive(Clone, PartialEq, Message)]
pub struct Net {
    /// [`MAGIC`].
    #[prost(fixed32, optional, tag = "1")]
    pub magic: Option<u32>,
    /// Free text, not always UTF-8.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub license: Option<Bytes>,
    /// The oldest lc0 that can read the file.
    #[prost(message, optional, tag = "3")]
    pub min_version: Option<EngineVersion>,
    /// How weights are stored and what network they make.
    #[prost(message, optional, tag = "4")]
    pub format: Option<Format>,
    /// What training wrote about itself.
    #[prost(message, optional, tag = "5")]
    pub training_params: Option<TrainingParams>,
    /// A [`Weights`] message, for [`decode_bounded`].
    #[prost(bytes = "bytes", optional, tag = "10")]
    pub weights: Option<Bytes>,
    /// In place of weights.
    #[prost(message, optional, tag = "11")]
    pub onnx_model: Option<OnnxModel>,
}

/// A version of lc0.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct EngineVersion {
    /// 0.x.x
    #[prost(uint32, optional, tag = "1")]
    pub major: Option<u32>,
    /// x.33.x
    #[prost(uint32, optional, tag = "2")]
    pub minor: Option<u32>,
    /// x.x.0
    #[prost(uint32, optional, tag = "3")]
    pub patch: Option<u32>,
}

/// How weights are stored and what network they make.
#[derive(Clone, PartialEq, Message)]
pub struct Format {
    /// [`schema::WeightsEncoding`] of layers that name none; only LINEAR16 exists.
    #[prost(int32, optional, tag = "1")]
    pub weights_encoding: Option<i32>,
    /// Absent in the oldest files.
    #[prost(message, optional, tag = "2")]
    pub network_format: Option<NetworkFormat>,
}

/// What network the weights make: numbers of the enums in [`schema`].
#[derive(Clone, Copy, PartialEq, Message)]
pub struct NetworkFormat {
    /// [`schema::InputFormat`].
    #[prost(int32, optional, tag = "1")]
    pub input: Option<i32>,
    /// Classical (1) or WDL (2); the value head's format says the same.
    #[prost(int32, optional, tag = "2")]
    pub output: Option<i32>,
    /// [`schema::NetworkStructure`].
    #[prost(int32, optional, tag = "3")]
    pub network: Option<i32>,
    /// [`schema::PolicyFormat`].
    #[prost(int32, optional, tag = "4")]
    pub policy: Option<i32>,
    /// [`schema::ValueFormat`].
    #[prost(int32, optional, tag = "5")]
    pub value: Option<i32>,
    /// [`schema::MovesLeftFormat`].
    #[prost(int32, optional, tag = "6")]
    pub moves_left: Option<i32>,
    /// [`schema::DefaultActivation`].
    #[prost(int32, optional, tag = "7")]
    pub default_activation: Option<i32>,
    /// [`schema::ActivationFunction`].
    #[prost(int32, optional, tag = "8")]
    pub smolgen_activation: Option<i32>,
    /// [`schema::ActivationFunction`].
    #[prost(int32, optional, tag = "9")]
    pub ffn_activation: Option<i32>,
    /// [`schema::InputEmbeddingFormat`].
    #[prost(int32, optional, tag = "10")]
    pub input_embedding: Option<i32>,
}

/// What training wrote about itself.
#[derive(Clone, PartialEq, Message)]
pub struct TrainingParams {
    /// Steps.
    #[prost(uint32, optional, tag = "1")]
    pub training_steps: Option<u32>,
    /// Learning rate at the end.
    #[prost(float, optional, tag = "2")]
    pub learning_rate: Option<f32>,
    /// Value loss.
    #[prost(float, optional, tag = "3")]
    pub mse_loss: Option<f32>,
    /// Policy loss.
    #[prost(float, optional, tag = "4")]
    pub policy_loss: Option<f32>,
    /// Share of policy hits.
    #[prost(float, optional, tag = "5")]
    pub accuracy: Option<f32>,
    /// Free text, not always UTF-8.
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub lc0_params: Option<Bytes>,
}

/// A network as an ONNX graph.
#[derive(Clone, PartialEq, Message)]
pub struct OnnxModel {
    /// An [`OnnxFile`], for [`decode_bounded`].
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub model: Option<Bytes>,
    /// [`schema::OnnxDataType`].
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    /// Input tensor.
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub input_planes: Option<Bytes>,
    /// Output tensor.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub output_value: Option<Bytes>,
    /// Output tensor.
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub output_wdl: Option<Bytes>,
    /// Output tensor.
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub output_policy: Option<Bytes>,
    /// Output tensor.
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub output_mlh: Option<Bytes>,
}

/// One tensor, flattened.
#[derive(Clone, PartialEq, Message)]
pub struct Layer {
    /// LINEAR16's value of code 0.
    #[prost(float, optional, tag = "1")]
    pub min_val: Option<f32>,
    /// LINEAR16's value of code 65535.
    #[prost(float, optional, tag = "2")]
    pub max_val: Option<f32>,
    /// Little-endian codes or floats; empty is the same as absent.
    #[prost(bytes = "bytes", tag = "3")]
    pub params: Bytes,
    /// [`schema::LayerEncoding`]; wins over the file's.
    #[prost(int32, optional, tag = "4")]
    pub encoding: Option<i32>,
}

/// A convolution (OIHW) and its batch normalisation, if not folded in already.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
pub struct ConvBlock {
    #[prost(message, optional, tag = "1")]
    pub weights: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub biases: Option<Layer>,
    #[prost(message, optional, tag = "3")]
    pub bn_means: Option<Layer>,
    /// In spite of its name a variance.
    #[prost(message, optional, tag = "4")]
    pub bn_stddivs: Option<Layer>,
    #[prost(message, optional, tag = "5")]
    pub bn_gammas: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub bn_betas: Option<Layer>,
}

/// Squeeze and excitation.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
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

/// A residual block.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
pub struct Residual {
    #[prost(message, optional, tag = "1")]
    pub conv1: Option<ConvBlock>,
    #[prost(message, optional, tag = "2")]
    pub conv2: Option<ConvBlock>,
    #[prost(message, optional, tag = "3")]
    pub se: Option<SeUnit>,
}

/// An encoder's own part of smolgen.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
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

/// Multi-head attention.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
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
    /// Relative position encoding: refused.
    #[prost(message, optional, tag = "10")]
    pub rpe_q: Option<Layer>,
    #[prost(message, optional, tag = "11")]
    pub rpe_k: Option<Layer>,
    #[prost(message, optional, tag = "12")]
    pub rpe_v: Option<Layer>,
}

/// Two dense layers.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
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

/// A transformer encoder.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
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

/// One of several policy heads.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
pub struct PolicyHead {
    /// Attention policy: embedding. Absent: the heads' shared one.
    #[prost(message, optional, tag = "1")]
    pub ip_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "2")]
    pub ip_pol_b: Option<Layer>,
    /// Query.
    #[prost(message, optional, tag = "3")]
    pub ip2_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "4")]
    pub ip2_pol_b: Option<Layer>,
    /// Key.
    #[prost(message, optional, tag = "5")]
    pub ip3_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "6")]
    pub ip3_pol_b: Option<Layer>,
    /// Promotion offsets.
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

/// One of several value heads.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
pub struct ValueHead {
    /// Attention body: the first, per-square layer.
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
    /// How far the value may be off.
    #[prost(message, optional, tag = "7")]
    pub ip_val_err_w: Option<Layer>,
    #[prost(message, optional, tag = "8")]
    pub ip_val_err_b: Option<Layer>,
    #[prost(message, optional, tag = "11")]
    pub value: Option<ConvBlock>,
}

/// Policy heads by name, each a [`PolicyHead`] for [`decode_bounded`].
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
pub struct PolicyHeads {
    /// Shared by heads that have none of their own.
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

/// Value heads by name.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
pub struct ValueHeads {
    #[prost(message, optional, tag = "1")]
    pub winner: Option<ValueHead>,
    #[prost(message, optional, tag = "2")]
    pub q: Option<ValueHead>,
    #[prost(message, optional, tag = "3")]
    pub st: Option<ValueHead>,
}

/// All tensors.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
pub struct Weights {
    #[prost(message, optional, tag = "1")]
    pub input: Option<ConvBlock>,
    #[prost(message, repeated, tag = "2")]
    pub residual: Vec<Residual>,
    #[prost(message, optional, tag = "3")]
    pub policy: Option<ConvBlock>,
    /// Classical policy: the dense layer. Attention policy: the embedding.
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
    /// Query.
    #[prost(message, optional, tag = "17")]
    pub ip2_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "18")]
    pub ip2_pol_b: Option<Layer>,
    /// Key.
    #[prost(message, optional, tag = "19")]
    pub ip3_pol_w: Option<Layer>,
    #[prost(message, optional, tag = "20")]
    pub ip3_pol_b: Option<Layer>,
    #[prost(message, repeated, tag = "21")]
    pub pol_encoder: Vec<EncoderLayer>,
    /// Promotion offsets.
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
    /// Shared by all encoders.
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
    /// A [`PolicyHeads`].
    #[prost(bytes = "bytes", optional, tag = "45")]
    pub policy_heads: Option<Bytes>,
}

/// What `describenet` shows of an ONNX file (`ModelProto` in ONNX's schema).
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
pub struct OnnxFile {
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub producer_name: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub producer_version: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub domain: Option<Bytes>,
    #[prost(int64, optional, tag = "5")]
    pub model_version: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub doc_string: Option<Bytes>,
    /// An [`OnnxGraph`], for [`decode_bounded`].
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub graph: Option<Bytes>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OnnxOpset>,
}

/// An ONNX graph's interface.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
pub struct OnnxGraph {
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<OnnxTensor>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<OnnxTensor>,
}

/// The name of an ONNX graph's input or output.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
pub struct OnnxTensor {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub name: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub doc_string: Option<Bytes>,
}

/// An operator set that an ONNX graph uses.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs, reason = "the schema's own names")]
pub struct OnnxOpset {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub domain: Option<Bytes>,
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}
