//! The `rukh` binary: everything is in the library, see [`rukh::cli::run`].

fn main() -> std::process::ExitCode {
    rukh::cli::run()
}
