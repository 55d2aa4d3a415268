//! The command line. Without a mode the program is the UCI engine; the modes are tools.
//!
//! The tools have lc0's output formats and flags, so that scripts made for lc0 work. All tools but `man` and
//! `completions` also have `--json`. The exit code is 0 after success, 1 after a failure (the reason is on stderr), and 2
//! after wrong arguments.
//!
//! | module | what it does |
//! |---|---|
//! | [`onnx2leela`] | the tool that makes a network file of an ONNX model |
//! | [`analyze`] | the tool that annotates games and positions |
//! | [`selfplay`] | the tool that plays tournaments |
//! | [`profile`] | the tool that shows where the time of an evaluation goes |
//! | [`check`] | the tool that compares the evaluations of two backends |
//! | [`perft_command`], [`describenet`], [`backendbench`], [`doctor`] | tools, each with a function `run` |
//! | [`tune`](mod@tune) | the tool that finds a card's fastest GEMMs |
//! | [`leela2onnx`] | the tool that converts a network to ONNX |
//! | [`manual`], [`completions`] | print the manual page, and completions for a shell |
//! | [`args`] | the modes and their own flags, declared with clap |
//! | [`onnx2leela_args`], [`selfplay_args`], [`analyze_args`], [`profile_args`], [`check_args`] | the flags of single tools |
//! | [`openings_file`] | reads openings, and tells the user what is left out |
//! | [`shard`](mod@shard) | the flag by which several processes share the work |
//! | [`bench`](mod@bench) | the tool for `bench` and `benchmark` |
//! | [`clippy`] | recommends a minibatch size |
//! | [`chart`] | draws the pictures of `bench` and `backendbench` |
//! | [`interrupt`] | ctrl-C during a long tool |
//! | [`mod@end_with_stdin`] | ends a tool with the program that started it |
//! | [`gpu_choice`] | the backend on a card that `doctor` and `tune` work on |
//! | [`machine`] | says what a measurement ran on |
//! | [`flags`] | adds the option table's flags to a mode |
//! | [`output_file`] | writes the file that a tool makes |
//! | [`config_file`] | finds and reads the configuration file |
//! | [`defaults`] | the option values that a mode starts with |
//! | [`error`] | errors of the tools, and messages on stderr |

mod analyze;
mod analyze_args;
mod args;
mod backendbench;
mod bench;
mod chart;
mod check;
mod check_args;
mod clippy;
mod completions;
mod config_file;
mod defaults;
mod describenet;
mod doctor;
mod end_with_stdin;
mod error;
mod flags;
mod gpu_choice;
mod interrupt;
mod leela2onnx;
mod machine;
mod manual;
mod onnx2leela;
mod onnx2leela_args;
mod openings_file;
mod output_file;
mod perft_command;
pub(crate) mod profile;
mod profile_args;
mod selfplay;
mod selfplay_args;
mod shard;
mod tune;

use crate::uci::input::Input;
use crate::uci::log::Log;
use crate::uci::output::Output;
use crate::uci::session::Session;
use args::{Invocation, Mode};
use error::{CliError, WrongArguments, print_error_line};
use rukh_base::version::set_version;
use rukh_gpu as gpu;
use rukh_options::Options;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{Builder, ScopedJoinHandle};

/// The size of the stack on which the program runs, in bytes: what Linux and macOS usually give to the first thread.
const STACK_BYTES: usize = 8 << 20;

/// Runs the program with the process's arguments.
pub fn run() -> ExitCode {
    ExitCode::from(run_with(&std::env::args_os().collect::<Vec<_>>()))
}

/// Runs the program with these arguments, of which the first is its name, and returns the exit code.
pub fn run_with(arguments: &[OsString]) -> u8 {
    set_version(crate::VERSION);
    survive_the_limit_of_files();
    // Another thread takes address space for its stack and for an arena of the allocator, which may be scarce.
    if first_thread_has_room() {
        return run_on_this_thread(arguments);
    }
    std::thread::scope(|scope| {
        let thread = Builder::new().name("rukh".to_owned()).stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, || run_on_this_thread(arguments)).map(ScopedJoinHandle::join) {
            Ok(Ok(code)) => code,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // The system starts no thread.
            Err(_) => run_on_this_thread(arguments),
        }
    })
}

/// Whether the stack of the first thread may grow to [`STACK_BYTES`] (`ulimit -s`).
#[cfg(unix)]
fn first_thread_has_room() -> bool {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Stack).current.is_none_or(|bytes| bytes >= STACK_BYTES as u64)
}

/// Never: Windows gives the first thread 1 MB.
#[cfg(not(unix))]
fn first_thread_has_room() -> bool {
    false
}

/// Makes a write beyond `ulimit -f` fail. By default the system ends the process.
fn survive_the_limit_of_files() {
    // Without the handler only that limit is fatal, so an error is of no interest.
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

fn run_on_this_thread(arguments: &[OsString]) -> u8 {
    let invocation = match args::parse(arguments.iter().cloned()) {
        Ok(invocation) => invocation,
        // An error of clap is either a usage error or the requested help. clap prints each to the right stream.
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            let _ = error.print();
            return code;
        }
    };
    match run_mode(invocation) {
        Ok(()) => 0,
        Err(error) => {
            print_error_line(&format!("rukh: {error}"));
            if error.is::<WrongArguments>() { 2 } else { 1 }
        }
    }
}

/// Explains the program to a user who has started it in a terminal. GUIs never see this text.
fn greet() {
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        print_error_line(&format!(
            "Rukh {} speaks UCI: to play, add it to a chess program; here, try `go nodes 1000`, `quit`, or `rukh --help`.",
            rukh_base::version::version()
        ));
    }
}

/// What self-play and analysis say of options, perhaps of a configuration file, that they ignore or change: limits for
/// play in a chess program, and scores that are not in centipawns.
fn without_effect(options: &Options) -> Vec<String> {
    let is_limited = options.limit_strength || options.nodes_per_move > 0;
    let limits = is_limited.then(|| {
        "UCI_LimitStrength and NodesPerMove have no effect here: see --visits of selfplay, --nodes of analyze".to_owned()
    });
    let scale = options.score_type.in_centipawns();
    let score = (scale != options.score_type).then(|| {
        format!(
            "ScoreType {} is not in centipawns: the scores are {}",
            options.score_type.name(),
            scale.name()
        )
    });
    limits.into_iter().chain(score).collect()
}

fn run_mode(invocation: Invocation) -> Result<(), CliError> {
    // ROCm's libraries are asked for GEMMs by another process of this program, which they may end.
    if let Ok(program) = rukh_base::program::file() {
        gpu::set_helper(program);
    }
    let Invocation { mode, options, show_hidden, errors, notes } = invocation;
    let log = Arc::new(Log::default());
    let output = Arc::new(Output::stdout(Arc::clone(&log)));
    if matches!(mode, Mode::Uci) {
        notes.iter().for_each(|note| output.message(note));
        errors.iter().for_each(|error| output.error(error));
    } else {
        notes.iter().chain(&errors).for_each(|line| print_error_line(line));
    }
    if matches!(mode, Mode::Selfplay(_) | Mode::Analyze(_)) {
        without_effect(&options).iter().for_each(|line| print_error_line(line));
    }
    match mode {
        Mode::Uci => {
            let told = Arc::clone(&output);
            rukh_base::progress::tell_progress_to(move |text| told.message(text));
            greet();
            let mut input = Input::stdin(&output);
            let mut session = Session::new(options, output, log, show_hidden).with_bench(bench::in_console);
            session.run(|| input.next_line());
            session.end_with_process();
            Ok(())
        }
        Mode::Bench(arguments) => bench::run(&arguments.resolve(bench::SHORT), options, output),
        Mode::Benchmark(arguments) => bench::run(&arguments.resolve(bench::LONG), options, output),
        Mode::Backendbench(arguments) => backendbench::run(&arguments, &options, &output),
        Mode::Describenet(arguments) => describenet::run(&arguments, &options, &output),
        Mode::Leela2onnx(arguments) => leela2onnx::run(&arguments, &output),
        Mode::Onnx2leela(arguments) => onnx2leela::run(&arguments, &output),
        Mode::Analyze(arguments) => analyze::run(&arguments, &options, &output),
        Mode::Selfplay(arguments) => selfplay::run(&arguments, &options, &output),
        Mode::Doctor(arguments) => doctor::run(&arguments, &options, &output),
        Mode::Check(arguments) => check::run(&arguments, &options, &output),
        Mode::Profile(arguments) => profile::run(&arguments, &options, &output),
        Mode::Tune(arguments) => tune::run(&arguments, &options, &output),
        Mode::Perft(arguments) => perft_command::run(&arguments, &output),
        Mode::Man => manual::run(&output),
        Mode::Completions(arguments) => completions::run(&arguments, &output),
        Mode::RocmGemms => {
            // If the engine is gone, nobody is left to tell.
            let _ = gpu::serve_gemms(std::io::stdin().lock(), std::io::stdout().lock());
            Ok(())
        }
        Mode::RocmDoctor => {
            // If the parent process is gone, nobody is left to tell.
            let _ = gpu::doctor::serve_stage(std::io::stdin().lock(), std::io::stdout().lock());
            Ok(())
        }
    }
}
