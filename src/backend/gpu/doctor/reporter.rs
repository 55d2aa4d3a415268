//! Tells the parent process what a stage does and finds.

use super::exchange::Line;
use crate::helper::exchange::write_event;
use crate::runtime::error::{GpuError, Result};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// The table of the items that ended with an error.
const ERRORS: &str = "errors";

/// The connection to the parent process.
///
/// The report understands these columns in every table. `verdict` says `right`, or in a word what is wrong, and the
/// report shows first what is wrong. `error` and `allowed` are numbers, and the report shows the rows in which they are
/// nearest to each other.
pub(super) struct Reporter<'a> {
    output: &'a mut dyn Write,
    done: BTreeSet<String>,
    killers: BTreeSet<String>,
    /// The first error of the output: nobody listens any more.
    broken: Option<io::Error>,
    is_hung: bool,
}

impl<'a> Reporter<'a> {
    /// A reporter that passes over the items in `done`. Those among them that ended a process are in `killers`.
    pub(super) fn new(
        output: &'a mut dyn Write,
        done: impl IntoIterator<Item = String>,
        killers: &[String],
    ) -> Reporter<'a> {
        let (done, killers) = (done.into_iter().collect(), killers.iter().cloned().collect());
        Reporter { output, done, killers, broken: None, is_hung: false }
    }

    /// The items that ended an earlier process.
    pub(super) fn killers(&self) -> impl Iterator<Item = &str> {
        self.killers.iter().map(String::as_str)
    }

    /// Runs an item, unless an earlier process has finished it or was ended by it. The name must be different for every
    /// item of a stage. An error becomes a row, and the stage goes on. After a hang of the device no other item runs in
    /// this process.
    pub(super) fn item(&mut self, name: &str, run: impl FnOnce(&mut Reporter<'a>) -> Result<()>) {
        if !self.done.contains(name) {
            self.attempt(name, run);
        }
    }

    /// Runs a part of an item, unless it ended an earlier process. If the process ends during the item, the next one
    /// runs its other parts again. Otherwise a part is like an item.
    pub(super) fn attempt(&mut self, name: &str, run: impl FnOnce(&mut Reporter<'a>) -> Result<()>) {
        if self.killers.contains(name) || !self.goes_on() {
            return;
        }
        self.say(&Line::Begin(name.to_owned()));
        if let Err(error) = run(self) {
            self.is_hung |= matches!(error, GpuError::Hang(_));
            self.row(ERRORS, [("item", name.into()), ("error", error.to_string().into())]);
        }
        self.say(&Line::End(name.to_owned()));
    }

    /// Adds a row to a table. All rows of a table should have the same columns.
    pub(super) fn row<const N: usize>(&mut self, table: &str, cells: [(&str, Value); N]) {
        let cells = cells.into_iter().map(|(column, value)| (column.to_owned(), value)).collect();
        self.say(&Line::Row { table: table.to_owned(), cells });
    }

    /// Adds a sentence to the report.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.say(&Line::Note(text.into()));
    }

    /// Whether the device still answers and the parent process still listens. A long loop inside an item asks this.
    pub(super) fn goes_on(&self) -> bool {
        self.broken.is_none() && !self.is_hung
    }

    /// Ends the stage. After a hang of the device nothing is said, so that the parent process starts another process
    /// for the other items.
    ///
    /// # Errors
    /// The output could not be written: the parent process is gone.
    pub(super) fn finish(mut self, outcome: Result<()>) -> io::Result<()> {
        if self.goes_on() {
            self.say(&match outcome {
                Ok(()) => Line::Done,
                Err(error) => Line::Failed(error.to_string()),
            });
        }
        self.broken.map_or(Ok(()), Err)
    }

    fn say(&mut self, line: &Line) {
        if self.broken.is_none() {
            self.broken = write_event(self.output, line).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::helper::exchange::parse_event;

    fn said(done: &[&str], run: impl FnOnce(&mut Reporter<'_>)) -> Vec<Line> {
        let mut output = Vec::new();
        let mut reporter = Reporter::new(&mut output, done.iter().map(|&name| name.to_owned()), &[]);
        run(&mut reporter);
        reporter.finish(Ok(())).expect("memory can be written to");
        String::from_utf8(output).expect("text is written").lines().filter_map(parse_event).collect()
    }

    fn failed(text: &str) -> GpuError {
        GpuError::Unsupported(text.to_owned())
    }

    #[test]
    fn an_error_is_a_row_and_the_next_item_runs() {
        let lines = said(&["two"], |report| {
            report.item("one", |_| Err(failed("no memory")));
            report.item("two", |_| unreachable!("it is done"));
            report.item("three", |report| {
                report.note("found");
                Ok(())
            });
        });
        let cells = vec![("item".to_owned(), "one".into()), ("error".to_owned(), "no memory".into())];
        let name = |text: &str| text.to_owned();
        assert_eq!(
            lines,
            [
                Line::Begin(name("one")),
                Line::Row { table: name("errors"), cells },
                Line::End(name("one")),
                Line::Begin(name("three")),
                Line::Note(name("found")),
                Line::End(name("three")),
                Line::Done,
            ]
        );
    }

    #[test]
    fn the_parts_of_an_item_run_again_without_the_one_that_ended_a_process() {
        let killer = "item, second part".to_owned();
        let done = ["item, first part".to_owned(), killer.clone()];
        let mut output = Vec::new();
        let mut ran = Vec::new();
        let mut reporter = Reporter::new(&mut output, done, &[killer]);
        reporter.item("item", |report| {
            for part in ["first", "second", "third"] {
                report.attempt(&format!("item, {part} part"), |_| {
                    ran.push(part);
                    Ok(())
                });
            }
            Ok(())
        });
        assert_eq!(ran, ["first", "third"]);
    }

    #[test]
    fn after_a_hang_another_process_goes_on() {
        let lines = said(&[], |report| {
            report.item("one", |_| Err(GpuError::Hang("device 0 has not finished".to_owned())));
            report.item("two", |_| unreachable!("the device hangs"));
        });
        assert_eq!(lines.last(), Some(&Line::End("one".to_owned())));
    }
}
