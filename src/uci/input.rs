//! Reads stdin on a thread of its own.
//!
//! If nobody reads what the engine writes, the pipe becomes full, and a thread that writes waits for ever. The session
//! may be that thread, or wait for it. `quit` and the end of stdin must end the process nevertheless.

use super::lines::{Line, LineReader};
use super::output::Output;
use super::parse;
use crossbeam_channel::{Receiver, Sender, unbounded};
use rukh_base::sync::start_system_thread;
use std::io::{self, BufRead, StdinLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long a write may be blocked after `quit` or the end of stdin.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time between two looks at the writes.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// The most bytes of lines that wait for the session.
const MOST_BYTES_WAITING: usize = 64 << 20;

/// The exit code if the end of the output was never read.
const UNREAD: i32 = 1;

/// Where the lines of stdin come from.
pub(crate) enum Input {
    /// They come from the thread.
    Thread { lines: Receiver<Line>, bytes_waiting: Arc<AtomicUsize> },
    /// The system starts no thread.
    Here(LineReader<StdinLock<'static>>),
}

impl Input {
    /// Begins to read. After the last line, the process ends when a write to `output` has been blocked for
    /// [`PATIENCE`].
    pub(crate) fn stdin(output: &Arc<Output>) -> Input {
        let (sender, lines) = unbounded();
        let bytes_waiting = Arc::default();
        let (output, waiting) = (Arc::clone(output), Arc::clone(&bytes_waiting));
        let read = move || {
            read_all(io::stdin().lock(), &sender, &waiting);
            end_if_blocked(&output);
        };
        match start_system_thread("input", read) {
            Ok(_) => Input::Thread { lines, bytes_waiting },
            Err(_) => Input::Here(LineReader::new(io::stdin().lock())),
        }
    }

    /// Waits for the next line.
    pub(crate) fn next_line(&mut self) -> Line {
        match self {
            Input::Thread { lines, bytes_waiting } => {
                let line = lines.recv().unwrap_or(Line::End);
                bytes_waiting.fetch_sub(bytes_of(&line), Ordering::Relaxed);
                line
            }
            Input::Here(reader) => reader.next_line(),
        }
    }
}

/// Sends the lines up to `quit` or the end.
fn read_all(input: impl BufRead, sender: &Sender<Line>, bytes_waiting: &AtomicUsize) {
    let mut lines = LineReader::new(input);
    loop {
        let line = lines.next_line();
        let is_last = match &line {
            Line::Text(text) => parse::is_quit(text),
            Line::Refused { .. } => false,
            Line::End => true,
        };
        bytes_waiting.fetch_add(bytes_of(&line), Ordering::Relaxed);
        if sender.send(line).is_err() || is_last {
            return;
        }
        while bytes_waiting.load(Ordering::Relaxed) > MOST_BYTES_WAITING {
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}

fn bytes_of(line: &Line) -> usize {
    let text = match line {
        Line::Text(text) => text.len(),
        Line::Refused { reason, start } => reason.len() + start.len(),
        Line::End => 0,
    };
    text + size_of::<Line>()
}

/// Ends the process when a write has been blocked for [`PATIENCE`]. Otherwise the process ends in the meantime, and
/// this thread with it.
fn end_if_blocked(output: &Output) {
    loop {
        if output.blocked_for() >= PATIENCE {
            std::process::exit(UNREAD);
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}
