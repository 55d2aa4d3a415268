//! The command line: no mode is the UCI engine, the others are tools.
//!
//! [`args`] declares the modes and their own flags with clap; [`flags`] adds the engine's options to each
//! from the option table; [`config_file`] reads the configuration. Each tool is one file with one `run`.
//! Output formats and flags are lc0's, so that scripts made for it work; every tool also has `--json`.
//!
//! Exit codes: 0 done, 1 failed (the reason is on stderr), 2 wrong arguments.

mod args;
mod backendbench;
mod bench;
mod bench_positions;
mod clippy;
mod config_file;
mod defaults;
mod describenet;
mod error;
mod flags;
pub mod perft;
mod perft_command;

use crate::uci::log::Log;
use crate::uci::output::Output;
use crate::uci::session::Session;
use args::{Invocation, Mode};
use error::{CliError, print_error_line};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs the program with the process's arguments.
pub fn run() -> ExitCode {
    let invocation = match args::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        // clap's errors are usage errors, or the help text that was asked for: it knows where each goes.
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match run_mode(invocation) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error_line(&format!("rukh: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Tells somebody who has started the program by hand what it is waiting for. GUIs never see it.
fn greet() {
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        print_error_line(concat!(
            "Rukh ",
            env!("RUKH_VERSION"),
            ": a chess engine, to be added to a chess program as a UCI engine. It has no board of its own.\n",
            "To try it here, type `go nodes 1000`, and `quit` to leave; `rukh --help` lists what else it can do."
        ));
    }
}

fn run_mode(invocation: Invocation) -> Result<(), CliError> {
    let Invocation { mode, options, show_hidden, configuration_error } = invocation;
    let log = Arc::new(Log::default());
    let output = Arc::new(Output::stdout(Arc::clone(&log)));
    match mode {
        Mode::Uci => {
            greet();
            if let Some(error) = configuration_error {
                output.error(&format!("{error}; the file is ignored"));
            }
            Session::new(options, output, log, show_hidden).run(std::io::stdin().lock());
            Ok(())
        }
        Mode::Bench(arguments) => bench::run(&arguments.resolve(bench::SHORT), options, output),
        Mode::Benchmark(arguments) => bench::run(&arguments.resolve(bench::LONG), options, output),
        Mode::Backendbench(arguments) => backendbench::run(&arguments, &options, &output),
        Mode::Describenet(arguments) => describenet::run(&arguments, &options, &output),
        Mode::Perft(arguments) => perft_command::run(&arguments, &output),
    }
}
