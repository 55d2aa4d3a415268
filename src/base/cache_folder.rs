//! The user's cache folder: results that take long to compute, but can be computed again.
//!
//! What is kept decides what runs on a graphics card, so it is believed only if nobody else can have written it: the
//! folder and the file belong to the user (or to root), and neither the group nor others may write to them. This holds
//! on Unix. On Windows the folder is in the user's profile, which others cannot write to.

use crate::regular_file;
use crate::replace_file::{Access, write_whole};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The most bytes of a file that is read: many times those of the largest, the rounded weights of a network.
const MOST_BYTES: u64 = 1 << 30;

/// The folder `rukh` in the user's cache folder, if the user has one.
pub fn folder() -> Option<PathBuf> {
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
pub fn file(name: &str, key: &str, extension: &str) -> Option<PathBuf> {
    Some(folder()?.join(format!("{name}-{:016x}.{extension}", hash_of(key))))
}

/// The line that [`keep_line`] has written for the same key.
pub fn kept_line(name: &str, key: &str) -> Option<String> {
    let text = String::from_utf8(read(&file(name, key, "txt")?).ok()?).ok()?;
    let (line, rest) = text.split_once('\n')?;
    (rest == key).then(|| line.to_owned())
}

/// Keeps a line for the next start, with its key, in [`file()`]`(name, key, "txt")`.
///
/// # Errors
/// There is no cache folder, or it cannot be written.
pub fn keep_line(name: &str, key: &str, line: &str) -> io::Result<()> {
    let path = file(name, key, "txt").ok_or_else(no_folder)?;
    keep(&path, format!("{}\n{key}", line.replace(['\n', '\r'], " ")).as_bytes())
}

/// The error of a user without a cache folder.
pub fn no_folder() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "there is no cache folder")
}

/// A hash for the names and keys of cached results.
pub fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The content of a file in the cache folder.
///
/// # Errors
/// There is no such file, it is no regular file, the system cannot read it, or somebody else may have written it.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    if let Some(folder) = path.parent() {
        check_owner(folder, &fs::metadata(folder)?)?;
    }
    // A link leads to a file that may be of somebody else's choice.
    regular_file::check_kind(&fs::symlink_metadata(path)?)?;
    let (file, metadata) = regular_file::open(path)?;
    check_owner(path, &metadata)?;
    Ok(regular_file::read_open(file, &metadata, MOST_BYTES)?)
}

/// # Errors
/// Somebody else may write to this file or folder.
fn check_owner(path: &Path, metadata: &Metadata) -> io::Result<()> {
    match others_access(metadata) {
        None => Ok(()),
        Some(access) => Err(io::Error::other(format!("{} {access}", path.display()))),
    }
}

/// Why somebody else may have written a file or in a folder, a predicate; `None` if nobody can.
#[cfg(unix)]
fn others_access(metadata: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt;
    /// The bits of the mode with which the group and others write.
    const WRITE: u32 = 0o022;
    let owner = metadata.uid();
    if owner != rustix::process::geteuid().as_raw() && owner != 0 {
        return Some("belongs to another user");
    }
    (metadata.mode() & WRITE != 0).then_some("can be written by others")
}

#[cfg(not(unix))]
fn others_access(_: &Metadata) -> Option<&'static str> {
    None
}

/// Writes a file of the cache folder, which only the user can use, and creates the folder. No reader sees a partial file.
///
/// # Errors
/// The folder or the file cannot be written, or somebody else may write into the folder. No partial file is left.
pub fn keep(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        make_private(folder)?;
        check_owner(folder, &fs::metadata(folder)?)?;
    }
    write_whole(path, Access::Private, |file| file.write_all(content))
}

/// Does the same for a file that may be one that the user has named, such as that of the option `tuning_file`. Such a file
/// can be used by others.
///
/// # Errors
/// As those of [`keep`].
pub fn keep_at(path: &Path, content: &[u8]) -> io::Result<()> {
    if folder().is_some_and(|cache| path.starts_with(cache)) {
        return keep(path, content);
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    write_whole(path, Access::Usual, |file| file.write_all(content))
}

/// Creates a folder that only the user can use, with the folders around it. An own folder to which others may write,
/// because the process that created it had such a mask (`umask`), is closed to them. What they have left in it is theirs,
/// and is not believed.
fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
        builder.mode(0o700).create(folder)?;
        let metadata = fs::metadata(folder)?;
        if others_access(&metadata).is_some() && metadata.uid() == rustix::process::geteuid().as_raw() {
            let closed = metadata.mode() & 0o777 & !0o022;
            fs::set_permissions(folder, fs::Permissions::from_mode(closed))?;
        }
        Ok(())
    }
    #[cfg(not(unix))]
    {
        builder.create(folder)
    }
}

/// Where results are kept, in words for the user, with the reason if what is there is not believed.
pub fn description() -> String {
    let Some(folder) = folder() else { return "none".to_owned() };
    let shown = folder.display();
    match fs::metadata(&folder) {
        Err(_) => format!("{shown}, empty"),
        Ok(metadata) if !metadata.is_dir() => format!("{shown}, not used: it is no folder"),
        Ok(metadata) => match others_access(&metadata) {
            Some(access) => format!("{shown}, not used: it {access}"),
            None => shown.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn only_what_nobody_else_can_have_written_is_believed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let set_mode =
            |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        fs::write(path("kept"), "sound").unwrap();
        set_mode(&path("kept"), 0o644);
        assert_eq!(read(&path("kept")).unwrap(), b"sound");
        for mode in [0o664, 0o646] {
            set_mode(&path("kept"), mode);
            let error = read(&path("kept")).unwrap_err().to_string();
            assert!(error.ends_with("kept can be written by others"), "{error}");
        }
        set_mode(&path("kept"), 0o600);
        symlink(path("kept"), path("link")).unwrap();
        assert!(read(&path("link")).is_err(), "a link");
        set_mode(folder.path(), 0o777);
        assert!(read(&path("kept")).is_err(), "a folder for everybody");
        make_private(folder.path()).unwrap();
        assert_eq!(read(&path("kept")).unwrap(), b"sound");
        let made = path("a/rukh");
        make_private(&made).unwrap();
        assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
    }

    /// Only root can give a file to another user.
    #[cfg(unix)]
    #[test]
    fn a_file_of_another_user_is_not_believed() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: only root can give a file to another user");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernels.co");
        fs::write(&path, "planted").unwrap();
        assert!(read(&path).is_ok());
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.ends_with("kernels.co belongs to another user"), "{error}");
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        std::os::unix::fs::chown(folder.path(), Some(12_345), None).unwrap();
        assert!(read(&path).is_err(), "the folder belongs to another user");
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_in_the_cache_folder_does_not_hang() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(read(&path).is_err());
    }

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
