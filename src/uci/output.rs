//! The one writer of stdout.

use super::log::Log;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Writes whole lines, each flushed at once. Shared by all threads.
pub struct Output {
    sink: Mutex<Box<dyn Write + Send>>,
    log: Arc<Log>,
    when_broken: fn(&io::Error),
}

impl Output {
    /// Writes to stdout. When nobody reads it any more (the GUI is gone, or `| head` has seen enough) the
    /// process ends, without a word. Where it cannot be written (the disk is full), it ends with an error.
    pub fn stdout(log: Arc<Log>) -> Output {
        Output::new(Box::new(io::stdout()), log, |error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                std::process::exit(0);
            }
            let _ = writeln!(io::stderr(), "rukh: cannot write to stdout: {error}");
            std::process::exit(1);
        })
    }

    /// Writes to `sink`; calls `when_broken` if that fails.
    pub fn new(sink: Box<dyn Write + Send>, log: Arc<Log>, when_broken: fn(&io::Error)) -> Output {
        Output { sink: Mutex::new(sink), log, when_broken }
    }

    /// Where what it writes is logged.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Writes a line.
    pub fn line(&self, line: &str) {
        self.lines(&[line]);
    }

    /// Writes lines that belong together: no other thread's come between.
    pub fn lines<S: AsRef<str>>(&self, lines: &[S]) {
        // A sink that a panicking thread has left is good: lines are written whole.
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        for line in lines {
            let line = line.as_ref();
            self.log.written(line);
            if let Err(error) = writeln!(sink, "{line}").and_then(|()| sink.flush()) {
                (self.when_broken)(&error);
                return;
            }
        }
    }

    /// Writes text for the user as `info string`, whatever it holds: one line per line of it.
    pub fn message(&self, text: &str) {
        let lines: Vec<String> = text
            .lines()
            .map(|line| format!("info string {}", line.replace(|c: char| c.is_control(), " ")))
            .collect();
        self.lines(&lines);
    }

    /// Writes that something was wrong.
    pub fn error(&self, error: &dyn std::fmt::Display) {
        self.message(&format!("error: {error}").replace('\n', " "));
    }
}
