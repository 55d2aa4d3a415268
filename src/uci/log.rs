//! The log file (`LogFile`). It has every line that was read (unless it was refused) or written, and notes that go only
//! to the log. Each entry begins with the seconds since the program started.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The value of `LogFile` that means stderr.
const TERMINAL: &str = "<stderr>";

/// The log. All threads that write share it.
pub struct Log {
    started: Instant,
    target: Mutex<Target>,
}

/// The value of `LogFile`, and the file if one is open.
#[derive(Default)]
struct Target {
    path: String,
    file: Option<File>,
}

impl Default for Log {
    fn default() -> Log {
        Log { started: Instant::now(), target: Mutex::default() }
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
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        writeln!(file, "--- rukh {}, {seconds} s after 1970", env!("RUKH_VERSION"))?;
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
        // Write errors are ignored: a full disk must not end a game.
        if let Some(file) = &mut target.file {
            let _ = writeln!(file, "{seconds:12.6} {direction} {line}");
        } else if target.path == TERMINAL {
            let _ = writeln!(io::stderr(), "{seconds:12.6} {direction} {line}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Target> {
        // A panic cannot leave the state invalid.
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
