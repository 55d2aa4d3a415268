//! The modes and their own flags, and the options that the command line and the configuration file set.

use super::analyze_args::AnalyzeArgs;
use super::check_args::CheckArgs;
use super::defaults::{default_options, for_training};
use super::onnx2leela_args::Onnx2leelaArgs;
use super::profile_args::ProfileArgs;
use super::selfplay_args::{SelfplayArgs, take_player_flags};
use super::{bench, config_file, flags};
use clap::ArgAction::Set;
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use rukh_chess::perft;
use rukh_gpu as gpu;
use rukh_net::onnx::write as onnx;
use rukh_net::onnx::write::error::{IR_VERSIONS, OPSETS};
use rukh_options::{BACKEND_SECTION, Options, SearchName, Spec, lc0};
use std::ffi::OsString;
use std::path::PathBuf;

/// The command line and the configuration file, parsed.
#[derive(Debug)]
pub(super) struct Invocation {
    /// The mode, with its flags.
    pub mode: Mode,
    /// The engine's options: the defaults, changed by the configuration file and then by the flags.
    pub options: Options,
    /// Whether to list the options for specialists.
    pub show_hidden: bool,
    /// What was wrong with the configuration file, or with flags that are passed over. The engine starts all the same:
    /// if it exited, a chess program would only see that it has ended.
    pub errors: Vec<String>,
    /// Other messages about the configuration file.
    pub notes: Vec<String>,
}

/// A UCI chess engine for Leela Chess Zero networks.
///
/// Without a mode it speaks UCI on stdin and stdout, as chess programs expect. Options can be set by flags, in
/// the configuration file, and over UCI. A switch is turned on by `--name`, and off by `--no-name` or
/// `--name=false`.
#[derive(Parser, Debug)]
#[command(name = "rukh", version = crate::VERSION, args_override_self = true, styles = flags::STYLES)]
struct Cli {
    #[command(subcommand)]
    mode: Option<Mode>,

    /// Also lists the options for specialists, in `--help` and after `uci`
    #[arg(long)]
    show_hidden: bool,
}

/// A mode, with its own flags.
#[derive(Subcommand, Debug)]
pub(super) enum Mode {
    /// Speaks UCI on stdin and stdout (the default)
    #[command(aliases = ["classic", "dag-preview"])]
    Uci,
    /// Searches 10 positions for half a second each and reports nodes per second. Without flags of its own, it adds a
    /// line for OpenBench, with a number of nodes that identifies the search
    Bench(BenchArgs),
    /// Searches 34 positions for ten seconds each and reports nodes per second
    Benchmark(BenchArgs),
    /// Plays a tournament between two configurations of the engine, many games at once
    Selfplay(Box<SelfplayArgs>),
    /// Annotates games and positions of files, many at once
    Analyze(Box<AnalyzeArgs>),
    /// Measures the speed of the backend alone for each batch size
    Backendbench(BackendbenchArgs),
    /// Measures each operation of an evaluation, and says what limits it
    Profile(Box<ProfileArgs>),
    /// Compares the evaluations of a backend with those of another, on thousands of positions
    Check(Box<CheckArgs>),
    /// Describes a network file
    Describenet(DescribenetArgs),
    /// Converts a network file to an ONNX file
    #[command(name = "leela2onnx")]
    Leela2onnx(Box<Leela2onnxArgs>),
    /// Makes a network file of an ONNX model
    #[command(name = "onnx2leela")]
    Onnx2leela(Box<Onnx2leelaArgs>),
    /// Counts the legal move sequences of a given length
    Perft(PerftArgs),
    /// Examines a graphics card and writes a report for an issue
    Doctor(DoctorArgs),
    /// Measures a graphics card's fastest way to evaluate a network, and keeps it for the next start
    Tune(TuneArgs),
    /// Prints the manual page, for packages
    #[command(hide = true)]
    Man,
    /// Prints a shell's completions, for packages
    #[command(hide = true)]
    Completions(CompletionsArgs),
    /// Asks the card's libraries for GEMMs as a helper process, so that a crash of a library does not end the engine
    #[command(name = gpu::HELPER_ARGUMENT, hide = true)]
    RocmGemms,
    /// Runs a stage of `doctor`, which may end this process
    #[command(name = gpu::doctor::STAGE_ARGUMENT, hide = true)]
    RocmDoctor,
}

/// Flags of `bench` and `benchmark`.
#[derive(Args, Debug, Default, Clone)]
pub(super) struct BenchArgs {
    /// Nodes to search in each position; -1 means no limit
    #[arg(long, allow_negative_numbers = true, value_parser = limit())]
    pub nodes: Option<i64>,
    /// Milliseconds for each position; -1 means no limit
    #[arg(long, allow_negative_numbers = true, value_parser = limit())]
    pub movetime: Option<i64>,
    /// Searches only this position (a FEN, optionally followed by `moves …`)
    #[arg(long, default_value = "", hide_default_value = true)]
    pub fen: String,
    /// Number of positions to search
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=34))]
    pub num_positions: Option<u32>,
    /// Prints only a hash of the search results, with the `trivial` backend, one thread and, unless `--nodes` is given,
    /// 10000 nodes for each position
    #[arg(long)]
    pub signature: bool,
    /// Prints the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Also draws the result as a picture, in this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// A parser of a limit in nodes or milliseconds. -1 means no limit.
fn limit() -> clap::builder::RangedI64ValueParser {
    clap::value_parser!(i64).range(-1..=999_999_999)
}

impl BenchArgs {
    /// The flags, completed by the mode's defaults.
    pub(super) fn resolve(&self, defaults: bench::Defaults) -> bench::Plan {
        // If only a limit on nodes is given, the mode's default time limit does not apply.
        let movetime = match (self.movetime, self.nodes) {
            (None, Some(_)) => -1,
            (movetime, _) => movetime.unwrap_or(defaults.movetime_ms),
        };
        bench::Plan {
            nodes: u64::try_from(self.nodes.unwrap_or(-1)).ok(),
            movetime_ms: u64::try_from(movetime).ok(),
            fen: (!self.fen.is_empty()).then(|| self.fen.clone()),
            positions: self.num_positions.unwrap_or(defaults.positions) as usize,
            signature: self.signature,
            json: self.json,
            for_openbench: defaults.for_openbench && !self.has_any(),
            svg: self.svg.clone(),
        }
    }

    /// Whether any of these flags is given.
    fn has_any(&self) -> bool {
        let BenchArgs { nodes, movetime, fen, num_positions, signature, json, svg: _ } = self;
        nodes.is_some()
            || movetime.is_some()
            || !fen.is_empty()
            || num_positions.is_some()
            || *signature
            || *json
    }
}

/// Flags of `backendbench`.
#[derive(Args, Debug, Clone)]
pub(super) struct BackendbenchArgs {
    /// Number of batches to evaluate for each size
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=999_999_999))]
    pub batches: u32,
    /// Smallest batch size, normally 1. On a processor, without this flag and the next two, only powers of two are
    /// measured, and for no longer than two minutes
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub start_batch_size: Option<u32>,
    /// Largest batch size, normally 256
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub max_batch_size: Option<u32>,
    /// Difference between consecutive batch sizes, normally 1
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub batch_step: Option<u32>,
    /// Prints the header only once instead of every 32 lines
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = Set,
          default_value_t = false, hide_default_value = true, value_name = "true|false",
          overrides_with = "no_header_only_once")]
    pub header_only_once: bool,
    #[arg(long, hide = true, overrides_with = "header_only_once")]
    no_header_only_once: bool,
    /// Position to evaluate, as a FEN
    #[arg(long, default_value = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1")]
    pub fen: String,
    /// Recommends minibatch sizes
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = Set,
          default_value_t = false, hide_default_value = true, value_name = "true|false",
          overrides_with = "no_clippy")]
    pub clippy: bool,
    #[arg(long, hide = true, overrides_with = "clippy")]
    no_clippy: bool,
    /// Prints the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Also draws the result as a picture, in this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Flags of `describenet`.
#[derive(Args, Debug, Clone)]
pub(super) struct DescribenetArgs {
    /// Prints the description as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `leela2onnx`.
#[derive(Args, Debug, Clone)]
pub(super) struct Leela2onnxArgs {
    /// Network file to read, or `<embedded>`
    #[arg(short, long, value_name = "FILE")]
    pub input: String,
    /// ONNX file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Type of the weights, the input and the outputs
    #[arg(long, value_enum, default_value = "f32")]
    onnx_data_type: OnnxDataType,
    /// Positions in a batch; -1 leaves the number open
    #[arg(long, default_value_t = -1, allow_negative_numbers = true, value_name = "N",
          value_parser = clap::value_parser!(i64).range(-1..=2048))]
    onnx_batch_size: i64,
    /// Version of ONNX's operators
    #[arg(long, default_value_t = 17, value_name = "N",
          value_parser = clap::value_parser!(i64).range(OPSETS))]
    onnx_opset: i64,
    /// Version of the ONNX file format; -1 means the oldest that knows the opset
    #[arg(long, default_value_t = -1, allow_negative_numbers = true, value_name = "N",
          value_parser = clap::value_parser!(i64).range(-1..=*IR_VERSIONS.end()))]
    onnx_ir: i64,
    /// Writes LayerNorms as elementary operators, which onnx2pytorch needs
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = Set,
          default_value_t = false, hide_default_value = true, value_name = "true|false",
          overrides_with = "no_onnx2pytorch")]
    onnx2pytorch: bool,
    #[arg(long = "no-onnx2pytorch", hide = true, overrides_with = "onnx2pytorch")]
    no_onnx2pytorch: bool,
    /// Policy head of a network with several: vanilla, optimistic, soft or opponent
    #[arg(long, default_value = "vanilla", value_name = "HEAD")]
    pub policy_head: String,
    /// Value head of a network with several: winner, q or st
    #[arg(long, default_value = "winner", value_name = "HEAD")]
    pub value_head: String,
    /// Name of the input
    #[arg(long, default_value = "/input/planes", value_name = "NAME")]
    input_planes_name: String,
    /// Name of the policy output
    #[arg(long, default_value = "/output/policy", value_name = "NAME")]
    policy_head_name: String,
    /// Name of the output with win, draw and loss
    #[arg(long, default_value = "/output/wdl", value_name = "NAME")]
    wdl_head_name: String,
    /// Name of the value output of a network without WDL
    #[arg(long, default_value = "/output/value", value_name = "NAME")]
    value_head_name: String,
    /// Name of the moves-left output
    #[arg(long, default_value = "/output/mlh", value_name = "NAME")]
    mlh_head_name: String,
    /// Prints the result as JSON
    #[arg(long)]
    pub json: bool,
    // lc0's flags for another format, which a script may pass.
    #[arg(long, hide = true, value_parser = no_hlo)]
    hlo_text_output: Option<String>,
    #[arg(long, hide = true, value_parser = no_hlo)]
    hlo_proto_output: Option<String>,
    #[arg(long, hide = true, value_parser = no_hlo)]
    hlo_batch_size: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true", value_parser = no_hlo)]
    hlo_allow_partial_result: Option<String>,
}

/// lc0's names for the types of an ONNX graph.
#[derive(clap::ValueEnum, Debug, Clone, Copy)]
enum OnnxDataType {
    F32,
    F16,
    Bf16,
}

/// Refuses the value of a flag for HLO files.
fn no_hlo(_: &str) -> Result<String, String> {
    Err("Rukh writes ONNX files only, not HLO for XLA; lc0 converts to HLO".to_owned())
}

impl Leela2onnxArgs {
    /// What the flags say about the graph.
    pub(super) fn settings(&self) -> onnx::Settings {
        onnx::Settings {
            data_type: match self.onnx_data_type {
                OnnxDataType::F32 => onnx::DataType::F32,
                OnnxDataType::F16 => onnx::DataType::F16,
                OnnxDataType::Bf16 => onnx::DataType::Bf16,
            },
            opset: self.onnx_opset,
            ir_version: (self.onnx_ir != -1).then_some(self.onnx_ir),
            batch_size: usize::try_from(self.onnx_batch_size).ok(),
            elementary_layer_norms: self.onnx2pytorch,
            names: onnx::Names {
                planes: self.input_planes_name.clone(),
                policy: self.policy_head_name.clone(),
                wdl: self.wdl_head_name.clone(),
                value: self.value_head_name.clone(),
                moves_left: self.mlh_head_name.clone(),
            },
        }
    }
}

/// Flags of `perft`.
#[derive(Args, Debug, Clone)]
pub(super) struct PerftArgs {
    /// Length of the move sequences, in plies
    #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(perft::MOST_PLIES)))]
    pub depth: u32,
    /// Start position, as a FEN
    #[arg(long, default_value = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1")]
    pub fen: String,
    /// Writes castling as king takes rook
    #[arg(long)]
    pub chess960: bool,
    /// Prints the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `doctor`.
#[derive(Args, Debug, Clone)]
pub(super) struct DoctorArgs {
    /// Takes fewer shapes, batch sizes and repetitions
    #[arg(long)]
    pub quick: bool,
    /// Runs only this stage; can be given several times
    #[arg(long = "stage", value_name = "NAME", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(gpu::doctor::Stage::ALL.map(gpu::doctor::Stage::name)))]
    pub stages: Vec<String>,
    /// Path of the report, to which `.txt` and `.json` are added
    #[arg(long, value_name = "FILE", default_value = "rukh-doctor")]
    pub report: PathBuf,
    /// Seconds after which a stage is ended; by default 30 to 60, depending on the stage
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub time_limit: Option<u64>,
    /// Prints the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `tune`.
#[derive(Args, Debug, Clone)]
pub(super) struct TuneArgs {
    /// Seconds after which no other GEMM is measured. What was measured is kept, and the next run goes on from there
    #[arg(long, value_name = "SECONDS", default_value_t = 240, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Prints the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `completions`.
#[derive(Args, Debug, Clone)]
pub(super) struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// Makes a clap error of an error that clap's own checks did not find.
fn wrong_value(error: impl std::fmt::Display) -> clap::Error {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{error}\n"))
}

/// Whether a mode accepts the flag of an option.
fn has_option(mode: &str, spec: &Spec) -> bool {
    match mode {
        "backendbench" => matches!(spec.field, "threads" | "config") || spec.section == BACKEND_SECTION,
        "profile" => spec.field == "config" || spec.section == BACKEND_SECTION,
        "doctor" | "tune" => matches!(spec.field, "weights" | "backend" | "backend_opts" | "config"),
        "describenet" => matches!(spec.field, "weights" | "config"),
        "perft" | "leela2onnx" | "onnx2leela" | "man" | "completions" => false,
        "selfplay" | "analyze" => flags::counts_in_games(spec),
        gpu::HELPER_ARGUMENT | gpu::doctor::STAGE_ARGUMENT => false,
        _ => true,
    }
}

/// Removes the flags of lc0 that Rukh does not have, except those that `is_kept` names. lc0 writes them as one argument,
/// `--name` or `--name=value`. Returns a message for each.
fn take_absent_flags(arguments: &mut Vec<OsString>, is_kept: impl Fn(&str) -> bool) -> Vec<String> {
    let mut messages = Vec::new();
    arguments.retain(|argument| {
        let flag = argument.to_str().and_then(|text| text.strip_prefix("--"));
        let name = flag.map(|flag| flag.split_once('=').map_or(flag, |(name, _)| name));
        let name = name.filter(|name| !is_kept(name));
        let Some((name, instead)) = name.and_then(|name| Some((name, lc0::instead_of_flag(name)?))) else {
            return true;
        };
        messages.push(format!(
            "--{name} is a flag of lc0 that Rukh does not have, and is passed over: {instead}"
        ));
        false
    });
    messages
}

/// Whether a mode does its work without the engine's options, so that no configuration file is read.
fn needs_no_options(mode: &Mode) -> bool {
    matches!(mode, Mode::RocmGemms | Mode::RocmDoctor | Mode::Man | Mode::Completions(_))
}

/// Reads the command line and the configuration file. The first of `arguments` is the program's name.
///
/// # Errors
/// Wrong arguments, a request for help, or a configuration file that cannot be read. If the mode is UCI and the user
/// did not name the file, this is not returned but stored in [`Invocation::errors`], where the file's wrong lines are
/// too.
pub(super) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let mode = arguments.get(1).and_then(|argument| argument.to_str());
    if let Some((mode, instead)) = mode.and_then(|mode| Some((mode, lc0::instead_of_mode(mode)?))) {
        let text = format!("{mode} is a mode of lc0 that Rukh does not have: {instead}\n");
        return Err(clap::Error::raw(ErrorKind::InvalidSubcommand, text));
    }
    // lc0's mode `classic` asks for its classic search.
    let asks_for_classic = mode == Some("classic");
    let player_flags = take_player_flags(&mut arguments)?;
    // The help is built before the arguments are parsed, so this flag has to be known first.
    let show_hidden = arguments.iter().any(|argument| argument == "--show-hidden");
    let mut command = command(show_hidden);
    // These modes have flags of lc0's that are absent elsewhere.
    let is_mode = |mode: &&str| arguments.iter().skip(1).any(|argument| argument == mode);
    let tool = ["selfplay", "analyze"].into_iter().find(is_mode);
    let tool = tool.and_then(|mode| command.find_subcommand(mode));
    let mut errors = take_absent_flags(&mut arguments, |name| {
        let mut flags = tool.into_iter().flat_map(clap::Command::get_arguments);
        flags.any(|flag| flag.get_long() == Some(name))
    });
    let matches = command.try_get_matches_from_mut(arguments)?;
    let cli = Cli::from_arg_matches(&matches)?;
    let (mode_name, mode_matches) = match matches.subcommand() {
        Some((name, mode_matches)) => (Some(name), mode_matches),
        None => (None, &matches),
    };

    // Flags are applied twice: first to find the name of the configuration file, and then over the file's values.
    let apply_flags = |options: &mut Options| {
        flags::apply(&matches, options)?;
        flags::apply(mode_matches, options)
    };
    let makes_training_data = matches!(&cli.mode, Some(Mode::Selfplay(selfplay)) if selfplay.training);
    let defaults = || {
        let mut options = default_options(mode_name);
        if makes_training_data {
            options = for_training(options);
        }
        if asks_for_classic {
            options.search = SearchName::Classic;
        }
        options
    };
    let mut options = defaults();
    apply_flags(&mut options).map_err(wrong_value)?;
    let is_named = [&matches, mode_matches].iter().any(|m| m.try_contains_id("config").unwrap_or(false));
    // The signature must not depend on the user's configuration.
    let is_signature =
        matches!(&cli.mode, Some(Mode::Bench(bench) | Mode::Benchmark(bench)) if bench.signature);
    let file = match (is_named, is_signature) {
        (true, _) => Some(PathBuf::from(&options.config)),
        (false, true) => None,
        (false, false) if cli.mode.as_ref().is_some_and(needs_no_options) => None,
        (false, false) => config_file::find(),
    };
    let mut mode = cli.mode.unwrap_or(Mode::Uci);
    let (mut notes, mut show_hidden) = (Vec::new(), cli.show_hidden);
    // An empty name turns the configuration file off.
    if let Some(path) = file.filter(|path| !path.as_os_str().is_empty()) {
        options = defaults();
        match config_file::read(&path, &mut options) {
            Ok(read) => {
                errors.extend(read.errors);
                notes = read.notes;
                show_hidden |= read.show_hidden;
            }
            Err(error) if matches!(mode, Mode::Uci) && !is_named => {
                errors.push(format!("{error}; the file is ignored"));
            }
            Err(error) => return Err(wrong_value(error)),
        }
        apply_flags(&mut options).map_err(wrong_value)?;
    }
    if let Mode::Selfplay(selfplay) = &mut mode {
        selfplay.read_players(player_flags, &options)?;
    }
    Ok(Invocation { mode, options, show_hidden, errors, notes })
}

/// The clap command, with the flags of the option table added to every mode.
pub(super) fn command(show_hidden: bool) -> clap::Command {
    let mut command = Cli::command();
    let modes: Vec<String> = command.get_subcommands().map(|mode| mode.get_name().to_owned()).collect();
    for name in modes {
        let defaults = default_options(Some(&name));
        command = command.mut_subcommand(&name, |mode| {
            let mode = mode.arg(show_hidden_argument()).args_override_self(true);
            flags::add(mode, &defaults, show_hidden, |spec| has_option(&name, spec))
        });
    }
    flags::add(command, &Options::default(), show_hidden, |_| true)
}

/// The flag `--show-hidden` of [`Cli`], for the modes.
fn show_hidden_argument() -> clap::Arg {
    clap::Arg::new("show_hidden")
        .long("show-hidden")
        .action(clap::ArgAction::SetTrue)
        .help("Also lists the options for specialists")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The long flags that lc0's `--help --show-hidden` lists when it speaks UCI, and `--slowmover`, which it lists only
    /// if its name contains "simple".
    const LC0_UCI: &str = "help show-hidden logfile config syzygy-paths strict-uci-timing preload threads \
        minibatch-size cpuct cpuct-at-root cpuct-base cpuct-base-at-root cpuct-factor cpuct-factor-at-root \
        root-has-own-cpuct-params two-fold-draws temperature tempdecay-moves tempdecay-delay-moves temp-cutoff-move \
        temp-endgame temp-value-cutoff temp-visit-offset noise-epsilon noise-alpha verbose-move-stats log-live-stats \
        fpu-strategy fpu-value fpu-strategy-at-root fpu-value-at-root cache-history-length max-collision-events \
        max-collision-visits max-collision-visits-scaling-start max-collision-visits-scaling-end \
        max-collision-visits-scaling-power out-of-order-eval max-out-of-order-evals-factor sticky-endgames \
        syzygy-fast-play multipv per-pv-counters score-type moves-left-max-effect moves-left-threshold \
        moves-left-slope moves-left-constant-factor moves-left-scaled-factor moves-left-quadratic-factor \
        max-concurrent-searchers draw-score contempt-mode contempt contempt-max-value wdl-calibration-elo \
        wdl-contempt-attenuation wdl-max-s wdl-eval-objectivity wdl-draw-rate-target wdl-draw-rate-reference \
        wdl-book-exit-bias nps-limit task-workers minimum-processing-work minimum-picking-work \
        minimum-remaining-picking-work minimum-per-task-processing idling-minimum-work thread-idling-threshold \
        search-spin-backoff garbage-collection-delay max-prefetch solid-tree-threshold kldgain-average-interval \
        minimum-kldgain-per-node smart-pruning-factor smart-pruning-minimum-batches nodes-as-playouts ramlimit-mb \
        move-overhead time-manager slowmover chess960 show-wdl show-eps show-movesleft policy-softmax-temp \
        history-fill weights backend backend-opts nncache";

    /// The flags of single modes of lc0, which it has beside those of its UCI mode.
    const LC0_MODES: [(&str, &str); 4] = [
        ("bench", "nodes movetime fen num-positions"),
        ("benchmark", "nodes movetime fen num-positions"),
        (
            "backendbench",
            "weights backend backend-opts policy-softmax-temp history-fill nncache threads batches start-batch-size \
             max-batch-size batch-step header-only-once fen clippy",
        ),
        ("describenet", "weights"),
    ];

    const LC0_SELFPLAY: &str = "share-trees games parallelism playouts visits training verbose-thinking \
        policy-mode-size value-mode-size tournament-results-file move-thinking resign-playthrough \
        discarded-start-chance openings-pgn mirror-openings openings-mode reuse-tree resign-wdlstyle \
        resign-percentage resign-earliest-move minimum-allowed-visits opening-stop-prob";

    #[test]
    fn every_tool_has_json() {
        let command = command(true);
        let without =
            |mode: &&clap::Command| !mode.get_arguments().any(|flag| flag.get_long() == Some("json"));
        let modes = command.get_subcommands().filter(without).map(clap::Command::get_name);
        let helpers = [gpu::HELPER_ARGUMENT, gpu::doctor::STAGE_ARGUMENT];
        let modes: Vec<&str> = modes.filter(|mode| !helpers.contains(mode)).collect();
        assert_eq!(modes, ["uci", "man", "completions"]);
    }

    /// Every flag of lc0 is a flag here, or there is a text that says what to use instead.
    #[test]
    fn every_flag_of_lc0_is_known() {
        let mut command = command(true);
        command.build();
        let has =
            |mode: &clap::Command, flag: &str| mode.get_arguments().any(|arg| arg.get_long() == Some(flag));
        let absent = |flag: &&str| !has(&command, flag);
        let missing: Vec<&str> = LC0_UCI.split_whitespace().filter(absent).collect();
        assert_eq!(missing, ["slowmover"]);
        for flag in missing.into_iter().chain(LC0_SELFPLAY.split_whitespace()) {
            assert!(absent(&flag) && lc0::instead_of_flag(flag).is_some(), "{flag}");
        }
        for (mode, flags) in LC0_MODES {
            let found = command.find_subcommand(mode).unwrap();
            assert!(flags.split_whitespace().all(|flag| has(found, flag)), "{mode}");
            assert!(found.get_arguments().filter_map(clap::Arg::get_long).all(|flag| {
                // A flag that some mode has must not be taken away as one of lc0's.
                lc0::instead_of_flag(flag).is_none()
            }));
        }
    }
}
