//! What can be wrong with a line from the GUI.

/// What is wrong with a line. The texts are already quoted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum UciError {
    /// The first word is not a command.
    #[error("unknown command {0}")]
    UnknownCommand(String),
    /// One or more words are in the wrong place.
    #[error("unexpected {word} after {after}")]
    UnexpectedWord {
        /// The unexpected words.
        word: String,
        /// The command or term before the word.
        after: &'static str,
    },
    /// The words that a command or a term of `go` needs are not there.
    #[error("{after} needs {expected}")]
    Missing {
        /// The command or term without its words.
        after: &'static str,
        /// A description of the missing words.
        expected: &'static str,
    },
    /// A word is not a number, or is out of range.
    #[error("{term}: {word} is not {expected}{}", sense(*.taken_as))]
    NotANumber {
        /// The term before the number.
        term: &'static str,
        /// The word in place of the number.
        word: String,
        /// The allowed numbers.
        expected: String,
        /// The nearest allowed number; `None` if the term is left out.
        taken_as: Option<u64>,
    },
}

/// What becomes of a number that is not allowed.
fn sense(taken_as: Option<u64>) -> String {
    taken_as
        .map_or_else(|| ", so it is left out".to_owned(), |number| format!(", so it is taken as {number}"))
}
