//! Stage 5: the network's figures on the card against those of the CPU backend, in every batch size.

use super::reporter::Reporter;
use super::subject::Subject;
use crate::runtime::error::{GpuError, Result};
use crate::runtime::precision::{MOVES_LEFT, tolerance};
use crate::startup::self_check::{Differences, Reference};
use std::sync::Arc;

pub(super) fn run(subject: &Subject, report: &mut Reporter<'_>) -> Result<()> {
    let reference = Reference::new(Arc::new(subject.host_network()?), 1.0)
        .map_err(|error| GpuError::Unsupported(format!("the CPU backend: {error}")))?;
    subject.tune()?.into_iter().for_each(|notice| report.note(notice));
    let maker = subject.maker()?;
    let mut slot = maker.slot()?;
    for (rotation, positions) in maker.bucket_sizes().into_iter().enumerate() {
        report.item(&format!("batch of {positions}"), |report| {
            // The first batch of a size runs step by step, and the next ones as a graph.
            for (turn, way) in
                ["steps", "graph"].into_iter().take(1 + usize::from(maker.has_graphs)).enumerate()
            {
                let found = reference.differences(&mut slot, positions, rotation + turn)?;
                row(report, positions, way, found, tolerance(maker.network.precision));
            }
            Ok(())
        });
    }
    slot.notice().into_iter().for_each(|notice| report.note(notice));
    Ok(())
}

fn row(report: &mut Reporter<'_>, positions: usize, way: &str, found: Differences, allowed: f32) {
    let Differences { q, d, m, e, prior } = found;
    let error = [q, d, m / MOVES_LEFT, e, prior].into_iter().fold(0.0, f32::max);
    let verdict = match error {
        error if error.is_infinite() => "not a number",
        error if error > allowed => "wrong",
        _ => "right",
    };
    report.row(
        "network",
        [
            ("batch", positions.into()),
            ("way", way.into()),
            ("q", q.into()),
            ("d", d.into()),
            ("plies left", m.into()),
            ("value error", e.into()),
            ("prior", prior.into()),
            ("error", error.into()),
            ("allowed", allowed.into()),
            ("verdict", verdict.into()),
        ],
    );
}
