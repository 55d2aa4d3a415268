//! Reads files that the user or another program names, and that must be regular files of a limited size.
//!
//! A pipe would wait for a writer, and a device such as `/dev/zero` has no end. A configuration, a network, a table or a
//! kept result is never one of them, so they are refused before they are opened.

use crate::os_error::in_words;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Why a file is not read. The text of each variant is a clause without a full stop that follows the file's name.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file does not exist, or the operating system cannot open or read it.
    #[error("{}", in_words(.0))]
    Io(#[from] io::Error),
    /// The path names a directory.
    #[error("it is a directory, not a file")]
    Directory,
    /// The path names a device, a pipe or a socket.
    #[error("it is not a regular file")]
    NotRegular,
    /// The file has more bytes than it may have.
    #[error("the file is too large: more than {limit_bytes} bytes")]
    TooLarge {
        /// The largest size allowed, in bytes.
        limit_bytes: u64,
    },
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> io::Error {
        match error {
            FileError::Io(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidInput, other.to_string()),
        }
    }
}

/// Opens a regular file to read it. A symbolic link is followed.
///
/// # Errors
/// It is another kind of file, or the system refuses it.
pub fn open(path: &Path) -> Result<(File, Metadata), FileError> {
    // To open a device can have an effect, so the name is asked first. Another file may have this name a moment later,
    // so the open file is asked too.
    check_kind(&fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        // A pipe that has taken the place of the file is opened without waiting for a writer.
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    check_kind(&metadata)?;
    Ok((file, metadata))
}

/// # Errors
/// The file is not regular.
pub fn check_kind(metadata: &Metadata) -> Result<(), FileError> {
    if metadata.is_dir() {
        Err(FileError::Directory)
    } else if metadata.is_file() {
        Ok(())
    } else {
        Err(FileError::NotRegular)
    }
}

/// The content of a regular file that has at most `limit_bytes`.
///
/// # Errors
/// It is another kind of file, it is larger, the system cannot read it, or the memory does not suffice.
pub fn read(path: &Path, limit_bytes: u64) -> Result<Vec<u8>, FileError> {
    let (file, metadata) = open(path)?;
    read_open(file, &metadata, limit_bytes)
}

/// Does the same as [`read`] for a file that is open.
///
/// # Errors
/// As those of [`read`].
pub fn read_open(file: File, metadata: &Metadata, limit_bytes: u64) -> Result<Vec<u8>, FileError> {
    let too_large = FileError::TooLarge { limit_bytes };
    if metadata.len() > limit_bytes {
        return Err(too_large);
    }
    let mut bytes = Vec::new();
    let length = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(length).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    // The size is only what the system says: a file may grow meanwhile, and some files of the kernel say 0.
    file.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit_bytes {
        return Err(too_large);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        let error = read(&path, 4).unwrap_err().to_string();
        assert_eq!(error, "the file is too large: more than 4 bytes");
        assert!(matches!(read(folder.path(), 5), Err(FileError::Directory)));
        assert_eq!(read(&folder.path().join("none"), 5).unwrap_err().to_string(), "it does not exist");
    }

    /// A sparse file that is larger than the memory takes no memory before it is refused.
    #[test]
    fn a_file_that_is_too_large_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(
            matches!(read(&path, 1 << 30), Err(FileError::TooLarge { limit_bytes }) if limit_bytes == 1 << 30)
        );
    }

    #[cfg(unix)]
    #[test]
    fn devices_and_pipes_are_refused_at_once() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), Path::new("/dev/null")] {
            assert!(matches!(read(path, 5), Err(FileError::NotRegular)), "{}", path.display());
        }
    }

    /// The kernel says that it is empty.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_that_says_no_size_is_bounded_too() {
        let path = Path::new("/proc/self/status");
        assert!(read(path, 1 << 20).unwrap().starts_with(b"Name:"));
        assert!(matches!(read(path, 10), Err(FileError::TooLarge { .. })));
    }
}
