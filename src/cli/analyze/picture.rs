//! The picture of a game: White's expected score by move, with the mistakes.

use crate::analysis::annotate::GraphPoint;
use crate::cli::chart::{Chart, Mark, Panel, Places, Shape};
use std::path::{Path, PathBuf};

/// The names of the mistakes, their glyphs, and the radii and colours of their dots, by their severity: yellow, orange
/// and purple.
const MISTAKES: [(&str, &str, f64, usize); 3] =
    [("?! inaccuracy", "?!", 4.5, 4), ("? mistake", "?", 5.5, 1), ("?? blunder", "??", 6.5, 3)];

/// The path of the picture of a document: `path` for the first, and `name-2.svg` for the second.
pub(super) fn path_of(path: &Path, number: u64) -> PathBuf {
    if number == 1 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map_or_else(String::new, |ending| format!(".{}", ending.to_string_lossy()));
    path.with_file_name(format!("{stem}-{number}{ending}"))
}

/// The chart of a game. `title` names it, and `facts` are what else is known.
pub(super) fn chart(title: &str, facts: Vec<String>, points: &[GraphPoint]) -> Chart {
    let percent = |point: &GraphPoint| 100.0 * point.white;
    let places = points.iter().map(|point| {
        let glyph = point.severity.map_or("", |severity| MISTAKES[severity].1);
        let name = if point.played.is_empty() { "start" } else { &point.played };
        (point.moves, format!("{name}{glyph}"))
    });
    let area = points.iter().map(|point| (0.0, percent(point))).collect();
    let mut marks = vec![
        Mark { name: String::new(), shape: Shape::Band(area) },
        Mark { name: "expected score".to_owned(), shape: Shape::Line(points.iter().map(percent).collect()) },
    ];
    for (severity, (name, _, radius, colour)) in MISTAKES.into_iter().enumerate() {
        let of_point = |point: &GraphPoint| match point.severity == Some(severity) {
            true => percent(point),
            false => f64::NAN,
        };
        let dots = points.iter().map(of_point).collect();
        marks.push(Mark { name: name.to_owned(), shape: Shape::Dots(dots, radius, Some(colour)) });
    }
    Chart {
        title: title.to_owned(),
        facts,
        x_label: "Move".to_owned(),
        places: Places::Named(places.collect()),
        panels: vec![Panel { heading: "Percent for White".to_owned(), least_top: 100.0, marks }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_has_a_file() {
        let path =
            |number| path_of(Path::new("a/game.x.svg"), number).display().to_string().replace('\\', "/");
        assert_eq!([path(1), path(12)], ["a/game.x.svg", "a/game.x-12.svg"]);
    }

    #[test]
    fn each_mistake_is_a_dot_with_its_move() {
        let point = |played: &str, white, severity| GraphPoint {
            moves: 1.0,
            played: played.to_owned(),
            white,
            severity,
        };
        let points = [point("", 0.5, None), point("1. f3", 0.4, Some(0)), point("2. g4", 0.0, Some(2))];
        let svg = chart("a & b", vec!["0-1".to_owned()], &points).to_svg();
        assert!(svg.contains("0 percent for white, 2. g4??</title>"), "{svg}");
        assert_eq!(svg.matches("r=\"6.5\"").count(), 2, "the legend and the blunder: {svg}");
        assert_eq!(svg.matches("r=\"5.5\"").count(), 1, "only the legend: {svg}");
        assert!(!svg.contains("<circle class=\"f2\""), "no mistake is green: {svg}");
    }
}
