//! Finds the network for `WeightsFile`: a path, `<autodiscover>` or `<embedded>`.
//!
//! Autodiscovery searches a few directories in a fixed order and, as in lc0, takes the newest network of the
//! first directory that has one. It recognises networks by their first bytes, whatever their names. If no
//! directory has a network, the embedded one is used.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use prost::bytes::Bytes;

use super::error::NetworkError;
use super::file::{self, NetworkFile};
use crate::options::AUTODISCOVER;

/// The value of `WeightsFile` that selects the network embedded in the binary. lc0 calls its own `<built in>`.
pub const EMBEDDED: &str = "<embedded>";

/// Autodiscovery does not open files with fewer bytes, because a directory may contain many other files.
const MINIMUM_SIZE: u64 = 64 << 10;

/// The embedded network as a `.pb.gz` file. The project trained it; see `weights/README.md`.
pub const EMBEDDED_BYTES: &[u8] = include_bytes!("../../weights/rukh-128x6.pb.gz");

/// Opens the network at `location`: a path, [`AUTODISCOVER`] or [`EMBEDDED`]. An empty `location` means
/// [`AUTODISCOVER`], because GUIs send an empty value when a user clears the field.
pub fn find_network(location: &str) -> Result<NetworkFile, NetworkError> {
    match location {
        EMBEDDED => open_embedded(),
        AUTODISCOVER | "" => match discover().first() {
            Some(path) => NetworkFile::open(path),
            None => open_embedded(),
        },
        path => NetworkFile::open(Path::new(path)),
    }
}

fn open_embedded() -> Result<NetworkFile, NetworkError> {
    NetworkFile::from_bytes(Path::new(EMBEDDED), Bytes::from_static(EMBEDDED_BYTES))
}

/// All network files in [`search_directories`]. The first is the one to use.
pub fn discover() -> Vec<PathBuf> {
    discover_in(&search_directories())
}

/// The directories that autodiscovery searches, in order: the working directory, its `weights` directory, the
/// directory of the binary, and `rukh` in the user's data directories.
pub fn search_directories() -> Vec<PathBuf> {
    let mut directories = vec![PathBuf::from("."), PathBuf::from("weights")];
    let binary = std::env::current_exe().ok();
    directories.extend(binary.and_then(|path| path.parent().map(Path::to_owned)));
    let from_environment =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = from_environment("XDG_DATA_HOME")
        .or_else(|| from_environment("HOME").map(|home| home.join(".local/share")))
        .into_iter()
        .chain(from_environment("APPDATA"));
    directories.extend(data.map(|directory| directory.join("rukh")));
    directories
}

/// The network files in `directories`, directory by directory, the newest first in each. Directories and files
/// that cannot be read are skipped.
pub fn discover_in(directories: &[PathBuf]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for directory in directories {
        let mut files = dated_files(directory);
        files.sort_by(|a, b| b.cmp(a));
        let networks = files.into_iter().map(|(_, path)| path).filter(|path| file::looks_like_network(path));
        found.extend(networks);
    }
    found
}

/// The regular files in `directory` that are large enough, with the times of their last changes.
fn dated_files(directory: &Path) -> Vec<(SystemTime, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let dated = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        // `fs::metadata` follows symbolic links, so a link to a network counts too.
        let metadata = fs::metadata(&path).ok()?;
        let is_candidate = metadata.is_file() && metadata.len() >= MINIMUM_SIZE;
        is_candidate.then_some((metadata.modified().ok()?, path))
    });
    dated.collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    /// Writes a file that begins with `head`, is large enough for autodiscovery, and was changed `age_s`
    /// seconds ago.
    fn write(path: &Path, head: &[u8], age_s: u64) {
        let mut file = File::create(path).expect("a file can be made");
        file.write_all(head)
            .and_then(|()| file.write_all(&[0; MINIMUM_SIZE as usize]))
            .expect("it can be written");
        let time = SystemTime::now() - Duration::from_secs(age_s);
        file.set_modified(time).expect("its time can be set");
    }

    #[test]
    fn the_newest_network_of_the_first_directory_comes_first() {
        const HEAD: &[u8] = b"\x0d\xc0\x01\x00\x00\x00\x00\x00";
        let root = std::env::temp_dir().join(format!("rukh-discover-{}", std::process::id()));
        let (first, second, missing) = (root.join("first"), root.join("second"), root.join("missing"));
        fs::create_dir_all(first.join("a-directory.pb.gz")).expect("directories can be made");
        fs::create_dir_all(&second).expect("directories can be made");
        let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        zipped
            .write_all(HEAD)
            .and_then(|()| zipped.write_all(&[0; 1 << 17]))
            .expect("memory can be written to");

        write(&first.join("old.pb"), HEAD, 300);
        write(&first.join("newer"), &zipped.finish().expect("memory can be written to"), 200);
        write(&first.join("newest-but-no-network.pb.gz"), b"PK", 100);
        fs::write(first.join("small.pb"), HEAD).expect("a file can be written");
        write(&second.join("new.pb"), HEAD, 0);
        let found = discover_in(&[missing, first.clone(), second.clone()]);
        fs::remove_dir_all(&root).expect("the directory can be removed");
        assert_eq!(found, [first.join("newer"), first.join("old.pb"), second.join("new.pb")]);
    }

    #[test]
    fn the_embedded_network_is_part_of_the_binary() {
        let file = find_network(EMBEDDED).expect("it is part of the binary");
        assert_eq!(file.path(), Path::new(EMBEDDED));
    }
}
