//! What a part of an analysis says about itself.
//!
//! `analyze --shard=I/N --output=FILE` leaves `FILE.shard` beside a part that is complete, with one JSON object.
//! `rukh-fleet merge` tells by it whether a part is missing, given twice, cut, or a part of another analysis.

use super::config::BatchConfig;
use serde::{Deserialize, Serialize};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
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

/// What all parts of an analysis have in common. Paths, devices and numbers of threads may differ between machines.
pub(super) fn analysis_of(config: &BatchConfig) -> String {
    let BatchConfig { inputs, format, selection, style, limits, multipv, .. } = config;
    let sizes: Vec<u64> =
        inputs.iter().map(|path| fs::metadata(path).map_or(0, |metadata| metadata.len())).collect();
    let text =
        format!("{} {sizes:?} {format:?} {selection:?} {style:?} {limits:?} {multipv}", env!("RUKH_VERSION"));
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
