//! The configuration file: one flag per line.
//!
//! `threads=2`, `--threads=2` and `--threads 2` mean the same. Blank lines and lines that begin with `#` are skipped.
//! As in lc0, the file may set only options of the table, by their long flags. Short flags and the flags of a single
//! mode are not allowed. A line that is not understood does not affect the others. [`apply`] has no side effects: `cli`
//! finds and reads the file.

use super::{Effect, Kind, OptionError, Options, Spec, find_flag};
use rukh_base::quote::quoted;

/// What [`apply`] found besides the options that it set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Applied {
    /// The lines that were not understood.
    pub errors: Vec<ConfigError>,
    /// The lines that set an option without effect.
    pub notes: Vec<String>,
    /// Whether a line is `show-hidden`, which lists the options for specialists.
    pub show_hidden: bool,
}

/// A line of a configuration file that is not understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
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
pub fn apply(options: &mut Options, file: &str) -> Applied {
    let mut applied = Applied::default();
    // Editors on Windows start a UTF-8 file with a byte-order mark.
    for (index, text) in file.trim_start_matches('\u{feff}').lines().enumerate() {
        let (line, text) = (index + 1, text.trim());
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let flag = text.strip_prefix("--").unwrap_or(text);
        if flag == "show-hidden" {
            applied.show_hidden = true;
        } else if flag.starts_with('-') {
            applied.errors.push(ConfigError::ShortFlag { line, text: quoted(text) });
        } else {
            match set_flag(options, flag) {
                Ok(None) => {}
                Ok(Some(note)) => applied.notes.push(format!("line {line}: {note}")),
                Err(error) => applied.errors.push(ConfigError::Option { line, error }),
            }
        }
    }
    applied
}

/// Sets one flag without its dashes: `name`, `no-name`, `name=value` or `name value`. Returns a note if the option has
/// no effect.
fn set_flag(options: &mut Options, text: &str) -> Result<Option<String>, OptionError> {
    let (name, value) = match text.find(|c: char| c == '=' || c.is_whitespace()) {
        Some(end) => {
            let value = text[end..].trim_start();
            (&text[..end], Some(value.strip_prefix('=').unwrap_or(value).trim()))
        }
        None => (text, None),
    };
    let (spec, value) = match (find_flag(name), negated(name), value) {
        (Some(spec), _, Some(value)) => (spec, value),
        (Some(spec), _, None) if spec.kind == Kind::Check => (spec, "true"),
        (Some(spec), _, None) => return Err(OptionError::missing_value(spec)),
        (None, Some(spec), None) => (spec, "false"),
        (None, ..) => return Err(OptionError::unknown_flag(&format!("--{name}"))),
    };
    options.assign(spec, value)?;
    Ok(note(spec))
}

/// What a user who sets this option should know: that it has no effect, and why.
fn note(spec: &Spec) -> Option<String> {
    match spec.effect {
        Effect::Full => None,
        Effect::None(reason) => Some(format!("{} has no effect here: {reason}", spec.name())),
    }
}

/// The row of the switch that a flag `no-name` turns off.
fn negated(flag: &str) -> Option<&'static Spec> {
    find_flag(flag.strip_prefix("no-")?).filter(|spec| spec.kind == Kind::Check)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(file: &str) -> Options {
        let mut options = Options::default();
        assert_eq!(apply(&mut options, file), Applied::default());
        options
    }

    #[test]
    fn reads_every_way_to_write_a_flag() {
        let options = applied(
            "# a comment\n\n--threads=4\nminibatch-size = 128\r\n  cpuct 2.5\n--no-two-fold-draws\nshow-wdl\n\
             sticky-endgames=false\nweights=/a path/with = and spaces.pb.gz\nlogfile=\n",
        );
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
        assert_eq!(applied("\u{feff}threads=4\r\n").threads, 4);
    }

    #[test]
    fn the_last_line_wins() {
        assert_eq!(applied("threads=4\nthreads=3").threads, 3);
    }

    #[test]
    fn a_line_that_is_not_understood_is_named_and_the_others_count() {
        let mut options = Options::default();
        let file = "threads=2\nthreads=many\nthread=2\n\nminibatch-size\nno-threads\n-w x\nslowmover=1.2\n\
                    player1.visits=800\nmultipv=3";
        let applied = apply(&mut options, file);
        let errors: Vec<String> = applied.errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "line 2: option Threads: `many` is not a whole number from 0 to 128",
                "line 3: unknown flag `--thread`; did you mean --threads?",
                "line 5: option MinibatchSize needs a value: a whole number from 0 to 1024",
                "line 6: unknown flag `--no-threads`; did you mean --threads?",
                "line 7: `-w x` is a short flag; use the long flag, as in `weights=network.pb.gz`",
                "line 8: `--slowmover` is an option of lc0 that Rukh does not have: use the option TimeManager, as in \
                 `--time-manager=legacy(slowmover=1.2)`",
                "line 9: `--player1.visits` is an option of lc0 that Rukh does not have: use `go nodes N`",
            ]
        );
        assert_eq!(options, Options { threads: 2, multipv: 3, ..Options::default() });
    }

    #[test]
    fn options_without_effect_are_noted() {
        let mut options = Options::default();
        let applied = apply(&mut options, "show-hidden\ntask-workers=0\n");
        assert_eq!(
            applied.notes,
            [
                "line 2: TaskWorkers has no effect here: each search thread gathers and processes its own batch"
            ]
        );
        assert!(applied.errors.is_empty() && applied.show_hidden);
        assert_eq!(options.task_workers, 0);
    }
}
