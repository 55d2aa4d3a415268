//! Writes the chunks of finished games into a folder: each into a file of its own, or many into a tar archive.
//!
//! Whenever the process ends, even by `kill -9`, everything under a final name is complete:
//!
//! - A file of a [`Store`] is written under another name first, and then linked to its final name, which fails if that
//!   name is taken. [`write_chunk_file`] and [`write_archive`] rename theirs instead, over a file of the same name.
//! - An archive always ends with empty blocks, which mark its end. A chunk is written behind the first of these, and then
//!   the chunk's header takes the place of this block, by a single write.
//!
//! A [`Store`] overwrites nothing. Files are numbered from the first number that is free, and several processes may
//! write into one folder.

use rukh_base::os_error::in_words;
use rukh_base::replace_file::{self, Access};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tar::{EntryType, Header};

/// The unit of tar archives, in bytes.
const BLOCK_BYTES: usize = 512;
/// The empty blocks at the end of an archive, in bytes.
const END_BYTES: usize = 2 * BLOCK_BYTES;

pub use rukh_base::replace_file::PARTIAL;

/// The chunks could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write training data to {}: {}", path.display(), in_words(reason))]
pub struct StoreError {
    /// The folder, the file or the archive.
    pub path: PathBuf,
    /// The system's error.
    pub reason: io::Error,
}

/// What the names of files with one chunk, and of archives, begin and end with.
const CHUNK_AFFIXES: (&str, &str) = ("game_", ".gz");
const ARCHIVE_AFFIXES: (&str, &str) = ("games_", ".tar");

/// The name of the file of a game, counted from 0.
pub fn chunk_name(number: u64) -> String {
    numbered(CHUNK_AFFIXES, number)
}

/// The name of an archive, counted from 0.
pub fn archive_name(number: u64) -> String {
    numbered(ARCHIVE_AFFIXES, number)
}

fn numbered((prefix, suffix): (&str, &str), number: u64) -> String {
    format!("{prefix}{number:06}{suffix}")
}

/// Writes a chunk into the file `path`. A file of this name is replaced.
///
/// # Errors
/// The system refuses to write.
pub fn write_chunk_file(path: &Path, chunk: &[u8]) -> Result<(), StoreError> {
    replace_file::write_whole(path, Access::Usual, |file| file.write_all(chunk))
        .map_err(|reason| StoreError { path: path.to_owned(), reason })
}

/// Writes the archive `path` with all its chunks, which are named after the games from number `first` on. An archive of
/// this name is replaced.
///
/// # Errors
/// The system refuses to write.
pub fn write_archive(path: &Path, first: u64, chunks: &[impl AsRef<[u8]>]) -> Result<(), StoreError> {
    let written = replace_file::write_whole(path, Access::Usual, |writer| {
        let mut archive = Archive::begin(writer.get_ref().try_clone()?, path.to_owned())?;
        let mut numbered = (first..).zip(chunks);
        numbered.try_for_each(|(number, chunk)| archive.add(&chunk_name(number), chunk.as_ref()))
    });
    written.map_err(|reason| StoreError { path: path.to_owned(), reason })
}

/// A folder of chunks.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// The number of chunks in each archive; `None` means files.
    chunks_per_archive: Option<u64>,
    /// The number of the next file or archive.
    next: u64,
    archive: Option<Archive>,
}

impl Store {
    /// A store in `folder`, which is made if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be made, or it cannot be read.
    pub fn new(folder: &Path, chunks_per_archive: Option<u64>) -> Result<Store, StoreError> {
        let failed = |reason| StoreError { path: folder.to_owned(), reason };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut store = Store { folder: folder.to_owned(), chunks_per_archive, next: 0, archive: None };
        let (prefix, suffix) = store.affixes();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix(prefix)?.strip_suffix(suffix));
            if let Some(number) = digits.and_then(|digits| digits.parse::<u64>().ok()) {
                store.next = store.next.max(number.saturating_add(1));
            }
        }
        Ok(store)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a chunk. Returns the path of its file or archive.
    ///
    /// # Errors
    /// The system refuses to write, for example because the disk is full. Then nothing of the chunk is left.
    pub fn add(&mut self, chunk: &[u8]) -> Result<PathBuf, StoreError> {
        match self.chunks_per_archive {
            None => self.add_file(chunk),
            Some(limit) => self.add_to_archive(chunk, limit.max(1)),
        }
    }

    fn affixes(&self) -> (&'static str, &'static str) {
        if self.chunks_per_archive.is_none() { CHUNK_AFFIXES } else { ARCHIVE_AFFIXES }
    }

    /// The path of the next file or archive, which no other may have.
    fn next_path(&mut self) -> PathBuf {
        let number = self.next;
        self.next += 1;
        self.folder.join(numbered(self.affixes(), number))
    }

    fn add_file(&mut self, chunk: &[u8]) -> Result<PathBuf, StoreError> {
        let failed = |reason| StoreError { path: self.folder.clone(), reason };
        let (mut file, part) =
            replace_file::new_file_beside(&self.folder.join("chunk"), Access::Usual).map_err(failed)?;
        let added = file.write_all(chunk).map_err(|reason| StoreError { path: part.clone(), reason });
        drop(file);
        let added = added.and_then(|()| {
            loop {
                let path = self.next_path();
                match give_name(&part, &path) {
                    Ok(()) => return Ok(path),
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    Err(reason) => return Err(StoreError { path, reason }),
                }
            }
        });
        // It is gone already if it was renamed.
        let _ = fs::remove_file(&part);
        added
    }

    fn add_to_archive(&mut self, chunk: &[u8], limit: u64) -> Result<PathBuf, StoreError> {
        if self.archive.as_ref().is_none_or(|archive| archive.chunks >= limit) {
            self.archive = Some(self.new_archive()?);
        }
        let first = (self.next - 1) * limit;
        let Some(archive) = &mut self.archive else {
            // It was made just now.
            return Ok(self.folder.clone());
        };
        let name = chunk_name(first + archive.chunks);
        match archive.add(&name, chunk) {
            Ok(()) => Ok(archive.path.clone()),
            Err(reason) => Err(StoreError { path: archive.path.clone(), reason }),
        }
    }

    fn new_archive(&mut self) -> Result<Archive, StoreError> {
        loop {
            let path = self.next_path();
            match Archive::create(path.clone()) {
                Ok(archive) => return Ok(archive),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(reason) => return Err(StoreError { path, reason }),
            }
        }
    }
}

/// Gives the file `part` the name `path`, unless there is such a file.
fn give_name(part: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(part, path) {
        // Some file systems have no links. There, two processes at the same moment are not kept apart.
        Err(error) if error.kind() != ErrorKind::AlreadyExists && !path.exists() => fs::rename(part, path),
        Err(_) if path.exists() => Err(ErrorKind::AlreadyExists.into()),
        linked => linked,
    }
}

/// A tar archive (POSIX.1-1988, `ustar`) that is being written.
#[derive(Debug)]
struct Archive {
    path: PathBuf,
    file: File,
    /// Where the empty blocks begin, in bytes.
    end: u64,
    chunks: u64,
}

impl Archive {
    /// An empty archive.
    fn create(path: PathBuf) -> io::Result<Archive> {
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Archive::begin(file, path.clone()).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })
    }

    /// An empty archive in a new file.
    fn begin(mut file: File, path: PathBuf) -> io::Result<Archive> {
        file.write_all(&[0; END_BYTES])?;
        Ok(Archive { path, file, end: 0, chunks: 0 })
    }

    fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_path(name)?;
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_entry_type(EntryType::Regular);
        header.set_mtime(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()));
        header.set_cksum();
        let padded = content.len().next_multiple_of(BLOCK_BYTES);
        let mut blocks = Vec::with_capacity(padded + END_BYTES);
        blocks.extend_from_slice(content);
        blocks.resize(padded + END_BYTES, 0);
        let written = self.write_at(self.end + BLOCK_BYTES as u64, &blocks);
        if let Err(error) = written {
            // What was written is behind the end of the archive. Another try would begin there too.
            let _ = self.file.set_len(self.end + END_BYTES as u64);
            return Err(error);
        }
        self.write_at(self.end, header.as_bytes())?;
        self.end += (BLOCK_BYTES + padded) as u64;
        self.chunks += 1;
        Ok(())
    }

    fn write_at(&mut self, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(place))?;
        self.file.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Read;
    use tempfile::TempDir;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The members of an archive by their names.
    fn members(path: &Path) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(File::open(path).unwrap());
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (name, content)
        });
        entries.collect()
    }

    #[test]
    fn files_are_numbered_after_those_that_are_there() {
        let folder = TempDir::new().unwrap();
        let folder = folder.path().join("deep/er");
        let mut store = Store::new(&folder, None).unwrap();
        assert_eq!(store.add(b"first").unwrap(), folder.join("game_000000.gz"));
        assert_eq!(store.add(b"second").unwrap(), folder.join("game_000001.gz"));
        fs::write(folder.join("game_000007.gz"), "theirs").unwrap();
        fs::write(folder.join("game_x.gz"), "other").unwrap();
        let mut later = Store::new(&folder, None).unwrap();
        assert_eq!(later.add(b"third").unwrap(), folder.join("game_000008.gz"));
        // The older store comes to names that others have taken.
        for _ in 2..7 {
            store.add(b"more").unwrap();
        }
        assert_eq!(store.add(b"last").unwrap(), folder.join("game_000009.gz"));
        assert_eq!(fs::read(folder.join("game_000007.gz")).unwrap(), b"theirs");
        assert_eq!(fs::read(folder.join("game_000008.gz")).unwrap(), b"third");
        assert!(names(&folder).iter().all(|name| !name.contains("partial")), "{:?}", names(&folder));
    }

    #[test]
    fn archives_hold_so_many_chunks_and_are_never_continued() {
        let folder = TempDir::new().unwrap();
        let content = |number: usize| vec![number as u8 + 1; [0, 1, 511, 512, 513][number]];
        let mut store = Store::new(folder.path(), Some(2)).unwrap();
        for number in 0..5 {
            let path = store.add(&content(number)).unwrap();
            assert_eq!(path, folder.path().join(format!("games_{:06}.tar", number / 2)));
        }
        let mut later = Store::new(folder.path(), Some(2)).unwrap();
        later.add(b"later").unwrap();
        assert_eq!(names(folder.path()), [0, 1, 2, 3].map(|number| format!("games_{number:06}.tar")));
        for archive in 0..3 {
            let expected: BTreeMap<String, Vec<u8>> = (2 * archive..(2 * archive + 2).min(5))
                .map(|number| (format!("game_{number:06}.gz"), content(number)))
                .collect();
            assert_eq!(members(&folder.path().join(format!("games_{archive:06}.tar"))), expected);
        }
        assert_eq!(members(&folder.path().join("games_000003.tar")).len(), 1);
    }

    #[test]
    fn an_archive_that_is_written_at_once_is_whole_or_not_there() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join(archive_name(3));
        for _ in 0..2 {
            write_archive(&path, 128, &[&b"one"[..], &[2; 600]]).unwrap();
        }
        assert_eq!(names(folder.path()), ["games_000003.tar"]);
        let expected = [("game_000128.gz", b"one".to_vec()), ("game_000129.gz", vec![2; 600])];
        assert_eq!(members(&path), expected.map(|(name, content)| (name.to_owned(), content)).into());
        let nowhere = folder.path().join("none").join(archive_name(0));
        let error = write_archive(&nowhere, 0, &[b"one"]).unwrap_err().to_string();
        assert!(error.contains("games_000000.tar"), "{error}");
    }

    /// At every step of the writing, what is in the file is an archive of whole chunks.
    #[test]
    fn a_process_that_ends_in_the_middle_leaves_a_whole_archive() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.tar");
        let mut archive = Archive::create(path.clone()).unwrap();
        archive.add("one", &[1; 700]).unwrap();
        let before = fs::read(&path).unwrap();
        archive.add("two", &[2; 900]).unwrap();
        let after = fs::read(&path).unwrap();
        let header = before.len() - END_BYTES;
        for written in header + BLOCK_BYTES..=after.len() {
            let mut torn = after[..written].to_vec();
            torn[header..header + BLOCK_BYTES].fill(0);
            fs::write(&path, torn).unwrap();
            assert_eq!(members(&path).into_keys().collect::<Vec<_>>(), ["one"], "{written} bytes");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let error = Store::new(Path::new("/proc/rukh"), None).unwrap_err().to_string();
        assert!(error.starts_with("cannot write training data to /proc/rukh: "), "{error}");
    }
}
