//! Messages between this program and a child process that may crash. They are JSON: one request on the child's standard
//! input, and a line for each event on its standard output.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};

/// The text before an event. A library may print something on the same line before it.
const MARK: &str = "rukh-event: ";

/// The text of a request.
pub(super) fn request_text(request: &impl Serialize) -> String {
    serde_json::json!(request).to_string()
}

/// Reads a request to its end.
///
/// # Errors
/// The outer error: it cannot be read. The inner one: the reason why the text is no such request.
pub(crate) fn read_request<R: DeserializeOwned>(mut input: impl Read) -> io::Result<Result<R, String>> {
    let mut text = String::new();
    input.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text).map_err(|error| format!("the request is not understood: {error}")))
}

/// Writes an event as a line.
///
/// # Errors
/// It cannot be written: the reader is gone.
pub(crate) fn write_event(output: &mut (impl Write + ?Sized), event: &impl Serialize) -> io::Result<()> {
    writeln!(output, "{MARK}{}", serde_json::json!(event))?;
    output.flush()
}

/// The event of a line. `None` for a line that a library printed.
pub(crate) fn parse_event<E: DeserializeOwned>(line: &str) -> Option<E> {
    let (_, event) = line.split_once(MARK)?;
    serde_json::from_str(event.trim_end()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_libraries_are_passed_over() {
        let mut output = Vec::new();
        write_event(&mut output, &Some("a line\nand another")).expect("memory can be written");
        let text = String::from_utf8(output).expect("an event is text");
        assert_eq!(text.lines().count(), 1);
        let event = Some("a line\nand another".to_owned());
        assert_eq!(parse_event(&text), Some(event.clone()));
        assert_eq!(parse_event(&format!("rocBLAS warning: {}\r", text.trim_end())), Some(event));
        assert_eq!(parse_event::<String>("rocBLAS error: Cannot read TensileLibrary.dat"), None);
        assert_eq!(parse_event::<String>(&text[..text.len() - 3]), None);
    }
}
