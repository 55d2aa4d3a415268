//! The enumerations of lc0's network file: number, our name, and the name that lc0 prints.

/// A schema's enum: variants with their number and their name in the schema.
macro_rules! schema_enum {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $number:literal $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs, reason = "the schema's own names")]
        pub enum $name { $($variant = $number),+ }

        impl $name {
            /// The variant of a number in a file, if we know it.
            pub fn from_number(number: i32) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }

            /// Its name in the schema, as lc0 prints it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

schema_enum! {
    /// How layers are stored that do not say so themselves.
    WeightsEncoding { Unknown = 0 "UNKNOWN", Linear16 = 1 "LINEAR16" }
}

schema_enum! {
    /// How one layer is stored.
    LayerEncoding {
        Unknown = 0 "UNKNOWN_ENCODING",
        Linear16 = 1 "LINEAR16",
        Float16 = 2 "FLOAT16",
        BFloat16 = 3 "BFLOAT16",
        Float32 = 4 "FLOAT32",
    }
}

schema_enum! {
    /// The input planes.
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
    /// The body, and whether the file says what its heads are.
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
    /// The policy head.
    PolicyFormat {
        Unknown = 0 "POLICY_UNKNOWN",
        Classical = 1 "POLICY_CLASSICAL",
        Convolution = 2 "POLICY_CONVOLUTION",
        Attention = 3 "POLICY_ATTENTION",
    }
}

schema_enum! {
    /// The value head.
    ValueFormat {
        Unknown = 0 "VALUE_UNKNOWN",
        Classical = 1 "VALUE_CLASSICAL",
        Wdl = 2 "VALUE_WDL",
        Param = 3 "VALUE_PARAM",
    }
}

schema_enum! {
    /// The moves-left head.
    MovesLeftFormat { None = 0 "MOVES_LEFT_NONE", V1 = 1 "MOVES_LEFT_V1" }
}

schema_enum! {
    /// The activation wherever nothing else is said.
    DefaultActivation { Relu = 0 "DEFAULT_ACTIVATION_RELU", Mish = 1 "DEFAULT_ACTIVATION_MISH" }
}

schema_enum! {
    /// Activations of smolgen and feed-forward layers.
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
    /// What is concatenated to the input planes of an attention body.
    InputEmbeddingFormat {
        None = 0 "INPUT_EMBEDDING_NONE",
        PeMap = 1 "INPUT_EMBEDDING_PE_MAP",
        PeDense = 2 "INPUT_EMBEDDING_PE_DENSE",
    }
}

schema_enum! {
    /// ONNX's own number of an element type.
    OnnxDataType {
        Unknown = 0 "UNKNOWN_DATATYPE",
        Float = 1 "FLOAT",
        Float16 = 10 "FLOAT16",
        BFloat16 = 16 "BFLOAT16",
    }
}
