//! `status`: shows jobs and workers.

use super::args::{ServerArgs, StatusArgs};
use super::error::{FleetError, printable, printable_json};
use super::job::{self, Kind};
use super::server::{Counts, Jobs, WORKERS, connect, counts, jobs};
use crate::work::Report;
use serde_json::{Value, json};
use std::io::Write;

/// Shows jobs and workers.
///
/// # Errors
/// The server does not answer.
pub(crate) async fn run(server: &ServerArgs, arguments: &StatusArgs) -> Result<(), FleetError> {
    let context = connect(server, "rukh-fleet status").await?;
    let Jobs { known: jobs, others, unreadable } = jobs(&context).await?;
    let mut shown = Vec::new();
    for job in jobs.iter().filter(|job| arguments.job.as_ref().is_none_or(|name| *name == job.name)) {
        let counts = counts(&context, job).await.unwrap_or_default();
        let kind = match job.kind {
            Kind::Analysis { .. } => "analysis",
            Kind::Games { .. } => "games",
            Kind::Test { .. } => "test",
        };
        let Counts { waiting, held, results, failed } = counts;
        shown.push(json!({
            "name": job.name, "id": job.id, "kind": kind, "priority": job.priority, "pieces": job.pieces, "results": results,
            "waiting": waiting, "held": held, "failed": failed, "flags": job.flags, "engine": job.engine,
            "troubles": job.troubles, "is_decided": job.is_decided,
        }));
    }
    if let (Some(name), true) = (&arguments.job, shown.is_empty()) {
        return Err(FleetError::NoJob(name.clone()));
    }
    let others: Vec<Value> = others
        .iter()
        .map(|(name, protocol)| json!({ "name": name, "protocol": protocol, "understood": job::PROTOCOL }))
        .collect();
    let mut unreadable: Vec<(String, String)> = unreadable
        .into_iter()
        .map(|(name, reason)| (format!("the record of the job {name}"), reason))
        .collect();
    let mut workers = Vec::new();
    for (name, bytes) in WORKERS.list(&context).await? {
        match Report::read(&name, &bytes) {
            Ok(report) => workers.push(report),
            Err(reason) => unreadable.push((format!("the report of the worker {name}"), reason)),
        }
    }
    let text = match arguments.json {
        true => {
            let unreadable: Vec<Value> =
                unreadable.iter().map(|(what, reason)| json!({ "what": what, "reason": reason })).collect();
            let all = json!({
                "jobs": shown, "other_versions": others, "unreadable": unreadable, "workers": workers,
            });
            printable_json(&all) + "\n"
        }
        false => table(&shown, &others, &unreadable, &workers),
    };
    // Nobody is left to tell if stdout is closed.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

/// The names and texts come from the server.
fn table(jobs: &[Value], others: &[Value], unreadable: &[(String, String)], workers: &[Report]) -> String {
    let mut rows =
        vec![["JOB", "KIND", "PIECES", "RESULTS", "WAITING", "IN WORK", "PUT ASIDE"].map(str::to_owned)];
    for job in jobs {
        let cell = |name: &str| match &job[name] {
            _ if name == "waiting" && job["is_decided"] == true => "decided".to_owned(),
            Value::String(text) => printable(text),
            Value::Null => "being submitted".to_owned(),
            value => value.to_string(),
        };
        rows.push(["name", "kind", "pieces", "results", "waiting", "held", "failed"].map(cell));
    }
    let mut text = aligned(&rows);
    for other in others {
        let name = printable(other["name"].as_str().unwrap_or_default());
        text += &format!("{name}: another version of the protocol, {}\n", other["protocol"]);
    }
    for (what, reason) in unreadable {
        text += &printable(&format!("{what} cannot be used: {reason}"));
        text += "\n";
    }
    if workers.is_empty() {
        return text + "\nno workers\n";
    }
    let mut rows = vec![["WORKER", "JOB", "IN WORK", "DONE", "POSITIONS", "FAILURES"].map(str::to_owned)];
    for worker in workers {
        rows.push([
            printable(&worker.name),
            worker.job.as_deref().map_or_else(|| "-".to_owned(), printable),
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
            text += &printable(&format!("{} leaves {job}: {reason}", worker.name));
            text += "\n";
        }
        if let Some(failure) = &worker.last_failure {
            text += &printable(&format!("{}: {failure}", worker.name));
            text += "\n";
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
