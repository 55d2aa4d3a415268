//! `rukh-fleet` spreads analyses and tournaments over many machines. `docs/fleet.md` describes how it is used.
//!
//! A job is cut into pieces, which wait in a stream of NATS JetStream. Workers dial out, pull pieces, and let the engine
//! `rukh`, a child process, work on them. The results go to a second stream, and a piece is acknowledged when its result
//! is stored there.
//!
//! | module | what it does |
//! |---|---|
//! | [`submit`] | cuts a job into pieces and stores them |
//! | [`status`] | shows jobs and workers |
//! | [`simulate`] | measures what a server can do, with simulated workers |
//! | [`work`] | works on pieces |
//! | [`merge`] | puts the parts together that processes with `--shard` have written |
//! | [`collect`] | writes the results |
//! | [`retry`] | lets pieces that failed be worked on again, and removes jobs |
//! | [`serve`] | runs the server |
//! | [`results`] | reads the stored results of a job |
//! | [`engine`] | asks the engine for its version and its network |
//! | [`allowed`] | the flags of the engine that a job may have |
//! | [`server`] | the connection to the server |
//! | [`args`] | the flags |
//! | [`board`] | a stream with the last value of each name |
//! | [`job`] | jobs, pieces and results as they are stored, and the names of their streams |
//! | [`signal`] | the signals that ask the process to end |
//! | [`error`](mod@error) | errors, and messages on stderr |

mod allowed;
mod args;
mod board;
mod collect;
mod engine;
mod error;
mod job;
mod merge;
mod results;
mod retry;
mod serve;
mod server;
mod signal;
mod simulate;
mod status;
mod submit;
mod work;

use args::{Arguments, Command};
use clap::Parser;
use error::{FleetError, print_error_line};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print_error_line(&format!("rukh-fleet: cannot start threads: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(run(arguments));
    // A thread that sleeps or reads does not keep the process alive.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error_line(&format!("rukh-fleet: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), FleetError> {
    let Arguments { server, command } = arguments;
    match command {
        Command::Serve(arguments) => serve::run(arguments).await,
        Command::Submit(arguments) => submit::run(&server, arguments).await,
        Command::Work(arguments) => work::run(&server, arguments).await,
        Command::Collect(arguments) => collect::run(&server, &arguments).await,
        Command::Status(arguments) => status::run(&server, &arguments).await,
        Command::Retry(arguments) => retry::run(&server, &arguments).await,
        Command::Remove(arguments) => retry::remove(&server, &arguments).await,
        Command::Merge(arguments) => merge::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&server, &arguments).await,
    }
}
