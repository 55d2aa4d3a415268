//! Quotes input in error messages.
//!
//! Error messages show the text that they are about. This text may be ten megabytes long, be unprintable, or contain
//! the escape sequence that clears the terminal, so [`quoted`] shortens and escapes it. Every message that repeats
//! input (a UCI line, a FEN, an option's value, a file's content) uses it.

/// The most characters of the input that an error message shows.
pub(crate) const SHOWN_CHARACTERS: usize = 100;

/// The most characters of a name that a table shows: more than names of kernels with all template arguments have.
const NAME_CHARACTERS: usize = 1000;

/// `text` in backticks, with control characters escaped, and truncated after [`SHOWN_CHARACTERS`] characters.
pub fn quoted(text: &str) -> String {
    format!("`{}`", escaped(text, SHOWN_CHARACTERS))
}

/// A name from a file for a table: with control characters escaped, and truncated if it is longer than any name.
pub fn printable(text: &str) -> String {
    escaped(text, NAME_CHARACTERS)
}

fn escaped(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(most));
    for (index, character) in text.chars().enumerate() {
        if index == most {
            shown.push('…');
            break;
        }
        if is_harmless(character) {
            shown.push(character);
        } else {
            shown.extend(character.escape_default());
        }
    }
    shown
}

/// Quotes bytes that may not be UTF-8. Invalid bytes are written as `\xNN`.
pub fn quoted_bytes(bytes: &[u8]) -> String {
    // A character has at most four bytes, so this many bytes always fill the shown part.
    let head = &bytes[..bytes.len().min(4 * (SHOWN_CHARACTERS + 1))];
    let mut text = String::new();
    for chunk in head.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    quoted(&text)
}

/// Whether terminals and GUIs show the character visibly, without other effects.
fn is_harmless(character: char) -> bool {
    // Bidirectional controls and the byte-order mark do not count as control characters, but they can hide text.
    let reorders = matches!(
        character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
    );
    !character.is_control() && !reorders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_kept() {
        assert_eq!(quoted("e2e5"), "`e2e5`");
        assert_eq!(quoted("zwölf"), "`zwölf`");
    }

    #[test]
    fn long_text_is_truncated() {
        let shown = quoted(&"ä".repeat(10_000));
        assert_eq!(shown.chars().count(), SHOWN_CHARACTERS + 3);
        assert!(shown.ends_with("…`"));
    }

    #[test]
    fn escapes_control_characters() {
        assert_eq!(quoted("a\u{1b}[2Jb\0"), "`a\\u{1b}[2Jb\\u{0}`");
        assert_eq!(quoted("a\u{202e}b"), "`a\\u{202e}b`");
        assert_eq!(quoted_bytes(b"go \xff\xfe"), "`go \\xff\\xfe`");
    }
}
