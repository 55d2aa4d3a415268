//! The operating system's errors, in words for the user.

use std::io::{Error, ErrorKind};

/// Why the system refused a file: a clause without a full stop.
///
/// The usual reasons have words of their own. The system's words differ between systems and languages, and XBoard takes
/// every line that contains `No such file`, `not found` or `Permission denied` as a sign that the engine did not start:
/// it shows an error and stops listening.
pub fn in_words(error: &Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "it does not exist".to_owned(),
        ErrorKind::PermissionDenied => "the system does not allow it".to_owned(),
        ErrorKind::IsADirectory => "it is a folder".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_reasons_have_words_of_their_own() {
        assert_eq!(in_words(&Error::from_raw_os_error(2)), "it does not exist");
        assert_eq!(in_words(&Error::from(ErrorKind::PermissionDenied)), "the system does not allow it");
        assert_eq!(in_words(&Error::from(ErrorKind::IsADirectory)), "it is a folder");
        assert_eq!(in_words(&Error::other("the disk is full")), "the disk is full");
    }
}
