//! Finds the network for `WeightsFile`: a path, `<autodiscover>`, `<embedded>` or lc0's `<built in>`.
//!
//! Autodiscovery searches a few directories in a fixed order and, as in lc0, takes the newest network of the
//! first directory that has one. It recognises networks by their first bytes, whatever their names. A network that
//! turns out to be damaged is passed over, and the next one is taken. If no directory has a sound network, the embedded
//! one is used.
//!
//! The binary contains a network of the project. A user can append another to the binary, which then takes the place of
//! both the discovered and the embedded one. As in lc0, the binary ends with the network file's bytes, their number as a
//! 32-bit little-endian integer, and the bytes `Lc0!`.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[cfg(feature = "embedded")]
use prost::bytes::Bytes;

use super::error::{NetworkError, Reason};
use super::file::{self, NetworkFile};
use rukh_base::lc0_folders;
use rukh_base::regular_file;
use rukh_options::AUTODISCOVER;

/// The value of `WeightsFile` that selects the network inside the binary: the appended one if there is one, and
/// otherwise the project's own.
pub const EMBEDDED: &str = "<embedded>";

/// lc0's name for [`EMBEDDED`].
const BUILT_IN: &str = "<built in>";

/// The name of the network that is appended to the binary.
pub const APPENDED: &str = "<embedded, appended to the binary>";

/// The name of the project's own network, whether or not another is appended to the binary.
pub const OWN_NETWORK: &str = "<embedded, Rukh's own>";

/// The last bytes of a binary to which a network is appended. The length of the file stands before them.
const APPENDED_MAGIC: &[u8; 4] = b"Lc0!";

/// Autodiscovery does not open files with fewer bytes, because a directory may contain many other files.
const MINIMUM_SIZE: u64 = 64 << 10;

/// Opens the network at `location`, as [`Candidates`] understands it. `tell` receives a message for the user about each
/// network that is passed over.
///
/// # Errors
/// The file cannot be read, or is not a network.
pub fn find_network(location: &str, tell: impl FnMut(&str)) -> Result<NetworkFile, NetworkError> {
    let mut candidates = Candidates::at(location);
    let file = candidates.open_best();
    candidates.take_messages().iter().map(String::as_str).for_each(tell);
    file
}

/// The networks that a location stands for.
pub struct Candidates {
    /// At least one, and the best first.
    left: VecDeque<Candidate>,
    messages: Vec<String>,
}

enum Candidate {
    File(PathBuf),
    /// The network that is appended to the binary.
    Appended,
    /// The project's own network, under this name.
    Own(&'static str),
}

impl Candidates {
    /// The networks at `location`: a path, [`AUTODISCOVER`], or a name of a network in the binary, such as [`EMBEDDED`].
    /// An empty `location` means [`AUTODISCOVER`], because GUIs send an empty value when a user clears the field. Only
    /// [`AUTODISCOVER`] stands for several networks.
    pub fn at(location: &str) -> Candidates {
        let appended = || has_appended_network().then_some(Candidate::Appended);
        let own = || Candidate::Own(EMBEDDED);
        let left = match location {
            OWN_NETWORK => [Candidate::Own(OWN_NETWORK)].into(),
            EMBEDDED | BUILT_IN | APPENDED => [appended().unwrap_or_else(own)].into(),
            AUTODISCOVER | "" => {
                let found = discover().into_iter().map(Candidate::File);
                appended().into_iter().chain(found).chain([own()]).collect()
            }
            path => [Candidate::File(path.into())].into(),
        };
        Candidates { left, messages: Vec::new() }
    }

    /// Opens the best network that was not passed over. Those that cannot be opened are passed over.
    ///
    /// # Errors
    /// None of the networks can be opened. The error is that of the last one.
    pub fn open_best(&mut self) -> Result<NetworkFile, NetworkError> {
        loop {
            let opened = match &self.left[0] {
                Candidate::File(path) => NetworkFile::open(path),
                Candidate::Appended => appended_network(),
                Candidate::Own(name) => own_network(name),
            };
            match opened {
                Ok(file) => return Ok(file),
                Err(error) => self.pass_over(error)?,
            }
        }
    }

    /// Takes note that the network that was opened last cannot be used because of `error`.
    ///
    /// # Errors
    /// There is no other network, or the error is a wrong option and not a damaged network.
    pub fn pass_over(&mut self, error: NetworkError) -> Result<(), NetworkError> {
        if self.left.len() == 1 || matches!(error.reason, Reason::UnknownHead { .. }) {
            return Err(error);
        }
        self.left.pop_front();
        self.messages.push(format!("error: {error}; it is passed over"));
        Ok(())
    }

    /// Messages for the user, one for each network that was passed over since the last call.
    pub fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }
}

/// Checks that the file at `location` can be opened, if it is the path of a file.
///
/// # Errors
/// The file does not exist, is not a regular file, or the operating system cannot open it.
pub fn check_network(location: &str) -> Result<(), NetworkError> {
    if [AUTODISCOVER, ""].contains(&location) || is_in_the_binary(location) {
        return Ok(());
    }
    match regular_file::open(Path::new(location)) {
        Ok(_) => Ok(()),
        Err(error) => Err(NetworkError { path: location.into(), reason: error.into() }),
    }
}

/// Whether `location` is the name of a network in the binary.
pub(super) fn is_in_the_binary(location: &str) -> bool {
    [EMBEDDED, BUILT_IN, APPENDED, OWN_NETWORK].contains(&location)
}

#[cfg(feature = "embedded")]
fn own_network(name: &str) -> Result<NetworkFile, NetworkError> {
    NetworkFile::from_bytes(Path::new(name), Bytes::from_static(rukh_weights::NETWORK))
}

#[cfg(not(feature = "embedded"))]
fn own_network(name: &str) -> Result<NetworkFile, NetworkError> {
    Err(NetworkError { path: name.into(), reason: Reason::NotEmbedded })
}

/// Whether a network is appended to this program's binary. A binary that cannot be read is treated like one without a
/// network.
fn has_appended_network() -> bool {
    let length = rukh_base::program::file().and_then(|path| seek_appended(&mut File::open(path)?));
    matches!(length, Ok(Some(_)))
}

/// The network that is appended to this program's binary.
fn appended_network() -> Result<NetworkFile, NetworkError> {
    let bytes = rukh_base::program::file().and_then(|path| appended_bytes(&mut File::open(path)?));
    let bytes = bytes.map_err(|error| NetworkError { path: APPENDED.into(), reason: Reason::Io(error) })?;
    NetworkFile::from_bytes(Path::new(APPENDED), bytes.unwrap_or_default().into())
}

/// The bytes of the network that is appended to a binary; `None` if it does not end as described above.
fn appended_bytes(binary: &mut (impl Read + Seek)) -> io::Result<Option<Vec<u8>>> {
    let Some(length) = seek_appended(binary)? else { return Ok(None) };
    let mut bytes = Vec::new();
    binary.take(length).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Goes to the beginning of the network that is appended to a binary, and returns its length in bytes; `None` if the
/// binary does not end as described above.
fn seek_appended(binary: &mut (impl Read + Seek)) -> io::Result<Option<u64>> {
    const TRAILER: u64 = 8;
    let end = binary.seek(SeekFrom::End(0))?;
    let Some(trailer_start) = end.checked_sub(TRAILER) else {
        return Ok(None);
    };
    let (mut length, mut magic) = ([0; 4], [0; 4]);
    binary.seek(SeekFrom::Start(trailer_start))?;
    binary.read_exact(&mut length)?;
    binary.read_exact(&mut magic)?;
    let length = u64::from(u32::from_le_bytes(length));
    let Some(start) = trailer_start.checked_sub(length).filter(|_| &magic == APPENDED_MAGIC) else {
        return Ok(None);
    };
    binary.seek(SeekFrom::Start(start))?;
    Ok(Some(length))
}

/// All network files in [`search_directories`]. The first is the one to use.
pub fn discover() -> Vec<PathBuf> {
    discover_in(&search_directories())
}

/// The directories that autodiscovery searches, in order: the working directory, its `weights` directory, the
/// directory of the binary and its `networks` directory, `rukh` in the user's data directories, and lc0's directories.
pub fn search_directories() -> Vec<PathBuf> {
    let mut directories = vec![PathBuf::from("."), PathBuf::from("weights")];
    let binary = rukh_base::program::file().ok();
    let beside = binary.as_deref().and_then(Path::parent);
    // lc0 searches `networks` too.
    directories.extend(beside.iter().flat_map(|folder| [folder.to_path_buf(), folder.join("networks")]));
    let from_environment =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = from_environment("XDG_DATA_HOME")
        .or_else(|| from_environment("HOME").map(|home| home.join(".local/share")))
        .into_iter()
        .chain(from_environment("APPDATA"));
    directories.extend(data.map(|directory| directory.join("rukh")));
    directories.extend(lc0_folders::of_networks());
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
    use std::io::{Cursor, Write};
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
    fn the_appended_bytes_are_found_by_the_end_of_the_file() {
        let found = |file: &[u8]| appended_bytes(&mut Cursor::new(file)).expect("memory can be read");
        assert_eq!(found(b"program network\x07\0\0\0Lc0!").as_deref(), Some(&b"network"[..]));
        assert_eq!(found(b"\0\0\0\0Lc0!").as_deref(), Some(&b""[..]));
        let others: [&[u8]; 5] = [
            b"",
            b"Lc0!",
            b"network\x07\0\0\0Lc0?",
            b"network\x08\0\0\0Lc0!",
            b"network\xff\xff\xff\xffLc0!",
        ];
        assert!(others.iter().all(|other| found(other).is_none()));
    }

    #[test]
    fn the_embedded_network_is_part_of_the_binary() {
        let file = find_network(EMBEDDED, |_| panic!("passed over")).expect("it is part of the binary");
        assert_eq!(file.path(), Path::new(EMBEDDED));
    }
}
