//! The encodings of texts from outside.
//!
//! A text with a byte order mark of UTF-16, or with a zero byte in its first character, is turned into UTF-8 while it
//! is read. A mark of UTF-8 is left out, and UTF-32 is refused. Every other text is read as it is: it is UTF-8 where it
//! can be, and Windows-1252 otherwise, which extends the ISO 8859-1 of the PGN standard.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};

/// The byte order marks of UTF-8, UTF-16 and UTF-32 (Unicode Standard, section 23.8).
const UTF8_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
const UTF16_LITTLE_MARK: [u8; 2] = [0xff, 0xfe];
const UTF16_BIG_MARK: [u8; 2] = [0xfe, 0xff];
const UTF32_LITTLE_MARK: [u8; 4] = [0xff, 0xfe, 0, 0];
const UTF32_BIG_MARK: [u8; 4] = [0, 0, 0xfe, 0xff];

/// The characters of the bytes 0x80 to 0x9f in Windows-1252. Bytes without one stand for control characters.
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The text that bytes stand for, in UTF-8 or else in Windows-1252.
pub fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().map(|&byte| windows_1252(byte)).collect()),
    }
}

fn windows_1252(byte: u8) -> char {
    match byte {
        0x80..=0x9f => WINDOWS_1252[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

/// The text of `source` without a byte order mark, and in UTF-8 if it is in UTF-16.
///
/// # Errors
/// `source` cannot be read, or its text is in UTF-32.
pub fn without_mark(source: Box<dyn BufRead + Send>) -> io::Result<Box<dyn BufRead + Send>> {
    let mut source = source;
    let mut head = Vec::new();
    // A pipe may give its first bytes one at a time.
    source.by_ref().take(4).read_to_end(&mut head)?;
    if head.starts_with(&UTF32_BIG_MARK) || head.starts_with(&UTF32_LITTLE_MARK) {
        let reason = "its encoding is UTF-32, which is not read; save it as UTF-8";
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let (skipped, unit): (usize, Option<Unit>) = match head[..] {
        _ if head.starts_with(&UTF8_MARK) => (UTF8_MARK.len(), None),
        _ if head.starts_with(&UTF16_LITTLE_MARK) => (2, Some(u16::from_le_bytes)),
        _ if head.starts_with(&UTF16_BIG_MARK) => (2, Some(u16::from_be_bytes)),
        [first, 0, ..] if first != 0 => (0, Some(u16::from_le_bytes)),
        [0, second, ..] if second != 0 => (0, Some(u16::from_be_bytes)),
        _ => (0, None),
    };
    head.drain(..skipped);
    if head.is_empty() && unit.is_none() {
        return Ok(source);
    }
    let whole = io::Cursor::new(head).chain(source);
    Ok(match unit {
        None => Box::new(whole),
        Some(unit) => {
            Box::new(BufReader::new(Utf16 { source: whole, unit, ready: Vec::new(), taken: 0, high: None }))
        }
    })
}

/// The number in two bytes, in one of the two orders.
type Unit = fn([u8; 2]) -> u16;

/// A text in UTF-16 as UTF-8. A surrogate without its partner becomes U+FFFD.
struct Utf16<R> {
    source: R,
    unit: Unit,
    /// Text in UTF-8 that was not yet given away, from `taken` on.
    ready: Vec<u8>,
    taken: usize,
    /// A high surrogate whose partner was not yet read.
    high: Option<u16>,
}

impl<R: Read> Utf16<R> {
    /// Converts the next bytes. There is nothing ready afterwards at the end of the source only.
    fn refill(&mut self) -> io::Result<()> {
        self.ready.clear();
        self.taken = 0;
        while self.ready.is_empty() {
            let mut bytes = Vec::new();
            self.source.by_ref().take(1 << 13).read_to_end(&mut bytes)?;
            let is_end = bytes.is_empty();
            // An odd byte at the end of the file is half a character.
            let units = bytes.chunks(2).map(|pair| match *pair {
                [first, second] => (self.unit)([first, second]),
                _ => 0xfffd,
            });
            let mut units: Vec<u16> = self.high.take().into_iter().chain(units).collect();
            if !is_end && units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
                self.high = units.pop();
            }
            let text = String::from_utf16_lossy(&units);
            self.ready.extend_from_slice(text.as_bytes());
            if is_end {
                break;
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.ready.len() {
            self.refill()?;
        }
        let count = (&self.ready[self.taken..]).read(buffer)?;
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time.
    struct Slow(io::Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut read = Vec::new();
        let source = BufReader::with_capacity(1, Slow(io::Cursor::new(bytes.to_vec())));
        without_mark(Box::new(source))?.read_to_end(&mut read)?;
        Ok(read)
    }

    #[test]
    fn texts_with_and_without_marks_are_read_in_every_encoding() {
        let text = "[Event \"Zürich 𝄞\"]\n\n1. e4 *\n";
        let utf16 = |order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
        let (little, big) = (utf16(u16::to_le_bytes), utf16(u16::to_be_bytes));
        for bytes in [
            text.as_bytes().to_vec(),
            [&UTF8_MARK[..], text.as_bytes()].concat(),
            [&UTF16_LITTLE_MARK[..], &little].concat(),
            [&UTF16_BIG_MARK[..], &big].concat(),
            little,
            big,
        ] {
            assert_eq!(read(&bytes).unwrap(), text.as_bytes(), "{bytes:?}");
        }
        // Other bytes stay as they are.
        for bytes in [&b""[..], b"e", b"\xef\xbb", b"M\xfcller", &UTF8_MARK[1..]] {
            assert_eq!(read(bytes).unwrap(), bytes);
        }
    }

    #[test]
    fn broken_utf16_is_marked_and_utf32_is_named() {
        assert_eq!(read(b"\xff\xfee\0\0\xd8f\0g").unwrap(), "e\u{fffd}f\u{fffd}".as_bytes());
        for mark in [UTF32_LITTLE_MARK, UTF32_BIG_MARK] {
            let error = read(&[&mark[..], b"e\0\0\0"].concat()).unwrap_err().to_string();
            assert!(error.contains("UTF-32"), "{error}");
        }
    }

    #[test]
    fn bytes_that_are_no_utf8_are_windows_1252() {
        assert_eq!(decoded(b"M\xfcller \x96 \x80"), "Müller – €");
        assert_eq!(decoded("Müller".as_bytes()), "Müller");
    }
}
