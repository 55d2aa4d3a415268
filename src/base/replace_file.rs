//! Writes a whole file, and puts it in the place of an old one.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The pauses between attempts. Virus scanners and indexers open a new file for some milliseconds.
const PAUSES_MS: [u64; 6] = [1, 5, 15, 30, 60, 100];

/// Windows' numbers for a file that another program has open: access denied, sharing violation, lock violation.
const IN_USE: [i32; 3] = [5, 32, 33];

/// What the names of files begin with that are not complete.
pub const PARTIAL: &str = ".partial-";

/// Who may use a file that is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Everybody whom the process's file mode creation mask (`umask`) lets in, as usual.
    Usual,
    /// The user alone.
    Private,
}

/// Writes the file `place` with `write`. The file appears when it is complete. Until then it has a new name in the same
/// folder, which begins with [`PARTIAL`].
///
/// # Errors
/// The file cannot be written. A file that was there before is unchanged, and nothing of the new one is left.
pub fn write_whole(
    place: &Path,
    access: Access,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    let (file, path) = new_file_beside(place, access)?;
    let mut writer = BufWriter::with_capacity(1 << 16, &file);
    let written = write(&mut writer).and_then(|()| writer.flush());
    drop(writer);
    // Windows renames no file that is open.
    drop(file);
    written.and_then(|()| replace_file(&path, place)).inspect_err(|_| {
        let _ = fs::remove_file(&path);
    })
}

/// Makes a file in the folder of `place`, under a new name that begins with [`PARTIAL`]. An existing file or link is
/// never opened.
///
/// # Errors
/// The folder does not exist, or the system refuses it.
pub fn new_file_beside(place: &Path, access: Access) -> io::Result<(File, PathBuf)> {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(PARTIAL);
    #[cfg(unix)]
    if access == Access::Usual {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    // On Windows the folder says who may use a file.
    let _ = access;
    builder.tempfile_in(folder)?.keep().map_err(|error| error.error)
}

/// Renames the file `new` to `place`, where there may be a file already. Windows refuses that while another program has
/// this file open, so that some more attempts are made there.
///
/// # Errors
/// The last attempt failed.
pub fn replace_file(new: &Path, place: &Path) -> io::Result<()> {
    let is_in_use =
        |error: &io::Error| cfg!(windows) && error.raw_os_error().is_some_and(|code| IN_USE.contains(&code));
    repeated(|| fs::rename(new, place), is_in_use)
}

/// Calls `attempt` until it succeeds, fails with an error that cannot pass, or has failed after all pauses.
fn repeated(
    mut attempt: impl FnMut() -> io::Result<()>,
    can_pass: impl Fn(&io::Error) -> bool,
) -> io::Result<()> {
    for pause in PAUSES_MS {
        match attempt() {
            Err(error) if can_pass(&error) => thread::sleep(Duration::from_millis(pause)),
            result => return result,
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn an_error_that_passes_is_waited_for() {
        let mut failures = vec![IN_USE[1], IN_USE[0]];
        let attempt = || failures.pop().map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)));
        assert!(repeated(attempt, |_| true).is_ok());
        assert_eq!(failures, [] as [i32; 0]);
        let mut attempts = 0;
        let attempt = || {
            attempts += 1;
            Err(io::Error::other("the disk is full"))
        };
        assert!(repeated(attempt, |_| false).is_err());
        assert_eq!(attempts, 1);
    }

    #[test]
    fn a_file_is_there_whole_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (text, access) in [("one", Access::Usual), ("two", Access::Private)] {
            write_whole(&path, access, |file| file.write_all(text.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
                assert!(access == Access::Usual || mode == 0o600, "{mode:o}");
            }
        }
        let failed = write_whole(&path, Access::Usual, |file| {
            file.write_all(b"three")?;
            Err(io::Error::other("the disk is full"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        assert!(write_whole(&folder.path().join("none/file"), Access::Usual, |_| Ok(())).is_err());
    }

    /// Another engine reads the old file while the new one takes its place.
    #[test]
    fn a_file_is_replaced_while_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        fs::write(&old, "before").unwrap();
        fs::write(&new, "after").unwrap();
        let mut reader = File::open(&old).unwrap();
        let replaced = thread::scope(|scope| {
            let replaced = scope.spawn(|| replace_file(&new, &old));
            // Even where the system refuses to replace an open file, it does so only until the reader is done.
            thread::sleep(Duration::from_millis(20));
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text, "before");
            drop(reader);
            replaced.join().unwrap()
        });
        assert!(replaced.is_ok(), "{replaced:?}");
        assert_eq!(fs::read_to_string(&old).unwrap(), "after");
        assert!(!new.exists());
    }

    /// A program that shares the file with nobody, as virus scanners do.
    #[cfg(windows)]
    #[test]
    fn a_file_is_replaced_when_its_only_user_is_done() {
        use std::os::windows::fs::OpenOptionsExt;
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        fs::write(&old, "before").unwrap();
        fs::write(&new, "after").unwrap();
        let only_user = fs::OpenOptions::new().read(true).share_mode(0).open(&old).unwrap();
        assert!(fs::rename(&new, &old).is_err(), "the system refuses it now");
        thread::scope(|scope| {
            let replaced = scope.spawn(|| replace_file(&new, &old));
            thread::sleep(Duration::from_millis(20));
            drop(only_user);
            replaced.join().unwrap().unwrap();
        });
        assert_eq!(fs::read_to_string(&old).unwrap(), "after");
    }
}
