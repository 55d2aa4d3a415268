//! Reads lines from a stream that may send anything, such as binary noise or ten megabytes without a newline.

use rukh_base::limited_lines::LONGEST_LINE;
use rukh_base::quote::quoted_bytes;
use std::io::{self, BufRead};

/// The next part of the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// A line without its line ending.
    Text(String),
    /// A line that was refused.
    Refused {
        /// Why it was refused.
        reason: String,
        /// Its beginning, as far as it can be read.
        start: String,
    },
    /// The stream has ended.
    End,
}

/// Reads lines, and never stores more than [`LONGEST_LINE`] bytes of a line.
pub(crate) struct LineReader<R> {
    input: R,
}

impl<R: BufRead> LineReader<R> {
    pub(crate) fn new(input: R) -> LineReader<R> {
        LineReader { input }
    }

    /// The next line. A read error counts as the end of the stream.
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

/// Checks a line of `length` bytes. `line` is the whole line, or its beginning if it is too long.
fn finish(mut line: Vec<u8>, length: usize) -> Line {
    if length > LONGEST_LINE {
        let reason = format!(
            "the line has {length} bytes, more than the maximum of {LONGEST_LINE}: {}",
            quoted_bytes(&line)
        );
        return refused(reason, &line);
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    match String::from_utf8(line) {
        Ok(text) => Line::Text(text),
        Err(error) => {
            let reason = format!("the line is not UTF-8: {}", quoted_bytes(error.as_bytes()));
            refused(reason, error.as_bytes())
        }
    }
}

fn refused(reason: String, line: &[u8]) -> Line {
    Line::Refused { reason, start: String::from_utf8_lossy(line).into_owned() }
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
    fn splits_at_every_line_ending() {
        assert_eq!(lines(&b"uci\r\n\nquit"[..]), [text("uci"), text(""), text("quit")]);
        assert_eq!(lines(&b""[..]), []);
    }

    #[test]
    fn continues_after_noise() {
        let lines = lines(&b"\xff\xfe\x00go\nuci\n"[..]);
        let reason = "the line is not UTF-8: `\\xff\\xfe\\u{0}go`".to_owned();
        assert_eq!(lines[0], Line::Refused { reason, start: "\u{fffd}\u{fffd}\0go".to_owned() });
        assert_eq!(lines[1], text("uci"));
    }

    #[test]
    fn a_line_may_be_a_mebibyte_and_no_more() {
        let longest = "x".repeat(LONGEST_LINE);
        assert_eq!(lines(format!("{longest}\nuci").as_bytes()), [text(&longest), text("uci")]);
        let lines = lines(format!("{longest}x\nuci").as_bytes());
        let Line::Refused { reason, start } = &lines[0] else { panic!("accepted") };
        assert_eq!(start.len(), LONGEST_LINE);
        assert!(reason.starts_with("the line has 1048577 bytes, more than the maximum of 1048576: `xxx"));
        assert!(reason.len() < 300);
        assert_eq!(lines[1], text("uci"));
    }

    #[test]
    fn ten_megabytes_without_an_end_are_one_refusal() {
        assert!(matches!(lines(io::repeat(b'a').take(10_000_000)).as_slice(), [Line::Refused { .. }]));
    }
}
