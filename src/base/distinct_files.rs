//! Refuses a command that would write one of its files over another.
//!
//! Two names may lead to one file: by links, by `.` and `..`, or by a file system that does not tell small letters from
//! capitals. So files that exist are compared by what the system says they are (device and inode), and names only if
//! there is no file yet. Devices and pipes may have several uses.

use same_file::Handle;
use std::fs;
use std::path::{Path, PathBuf};

/// Two uses of one file that exclude each other.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
#[error("{first} ({}) is the same file as {second} ({}); choose another name", .paths.0.display(), .paths.1.display())]
pub struct SharedFile {
    first: String,
    second: String,
    paths: (PathBuf, PathBuf),
}

/// What a name leads to.
#[derive(PartialEq)]
enum Identity {
    File(Handle),
    /// There is no such file, or it cannot be opened to ask for its identity. The folder's name is free of links.
    Name(PathBuf),
}

fn identity(path: &Path) -> Option<Identity> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return None,
        Ok(_) => {
            if let Ok(handle) = Handle::from_path(path) {
                return Some(Identity::File(handle));
            }
        }
        Err(_) => {}
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(Identity::Name(match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }))
}

/// Checks that each file that a command writes is neither another one that it writes nor one that it reads. Each file has
/// a name for the error beside its path, such as `--svg`.
///
/// # Errors
/// Two are the same file.
pub fn check_distinct(written: &[(&str, &Path)], read: &[(&str, &Path)]) -> Result<(), SharedFile> {
    let all: Vec<_> = written.iter().chain(read).map(|&(name, path)| (name, path, identity(path))).collect();
    for (index, (first, first_path, first_identity)) in all.iter().enumerate().take(written.len()) {
        let same =
            all[index + 1..].iter().find(|(.., other)| first_identity.is_some() && first_identity == other);
        if let Some((second, second_path, _)) = same {
            return Err(SharedFile {
                first: (*first).to_owned(),
                second: (*second).to_owned(),
                paths: ((*first_path).to_owned(), (*second_path).to_owned()),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_under_two_names_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("games.pgn"), "1. e4 *").unwrap();
        fs::create_dir(path("sub")).unwrap();
        fs::hard_link(path("games.pgn"), path("linked.pgn")).unwrap();
        let mut same = vec![path("games.pgn"), path("linked.pgn"), path("sub/../games.pgn")];
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(path("games.pgn"), path("symbolic.pgn")).unwrap();
            same.push(path("symbolic.pgn"));
        }
        let read = [("the input", path("games.pgn"))];
        let read: Vec<_> = read.iter().map(|(name, path)| (*name, path.as_path())).collect();
        for output in &same {
            let error = check_distinct(&[("--svg", output)], &read).unwrap_err();
            let (svg, input) = (output.display(), read[0].1.display());
            let expected =
                format!("--svg ({svg}) is the same file as the input ({input}); choose another name");
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(check_distinct(&[("--svg", &path("other.svg"))], &read), Ok(()));
        // Two inputs may be the same.
        assert_eq!(check_distinct(&[], &[read[0], read[0]]), Ok(()));
    }

    #[test]
    fn two_outputs_of_one_name_are_refused_before_they_exist() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("sub")).unwrap();
        let written = |second: &Path| check_distinct(&[("--output", &path("new")), ("--svg", second)], &[]);
        assert!(written(&path("new")).is_err() && written(&path("sub/../new")).is_err());
        assert_eq!(written(&path("newer")), Ok(()));
        assert_eq!(written(&path("sub/new")), Ok(()));
    }

    #[cfg(unix)]
    #[test]
    fn a_device_may_have_several_uses() {
        let null = Path::new("/dev/null");
        assert_eq!(check_distinct(&[("--svg", null), ("--output", null)], &[("the input", null)]), Ok(()));
    }
}
