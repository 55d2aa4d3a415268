//! The log file (`LogFile`). It has every line that was read (unless it was refused) or written, and notes that go only
//! to the log. Each entry begins with the seconds since the program started.

use super::blocked::WriteWatch;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The value of `LogFile` that means stderr.
const TERMINAL: &str = "<stderr>";

/// The log. All threads that write share it.
pub struct Log {
    started: Instant,
    target: Mutex<Target>,
    watch: WriteWatch,
}

/// The value of `LogFile`, and the file if one is open.
#[derive(Default)]
struct Target {
    path: String,
    file: Option<File>,
}

impl Default for Log {
    fn default() -> Log {
        Log { started: Instant::now(), target: Mutex::default(), watch: WriteWatch::default() }
    }
}

impl Log {
    /// Logs to `path` from now on. `<stderr>` means stderr, and an empty path turns the log off. An existing file is
    /// appended to.
    ///
    /// # Errors
    /// The file cannot be opened. Nothing is logged then.
    pub fn set_path(&self, path: &str) -> io::Result<()> {
        let mut target = self.lock();
        if target.path == path {
            return Ok(());
        }
        *target = Target { path: path.to_owned(), file: None };
        if path.is_empty() || path == TERMINAL {
            return Ok(());
        }
        let mut file = open(Path::new(path))?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        writeln!(file, "--- rukh {}, {seconds} s after 1970", rukh_base::version::version())?;
        target.file = Some(file);
        Ok(())
    }

    /// Logs a line from the GUI.
    pub fn read(&self, line: &str) {
        self.write(">>", line);
    }

    /// Logs a line to the GUI.
    pub fn written(&self, line: &str) {
        self.write("<<", line);
    }

    /// Logs a note, which is not sent to the GUI.
    pub fn note(&self, line: &str) {
        self.write("--", line);
    }

    /// Whether anything is logged.
    pub fn is_open(&self) -> bool {
        let target = self.lock();
        target.file.is_some() || target.path == TERMINAL
    }

    fn write(&self, direction: &str, line: &str) {
        let mut target = self.lock();
        let seconds = self.started.elapsed().as_secs_f64();
        let entry = || format!("{seconds:12.6} {direction} {line}\n");
        // Write errors are ignored: a full disk must not end a game.
        let _ = if let Some(file) = &mut target.file {
            self.watch.during(|| file.write_all(entry().as_bytes()))
        } else if target.path == TERMINAL {
            self.watch.during(|| io::stderr().write_all(entry().as_bytes()))
        } else {
            Ok(())
        };
    }

    /// For how long a write has waited for its reader.
    pub(super) fn blocked_for(&self) -> Duration {
        self.watch.blocked_for()
    }

    fn lock(&self) -> MutexGuard<'_, Target> {
        // A panic cannot leave the state invalid.
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a log file. If it is a pipe that nobody reads, opening or writing it fails instead of waiting for a reader, so
/// that the log never blocks the engine.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path)
}
