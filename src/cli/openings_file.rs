//! Reads a file of openings and tells the user what is left out.

use super::error::print_error_line;
use crate::selfplay::openings::{self, Opening, OpeningsError};
use std::path::Path;

/// The most games or lines of a file that are named when they are left out.
const MOST_NAMED: usize = 10;

/// The openings of a file that can be played.
///
/// # Errors
/// The file cannot be read, or there is no opening in it.
pub(super) fn read(path: &Path) -> Result<Vec<Opening>, OpeningsError> {
    let read = openings::read(path)?;
    for refused in read.refused.iter().take(MOST_NAMED) {
        print_error_line(&format!("left out: {refused}"));
    }
    if read.refused.len() > MOST_NAMED {
        let count = read.refused.len() - MOST_NAMED;
        print_error_line(&format!("left out: {count} more openings of {}", path.display()));
    }
    Ok(read.openings)
}
