//! Cuts a PGN file into the texts of its games, so that a broken game does not spoil the games after it.
//!
//! A game ends before the first tag after its moves, before a second tag `Event`, and at an empty line after its result.
//! The tokens are those of the reader, so a bracket in a comment or a quote in a tag ends no game. If a line in a comment
//! looks like the tag `Event`, the brace that comes next decides: a closing one ends the comment, and an opening one, or
//! none at all, shows that the comment was never closed, which then costs one game and not the rest of the file.

use super::limits::{LONGEST_COMMENT, MOST_BYTES, long_comment, too_long};
use super::tags::{begins_event, begins_tag};
use super::tokens::{Lexer, Token, result_of, trim_start};
use rukh_base::limited_lines::LONGEST_LINE;
use std::io::{self, BufRead, Cursor, Read};

/// The text of one game.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GameText {
    /// The text as it is in the file, or its beginning if a limit was passed.
    pub bytes: Vec<u8>,
    /// The number of its first line, counted from 1.
    pub line: u64,
    /// The limit that was passed, in words.
    pub fault: Option<String>,
}

/// Reads the texts of games from a file.
pub struct Splitter<R> {
    reader: R,
    /// Texts that were read and belong to the next games. The last one comes first.
    pending: Vec<Cursor<Vec<u8>>>,
    /// The number of ends of lines before the text that is read next.
    lines: u64,
}

/// A game that is being cut out.
#[derive(Default)]
struct Cut {
    bytes: Vec<u8>,
    first_line: u64,
    lexer: Lexer,
    /// Whether there is anything besides lines for other programs.
    has_content: bool,
    has_event: bool,
    /// The number of variations inside each other.
    depth: usize,
    /// Whether the last word is a result.
    has_result: bool,
    comment_bytes: usize,
    /// Where a line inside a comment may begin the next game.
    candidate: Option<usize>,
    fault: Option<String>,
    /// Whether the rest of the game is not kept.
    is_cut: bool,
}

/// Where a game ends in a piece of text.
enum End {
    /// At this byte of the piece.
    InPiece(usize),
    /// At an earlier byte of the game, in a comment.
    AtCandidate(usize),
}

impl<R: BufRead> Splitter<R> {
    /// Splits the text of `reader`.
    pub fn new(reader: R) -> Splitter<R> {
        Splitter { reader, pending: Vec::new(), lines: 0 }
    }

    /// The next game; `None` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read further.
    pub fn next_game(&mut self) -> io::Result<Option<GameText>> {
        let mut cut = Cut::default();
        let mut is_line_start = true;
        loop {
            let (piece, is_whole) = self.next_piece()?;
            if piece.is_empty() {
                if let Some(candidate) = cut.candidate {
                    self.put_back(cut.bytes.split_off(candidate));
                }
                break;
            }
            if cut.bytes.is_empty() {
                if trim_start(&piece).is_empty() {
                    continue;
                }
                cut.first_line = self.lines + 1 - count_lines(&piece);
            }
            match cut.end_in(&piece, is_line_start, is_whole) {
                None => {}
                Some(End::InPiece(at)) => {
                    cut.keep(&piece[..at]);
                    self.put_back(piece[at..].to_vec());
                    break;
                }
                Some(End::AtCandidate(at)) => {
                    let mut rest = cut.bytes.split_off(at);
                    rest.extend_from_slice(&piece);
                    self.put_back(rest);
                    break;
                }
            }
            cut.keep(&piece);
            is_line_start = piece.ends_with(b"\n");
        }
        let Cut { bytes, first_line: line, fault, has_content, .. } = cut;
        Ok(has_content.then_some(GameText { bytes, line, fault }))
    }

    /// The next line with its end, or a part of an overlong line, and whether it ends a line; empty at the end of the
    /// file.
    fn next_piece(&mut self) -> io::Result<(Vec<u8>, bool)> {
        let mut piece = Vec::new();
        while !piece.ends_with(b"\n") && piece.len() < LONGEST_LINE {
            let left = (LONGEST_LINE - piece.len()) as u64;
            let Some(pending) = self.pending.last_mut() else {
                self.reader.by_ref().take(left).read_until(b'\n', &mut piece)?;
                break;
            };
            if pending.take(left).read_until(b'\n', &mut piece)? == 0 {
                self.pending.pop();
            }
        }
        self.lines += count_lines(&piece);
        let is_whole = piece.ends_with(b"\n") || piece.len() < LONGEST_LINE;
        Ok((piece, is_whole))
    }

    /// Keeps text for the next game.
    fn put_back(&mut self, text: Vec<u8>) {
        self.lines -= count_lines(&text);
        self.pending.push(Cursor::new(text));
    }
}

fn count_lines(text: &[u8]) -> u64 {
    text.iter().filter(|&&byte| byte == b'\n').count() as u64
}

impl Cut {
    /// Adds text to the game, up to the piece in which a limit was passed.
    fn keep(&mut self, piece: &[u8]) {
        if !self.is_cut {
            let left = MOST_BYTES.saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(&piece[..piece.len().min(left)]);
        }
        self.is_cut = self.fault.is_some();
    }

    /// Where the game ends in a piece of a line, if it does.
    fn end_in(&mut self, piece: &[u8], is_line_start: bool, is_whole: bool) -> Option<End> {
        let is_in_comment = self.lexer.is_in_comment;
        if is_line_start && !self.bytes.is_empty() && self.ends_before(piece) {
            return Some(End::InPiece(0));
        }
        if is_line_start && is_in_comment && self.candidate.is_none() && begins_event(trim_start(piece)) {
            // Nothing of a faulty game is kept that could be read again.
            if self.fault.is_some() {
                return Some(End::InPiece(0));
            }
            self.candidate = Some(self.bytes.len());
        }
        let mut at = 0;
        while let Some(token) = self.lexer.next(piece, &mut at) {
            self.has_content |= token != Token::Escape;
            match token {
                Token::Tag(tag) => self.has_event |= tag.name == b"Event",
                Token::BadTag(_) | Token::Escape | Token::Glyph(_) => {}
                Token::OpenComment => self.comment_bytes = 0,
                Token::LineComment(text) if text.len() > LONGEST_COMMENT => _ = self.pass_limit(long_comment),
                Token::LineComment(_) => {}
                Token::CommentText(text) => {
                    self.comment_bytes += text.len();
                    if let Some(candidate) = self.candidate.filter(|_| text.contains(&b'{')) {
                        return Some(End::AtCandidate(candidate));
                    }
                    if self.comment_bytes > LONGEST_COMMENT {
                        let end = self.pass_limit(long_comment);
                        if end.is_some() {
                            return end;
                        }
                    }
                }
                Token::CloseComment => self.candidate = None,
                Token::OpenVariation => self.depth += 1,
                Token::CloseVariation => self.depth = self.depth.saturating_sub(1),
                Token::Word(word) => {
                    let word_start = at - word.len();
                    if self.has_result && begins_tag(&piece[word_start..]) {
                        return Some(End::InPiece(word_start));
                    }
                    let may_be_result = matches!(word[0], b'0' | b'1' | b'*' | 0xbd | 0xc2);
                    self.has_result = self.depth == 0 && may_be_result && result_of(word).is_some();
                }
            }
        }
        if !is_whole {
            return self.pass_limit(|| format!("a line is longer than {LONGEST_LINE} bytes"));
        }
        match self.bytes.len() + piece.len() > MOST_BYTES {
            true => self.pass_limit(too_long),
            false => None,
        }
    }

    /// Notes that the game has passed a limit. If a comment may have no end, the game ends there instead.
    fn pass_limit(&mut self, reason: impl Fn() -> String) -> Option<End> {
        if self.fault.is_none() && self.candidate.is_none() {
            self.fault = Some(reason());
        }
        self.candidate.map(End::AtCandidate)
    }

    /// Whether the game ends before a line.
    fn ends_before(&self, line: &[u8]) -> bool {
        let line = trim_start(line);
        if self.lexer.is_in_comment {
            return false;
        }
        let is_next_tag = begins_tag(line) && (self.lexer.has_moves || self.has_event && begins_event(line));
        is_next_tag || self.has_result && line.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(u64, String)> {
        let mut splitter = Splitter::new(text.as_bytes());
        let mut games = Vec::new();
        while let Some(game) = splitter.next_game().unwrap() {
            assert_eq!(game.fault, None);
            games.push((game.line, String::from_utf8(game.bytes).unwrap()));
        }
        games
    }

    fn faults(text: &str) -> Vec<(u64, Option<String>)> {
        let mut splitter = Splitter::new(text.as_bytes());
        let mut games = Vec::new();
        while let Some(game) = splitter.next_game().unwrap() {
            assert!(game.bytes.len() <= MOST_BYTES);
            games.push((game.line, game.fault));
        }
        games
    }

    #[test]
    fn games_end_at_tags_and_after_results() {
        let text = "\n[Event \"a\"]\n[Site \"b\"]\n\n1. e4 {[%clk 1]\n[%x]\n\n} e5\n\n2. d4 *\n\n1. c4 1-0\n\n[White \"w\"]\n\n*\n";
        let games = split(text);
        assert_eq!(games.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 12, 14]);
        assert!(games[0].1.ends_with("2. d4 *\n"));
        assert_eq!(games[1].1, "1. c4 1-0\n");
        assert_eq!(games[2].1, "[White \"w\"]\n\n*\n");
    }

    #[test]
    fn an_open_brace_costs_one_game() {
        let games = split("[Event \"a\"]\n\n1. e4 {open\n\n[Event \"b\"]\n\n1. d4 *\n");
        assert_eq!(games.len(), 2);
        assert_eq!(games[1], (5, "[Event \"b\"]\n\n1. d4 *\n".to_owned()));
        let games = split("1. e4 {open\n[Event \"b\"]\n\n1. d4 {good} *\n\n[Event \"c\"]\n\n1. c4 *\n");
        assert_eq!(games.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2, 6]);
        // More than a comment may have.
        let rest = "[Event \"b\"]\n\n1. d4 *\n\n".repeat(LONGEST_COMMENT / 10);
        assert_eq!(faults(&format!("1. e4 {{open\n{rest}")).len(), LONGEST_COMMENT / 10 + 1);
    }

    #[test]
    fn brackets_and_quotes_elsewhere_end_no_game() {
        for text in [
            "1. e4 {\n[Event \"x\"]\n\n1. d4 *\n\n} e5 *\n",
            "1. e4 ; [Event \"x\"]\ne5 *\n",
            "1. e4\n[a remark] e5 *\n",
            "[Event \"a { b\"]\n[Site \"c [\"\"]\n\n1. e4 *\n",
            "[Event \"a\"]\n\n[Site \"b\"]\n\n1. e4 *\n",
            "{a comment}\n; another\n[Event \"a\"]\n\n1. e4 *\n",
            "[Event \"a\"] ; a comment\n{another}\n[Site \"b\"]\n\n1. e4 *\n",
            "1. e4 (1. d4 *\n\n) e5 *\n",
            "% for another program\n[Event \"a\"]\n\n*\n",
        ] {
            assert_eq!(split(text), [(1, text.to_owned())]);
        }
    }

    #[test]
    fn games_on_one_line_and_games_without_moves_are_apart() {
        let games = split("[Event \"a\"][Site \"b\"] 1. e4 e5 * [Event \"c\"] 1. d4 1-0\n");
        assert_eq!(games[0].1, "[Event \"a\"][Site \"b\"] 1. e4 e5 * ");
        assert_eq!(games[1], (1, "[Event \"c\"] 1. d4 1-0\n".to_owned()));
        let games = split("[Event \"a\"]\n[Site \"b\"]\n\n{a comment}\n[Event \"c\"]\n[Site \"d\"]\n\n");
        assert_eq!(games.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 5]);
        assert_eq!(split("\u{feff}[Event \"a\"]\n\n*\n\u{feff}[Event \"b\"]\n\n*\n").len(), 2);
    }

    #[test]
    fn an_empty_file_has_no_games() {
        assert!(split("").is_empty() && split("\n\n  \n").is_empty() && split("% nothing\n").is_empty());
    }

    #[test]
    fn each_limit_is_named_and_costs_one_game() {
        let next = "[Event \"b\"]\n\n1. d4 *\n";
        let long = |length: usize| "x".repeat(length);
        for (text, limit, line) in [
            (
                format!("1. e4 {{{}}} *\n\n", long(LONGEST_COMMENT + 1)),
                "a comment is longer than 524288 bytes",
                3,
            ),
            (format!("1. e4 {{{}}} *\n\n", long(15_000_000)), "a comment is longer than 524288 bytes", 3),
            (format!("1. e4 {}\n\n", long(LONGEST_LINE)), "a line is longer than 1048576 bytes", 3),
            (format!("1. e4 {}\n", long(15_000_000)), "a line is longer than 1048576 bytes", 2),
            (
                format!("1. e4 {}*\n\n", "{a comment}\n".repeat(500_000)),
                "the game is longer than 4194304 bytes",
                500_003,
            ),
        ] {
            assert_eq!(
                faults(&format!("{text}{next}")),
                [(1, Some(limit.to_owned())), (line, None)],
                "{limit}"
            );
        }
        let comment = format!("1. e4 {{{}}} *\n", long(LONGEST_COMMENT));
        assert_eq!(faults(&comment), [(1, None)]);
        let unended = format!("1. e4 {{{}", long(15_000_000));
        assert_eq!(faults(&format!("{unended}\n{next}")).len(), 2);
    }
}
