//! A file with the times of a profile, to compare later profiles with.
//!
//! The file has the mean and the noise of each operation. An operation has become slower if its change is larger than
//! three times the noise of both profiles together, and larger than the tolerance: two runs of a program differ by more
//! than the passes of one run, because the processor's clock and the places of its memory differ.

use super::report::{Measured, Row};
use crate::cli::error::CliError;
use crate::cli::output_file::write_whole;
use rukh_base::quote::{printable, quoted};
use rukh_base::regular_file::{self, FileError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// A change is significant beyond so many standard errors.
const ERRORS: f64 = 3.0;

/// The most bytes of a file that is read. A profile has some hundred operations.
const MOST_BYTES: u64 = 16 << 20;

/// The content of a file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Baseline {
    /// The backend's name. Profiles of different backends are not compared.
    backend: String,
    /// The number of positions in the batch.
    positions: usize,
    operations: BTreeMap<String, Figure>,
}

/// The time of an operation.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Figure {
    microseconds: f64,
    /// The standard error of the mean as a share of it.
    noise: f64,
}

/// An operation in two profiles.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Change {
    pub(super) operation: String,
    /// In microseconds; `None` if the operation is new.
    pub(super) before: Option<f64>,
    /// In microseconds; `None` if the operation is gone.
    pub(super) after: Option<f64>,
    /// The noise of the change, as a share of the time before.
    pub(super) noise: f64,
    pub(super) is_regression: bool,
}

/// What became of a baseline.
pub(super) enum Outcome {
    /// There was no file, and this profile is in it now.
    Written,
    Compared(Vec<Change>),
}

/// Writes the file if there is none, and compares with it if there is one. `tolerance` is a share of the time.
///
/// # Errors
/// The file cannot be read or written, is no baseline, or is that of another backend or batch size.
pub(super) fn use_baseline(path: &Path, measured: &Measured, tolerance: f64) -> Result<Outcome, CliError> {
    let current = Baseline::of(measured);
    let cannot = |what: &str, error: &dyn std::fmt::Display| {
        CliError::from(format!("cannot {what} the baseline {}: {error}", path.display()))
    };
    let text = match regular_file::read(path, MOST_BYTES) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|error| cannot("understand", &error))?,
        Err(FileError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            let text = serde_json::to_string_pretty(&current).map_err(|error| cannot("write", &error))?;
            write_whole(path, |file| writeln!(file, "{text}")).map_err(|error| cannot("write", &error))?;
            return Ok(Outcome::Written);
        }
        Err(error) => return Err(cannot("read", &error)),
    };
    let known = Baseline::parse(&text).map_err(|error| cannot("understand", &error))?;
    if (&known.backend, known.positions) != (&current.backend, current.positions) {
        return Err(format!(
            "the baseline {} is that of {} with {} positions, and this profile is that of {} with {}",
            path.display(),
            quoted(&known.backend),
            known.positions,
            current.backend,
            current.positions
        )
        .into());
    }
    Ok(Outcome::Compared(known.changes(&current, tolerance)))
}

/// Reads the text of a baseline, and compares it with itself. Returns the table, or why it is none.
pub(super) fn reread(text: &str) -> Result<Vec<String>, String> {
    let baseline = Baseline::parse(text)?;
    Ok(table(&baseline.changes(&baseline, 0.0)))
}

impl Baseline {
    fn parse(text: &str) -> Result<Baseline, String> {
        // The message may repeat the file's content.
        let baseline: Baseline = serde_json::from_str(text).map_err(|error| printable(&error.to_string()))?;
        match baseline.operations.keys().find(|name| printable(name) != **name) {
            Some(name) => Err(format!("the name of an operation, {}, cannot be printed", quoted(name))),
            None => Ok(baseline),
        }
    }

    fn of(measured: &Measured) -> Baseline {
        let figure =
            |row: Row| (row.group.name.clone(), Figure { microseconds: row.microseconds, noise: row.noise });
        Baseline {
            backend: measured.backend.clone(),
            positions: measured.profile.positions,
            operations: measured.operations().into_iter().map(figure).collect(),
        }
    }

    /// The changes from this profile to another one, and of the sum of all operations.
    fn changes(&self, later: &Baseline, tolerance: f64) -> Vec<Change> {
        let mut names: Vec<&String> = self.operations.keys().chain(later.operations.keys()).collect();
        names.sort();
        names.dedup();
        let mut changes: Vec<Change> = names
            .into_iter()
            .map(|name| change(name, self.operations.get(name), later.operations.get(name), tolerance))
            .collect();
        changes.push(change("all operations", Some(&self.sum()), Some(&later.sum()), tolerance));
        changes
    }

    fn sum(&self) -> Figure {
        let microseconds: f64 = self.operations.values().map(|figure| figure.microseconds).sum();
        let squares: f64 =
            self.operations.values().map(|figure| (figure.microseconds * figure.noise).powi(2)).sum();
        Figure { microseconds, noise: if microseconds > 0.0 { squares.sqrt() / microseconds } else { 0.0 } }
    }
}

fn change(name: &str, before: Option<&Figure>, after: Option<&Figure>, tolerance: f64) -> Change {
    let noise = |figure: Option<&Figure>| figure.map_or(0.0, |figure| figure.noise);
    let noise = (noise(before).powi(2) + noise(after).powi(2)).sqrt();
    let time = |figure: Option<&Figure>| figure.map(|figure| figure.microseconds);
    let (before, after) = (time(before), time(after));
    let is_regression = match (before, after) {
        (Some(before), Some(after)) => after > before * (1.0 + tolerance.max(ERRORS * noise)),
        _ => false,
    };
    Change { operation: name.to_owned(), before, after, noise, is_regression }
}

/// A line for each operation.
pub(super) fn table(changes: &[Change]) -> Vec<String> {
    let width = changes.iter().map(|change| change.operation.chars().count()).max().unwrap_or(0);
    let time = |time: Option<f64>| time.map_or("-".to_owned(), |time| format!("{time:.1}"));
    let mut lines = vec![format!("{:<width$}  us before   us after   change    noise", "operation")];
    for Change { operation, before, after, noise, is_regression } in changes {
        let difference = match (before, after) {
            (Some(before), Some(after)) if *before > 0.0 => {
                format!("{:+.1} %", (after / before - 1.0) * 100.0)
            }
            (None, _) => "new".to_owned(),
            (_, None) => "gone".to_owned(),
            _ => String::new(),
        };
        let mark = if *is_regression { "  slower" } else { "" };
        lines.push(format!(
            "{operation:<width$}{:>11}{:>11}{difference:>9}{:>7.1} %{mark}",
            time(*before),
            time(*after),
            noise * 100.0
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(figures: &[(&str, f64, f64)]) -> Baseline {
        let figure = |&(name, microseconds, noise): &(&str, f64, f64)| {
            (name.to_owned(), Figure { microseconds, noise })
        };
        Baseline { backend: "cpu".to_owned(), positions: 8, operations: figures.iter().map(figure).collect() }
    }

    #[test]
    fn a_change_within_the_noise_is_no_regression() {
        let before = baseline(&[("QKV", 100.0, 0.01), ("noisy", 10.0, 0.2), ("gone", 1.0, 0.0)]);
        let after = baseline(&[("QKV", 104.0, 0.01), ("noisy", 14.0, 0.2), ("new", 1.0, 0.0)]);
        let slower = |tolerance| -> Vec<String> {
            let changes = before.changes(&after, tolerance).into_iter();
            changes.filter(|change| change.is_regression).map(|change| change.operation).collect()
        };
        // Three standard errors of the change of QKV are 4.2 %.
        assert!(slower(0.0).is_empty());
        let after = baseline(&[("QKV", 106.0, 0.01), ("noisy", 10.0, 0.2), ("gone", 1.0, 0.0)]);
        let slower = |tolerance| -> Vec<String> {
            let changes = before.changes(&after, tolerance).into_iter();
            changes.filter(|change| change.is_regression).map(|change| change.operation).collect()
        };
        assert_eq!(slower(0.0), ["QKV"]);
        assert!(slower(0.1).is_empty());
    }

    #[test]
    fn the_table_says_what_is_new_gone_or_slower() {
        let changes = baseline(&[("QKV", 100.0, 0.0), ("gone", 1.0, 0.0)])
            .changes(&baseline(&[("QKV", 110.0, 0.0), ("new", 1.0, 0.0)]), 0.05);
        let lines = table(&changes);
        assert!(
            lines[1].starts_with("QKV") && lines[1].ends_with("  slower") && lines[1].contains("+10.0 %"),
            "{lines:#?}"
        );
        assert!(lines[2].contains("gone  ") && lines[3].contains("new"), "{lines:#?}");
        assert!(lines[4].starts_with("all operations"), "{lines:#?}");
    }
}
