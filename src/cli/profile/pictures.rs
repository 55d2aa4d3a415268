//! The pictures of a profile: time by operation, roofline, throughput.

use super::group::part;
use super::limit::Limit;
use super::report::Measured;
use crate::cli::chart::{Chart, Mark, Panel, Places, Point, Roofline, Shape, Stacked, StackedRow};
use crate::cli::error::CliError;
use rukh_backend::profile::Pass;
use std::path::{Path, PathBuf};

/// The radius of the dots on the ladder of batch sizes.
const DOT_RADIUS: f64 = 6.0;

/// Writes all pictures. The first one is `path`; the names of the others have a word before the extension.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write(
    path: &Path,
    measured: &Measured,
    ladder: &[usize],
    facts: &[String],
) -> Result<Vec<PathBuf>, CliError> {
    let paths = vec![path.to_owned(), beside(path, "roofline"), beside(path, "throughput")];
    operations(measured, facts).write(&paths[0])?;
    roofline(measured, facts).write(&paths[1])?;
    throughput(&measured.passes, ladder, facts).write(&paths[2])?;
    Ok(paths)
}

/// `picture.svg` with a word becomes `picture-word.svg`.
fn beside(path: &Path, word: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map_or("svg".into(), |extension| extension.to_string_lossy());
    path.with_file_name(format!("{stem}-{word}.{extension}"))
}

/// The time of each operation, with a segment for each encoder or block.
fn operations(measured: &Measured, facts: &[String]) -> Stacked {
    let steps = &measured.profile.steps;
    let rows = measured.operations().into_iter().map(|row| {
        let of_row = steps.iter().filter(|step| step.kind() == row.group.name);
        StackedRow {
            segments: of_row.map(|step| (part(step), step.mean())).collect(),
            note: format!("{:.1} %, {}", row.share * 100.0, row.limit.map_or("", Limit::name)),
            name: row.group.name,
        }
    });
    Stacked {
        title: format!("Time by operation, {} positions", measured.profile.positions),
        facts: facts.to_vec(),
        x_label: "Microseconds, with a segment for each encoder or block".to_owned(),
        rows: rows.collect(),
    }
}

/// All operations, under the ceilings.
fn roofline(measured: &Measured, facts: &[String]) -> Roofline {
    let rows = measured.operations();
    let ceilings = &measured.ceilings;
    let mut copies: Vec<(String, f64)> = Vec::new();
    // The first and the last copy show the fastest cache and the memory.
    for copy in ceilings.copies.first().into_iter().chain(ceilings.copies.last()) {
        copies.push((format!("copies of {}", super::report::size(copy.bytes)), copy.bytes_per_second));
    }
    Roofline {
        title: format!("Roofline, {} positions", measured.profile.positions),
        facts: facts.to_vec(),
        operations_per_second: ceilings.operations_per_second,
        byte_operations_per_second: ceilings.byte_operations_per_second,
        copies,
        points: rows
            .into_iter()
            .map(|row| Point {
                intensity: row.group.operations / row.group.bytes,
                bytes_per_second: row.gigabytes_per_second * 1e9,
                name: row.group.name,
            })
            .collect(),
    }
}

/// Positions per second by batch size, with the sizes that the backend has programs for.
fn throughput(passes: &[Pass], ladder: &[usize], facts: &[String]) -> Chart {
    let speed = |pass: &Pass| pass.positions as f64 / pass.microseconds * 1e6;
    let mut marks =
        vec![Mark { name: "measured".to_owned(), shape: Shape::Line(passes.iter().map(speed).collect()) }];
    if !ladder.is_empty() {
        let on_ladder = |pass: &Pass| if ladder.contains(&pass.positions) { speed(pass) } else { f64::NAN };
        let shape = Shape::Dots(passes.iter().map(on_ladder).collect(), DOT_RADIUS, None);
        marks.push(Mark { name: "sizes that have a program".to_owned(), shape });
    }
    Chart {
        title: "Throughput by batch size".to_owned(),
        facts: facts.to_vec(),
        x_label: "Batch size".to_owned(),
        places: Places::Numbers(passes.iter().map(|pass| pass.positions as f64).collect()),
        panels: vec![Panel { heading: "Positions per second".to_owned(), marks, least_top: 0.0 }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_get_names_beside_each_other() {
        assert_eq!(beside(Path::new("a/profile.svg"), "roofline"), Path::new("a/profile-roofline.svg"));
        assert_eq!(beside(Path::new("profile"), "throughput"), Path::new("profile-throughput.svg"));
    }
}
