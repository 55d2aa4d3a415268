//! Draws horizontal bars, each of which is made of segments.

use super::canvas::{Canvas, MARGIN, text_width};
use super::scale::{Scale, number};
use super::{STYLE, WIDTH, write_picture};
use crate::cli::error::CliError;
use std::path::Path;

/// The height of a row, and of the bar in it.
const ROW_HEIGHT: f64 = 27.0;
const BAR_HEIGHT: f64 = 18.0;

/// The space below the rows, for the axis.
const FOOT_HEIGHT: f64 = 58.0;

/// The space right of the longest bar, for its text.
const TEXT_WIDTH: f64 = 150.0;

/// A picture with a bar for each row.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Stacked {
    /// What the picture shows.
    pub title: String,
    /// What was measured on what. Absent facts are empty.
    pub facts: Vec<String>,
    /// The name of the horizontal axis.
    pub x_label: String,
    /// From the top down.
    pub rows: Vec<StackedRow>,
}

/// A bar.
#[derive(Clone, Debug)]
pub(in crate::cli) struct StackedRow {
    /// The text left of the bar.
    pub name: String,
    /// The names and values of the segments, from left to right.
    pub segments: Vec<(String, f64)>,
    /// The text right of the bar.
    pub note: String,
}

impl StackedRow {
    fn sum(&self) -> f64 {
        self.segments.iter().map(|(_, value)| value).filter(|value| value.is_finite()).sum()
    }
}

impl Stacked {
    /// Writes the picture into a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(in crate::cli) fn write(&self, path: &Path) -> Result<(), CliError> {
        write_picture(path, &self.to_svg())
    }

    /// The picture as the text of an SVG file.
    pub(super) fn to_svg(&self) -> String {
        let mut canvas = Canvas::default();
        let top = canvas.head(&self.title, &self.facts, WIDTH) + 14.0;
        let widest = self.rows.iter().map(|row| text_width(&row.name)).fold(0.0, f64::max);
        let left = MARGIN + (widest * 0.96).min(WIDTH / 3.0) + 10.0;
        let right = WIDTH - MARGIN - TEXT_WIDTH;
        let scale = Scale::from_zero(self.rows.iter().map(StackedRow::sum).fold(0.0, f64::max));
        let x_of = |value: f64| left + scale.share(value) * (right - left);
        let bottom = top + self.rows.len() as f64 * ROW_HEIGHT;
        for &tick in &scale.ticks {
            let class = if tick == 0.0 { "axis" } else { "grid" };
            let x = x_of(tick);
            canvas.shape("path", format_args!("class=\"{class}\" d=\"M{x:.1} {top:.1}V{bottom:.1}\""), None);
            canvas.text("muted", (x, bottom + 20.0), "middle", &number(tick));
        }
        for (index, row) in self.rows.iter().enumerate() {
            let y = top + index as f64 * ROW_HEIGHT + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
            canvas.text("", (left - 9.0, y + 14.0), "end", &row.name);
            let mut start = 0.0;
            for (place, (name, value)) in row.segments.iter().enumerate() {
                if !value.is_finite() || *value <= 0.0 {
                    continue;
                }
                let (x, width) = (x_of(start), x_of(start + value) - x_of(start));
                // Neighbouring segments differ in their shade.
                let class = if place % 2 == 0 { "f0" } else { "f0 other" };
                let size = format_args!("width=\"{width:.2}\" height=\"{BAR_HEIGHT}\"").to_string();
                let tooltip =
                    format!("{} {}, {} {name}", number(*value), self.x_label.to_lowercase(), row.name);
                canvas.shape(
                    "rect",
                    format_args!("class=\"{class}\" x=\"{x:.2}\" y=\"{y:.1}\" {size}"),
                    Some(&tooltip),
                );
                start += value;
            }
            canvas.text("muted", (x_of(row.sum()) + 8.0, y + 14.0), "start", &row.note);
        }
        canvas.text("", ((left + right) / 2.0, bottom + 44.0), "middle", &self.x_label);
        canvas.finish(WIDTH, bottom + FOOT_HEIGHT, STYLE, &self.title)
    }
}
