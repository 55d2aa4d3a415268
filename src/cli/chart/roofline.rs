//! Draws a roofline: what each operation computes in a second, over the operations that it does for each byte.
//!
//! The roof is the lower of two ceilings: the bytes that a copy moves in a second times that ratio, and the operations
//! that the device can do in a second (Williams, Waterman and Patterson, *Roofline: an insightful visual performance
//! model for multicore architectures*, 2009). Both axes are logarithmic.
//!
//! An operation without products does no operation for any byte. It stands in a strip at the left end of the axis, at the
//! height of the bytes that it moves in a second, so that its distance to the slope of a copy is as for the others.
//!
//! A number that would cover another one stands beside its point, with a line to it.

use super::canvas::{Canvas, MARGIN};
use super::scale::{Frame, number};
use super::{STYLE, WIDTH, write_picture};
use crate::cli::error::CliError;
use std::path::Path;

const PLOT_HEIGHT: f64 = 420.0;
const FOOT_HEIGHT: f64 = 64.0;

/// The strip of the operations without products: the number of places side by side, and their width.
const STRIP_PLACES: usize = 4;
const STRIP_PLACE_WIDTH: f64 = 22.0;

/// The radius of a number's disc, and that of a point whose number stands beside it.
const DISC: f64 = 10.0;
const POINT: f64 = 3.0;

/// The height of a line of the legend, and the number of its columns.
const LEGEND_LINE: f64 = 20.0;
const LEGEND_COLUMNS: usize = 3;

/// A picture of the ceilings of a device, with a point for each operation.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Roofline {
    /// What the picture shows.
    pub title: String,
    /// What was measured on what. Absent facts are empty.
    pub facts: Vec<String>,
    /// Operations in a second at most.
    pub operations_per_second: f64,
    /// The same with 8-bit numbers; 0 if there are none.
    pub byte_operations_per_second: f64,
    /// The names and the bytes in a second of copies, the fastest first.
    pub copies: Vec<(String, f64)>,
    /// The operations.
    pub points: Vec<Point>,
}

/// An operation.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Point {
    pub name: String,
    /// Operations for each byte; 0 without products.
    pub intensity: f64,
    pub bytes_per_second: f64,
}

impl Point {
    fn operations_per_second(&self) -> f64 {
        self.intensity * self.bytes_per_second
    }

    fn has_products(&self) -> bool {
        self.intensity > 0.0
    }
}

/// A logarithmic axis between two powers of ten.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis for some values, of which those that are not above zero are left out.
    fn of(values: impl Iterator<Item = f64>) -> Axis {
        let logarithms: Vec<f64> =
            values.filter(|value| value.is_finite() && *value > 0.0).map(f64::log10).collect();
        let low = logarithms.iter().copied().fold(f64::INFINITY, f64::min).floor();
        let high = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil();
        match low.is_finite() && high.is_finite() {
            true => Axis { low, high: high.max(low + 1.0) },
            false => Axis { low: 0.0, high: 1.0 },
        }
    }

    fn share(&self, value: f64) -> f64 {
        ((value.max(f64::MIN_POSITIVE).log10() - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// The powers of ten. There are at most 20, whatever the values are.
    fn ticks(&self) -> Vec<f64> {
        let step = ((self.high - self.low) / 20.0).ceil().max(1.0);
        let count = ((self.high - self.low) / step) as i32;
        (0..=count).map(|index| 10_f64.powf(self.low + f64::from(index) * step)).collect()
    }
}

impl Roofline {
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
        let head = canvas.head(&self.title, &self.facts, WIDTH);
        canvas.text("heading", (MARGIN, head + 30.0), "start", "Operations per second");
        let top = head + 44.0;
        let points: Vec<(usize, &Point)> =
            self.points.iter().filter(|point| point.bytes_per_second > 0.0).enumerate().collect();
        let has_strip = points.iter().any(|(_, point)| !point.has_products());
        let strip = MARGIN + 62.0;
        let strip_width = if has_strip { STRIP_PLACES as f64 * STRIP_PLACE_WIDTH } else { 0.0 };
        let frame =
            Frame { left: strip + strip_width, right: WIDTH - MARGIN, top, bottom: top + PLOT_HEIGHT };
        // The ridge, where both ceilings meet, is always inside.
        let ridges =
            self.peaks().flat_map(|(peak, _)| self.copies.iter().map(move |(_, speed)| peak / speed));
        let intensities = points.iter().map(|(_, point)| point.intensity);
        let x = Axis::of(intensities.filter(|&intensity| intensity > 0.0).chain(ridges));
        let left_end = 10_f64.powf(x.low);
        let height = |point: &Point| {
            if point.has_products() {
                point.operations_per_second()
            } else {
                left_end * point.bytes_per_second
            }
        };
        let speeds = points.iter().map(|(_, point)| height(point));
        let y = Axis::of(speeds.chain(self.peaks().map(|(peak, _)| peak)));
        let x_of = |value: f64| frame.left + x.share(value) * (frame.right - frame.left);
        let y_of = |value: f64| frame.bottom - y.share(value) * (frame.bottom - frame.top);
        axes(&frame, strip, (&x, &y), &mut canvas);
        self.roof(&x, (&x_of, &y_of), &mut canvas);
        let mut in_strip = 0;
        let mut discs: Vec<(f64, f64)> = Vec::new();
        for (index, point) in &points {
            let x = if point.has_products() {
                x_of(point.intensity)
            } else {
                in_strip += 1;
                strip + ((in_strip - 1) % STRIP_PLACES) as f64 * STRIP_PLACE_WIDTH + STRIP_PLACE_WIDTH / 2.0
            };
            let y = y_of(height(point));
            let tooltip = if point.has_products() {
                let (speed, intensity) = (point.operations_per_second(), point.intensity);
                format!(
                    "{}: {} operations per second, {} per byte",
                    point.name,
                    number(speed),
                    number(intensity)
                )
            } else {
                format!("{}: {} bytes per second", point.name, number(point.bytes_per_second))
            };
            let (disc_x, disc_y) = free_place((x, y), &discs, (strip, &frame));
            discs.push((disc_x, disc_y));
            if (disc_x, disc_y) != (x, y) {
                let path =
                    format_args!("class=\"axis\" d=\"M{x:.1} {y:.1}L{disc_x:.1} {disc_y:.1}\"").to_string();
                canvas.shape("path", path, None);
                let circle =
                    format_args!("class=\"f1\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{POINT}\"").to_string();
                canvas.shape("circle", circle, Some(&tooltip));
            }
            let circle =
                format_args!("class=\"f1\" cx=\"{disc_x:.1}\" cy=\"{disc_y:.1}\" r=\"{DISC}\"").to_string();
            canvas.shape("circle", circle, Some(&tooltip));
            canvas.text("inside small", (disc_x, disc_y + 4.0), "middle", &(index + 1).to_string());
        }
        if has_strip {
            let middle = strip + strip_width / 2.0;
            // One line below the numbers, because the first of them stands where the strip ends.
            canvas.text("muted", (middle, frame.bottom + 46.0), "middle", "no products");
        }
        let middle = (frame.left + frame.right) / 2.0;
        canvas.text("", (middle, frame.bottom + 46.0), "middle", "Operations per byte");
        let legend = frame.bottom + FOOT_HEIGHT;
        let lines = points.len().div_ceil(LEGEND_COLUMNS).max(1);
        for (index, point) in &points {
            let (column, line) = (index / lines, index % lines);
            let x = MARGIN + column as f64 * (WIDTH - 2.0 * MARGIN) / LEGEND_COLUMNS as f64;
            let text = format!("{} {}", index + 1, point.name);
            canvas.text("muted", (x, legend + (line as f64 + 0.6) * LEGEND_LINE), "start", &text);
        }
        canvas.finish(WIDTH, legend + lines as f64 * LEGEND_LINE + MARGIN / 2.0, STYLE, &self.title)
    }

    /// The ceilings of products, with their names.
    fn peaks(&self) -> impl Iterator<Item = (f64, String)> {
        let of_bytes = Some(self.byte_operations_per_second).filter(|&peak| peak > 0.0);
        let of_bytes =
            of_bytes.map(|peak| (peak, format!("{} operations/s with 8-bit numbers", number(peak))));
        let peak = self.operations_per_second;
        std::iter::once((peak, format!("{} operations/s", number(peak)))).chain(of_bytes)
    }

    /// The ceilings.
    fn roof(
        &self,
        x: &Axis,
        (x_of, y_of): (&impl Fn(f64) -> f64, &impl Fn(f64) -> f64),
        canvas: &mut Canvas,
    ) {
        let (first, last) = (10_f64.powf(x.low), 10_f64.powf(x.high));
        let highest = self.operations_per_second.max(self.byte_operations_per_second);
        for (index, (name, speed)) in self.copies.iter().enumerate() {
            let ridge = (highest / speed).clamp(first, last);
            let path = format!(
                "M{:.1} {:.1}L{:.1} {:.1}H{:.1}",
                x_of(first),
                y_of(first * speed),
                x_of(ridge),
                y_of((ridge * speed).min(highest)),
                x_of(last)
            );
            let class = if index + 1 == self.copies.len() { "line s0" } else { "line level s0" };
            let tooltip = format!("{name}: {} bytes/s", number(*speed));
            canvas.shape("path", format_args!("class=\"{class}\" d=\"{path}\"").to_string(), Some(&tooltip));
            // The name stands below the slope, at a third of its length.
            let at = first * (ridge / first).powf(0.3 + 0.12 * index as f64);
            canvas.text("muted", (x_of(at) + 8.0, y_of(at * speed) + 16.0), "start", name);
        }
        for (peak, text) in self.peaks() {
            let path = format!("M{:.1} {:.1}H{:.1}", x_of(first), y_of(peak), x_of(last));
            // The names of two ceilings stand apart even if the lines nearly touch.
            let name_at = if peak < highest { y_of(peak) + 18.0 } else { y_of(peak) - 8.0 };
            if self.byte_operations_per_second > 0.0 {
                canvas.shape("path", format_args!("class=\"line level s0\" d=\"{path}\"").to_string(), None);
            }
            canvas.text("muted", (x_of(last) - 4.0, name_at), "end", &text);
        }
    }
}

/// The place nearest to a point where a disc covers none of `discs`, inside the strip that begins at `left` and the frame.
fn free_place((x, y): (f64, f64), discs: &[(f64, f64)], (left, frame): (f64, &Frame)) -> (f64, f64) {
    /// The number of directions around a point, and of distances.
    const DIRECTIONS: u32 = 16;
    const DISTANCES: u32 = 12;
    let is_free =
        |(x, y): (f64, f64)| discs.iter().all(|disc| (disc.0 - x).hypot(disc.1 - y) >= 2.0 * DISC + 1.0);
    let is_inside =
        |(x, y): (f64, f64)| (left..=frame.right).contains(&x) && (frame.top..=frame.bottom).contains(&y);
    let around = (0..DISTANCES * DIRECTIONS).map(|step| {
        let distance = (2.0 * DISC + 2.0) * (1.0 + f64::from(step / DIRECTIONS) / 2.0);
        let angle = std::f64::consts::TAU * f64::from(step % DIRECTIONS) / f64::from(DIRECTIONS);
        (x + distance * angle.cos(), y - distance * angle.sin())
    });
    let mut places = std::iter::once((x, y)).chain(around.filter(|&place| is_inside(place)));
    places.find(|&place| is_free(place)).unwrap_or((x, y))
}

/// The lines and the numbers of both axes. The strip left of the axis begins at `strip`.
fn axes(frame: &Frame, strip: f64, (x, y): (&Axis, &Axis), canvas: &mut Canvas) {
    let Frame { left, right, top, bottom } = *frame;
    for tick in y.ticks() {
        let at = bottom - y.share(tick) * (bottom - top);
        canvas.shape("path", format_args!("class=\"grid\" d=\"M{strip:.1} {at:.1}H{right:.1}\""), None);
        canvas.text("muted", (strip - 9.0, at + 5.0), "end", &number(tick));
    }
    for tick in x.ticks() {
        let at = left + x.share(tick) * (right - left);
        canvas.shape("path", format_args!("class=\"grid\" d=\"M{at:.1} {top:.1}V{bottom:.1}\""), None);
        canvas.text("muted", (at, bottom + 22.0), "middle", &number(tick));
    }
}
