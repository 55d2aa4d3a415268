//! Reads tags: `[Name "value"]`.
//!
//! Many programs write quotes and backslashes in a value as they are, although the standard wants a backslash before
//! them; some leave out the quotes, the bracket, or the end of the line after a tag.

/// A tag of a game.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tag<'a> {
    pub(super) name: &'a [u8],
    /// The value, in which every quote and the last backslash has a backslash before it, so that it can be written as
    /// it is.
    pub(super) value: Vec<u8>,
    /// The bytes of the tag, from its opening bracket on.
    pub(super) length: usize,
}

/// Whether `text` begins a tag, and not a remark in brackets: a name follows the bracket, and then a quote. Tags that
/// every game has, and those of the start position, are known without a quote.
pub(super) fn begins_tag(text: &[u8]) -> bool {
    const KNOWN: [&[u8]; 10] =
        [b"Event", b"Site", b"Date", b"Round", b"White", b"Black", b"Result", b"FEN", b"SetUp", b"Variant"];
    let Some(inside) = text.strip_prefix(b"[") else { return false };
    let inside = inside.trim_ascii_start();
    let length = inside.iter().take_while(|&&byte| is_of_name(byte)).count();
    let (name, rest) = inside.split_at(length);
    !name.is_empty()
        && (rest.trim_ascii_start().starts_with(b"\"")
            || KNOWN.contains(&name)
                && rest.first().is_none_or(|&byte| byte == b']' || byte.is_ascii_whitespace()))
}

/// Whether `text` begins with the tag `Event`, which is the first one of a game.
pub(super) fn begins_event(text: &[u8]) -> bool {
    begins_tag(text)
        && text[1..]
            .trim_ascii_start()
            .strip_prefix(b"Event")
            .is_some_and(|rest| rest.first().is_none_or(|&byte| !is_of_name(byte)))
}

/// Whether a byte can be in the name of a tag, by the standard.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The tag at the beginning of `line`, which begins with a bracket. `None` if there is no name.
pub(super) fn read_tag(line: &[u8]) -> Option<Tag<'_>> {
    let quote = line.iter().position(|&byte| byte == b'"');
    let bracket = line.iter().position(|&byte| byte == b']');
    let (name, value, length) = match (quote, bracket) {
        (Some(quote), bracket) if bracket.is_none_or(|bracket| quote < bracket) && !is_lone(line, quote) => {
            let (end, length) = end_of_value(line, quote + 1);
            (line[1..quote].trim_ascii(), &line[quote + 1..end], length)
        }
        _ => {
            let bracket = bracket?;
            let inside = line[1..bracket].trim_ascii();
            let length = inside.iter().take_while(|&&byte| is_of_name(byte)).count();
            let (name, value) = inside.split_at(length);
            // Without a quote, something else may stand in brackets.
            let is_name = name.first().is_some_and(u8::is_ascii_uppercase);
            if !is_name || value.first().is_some_and(|byte| !byte.is_ascii_whitespace() && *byte != b'"') {
                return None;
            }
            // A quote at the end has lost its partner.
            let value = value.trim_ascii();
            (name, value.strip_suffix(b"\"").unwrap_or(value), bracket + 1)
        }
    };
    (!name.is_empty()).then(|| Tag { name, value: escaped(value), length })
}

/// Whether the first quote is the only one and closes the tag.
fn is_lone(line: &[u8], quote: usize) -> bool {
    let after = &line[quote + 1..];
    after.trim_ascii_start().starts_with(b"]") && !after.contains(&b'"')
}

/// Where a value that begins at `start` ends, and how many bytes of the line belong to its tag.
///
/// The value ends at a quote before a bracket, even if there are other quotes before it. There may be several such
/// quotes, because other tags or the moves follow in the same line, or because the value contains this text. The first
/// one counts after which the line ends or goes on with a tag or with moves.
fn end_of_value(line: &[u8], start: usize) -> (usize, usize) {
    let ends = || {
        (start..line.len()).filter(|&index| line[index] == b'"').filter_map(|index| {
            let blanks = line[index + 1..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let bracket = index + 1 + blanks;
            (line.get(bracket) == Some(&b']')).then_some((index, bracket + 1))
        })
    };
    let is_likely = |&(_, after): &(usize, usize)| {
        let rest = line[after..].trim_ascii_start();
        rest.first().is_none_or(|&byte| byte.is_ascii_digit() || b"{;(*%".contains(&byte)) || begins_tag(rest)
    };
    let is_escaped = |&(index, _): &(usize, usize)| has_open_backslash(&line[start..index]);
    let unescaped = || ends().filter(|end| !is_escaped(end));
    let found = unescaped().find(is_likely).or_else(|| unescaped().next_back());
    // `"C:\games\"` ends with a backslash, not with a quote that has lost its partner.
    let found = found.or_else(|| ends().find(is_likely)).or_else(|| ends().next_back());
    found.unwrap_or_else(|| {
        // There is no bracket, or not even a quote.
        let end = line.trim_ascii_end().len().max(start);
        (end - usize::from(end > start && line[end - 1] == b'"'), line.len())
    })
}

/// Whether the last byte is a backslash that escapes what follows.
fn has_open_backslash(value: &[u8]) -> bool {
    value.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// A value with a backslash before each quote that has none, and before a backslash that would escape the closing quote.
fn escaped(value: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(value.len());
    for &byte in value {
        if byte == b'"' && !has_open_backslash(&escaped) {
            escaped.push(b'\\');
        }
        escaped.push(byte);
    }
    if has_open_backslash(&escaped) {
        escaped.push(b'\\');
    }
    escaped
}

/// The value without the backslashes before quotes and backslashes.
pub(super) fn unescaped(value: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(value.len());
    let mut bytes = value.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let escaped = if byte == b'\\' { bytes.next_if(|next| matches!(next, b'"' | b'\\')) } else { None };
        text.push(escaped.unwrap_or(byte));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> (String, String, &str) {
        let tag = read_tag(line.as_bytes()).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (text(tag.name), text(&unescaped(&tag.value)), &line[tag.length..])
    }

    #[test]
    fn unusual_tags_have_the_value_that_their_writer_meant() {
        for (line, name, value, rest) in [
            (r#"[Event "a"]"#, "Event", "a", ""),
            (r#"[ Event  "a b" ]"#, "Event", "a b", ""),
            (r#"[Event"a"]"#, "Event", "a", ""),
            (r#"[Event ""]"#, "Event", "", ""),
            (r#"[Event "5th "X" Open 2026"]"#, "Event", r#"5th "X" Open 2026"#, ""),
            (r#"[Event "5th \"X\" Open 2026"]"#, "Event", r#"5th "X" Open 2026"#, ""),
            (r#"[Event ""X""]"#, "Event", r#""X""#, ""),
            (r#"[Event "a ["x"] b"]"#, "Event", r#"a ["x"] b"#, ""),
            (r#"[Site "C:\games\"]"#, "Site", r"C:\games\", ""),
            (r#"[Site "C:\games\\"]"#, "Site", r"C:\games\", ""),
            (r#"[Site "a\b"]"#, "Site", r"a\b", ""),
            (r#"[White "A"][Black "B"] 1. e4"#, "White", "A", r#"[Black "B"] 1. e4"#),
            (r#"[White "A"] [Black "B"]"#, "White", "A", r#" [Black "B"]"#),
            (r#"[Black "B"] 1. e4 {"]} *"#, "Black", "B", r#" 1. e4 {"]} *"#),
            (r#"[Black "B"] ; "c""#, "Black", "B", r#" ; "c""#),
            ("[FEN 4k3/8/8/8/8/8/8/4K3 w - - 0 1]", "FEN", "4k3/8/8/8/8/8/8/4K3 w - - 0 1", ""),
            ("[Event]", "Event", "", ""),
            (r#"[Event "a""#, "Event", "a", ""),
            (r#"[Event "a"#, "Event", "a", ""),
            (r#"[Event ""#, "Event", "", ""),
            (r#"[Event a"]"#, "Event", "a", ""),
        ] {
            assert_eq!(read(line), (name.to_owned(), value.to_owned(), rest), "{line}");
        }
        assert!(
            ["[]", "[ \"a\"]", "[\"a\"]", "[", "[x} 1-0", "[x", "[%clk 0:01]", "[a remark]"]
                .iter()
                .all(|line| read_tag(line.as_bytes()).is_none())
        );
    }

    #[test]
    fn a_remark_in_brackets_begins_no_game() {
        for text in ["[Event \"a\"]", "[White\"a\"]", "[ ECO \"a\"]", "[FEN 8/8 w]", "[Event]"] {
            assert!(begins_tag(text.as_bytes()), "{text}");
        }
        for text in ["[%clk 0:01]", "[a remark]", "[e4", "[", "e4", "[ \"a\"]", "[Eventful]"] {
            assert!(!begins_tag(text.as_bytes()), "{text}");
        }
        assert!(begins_event(b"[Event \"a\"]") && begins_event(b"[ Event\"a\"]"));
        assert!(!begins_event(b"[EventDate \"a\"]") && !begins_event(b"[Site \"Event\"]"));
    }

    #[test]
    fn values_are_the_same_after_they_were_written() {
        for value in [r#"a"b"#, r"\", r"\\", r#"\"#, r#"\\""#, r#"""#, "", r"a\b"] {
            let written = format!("[A \"{}\"]", String::from_utf8(escaped(value.as_bytes())).unwrap());
            let read = read_tag(written.as_bytes()).unwrap();
            assert_eq!(read.value, escaped(value.as_bytes()), "{written}");
            assert_eq!(read.length, written.len());
        }
    }
}
