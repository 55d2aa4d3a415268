//! The argument structures of the kernels, field for field as `hip/kernels/kernels.h` declares them.
//!
//! The header documents each field, and says which addresses may be [`Address::NULL`].

use super::hip::Address;
use super::program::KernelArguments;

/// The most GEMMs of a [`ChainArguments`].
pub(crate) const LONGEST_CHAIN: usize = 3;

macro_rules! kernel_arguments {
    ($($(#[$attribute:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$attribute])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name {
            $(pub(crate) $field: $type,)*
        }

        const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*);

        // SAFETY: the structure is `repr(C)` with the fields of kernels.h and nothing between them, as the assertion above
        // and those below check.
        unsafe impl KernelArguments for $name {}
    )*};
}

kernel_arguments! {
    /// Expands bitboards to input planes.
    PlanesArguments {
        masks: Address,
        values: Address,
        table: Address,
        output: Address,
        mask_stride: i32,
        planes: i32,
        extra: i32,
        valued_plane: i32,
    }
    /// `act(input + bias) * multiply + add`. The kernel `softmax` takes the same structure.
    ActivationArguments {
        input: Address,
        bias: Address,
        multiply: Address,
        add: Address,
        output: Address,
        rows: i32,
        width: i32,
        bias_rows: i32,
        activation: i32,
    }
    /// `LN(alpha * act(input + bias) + residual) * multiply + add`.
    LayerNormArguments {
        input: Address,
        bias: Address,
        residual: Address,
        gammas: Address,
        betas: Address,
        multiply: Address,
        add: Address,
        output: Address,
        rows: i32,
        width: i32,
        bias_rows: i32,
        activation: i32,
        alpha: f32,
        epsilon: f32,
    }
    /// `x weights^T` for few rows. x is the input, or `LN(act(input + bias))` for `norm_dense`.
    DenseArguments {
        input: Address,
        weights: Address,
        output: Address,
        bias: Address,
        gammas: Address,
        betas: Address,
        rows: i32,
        inputs: i32,
        outputs: i32,
        activation: i32,
        epsilon: f32,
        reserved: i32,
    }
    /// `act(x weights^T + bias) * multiply + add + residual` for `gemms` GEMMs.
    GemmArguments {
        x: Address,
        weights: Address,
        output: Address,
        bias: Address,
        multiply: Address,
        add: Address,
        residual: Address,
        partial: Address,
        x_batch: i64,
        weights_batch: i64,
        output_batch: i64,
        rows: i32,
        outputs: i32,
        inputs: i32,
        x_stride: i32,
        weights_stride: i32,
        output_stride: i32,
        gemms: i32,
        splits: i32,
        activation: i32,
        is_preshuffled: i32,
    }
    /// Puts weights into the order in which GEMMs read them.
    PreshuffleArguments {
        weights: Address,
        output: Address,
        weights_batch: i64,
        output_batch: i64,
        outputs: i32,
        row: i32,
        stride: i32,
        reserved: i32,
    }
    /// Rounds rows to 8 bits.
    QuantiseArguments {
        x: Address,
        factors: Address,
        bytes: Address,
        row_scales: Address,
        rows: i32,
        width: i32,
    }
    /// A GEMM of 8-bit integers.
    GemmBytesArguments {
        gemm: GemmArguments,
        row_scales: Address,
        output_scales: Address,
    }
    /// A GEMM of a chain, and the LayerNorm of its results.
    ChainLink {
        gemm: GemmArguments,
        norm: LayerNormArguments,
        first_block: i32,
        first_norm_block: i32,
        group_rows: i32,
        first_counter: i32,
        partial_start: i64,
        before_tiles: [i32; 2],
        before_norm: [i32; 2],
    }
    /// Up to three GEMMs, each of which reads what the one before has written.
    ChainArguments {
        links: [ChainLink; LONGEST_CHAIN],
        workspace: Address,
        counters: Address,
        count: i32,
        blocks: i32,
        last_group: i32,
        all: [i32; 2],
        reserved: i32,
    }
    /// `softmax(scale * Q K^T + logits) V`.
    AttentionArguments {
        qkv: Address,
        logits: Address,
        output: Address,
        heads: i32,
        depth: i32,
        stride: i32,
        key_offset: i32,
        value_offset: i32,
        output_stride: i32,
        scale: f32,
        reserved: i32,
    }
    /// The softmax over the legal moves, with logits computed from queries and keys.
    AttentionPolicyArguments {
        queries: Address,
        keys: Address,
        promotions: Address,
        places: Address,
        first_moves: Address,
        moves: Address,
        probabilities: Address,
        stride: i32,
        depth: i32,
        scale: f32,
        inverse_temperature: f32,
    }
    /// The softmax over the legal moves, with logits read from a row.
    PolicyArguments {
        logits: Address,
        bias: Address,
        places: Address,
        first_moves: Address,
        moves: Address,
        probabilities: Address,
        width: i32,
        bias_width: i32,
        inverse_temperature: f32,
        reserved: i32,
    }
    /// The last layer of a value, value-error or moves-left head.
    ScalarHeadArguments {
        input: Address,
        hidden_bias: Address,
        weights: Address,
        bias: Address,
        output: Address,
        positions: i32,
        hidden: i32,
        outputs: i32,
        activation: i32,
        finish: i32,
        reserved: i32,
    }
    /// The input and output transforms of a 3x3 convolution by Winograd's algorithm.
    WinogradArguments {
        input: Address,
        output: Address,
        bias: Address,
        residual: Address,
        means: Address,
        component_stride: i64,
        channels: i32,
        activation: i32,
    }
    /// A 3x3 convolution: both transforms, and the GEMMs between them.
    ConvolutionArguments {
        input: WinogradArguments,
        gemm: GemmArguments,
        output: WinogradArguments,
        counters: Address,
        positions: i32,
        blocks: i32,
    }
    /// Squeeze and excitation: `act(sigmoid(scales) * branch + shifts + residual)`.
    SqueezeExciteArguments {
        branch: Address,
        residual: Address,
        output: Address,
        means: Address,
        squeeze: Address,
        squeeze_bias: Address,
        excite: Address,
        excite_bias: Address,
        channels: i32,
        hidden: i32,
        activation: i32,
        reserved: i32,
    }
}

impl LayerNormArguments {
    /// The arguments of no LayerNorm.
    pub(crate) const NONE: LayerNormArguments = LayerNormArguments {
        input: Address::NULL,
        bias: Address::NULL,
        residual: Address::NULL,
        gammas: Address::NULL,
        betas: Address::NULL,
        multiply: Address::NULL,
        add: Address::NULL,
        output: Address::NULL,
        rows: 0,
        width: 0,
        bias_rows: 1,
        activation: 0,
        alpha: 1.0,
        epsilon: 0.0,
    };
}

impl GemmArguments {
    /// The arguments of no GEMM.
    pub(crate) const NONE: GemmArguments = GemmArguments {
        x: Address::NULL,
        weights: Address::NULL,
        output: Address::NULL,
        bias: Address::NULL,
        multiply: Address::NULL,
        add: Address::NULL,
        residual: Address::NULL,
        partial: Address::NULL,
        x_batch: 0,
        weights_batch: 0,
        output_batch: 0,
        rows: 0,
        outputs: 0,
        inputs: 0,
        x_stride: 0,
        weights_stride: 0,
        output_stride: 0,
        gemms: 1,
        splits: 1,
        activation: 0,
        is_preshuffled: 0,
    };
}

impl ChainLink {
    /// A link without a GEMM.
    pub(crate) const NONE: ChainLink = ChainLink {
        gemm: GemmArguments::NONE,
        norm: LayerNormArguments::NONE,
        first_block: 0,
        first_norm_block: 0,
        group_rows: 1,
        first_counter: 0,
        partial_start: 0,
        before_tiles: [0; 2],
        before_norm: [0; 2],
    };
}

// kernels.h asserts the same sizes.
const _: () = {
    assert!(size_of::<PlanesArguments>() == 48);
    assert!(size_of::<ActivationArguments>() == 56);
    assert!(size_of::<LayerNormArguments>() == 88);
    assert!(size_of::<DenseArguments>() == 72);
    assert!(size_of::<GemmArguments>() == 128);
    assert!(size_of::<PreshuffleArguments>() == 48);
    assert!(size_of::<QuantiseArguments>() == 40);
    assert!(size_of::<GemmBytesArguments>() == 144);
    assert!(size_of::<ChainLink>() == 256);
    assert!(size_of::<ChainArguments>() == 808);
    assert!(size_of::<AttentionArguments>() == 56);
    assert!(size_of::<AttentionPolicyArguments>() == 72);
    assert!(size_of::<PolicyArguments>() == 64);
    assert!(size_of::<ScalarHeadArguments>() == 64);
    assert!(size_of::<WinogradArguments>() == 56);
    assert!(size_of::<ConvolutionArguments>() == 256);
    assert!(size_of::<SqueezeExciteArguments>() == 80);
};
