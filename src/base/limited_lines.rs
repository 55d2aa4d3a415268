//! Reads lines of a limited length, so that a file without ends of lines cannot fill the memory.

use std::io::{self, BufRead, Read};

/// The longest line of a text from outside, in bytes.
pub const LONGEST_LINE: usize = 1 << 20;

/// A line with its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitedLine {
    /// The line, or the beginning of one that is too long.
    pub bytes: Vec<u8>,
    /// Whether the line has more bytes than the limit. The rest was passed over.
    pub(crate) is_too_long: bool,
}

impl LimitedLine {
    /// What is wrong with the line, in words; `None` if it is whole.
    pub fn fault(&self) -> Option<String> {
        self.is_too_long.then(|| format!("the line is longer than {} bytes", self.bytes.len()))
    }
}

/// The next line of `reader`, with at most `limit` bytes; `None` at the end.
///
/// # Errors
/// `reader` cannot be read.
pub fn next_line(reader: &mut dyn BufRead, limit: usize) -> io::Result<Option<LimitedLine>> {
    let mut bytes = Vec::new();
    reader.take(limit as u64).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let is_cut = bytes.len() == limit && !bytes.ends_with(b"\n");
    let is_too_long = is_cut && !reader.fill_buf()?.is_empty();
    if is_too_long {
        reader.skip_until(b'\n')?;
    }
    Ok(Some(LimitedLine { bytes, is_too_long }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_one_line_and_the_next_one_is_whole() {
        let mut reader: &[u8] = b"ab\nabcdefgh\nabcd\nabc";
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut reader, 4).unwrap() {
            lines.push((String::from_utf8(line.bytes).unwrap(), line.is_too_long));
        }
        let expected = [("ab\n", false), ("abcd", true), ("abcd", true), ("abc", false)];
        assert!(lines.iter().map(|(text, is_long)| (text.as_str(), *is_long)).eq(expected), "{lines:?}");
    }
}
