//! The options whose value is one of a few words, as enums.

use std::fmt;

/// Makes an enum whose variants are an option's words: `NAMES` for the table, `name` and `from_name` between
/// the two.
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

            /// The option's word.
            pub fn name(self) -> &'static str {
                match self { $($choice::$variant => $name),+ }
            }

            /// The variant of a word, spelled exactly as in `NAMES`.
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
    /// What the number after `score cp` is. Formulas: [`crate::search::report::score`].
    ScoreType {
        /// Centipawns from win minus loss.
        Centipawn = "centipawn",
        /// Centipawns from q with the draw score in it.
        CentipawnWithDrawScore = "centipawn_with_drawscore",
        /// The scale of 2019.
        Centipawn2019 = "centipawn_2019",
        /// The scale of 2018.
        Centipawn2018 = "centipawn_2018",
        /// Hundredths of a per cent of the points to expect.
        WinPercentage = "win_percentage",
        /// Ten thousand q.
        Q = "Q",
        /// Ten thousand times win minus loss.
        WinMinusLoss = "W-L",
        /// Hundredths of the advantage that the win, draw and loss shares stand for.
        WdlMu = "WDL_mu",
    }

    /// What the value of an unvisited move is taken for.
    FpuStrategy {
        /// The parent's value less `FpuValue` times the root of the visited policy.
        Reduction = "reduction",
        /// `FpuValue` itself.
        Absolute = "absolute",
    }

    /// The same at the root.
    FpuStrategyAtRoot {
        /// As [`FpuStrategy::Reduction`], with `FpuValueAtRoot`.
        Reduction = "reduction",
        /// As [`FpuStrategy::Absolute`], with `FpuValueAtRoot`.
        Absolute = "absolute",
        /// As everywhere else in the tree.
        Same = "same",
    }

    /// Whose side contempt takes.
    ContemptMode {
        /// The side to move at the root.
        Play = "play",
        /// White.
        White = "white_side_analysis",
        /// Black.
        Black = "black_side_analysis",
        /// Nobody.
        Disable = "disable",
    }

    /// What evaluates positions. `backend::registry` has a row with a description for each name but `auto`.
    BackendName {
        /// The fastest backend that runs the network on this machine.
        Auto = "auto",
        /// AMD GPU, in the fastest number format that is accurate enough.
        RocmAuto = "rocm-auto",
        /// AMD GPU, fp16.
        RocmFp16 = "rocm-fp16",
        /// AMD GPU, bf16.
        RocmBf16 = "rocm-bf16",
        /// AMD GPU, fp32.
        Rocm = "rocm",
        /// CPU, fp32.
        Cpu = "cpu",
        /// CPU, bf16.
        CpuBf16 = "cpu-bf16",
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

    /// What stands in a network's history planes before the game's first known position.
    HistoryFill {
        /// Nothing (but for the one board that an en passant square proves).
        No = "no",
        /// The oldest board again, unless the game began at the usual start.
        FenOnly = "fen_only",
        /// The oldest board again, always.
        Always = "always",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
