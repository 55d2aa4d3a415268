//! The log file (`LogFile`): every line read and written, and what is noted for it alone, with the time since the program
//! began.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The option's value that means the terminal.
const TERMINAL: &str = "<stderr>";

/// Where lines are logged to, if anywhere. Shared by the threads that write.
pub struct Log {
    begun: Instant,
    target: Mutex<Target>,
}

/// The file that is open, by the option's value.
#[derive(Default)]
struct Target {
    path: String,
    file: Option<File>,
}

impl Default for Log {
    fn default() -> Log {
        Log { begun: Instant::now(), target: Mutex::default() }
    }
}

impl Log {
    /// Logs to `path` from now on (`<stderr>`: the terminal; empty: nowhere). A file is added to.
    ///
    /// # Errors
    /// The file cannot be opened; then nothing is logged.
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

    /// Logs a line that nobody else sees.
    pub fn note(&self, line: &str) {
        self.write("--", line);
    }

    /// Whether what is logged goes anywhere.
    pub fn is_open(&self) -> bool {
        let target = self.lock();
        target.file.is_some() || target.path == TERMINAL
    }

    fn write(&self, direction: &str, line: &str) {
        let mut target = self.lock();
        let seconds = self.begun.elapsed().as_secs_f64();
        // A log that cannot be written must not stop a game.
        if let Some(file) = &mut target.file {
            let _ = writeln!(file, "{seconds:12.6} {direction} {line}");
        } else if target.path == TERMINAL {
            let _ = writeln!(io::stderr(), "{seconds:12.6} {direction} {line}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Target> {
        // No line is half written when a thread panics elsewhere, so the state is good.
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
