//! Lines from a stream that may send anything: binary noise, ten megabytes without a newline.

use crate::quote::quoted_bytes;
use std::io::{self, BufRead};

/// A longer line is refused. A game of ten thousand moves is 60 kB, so this leaves room.
pub(crate) const LONGEST_LINE: usize = 1 << 20;

/// What the stream had next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// A line, without its line end.
    Text(String),
    /// A line that cannot be used, and why.
    Refused(String),
    /// The stream has ended.
    End,
}

/// Reads lines; never holds more than [`LONGEST_LINE`] bytes of one.
pub(crate) struct LineReader<R> {
    input: R,
}

impl<R: BufRead> LineReader<R> {
    /// Reads from `input`.
    pub(crate) fn new(input: R) -> LineReader<R> {
        LineReader { input }
    }

    /// The next line. A stream that fails has ended.
    pub(crate) fn next_line(&mut self) -> Line {
        let mut line = Vec::new();
        let mut length = 0;
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Line::End,
            };
            if bytes.is_empty() {
                return if length == 0 { Line::End } else { finish(line, length) };
            }
            let newline = bytes.iter().position(|&byte| byte == b'\n');
            let part = &bytes[..newline.unwrap_or(bytes.len())];
            length += part.len();
            let room = LONGEST_LINE - line.len();
            line.extend_from_slice(&part[..part.len().min(room)]);
            let read = newline.map_or(bytes.len(), |newline| newline + 1);
            self.input.consume(read);
            if newline.is_some() {
                return finish(line, length);
            }
        }
    }
}

/// The line of `length` bytes that begins with `line` (all of it, unless it is too long).
fn finish(mut line: Vec<u8>, length: usize) -> Line {
    if length > LONGEST_LINE {
        return Line::Refused(format!(
            "a line of {length} bytes, where at most {LONGEST_LINE} are allowed: {}",
            quoted_bytes(&line)
        ));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    match String::from_utf8(line) {
        Ok(text) => Line::Text(text),
        Err(error) => Line::Refused(format!("the line is not UTF-8: {}", quoted_bytes(error.as_bytes()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Read};

    fn lines(input: impl Read) -> Vec<Line> {
        let mut reader = LineReader::new(BufReader::with_capacity(1000, input));
        let mut lines = Vec::new();
        loop {
            match reader.next_line() {
                Line::End => return lines,
                line => lines.push(line),
            }
        }
    }

    fn text(text: &str) -> Line {
        Line::Text(text.to_owned())
    }

    #[test]
    fn splits_at_any_line_end() {
        assert_eq!(lines(&b"uci\r\n\nquit"[..]), [text("uci"), text(""), text("quit")]);
        assert_eq!(lines(&b""[..]), []);
    }

    #[test]
    fn goes_on_after_noise() {
        let lines = lines(&b"\xff\xfe\x00go\nuci\n"[..]);
        assert_eq!(lines[0], Line::Refused("the line is not UTF-8: `\\xff\\xfe\\u{0}go`".to_owned()));
        assert_eq!(lines[1], text("uci"));
    }

    #[test]
    fn a_line_may_be_a_mebibyte_and_no_more() {
        let longest = "x".repeat(LONGEST_LINE);
        assert_eq!(lines(format!("{longest}\nuci").as_bytes()), [text(&longest), text("uci")]);
        let lines = lines(format!("{longest}x\nuci").as_bytes());
        let Line::Refused(reason) = &lines[0] else { panic!("accepted") };
        assert!(reason.starts_with("a line of 1048577 bytes, where at most 1048576 are allowed: `xxx"));
        assert!(reason.len() < 300);
        assert_eq!(lines[1], text("uci"));
    }

    #[test]
    fn ten_megabytes_without_an_end_are_one_refusal() {
        assert!(matches!(lines(io::repeat(b'a').take(10_000_000)).as_slice(), [Line::Refused(_)]));
    }
}
