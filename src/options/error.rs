//! The errors of setting an option.

use super::{Spec, TABLE, lc0};
use rukh_base::quote::quoted;

/// A name or value that the table does not allow.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptionError {
    /// No option has this UCI name.
    #[error("unknown option {name}{}", suggestion(nearest))]
    UnknownName {
        /// The name as given, quoted.
        name: String,
        /// The most similar name, if one is similar enough.
        nearest: Option<String>,
    },
    /// No option has this command-line flag.
    #[error("unknown flag {flag}{}", suggestion(nearest))]
    UnknownFlag {
        /// The flag as given, quoted.
        flag: String,
        /// The most similar flag, if one is similar enough.
        nearest: Option<String>,
    },
    /// The option is lc0's, and Rukh does not have it.
    #[error("{name} is an option of lc0 that Rukh does not have: {instead}")]
    Absent {
        /// The UCI name or the flag as given, quoted.
        name: String,
        /// What to use instead.
        instead: &'static str,
    },
    /// The value is not allowed for this option.
    #[error("option {option}: {value} is not {expected}")]
    WrongValue {
        /// The option's UCI name or flag.
        option: String,
        /// The value as given, quoted.
        value: String,
        /// The allowed values.
        expected: String,
    },
    /// The flag has no value, but needs one.
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
        if let Some(instead) = lc0::instead_of_option(name) {
            return OptionError::Absent { name: quoted(name), instead };
        }
        let known = TABLE.iter().filter_map(|spec| spec.uci_name.map(str::to_owned));
        OptionError::UnknownName { name: quoted(name), nearest: nearest(name, known) }
    }

    pub(super) fn unknown_flag(flag: &str) -> OptionError {
        if let Some(instead) = flag.strip_prefix("--").and_then(lc0::instead_of_flag) {
            return OptionError::Absent { name: quoted(flag), instead };
        }
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

/// The known word with the fewest edits from `given`, if the number of edits is less than half the number of letters of
/// `given`.
fn nearest(given: &str, known: impl Iterator<Item = String>) -> Option<String> {
    // A longer text is not a typing error, and computing the edits takes time proportional to the product of the
    // lengths.
    const LONGEST_NAME: usize = 60;
    if given.chars().count() > LONGEST_NAME {
        return None;
    }
    let given = given.to_lowercase();
    let (distance, word) = known.map(|word| (edits(&given, &word.to_lowercase()), word)).min()?;
    (2 * distance < given.chars().count()).then_some(word)
}

/// The Levenshtein distance.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // `row[j]` is the number of edits from the letters of `from` read so far to the first j letters of `to`.
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
    fn suggests_only_similar_names() {
        assert_eq!(
            OptionError::unknown_name("MultPV").to_string(),
            "unknown option `MultPV`; did you mean MultiPV?"
        );
        assert_eq!(OptionError::unknown_name("Clouds").to_string(), "unknown option `Clouds`");
        assert_eq!(
            OptionError::unknown_flag("--minibatchsize").to_string(),
            "unknown flag `--minibatchsize`; did you mean --minibatch-size?"
        );
    }
}
