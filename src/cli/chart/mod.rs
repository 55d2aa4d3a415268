//! Charts as SVG files, for `--svg`.
//!
//! A chart has a title, a few facts about the measurement, and one or more panels above each other, which share the
//! horizontal axis. The file needs no font and no script, and follows the reader's light or dark theme. Every value is
//! also a tooltip, which a browser shows if the file is opened by itself.
//!
//! | module | what it does |
//! |---|---|
//! | [`stacked`] | draws horizontal bars of segments |
//! | [`roofline`] | draws points under the ceilings of a device |
//! | [`panel`] | draws one panel |
//! | [`model`] | holds what a chart shows |
//! | [`scale`] | chooses the values on an axis, maps values to coordinates, and writes numbers |
//! | [`canvas`] | collects the elements of the file, and escapes and shortens text |

mod canvas;
mod model;
mod panel;
mod roofline;
mod scale;
mod stacked;

use super::error::CliError;
use super::output_file::write_whole;
use canvas::{Canvas, MARGIN};
pub(super) use model::{Chart, Mark, Panel, Places, Shape};
pub(super) use roofline::{Point, Roofline};
use rukh_base::os_error::why_not_written;
use scale::{Frame, Scale};
pub(super) use stacked::{Stacked, StackedRow};
use std::path::Path;

const WIDTH: f64 = 880.0;

/// The height of a panel's heading and of its axes.
const HEADING_HEIGHT: f64 = 40.0;
const PLOT_HEIGHT: f64 = 210.0;

/// The space below a panel.
const PANEL_GAP: f64 = 22.0;

/// The space below the last panel, for the horizontal axis.
const FOOT_HEIGHT: f64 = 64.0;

/// The colours are those of Okabe and Ito, which people with any colour vision can tell apart; the fourth is a darker or
/// lighter form of theirs. Viewers that do not know media queries show the light theme.
const STYLE: &str = "\
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Arial,sans-serif;font-size:15px;fill:#1f2328}
.title{font-size:21px;font-weight:600}
.heading{font-weight:600}
.muted{fill:#59636e}
.inside{fill:#fff;font-size:14px}
.paper{fill:#fff;stroke:#d1d9e0}
.grid{stroke:#d1d9e0}
.axis{stroke:#59636e}
.f0{fill:#0072b2}.s0{stroke:#0072b2}
.f1{fill:#d55e00}.s1{stroke:#d55e00}
.f2{fill:#007a5a}.s2{stroke:#007a5a}
.f3{fill:#a8457f}.s3{stroke:#a8457f}
.f4{fill:#d9a300}
.line{fill:none;stroke-width:2.5;stroke-linejoin:round}
.band{fill-opacity:.2}
.level{stroke-width:2.5;stroke-dasharray:8 5}
.hit{fill-opacity:0}
.other{fill-opacity:.62}
.small{font-size:11px;font-weight:600}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.muted{fill:#9ea7b1}
.inside{fill:#0d1117}
.paper{fill:#0d1117;stroke:#30363d}
.grid{stroke:#30363d}
.axis{stroke:#9ea7b1}
.f0{fill:#56b4e9}.s0{stroke:#56b4e9}
.f1{fill:#e69f00}.s1{stroke:#e69f00}
.f2{fill:#2ec39a}.s2{stroke:#2ec39a}
.f3{fill:#e08fbf}.s3{stroke:#e08fbf}
.f4{fill:#f0e442}
}";

/// Writes the text of a picture into a file.
fn write_picture(path: &Path, svg: &str) -> Result<(), CliError> {
    write_whole(path, |file| file.write_all(svg.as_bytes())).map_err(|error| {
        format!("cannot write the picture {}: {}", path.display(), why_not_written(path, &error)).into()
    })
}

impl Chart {
    /// Writes the chart into a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<(), CliError> {
        write_picture(path, &self.to_svg())
    }

    /// The chart as the text of an SVG file.
    pub(super) fn to_svg(&self) -> String {
        let mut canvas = Canvas::default();
        let mut top = canvas.head(&self.title, &self.facts, WIDTH) + 14.0;

        let vertical: Vec<Scale> =
            self.panels.iter().map(|panel| Scale::from_zero(panel.largest())).collect();
        let widest = vertical.iter().map(Scale::label_width).fold(0.0, f64::max);
        let left = MARGIN + widest + 10.0;
        let frame = |top: f64| Frame { left, right: WIDTH - MARGIN, top, bottom: top + PLOT_HEIGHT };
        let mut bottom = top;
        for (panel, scale) in self.panels.iter().zip(&vertical) {
            let frame = frame(top + HEADING_HEIGHT);
            panel::draw(self, panel, scale, &frame, &mut canvas);
            bottom = frame.bottom;
            top = frame.bottom + PANEL_GAP;
        }
        panel::draw_horizontal_axis(self, &frame(bottom - PLOT_HEIGHT), &mut canvas);
        canvas.finish(WIDTH, bottom + FOOT_HEIGHT, STYLE, &self.title)
    }
}

#[cfg(test)]
mod tests;
