//! Writes the reports of a search to stdout.

use super::format::{Shown, best_move_line, info_line};
use super::output::Output;
use rukh_search::info::{BestMove, Responder, ThinkingInfo};
use std::sync::{Arc, Mutex, PoisonError};

/// Writes info lines and best moves. The search threads share it.
pub(crate) struct UciResponder {
    output: Arc<Output>,
    shown: Mutex<Shown>,
}

impl UciResponder {
    pub(crate) fn new(output: Arc<Output>, shown: Shown) -> UciResponder {
        UciResponder { output, shown: Mutex::new(shown) }
    }

    /// Changes which fields are shown, from the next line on.
    pub(crate) fn show(&self, shown: Shown) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }

    fn shown(&self) -> Shown {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Responder for UciResponder {
    fn thinking(&self, infos: &[ThinkingInfo]) {
        let shown = self.shown();
        let lines: Vec<String> = infos.iter().map(|info| info_line(info, shown)).collect();
        self.output.lines(&lines);
    }

    fn best_move(&self, best: &BestMove) {
        self.output.line(&best_move_line(best, self.shown()));
    }

    fn answer(&self, infos: &[ThinkingInfo], best: &BestMove) {
        let shown = self.shown();
        let infos = infos.iter().map(|info| info_line(info, shown));
        let lines: Vec<String> = infos.chain([best_move_line(best, shown)]).collect();
        self.output.lines(&lines);
    }

    fn message(&self, text: &str) {
        self.output.message(text);
    }

    fn takes_notes(&self) -> bool {
        self.output.log().is_open()
    }

    fn note(&self, text: &str) {
        self.output.log().note(text);
    }
}
