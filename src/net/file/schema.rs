//! The enumerations of lc0's network file (`net.proto`): for each variant its number in a file, its name here,
//! and its name in `net.proto`, which lc0's `describenet` prints.

/// Declares one enumeration of `net.proto`: `Variant = number "NAME_IN_NET_PROTO"`.
macro_rules! schema_enum {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $number:literal $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs, reason = "the variants of net.proto")]
        pub enum $name { $($variant = $number),+ }

        impl $name {
            /// All variants, in the order of `net.proto`.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The variant with this number, or `None` for a number that `net.proto` does not have.
            pub fn from_number(number: i32) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }

            /// The name of the variant in `net.proto`, which lc0 prints too.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

schema_enum! {
    /// The encoding of layers that have none of their own.
    WeightsEncoding { Unknown = 0 "UNKNOWN", Linear16 = 1 "LINEAR16" }
}

schema_enum! {
    /// The encoding of the values of one layer.
    LayerEncoding {
        Unknown = 0 "UNKNOWN_ENCODING",
        Linear16 = 1 "LINEAR16",
        Float16 = 2 "FLOAT16",
        BFloat16 = 3 "BFLOAT16",
        Float32 = 4 "FLOAT32",
    }
}

schema_enum! {
    /// The format of the 112 input planes.
    InputFormat {
        Unknown = 0 "INPUT_UNKNOWN",
        Classical112 = 1 "INPUT_CLASSICAL_112_PLANE",
        CastlingPlane = 2 "INPUT_112_WITH_CASTLING_PLANE",
        Canonical = 3 "INPUT_112_WITH_CANONICALIZATION",
        CanonicalHectoplies = 4 "INPUT_112_WITH_CANONICALIZATION_HECTOPLIES",
        CanonicalHectopliesArmageddon = 132 "INPUT_112_WITH_CANONICALIZATION_HECTOPLIES_ARMAGEDDON",
        CanonicalV2 = 5 "INPUT_112_WITH_CANONICALIZATION_V2",
        CanonicalV2Armageddon = 133 "INPUT_112_WITH_CANONICALIZATION_V2_ARMAGEDDON",
    }
}

schema_enum! {
    /// The kind of body, and whether the header names the formats of the heads.
    NetworkStructure {
        Unknown = 0 "NETWORK_UNKNOWN",
        Classical = 1 "NETWORK_CLASSICAL",
        Se = 2 "NETWORK_SE",
        ClassicalWithHeadformat = 3 "NETWORK_CLASSICAL_WITH_HEADFORMAT",
        SeWithHeadformat = 4 "NETWORK_SE_WITH_HEADFORMAT",
        Onnx = 5 "NETWORK_ONNX",
        AttentionBody = 6 "NETWORK_ATTENTIONBODY_WITH_HEADFORMAT",
        AttentionBodyMultihead = 7 "NETWORK_ATTENTIONBODY_WITH_MULTIHEADFORMAT",
        AttentionBodyLegacyMultihead = 134 "NETWORK_AB_LEGACY_WITH_MULTIHEADFORMAT",
    }
}

schema_enum! {
    /// The kind of policy head.
    PolicyFormat {
        Unknown = 0 "POLICY_UNKNOWN",
        Classical = 1 "POLICY_CLASSICAL",
        Convolution = 2 "POLICY_CONVOLUTION",
        Attention = 3 "POLICY_ATTENTION",
    }
}

schema_enum! {
    /// The kind of value head.
    ValueFormat {
        Unknown = 0 "VALUE_UNKNOWN",
        Classical = 1 "VALUE_CLASSICAL",
        Wdl = 2 "VALUE_WDL",
        Param = 3 "VALUE_PARAM",
    }
}

schema_enum! {
    /// The kind of moves-left head.
    MovesLeftFormat { None = 0 "MOVES_LEFT_NONE", V1 = 1 "MOVES_LEFT_V1" }
}

schema_enum! {
    /// The activation of all layers for which the header names no other.
    DefaultActivation { Relu = 0 "DEFAULT_ACTIVATION_RELU", Mish = 1 "DEFAULT_ACTIVATION_MISH" }
}

schema_enum! {
    /// The activation of smolgen or of feed-forward layers.
    ActivationFunction {
        Default = 0 "ACTIVATION_DEFAULT",
        Mish = 1 "ACTIVATION_MISH",
        Relu = 2 "ACTIVATION_RELU",
        None = 3 "ACTIVATION_NONE",
        Tanh = 4 "ACTIVATION_TANH",
        Sigmoid = 5 "ACTIVATION_SIGMOID",
        Selu = 6 "ACTIVATION_SELU",
        Swish = 7 "ACTIVATION_SWISH",
        Relu2 = 8 "ACTIVATION_RELU_2",
        Softmax = 9 "ACTIVATION_SOFTMAX",
    }
}

schema_enum! {
    /// The input features that are appended to the planes of an attention body.
    InputEmbeddingFormat {
        None = 0 "INPUT_EMBEDDING_NONE",
        PeMap = 1 "INPUT_EMBEDDING_PE_MAP",
        PeDense = 2 "INPUT_EMBEDDING_PE_DENSE",
    }
}

schema_enum! {
    /// The element type of an ONNX model, with ONNX's own numbers (`TensorProto.DataType`).
    OnnxDataType {
        Unknown = 0 "UNKNOWN_DATATYPE",
        Float = 1 "FLOAT",
        Float16 = 10 "FLOAT16",
        BFloat16 = 16 "BFLOAT16",
    }
}
