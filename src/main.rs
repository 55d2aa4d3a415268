//! The `rukh` binary. All code is in the library; [`rukh::cli::run`] is the entry point.

fn main() -> std::process::ExitCode {
    rukh::cli::run()
}
