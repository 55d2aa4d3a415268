//! Runs a stage in a process of its own, which a card's libraries may end or block.
//!
//! The process says what it begins before it begins it. If it ends early or is silent for too long, another process
//! goes on without the items that are done and without the one that ended it.

use super::report::Death;
use rukh_base::sync::start_system_thread;
use rukh_gpu::doctor::{Line, Request, STAGE_ARGUMENT};
use rukh_gpu::helper::child::{ChildProcess, FAREWELL, Heard, POLL_INTERVAL, each_line, silence};
use std::collections::VecDeque;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A stage whose processes end more often is given up.
const MOST_DEATHS: usize = 60;

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
    child: ChildProcess,
    /// The thread that collects the last lines of the error output.
    errors: JoinHandle<String>,
}

impl Process {
    fn start(program: &Path, request: &Request) -> std::io::Result<Process> {
        let mut child = ChildProcess::start(program, STAGE_ARGUMENT, Stdio::piped())?;
        let errors = child.take_errors();
        let collect = move || errors.map_or_else(String::new, last_lines);
        let errors = start_system_thread("errors of a stage", collect)?;
        child.ask(request);
        Ok(Process { child, errors })
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
            // GEMMs, which can take long.
            let silent = if begun.is_empty() { deadline } else { deadline.min(now + patience) };
            let line = match self.child.hear(silent) {
                Heard::Event(line) => line,
                Heard::Nothing if Instant::now() >= deadline => {
                    return Ending::Of(Outcome::OutOfTime(begun.pop()));
                }
                Heard::Nothing => return Ending::Death(begun.pop(), silence(patience)),
                Heard::End(how) => return Ending::Death(begun.pop(), how),
            };
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

    /// Kills the process, and returns the last lines of its error output.
    fn last_words(mut self) -> String {
        self.child.kill();
        let begin = Instant::now();
        // A process that the process has started may keep the output open.
        while !self.errors.is_finished() && begin.elapsed() < FAREWELL {
            std::thread::sleep(POLL_INTERVAL);
        }
        if self.errors.is_finished() { self.errors.join().unwrap_or_default() } else { String::new() }
    }
}

/// The last [`LAST_LINES`] lines of a process's error output, each shortened to [`MOST_BYTES`].
fn last_lines(errors: impl Read) -> String {
    let mut last = VecDeque::new();
    each_line(errors, |mut line| {
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        line.truncate(line.floor_char_boundary(MOST_BYTES));
        last.push_back(line);
        true
    });
    Vec::from(last).join("\n")
}
