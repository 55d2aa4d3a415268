//! A process of this program that a card's libraries may end or block, and the lines that it writes.

use super::exchange::{parse_event, request_text};
use rukh_base::sync::start_system_thread;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The longest wait for a process to end after it was killed or has closed its output. A process whose card hangs may
/// never end.
pub const FAREWELL: Duration = Duration::from_secs(2);

/// The time between two looks at something that may never end.
pub const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A running process. Dropping it kills it.
pub struct ChildProcess {
    child: Child,
    /// The lines of its standard output. The channel closes when the process ends.
    lines: Receiver<String>,
}

/// What was heard from a process.
pub enum Heard<E> {
    /// An event.
    Event(E),
    /// Nothing until the time was over.
    Nothing,
    /// The process has ended in this way.
    End(String),
}

impl ChildProcess {
    /// Starts `program` with one argument. `errors` is for its error output.
    ///
    /// # Errors
    /// The process or the thread that reads its output cannot be started.
    pub fn start(program: &Path, argument: &str, errors: Stdio) -> io::Result<ChildProcess> {
        let mut command = Command::new(program);
        command.arg(argument).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        #[cfg(windows)]
        {
            use std::os::windows::process::CommandExt;
            const CREATE_NO_WINDOW: u32 = 0x0800_0000;
            command.creation_flags(CREATE_NO_WINDOW);
        }
        let mut child = command.spawn()?;
        let (sender, lines) = channel();
        let output = child.stdout.take();
        let process = ChildProcess { child, lines };
        start_system_thread("lines of a process", move || {
            let _ = output.map(|output| each_line(output, |line| sender.send(line).is_ok()));
        })?;
        Ok(process)
    }

    /// The error output, if it is piped and was not taken yet.
    pub fn take_errors(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Writes `request` to the standard input, and closes it. A process that is gone already does not read. Its silence
    /// is noticed later.
    pub fn ask(&mut self, request: &impl Serialize) {
        if let Some(mut input) = self.child.stdin.take() {
            let _ = input.write_all(request_text(request).as_bytes());
        }
    }

    /// Waits for the next event, until a point in time. Other lines do not count, however many a library prints.
    pub fn hear<E: DeserializeOwned>(&mut self, until: Instant) -> Heard<E> {
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => match parse_event(&line) {
                    Some(event) => return Heard::Event(event),
                    None if Instant::now() < until => continue,
                    None => return Heard::Nothing,
                },
                Err(RecvTimeoutError::Timeout) => return Heard::Nothing,
                Err(RecvTimeoutError::Disconnected) => return Heard::End(self.end()),
            }
        }
    }

    /// Whether the process has ended without an error.
    pub(crate) fn has_succeeded(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(status)) if status.success())
    }

    /// Waits for a process that has closed its output, and says how it ended.
    fn end(&mut self) -> String {
        let begin = Instant::now();
        while begin.elapsed() < FAREWELL {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.to_string();
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        "it closed its output".to_owned()
    }

    /// Kills the process, and gives it a moment to disappear.
    pub fn kill(&mut self) {
        // An error means that the process has ended.
        let _ = self.child.kill();
        self.end();
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a process ended that was killed because it said nothing for `patience`.
pub fn silence(patience: Duration) -> String {
    format!("no answer for {:.0} s", patience.as_secs_f32())
}

/// Calls `take` with each line of a process's output until it returns false. Bytes that are no text are replaced.
pub fn each_line(output: impl Read, mut take: impl FnMut(String) -> bool) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        if !take(String::from_utf8_lossy(&line).trim_end().to_owned()) {
            return;
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_prints_without_end_says_nothing() {
        let mut process =
            ChildProcess::start(Path::new("yes"), "no event", Stdio::null()).expect("it starts");
        let begin = Instant::now();
        let heard = process.hear::<String>(begin + Duration::from_millis(50));
        assert!(matches!(heard, Heard::Nothing));
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
}
