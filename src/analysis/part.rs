//! What a part of an analysis says about itself.
//!
//! `analyze --shard=I/N --output=FILE` leaves `FILE.shard` beside a part that is complete, with one JSON object.
//! `rukh-fleet merge` tells by it whether a part is missing, given twice, cut, or a part of another analysis.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The record of a part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartRecord {
    /// The number of the part, from 1.
    pub shard: u64,
    /// The number of parts.
    pub of: u64,
    /// The games and lines of the part, with those that were refused.
    pub documents: u64,
    /// The numbers, among all games and lines of the input, of those that were refused, from 1; `None` if they are not
    /// known.
    pub rejected: Option<Vec<u64>>,
    /// The length of the part, in bytes.
    pub bytes: u64,
    /// The same text in all parts of an analysis, and probably another one in others.
    pub analysis: String,
}

impl PartRecord {
    /// The path of the record of a part.
    pub fn path_of(part: &Path) -> PathBuf {
        part.with_added_extension("shard")
    }
}
