//! Why an option could not be set.

use super::{Spec, TABLE};
use crate::quote::quoted;

/// A name or a value that is not in the table.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptionError {
    /// No such UCI name.
    #[error("unknown option {name}{}", suggestion(nearest))]
    UnknownName {
        /// As given, quoted.
        name: String,
        /// The known name most like it.
        nearest: Option<String>,
    },
    /// No such command-line flag.
    #[error("unknown flag {flag}{}", suggestion(nearest))]
    UnknownFlag {
        /// As given, quoted.
        flag: String,
        /// The known flag most like it.
        nearest: Option<String>,
    },
    /// Not a value of this option.
    #[error("option {option}: {value} is not {expected}")]
    WrongValue {
        /// The option's UCI name or flag.
        option: String,
        /// As given, quoted.
        value: String,
        /// The allowed values.
        expected: String,
    },
    /// A flag without the value it needs.
    #[error("option {option} needs a value: {expected}")]
    MissingValue {
        /// The option's UCI name or flag.
        option: String,
        /// The allowed values.
        expected: String,
    },
}

impl OptionError {
    pub(super) fn unknown_name(name: &str) -> OptionError {
        let known = TABLE.iter().filter_map(|spec| spec.uci_name.map(str::to_owned));
        OptionError::UnknownName { name: quoted(name), nearest: nearest(name, known) }
    }

    pub(super) fn unknown_flag(flag: &str) -> OptionError {
        let known = TABLE.iter().filter_map(|spec| spec.flag().map(|flag| format!("--{flag}")));
        OptionError::UnknownFlag { flag: quoted(flag), nearest: nearest(flag, known) }
    }

    pub(super) fn wrong_value(spec: &Spec, value: &str) -> OptionError {
        OptionError::WrongValue { option: spec.name(), value: quoted(value), expected: spec.kind.expected() }
    }

    pub(super) fn missing_value(spec: &Spec) -> OptionError {
        OptionError::MissingValue { option: spec.name(), expected: spec.kind.expected() }
    }
}

fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"))
}

/// The known word fewest edits away from `given`, if these are fewer than half its letters.
fn nearest(given: &str, known: impl Iterator<Item = String>) -> Option<String> {
    // Nothing that long is a slip of the finger, and edits cost the product of the lengths.
    const LONGEST_NAME: usize = 60;
    if given.chars().count() > LONGEST_NAME {
        return None;
    }
    let given = given.to_lowercase();
    let (distance, word) = known.map(|word| (edits(&given, &word.to_lowercase()), word)).min()?;
    (2 * distance < given.chars().count()).then_some(word)
}

/// Levenshtein distance.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // row[j]: edits from the part of `from` read so far to the first j letters of `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 1..=to.len() {
            let replaced = diagonal + usize::from(letter != to[j - 1]);
            diagonal = row[j];
            row[j] = replaced.min(row[j] + 1).min(row[j - 1] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("cpuct", "cpuct"), 0);
    }

    #[test]
    fn suggests_only_what_is_near() {
        assert_eq!(
            OptionError::unknown_name("MultPV").to_string(),
            "unknown option `MultPV`; did you mean MultiPV?"
        );
        assert_eq!(OptionError::unknown_name("Hash").to_string(), "unknown option `Hash`");
        assert_eq!(
            OptionError::unknown_flag("--minibatchsize").to_string(),
            "unknown flag `--minibatchsize`; did you mean --minibatch-size?"
        );
    }
}
