//! The operating system's errors, in words for the user.

use std::io::{Error, ErrorKind};
use std::path::Path;

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

/// The reason why a file cannot be read. If a file does not exist whose name begins with a quotation mark or `~`, which
/// only a shell understands, a hint follows.
pub fn why_not_read(path: &Path, error: &Error) -> String {
    let name = path.to_string_lossy();
    let hint = match name.chars().next() {
        Some('"' | '\'') => " (here a name has no quotation marks)",
        Some('~') => " (here ~ does not stand for your folder)",
        _ => "",
    };
    match error.kind() {
        ErrorKind::NotFound => in_words(error) + hint,
        _ => in_words(error),
    }
}

/// The reason why a file cannot be written. A missing file is no obstacle, so that `NotFound` means its folder.
pub fn why_not_written(path: &Path, error: &Error) -> String {
    match (error.kind(), path.parent()) {
        (ErrorKind::NotFound, Some(folder)) if !folder.as_os_str().is_empty() => {
            format!("the folder {} does not exist", folder.display())
        }
        _ => in_words(error),
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

    #[test]
    fn a_missing_file_is_explained_by_its_name() {
        let missing = Error::from(ErrorKind::NotFound);
        assert_eq!(why_not_written(Path::new("a/b.csv"), &missing), "the folder a does not exist");
        assert_eq!(why_not_written(Path::new("b.csv"), &missing), "it does not exist");
        assert_eq!(why_not_read(Path::new("a"), &missing), "it does not exist");
        assert!(why_not_read(Path::new("\"/a b\""), &missing).contains("no quotation marks"));
        assert!(why_not_read(Path::new("~/a"), &missing).contains("~ does not stand"));
    }
}
