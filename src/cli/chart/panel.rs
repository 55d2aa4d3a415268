//! Draws a panel: its heading with a legend, its axes and its marks.

use super::canvas::{Canvas, MARGIN, text_width};
use super::model::{Chart, Mark, Panel, Places, Shape};
use super::scale::{Frame, Scale, number};

use std::fmt::Write;

/// If a line has more places than this, its dots are invisible and only show tooltips.
const MOST_DOTS: usize = 48;

/// The number of colours in the style.
const COLOURS: usize = 4;

/// The share of the distance between two places that a bar fills.
const BAR_SHARE: f64 = 0.76;

/// The size of the text in a bar as a share of the usual size.
const BAR_TEXT_SIZE: f64 = 14.0 / 15.0;

/// The space between the text of a bar and the bar's sides.
const BAR_PADDING: f64 = 4.0;

/// Draws `panel` into `frame`, and its heading above it.
pub(super) fn draw(chart: &Chart, panel: &Panel, scale: &Scale, frame: &Frame, canvas: &mut Canvas) {
    let y_of = |value: f64| frame.bottom - scale.share(value) * (frame.bottom - frame.top);
    canvas.text("heading", (MARGIN, frame.top - 13.0), "start", &panel.heading);
    draw_legend(panel, frame, canvas);
    for &tick in &scale.ticks {
        let y = y_of(tick);
        let class = if tick == 0.0 { "axis" } else { "grid" };
        canvas.shape(
            "path",
            format_args!("class=\"{class}\" d=\"M{:.1} {y:.1}H{:.1}\"", frame.left, frame.right),
            None,
        );
        canvas.text("muted", (frame.left - 9.0, y + 5.0), "end", &number(tick));
    }
    for (mark, colour) in panel.marks.iter().zip(colours(panel)) {
        let drawing = Drawing { chart, panel, mark, colour, frame };
        match &mark.shape {
            Shape::Line(values) => drawing.line(values, y_of, canvas),
            Shape::Dots(values, radius, _) => drawing.dots(values, *radius, y_of, canvas),
            Shape::Band(pairs) => drawing.band(pairs, y_of, canvas),
            Shape::Bars(values) => drawing.bars(values, y_of, canvas),
            Shape::Level(value) => drawing.level(*value, y_of, canvas),
        }
    }
}

/// The values or numbers of the places, and the name of the axis.
pub(super) fn draw_horizontal_axis(chart: &Chart, frame: &Frame, canvas: &mut Canvas) {
    let mut write = |x: f64, text: &str| canvas.text("muted", (x, frame.bottom + 22.0), "middle", text);
    match &chart.places {
        Places::Numbers(_) | Places::Named(_) => {
            let scale = Scale::of_numbers(&chart.places.numbers());
            for &tick in &scale.ticks {
                write(x_of_number(&scale, tick, frame), &number(tick));
            }
        }
        Places::Items(items) => {
            let every = (items.len() / 40 + 1).max(1);
            for index in (0..items.len()).step_by(every) {
                write(x_of_item(items.len(), index, frame), &(index + 1).to_string());
            }
        }
    }
    let middle = (frame.left + frame.right) / 2.0;
    canvas.text("", (middle, frame.bottom + 46.0), "middle", &chart.x_label);
}

/// Numbers keep a distance from the frame's sides, so that their dots and texts are inside.
fn x_of_number(scale: &Scale, value: f64, frame: &Frame) -> f64 {
    const DISTANCE: f64 = 16.0;
    frame.left + DISTANCE + scale.share(value) * (frame.right - frame.left - 2.0 * DISTANCE)
}

fn x_of_item(count: usize, index: usize, frame: &Frame) -> f64 {
    frame.left + (index as f64 + 0.5) / count.max(1) as f64 * (frame.right - frame.left)
}

/// The names of the marks with samples of their colours, at the right end of the heading.
fn draw_legend(panel: &Panel, frame: &Frame, canvas: &mut Canvas) {
    const SAMPLE: f64 = 22.0;
    const SAMPLE_GAP: f64 = 7.0;
    const ENTRY_GAP: f64 = 18.0;
    let mut x = frame.right;
    let y = frame.top - 18.0;
    let named = panel.marks.iter().zip(colours(panel)).filter(|(mark, _)| !mark.name.is_empty());
    for (mark, colour) in named.rev() {
        let name = match mark.shape {
            Shape::Level(value) => format!("{}: {}", mark.name, number(value)),
            _ => mark.name.clone(),
        };
        x -= text_width(&name);
        canvas.text("muted", (x, y + 5.0), "start", &name);
        x -= SAMPLE_GAP + SAMPLE;
        let top = y - 6.0;
        match mark.shape {
            Shape::Line(_) | Shape::Level(_) => {
                let class = if matches!(mark.shape, Shape::Line(_)) { "line" } else { "level" };
                let path = format_args!("class=\"{class} s{colour}\" d=\"M{x:.1} {y:.1}h{SAMPLE}\"");
                canvas.shape("path", path, None);
            }
            Shape::Dots(_, radius, _) => {
                let (x, class) = (x + SAMPLE / 2.0, format_args!("f{colour}"));
                let circle = format_args!("class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"");
                canvas.shape("circle", circle, None);
            }
            Shape::Band(_) | Shape::Bars(_) => {
                let class = if matches!(mark.shape, Shape::Band(_)) { "band " } else { "" };
                let size = format_args!("width=\"{SAMPLE}\" height=\"12\" rx=\"2\"");
                let rectangle = format_args!("class=\"{class}f{colour}\" x=\"{x:.1}\" y=\"{top:.1}\" {size}");
                canvas.shape("rect", rectangle, None);
            }
        }
        x -= ENTRY_GAP;
    }
}

/// The numbers of the marks' colours in the style. A band has the colour of the mark after it.
fn colours(panel: &Panel) -> Vec<usize> {
    let mut next = 0;
    let colour = |mark: &Mark| {
        if let Shape::Dots(_, _, Some(colour)) = mark.shape {
            return colour;
        }
        let colour = next % COLOURS;
        next += usize::from(!matches!(mark.shape, Shape::Band(_)));
        colour
    };
    panel.marks.iter().map(colour).collect()
}

/// A mark in its panel.
struct Drawing<'a> {
    chart: &'a Chart,
    panel: &'a Panel,
    mark: &'a Mark,
    /// The number of the colour in the style.
    colour: usize,
    frame: &'a Frame,
}

impl Drawing<'_> {
    /// The coordinates and the names of the places.
    fn places(&self) -> Vec<(f64, String)> {
        match &self.chart.places {
            Places::Numbers(numbers) => {
                let scale = Scale::of_numbers(numbers);
                let name = |value| format!("{} {}", self.chart.x_label.to_lowercase(), number(value));
                numbers.iter().map(|&value| (x_of_number(&scale, value, self.frame), name(value))).collect()
            }
            Places::Named(places) => {
                let scale = Scale::of_numbers(&self.chart.places.numbers());
                places
                    .iter()
                    .map(|(value, name)| (x_of_number(&scale, *value, self.frame), name.clone()))
                    .collect()
            }
            Places::Items(items) => {
                let x = |index| x_of_item(items.len(), index, self.frame);
                items
                    .iter()
                    .enumerate()
                    .map(|(index, name)| (x(index), format!("{} {name}", index + 1)))
                    .collect()
            }
        }
    }

    /// What a browser shows beside the mouse.
    fn tooltip(&self, place: &str, value: f64) -> String {
        format!("{} {}, {place}", number(value), self.panel.heading.to_lowercase())
    }

    fn line(&self, values: &[f64], y_of: impl Fn(f64) -> f64, canvas: &mut Canvas) {
        let places = self.places();
        let points: Vec<_> = places.iter().zip(values).filter(|(_, value)| value.is_finite()).collect();
        let mut path = String::new();
        for (index, ((x, _), value)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{x:.1} {:.1}", y_of(**value));
        }
        let colour = self.colour;
        canvas.shape("path", format_args!("class=\"line s{colour}\" d=\"{path}\""), None);
        let (class, radius) = if points.len() > MOST_DOTS { ("hit ", 5) } else { ("", 4) };
        for ((x, name), value) in points {
            let y = y_of(*value);
            canvas.shape(
                "circle",
                format_args!("class=\"{class}f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\""),
                Some(&self.tooltip(name, *value)),
            );
        }
    }

    fn dots(&self, values: &[f64], radius: f64, y_of: impl Fn(f64) -> f64, canvas: &mut Canvas) {
        let places = self.places();
        let colour = self.colour;
        for ((x, name), &value) in places.iter().zip(values).filter(|(_, value)| value.is_finite()) {
            let y = y_of(value);
            canvas.shape(
                "circle",
                format_args!("class=\"f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\""),
                Some(&self.tooltip(name, value)),
            );
        }
    }

    fn band(&self, pairs: &[(f64, f64)], y_of: impl Fn(f64) -> f64, canvas: &mut Canvas) {
        let places = self.places();
        let points: Vec<_> =
            places.iter().zip(pairs).filter(|(_, (low, high))| low.is_finite() && high.is_finite()).collect();
        let mut path = String::new();
        for ((x, _), (_, high)) in &points {
            let command = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{command}{x:.1} {:.1}", y_of(*high));
        }
        for ((x, _), (low, _)) in points.iter().rev() {
            let _ = write!(path, "L{x:.1} {:.1}", y_of(*low));
        }
        if !path.is_empty() {
            canvas.shape("path", format_args!("class=\"band f{}\" d=\"{path}Z\"", self.colour), None);
        }
    }

    fn bars(&self, values: &[f64], y_of: impl Fn(f64) -> f64, canvas: &mut Canvas) {
        let places = self.places();
        let width = BAR_SHARE * (self.frame.right - self.frame.left) / places.len().max(1) as f64;
        // A single bar across the whole panel would not look like one.
        let width = width.min(120.0);
        for ((x, name), &value) in places.iter().zip(values).filter(|(_, value)| value.is_finite()) {
            let (top, left) = (y_of(value), x - width / 2.0);
            let height = self.frame.bottom - top;
            canvas.shape(
                "rect",
                format_args!(
                    "class=\"f{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"",
                    self.colour
                ),
                Some(&self.tooltip(name, value)),
            );
            let text = number(value);
            if text_width(&text) * BAR_TEXT_SIZE + BAR_PADDING <= width {
                let (class, y) =
                    if height > 30.0 { ("inside", self.frame.bottom - 10.0) } else { ("muted", top - 6.0) };
                canvas.text(class, (*x, y), "middle", &text);
            }
        }
    }

    fn level(&self, value: f64, y_of: impl Fn(f64) -> f64, canvas: &mut Canvas) {
        if value.is_finite() {
            let (left, right, y) = (self.frame.left, self.frame.right, y_of(value));
            let tooltip = self.tooltip(&self.mark.name, value);
            canvas.shape(
                "path",
                format_args!("class=\"level s{}\" d=\"M{left:.1} {y:.1}H{right:.1}\"", self.colour),
                Some(&tooltip),
            );
        }
    }
}
