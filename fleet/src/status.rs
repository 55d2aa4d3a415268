//! `status`: shows jobs and workers.

use super::args::{ServerArgs, StatusArgs};
use super::error::FleetError;
use super::job::{self, Kind};
use super::server::{Counts, WORKERS, connect, counts, jobs};
use crate::work::Report;
use serde_json::{Value, json};
use std::io::Write;

/// Shows jobs and workers.
///
/// # Errors
/// The server does not answer.
pub(crate) async fn run(server: &ServerArgs, arguments: &StatusArgs) -> Result<(), FleetError> {
    let context = connect(server, "rukh-fleet status").await?;
    let (jobs, others) = jobs(&context).await?;
    let mut shown = Vec::new();
    for job in jobs.iter().filter(|job| arguments.job.as_ref().is_none_or(|name| *name == job.name)) {
        let counts = counts(&context, &job.name).await.unwrap_or_default();
        let kind = match job.kind {
            Kind::Analysis { .. } => "analysis",
            Kind::Games { .. } => "games",
            Kind::Test { .. } => "test",
        };
        let Counts { waiting, held, results, failed } = counts;
        shown.push(json!({
            "name": job.name, "kind": kind, "priority": job.priority, "pieces": job.pieces, "results": results,
            "waiting": waiting, "held": held, "failed": failed, "flags": job.flags, "engine": job.engine,
            "troubles": job.troubles, "is_decided": job.is_decided,
        }));
    }
    if let (Some(name), true) = (&arguments.job, shown.is_empty()) {
        return Err(FleetError::NoJob(name.clone()));
    }
    let others: Vec<Value> = others
        .iter()
        .map(|other| json!({ "name": other.name, "protocol": other.protocol, "understood": job::PROTOCOL }))
        .collect();
    let workers = WORKERS.list(&context).await?;
    let workers: Vec<Report> =
        workers.iter().filter_map(|(_, bytes)| serde_json::from_slice(bytes).ok()).collect();
    let text = match arguments.json {
        true => format!("{}\n", json!({ "jobs": shown, "other_versions": others, "workers": workers })),
        false => table(&shown, &others, &workers),
    };
    // Nobody is left to tell if stdout is closed.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn table(jobs: &[Value], others: &[Value], workers: &[Report]) -> String {
    let mut rows =
        vec![["JOB", "KIND", "PIECES", "RESULTS", "WAITING", "IN WORK", "PUT ASIDE"].map(str::to_owned)];
    for job in jobs {
        let cell = |name: &str| match &job[name] {
            _ if name == "waiting" && job["is_decided"] == true => "decided".to_owned(),
            Value::String(text) => text.clone(),
            Value::Null => "being submitted".to_owned(),
            value => value.to_string(),
        };
        rows.push(["name", "kind", "pieces", "results", "waiting", "held", "failed"].map(cell));
    }
    let mut text = aligned(&rows);
    for other in others {
        text += &format!("{}: another version of the protocol, {}\n", other["name"], other["protocol"]);
    }
    if workers.is_empty() {
        return text + "\nno workers\n";
    }
    let mut rows = vec![["WORKER", "JOB", "IN WORK", "DONE", "POSITIONS", "FAILURES"].map(str::to_owned)];
    for worker in workers {
        rows.push([
            worker.name.clone(),
            worker.job.clone().unwrap_or_else(|| "-".to_owned()),
            worker.running.to_string(),
            worker.pieces.to_string(),
            worker.positions.to_string(),
            worker.failures.to_string(),
        ]);
    }
    text += "\n";
    text += &aligned(&rows);
    for worker in workers {
        for (job, reason) in &worker.refused {
            text += &format!("{} leaves {job}: {reason}\n", worker.name);
        }
        if let Some(failure) = &worker.last_failure {
            text += &format!("{}: {failure}\n", worker.name);
        }
    }
    text
}

/// Rows with columns of equal width.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["A", "BB"], ["ccc", "d"]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows), "A    BB\nccc  d\n");
    }
}
