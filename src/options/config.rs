//! The configuration file: one flag per line.
//!
//! `threads=2`, `--threads=2` and `--threads 2` mean the same. Blank lines and lines that begin with `#` are skipped.
//! As in lc0, the file may set only options of the table, by their long flags. Short flags and the flags of a single
//! mode are not allowed. [`apply`] has no side effects: `cli` finds and reads the file.

use super::{Kind, OptionError, Options, Spec, find_flag};
use crate::quote::quoted;

/// An error in a line of a configuration file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The option is unknown, or its value is not allowed.
    #[error("line {line}: {error}")]
    Option {
        /// Counted from 1.
        line: usize,
        /// The reason why the option was not set.
        error: OptionError,
    },
    /// The line has a short flag.
    #[error("line {line}: {text} is a short flag; use the long flag, as in `weights=network.pb.gz`")]
    ShortFlag {
        /// Counted from 1.
        line: usize,
        /// The line, quoted.
        text: String,
    },
}

/// Sets the options that the file's text gives, in order.
///
/// # Errors
/// The error of the first wrong line. In that case no option changes.
pub(crate) fn apply(options: &mut Options, file: &str) -> Result<(), ConfigError> {
    let mut changed = options.clone();
    // Editors on Windows start a UTF-8 file with a byte-order mark.
    for (index, text) in file.trim_start_matches('\u{feff}').lines().enumerate() {
        let (line, text) = (index + 1, text.trim());
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if text.starts_with('-') && !text.starts_with("--") {
            return Err(ConfigError::ShortFlag { line, text: quoted(text) });
        }
        let flag = text.strip_prefix("--").unwrap_or(text);
        set_flag(&mut changed, flag).map_err(|error| ConfigError::Option { line, error })?;
    }
    *options = changed;
    Ok(())
}

/// Sets one flag without its dashes: `name`, `no-name`, `name=value` or `name value`.
fn set_flag(options: &mut Options, text: &str) -> Result<(), OptionError> {
    let (name, value) = match text.find(|c: char| c == '=' || c.is_whitespace()) {
        Some(end) => {
            let value = text[end..].trim_start();
            (&text[..end], Some(value.strip_prefix('=').unwrap_or(value).trim()))
        }
        None => (text, None),
    };
    if let Some(spec) = find_flag(name) {
        return match (spec.kind, value) {
            (_, Some(value)) => options.assign(spec, value),
            (Kind::Check, None) => options.assign(spec, "true"),
            (_, None) => Err(OptionError::missing_value(spec)),
        };
    }
    match negated(name) {
        Some(spec) if value.is_none() => options.assign(spec, "false"),
        _ => Err(OptionError::unknown_flag(&format!("--{name}"))),
    }
}

/// The row of the switch that a flag `no-name` turns off.
fn negated(flag: &str) -> Option<&'static Spec> {
    find_flag(flag.strip_prefix("no-")?).filter(|spec| spec.kind == Kind::Check)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(file: &str) -> Result<Options, String> {
        let mut options = Options::default();
        apply(&mut options, file).map(|()| options).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_every_way_to_write_a_flag() {
        let options = applied(
            "# a comment\n\n--threads=4\nminibatch-size = 128\r\n  cpuct 2.5\n--no-two-fold-draws\nshow-wdl\n\
             sticky-endgames=false\nweights=/a path/with = and spaces.pb.gz\nlogfile=\n",
        )
        .unwrap();
        let expected = Options {
            threads: 4,
            minibatch_size: 128,
            cpuct: 2.5,
            two_fold_draws: false,
            show_wdl: true,
            sticky_endgames: false,
            weights: "/a path/with = and spaces.pb.gz".to_owned(),
            ..Options::default()
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_flag() {
        assert_eq!(applied("\u{feff}threads=4\r\n").unwrap().threads, 4);
    }

    #[test]
    fn the_last_line_wins() {
        assert_eq!(applied("threads=4\nthreads=3").unwrap().threads, 3);
    }

    #[test]
    fn errors_name_the_line() {
        let error = |file| applied(file).unwrap_err();
        assert_eq!(
            error("threads=2\nthreads=many"),
            "line 2: option Threads: `many` is not a whole number from 0 to 128"
        );
        assert_eq!(error("thread=2"), "line 1: unknown flag `--thread`; did you mean --threads?");
        assert_eq!(error("\nthreads"), "line 2: option Threads needs a value: a whole number from 0 to 128");
        assert_eq!(error("no-threads"), "line 1: unknown flag `--no-threads`; did you mean --threads?");
        assert_eq!(
            error("-w x"),
            "line 1: `-w x` is a short flag; use the long flag, as in `weights=network.pb.gz`"
        );
    }

    #[test]
    fn an_error_changes_nothing() {
        let mut options = Options::default();
        apply(&mut options, "threads=2\nnonsense").unwrap_err();
        assert_eq!(options, Options::default());
    }
}
