//! The command line.

pub mod perft;

/// Runs the program with the process's arguments.
pub fn run() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
