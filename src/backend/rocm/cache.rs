//! The user's cache folder, for results that take long to compute but can be computed again.

use crate::cache_folder::folder;
use crate::replace_file::replace_file;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// The path `NAME-HASH.EXTENSION` in the cache folder, if the user has one. The hash is that of `key`, which holds
/// everything that the file's content depends on.
pub(super) fn file(name: &str, key: &str, extension: &str) -> Option<PathBuf> {
    Some(folder()?.join(format!("{name}-{:016x}.{extension}", hash_of(key))))
}

/// The line that [`keep_line`] has written for the same key.
pub(super) fn kept_line(name: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file(name, key, "txt")?).ok()?;
    let (line, rest) = text.split_once('\n')?;
    (rest == key).then(|| line.to_owned())
}

/// Keeps a line for the next start, with its key, in [`file`]`(name, key, "txt")`.
///
/// # Errors
/// There is no cache folder, or it cannot be written.
pub(super) fn keep_line(name: &str, key: &str, line: &str) -> io::Result<()> {
    let path = file(name, key, "txt").ok_or_else(no_folder)?;
    keep(&path, format!("{}\n{key}", line.replace(['\n', '\r'], " ")).as_bytes())
}

/// The error of a user without a cache folder.
pub(super) fn no_folder() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "there is no cache folder")
}

/// A hash for the names and keys of cached results.
pub(super) fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Writes a file and creates its folder. The content goes to a temporary file first, so that no reader sees a partial
/// file.
///
/// # Errors
/// The folder or the file cannot be written. No partial file is left behind.
pub(super) fn keep(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let temporary = path.with_extension(format!("{}", std::process::id()));
    let written = fs::write(&temporary, content).and_then(|()| replace_file(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
