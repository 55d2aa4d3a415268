//! Cuts a PGN file into the texts of its games, so that a broken game does not spoil the games after it.
//!
//! A game ends before the first tag after its moves, before any tag `Event`, and at an empty line after its result. So an
//! open brace costs one game and not the rest of the file.

use std::io::{self, BufRead, Read};

/// The most bytes of one game. A file without any end of a game is cut here.
const MOST_BYTES: usize = 16 << 20;

/// The tokens that end a game.
const RESULTS: [&[u8]; 4] = [b"1-0", b"0-1", b"1/2-1/2", b"*"];

/// The text of one game.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GameText {
    /// The text as it is in the file.
    pub(crate) bytes: Vec<u8>,
    /// The number of its first line, counted from 1.
    pub(crate) line: u64,
}

/// Reads the texts of games from a file.
pub(crate) struct Splitter<R> {
    reader: R,
    /// The number of lines that were read.
    lines: u64,
    /// A line that belongs to the next game.
    pending: Vec<u8>,
}

/// Where the reading of a game stands.
#[derive(Default)]
struct State {
    is_in_comment: bool,
    has_moves: bool,
    has_result: bool,
}

impl<R: BufRead> Splitter<R> {
    pub(crate) fn new(reader: R) -> Splitter<R> {
        Splitter { reader, lines: 0, pending: Vec::new() }
    }

    /// The next game; `None` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read further.
    pub(crate) fn next_game(&mut self) -> io::Result<Option<GameText>> {
        let (mut bytes, mut state, mut first_line) = (Vec::new(), State::default(), 0);
        loop {
            let line = self.next_line()?;
            let text = line.trim_ascii();
            let is_end = line.is_empty()
                || !bytes.is_empty() && state.ends_before(text)
                || bytes.len() + line.len() > MOST_BYTES && !bytes.is_empty();
            if is_end {
                self.pending = line;
                return Ok((!bytes.is_empty()).then_some(GameText { bytes, line: first_line }));
            }
            self.lines += 1;
            if bytes.is_empty() {
                if text.is_empty() {
                    continue;
                }
                first_line = self.lines;
            }
            state.add(&line);
            bytes.extend_from_slice(&line);
        }
    }

    /// The next line with its end; empty at the end of the file. An overlong line comes in pieces.
    fn next_line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = std::mem::take(&mut self.pending);
        if line.is_empty() {
            self.reader.by_ref().take(MOST_BYTES as u64).read_until(b'\n', &mut line)?;
            // A byte order mark is no part of the first tag.
            if self.lines == 0 && line.starts_with(b"\xef\xbb\xbf") {
                line.drain(..3);
            }
        }
        Ok(line)
    }
}

impl State {
    /// Whether the game ends before a line.
    fn ends_before(&self, line: &[u8]) -> bool {
        let starts_game = (self.has_moves || self.is_in_comment) && line.starts_with(b"[Event ");
        starts_game
            || !self.is_in_comment
                && (self.has_moves && line.starts_with(b"[") || self.has_result && line.is_empty())
    }

    fn add(&mut self, line: &[u8]) {
        let is_tag = !self.is_in_comment && !self.has_moves && line.trim_ascii_start().starts_with(b"[");
        if is_tag || !self.is_in_comment && line.starts_with(b"%") {
            return;
        }
        let mut word: &[u8] = &[];
        let mut start = None;
        for (index, &byte) in line.iter().enumerate() {
            if self.is_in_comment {
                self.is_in_comment = byte != b'}';
                continue;
            }
            let is_word = !byte.is_ascii_whitespace() && !matches!(byte, b'{' | b';' | b'(' | b')');
            match (is_word, start) {
                (true, None) => start = Some(index),
                (false, Some(begun)) => word = &line[std::mem::take(&mut start).unwrap_or(begun)..index],
                _ => {}
            }
            self.has_moves |= !byte.is_ascii_whitespace();
            match byte {
                b'{' => self.is_in_comment = true,
                b';' => break,
                _ => {}
            }
        }
        if let Some(begun) = start {
            word = &line[begun..];
        }
        if !word.is_empty() {
            self.has_result = RESULTS.contains(&word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(u64, String)> {
        let mut splitter = Splitter::new(text.as_bytes());
        let mut games = Vec::new();
        while let Some(game) = splitter.next_game().unwrap() {
            games.push((game.line, String::from_utf8(game.bytes).unwrap()));
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
        assert_eq!(games[1].1, "[Event \"b\"]\n\n1. d4 *\n");
    }

    #[test]
    fn an_empty_file_has_no_games() {
        assert!(split("").is_empty() && split("\n\n  \n").is_empty());
    }
}
