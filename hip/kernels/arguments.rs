//! The kernels' arguments: kernels.h in Rust, field by field. What they mean, shapes, types and launch shapes stand
//! there; here are only the sizes, asserted on both sides. A pointer is a device address, 0 where kernels.h says null.
//!
//! Written to be included as a module of the evaluator that launches them.

/// See kernels.h.
pub(super) const ACTIVATION_NONE: i32 = 0;
/// See kernels.h.
pub(super) const ACTIVATION_RELU: i32 = 1;
/// See kernels.h.
pub(super) const ACTIVATION_RELU_2: i32 = 2;
/// See kernels.h.
pub(super) const ACTIVATION_TANH: i32 = 3;
/// See kernels.h.
pub(super) const ACTIVATION_SIGMOID: i32 = 4;
/// See kernels.h.
pub(super) const ACTIVATION_SELU: i32 = 5;
/// See kernels.h.
pub(super) const ACTIVATION_MISH: i32 = 6;
/// See kernels.h.
pub(super) const ACTIVATION_SWISH: i32 = 7;
/// See kernels.h.
pub(super) const FINISH_NONE: i32 = 0;
/// See kernels.h.
pub(super) const FINISH_SOFTMAX: i32 = 1;
/// See kernels.h.
pub(super) const FINISH_TANH: i32 = 2;
/// See kernels.h.
pub(super) const FINISH_RELU: i32 = 3;

/// Of `planes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanesArguments {
    pub(super) masks: u64,
    pub(super) values: u64,
    pub(super) table: u64,
    pub(super) output: u64,
    pub(super) mask_stride: i32,
    pub(super) planes: i32,
    pub(super) extra: i32,
    pub(super) valued_plane: i32,
}

/// Of `activation` and `softmax`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ActivationArguments {
    pub(super) input: u64,
    pub(super) bias: u64,
    pub(super) multiply: u64,
    pub(super) add: u64,
    pub(super) output: u64,
    pub(super) rows: i32,
    pub(super) width: i32,
    pub(super) bias_rows: i32,
    pub(super) activation: i32,
}

/// Of `layer_norm`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerNormArguments {
    pub(super) input: u64,
    pub(super) bias: u64,
    pub(super) residual: u64,
    pub(super) gammas: u64,
    pub(super) betas: u64,
    pub(super) multiply: u64,
    pub(super) add: u64,
    pub(super) output: u64,
    pub(super) rows: i32,
    pub(super) width: i32,
    pub(super) bias_rows: i32,
    pub(super) activation: i32,
    pub(super) alpha: f32,
    pub(super) epsilon: f32,
}

/// Of `attention` and `attention_any`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct AttentionArguments {
    pub(super) qkv: u64,
    pub(super) logits: u64,
    pub(super) output: u64,
    pub(super) heads: i32,
    pub(super) depth: i32,
    pub(super) stride: i32,
    pub(super) key_offset: i32,
    pub(super) value_offset: i32,
    pub(super) output_stride: i32,
    pub(super) scale: f32,
}

/// Of `attention_policy`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct AttentionPolicyArguments {
    pub(super) queries: u64,
    pub(super) keys: u64,
    pub(super) promotions: u64,
    pub(super) places: u64,
    pub(super) first_moves: u64,
    pub(super) moves: u64,
    pub(super) probabilities: u64,
    pub(super) stride: i32,
    pub(super) depth: i32,
    pub(super) scale: f32,
    pub(super) inverse_temperature: f32,
}

/// Of `policy`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicyArguments {
    pub(super) logits: u64,
    pub(super) bias: u64,
    pub(super) places: u64,
    pub(super) first_moves: u64,
    pub(super) moves: u64,
    pub(super) probabilities: u64,
    pub(super) width: i32,
    pub(super) bias_width: i32,
    pub(super) inverse_temperature: f32,
    pub(super) reserved: i32,
}

/// Of `scalar_head`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ScalarHeadArguments {
    pub(super) input: u64,
    pub(super) hidden_bias: u64,
    pub(super) weights: u64,
    pub(super) bias: u64,
    pub(super) output: u64,
    pub(super) positions: i32,
    pub(super) hidden: i32,
    pub(super) outputs: i32,
    pub(super) activation: i32,
    pub(super) finish: i32,
    pub(super) reserved: i32,
}

/// Of `winograd_input` and `winograd_output`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct WinogradArguments {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) bias: u64,
    pub(super) residual: u64,
    pub(super) means: u64,
    pub(super) component_stride: i64,
    pub(super) channels: i32,
    pub(super) activation: i32,
}

/// Of `squeeze_excite`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct SqueezeExciteArguments {
    pub(super) branch: u64,
    pub(super) residual: u64,
    pub(super) output: u64,
    pub(super) means: u64,
    pub(super) squeeze: u64,
    pub(super) squeeze_bias: u64,
    pub(super) excite: u64,
    pub(super) excite_bias: u64,
    pub(super) channels: i32,
    pub(super) hidden: i32,
    pub(super) activation: i32,
    pub(super) reserved: i32,
}

const _: () = assert!(size_of::<PlanesArguments>() == 48);
const _: () = assert!(size_of::<ActivationArguments>() == 56);
const _: () = assert!(size_of::<LayerNormArguments>() == 88);
const _: () = assert!(size_of::<AttentionArguments>() == 56);
const _: () = assert!(size_of::<AttentionPolicyArguments>() == 72);
const _: () = assert!(size_of::<PolicyArguments>() == 64);
const _: () = assert!(size_of::<ScalarHeadArguments>() == 64);
const _: () = assert!(size_of::<WinogradArguments>() == 56);
const _: () = assert!(size_of::<SqueezeExciteArguments>() == 80);
