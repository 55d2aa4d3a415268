//! The journal of an analysis, by which it goes on after its process was killed.
//!
//! The journal is a file beside the output, with one JSON value on each line. The first line has the settings. There is a
//! line for the result of each position, and a line for each document that is in the output, with the length of the
//! output after it. A line is written by one call of the system after what it says is true, so a process that is killed
//! at any moment leaves at most one line without an end. The output may then be longer than the journal says; what is too
//! much is cut off and written again.

use super::ranges::Ranges;
use super::report::Analysis;
use rukh_base::os_error::why_not_written;
use rukh_base::replace_file::{Access, new_file_beside, replace_file};
use same_file::Handle;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A journal that is longer than this, in bytes, is written anew with what is still needed.
const COMPACT_BYTES: u64 = 64 << 20;

/// The longest line that is read, in bytes. The settings name all files of the command.
const LONGEST_LINE_BYTES: u64 = 64 << 20;

/// How often the file is opened again because another process has just removed or replaced it.
const ATTEMPTS: usize = 100;

/// A line of the journal. Documents are counted from 0, in the order of the input.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Record {
    /// The version of the program and the settings of the analysis.
    Settings(String),
    /// The result of the position `index` of a document.
    Result { document: u64, index: usize, analysis: Analysis },
    /// A document is in the output.
    Written { document: u64, lengths: Lengths },
    /// All documents that are in the output, in the place of their own lines: first and last of each range.
    Done { ranges: Vec<(u64, u64)>, lengths: Lengths },
    /// A file could not be read further. The document with this number is the first of the next file.
    Unread { document: u64 },
}

/// The lengths of the files that an analysis writes, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Lengths {
    /// The results.
    pub(super) output: u64,
    /// The documents that were refused.
    pub(super) rejected: u64,
}

/// What an earlier process has done.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    /// The documents that are in the output.
    pub(super) done: Ranges,
    /// The results of the other documents, by document and index.
    pub(super) results: BTreeMap<u64, BTreeMap<usize, Analysis>>,
    /// The lengths of the files that are complete.
    pub(super) lengths: Lengths,
    /// The documents that were refused.
    pub(super) rejected: Vec<u64>,
    /// Whether there may be more of these, because the journal was written anew.
    pub(super) has_more_rejected: bool,
    /// The documents before which a file could not be read further, in the order of the input. If the files are not read
    /// in the same way again, other documents have these numbers.
    pub(super) unread: Vec<u64>,
}

/// A journal that is locked, so that no other process can use it.
pub(super) struct Journal {
    path: PathBuf,
    settings: String,
    file: File,
    bytes: u64,
    compact_at: u64,
    /// Whether this process has made the file, and has written nothing into it.
    is_untouched: bool,
    /// The documents before which a file could not be read further, in the order of the input.
    unread: Vec<u64>,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refuses the file.
    #[error("cannot use the journal {}: {}", .0.display(), why_not_written(.0, .1))]
    File(PathBuf, #[source] io::Error),
    /// Another process writes the same output.
    #[error("the journal {} is in use by another process, which writes the same output", .0.display())]
    InUse(PathBuf),
    /// The file of this name is something else.
    #[error(
        "{} is no journal of an analysis, and stays as it is; choose another name for the output, or move that file away",
        .0.display()
    )]
    NoJournal(PathBuf),
    /// The journal belongs to another analysis.
    #[error(
        "the journal {} belongs to an analysis with other files, settings or another version; repeat its command to \
         finish it, or begin anew with --overwrite",
        .0.display()
    )]
    OtherSettings(PathBuf),
}

impl Journal {
    /// Locks the journal at `path`, which is made if there is none. `settings` describe the analysis. Nothing is written
    /// before [`Journal::begin`]. Also returns what an earlier process has done; `None` if there was no journal, or if it
    /// is to be written anew, `overwrite`.
    ///
    /// # Errors
    /// The file cannot be used, or is something else than a journal; or it belongs to an analysis with other settings,
    /// unless it is to be written anew.
    pub(super) fn open(
        path: &Path,
        settings: &str,
        overwrite: bool,
    ) -> Result<(Journal, Option<Recovered>), JournalError> {
        let failed = |error| JournalError::File(path.to_owned(), error);
        let (file, is_untouched) = lock(path)?;
        let mut found = Recovered::default();
        let mut sound_bytes = 0;
        let mut reader = BufReader::with_capacity(1 << 16, &file);
        let mut line = Vec::new();
        loop {
            line.clear();
            reader.by_ref().take(LONGEST_LINE_BYTES).read_until(b'\n', &mut line).map_err(failed)?;
            let record = match line.ends_with(b"\n") {
                true => serde_json::from_slice::<Record>(&line).ok(),
                // A line without an end was not written to its end.
                false => None,
            };
            match record {
                Some(Record::Settings(found)) if sound_bytes == 0 => {
                    if found != settings && !overwrite {
                        return Err(JournalError::OtherSettings(path.to_owned()));
                    }
                }
                Some(record) if sound_bytes > 0 => found.add(record),
                _ if sound_bytes == 0 && !is_begun_settings(&line) => {
                    return Err(JournalError::NoJournal(path.to_owned()));
                }
                _ => break,
            }
            sound_bytes += line.len() as u64;
        }
        drop(reader);
        let recovered = (sound_bytes > 0 && !overwrite).then_some(found);
        let bytes = if recovered.is_some() { sound_bytes } else { 0 };
        let journal = Journal {
            path: path.to_owned(),
            settings: settings.to_owned(),
            file,
            bytes,
            compact_at: COMPACT_BYTES.max(2 * bytes),
            is_untouched,
            unread: recovered.as_ref().map_or_else(Vec::new, |recovered| recovered.unread.clone()),
        };
        Ok((journal, recovered))
    }

    /// Cuts off what was not written to its end, or everything if the journal is written anew, and writes from there
    /// on.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn begin(&mut self) -> Result<(), JournalError> {
        let begun = self.file.set_len(self.bytes).and_then(|()| {
            self.file.seek(SeekFrom::Start(self.bytes))?;
            match self.bytes {
                0 => self.add(&Record::Settings(self.settings.clone())),
                _ => Ok(()),
            }
        });
        self.is_untouched = false;
        begun.map_err(|error| JournalError::File(self.path.clone(), error))
    }

    fn add(&mut self, record: &Record) -> io::Result<()> {
        let line = line_of(record)?;
        self.file.write_all(&line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Notes the result of a position.
    pub(super) fn result(&mut self, document: u64, index: usize, analysis: &Analysis) -> io::Result<()> {
        self.add(&Record::Result { document, index, analysis: analysis.clone() })
    }

    /// Notes that a document is in the output, whose files now have these lengths.
    pub(super) fn written(&mut self, document: u64, lengths: Lengths) -> io::Result<()> {
        self.add(&Record::Written { document, lengths })
    }

    /// Notes that a file could not be read further before this document.
    pub(super) fn unread(&mut self, document: u64) -> io::Result<()> {
        self.unread.push(document);
        self.add(&Record::Unread { document })
    }

    /// Whether the journal has become long.
    pub(super) fn is_long(&self) -> bool {
        self.bytes > self.compact_at
    }

    /// Writes the journal anew with the documents that are `done`, and the results of the others.
    ///
    /// # Errors
    /// The file cannot be written. The journal is then as it was.
    pub(super) fn compact<'a>(
        &mut self,
        done: &Ranges,
        lengths: Lengths,
        results: impl Iterator<Item = (u64, &'a BTreeMap<usize, Analysis>)>,
    ) -> io::Result<()> {
        let (file, new) = new_file_beside(&self.path, Access::Usual)?;
        // The lock on the old file ends with it.
        let _ = file.try_lock();
        let written = self.write_compact(&file, done, lengths, results);
        let bytes = written.inspect_err(|_| {
            let _ = fs::remove_file(&new);
        })?;
        // Windows does not replace a file that is open, not even for the process that has opened it. Elsewhere the old
        // file stays open, and so it stays locked, until the new one is in its place.
        let old = std::mem::replace(&mut self.file, file);
        let old = (!cfg!(windows)).then_some(old);
        if let Err(error) = replace_file(&new, &self.path) {
            let _ = fs::remove_file(&new);
            self.file = match old {
                Some(old) => old,
                None => reopen(&self.path)?,
            };
            return Err(error);
        }
        self.bytes = bytes;
        self.compact_at = COMPACT_BYTES.max(2 * bytes);
        Ok(())
    }

    /// Writes what [`Journal::compact`] keeps. Returns the number of bytes.
    fn write_compact<'a>(
        &self,
        file: &File,
        done: &Ranges,
        lengths: Lengths,
        results: impl Iterator<Item = (u64, &'a BTreeMap<usize, Analysis>)>,
    ) -> io::Result<u64> {
        let mut writer = BufWriter::new(file);
        let mut bytes = 0;
        let mut add = |record: &Record| {
            let line = line_of(record)?;
            bytes += line.len() as u64;
            writer.write_all(&line)
        };
        add(&Record::Settings(self.settings.clone()))?;
        add(&Record::Done { ranges: done.to_vec(), lengths })?;
        for &document in &self.unread {
            add(&Record::Unread { document })?;
        }
        for (document, results) in results {
            for (&index, analysis) in results {
                add(&Record::Result { document, index, analysis: analysis.clone() })?;
            }
        }
        writer.flush()?;
        Ok(bytes)
    }

    /// Removes the journal of an analysis that is complete.
    ///
    /// # Errors
    /// The system refuses it.
    pub(super) fn remove(self) -> io::Result<()> {
        if cfg!(windows) {
            // A file that is open keeps its name there until it is closed.
            drop(self.file);
            return fs::remove_file(&self.path);
        }
        // A process that has opened the file and waits for its lock finds out that the name leads nowhere.
        fs::remove_file(&self.path)
    }

    /// Leaves the place as it was found, if nothing was begun.
    pub(super) fn give_up(self) {
        if self.is_untouched {
            let _ = self.remove();
        }
    }
}

/// Opens the file and locks it. Also returns whether it was made now. A system without locks does not refuse a second
/// process.
fn lock(path: &Path) -> Result<(File, bool), JournalError> {
    let failed = |error| JournalError::File(path.to_owned(), error);
    if let Ok(metadata) = fs::metadata(path)
        && !metadata.is_file()
    {
        return Err(JournalError::NoJournal(path.to_owned()));
    }
    for _ in 0..ATTEMPTS {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let (file, is_new) = match options.clone().create_new(true).open(path) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match options.open(path) {
                Ok(file) => (file, false),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            },
            Err(error) => return Err(failed(error)),
        };
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(JournalError::InUse(path.to_owned()));
        }
        // The process that had the lock may have removed or replaced the file meanwhile.
        let is_in_place = match (file.try_clone().and_then(Handle::from_file), Handle::from_path(path)) {
            (Ok(locked), Ok(named)) => locked == named,
            (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => false,
            (Err(error), _) | (_, Err(error)) => return Err(failed(error)),
        };
        if is_in_place {
            return Ok((file, is_new));
        }
    }
    Err(JournalError::InUse(path.to_owned()))
}

/// Whether this is the beginning of the first line of a journal, whose process was killed while it wrote this line.
fn is_begun_settings(line: &[u8]) -> bool {
    const BEGINNING: &[u8] = b"{\"settings\":\"";
    let compared = line.len().min(BEGINNING.len());
    !line.ends_with(b"\n") && line[..compared] == BEGINNING[..compared]
}

/// Opens a journal to write on at its end. Windows does not lock a file that can only be appended to.
fn reopen(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).open(path)?;
    let _ = file.try_lock();
    Ok(file)
}

fn line_of(record: &Record) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    Ok(line)
}

impl Recovered {
    fn add(&mut self, record: Record) {
        match record {
            Record::Settings(_) => {}
            Record::Result { document, index, analysis } => {
                self.results.entry(document).or_default().insert(index, analysis);
            }
            Record::Written { document, lengths } => {
                self.results.remove(&document);
                self.done.insert(document);
                if lengths.rejected > self.lengths.rejected {
                    self.rejected.push(document);
                }
                self.lengths = lengths;
            }
            Record::Done { ranges, lengths } => {
                self.done = Ranges::from_vec(ranges);
                self.has_more_rejected = lengths.rejected > 0;
                self.lengths = lengths;
            }
            Record::Unread { document } => self.unread.push(document),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> (Journal, Recovered) {
        let (mut journal, recovered) = Journal::open(path, "settings", false).unwrap();
        journal.begin().unwrap();
        (journal, recovered.unwrap_or_default())
    }

    fn refusal(path: &Path, overwrite: bool) -> String {
        match Journal::open(path, "settings", overwrite) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_file_that_is_no_journal_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("o.pgn.journal");
        for content in
            ["my diary", "my diary\n", "[1, 2]\n", "{}\n", "{\"written\":1}\n{\"settings\":\"settings\"}\n"]
        {
            for overwrite in [false, true] {
                fs::write(&path, content).unwrap();
                let error = refusal(&path, overwrite);
                assert!(error.contains("o.pgn.journal is no journal of an analysis"), "{content}: {error}");
                assert_eq!(fs::read_to_string(&path).unwrap(), content);
            }
        }
        // A process was killed while it wrote the first line.
        for begun in ["", "{\"sett", "{\"settings\":\"settings and mo"] {
            fs::write(&path, begun).unwrap();
            drop(open(&path));
            assert_eq!(fs::read_to_string(&path).unwrap(), "{\"settings\":\"settings\"}\n");
        }
    }

    #[test]
    fn a_journal_that_was_not_begun_leaves_the_place_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        Journal::open(&path, "settings", false).unwrap().0.give_up();
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        Journal::open(&path, "settings", false).unwrap().0.give_up();
        assert!(path.exists(), "another program has made it");
    }

    #[test]
    fn a_journal_is_written_anew_only_if_nobody_uses_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let (mut journal, _) = open(&path);
        journal.written(0, Lengths::default()).unwrap();
        let before = fs::read(&path).unwrap();
        assert!(matches!(Journal::open(&path, "settings", true), Err(JournalError::InUse(_))));
        assert_eq!(fs::read(&path).unwrap(), before);
        drop(journal);
        let (mut journal, recovered) = Journal::open(&path, "other settings", true).unwrap();
        assert!(recovered.is_none());
        journal.begin().unwrap();
        drop(journal);
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"settings\":\"other settings\"}\n");
    }

    #[test]
    fn what_was_noted_comes_back_without_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let analysis = Analysis { nodes: 7, ..Analysis::default() };
        let lengths = Lengths { output: 90, rejected: 4 };
        let (mut journal, _) = open(&path);
        journal.result(0, 3, &analysis).unwrap();
        journal.result(1, 0, &analysis).unwrap();
        journal.written(0, lengths).unwrap();
        assert!(matches!(Journal::open(&path, "settings", false), Err(JournalError::InUse(_))));
        drop(journal);
        let complete = fs::read(&path).unwrap();
        let end = complete.len();
        for torn in end - 20..=end {
            fs::write(&path, &complete[..torn]).unwrap();
            let (mut next, recovered) = open(&path);
            let is_complete = torn == end;
            assert_eq!(recovered.done.contains(0), is_complete);
            assert_eq!(recovered.lengths, if is_complete { lengths } else { Lengths::default() });
            assert_eq!(recovered.results.len(), if is_complete { 1 } else { 2 });
            assert_eq!(recovered.results[&1][&0], analysis);
            // What is noted after a torn line is readable.
            next.result(5, 5, &analysis).unwrap();
            drop(next);
            assert!(open(&path).1.results.contains_key(&5));
        }
    }

    /// As on Windows after another program has kept the file from being replaced.
    #[test]
    fn a_journal_goes_on_at_its_end_after_it_was_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let (mut journal, _) = open(&path);
        let lengths = Lengths { output: 9, rejected: 0 };
        journal.written(0, Lengths::default()).unwrap();
        journal.file = File::create(folder.path().join("another")).unwrap();
        journal.file = reopen(&path).unwrap();
        assert!(matches!(Journal::open(&path, "settings", false), Err(JournalError::InUse(_))));
        journal.written(1, lengths).unwrap();
        drop(journal);
        let recovered = open(&path).1;
        assert_eq!((recovered.done.to_vec(), recovered.lengths), (vec![(0, 1)], lengths));
    }

    /// A program that does not let others rename the file has the journal open.
    #[cfg(windows)]
    #[test]
    fn a_journal_that_cannot_be_replaced_goes_on_as_it_was() {
        use std::os::windows::fs::OpenOptionsExt;
        const SHARES_READING_AND_WRITING: u32 = 3;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let (mut journal, _) = open(&path);
        let lengths = Lengths { output: 9, rejected: 0 };
        let mut done = Ranges::default();
        done.insert(0);
        journal.written(0, lengths).unwrap();
        let other =
            OpenOptions::new().write(true).share_mode(SHARES_READING_AND_WRITING).open(&path).unwrap();
        assert!(journal.compact(&done, lengths, std::iter::empty()).is_err());
        journal.written(1, lengths).unwrap();
        drop(other);
        done.insert(1);
        journal.compact(&done, lengths, std::iter::empty()).unwrap();
        journal.written(2, lengths).unwrap();
        drop(journal);
        assert_eq!(open(&path).1.done.to_vec(), [(0, 2)]);
    }

    #[test]
    fn a_compacted_journal_says_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let (mut journal, _) = open(&path);
        let lengths = Lengths { output: 5, rejected: 0 };
        for document in [0, 1, 2, 5] {
            journal.written(document, lengths).unwrap();
        }
        journal.unread(3).unwrap();
        let results = BTreeMap::from([(4, BTreeMap::from([(2, Analysis::default())]))]);
        let mut done = Ranges::default();
        [0, 1, 2, 5].into_iter().for_each(|document| done.insert(document));
        journal
            .compact(&done, lengths, results.iter().map(|(&document, results)| (document, results)))
            .unwrap();
        journal.written(3, lengths).unwrap();
        drop(journal);
        let recovered = open(&path).1;
        assert_eq!((recovered.done.to_vec(), recovered.lengths), (vec![(0, 3), (5, 5)], lengths));
        assert_eq!((recovered.results, recovered.unread), (results, vec![3]));
        assert!(matches!(Journal::open(&path, "other", false), Err(JournalError::OtherSettings(_))));
    }
}
