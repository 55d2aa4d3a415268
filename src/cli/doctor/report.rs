//! What `rukh doctor` knows: the one structure from which both files are made.

use super::privacy::Privacy;
use rukh_gpu::doctor::{Cells, Line, Stage};
use serde_json::Value;

/// The most sentences of a stage, and the most characters of a text.
const MOST_NOTES: usize = 60;
const MOST_CHARACTERS: usize = 2000;

/// The column that says whether a row is right, and the word for that.
const VERDICT: &str = "verdict";
const RIGHT: &str = "right";

/// The table of the items that ended with an error.
pub(super) const ERRORS: &str = "errors";

/// The whole report.
pub(super) struct Report {
    /// The program, its arguments and the network.
    pub(super) about: Vec<(String, String)>,
    /// The machine, as far as it can be seen without the card's libraries.
    pub(super) system: Vec<(String, String)>,
    pub(super) stages: Vec<StageReport>,
}

/// How a stage ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It has not ended yet.
    Unfinished,
    Done,
    /// It could not run, for this reason.
    Failed(String),
    /// It was ended at its time limit.
    OutOfTime(String),
    /// It was not run, for this reason.
    PassedOver(String),
}

/// An item that ended its process.
pub(super) struct Death {
    pub(super) item: String,
    /// How the process ended, such as "signal: 11 (SIGSEGV)".
    pub(super) how: String,
    /// The last lines of its error output.
    pub(super) said: String,
}

/// What a stage has found.
pub(super) struct StageReport {
    pub(super) stage: Stage,
    pub(super) state: State,
    pub(super) seconds: f64,
    pub(super) tables: Vec<Table>,
    pub(super) notes: Vec<String>,
    pub(super) deaths: Vec<Death>,
}

/// A table of a stage.
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<Value>>,
}

impl StageReport {
    pub(super) fn new(stage: Stage) -> StageReport {
        StageReport {
            stage,
            state: State::Unfinished,
            seconds: 0.0,
            tables: Vec::new(),
            notes: Vec::new(),
            deaths: Vec::new(),
        }
    }

    /// Adds an event of the stage's process.
    pub(super) fn take(&mut self, line: Line, privacy: &Privacy) {
        match line {
            Line::Row { table, cells } => self.add_row(&table, cells, privacy),
            Line::Note(text) => {
                let text = shortened(&privacy.clean(&text));
                // A process that goes on after another one may repeat what that one said.
                if !self.notes.contains(&text) && self.notes.len() < MOST_NOTES {
                    self.notes.push(text);
                }
            }
            Line::Begin(_) | Line::End(_) | Line::Failed(_) | Line::Done => {}
        }
    }

    fn add_row(&mut self, name: &str, cells: Cells, privacy: &Privacy) {
        let index = self.tables.iter().position(|table| table.name == name).unwrap_or_else(|| {
            self.tables.push(Table { name: name.to_owned(), columns: Vec::new(), rows: Vec::new() });
            self.tables.len() - 1
        });
        let table = &mut self.tables[index];
        let mut row = vec![Value::Null; table.columns.len()];
        for (column, value) in cells {
            let place = table.columns.iter().position(|known| *known == column).unwrap_or_else(|| {
                table.columns.push(column);
                table.columns.len() - 1
            });
            row.resize(row.len().max(place + 1), Value::Null);
            row[place] = match privacy.clean_value(value) {
                Value::String(text) => Value::String(shortened(&text)),
                other => other,
            };
        }
        table.rows.push(row);
    }

    /// The table with this name, if the stage has written one.
    pub(super) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// What is wrong, in a few words; `None` if nothing is.
    pub(super) fn complaint(&self) -> Option<String> {
        let mut found: Vec<(String, usize)> = Vec::new();
        for (verdict, count) in
            self.tables.iter().flat_map(Table::counts).filter(|(verdict, _)| *verdict != RIGHT)
        {
            match found.iter_mut().find(|(known, _)| known == verdict) {
                Some((_, known)) => *known += count,
                None => found.push((verdict.to_owned(), count)),
            }
        }
        found
            .push(("ended with an error".to_owned(), self.table(ERRORS).map_or(0, |table| table.rows.len())));
        found.push(("ended the process".to_owned(), self.deaths.len()));
        let words: Vec<String> = found
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Whether a row's verdict says that something is wrong.
    pub(super) fn has_wrong_rows(&self) -> bool {
        self.tables.iter().any(|table| table.rows.iter().any(|row| table.is_wrong(row)))
    }

    /// Whether an item ended with an error or ended its process.
    pub(super) fn has_failures(&self) -> bool {
        !self.deaths.is_empty() || self.table(ERRORS).is_some()
    }

    /// The number of rows with a verdict.
    pub(super) fn verdicts(&self) -> usize {
        let judged = |table: &Table| table.rows.iter().filter(|row| table.verdict(row).is_some()).count();
        self.tables.iter().map(judged).sum()
    }
}

impl Table {
    /// The index of a column.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The cell of a row, as text. Empty if there is none.
    pub(super) fn text<'a>(&self, row: &'a [Value], column: &str) -> &'a str {
        self.column(column).and_then(|index| row.get(index)).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, row: &[Value], column: &str) -> Option<f64> {
        self.column(column).and_then(|index| row.get(index)).and_then(Value::as_f64)
    }

    /// A row's verdict, if the table has that column.
    pub(super) fn verdict<'a>(&self, row: &'a [Value]) -> Option<&'a str> {
        let index = self.column(VERDICT)?;
        row.get(index).and_then(Value::as_str)
    }

    /// Whether a row's verdict says that something is wrong.
    pub(super) fn is_wrong(&self, row: &[Value]) -> bool {
        self.verdict(row).is_some_and(|verdict| verdict != RIGHT)
    }

    /// The number of rows for each verdict, in the order in which they first occur.
    pub(super) fn counts(&self) -> Vec<(&str, usize)> {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for verdict in self.rows.iter().filter_map(|row| self.verdict(row)) {
            match counts.iter_mut().find(|(known, _)| *known == verdict) {
                Some((_, count)) => *count += 1,
                None => counts.push((verdict, 1)),
            }
        }
        counts
    }

    /// The indices of the `most` rows that tell most, in ascending order: those that are wrong, then those whose error
    /// is nearest to the allowed one, then the first ones.
    pub(super) fn telling(&self, most: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        let share = |row: &[Value]| {
            let share = self.number(row, "error").zip(self.number(row, "allowed"));
            share.map_or(0.0, |(error, allowed)| error / allowed.max(f64::MIN_POSITIVE))
        };
        order.sort_by(|&a, &b| {
            let (a, b) = (&self.rows[a], &self.rows[b]);
            self.is_wrong(b).cmp(&self.is_wrong(a)).then(share(b).total_cmp(&share(a)))
        });
        order.truncate(most);
        order.sort_unstable();
        order
    }
}

/// A text without control characters, and not longer than [`MOST_CHARACTERS`].
pub(super) fn shortened(text: &str) -> String {
    let harmless = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
    let mut short: String = text.trim_end().chars().take(MOST_CHARACTERS).map(harmless).collect();
    if text.trim_end().chars().nth(MOST_CHARACTERS).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A stage with one table of rows: shape, error, allowed error, verdict.
    pub(in crate::cli::doctor) fn stage(rows: &[(&str, f64, &str)]) -> StageReport {
        let mut stage = StageReport::new(Stage::Kernels);
        for (shape, error, verdict) in rows {
            let cells: Cells = [
                ("shape", Value::from(*shape)),
                ("error", (*error).into()),
                ("allowed", 1.0.into()),
                (VERDICT, (*verdict).into()),
            ]
            .map(|(column, value)| (column.to_owned(), value))
            .into();
            let line = Line::Row { table: "kernels".to_owned(), cells };
            stage.take(line, &Privacy::of_this_machine());
        }
        stage
    }

    #[test]
    fn wrong_rows_tell_most_and_then_large_errors() {
        let stage =
            stage(&[("a", 0.1, "right"), ("b", 0.9, "right"), ("c", 0.0, "wrong"), ("d", 0.5, "right")]);
        let table = stage.table("kernels").expect("the rows are in it");
        assert_eq!(table.telling(1), [2]);
        assert_eq!(table.telling(3), [1, 2, 3]);
        assert_eq!(table.counts(), [("right", 3), ("wrong", 1)]);
        assert_eq!(stage.complaint(), Some("1 wrong".to_owned()));
    }

    #[test]
    fn rows_with_other_columns_fit_into_a_table() {
        let mut stage = stage(&[("a", 0.1, "right")]);
        let row = |cells: &[(&str, i32)]| Line::Row {
            table: "kernels".to_owned(),
            cells: cells.iter().map(|&(column, value)| (column.to_owned(), value.into())).collect(),
        };
        stage.take(row(&[("new", 1), ("error", 2)]), &Privacy::of_this_machine());
        let table = stage.table("kernels").expect("the rows are in it");
        assert_eq!(table.columns, ["shape", "error", "allowed", "verdict", "new"]);
        assert_eq!(table.rows[1], [Value::Null, 2.into(), Value::Null, Value::Null, 1.into()]);
        assert!(!table.is_wrong(&table.rows[1]));
        assert_eq!(stage.verdicts(), 1);
    }
}
