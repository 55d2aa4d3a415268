//! The text of an SVG file.

use std::fmt::{Display, Write};

/// Collects the elements of a file.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    elements: String,
}

/// The distance of texts and axes from the sides of the picture.
pub(super) const MARGIN: f64 = 24.0;

/// The height of a line of facts, and the most lines.
const FACT_LINE_HEIGHT: f64 = 21.0;
const FACT_LINES: usize = 3;

/// The longest text on a canvas, in characters.
const LONGEST_TEXT: usize = 100;

impl Canvas {
    /// Adds an element. `attributes` are written by this program and are not escaped.
    pub(super) fn shape(&mut self, name: &str, attributes: impl Display, tooltip: Option<&str>) {
        // Writing to a string cannot fail.
        let _ = match tooltip {
            None => writeln!(self.elements, "<{name} {attributes}/>"),
            Some(tip) => {
                let tip = escaped(&shortened(tip));
                writeln!(self.elements, "<{name} {attributes}><title>{tip}</title></{name}>")
            }
        };
    }

    /// Adds a line of text. `anchor` says which part of the text is at the point: `start`, `middle` or `end`.
    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: &str, text: &str) {
        let text = escaped(&shortened(text));
        let class = if class.is_empty() { String::new() } else { format!("class=\"{class}\" ") };
        let _ = writeln!(
            self.elements,
            "<text {class}x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    /// The title, and the facts below it. Returns the place of the last line.
    pub(super) fn head(&mut self, title: &str, facts: &[String], width: f64) -> f64 {
        let facts: Vec<&str> = facts.iter().map(String::as_str).filter(|fact| !fact.is_empty()).collect();
        let facts = fill_lines(&facts, " · ", width - 2.0 * MARGIN, FACT_LINES);
        let mut top = 38.0;
        self.text("title", (MARGIN, top), "start", title);
        for line in &facts {
            top += FACT_LINE_HEIGHT;
            self.text("muted", (MARGIN, top + 4.0), "start", line);
        }
        top
    }

    /// The whole file.
    pub(super) fn finish(self, width: f64, height: f64, style: &str, title: &str) -> String {
        let title = escaped(&shortened(title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{title}</title>\n<style>{style}</style>\n\
             <rect class=\"paper\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n{}</svg>\n",
            width - 1.0,
            height - 1.0,
            self.elements
        )
    }
}

/// `text` as the content of an XML element. Characters that XML does not allow are replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ if character.is_control() => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// At most [`LONGEST_TEXT`] characters, the last of which shows that some were left out.
fn shortened(text: &str) -> String {
    let mut rest = text.chars();
    let mut short: String = rest.by_ref().take(LONGEST_TEXT - 1).collect();
    match (rest.next(), rest.next()) {
        (Some(last), None) => short.push(last),
        (Some(_), Some(_)) => short.push('…'),
        (None, _) => {}
    }
    short
}

/// The width of a text at the usual size, estimated from the number of its characters, because the font is the
/// viewer's. Characters of East Asian scripts are twice as wide as others.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().map(|character| if character >= '\u{1100}' && character != '…' { 15.0 } else { 9.0 }).sum()
}

/// Joins parts to at most `most` lines that fit into `width`. A part that is too long for a line is shortened.
fn fill_lines(parts: &[&str], separator: &str, width: f64, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        let part = fitted(part, width);
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(separator) + text_width(&part) <= width => {
                line.push_str(separator);
                line.push_str(&part);
            }
            _ => lines.push(part),
        }
    }
    lines.truncate(most);
    lines
}

/// `text`, cut so that it is not wider than `width`.
fn fitted(text: &str, width: f64) -> String {
    let text = shortened(text);
    if text_width(&text) <= width {
        return text;
    }
    let mut fitted = String::new();
    for character in text.chars() {
        if text_width(&fitted) + 2.0 * text_width("…") + 7.0 > width {
            break;
        }
        fitted.push(character);
    }
    fitted.push('…');
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_escaped_and_shortened() {
        assert_eq!(escaped("a<b>&\"\u{1b}\n"), "a&lt;b&gt;&amp;&quot;\u{fffd} ");
        assert_eq!(shortened(&"x".repeat(LONGEST_TEXT)).chars().count(), LONGEST_TEXT);
        let long = shortened(&"é".repeat(1000));
        assert!(long.ends_with('…') && long.chars().count() == LONGEST_TEXT);
        let narrow = fitted(&"x".repeat(90), 200.0);
        assert!(narrow.ends_with('…') && text_width(&narrow) <= 200.0, "{narrow}");
    }

    #[test]
    fn facts_fill_lines() {
        assert_eq!(fill_lines(&["one", "two"], " · ", 400.0, 3), ["one · two"]);
        assert_eq!(fill_lines(&["one", "two", "three"], " · ", 60.0, 2), ["one", "two"]);
        assert!(fill_lines(&[], " · ", 60.0, 2).is_empty());
    }
}
