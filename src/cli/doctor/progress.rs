//! Shows on stderr what `doctor` does.

use super::report::{StageReport, State};
use rukh_gpu::doctor::{Line, Stage};
use std::io::{IsTerminal, Write};
use std::time::Instant;

/// The most characters of an item in the line at hand.
const MOST_CHARACTERS: usize = 60;

/// The progress so far.
pub(super) struct Progress {
    begin: Instant,
    is_terminal: bool,
    /// The number of stages, and of the stage at hand.
    stages: usize,
    number: usize,
    stage: Option<Stage>,
}

impl Progress {
    pub(super) fn new(stages: usize) -> Progress {
        let is_terminal = std::io::stderr().is_terminal();
        Progress { begin: Instant::now(), is_terminal, stages, number: 0, stage: None }
    }

    /// A stage begins.
    pub(super) fn begin(&mut self, stage: Stage) {
        self.stage = Some(stage);
        self.number += 1;
        self.show(stage.title());
    }

    /// An event of the stage.
    pub(super) fn line(&self, line: &Line) {
        // Only a terminal can show a line in place of the one before.
        if let (Line::Begin(item), true) = (line, self.is_terminal) {
            self.show(&item.chars().take(MOST_CHARACTERS).collect::<String>());
        }
    }

    /// A stage has ended, or was passed over.
    pub(super) fn end(&mut self, found: &StageReport) {
        if self.stage.take().is_none() {
            self.number += 1;
        }
        let seconds = format!("in {:.1} s", found.seconds);
        let state = match &found.state {
            State::Unfinished | State::Done => format!("done {seconds}"),
            State::Failed(reason) => format!("failed {seconds}: {reason}"),
            State::OutOfTime(what) => format!("ended at its time limit {seconds}{what}"),
            State::PassedOver(reason) => format!("passed over: {reason}"),
        };
        let complaint = found.complaint().map_or_else(String::new, |complaint| format!("; {complaint}"));
        let text = format!("{}: {state}{complaint}", found.stage.name());
        self.write(&format!("{text}\n"));
    }

    fn show(&self, text: &str) {
        let name = self.stage.map_or("", Stage::name);
        let end = if self.is_terminal { "" } else { "\n" };
        self.write(&format!("{name}: {text}{end}"));
    }

    fn write(&self, text: &str) {
        // The sequence clears the line, so that a shorter text leaves nothing of a longer one.
        let start = if self.is_terminal { "\r\x1b[K" } else { "" };
        let seconds = self.begin.elapsed().as_secs();
        let mut stderr = std::io::stderr();
        // A closed stderr is no reason to stop.
        let _ = write!(stderr, "{start}[{seconds:3} s] {}/{} {text}", self.number, self.stages)
            .and_then(|()| stderr.flush());
    }
}
