//! Whether a file of the input is still what it was when the analysis began.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

/// The bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// What the system says about a regular file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InputState {
    /// Its length.
    pub(super) bytes: u64,
    modified: Option<SystemTime>,
}

impl InputState {
    /// The state of a file now; `None` if it is no regular file, or does not exist.
    pub(super) fn of(path: &Path) -> Option<InputState> {
        let metadata = fs::metadata(path).ok().filter(|metadata| metadata.is_file())?;
        Some(InputState { bytes: metadata.len(), modified: metadata.modified().ok() })
    }
}

/// A number by which the content of a regular file is told from another one; 0 for another kind of file.
///
/// # Errors
/// The file cannot be read.
pub(super) fn digest(path: &Path) -> io::Result<u64> {
    if InputState::of(path).is_none() {
        return Ok(0);
    }
    let (mut file, mut hasher) = (File::open(path)?, DefaultHasher::new());
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(length) => hasher.write(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_of_the_same_length_has_another_digest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("games.pgn");
        let digest_of = |text: &str| {
            fs::write(&path, text).unwrap();
            digest(&path).unwrap()
        };
        assert_ne!(digest_of("1. e4 e5 *"), digest_of("1. d4 d5 *"));
        assert_eq!(digest_of("1. e4 e5 *"), digest_of("1. e4 e5 *"));
        assert_eq!(digest(folder.path()).unwrap(), 0);
    }

    #[test]
    fn a_file_that_was_cut_is_in_another_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("games.pgn");
        fs::write(&path, "1. e4 e5 *").unwrap();
        let before = InputState::of(&path);
        assert_eq!(InputState::of(&path), before);
        File::options().write(true).open(&path).unwrap().set_len(3).unwrap();
        assert_ne!(InputState::of(&path), before);
        assert_eq!(InputState::of(folder.path()), None);
    }
}
