//! The user's cache folder, for results that take long to compute but can be computed again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder `rukh` in the user's cache folder (`XDG_CACHE_HOME`, `~/.cache` or `LOCALAPPDATA`), if the user has one.
pub(super) fn folder() -> Option<PathBuf> {
    let folder =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = folder("XDG_CACHE_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".cache")))
        .or_else(|| folder("LOCALAPPDATA"))?;
    Some(cache.join("rukh"))
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
    let written = fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
