//! Cuts the text of games into tokens.
//!
//! Every byte belongs to a token or to the white space between two. What a word means is for its reader to say, so no
//! word is passed over here. The standard is in section 8.2 of the PGN specification.

use super::tags::{Tag, read_tag};
use rukh_base::encoding::decoded;

/// Characters without a visible sign besides those of ASCII: the byte order mark, non-breaking spaces, and spaces
/// of fixed or no width, in UTF-8.
const WIDE_SPACES: [&[u8]; 5] =
    [b"\xef\xbb\xbf", b"\xc2\xa0", b"\xe2\x80\x8b", b"\xe2\x80\x89", b"\xe2\x80\xaf"];

/// The results at the end of the moves, and other ways to write them.
const RESULTS: [(&str, &str); 11] = [
    ("1-0", "1-0"),
    ("0-1", "0-1"),
    ("1/2-1/2", "1/2-1/2"),
    ("*", "*"),
    ("1–0", "1-0"),
    ("0–1", "0-1"),
    ("1/2–1/2", "1/2-1/2"),
    ("½-½", "1/2-1/2"),
    ("½–½", "1/2-1/2"),
    ("1/2", "1/2-1/2"),
    ("½", "1/2-1/2"),
];

/// The result that a word is, as the standard writes it.
pub(super) fn result_of(word: &[u8]) -> Option<&'static str> {
    let text = decoded(word);
    RESULTS.iter().find(|(written, _)| *written == text).map(|(_, result)| *result)
}

/// A piece of the text of a game.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token<'a> {
    Tag(Tag<'a>),
    /// A tag without a name, to the end of its line.
    BadTag(&'a [u8]),
    /// A line that begins with `%`, which is for other programs.
    Escape,
    /// A comment to the end of the line, without the semicolon.
    LineComment(&'a [u8]),
    OpenComment,
    /// A part of a comment in braces.
    CommentText(&'a [u8]),
    CloseComment,
    OpenVariation,
    CloseVariation,
    /// The digits behind a dollar sign.
    Glyph(&'a [u8]),
    /// Anything else up to white space or a sign that cannot be part of a word.
    Word(&'a [u8]),
}

/// Cuts a text into tokens, which may come in pieces. Each piece ends at the end of a line.
#[derive(Clone, Default, Debug)]
pub(super) struct Lexer {
    pub(super) is_in_comment: bool,
    /// Whether the tags are over. Then a bracket is no tag.
    pub(super) has_moves: bool,
}

impl Lexer {
    /// The token at or behind `*at` in `text`, and moves `*at` to its end. `None` if only white space is left.
    pub(super) fn next<'a>(&mut self, text: &'a [u8], at: &mut usize) -> Option<Token<'a>> {
        if self.is_in_comment {
            return self.in_comment(text, at);
        }
        let mut is_at_start = *at == 0 || text[*at - 1] == b'\n';
        let rest = loop {
            let rest = &text[*at..];
            if is_at_start && rest.starts_with(b"%") {
                *at += line_length(rest);
                return Some(Token::Escape);
            }
            let length = space_length(rest);
            if length == 0 {
                break rest;
            }
            is_at_start = rest[0] == b'\n';
            *at += length;
        };
        let first = *rest.first()?;
        if first == b'[' && !self.has_moves {
            let line = &rest[..line_length(rest)];
            let tag = read_tag(line);
            *at += tag.as_ref().map_or(line.len(), |tag| tag.length);
            return Some(tag.map_or(Token::BadTag(line), Token::Tag));
        }
        // Comments stand before, between and behind tags.
        self.has_moves |= !matches!(first, b'{' | b';');
        let (token, length) = match first {
            b';' => {
                let length = line_length(rest);
                (Token::LineComment(&rest[1..length]), length)
            }
            b'{' => {
                self.is_in_comment = true;
                (Token::OpenComment, 1)
            }
            b'(' => (Token::OpenVariation, 1),
            b')' => (Token::CloseVariation, 1),
            b'$' => {
                let digits = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                (Token::Glyph(&rest[1..=digits]), 1 + digits)
            }
            _ => {
                let length = word_length(rest);
                (Token::Word(&rest[..length]), length)
            }
        };
        *at += length;
        Some(token)
    }

    fn in_comment<'a>(&mut self, text: &'a [u8], at: &mut usize) -> Option<Token<'a>> {
        let rest = &text[*at..];
        let length = rest.iter().position(|&byte| byte == b'}').unwrap_or(rest.len());
        match (length, rest.is_empty()) {
            (_, true) => None,
            (0, _) => {
                self.is_in_comment = false;
                *at += 1;
                Some(Token::CloseComment)
            }
            _ => {
                *at += length;
                Some(Token::CommentText(&rest[..length]))
            }
        }
    }
}

/// The length of the line at the beginning of `text`, without its end.
fn line_length(text: &[u8]) -> usize {
    text.iter().position(|&byte| byte == b'\n').unwrap_or(text.len())
}

/// The length of the white space character at the beginning of `text`; 0 if there is none.
fn space_length(text: &[u8]) -> usize {
    match text.first() {
        None => 0,
        Some(byte) if byte.is_ascii_whitespace() || *byte == 0x0b => 1,
        Some(byte) if byte.is_ascii() => 0,
        Some(_) => WIDE_SPACES.iter().find(|space| text.starts_with(space)).map_or(0, |space| space.len()),
    }
}

/// A line without white space at its beginning.
pub(super) fn trim_start(line: &[u8]) -> &[u8] {
    let mut rest = line;
    while space_length(rest) > 0 {
        rest = &rest[space_length(rest)..];
    }
    rest
}

/// The length of the word at the beginning of `text`, at least 1.
fn word_length(text: &[u8]) -> usize {
    let mut length = 1;
    while let Some(&byte) = text.get(length) {
        let ends = match byte {
            b'{' | b'}' | b';' | b')' | b'$' => true,
            // A piece in brackets belongs to the move of a pawn, as in `e8(Q)`.
            b'(' | b'[' => match bracketed_length(&text[length..]) {
                Some(more) if matches!(text[length - 1], b'1' | b'8' | b'=') => {
                    length += more;
                    continue;
                }
                _ => byte == b'(',
            },
            _ if matches!(text[length - 1], b'!' | b'?') && begins_move(&text[length..]) => true,
            _ => space_length(&text[length..]) > 0,
        };
        if ends {
            break;
        }
        length += 1;
    }
    length
}

/// Whether a move with English letters, a move number or a result begins here, after `!` or `?`. A lone `N` or `ch` begins
/// none.
fn begins_move(text: &[u8]) -> bool {
    match text {
        [b'a'..=b'h', b'1'..=b'8' | b'x', ..] | [b'0'..=b'9' | b'*', ..] => true,
        [b'K' | b'Q' | b'R' | b'B' | b'N', b'a'..=b'h' | b'1'..=b'8' | b'x', ..] => true,
        _ => text.starts_with(b"O-O"),
    }
}

/// The length of a letter or a figurine in brackets at the beginning of `text`.
fn bracketed_length(text: &[u8]) -> Option<usize> {
    let close = if text.starts_with(b"(") { b')' } else { b']' };
    let inside = match text.get(1)? {
        byte if byte.is_ascii_alphabetic() => 1,
        // The figurines are U+2654 to U+265F.
        0xe2 if text.get(2) == Some(&0x99) => 3,
        _ => return None,
    };
    (text.get(1 + inside) == Some(&close)).then_some(inside + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The tokens of a text, and the bytes between them.
    fn tokens(text: &[u8]) -> (Vec<Token<'_>>, Vec<u8>) {
        let (mut lexer, mut at, mut tokens, mut between) = (Lexer::default(), 0, Vec::new(), Vec::new());
        loop {
            let start = at;
            let Some(token) = lexer.next(text, &mut at) else {
                between.extend_from_slice(&text[start..]);
                return (tokens, between);
            };
            let length = match &token {
                Token::Tag(tag) => tag.length,
                Token::BadTag(text) | Token::Word(text) | Token::CommentText(text) => text.len(),
                Token::Escape => {
                    let line = text[start..at].iter().position(|&byte| byte == b'%').unwrap();
                    at - start - line
                }
                Token::LineComment(text) | Token::Glyph(text) => text.len() + 1,
                _ => 1,
            };
            between.extend_from_slice(&text[start..at - length]);
            tokens.push(token);
        }
    }

    fn words(text: &str) -> Vec<String> {
        let (tokens, _) = tokens(text.as_bytes());
        tokens
            .iter()
            .map(|token| match token {
                Token::Word(word) => String::from_utf8(word.to_vec()).unwrap(),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn words_end_where_a_reader_would_end_them() {
        assert_eq!(
            words("1.e4! e8(Q)+ dxe1[♛] O-O-O\u{a0}Nf3??"),
            ["1.e4!", "e8(Q)+", "dxe1[♛]", "O-O-O", "Nf3??"]
        );
        assert_eq!(words("e8=(Q)(Kd8)")[..2], ["e8=(Q)", "OpenVariation"]);
        assert_eq!(words("e4(d4)"), ["e4", "OpenVariation", "d4", "CloseVariation"]);
        assert_eq!(words("Kd8(Kc8)")[1], "OpenVariation");
        assert!(words("[x} 1-0")[0].starts_with("BadTag"));
        assert_eq!(words("e4 [x] }"), ["e4", "[x]", "}"]);
        assert_eq!(words("Bb5!?a6?Nf3!!O-O?1-0 e4?*"), ["Bb5!?", "a6?", "Nf3!!", "O-O?", "1-0", "e4?", "*"]);
        assert_eq!(words("dxe5!ep Bb5!ch e4!N 4.Ba4??+="), ["dxe5!ep", "Bb5!ch", "e4!N", "4.Ba4??+="]);
        assert_eq!(words("e4\n%x\n %y"), ["e4", "Escape", "%y"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn only_white_space_is_between_tokens(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b" \n{}()[];$%\"e4K1-=\xef\xbb\xbf".to_vec())], 0..80)
        ) {
            let (_, between) = tokens(&bytes);
            let mut rest = between.as_slice();
            while !rest.is_empty() {
                prop_assert!(space_length(rest) > 0, "{:?} in {:?}", rest, bytes);
                rest = &rest[space_length(rest)..];
            }
        }

        /// A file that is read line by line has the same tokens as its whole text.
        #[test]
        fn pieces_that_end_with_lines_have_the_same_tokens(text in "[ \\n{}()\\[\\];$%\"a-e1-4=+]{0,80}") {
            let (whole, _) = tokens(text.as_bytes());
            let mut lexer = Lexer::default();
            let mut parts: Vec<Token<'_>> = Vec::new();
            for line in text.as_bytes().split_inclusive(|&byte| byte == b'\n') {
                let mut at = 0;
                while let Some(token) = lexer.next(line, &mut at) {
                    parts.push(token);
                }
            }
            let joined = |tokens: &[Token<'_>]| {
                let mut shown = String::new();
                for token in tokens {
                    match token {
                        Token::CommentText(text) => shown.push_str(&String::from_utf8_lossy(text)),
                        other => shown.push_str(&format!("<{other:?}>")),
                    }
                }
                shown
            };
            prop_assert_eq!(joined(&parts), joined(&whole));
        }
    }
}
