//! `completions`: prints the script that completes modes, flags and values in a shell.

use super::args::{self, CompletionsArgs};
use super::error::CliError;
use crate::uci::output::Output;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use rukh_options::{Kind, Spec, TABLE};

/// Prints the script for a shell.
///
/// # Errors
/// The script is not UTF-8. (All of clap's are.)
pub(super) fn run(arguments: &CompletionsArgs, output: &Output) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), "rukh", &mut script);
    let script = String::from_utf8(script)?;
    output.lines(&script.lines().map(str::to_owned).collect::<Vec<_>>());
    Ok(())
}

/// The modes and flags that the help lists, with the words and the kinds of files that the shell can offer as values.
fn command() -> Command {
    let full = args::command(false);
    let modes = full.get_subcommands().filter(|mode| !mode.is_hide_set()).cloned();
    // clap offers hidden modes in bash, so they are left out. `rukh help MODE` would list everything twice.
    Command::new("rukh")
        .args(full.get_arguments().cloned())
        .subcommands(modes.map(|mode| mode.mut_args(with_values)))
        .mut_args(with_values)
        .disable_help_subcommand(true)
        .version(env!("CARGO_PKG_VERSION"))
}

/// Adds the values of an option; a mode's own flags stay as they are. The engine's own command line lacks the values,
/// because the engine checks them itself, with better messages.
fn with_values(argument: Arg) -> Arg {
    let is_option =
        |spec: &&Spec| argument.get_id() == spec.field && argument.get_help_heading() == Some(spec.section);
    let Some(spec) = TABLE.iter().find(is_option) else {
        return argument;
    };
    match (spec.kind, spec.field) {
        (Kind::Choice(words), _) => argument.value_parser(PossibleValuesParser::new(words.iter().copied())),
        (_, "weights" | "config" | "logfile") => argument.value_hint(ValueHint::FilePath),
        (_, "syzygy_paths") => argument.value_hint(ValueHint::DirPath),
        (_, _) => argument.value_hint(ValueHint::Other),
    }
}
