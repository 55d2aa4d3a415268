//! lc0's names for what Rukh calls otherwise or does not have, so that command lines and configurations made for lc0
//! work here.
//!
//! The options that Rukh shares with lc0 have lc0's names and are rows of the table. The backends differ: lc0 has one
//! for each maker's programming interface, and each has options of its own.

use super::choices::BackendName;
use super::spec::{Field, Setting};
use std::fmt;

/// The value of the option `Backend`: a backend of Rukh, or one of lc0's that it stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackendChoice {
    name: BackendName,
    /// The name of lc0's backend, if the user gave one.
    lc0_name: Option<String>,
}

impl BackendChoice {
    /// The backend of Rukh.
    pub fn name(&self) -> BackendName {
        self.name
    }

    /// The name that the user gave, which may be one of lc0's backends.
    pub fn given(&self) -> &str {
        self.lc0_name.as_deref().unwrap_or(self.name.name())
    }
}

impl From<BackendName> for BackendChoice {
    fn from(name: BackendName) -> BackendChoice {
        BackendChoice { name, lc0_name: None }
    }
}

impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

impl Field for BackendChoice {
    fn setting(&self) -> Setting {
        Setting::Text(self.name.name().to_owned())
    }

    fn put(&mut self, setting: Setting) -> bool {
        let Setting::Text(word) = setting else {
            return false;
        };
        let choice = match BackendName::from_name(&word) {
            Some(name) => Some(BackendChoice::from(name)),
            None => backend_in_place_of(&word).map(|name| BackendChoice { name, lc0_name: Some(word) }),
        };
        choice.map(|choice| *self = choice).is_some()
    }
}

/// lc0's families of backends for cards of one maker, with ours in fp32, in fp16, and in a format of our choice.
const CARD_FAMILIES: [(&str, [BackendName; 3]); 2] = [
    ("cudnn", [BackendName::Cuda, BackendName::CudaFp16, BackendName::CudaAuto]),
    ("hip", [BackendName::Rocm, BackendName::RocmFp16, BackendName::RocmAuto]),
];

/// The beginnings of the names of lc0's backends for graphics cards. What may follow is `-` and a variant, such as
/// `fp16`.
const GPU_FAMILIES: [&str; 3] = ["cuda", "metal", "sycl"];

/// lc0's other backends for graphics cards.
const GPU_BACKENDS: [&str; 10] = [
    "opencl",
    "dx12",
    "xla",
    "tensorflow-cc",
    "onnx-cuda",
    "onnx-trt",
    "onnx-rocm",
    "onnx-migraphx",
    "onnx-dml",
    "onnx-coreml",
];

/// lc0's backends for the processor, and other names of the libraries that they use.
const CPU_BACKENDS: [&str; 8] =
    ["blas", "openblas", "eigen", "mkl", "onednn", "dnnl", "onnx-cpu", "tensorflow-cc-cpu"];

/// The names of the backends that lc0 can be built with and that have other names here, as choices for a chess program.
pub(super) const BACKENDS: [&str; 24] = [
    "cudnn-auto",
    "cudnn",
    "cudnn-fp16",
    "hip-auto",
    "hip",
    "hip-fp16",
    "metal",
    "sycl-auto",
    "sycl",
    "sycl-fp16",
    "opencl",
    "dx12",
    "xla",
    "onnx-cuda",
    "onnx-trt",
    "onnx-rocm",
    "onnx-migraphx",
    "onnx-dml",
    "onnx-coreml",
    "onnx-cpu",
    "blas",
    "eigen",
    "mkl",
    "onednn",
];

/// The backend that takes the place of lc0's backend `name`, in any case. `None` if lc0 has no such backend, or if it
/// has the same name here.
pub fn backend_in_place_of(name: &str) -> Option<BackendName> {
    let name = name.to_ascii_lowercase();
    let (family, format) =
        name.split_once('-').map_or((name.as_str(), ""), |(family, format)| (family, format));
    if CPU_BACKENDS.contains(&name.as_str()) {
        Some(BackendName::Cpu)
    } else if let Some((_, [fp32, fp16, auto])) = CARD_FAMILIES.into_iter().find(|(name, _)| *name == family)
    {
        Some(match format {
            "" => fp32,
            "fp16" => fp16,
            _ => auto,
        })
    } else if GPU_FAMILIES.contains(&family) || GPU_BACKENDS.contains(&name.as_str()) {
        Some(BackendName::Auto)
    } else {
        None
    }
}

/// The options of lc0's backends that keep their meaning when a backend of Rukh takes the place of one of them.
pub const KEPT_BACKEND_OPTIONS: &[&str] = &["gpu", "policy_head", "value_head"];

/// The options of lc0's backends, except those that select and combine backends.
const BACKEND_OPTIONS: &[&str] = &[
    "alt_layernorm",
    "alt_mish",
    "batch",
    "batch_size",
    "blas_cores",
    "cache_opt",
    "custom_winograd",
    "datatype",
    "device",
    "dump-graphdef",
    "dump-graphdef-txt",
    "enable-conv-metacommand",
    "enable-gemm-metacommand",
    "force_tune",
    "fp16",
    "fused_mha",
    "gpu",
    "graph_capture",
    "init",
    "input_mode",
    "io_datatype",
    "ir",
    "jit_cache",
    "max_batch",
    "min_batch",
    "mlh",
    "multi_stream",
    "nhwc",
    "no_shape",
    "opset",
    "optimize",
    "plugin_path",
    "policy_head",
    "res_block_fusing",
    "steps",
    "threads",
    "tune_batch_size",
    "tune_exhaustive",
    "tune_only",
    "tuner_file",
    "value_head",
    "winograd",
];

/// Whether some backend of lc0 has this option. Where it means nothing here, it is passed over.
pub fn is_backend_option(name: &str) -> bool {
    BACKEND_OPTIONS.contains(&name)
}

const MATCHES: &str = "only the mode `rukh selfplay` has it";

/// The options of lc0 that Rukh does not have: the long flag, the UCI name, and what to use instead.
const ABSENT_OPTIONS: &[(&str, &str, &str)] = &[
    ("slowmover", "Slowmover", "use the option TimeManager, as in `--time-manager=legacy(slowmover=1.2)`"),
    ("discarded-start-chance", "DiscardedStartChance", MATCHES),
    ("games", "Games", MATCHES),
    ("minimum-allowed-visits", "MinimumAllowedVisits", MATCHES),
    ("mirror-openings", "MirrorOpenings", MATCHES),
    ("move-thinking", "MoveThinking", "`rukh selfplay` prints games, not searches"),
    ("opening-stop-prob", "OpeningStopProb", MATCHES),
    ("openings-mode", "OpeningsMode", MATCHES),
    ("openings-pgn", "OpeningsPgnFile", MATCHES),
    ("parallelism", "Parallelism", MATCHES),
    ("playouts", "Playouts", "use `go nodes N` with the option NodesAsPlayouts"),
    ("policy-mode-size", "PolicyModeSize", MATCHES),
    ("resign-earliest-move", "ResignEarliestMove", MATCHES),
    ("resign-percentage", "ResignPercentage", MATCHES),
    ("resign-playthrough", "ResignPlaythrough", MATCHES),
    ("resign-wdlstyle", "ResignWDLStyle", MATCHES),
    ("reuse-tree", "ReuseTree", "the tree is always kept; the button ClearTree empties it"),
    ("share-trees", "ShareTrees", MATCHES),
    ("tournament-results-file", "TournamentResultsFile", MATCHES),
    ("training", "Training", MATCHES),
    ("value-mode-size", "ValueModeSize", MATCHES),
    ("verbose-thinking", "VerboseThinking", "use the option VerboseMoveStats"),
    ("visits", "Visits", "use `go nodes N`"),
];

/// What to use in place of lc0's flag `--name` (or `--no-name`), which Rukh does not have. `None` if it is not a flag
/// of lc0, or if Rukh has it too.
///
/// `name` may begin with a player of lc0's `selfplay`, as in `player1.weights`.
pub fn instead_of_flag(name: &str) -> Option<&'static str> {
    let mut name = name;
    let mut is_for_a_player = false;
    while let Some((player, rest)) = name.split_once('.')
        && ["player1", "player2", "white", "black"].contains(&player)
    {
        (name, is_for_a_player) = (rest, true);
    }
    let positive = name.strip_prefix("no-").unwrap_or(name);
    let absent = ABSENT_OPTIONS.iter().find(|(flag, ..)| *flag == positive).map(|(_, _, instead)| *instead);
    absent.or(is_for_a_player.then_some(MATCHES))
}

/// What to use in place of lc0's option with this UCI name, in any case, which Rukh does not have.
pub fn instead_of_option(uci_name: &str) -> Option<&'static str> {
    ABSENT_OPTIONS.iter().find(|(_, name, _)| name.eq_ignore_ascii_case(uci_name)).map(|row| row.2)
}

/// What to use in place of lc0's mode, which Rukh does not have.
pub fn instead_of_mode(name: &str) -> Option<&'static str> {
    match name {
        "policyhead" => Some(
            "start the engine without a mode, and use `go nodes 1`: it plays the move that the \
             network's policy prefers",
        ),
        "valuehead" => Some("start the engine without a mode, and use `go nodes N` with a small number N"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BackendName::{Auto, Cpu, Cuda, CudaAuto, CudaFp16, Rocm, RocmAuto, RocmFp16};

    /// Every backend that lc0 registers, some of which are newer or older than its version of 2026.
    #[test]
    fn every_backend_of_lc0_has_one_in_its_place() {
        let automatic = "opencl dx12 metal \
             sycl sycl-auto sycl-fp16 xla tensorflow-cc onnx-cuda onnx-trt onnx-rocm onnx-migraphx onnx-dml \
             onnx-coreml";
        let nvidia = [("cudnn", Cuda), ("cudnn-fp16", CudaFp16), ("cudnn-auto", CudaAuto)];
        let amd = [("hip", Rocm), ("hip-fp16", RocmFp16), ("hip-auto", RocmAuto), ("Hip-Auto", RocmAuto)];
        for (name, expected) in nvidia.into_iter().chain(amd) {
            assert_eq!(backend_in_place_of(name), Some(expected), "{name}");
        }
        let processor = "blas eigen onednn mkl dnnl onnx-cpu tensorflow-cc-cpu";
        for (names, expected) in [(automatic, Auto), (processor, Cpu)] {
            for name in names.split_whitespace() {
                assert_eq!(backend_in_place_of(name), Some(expected), "{name}");
            }
        }
        assert!(BACKENDS.iter().all(|name| backend_in_place_of(name).is_some()));
        for other in ["", "cudaa", "onnx", "onnx-", "rocm", "cpu", "-cuda", "nope"] {
            assert_eq!(backend_in_place_of(other), None, "{other}");
        }
        let same = "trivial random check recordreplay roundrobin multiplexing demux cuda cuda-auto cuda-fp16";
        assert!(same.split_whitespace().all(|name| BackendName::from_name(name).is_some()));
    }

    #[test]
    fn absent_options_say_what_to_use_instead() {
        assert!(instead_of_flag("no-reuse-tree").is_some_and(|text| text.contains("ClearTree")));
        assert!(instead_of_flag("player1.white.weights").is_some_and(|text| text.contains("rukh selfplay")));
        assert!(instead_of_flag("player1.visits").is_some_and(|text| text.contains("go nodes")));
        assert_eq!(instead_of_flag("weights"), None);
        assert!(instead_of_option("SLOWMOVER").is_some_and(|text| text.contains("TimeManager")));
    }
}
