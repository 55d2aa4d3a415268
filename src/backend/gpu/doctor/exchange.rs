//! What `rukh doctor` and the process of a stage exchange: a request on the process's standard input, and one line for
//! each event on its standard output.

use super::stage::Stage;
use crate::runtime::precision::GpuPrecision;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The text before an event. A library may print something on the same line before it.
const MARK: &str = "rukh-doctor: ";

/// What the process shall examine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The stage to run.
    pub stage: Stage,
    /// The number format of the backend.
    pub precision: GpuPrecision,
    /// The user's `BackendOptions`.
    pub options: String,
    /// The user's `WeightsFile`.
    pub weights: String,
    /// Whether to take fewer shapes, batch sizes and repetitions.
    pub is_quick: bool,
    /// The items that an earlier process has finished or was ended by.
    pub done: Vec<String>,
    /// The items among them that ended a process.
    pub killers: Vec<String>,
}

impl Request {
    /// The request as text.
    pub fn text(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Parses a request.
    ///
    /// # Errors
    /// The reason why the text is no request.
    pub fn parse(text: &str) -> Result<Request, String> {
        serde_json::from_str(text).map_err(|error| format!("the request is not understood: {error}"))
    }
}

/// The cells of a row: the names of their columns, and their values.
pub type Cells = Vec<(String, Value)>;

/// What the process of a stage tells, as one line of its output.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// The item with this name begins. It may contain other items.
    Begin(String),
    /// The item with this name has ended.
    End(String),
    /// A row of a table.
    Row {
        /// The table's name.
        table: String,
        /// The cells, in the order of the columns.
        cells: Cells,
    },
    /// A sentence for the report.
    Note(String),
    /// The stage cannot run, for this reason.
    Failed(String),
    /// The stage is done.
    Done,
}

impl Line {
    /// The event as a line of text.
    pub fn text(&self) -> String {
        format!("{MARK}{}", serde_json::json!(self))
    }

    /// Parses a line. `None` for a line that a library printed.
    pub fn parse(text: &str) -> Option<Line> {
        let (_, event) = text.split_once(MARK)?;
        serde_json::from_str(event.trim_end()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let request = Request {
            stage: Stage::Gemms,
            precision: GpuPrecision::Bf16,
            options: "gpu=1,streams=2".to_owned(),
            weights: "/a \"strange\" file".to_owned(),
            is_quick: true,
            done: vec!["batch 1".to_owned()],
            killers: Vec::new(),
        };
        assert_eq!(Request::parse(&request.text()), Ok(request));
        assert!(Request::parse("").is_err() && Request::parse("{}").is_err());
    }

    #[test]
    fn events_are_read_as_they_were_written_and_other_lines_are_passed_over() {
        let cells = vec![("shape".to_owned(), "3 x 4".into()), ("error".to_owned(), 0.5.into())];
        let events = [
            Line::Begin("one".to_owned()),
            Line::Row { table: "kernels".to_owned(), cells },
            Line::Note("a line\nand another".to_owned()),
            Line::End("one".to_owned()),
            Line::Failed("no device".to_owned()),
            Line::Done,
        ];
        for event in events {
            let text = event.text();
            assert!(!text.contains('\n'));
            assert_eq!(Line::parse(&text).as_ref(), Some(&event));
            assert_eq!(Line::parse(&format!("rocBLAS warning: {text}\r")), Some(event));
        }
        assert_eq!(Line::parse("rocBLAS error: Cannot read TensileLibrary.dat"), None);
        assert_eq!(Line::parse("rukh-doctor: {\"begin\":"), None);
    }
}
