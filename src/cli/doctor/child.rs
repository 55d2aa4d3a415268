//! Runs a stage in a process of its own, which ROCm's libraries may end or block.
//!
//! The process says what it begins before it begins it. If it ends early or is silent for too long, another process
//! goes on without the items that are done and without the one that ended it.

use super::report::Death;
use crate::backend::rocm::doctor::{Line, Request, STAGE_ARGUMENT};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A stage whose processes end more often is given up.
const MOST_DEATHS: usize = 60;

/// The time that a killed process gets to disappear. A process whose card hangs may stay for ever.
const FAREWELL: Duration = Duration::from_secs(2);

/// The last lines of a process's error output that are kept, and the most bytes of a line.
const LAST_LINES: usize = 8;
const MOST_BYTES: usize = 300;

/// The time limits of a stage.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// For the whole stage.
    pub(super) time: Duration,
    /// A process that says nothing for so long during an item is killed.
    pub(super) patience: Duration,
}

/// Something that happened in a stage.
pub(super) enum Event {
    /// An event of the stage's process.
    Line(Line),
    /// An item ended the process.
    Death(Death),
}

/// How a stage ended.
pub(super) enum Outcome {
    Done,
    /// It cannot run, for this reason.
    Failed(String),
    /// It was ended at its time limit, during the item of this name.
    OutOfTime(Option<String>),
}

/// Runs the stage of `request`, and tells each event. The done items are added to the request.
pub(super) fn run_stage(
    program: &Path,
    request: &mut Request,
    limits: Limits,
    mut tell: impl FnMut(Event),
) -> Outcome {
    let deadline = Instant::now() + limits.time;
    for _ in 0..MOST_DEATHS {
        let done_before = request.done.len();
        let mut process = match Process::start(program, request) {
            Ok(process) => process,
            Err(error) => {
                return Outcome::Failed(format!("the process of the stage cannot be started: {error}"));
            }
        };
        let (item, how) = match process.listen(deadline, limits.patience, &mut request.done, &mut tell) {
            Ending::Of(outcome) => return outcome,
            Ending::Death(item, how) => (item, how),
        };
        let said = process.last_words();
        match item {
            Some(item) => {
                request.done.push(item.clone());
                request.killers.push(item.clone());
                tell(Event::Death(Death { item, how, said }));
            }
            // After a hang of the device, a process leaves the other items to the next one.
            None if request.done.len() > done_before => {}
            None => {
                let said = if said.is_empty() { said } else { format!("; it said: {said}") };
                return Outcome::Failed(format!("its process ended before the first item ({how}){said}"));
            }
        }
    }
    Outcome::Failed("its process ends again and again".to_owned())
}

/// How a process ended.
enum Ending {
    /// The stage is over.
    Of(Outcome),
    /// The process ended early or was killed: what it had begun, and how it ended.
    Death(Option<String>, String),
}

/// The process of a stage. Dropping it kills it.
struct Process {
    child: Child,
    lines: Receiver<String>,
    /// The last lines of the error output.
    errors: Option<JoinHandle<String>>,
}

impl Process {
    fn start(program: &Path, request: &Request) -> std::io::Result<Process> {
        let mut command = Command::new(program);
        command.arg(STAGE_ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (sender, lines) = channel();
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let mut process = Process { child, lines, errors: None };
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        named("lines of a stage").spawn(move || {
            let _ = output.map(|output| each_line(output, |line| sender.send(line).is_ok()));
        })?;
        process.errors = Some(named("errors of a stage").spawn(move || {
            let mut last = VecDeque::new();
            let _ = errors.map(|errors| {
                each_line(errors, |line| {
                    if last.len() == LAST_LINES {
                        last.pop_front();
                    }
                    last.push_back(line);
                    true
                });
            });
            Vec::from(last).join("\n")
        })?);
        // A process that is gone already does not read. Its silence is noticed later.
        if let Some(mut input) = process.child.stdin.take() {
            let _ = input.write_all(request.text().as_bytes());
        }
        Ok(process)
    }

    /// Tells what the process says until it ends, falls silent or reaches the deadline. The items that it ends are
    /// added to `done`.
    fn listen(
        &mut self,
        deadline: Instant,
        patience: Duration,
        done: &mut Vec<String>,
        tell: &mut impl FnMut(Event),
    ) -> Ending {
        // The items that have begun and not ended. Each contains the next one.
        let mut begun: Vec<String> = Vec::new();
        loop {
            let now = Instant::now();
            // Before its first item, a process loads libraries and the network, and may compile kernels or measure
            // products, which can take long.
            let silent = if begun.is_empty() { deadline } else { deadline.min(now + patience) };
            let text = match self.lines.recv_timeout(silent.saturating_duration_since(now)) {
                Ok(text) => text,
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                    return Ending::Of(Outcome::OutOfTime(begun.pop()));
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Ending::Death(
                        begun.pop(),
                        format!("no answer for {:.0} s", patience.as_secs_f32()),
                    );
                }
                Err(RecvTimeoutError::Disconnected) => return Ending::Death(begun.pop(), self.end()),
            };
            let Some(line) = Line::parse(&text) else { continue };
            match &line {
                Line::Begin(item) => begun.push(item.clone()),
                Line::End(item) => {
                    if begun.last() == Some(item) {
                        begun.pop();
                    }
                    done.push(item.clone());
                }
                Line::Done => return Ending::Of(Outcome::Done),
                Line::Failed(reason) => return Ending::Of(Outcome::Failed(reason.clone())),
                Line::Row { .. } | Line::Note(_) => {}
            }
            tell(Event::Line(line));
        }
    }

    /// Waits for a process that has closed its output, and says how it ended.
    fn end(&mut self) -> String {
        let begin = Instant::now();
        while begin.elapsed() < FAREWELL {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.to_string();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        "it closed its output".to_owned()
    }

    /// Kills the process, and returns the last lines of its error output.
    fn last_words(&mut self) -> String {
        // An error means that the process has ended.
        let _ = self.child.kill();
        self.end();
        let begin = Instant::now();
        // A process that the process has started may keep the output open.
        while self.errors.as_ref().is_some_and(|errors| !errors.is_finished()) && begin.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_millis(2));
        }
        match self.errors.take() {
            Some(errors) if errors.is_finished() => errors.join().unwrap_or_default(),
            _ => String::new(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.end();
    }
}

/// Calls `take` with each line of a process's output until it returns false. Bytes that are no text are replaced.
fn each_line(output: impl Read, mut take: impl FnMut(String) -> bool) {
    let is_mark = |line: &str| Line::parse(line).is_some();
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let mut text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if text.len() > MOST_BYTES && !is_mark(&text) {
            text.truncate(text.floor_char_boundary(MOST_BYTES));
        }
        if !take(text) {
            return;
        }
    }
}
