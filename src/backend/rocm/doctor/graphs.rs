//! A stage that is not written yet.

use super::super::error::Result;
use super::reporter::Reporter;
use super::subject::Subject;

pub(super) fn run(_: &Subject, report: &mut Reporter<'_>) -> Result<()> {
    report.note("this stage is not written yet");
    Ok(())
}
