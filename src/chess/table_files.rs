//! The files of the tablebases: which are there, and which of them are used.
//!
//! A table may be in several folders; the first folder in the list has precedence, as in Stockfish. `shakmaty-syzygy`
//! trusts the content of a file in places, so that a damaged one can make it panic. A file that panics or cannot be read
//! is left out from then on, and the same table in another folder takes its place, if there is one.

use rukh_base::os_error::in_words;
use shakmaty::Chess;
use shakmaty_syzygy::filesystem::{Filesystem, OsFilesystem, RandomAccessFile, ReadHint};
use shakmaty_syzygy::{ProbeError, SyzygyError, Tablebase};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The tables of some folders.
pub(super) struct TableFiles {
    /// The files of each table, by the name of the table's file, in the order of their folders.
    files: BTreeMap<OsString, Vec<PathBuf>>,
    paths: Arc<Paths>,
    /// The tables that are used. They are made anew when a file is left out.
    tables: RwLock<Arc<Tablebase<Chess>>>,
    max_pieces: usize,
    trouble: Mutex<Trouble>,
}

/// What is wrong with the files.
#[derive(Default)]
struct Trouble {
    /// The files that are left out.
    left_out: BTreeSet<PathBuf>,
    /// Messages, in the order in which they arose.
    messages: Vec<String>,
    /// Whether a message says that a file cannot be read at the moment.
    has_unreadable: bool,
}

impl TableFiles {
    /// Finds the tables in these folders. A folder that cannot be read, and a file whose size no table has, are left out.
    pub(super) fn find(folders: &[PathBuf]) -> TableFiles {
        let (mut files, mut trouble) = (BTreeMap::<OsString, Vec<PathBuf>>::new(), Trouble::default());
        let (mut seen, mut all) = (BTreeSet::new(), Tablebase::<Chess>::new());
        for folder in folders {
            let entries = match std::fs::read_dir(folder) {
                Ok(entries) => entries,
                Err(error) => {
                    trouble.messages.push(format!("cannot read {}: {}", folder.display(), in_words(&error)));
                    continue;
                }
            };
            if !seen.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())) {
                continue;
            }
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            for path in paths {
                let Some(name) = path.file_name().map(ToOwned::to_owned) else { continue };
                match all.add_file(&path) {
                    Ok(()) => files.entry(name).or_default().push(path),
                    // It is something else than a table.
                    Err(error) if error.kind() == ErrorKind::InvalidInput => {}
                    Err(error) => {
                        trouble.messages.push(left_out(
                            &path,
                            &what_is_wrong(&ProbeError::Read { error }),
                            None,
                        ));
                    }
                }
            }
        }
        let paths = Arc::new(Paths(files.values().flatten().cloned().collect()));
        let tables = tables_of(&files, &paths, &trouble.left_out);
        TableFiles {
            files,
            paths,
            max_pieces: tables.max_pieces(),
            tables: RwLock::new(Arc::new(tables)),
            trouble: Mutex::new(trouble),
        }
    }

    /// The number of tables.
    pub(super) fn count(&self) -> usize {
        self.files.len()
    }

    /// The largest number of pieces of a table.
    pub(super) fn max_pieces(&self) -> usize {
        self.max_pieces
    }

    /// What is wrong with the folders and the files, from the message `first` on.
    pub(super) fn messages(&self, first: usize) -> Vec<String> {
        self.trouble().messages.get(first..).unwrap_or_default().to_vec()
    }

    /// The answer of a probe. `None` if the tables do not have the position, or cannot be read.
    pub(super) fn probe<T>(&self, probe: impl Fn(&Tablebase<Chess>) -> Result<T, SyzygyError>) -> Option<T> {
        // Each round but the last leaves out a file.
        for _ in 0..=self.paths.0.len() {
            // `tables` is not locked while a probe reads or reports: reporting locks `trouble`, and `leave_out` waits
            // for `tables` while it holds `trouble`, so that the two could wait for each other.
            let tables = Arc::clone(&self.tables.read().unwrap_or_else(PoisonError::into_inner));
            LAST_READ.set(None);
            // The tables are sound after a panic: each is read once, and one whose reading panics stays unread.
            let problem = match catch_unwind(AssertUnwindSafe(|| probe(&tables))) {
                Ok(Ok(answer)) => return Some(answer),
                Ok(Err(SyzygyError::ProbeFailed { error, .. })) if is_passing(&error) => {
                    self.note_unreadable(&error);
                    return None;
                }
                Ok(Err(SyzygyError::ProbeFailed { error, .. })) => what_is_wrong(&error),
                Ok(Err(_)) => return None,
                Err(_) => "is damaged".to_owned(),
            };
            self.leave_out(LAST_READ.get(), &problem)?;
        }
        None
    }

    /// Leaves out the file that was read last, and uses the others from now on. `None` if no file was read.
    fn leave_out(&self, last_read: Option<usize>, problem: &str) -> Option<()> {
        let path = self.paths.0.get(last_read?)?;
        let mut trouble = self.trouble();
        // Another thread may have met the same file.
        if trouble.left_out.insert(path.clone()) {
            let same = path.file_name().and_then(|name| self.files.get(name));
            let other = same.and_then(|files| files.iter().find(|file| !trouble.left_out.contains(*file)));
            trouble.messages.push(left_out(path, problem, other.map(PathBuf::as_path)));
            let tables = tables_of(&self.files, &self.paths, &trouble.left_out);
            *self.tables.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tables);
        }
        Some(())
    }

    /// Reports the first file that cannot be read at the moment, for example because too many files are open.
    fn note_unreadable(&self, error: &ProbeError) {
        let Some(path) = LAST_READ.get().and_then(|index| self.paths.0.get(index)) else { return };
        let mut trouble = self.trouble();
        if !std::mem::replace(&mut trouble.has_unreadable, true) {
            trouble.messages.push(format!("{} {}", path.display(), what_is_wrong(error)));
        }
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first file of each table that is not left out.
fn tables_of(
    files: &BTreeMap<OsString, Vec<PathBuf>>,
    paths: &Arc<Paths>,
    left_out: &BTreeSet<PathBuf>,
) -> Tablebase<Chess> {
    let mut tables = Tablebase::with_filesystem(Arc::clone(paths) as Arc<dyn Filesystem>);
    for files in files.values() {
        // One that can no longer be added is gone, and the next one is used.
        let _ = files.iter().find(|file| !left_out.contains(*file) && tables.add_file(file).is_ok());
    }
    tables
}

fn left_out(path: &Path, problem: &str, other: Option<&Path>) -> String {
    let shown = path.display();
    match other {
        Some(other) => format!("{shown} {problem}; {} takes its place", other.display()),
        None => format!("{shown} {problem}; it is left out"),
    }
}

/// Why a table could not be read, in words that follow its name. The crate's own words for a damaged table have many
/// lines: the stack of its functions.
fn what_is_wrong(error: &ProbeError) -> String {
    match error {
        ProbeError::CorruptedTable { .. } => "is damaged".to_owned(),
        ProbeError::Magic { .. } => "does not begin like a Syzygy table".to_owned(),
        ProbeError::Read { error } if error.kind() == ErrorKind::InvalidData => {
            "is damaged: no table has its size".to_owned()
        }
        ProbeError::Read { error } if error.kind() == ErrorKind::UnexpectedEof => {
            "is damaged: it ends too early".to_owned()
        }
        ProbeError::Read { error } => format!("cannot be read: {}", in_words(error)),
    }
}

/// Whether the same file may be readable later.
fn is_passing(error: &ProbeError) -> bool {
    use ErrorKind::{InvalidData, InvalidInput, NotFound, PermissionDenied, UnexpectedEof};
    let lasting = [InvalidData, InvalidInput, NotFound, PermissionDenied, UnexpectedEof];
    matches!(error, ProbeError::Read { error } if !lasting.contains(&error.kind()))
}

thread_local! {
    /// The number of the file that this thread has read last, which tells at which file a probe failed.
    static LAST_READ: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The paths of all files, in ascending order of their tables. As a file system they note which file is read.
struct Paths(Vec<PathBuf>);

struct WatchedFile {
    file: Box<dyn RandomAccessFile>,
    number: Option<usize>,
}

impl Filesystem for Paths {
    fn regular_file_size(&self, path: &Path) -> io::Result<u64> {
        OsFilesystem::new().regular_file_size(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        OsFilesystem::new().read_dir(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomAccessFile>> {
        let number = self.0.iter().position(|known| known == path);
        LAST_READ.set(number);
        // It may have become a pipe, which would wait for a writer.
        self.regular_file_size(path)?;
        let file = OsFilesystem::new().open(path)?;
        Ok(Box::new(WatchedFile { file, number }))
    }
}

impl RandomAccessFile for WatchedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64, hint: ReadHint) -> io::Result<usize> {
        LAST_READ.set(self.number);
        self.file.read_at(buffer, offset, hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Position;

    /// The crate that reads the tables panics at some damaged ones.
    #[test]
    fn a_table_whose_reading_panics_is_left_out_alone() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/syzygy");
        let files = TableFiles::find(&[folder]);
        // Of a table that has one value for all positions, nothing would be read.
        let [pawn, queen] = ["8/8/8/8/3k4/8/P7/4K3 w - - 0 1", "8/8/8/8/3k4/8/8/1Q2K3 w - - 0 1"]
            .map(|fen| Position::from_fen(fen).expect("a valid FEN"));
        let wdl =
            |position: &Position| files.probe(|tables| tables.probe_wdl_after_zeroing(position.board()));
        assert!(wdl(&pawn).is_some() && wdl(&queen).is_some());
        let answer: Option<()> = files.probe(|tables| {
            let _ = tables.probe_wdl_after_zeroing(pawn.board())?;
            panic!("as after reading a damaged table");
        });
        assert_eq!(answer, None);
        assert_eq!((wdl(&pawn), wdl(&queen).is_some()), (None, true));
        let messages = files.messages(0);
        assert!(
            messages.len() == 1 && messages[0].ends_with("KPvK.rtbw is damaged; it is left out"),
            "{messages:?}"
        );
        assert_eq!(files.messages(1), [] as [String; 0]);
    }
}
