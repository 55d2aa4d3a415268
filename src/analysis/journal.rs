//! The journal of an analysis, by which it goes on after its process was killed.
//!
//! The journal is a file beside the output, with one JSON value on each line. The first line has the settings. There is a
//! line for the result of each position, and a line for each document that is in the output, with the length of the
//! output after it. A line is written by one call of the system after what it says is true, so a process that is killed
//! at any moment leaves at most one line without an end. The output may then be longer than the journal says; what is too
//! much is cut off and written again.

use super::ranges::Ranges;
use super::report::Analysis;
use crate::os_error::in_words;
use crate::replace_file::replace_file;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A journal that is longer than this, in bytes, is written anew with what is still needed.
const COMPACT_BYTES: u64 = 64 << 20;

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
}

/// A journal that is being written.
pub(super) struct Journal {
    path: PathBuf,
    settings: String,
    file: File,
    bytes: u64,
    compact_at: u64,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refuses the file.
    #[error("cannot use the journal {}: {}", .0.display(), in_words(.1))]
    File(PathBuf, #[source] io::Error),
    /// Another process writes the same output.
    #[error("the journal {} is in use by another process, which writes the same output", .0.display())]
    InUse(PathBuf),
    /// The journal belongs to another analysis.
    #[error(
        "the journal {} belongs to an analysis with other files, settings or another version; repeat its command to \
         finish it, or begin anew with --overwrite",
        .0.display()
    )]
    OtherSettings(PathBuf),
}

impl Journal {
    /// Opens the journal at `path`, or begins one. `settings` describe the analysis.
    ///
    /// # Errors
    /// The file cannot be used, or it belongs to an analysis with other settings.
    pub(super) fn open(path: &Path, settings: &str) -> Result<(Journal, Recovered), JournalError> {
        let failed = |error| JournalError::File(path.to_owned(), error);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
        // A system without locks does not refuse a second process.
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(JournalError::InUse(path.to_owned()));
        }
        let mut recovered = Recovered::default();
        let mut sound_bytes = 0;
        let mut reader = BufReader::with_capacity(1 << 16, &file);
        let mut line = Vec::new();
        loop {
            line.clear();
            reader.read_until(b'\n', &mut line).map_err(failed)?;
            // A line without an end was not written to its end.
            if !line.ends_with(b"\n") {
                break;
            }
            let Ok(record) = serde_json::from_slice::<Record>(&line) else { break };
            match record {
                Record::Settings(found) if found != settings => {
                    return Err(JournalError::OtherSettings(path.to_owned()));
                }
                Record::Settings(_) => {}
                _ if sound_bytes == 0 => return Err(JournalError::OtherSettings(path.to_owned())),
                record => recovered.add(record),
            }
            sound_bytes += line.len() as u64;
        }
        drop(reader);
        file.set_len(sound_bytes).map_err(failed)?;
        (&file).seek(SeekFrom::Start(sound_bytes)).map_err(failed)?;
        let (path, settings) = (path.to_owned(), settings.to_owned());
        let compact_at = COMPACT_BYTES.max(2 * sound_bytes);
        let mut journal = Journal { path, settings, file, bytes: sound_bytes, compact_at };
        if sound_bytes == 0 {
            let record = Record::Settings(journal.settings.clone());
            journal.add(&record).map_err(|error| JournalError::File(journal.path.clone(), error))?;
        }
        Ok((journal, recovered))
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
        let new = self.path.with_added_extension("new");
        let file = File::create(&new)?;
        // The lock on the old file ends with it.
        let _ = file.try_lock();
        let mut writer = BufWriter::new(&file);
        let mut bytes = 0;
        let mut add = |record: &Record| {
            let line = line_of(record)?;
            bytes += line.len() as u64;
            writer.write_all(&line)
        };
        add(&Record::Settings(self.settings.clone()))?;
        add(&Record::Done { ranges: done.to_vec(), lengths })?;
        for (document, results) in results {
            for (&index, analysis) in results {
                add(&Record::Result { document, index, analysis: analysis.clone() })?;
            }
        }
        writer.flush()?;
        drop(writer);
        // Windows does not replace a file that is open, not even for the process that has opened it. Elsewhere the old
        // file stays open, and so it stays locked, until the new one is in its place.
        let old = std::mem::replace(&mut self.file, file);
        let old = (!cfg!(windows)).then_some(old);
        if let Err(error) = replace_file(&new, &self.path) {
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

    /// Removes the journal of an analysis that is complete.
    pub(super) fn remove(self) -> io::Result<()> {
        drop(self.file);
        fs::remove_file(&self.path)
    }
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> (Journal, Recovered) {
        Journal::open(path, "settings").unwrap()
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
        assert!(matches!(Journal::open(&path, "settings"), Err(JournalError::InUse(_))));
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
        assert!(matches!(Journal::open(&path, "settings"), Err(JournalError::InUse(_))));
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
        assert_eq!(recovered.results, results);
        assert!(matches!(Journal::open(&path, "other"), Err(JournalError::OtherSettings(_))));
    }
}
