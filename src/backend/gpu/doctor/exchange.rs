//! What `rukh doctor` and the process of a stage tell each other.

use super::stage::Stage;
use crate::runtime::maker::Maker;
use crate::runtime::precision::GpuPrecision;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the process shall examine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The stage to run.
    pub stage: Stage,
    /// The maker of the cards.
    pub maker: Maker,
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
