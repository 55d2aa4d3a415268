//! The result of a profile, as tables and as JSON.

use super::group::{Group, operations, parts};
use super::limit::{Floors, Limit, Terms, terms};
use rukh_backend::profile::{Ceilings, Pass, Profile, StepProfile, mean};
use serde::Serialize;

/// Everything that was measured.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// The backend's name.
    pub(super) backend: String,
    pub(super) ceilings: Ceilings,
    pub(super) profile: Profile,
    /// The profile of another batch size.
    pub(super) other: Option<Profile>,
    /// Whole passes of several batch sizes; empty unless a picture shows them.
    pub(super) passes: Vec<Pass>,
}

/// A line of a table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) group: Group,
    /// The mean over the passes.
    pub(super) microseconds: f64,
    /// The error of the mean as a share of it.
    pub(super) noise: f64,
    /// The share of the sum of all steps.
    pub(super) share: f64,
    pub(super) teraflops: f64,
    pub(super) gigabytes_per_second: f64,
    /// The time that as many empty kernels take, in microseconds: the gaps between kernels. At most the whole time.
    pub(super) gaps: f64,
    /// In microseconds.
    pub(super) floors: Floors,
    /// In microseconds.
    pub(super) terms: Terms,
    /// `None` if the ceilings are not known.
    pub(super) limit: Option<Limit>,
    /// The share of the time that the limit explains.
    pub(super) limit_share: f64,
}

impl Row {
    /// The share of the highest measured speed of products that this operation reaches.
    pub(super) fn of_compute(&self) -> f64 {
        ratio(self.floors.compute, self.microseconds)
    }

    /// The share of the speed of a copy that this operation reaches.
    pub(super) fn of_copy(&self) -> f64 {
        ratio(self.floors.copy, self.microseconds)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

impl Measured {
    /// The rows by operation, in the order of the pass.
    pub(super) fn operations(&self) -> Vec<Row> {
        self.rows(operations)
    }

    /// The rows by encoder, block or head, in the order of the pass.
    pub(super) fn parts(&self) -> Vec<Row> {
        self.rows(parts)
    }

    fn rows(&self, groups: impl Fn(&Profile) -> Vec<Group>) -> Vec<Row> {
        let sum = self.profile.sum();
        let others = self.other.as_ref().map(|other| (other.positions, groups(other)));
        let row = |group: Group| {
            let microseconds = group.microseconds();
            let other = others.as_ref().and_then(|(positions, others)| {
                Some((*positions, others.iter().find(|other| other.name == group.name)?))
            });
            let terms = terms((self.profile.positions, &group), other, &self.ceilings);
            let (limit, limit_share) = terms.binding();
            Row {
                microseconds,
                noise: group.noise(),
                share: ratio(microseconds, sum),
                teraflops: ratio(group.operations, microseconds) / 1e6,
                gigabytes_per_second: ratio(group.bytes, microseconds) / 1e3,
                gaps: (group.launches as f64 * self.ceilings.launch_microseconds).min(microseconds),
                floors: Floors::of(&group, &self.ceilings),
                terms,
                limit: (self.ceilings != Ceilings::default()).then_some(limit),
                limit_share,
                group,
            }
        };
        groups(&self.profile).into_iter().map(row).collect()
    }

    /// The lines of the text report.
    pub(super) fn text(&self) -> Vec<String> {
        let Measured { backend, ceilings, profile, other, .. } = self;
        let (whole, sum) = (profile.whole(), profile.sum());
        let mut lines = vec![
            format!(
                "{backend}, {} positions: {whole:.1} us, {:.0} positions/s",
                profile.positions,
                ratio(profile.positions as f64 * 1e6, whole)
            ),
            format!(
                "The steps take {sum:.1} us together, {:+.1} % of the whole pass.",
                (ratio(sum, whole) - 1.0) * 100.0
            ),
            format!("Ceilings: {}; {}", speeds(ceilings), copies(ceilings)),
        ];
        if !profile.parallel_microseconds.is_empty() {
            lines.push(format!(
                "With parallel branches, as the engine runs it, the pass takes {:.1} us.",
                mean(&profile.parallel_microseconds)
            ));
        }
        if ceilings.launch_microseconds > 0.0 {
            lines.push(format!("An empty kernel takes {:.2} us.", ceilings.launch_microseconds));
        }
        if let Some(other) = other {
            lines.push(format!(
                "With {} positions the pass takes {:.1} us. The limits follow from the difference.",
                other.positions,
                other.whole()
            ));
        }
        for (title, rows) in [("operation", self.operations()), ("part of the network", self.parts())] {
            lines.push(String::new());
            lines.extend(table(title, &rows));
        }
        lines
    }

    /// The whole result.
    pub(super) fn json(&self) -> serde_json::Value {
        let Measured { backend, ceilings, profile, other, passes } = self;
        serde_json::json!({
            "backend": backend,
            "positions": profile.positions,
            "microseconds": profile.whole(),
            "parallel_microseconds": (!profile.parallel_microseconds.is_empty())
                .then(|| mean(&profile.parallel_microseconds)),
            "sum_of_steps": profile.sum(),
            "ceilings": ceilings,
            "operations": self.operations(),
            "parts": self.parts(),
            "passes": passes,
            "steps": profile.steps.iter().map(step).collect::<Vec<_>>(),
            "other": other.as_ref().map(|other| serde_json::json!({
                "positions": other.positions,
                "microseconds": other.whole(),
            })),
        })
    }
}

/// A step without the single passes.
fn step(step: &StepProfile) -> serde_json::Value {
    let StepProfile {
        stage,
        index,
        operation,
        kernel,
        calls,
        launches,
        operations,
        byte_operations,
        bytes,
        ..
    } = step;
    serde_json::json!({
        "stage": stage,
        "index": index,
        "operation": operation,
        "kernel": kernel,
        "calls": calls,
        "launches": launches,
        "microseconds": step.mean(),
        "operations": operations,
        "byte_operations": byte_operations,
        "bytes": bytes,
    })
}

/// The speeds of products, in words.
fn speeds(ceilings: &Ceilings) -> String {
    let speed = |operations: f64| format!("{:.3} TFLOP/s", operations / 1e12);
    let all = speed(ceilings.operations_per_second);
    match ceilings.byte_operations_per_second {
        0.0 => all,
        of_bytes => format!("{all}; {} with 8-bit numbers", speed(of_bytes)),
    }
}

/// The speeds of copies, in words.
fn copies(ceilings: &Ceilings) -> String {
    let one = |copy: &rukh_backend::profile::CopySpeed| {
        format!("{:.0} GB/s for {}", copy.bytes_per_second / 1e9, size(copy.bytes))
    };
    format!("copies: {}", ceilings.copies.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// A number of bytes with its unit.
pub(super) fn size(bytes: f64) -> String {
    match bytes {
        0.0..1_048_576.0 => format!("{:.0} KiB", bytes / 1024.0),
        _ => format!("{:.0} MiB", bytes / 1_048_576.0),
    }
}

const COLUMNS: &str = "         us       %   TFLOP/s     GB/s  % compute  % copy  floor us  limit";
/// The columns that only a device has.
const LAUNCH_COLUMNS: &str = "  launches   gaps us";

/// A table with a line for each row. The columns "% compute" and "% copy" are shares of the ceilings, "floor us" is the
/// time that the higher of the two ceilings allows, and the limit is followed by its share of the time.
pub(super) fn table(title: &str, rows: &[Row]) -> Vec<String> {
    let width = rows.iter().map(|row| row.group.name.chars().count()).max().unwrap_or(0).max(title.len());
    let has_launches = rows.iter().any(|row| row.group.launches > 0);
    let launch_columns = if has_launches { LAUNCH_COLUMNS } else { "" };
    let mut lines = vec![format!("{title:<width$}   calls{launch_columns}{COLUMNS}")];
    for row in rows {
        // An operation without products has no speed of products.
        let of_products = |text: String| if row.group.operations > 0.0 { text } else { String::new() };
        let launches = format!("{:10}{:10.1}", row.group.launches, row.gaps);
        lines.push(format!(
            "{:<width$}{:8}{}{:11.1}{:8.1}{:>10}{:9.1}{:>11}{:8.1}{:10.1}  {}",
            row.group.name,
            row.group.calls,
            if has_launches { launches } else { String::new() },
            row.microseconds,
            row.share * 100.0,
            of_products(format!("{:.4}", row.teraflops)),
            row.gigabytes_per_second,
            of_products(format!("{:.1}", row.of_compute() * 100.0)),
            row.of_copy() * 100.0,
            row.floors.compute.max(row.floors.copy),
            row.limit.map_or(String::new(), |limit| format!(
                "{} {:.0} %",
                limit.name(),
                row.limit_share * 100.0
            ))
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::group::tests::step;
    use super::*;
    use rukh_backend::profile::CopySpeed;

    #[test]
    fn shares_and_speeds_follow_from_times_and_work() {
        let steps = vec![
            step(("encoder", Some(0)), "QKV", vec![2.0]),
            step(("encoder", Some(1)), "QKV", vec![4.0]),
            step(("value", None), "output", vec![2.0]),
        ];
        let measured = Measured {
            backend: "cpu".to_owned(),
            ceilings: Ceilings {
                operations_per_second: 1e12,
                byte_operations_per_second: 0.0,
                copies: vec![CopySpeed { bytes: 1e6, bytes_per_second: 1e10 }],
                launch_microseconds: 0.5,
            },
            profile: Profile {
                positions: 4,
                whole_microseconds: vec![8.0],
                parallel_microseconds: vec![7.0],
                steps,
            },
            other: None,
            passes: Vec::new(),
        };
        let rows = measured.operations();
        assert_eq!((rows[0].share, rows[1].share), (0.75, 0.25));
        // 2 million operations in 6 us, at most 1 million in a microsecond.
        assert!(
            (rows[0].teraflops - 1.0 / 3.0).abs() < 1e-9 && (rows[0].of_compute() - 1.0 / 3.0).abs() < 1e-9
        );
        // 2000 bytes in 6 us, at most 10,000 in a microsecond.
        assert!((rows[0].gigabytes_per_second - 1.0 / 3.0).abs() < 1e-9);
        assert!((rows[0].of_copy() - 1.0 / 30.0).abs() < 1e-9);
        // Two kernels, and half a microsecond between them.
        assert_eq!((rows[0].group.launches, rows[0].gaps, rows[1].gaps), (2, 1.0, 0.5));
        let text = measured.text();
        assert_eq!(text[1], "The steps take 8.0 us together, +0.0 % of the whole pass.");
        assert!(text.iter().any(|line| line.ends_with("the pass takes 7.0 us.")), "{text:#?}");
        let lines: Vec<&String> =
            text.iter().filter(|line| line.contains(COLUMNS) || line.contains(" %")).collect();
        assert!(
            lines.iter().skip(2).all(|line| line.len() >= lines[1].find("  limit").unwrap_or(0)),
            "{text:#?}"
        );
        assert_eq!(measured.json()["operations"][1]["name"], "value output");
    }
}
