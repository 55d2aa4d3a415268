//! `describenet`: describes a network file.

use super::args::DescribenetArgs;
use super::error::{CliError, print_error_line};
use crate::uci::output::Output;
use rukh_net::describe::describe;
use rukh_net::discover::find_network;
use rukh_options::Options;
use serde_json::{Map, Value};

/// Prints the description as text or JSON.
///
/// # Errors
/// The network is not found or cannot be read.
pub(super) fn run(arguments: &DescribenetArgs, options: &Options, output: &Output) -> Result<(), CliError> {
    let file = find_network(&options.weights, print_error_line).map_err(|error| error.to_string())?;
    print_error_line(&format!("network {}", file.path().display()));
    let text = describe(&file);
    if arguments.json {
        output.line(&json(&text, &file.path().display().to_string()).to_string());
    } else {
        output.lines(&text.lines().collect::<Vec<_>>());
    }
    Ok(())
}

/// The description as JSON, which has an object for each section, with the section's labels and values. If a label
/// occurs several times, like the inputs of an ONNX graph, its values are in an array.
pub(super) fn json(text: &str, path: &str) -> Value {
    let mut sections = Map::new();
    sections.insert("file".to_owned(), path.into());
    let mut lines = text.lines().peekable();
    let mut section = Map::new();
    let mut title = String::new();
    while let Some(line) = lines.next() {
        let underlined =
            lines.peek().is_some_and(|next| !next.is_empty() && next.bytes().all(|byte| byte == b'~'));
        if underlined {
            lines.next();
            if !title.is_empty() {
                sections.insert(std::mem::take(&mut title), std::mem::take(&mut section).into());
            }
            title = line.to_owned();
        } else if let Some((label, value)) = line.split_once(": ") {
            add(&mut section, label.trim(), value.trim());
        }
    }
    if !title.is_empty() {
        sections.insert(title, section.into());
    }
    Value::Object(sections)
}

/// Adds a value to a section. A whole number becomes a JSON number.
fn add(section: &mut Map<String, Value>, label: &str, value: &str) {
    let value = value.parse::<u64>().map_or_else(|_| Value::from(value), Value::from);
    match section.get_mut(label) {
        None => {
            section.insert(label.to_owned(), value);
        }
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_sections() {
        let text = "\nGeneral\n~~~~~~~\n  Minimal Lc0 version: v0.21.0\n\
                    \nWeights\n~~~~~~~\n    Blocks: 6\n   Filters: 64\n  Input: a\n  Input: b\n  Input: c\n";
        let expected = serde_json::json!({
            "file": "net.pb.gz",
            "General": { "Minimal Lc0 version": "v0.21.0" },
            "Weights": { "Blocks": 6, "Filters": 64, "Input": ["a", "b", "c"] },
        });
        assert_eq!(json(text, "net.pb.gz"), expected);
    }
}
