//! The user's cache folder: results that take long to compute, but can be computed again.

use crate::replace_file::replace_file;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// The folder `rukh` in the user's cache folder, if the user has one.
pub(crate) fn folder() -> Option<PathBuf> {
    folder_of(cfg!(windows), |variable| std::env::var_os(variable))
}

/// The folder `rukh` in the cache folder of a user with this environment: `XDG_CACHE_HOME`, and else `~/.cache`. On
/// Windows it is `LOCALAPPDATA` instead of `~/.cache`, because `HOME` is set there only by programs that come from Unix,
/// and a file that is kept under one of them must be found without it.
fn folder_of(is_windows: bool, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user = || match is_windows {
        true => folder("LOCALAPPDATA"),
        false => folder("HOME").map(|home| home.join(".cache")),
    };
    Some(folder("XDG_CACHE_HOME").or_else(of_user)?.join("rukh"))
}

/// The path `NAME-HASH.EXTENSION` in the cache folder, if the user has one. The hash is that of `key`, which holds
/// everything that the file's content depends on.
pub(crate) fn file(name: &str, key: &str, extension: &str) -> Option<PathBuf> {
    Some(folder()?.join(format!("{name}-{:016x}.{extension}", hash_of(key))))
}

/// The line that [`keep_line`] has written for the same key.
pub(crate) fn kept_line(name: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file(name, key, "txt")?).ok()?;
    let (line, rest) = text.split_once('\n')?;
    (rest == key).then(|| line.to_owned())
}

/// Keeps a line for the next start, with its key, in [`file`]`(name, key, "txt")`.
///
/// # Errors
/// There is no cache folder, or it cannot be written.
pub(crate) fn keep_line(name: &str, key: &str, line: &str) -> io::Result<()> {
    let path = file(name, key, "txt").ok_or_else(no_folder)?;
    keep(&path, format!("{}\n{key}", line.replace(['\n', '\r'], " ")).as_bytes())
}

/// The error of a user without a cache folder.
pub(crate) fn no_folder() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "there is no cache folder")
}

/// A hash for the names and keys of cached results.
pub(crate) fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Writes a file and creates its folder. The content goes to a temporary file first, so that no reader sees a partial
/// file.
///
/// # Errors
/// The folder or the file cannot be written. No partial file is left behind.
pub(crate) fn keep(path: &Path, content: &[u8]) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_system_keeps_caches() {
        let home = |is_windows, set: &[(&str, &str)]| {
            let value = |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into());
            folder_of(is_windows, value)
        };
        let all = [("LOCALAPPDATA", "local"), ("HOME", "home"), ("XDG_CACHE_HOME", "")];
        assert_eq!(home(true, &all), Some("local/rukh".into()));
        assert_eq!(home(false, &all), Some("home/.cache/rukh".into()));
        let chosen = [("LOCALAPPDATA", "local"), ("HOME", "home"), ("XDG_CACHE_HOME", "chosen")];
        assert_eq!(home(true, &chosen), Some("chosen/rukh".into()));
        assert_eq!(home(false, &chosen), Some("chosen/rukh".into()));
        assert_eq!(home(true, &all[1..]), None);
        assert_eq!(home(false, &[]), None);
    }
}
