//! The cells of a row of a file of tuned GEMMs.

use super::left_out::Fault;
use csv::StringRecord;
use std::collections::BTreeMap;

/// The cells of a record by the names of their columns.
pub(crate) struct Cells<'a> {
    pub(crate) columns: &'a BTreeMap<&'static str, usize>,
    pub(crate) record: &'a StringRecord,
}

/// Why a row is left out, with the text at fault.
pub(crate) type RowError = (Fault, String);

impl<'a> Cells<'a> {
    /// The cell of a column, if the file has that column.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        let place = self.columns.get(name)?;
        // A row that ends early has damaged cells, not absent ones.
        Some(self.record.get(*place).unwrap_or(""))
    }

    pub(crate) fn needed(&self, name: &str) -> Result<&'a str, RowError> {
        self.get(name).filter(|cell| !cell.is_empty()).ok_or_else(|| damaged(name))
    }

    pub(crate) fn number(&self, name: &str, default: Option<usize>) -> Result<usize, RowError> {
        match (self.get(name), default) {
            (None, Some(default)) => Ok(default),
            _ => {
                let cell = self.needed(name)?;
                cell.parse().map_err(|_| damaged(cell))
            }
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, RowError> {
        self.get(name).map_or(Ok(false), |cell| truth(cell).ok_or_else(|| damaged(cell)))
    }
}

/// A cell with this text cannot be read.
pub(crate) fn damaged(text: &str) -> RowError {
    (Fault::Damaged, text.to_owned())
}

/// A truth value.
fn truth(cell: &str) -> Option<bool> {
    match cell {
        "True" | "true" => Some(true),
        "False" | "false" => Some(false),
        _ => None,
    }
}

/// A number that is not a NaN.
pub(crate) fn number(text: &str) -> Option<f32> {
    text.parse().ok().filter(|number: &f32| !number.is_nan())
}

/// A truth value as aiter writes it.
pub(crate) fn python(value: bool) -> String {
    if value { "True" } else { "False" }.to_owned()
}
