//! Whether a network's file has changed since it was read.

use std::fs::{self, Metadata};
use std::path::PathBuf;
use std::time::SystemTime;

use super::discover::{discover, is_in_the_binary};
use rukh_options::AUTODISCOVER;

/// The files that a location stands for, and what changes with their content. Two fingerprints of a location are equal
/// if nothing was changed in between.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct Fingerprint(Vec<(PathBuf, Option<Stamp>)>);

/// What the system knows about a file: its length, the time of its last change, and the file's number.
type Stamp = (u64, Option<SystemTime>, u64);

impl Fingerprint {
    /// The files at `location`, which has the meaning of [`find_network`](super::discover::find_network). The networks in
    /// the binary never change.
    pub fn of(location: &str) -> Fingerprint {
        let paths = match location {
            AUTODISCOVER | "" => discover(),
            name if is_in_the_binary(name) => Vec::new(),
            path => vec![PathBuf::from(path)],
        };
        let stamped = paths.into_iter().map(|path| {
            let stamp = fs::metadata(&path).ok().map(|metadata| stamp(&metadata));
            (path, stamp)
        });
        Fingerprint(stamped.collect())
    }
}

fn stamp(metadata: &Metadata) -> Stamp {
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    let number = 0;
    (metadata.len(), metadata.modified().ok(), number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::EMBEDDED;
    use std::path::Path;

    #[test]
    fn every_change_of_a_file_changes_its_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net.pb");
        let of_file = || Fingerprint::of(path.to_str().unwrap());
        let mut seen = vec![of_file()];
        let mut is_new = |step: &str| {
            let now = of_file();
            assert!(!seen.contains(&now), "{step}");
            seen.push(now);
        };
        fs::write(&path, b"one").unwrap();
        is_new("made");
        fs::write(&path, b"three").unwrap();
        is_new("longer");
        // Windows does not replace an open file.
        let make_old = |path: &Path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        };
        make_old(&path);
        is_new("older");
        let other = folder.path().join("other.pb");
        fs::write(&other, b"seven").unwrap();
        make_old(&other);
        fs::rename(&other, &path).unwrap();
        if cfg!(unix) {
            is_new("another file in its place, with the same length and time");
        }
        assert_eq!(of_file(), of_file());
        assert_eq!(Fingerprint::of(EMBEDDED), Fingerprint::default());
    }
}
