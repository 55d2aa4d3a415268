//! What a job may ask of the engine on another machine.
//!
//! Whoever may write to the server chooses the flags of a job, and the engine of every worker is started with them. So
//! a flag that is not listed here is refused, by `submit` and, because a job may come from another program, by each
//! worker. The engine takes no abbreviations and no other spellings of a flag, so whole names are compared.
//!
//! No flag of a job holds a path. It may name a network, or folders of tablebases, that the owner of the worker has put
//! into the worker's own folders ([`Folders`]).

use crate::args::FolderArgs;
use crate::error::FleetError;
use rukh_backend::BackendError;
use rukh_backend::options_dict::{OptionsDict, ParsedOptions};
use rukh_net::discover::{EMBEDDED, OWN_NETWORK, discover_in, search_directories};
use rukh_options::lc0::backend_in_place_of;
use rukh_options::{AUTODISCOVER, BackendName, Kind, find_flag};
use std::fs;
use std::path::{Path, PathBuf};

/// The most flags of a job, and the most bytes of one.
const MOST_FLAGS: usize = 512;
const MOST_FLAG_BYTES: usize = 4096;

/// What the value of a flag may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    /// What the option table allows. No option that takes text is of this kind.
    OfTable,
    /// Nothing, or `true` or `false`.
    Switch,
    /// A number, a word, or several of them: letters, digits and a few signs, but nothing that separates folders.
    Plain,
    /// The name of a backend ([`BACKENDS`]).
    Backend,
    /// Options of backends ([`BACKEND_OPTIONS`]).
    BackendOptions,
    /// The name of a network in the worker's folders.
    Network,
    /// Names of folders in the worker's folder of tablebases, with `:` between them.
    Tablebases,
}

/// Flags that a job may have.
struct Allowed {
    value: Value,
    /// Without the dashes.
    flags: &'static [&'static str],
}

/// All flags that a job may have, in groups with the reason for each.
///
/// Left out are: files that the engine writes (`logfile`, `output`, `rejected`, `svg`, `pgn`, `training-dir`,
/// `training-tar`, `tournament-results-file`) and files that it reads (`config`, and `openings-pgn`, whose content comes
/// from the server); what the pieces have themselves (`games`, `shard`, `format`, `input-format`, `training`, `sprt`,
/// `protocol`, `json`, `overwrite`, `unordered`, `end-with-stdin`); and what only a game over UCI needs.
const ALLOWED: &[Allowed] = &[
    // When the search of a position ends, and what is said about it. Numbers and words, which the engine checks.
    Allowed {
        value: Value::Plain,
        flags: &["nodes", "movetime", "moves", "side", "variations", "line-plies", "glyphs"],
    },
    Allowed { value: Value::Switch, flags: &["policy"] },
    // How games are played: numbers and words, which the engine checks.
    Allowed {
        value: Value::Plain,
        flags: &[
            "visits",
            "playouts",
            "policy-mode-size",
            "value-mode-size",
            "openings-mode",
            "seed",
            "resign-playthrough",
            "resign-percentage",
            "resign-earliest-move",
            "minimum-allowed-visits",
            "opening-stop-prob",
            "discarded-start-chance",
            "training-input-format",
        ],
    },
    // The same, as switches.
    Allowed {
        value: Value::Switch,
        flags: &["mirror-openings", "share-trees", "reuse-tree", "resign-wdlstyle"],
    },
    // How many searches a worker runs at once. The worker's own flags come later and win.
    Allowed { value: Value::Plain, flags: &["parallelism"] },
    // The search: numbers, switches and words of the option table, which decide only how the tree grows.
    Allowed {
        value: Value::OfTable,
        flags: &[
            "search",
            "cpuct",
            "cpuct-at-root",
            "cpuct-base",
            "cpuct-base-at-root",
            "cpuct-factor",
            "cpuct-factor-at-root",
            "root-has-own-cpuct-params",
            "two-fold-draws",
            "graph-search",
            "use-uncertainty-weighting",
            "uncertainty-weighting-cap",
            "uncertainty-weighting-coefficient",
            "uncertainty-weighting-exponent",
            "use-cpuct-uncertainty",
            "cpuct-uncertainty-min-factor",
            "cpuct-uncertainty-max-factor",
            "cpuct-uncertainty-min-uncertainty",
            "cpuct-uncertainty-max-uncertainty",
            "use-variance-scaling",
            "cpuct-utility-stdev-prior",
            "cpuct-utility-stdev-prior-weight",
            "cpuct-utility-stdev-scale",
            "root-policy-temperature",
            "use-graph-backup",
            "value-weight-exponent",
            "lower-bound-deviation",
            "lower-bound-least-visits",
            "temperature",
            "tempdecay-moves",
            "tempdecay-delay-moves",
            "temp-cutoff-move",
            "temp-endgame",
            "temp-value-cutoff",
            "temp-visit-offset",
            "noise-epsilon",
            "noise-alpha",
            "fpu-strategy",
            "fpu-value",
            "fpu-strategy-at-root",
            "fpu-value-at-root",
            "cache-history-length",
            "move-rule-bucket-size",
            "max-collision-events",
            "max-collision-visits",
            "max-collision-visits-scaling-start",
            "max-collision-visits-scaling-end",
            "max-collision-visits-scaling-power",
            "out-of-order-eval",
            "max-out-of-order-evals-factor",
            "sticky-endgames",
            "syzygy-fast-play",
            "moves-left-max-effect",
            "moves-left-threshold",
            "moves-left-slope",
            "moves-left-constant-factor",
            "moves-left-scaled-factor",
            "moves-left-quadratic-factor",
            "draw-score",
            "contempt-mode",
            "contempt-max-value",
            "wdl-calibration-elo",
            "wdl-contempt-attenuation",
            "wdl-max-s",
            "wdl-eval-objectivity",
            "wdl-draw-rate-target",
            "wdl-draw-rate-reference",
            "wdl-book-exit-bias",
            "kldgain-average-interval",
            "minimum-kldgain-per-node",
            "smart-pruning-factor",
            "smart-pruning-minimum-batches",
            "nodes-as-playouts",
            "nps-limit",
            "max-prefetch",
            "prefetch-by-visits",
            "policy-softmax-temp",
            "policy-optimism",
            "history-fill",
        ],
    },
    // A list of names and numbers, which is compared with the name of the opponent.
    Allowed { value: Value::Plain, flags: &["contempt"] },
    // What the results say about a position.
    Allowed {
        value: Value::OfTable,
        flags: &[
            "multipv",
            "score-type",
            "chess960",
            "show-wdl",
            "show-eps",
            "show-movesleft",
            "per-pv-counters",
        ],
    },
    // Threads, batches and memory: numbers with an upper limit in the table. A search takes no more memory than its
    // nodes need, and the worker's own flags win, except over flags for one player.
    Allowed {
        value: Value::OfTable,
        flags: &["threads", "minibatch-size", "in-flight-share", "hash", "ramlimit-mb", "nncache"],
    },
    // These have no effect. They are allowed because settings that were made for lc0 have them.
    Allowed {
        value: Value::OfTable,
        flags: &[
            "max-concurrent-searchers",
            "task-workers",
            "minimum-processing-work",
            "minimum-picking-work",
            "minimum-remaining-picking-work",
            "minimum-per-task-processing",
            "idling-minimum-work",
            "thread-idling-threshold",
            "search-spin-backoff",
            "garbage-collection-delay",
            "solid-tree-threshold",
        ],
    },
    // What evaluates positions. The listed backends write files and start programs only through options that the list
    // of backend options does not have.
    Allowed { value: Value::Backend, flags: &["backend"] },
    Allowed { value: Value::BackendOptions, flags: &["backend-opts"] },
    // Files of the worker, by the names that its owner has given them.
    Allowed { value: Value::Network, flags: &["weights"] },
    Allowed { value: Value::Tablebases, flags: &["syzygy-paths"] },
];

/// The backends that a job may name. `recordreplay` is not one of them, because it writes and reads files. Each name of
/// a backend of lc0 stands for one of these.
const BACKENDS: &[BackendName] = &[
    BackendName::Auto,
    BackendName::RocmAuto,
    BackendName::RocmFp16,
    BackendName::RocmBf16,
    BackendName::RocmInt8,
    BackendName::RocmFp8,
    BackendName::Rocm,
    BackendName::CudaAuto,
    BackendName::CudaFp16,
    BackendName::CudaBf16,
    BackendName::CudaInt8,
    BackendName::CudaFp8,
    BackendName::Cuda,
    BackendName::CpuAuto,
    BackendName::Cpu,
    BackendName::CpuBf16,
    BackendName::CpuInt8,
    BackendName::Trivial,
    BackendName::Random,
    BackendName::Check,
    BackendName::RoundRobin,
    BackendName::Multiplexing,
    BackendName::Demux,
];

/// The options of backends that a job may have: numbers and words. `helper` starts a program, `record_file`,
/// `replay_file` and `tuning_file` name files, and `tune`, `helper_patience`, `timeout`, `warm_up` and `time_steps` are
/// about the machine, so the worker's own flags have them.
const BACKEND_OPTIONS: &[&str] = &[
    // The backend inside another one.
    "backend",
    // How the work is divided.
    "gpu",
    "streams",
    "threads",
    "workers",
    "batch",
    "batch_size",
    "max_batch",
    "step",
    "slots",
    // Which heads of the network are used, and in which way it is computed.
    "policy_head",
    "value_head",
    "isa",
    "gemm",
    "target",
    "weight_bits",
    "attention",
    "fuse",
    "graph",
    "fork",
    "few_rows",
    "wait",
    // The backends for tests.
    "seed",
    "uniform",
    "delay",
    "per_position",
    "times",
    "mode",
    "atol",
    "rtol",
    "freq",
];

/// The folders in which a job's flags may name files.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    /// Those of the networks. `true` means that any regular file counts, because the owner has named the folder;
    /// otherwise only what begins like a network.
    networks: (Vec<PathBuf>, bool),
    tablebases: Option<PathBuf>,
}

impl Folders {
    /// Those that the flags name. Without them, networks are looked for where `engine` looks for them by itself.
    pub(crate) fn new(arguments: &FolderArgs, engine: &Path) -> Folders {
        let networks = match &arguments.networks {
            Some(folder) => (vec![folder.clone()], true),
            None => {
                let beside = engine.parent().filter(|folder| !folder.as_os_str().is_empty());
                let beside =
                    beside.into_iter().flat_map(|folder| [folder.to_owned(), folder.join("networks")]);
                (search_directories().into_iter().chain(beside).collect(), false)
            }
        };
        Folders { networks, tablebases: arguments.tablebases.clone() }
    }

    /// The path of a network.
    fn network(&self, name: &str) -> Result<PathBuf, String> {
        let (folders, all_files) = &self.networks;
        let found = if *all_files {
            let mut paths = folders.iter().map(|folder| folder.join(name));
            paths.find(|path| fs::metadata(path).is_ok_and(|metadata| metadata.is_file()))
        } else {
            discover_in(folders).into_iter().find(|path| path.file_name().is_some_and(|found| found == name))
        };
        let found = found.ok_or_else(|| {
            let place = match folders.as_slice() {
                [folder] if *all_files => folder.display().to_string(),
                _ => "the folders where the engine looks for networks; --networks=FOLDER names another"
                    .to_owned(),
            };
            format!("there is no network of this name in {place}")
        })?;
        Ok(std::path::absolute(&found).unwrap_or(found))
    }

    /// The path of a folder of tablebases.
    fn tablebases(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.tablebases.as_ref().ok_or("there is no --tablebases=FOLDER here")?;
        let path = folder.join(name);
        match path.is_dir() {
            true => Ok(std::path::absolute(&path).unwrap_or(path)),
            false => Err(format!("there is no folder of this name in {}", folder.display())),
        }
    }
}

/// Checks the flags of a job, and puts the paths of the worker's files into the places of their names.
///
/// # Errors
/// A flag is not one that a job may have, or it names a file that is not in the worker's folders. The text names it.
pub(crate) fn engine_flags(flags: &[String], folders: &Folders) -> Result<Vec<String>, FleetError> {
    if flags.len() > MOST_FLAGS {
        return Err(FleetError::Refused(format!(
            "a job has at most {MOST_FLAGS} flags, not {}",
            flags.len()
        )));
    }
    flags.iter().map(|flag| engine_flag(flag, folders)).collect()
}

fn engine_flag(flag: &str, folders: &Folders) -> Result<String, FleetError> {
    let shown = || flag.chars().take(200).collect::<String>();
    let refused =
        |reason: &str| FleetError::Refused(format!("`{}` cannot be a flag of a job: {reason}", shown()));
    let not_here = |reason: String| FleetError::NotHere(format!("`{}`: {reason}", shown()));
    if flag.len() > MOST_FLAG_BYTES {
        return Err(refused("it is too long"));
    }
    let Some(text) = flag.strip_prefix("--").filter(|text| !text.is_empty()) else {
        return Err(refused("write each flag of the engine as --NAME or --NAME=VALUE"));
    };
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let player =
        ["player1.", "player2."].into_iter().find(|player| name.starts_with(player)).unwrap_or_default();
    let plain = &name[player.len()..];
    let kind_of =
        |name: &str| ALLOWED.iter().find(|group| group.flags.contains(&name)).map(|group| group.value);
    let is_switch = |name: &str, kind: Value| match kind {
        Value::OfTable => find_flag(name).is_some_and(|spec| spec.kind == Kind::Check),
        kind => kind == Value::Switch,
    };
    // `--no-NAME` turns a switch off.
    if let Some(switch) = plain.strip_prefix("no-")
        && kind_of(switch).is_some_and(|kind| is_switch(switch, kind))
    {
        return match value {
            None => Ok(flag.to_owned()),
            Some(_) => Err(refused("it has no value")),
        };
    }
    let Some(kind) = kind_of(plain) else {
        return Err(refused("it is not one of those that may be sent to another machine"));
    };
    if is_switch(plain, kind) {
        return match value {
            None | Some("true" | "false") => Ok(flag.to_owned()),
            Some(_) => Err(refused("the value is neither true nor false")),
        };
    }
    let value = value.ok_or_else(|| refused("write it as --NAME=VALUE"))?;
    let with = |value: String| format!("--{name}={value}");
    match kind {
        Value::Switch => Ok(flag.to_owned()),
        Value::OfTable => match find_flag(plain).filter(|spec| spec.kind != Kind::Text) {
            Some(spec) if is_plain(value) && spec.parse(value).is_some() => Ok(flag.to_owned()),
            Some(spec) => Err(refused(&format!("the value is not {}", spec.kind.expected()))),
            None => Err(refused("it is not an option with a number or a word")),
        },
        Value::Plain if is_plain(value) => Ok(flag.to_owned()),
        Value::Plain => Err(refused("its value is no number and no word")),
        Value::Backend if is_backend(value) => Ok(flag.to_owned()),
        Value::Backend => Err(refused("it is not one of the backends that a job may use")),
        Value::BackendOptions => {
            check_backend_options(value).map(|()| flag.to_owned()).map_err(|reason| refused(&reason))
        }
        Value::Network if [AUTODISCOVER, EMBEDDED, OWN_NETWORK].contains(&value) => Ok(flag.to_owned()),
        Value::Network => {
            checked_file_name(value).map_err(refused)?;
            Ok(with(folders.network(value).map_err(not_here)?.display().to_string()))
        }
        Value::Tablebases => {
            let path = |name: &str| -> Result<String, FleetError> {
                checked_file_name(name).map_err(refused)?;
                Ok(folders.tablebases(name).map_err(not_here)?.display().to_string())
            };
            let paths: Vec<String> = value.split(':').map(path).collect::<Result<_, FleetError>>()?;
            let separator = if cfg!(windows) { ";" } else { ":" };
            Ok(with(paths.join(separator)))
        }
    }
}

/// Whether a text has only letters, digits and signs that stand in numbers and lists.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.,_=".contains(c)) && !text.contains("..")
}

/// Checks that a text is a name within a folder, on every system.
///
/// # Errors
/// It could be a path, a file that is hidden, or a device of Windows.
fn checked_file_name(name: &str) -> Result<(), &'static str> {
    let is_allowed = |c: char| c.is_alphanumeric() || "._-+@()".contains(c);
    if !(1..=200).contains(&name.len()) || !name.chars().all(is_allowed) {
        return Err("a job names files without their folders, by letters, digits and a few signs");
    }
    if name.starts_with(['.', '-']) || name.ends_with('.') {
        return Err("a job names no file that begins with a dot or a dash, or ends with a dot");
    }
    // Windows has them in every folder, with any ending.
    let stem = name.split('.').next().unwrap_or_default().to_uppercase();
    let numbered = ["COM", "LPT"].into_iter().find_map(|device| stem.strip_prefix(device));
    let is_numbered =
        numbered.is_some_and(|rest| rest.chars().count() == 1 && rest.chars().all(char::is_numeric));
    match is_numbered || ["CON", "PRN", "AUX", "NUL"].contains(&stem.as_str()) {
        true => Err("it is the name of a device"),
        false => Ok(()),
    }
}

fn is_backend(name: &str) -> bool {
    match BackendName::from_name(name) {
        Some(name) => BACKENDS.contains(&name),
        None => backend_in_place_of(name).is_some_and(|name| BACKENDS.contains(&name)),
    }
}

/// Checks options of backends, with those of the backends inside them.
///
/// # Errors
/// An option is not one that a job may have; the text names it.
fn check_backend_options(text: &str) -> Result<(), String> {
    let parsed = ParsedOptions::parse(text).map_err(|error| error.to_string())?;
    check_backend(parsed.root())?;
    match parsed.check_all_used("job", &[], |key| BACKEND_OPTIONS.contains(&key)) {
        Ok(_) => Ok(()),
        Err(BackendError::Option { option, .. }) => {
            Err(format!("its option `{option}` is not one of those that may be sent to another machine"))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Checks a backend's own options, and those of the backends inside it.
fn check_backend(options: OptionsDict<'_>) -> Result<(), String> {
    if let Some(name) = options.text("backend").filter(|name| !is_backend(name)) {
        return Err(format!("its option `backend={name}` is not one of the backends that a job may use"));
    }
    for key in BACKEND_OPTIONS {
        if let Some(value) = options.text(key).filter(|value| !is_plain(value)) {
            return Err(format!("its option `{key}={value}` is no number and no word"));
        }
    }
    for child in options.children() {
        let name = child.name();
        // A word alone is an option that is switched on, or a backend.
        if !name.is_empty() && !is_backend(name) && !BACKEND_OPTIONS.contains(&name) {
            return Err(format!("its backend `{name}` is not one of those that a job may use"));
        }
        check_backend(child)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_options::TABLE;
    use std::collections::BTreeSet;

    fn folders() -> (tempfile::TempDir, Folders) {
        let root = tempfile::tempdir().unwrap();
        let (networks, tablebases) = (root.path().join("networks"), root.path().join("tables"));
        for folder in [&networks, &tablebases.join("3-4-5"), &tablebases.join("6")] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(networks.join("new.pb.gz"), "a network").unwrap();
        fs::write(networks.join(".hidden"), "a secret").unwrap();
        fs::write(root.path().join("secret"), "a secret").unwrap();
        let arguments = FolderArgs { networks: Some(networks), tablebases: Some(tablebases) };
        let folders = Folders::new(&arguments, Path::new("rukh"));
        (root, folders)
    }

    #[track_caller]
    fn refused(flag: &str) -> String {
        let (_root, folders) = folders();
        match engine_flags(&[flag.to_owned()], &folders) {
            Ok(taken) => panic!("{flag:?} is taken as {taken:?}"),
            Err(error) => error.to_string(),
        }
    }

    /// An option that is new has to be put on one side or the other.
    #[test]
    fn each_option_of_a_backend_is_allowed_or_left_out_on_purpose() {
        let left_out = [
            "helper",
            "helper_patience",
            "record_file",
            // It names a folder of libraries.
            "libraries",
            "longest_batch",
            "replay_file",
            "time_steps",
            "timeout",
            "tune",
            "tuning_file",
            "warm_up",
        ];
        let known: BTreeSet<&str> = rukh_registry::BACKENDS
            .iter()
            .flat_map(|kind| kind.options.concat())
            // The name of the backend inside another one.
            .chain(["backend"])
            .collect();
        let decided: BTreeSet<&str> = BACKEND_OPTIONS.iter().copied().chain(left_out).collect();
        assert_eq!(decided, known);
        assert_eq!(decided.len(), BACKEND_OPTIONS.len() + left_out.len(), "an option is on both sides");
    }

    #[test]
    fn flags_that_write_or_read_files_are_refused_and_named() {
        let flags = [
            "--logfile=/etc/passwd",
            "--LogFile=x",
            "--log=x",
            "--logfil=x",
            "-lx",
            "-l=x",
            "--config=/etc/passwd",
            "--config=",
            "--pgn=x",
            "--output=x",
            "--svg=x",
            "--rejected=x",
            "--overwrite",
            "--training-dir=/home",
            "--training-tar=5",
            "--openings-pgn=x",
            "--tournament-results-file=x",
            "--player1.logfile=x",
            "--player1.player2.logfile=x",
            "--player1.--logfile=x",
            "--white.nodes=1",
            "--no-logfile",
            "--preload",
            "file.pgn",
            "-x",
            "--",
            "",
            "--=x",
            "--show-hidden",
            "--help",
            "--protocol=json",
            "--end-with-stdin",
            "--shard=1/2",
            "--nodes",
            "--nodes=/etc/passwd",
            "--nodes=\u{1b}[2J",
            "--nodes=1\0",
            "--glyphs=../x",
            "--contempt=a/b",
            "--hash=99999999999",
            "--cpuct=nan",
            "--mirror-openings=/x",
            "--no-mirror-openings=x",
            "--threads=-1",
        ];
        for flag in flags {
            let error = refused(flag);
            assert!(error.contains(flag), "{flag:?}: {error}");
        }
        assert!(refused(&format!("--nodes={}", "1".repeat(5000))).contains("too long"));
        let (_root, folders) = folders();
        assert!(engine_flags(&vec!["--nodes=1".to_owned(); 1000], &folders).is_err());
    }

    #[test]
    fn a_job_names_only_networks_and_tablebases_in_the_workers_folders() {
        let names = [
            "/etc/shadow",
            "../secret",
            "..",
            ".",
            "",
            ".hidden",
            "networks/new.pb.gz",
            "..\\secret",
            "C:new.pb.gz",
            "new.pb.gz:stream",
            "new.pb.gz\0",
            "NUL",
            "nul.pb.gz",
            "com1",
            "LPT¹.pb.gz",
            "aux.pb",
            "missing.pb.gz",
            "new.pb.gz.",
            "-new",
            "<appended>",
            "a\u{202e}b",
            &"a".repeat(5000),
        ];
        for name in names {
            for flag in ["weights", "player2.weights", "syzygy-paths"] {
                refused(&format!("--{flag}={name}"));
            }
        }
        refused("--syzygy-paths=6:..");
        let (root, folders) = folders();
        let taken = |flag: &str| engine_flags(&[flag.to_owned()], &folders).unwrap().remove(0);
        let network = root.path().join("networks/new.pb.gz");
        assert_eq!(taken("--weights=new.pb.gz"), format!("--weights={}", network.display()));
        assert_eq!(taken("--player2.weights=new.pb.gz"), format!("--player2.weights={}", network.display()));
        assert_eq!(taken("--weights=<embedded>"), "--weights=<embedded>");
        let tables = root.path().join("tables");
        let separator = if cfg!(windows) { ";" } else { ":" };
        let expected = format!(
            "--syzygy-paths={}{separator}{}",
            tables.join("3-4-5").display(),
            tables.join("6").display()
        );
        assert_eq!(taken("--syzygy-paths=3-4-5:6"), expected);
        let none = Folders::new(&FolderArgs { networks: None, tablebases: None }, Path::new("rukh"));
        assert!(engine_flags(&["--syzygy-paths=6".to_owned()], &none).is_err());
    }

    /// A file that does not begin like a network is not shown to anyone in an error.
    #[test]
    fn without_a_folder_only_networks_that_the_engine_finds_may_be_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut network = vec![0x0d, 0xc0, 0x01, 0, 0, 0, 0, 0];
        network.resize(100_000, 0);
        fs::write(folder.path().join("net.pb"), network).unwrap();
        fs::write(folder.path().join("secret"), vec![b'x'; 100_000]).unwrap();
        let arguments = FolderArgs { networks: None, tablebases: None };
        let folders = Folders::new(&arguments, &folder.path().join("rukh"));
        assert!(engine_flags(&["--weights=net.pb".to_owned()], &folders).is_ok());
        assert!(engine_flags(&["--weights=secret".to_owned()], &folders).is_err());
    }

    #[test]
    fn backends_that_write_files_or_start_programs_are_refused_at_every_depth() {
        let texts = [
            "record_file=/tmp/x",
            "helper=/tmp/program",
            "tuning_file=/tmp/x",
            "libraries=/tmp/x",
            "replay_file=x",
            "tune=full",
            "backend=recordreplay",
            "recordreplay",
            "recordreplay(record_file=x)",
            "a(backend=cpu)",
            "(backend=recordreplay,record_file=x)",
            "cpu,(cpu,(backend=recordreplay))",
            "cpu(cpu(cpu(helper=x)))",
            "gpu=/dev/x",
            "threads='/tmp/x'",
            "Backend=RecordReplay",
            "backend=RECORDREPLAY",
            "threads=2,,,helper=x",
            "((((((((((",
            "warm_up(record_file=x)",
            "threads(helper=x)",
        ];
        for text in texts {
            refused(&format!("--backend-opts={text}"));
            refused(&format!("--player1.backend-opts={text}"));
        }
        assert!(refused("--backend-opts=threads=1,helper=/bin/sh").contains("helper=/bin/sh"));
        assert!(refused("--backend=recordreplay").contains("recordreplay"));
        refused("--backend=RecordReplay");
        let (_root, folders) = folders();
        let allowed = [
            "--backend=trivial",
            "--backend=cudnn-fp16",
            "--backend-opts=backend=cpu,(gpu=0),(gpu=1)",
            "--backend-opts=cpu-bf16,cpu,mode=histo",
            "--backend-opts=seed=5,uniform",
            "--backend-opts=",
            "--player1.backend-opts=threads=2",
            "--nodes=100",
            "--player2.visits=5",
            "--moves=2-",
            "--glyphs=5,10,15",
            "--contempt=Stockfish=50,20",
            "--no-two-fold-draws",
            "--two-fold-draws",
            "--two-fold-draws=false",
            "--mirror-openings",
            "--playouts=-1",
            "--noise-epsilon=0.25",
            "--nncache=0",
        ];
        let allowed = allowed.map(str::to_owned);
        assert_eq!(engine_flags(&allowed, &folders).unwrap(), allowed);
    }

    /// A new option is put on the list, or here, by someone who has thought about it.
    #[test]
    fn every_option_of_the_engine_is_on_the_list_or_left_out_on_purpose() {
        const LEFT_OUT: [&str; 11] = [
            // They write or read a file.
            "logfile",
            "config",
            // They are for games over UCI.
            "strict-uci-timing",
            "preload",
            "move-overhead",
            "time-manager",
            "limit-strength",
            "elo",
            "nodes-per-move",
            // They write reports, which nobody reads here.
            "verbose-move-stats",
            "log-live-stats",
        ];
        let listed = |name: &str| ALLOWED.iter().filter(|group| group.flags.contains(&name)).count();
        for spec in TABLE.iter().filter(|spec| spec.has_flag) {
            let name = spec.field.replace('_', "-");
            let name = spec.flag().map_or(name, |flag| flag.to_string());
            let times = listed(&name) + usize::from(LEFT_OUT.contains(&name.as_str()));
            assert_eq!(times, 1, "{name}");
        }
        for group in ALLOWED.iter().filter(|group| group.value == Value::OfTable) {
            for name in group.flags {
                assert!(find_flag(name).is_some_and(|spec| spec.kind != Kind::Text), "{name}");
            }
        }
    }
}
