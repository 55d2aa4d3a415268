//! The only writer of stdout.

use super::blocked::WriteWatch;
use super::log::Log;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Writes whole lines and flushes each at once. All threads share it.
pub struct Output {
    sink: Mutex<Box<dyn Write + Send>>,
    log: Arc<Log>,
    watch: WriteWatch,
    when_broken: fn(&io::Error),
}

impl Output {
    /// Writes to stdout. If the reader has closed it (the GUI has ended, or `| head` has read enough), the process
    /// exits silently. On any other write error, such as a full disk, it exits with an error.
    pub fn stdout(log: Arc<Log>) -> Output {
        Output::new(Box::new(io::stdout()), log, |error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                std::process::exit(0);
            }
            let _ = writeln!(io::stderr(), "rukh: cannot write to stdout: {error}");
            std::process::exit(1);
        })
    }

    /// Writes to `sink`. Calls `when_broken` if a write fails.
    pub fn new(sink: Box<dyn Write + Send>, log: Arc<Log>, when_broken: fn(&io::Error)) -> Output {
        Output { sink: Mutex::new(sink), log, watch: WriteWatch::default(), when_broken }
    }

    /// The log, which gets a copy of every line.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Writes one line.
    pub fn line(&self, line: &str) {
        self.lines(&[line]);
    }

    /// Writes several lines with one call of the system, so that the reader gets them together, and no line of another
    /// thread comes between them.
    pub fn lines<S: AsRef<str>>(&self, lines: &[S]) {
        // A panic cannot leave the sink in an invalid state.
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for line in lines {
            self.log.written(line.as_ref());
            text.push_str(line.as_ref());
            text.push('\n');
        }
        self.watch.during(|| {
            if let Err(error) = sink.write_all(text.as_bytes()).and_then(|()| sink.flush()) {
                (self.when_broken)(&error);
            }
        });
    }

    /// For how long a write to the sink or to the log has waited for its reader.
    pub(super) fn blocked_for(&self) -> Duration {
        self.watch.blocked_for().max(self.log.blocked_for())
    }

    /// Writes text for the user: one `info string` for each line of it, with control characters replaced by spaces.
    pub fn message(&self, text: &str) {
        let lines: Vec<String> = text
            .lines()
            .map(|line| format!("info string {}", line.replace(|c: char| c.is_control(), " ")))
            .collect();
        self.lines(&lines);
    }

    /// Writes an error message as one `info string`.
    pub fn error(&self, error: &dyn std::fmt::Display) {
        self.message(&format!("error: {error}").replace('\n', " "));
    }
}
