//! Enums for the options whose value is one of a few words.

use std::fmt;

/// Makes an enum with a variant for each word of an option, and the conversions between words and variants.
macro_rules! choices {
    ($(
        $(#[$doc:meta])*
        $choice:ident { $( $(#[$variant_doc:meta])* $variant:ident = $name:literal ),+ $(,)? }
    )+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $choice { $( $(#[$variant_doc])* $variant ),+ }

        impl $choice {
            /// The words, in the order UCI lists them.
            pub const NAMES: &[&str] = &[$($name),+];

            /// The variants, in the order of the words.
            pub const ALL: &[$choice] = &[$($choice::$variant),+];

            /// The word for this variant.
            pub fn name(self) -> &'static str {
                match self { $($choice::$variant => $name),+ }
            }

            /// The variant for a word, which must be spelled exactly as in `NAMES`.
            pub fn from_name(name: &str) -> Option<$choice> {
                $choice::ALL.iter().copied().find(|choice| choice.name() == name)
            }
        }

        impl fmt::Display for $choice {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    )+};
}

choices! {
    /// The unit of the number after `score cp`. The formulas are in `search::report::score`.
    ScoreType {
        /// Centipawns from win minus loss.
        Centipawn = "centipawn",
        /// Centipawns from q, which includes the draw score.
        CentipawnWithDrawScore = "centipawn_with_drawscore",
        /// Centipawns on lc0's scale of 2019.
        Centipawn2019 = "centipawn_2019",
        /// Centipawns on lc0's scale of 2018.
        Centipawn2018 = "centipawn_2018",
        /// The expected score, in hundredths of a percent.
        WinPercentage = "win_percentage",
        /// q, in ten-thousandths.
        Q = "Q",
        /// Win minus loss, in ten-thousandths.
        WinMinusLoss = "W-L",
        /// The advantage that corresponds to the win, draw and loss probabilities, in hundredths.
        WdlMu = "WDL_mu",
    }

    /// The search algorithm.
    SearchName {
        /// Rukh's search.
        Default = "default",
        /// lc0's classic search.
        Classic = "classic",
    }

    /// The value that the search assumes for an unvisited move.
    FpuStrategy {
        /// The parent's value minus `FpuValue` times the square root of the policy visited so far.
        Reduction = "reduction",
        /// `FpuValue`, whatever the parent's value.
        Absolute = "absolute",
    }

    /// The value that the search assumes for an unvisited move of the root.
    FpuStrategyAtRoot {
        /// As [`FpuStrategy::Reduction`], with `FpuValueAtRoot`.
        Reduction = "reduction",
        /// As [`FpuStrategy::Absolute`], with `FpuValueAtRoot`.
        Absolute = "absolute",
        /// The strategy of all other nodes.
        Same = "same",
    }

    /// The side that contempt favours.
    ContemptMode {
        /// The side to move at the root; neither side in `go infinite`.
        Play = "play",
        /// White, for analysis.
        White = "white_side_analysis",
        /// Black, for analysis.
        Black = "black_side_analysis",
        /// Neither side.
        Disable = "disable",
    }

    /// The backend that evaluates positions. `backend::registry` has a row with a description for each name except
    /// `auto`.
    BackendName {
        /// The fastest backend that runs the network on this machine.
        Auto = "auto",
        /// AMD GPU, in the fastest number format that is accurate enough.
        RocmAuto = "rocm-auto",
        /// AMD GPU, fp16.
        RocmFp16 = "rocm-fp16",
        /// AMD GPU, bf16.
        RocmBf16 = "rocm-bf16",
        /// AMD GPU, 8-bit integers.
        RocmInt8 = "rocm-int8",
        /// AMD GPU, 8-bit floating-point numbers.
        RocmFp8 = "rocm-fp8",
        /// AMD GPU, fp32.
        Rocm = "rocm",
        /// NVIDIA GPU, in the fastest number format that is accurate enough.
        CudaAuto = "cuda-auto",
        /// NVIDIA GPU, fp16.
        CudaFp16 = "cuda-fp16",
        /// NVIDIA GPU, bf16.
        CudaBf16 = "cuda-bf16",
        /// NVIDIA GPU, 8-bit integers.
        CudaInt8 = "cuda-int8",
        /// NVIDIA GPU, 8-bit floating-point numbers.
        CudaFp8 = "cuda-fp8",
        /// NVIDIA GPU, fp32.
        Cuda = "cuda",
        /// CPU, in the fastest number format that is accurate enough.
        CpuAuto = "cpu-auto",
        /// CPU, fp32.
        Cpu = "cpu",
        /// CPU, bf16.
        CpuBf16 = "cpu-bf16",
        /// CPU, 8-bit integers.
        CpuInt8 = "cpu-int8",
        /// Counts material.
        Trivial = "trivial",
        /// Hashes positions.
        Random = "random",
        /// Compares two backends.
        Check = "check",
        /// Writes evaluations to a file, or reads them from one.
        RecordReplay = "recordreplay",
        /// Gives batches to several backends in turn.
        RoundRobin = "roundrobin",
        /// Gives batches to whichever of several backends is free.
        Multiplexing = "multiplexing",
        /// Splits batches among several backends.
        Demux = "demux",
    }

    /// How a network's history planes are filled for positions before the first known position of the game.
    HistoryFill {
        /// They stay empty, except for the previous board if an en passant square implies it.
        No = "no",
        /// They repeat the oldest board, unless the game began at the standard start position.
        FenOnly = "fen_only",
        /// They always repeat the oldest board.
        Always = "always",
    }
}

impl ScoreType {
    /// This scale, or the default one if this one is not in centipawns. Files say centipawns or pawns.
    pub fn in_centipawns(self) -> ScoreType {
        match self {
            ScoreType::WinPercentage | ScoreType::Q | ScoreType::WinMinusLoss => ScoreType::WdlMu,
            scale => scale,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_of_centipawns_stay() {
        assert_eq!(ScoreType::Centipawn2018.in_centipawns(), ScoreType::Centipawn2018);
        assert_eq!(ScoreType::Q.in_centipawns(), ScoreType::WdlMu);
    }

    #[test]
    fn names_and_variants_agree() {
        for (&name, &choice) in ScoreType::NAMES.iter().zip(ScoreType::ALL) {
            assert_eq!(ScoreType::from_name(name), Some(choice));
            assert_eq!(choice.name(), name);
        }
        assert_eq!(HistoryFill::from_name("fen_only"), Some(HistoryFill::FenOnly));
        assert_eq!(HistoryFill::from_name("fen-only"), None);
    }
}
