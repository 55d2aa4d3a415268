//! Reads the text of a game.
//!
//! The crate `pgn-reader` finds the moves. It passes over comments to the end of a line, and it takes an empty line for
//! the end of a game, so the text is first written in the form in which nothing is lost ([`plain`]).

use super::game::{Game, Line, Note, Ply};
use crate::chess::{Position, PositionHistory};
use crate::quote::{quoted, quoted_bytes};
use pgn_reader::{KnownOutcome, Nag, Outcome, RawComment, RawTag, Reader, SanPlus, Skip, Visitor};
use shakmaty::Color;
use std::ops::ControlFlow;

/// The most variations inside each other.
const DEEPEST_VARIATION: usize = 64;

/// The most moves of a game. No game by the rules is longer than about 18000 plies.
pub(crate) const MOST_PLIES: usize = 20_000;

/// The names of the variants of chess that are played by the rules of chess, in lower case and without spaces, and those
/// of Chess960.
const CHESS: [&str; 4] = ["standard", "chess", "normal", "fromposition"];
const CHESS960: [&str; 5] = ["chess960", "fischerandom", "fischerrandom", "freestyle", "freestylechess"];

/// Reads a game.
///
/// # Errors
/// What is wrong with the game, in words: an illegal move, a start position that cannot be played, a variant that is not
/// chess, or a brace or parenthesis without its partner.
pub(crate) fn read_game(text: &[u8]) -> Result<Game, String> {
    let plain = plain(text)?;
    let mut reader = Reader::build(plain.as_slice()).set_supported_tag_line_length(1 << 16).finish();
    match reader.read_game(&mut GameVisitor) {
        Ok(Some(Ok(game))) if game.is_empty() => Err("there is neither a tag nor a move".to_owned()),
        Ok(Some(game)) => game,
        Ok(None) => Err("there is no game".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The text without empty lines and escaped lines among the moves, with comments in braces only, and with `--` for the
/// null move of ChessBase.
fn plain(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut plain = Vec::with_capacity(text.len() + 1);
    let (mut is_in_comment, mut has_moves) = (false, false);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let trimmed = line.trim_ascii();
        if is_in_comment {
            // The rest of this function reads on in the comment.
        } else if trimmed.is_empty() || line.starts_with(b"%") {
            continue;
        } else if !has_moves && trimmed.starts_with(b"[") {
            plain.extend_from_slice(trimmed);
            plain.push(b'\n');
            continue;
        } else if !has_moves {
            has_moves = true;
            plain.push(b'\n');
        }
        let mut rest = line;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'}' if is_in_comment => is_in_comment = false,
                b'{' if !is_in_comment => is_in_comment = true,
                b';' if !is_in_comment => {
                    plain.push(b'{');
                    plain.extend(after.trim_ascii_end().iter().map(|&b| if b == b'}' { b')' } else { b }));
                    plain.extend_from_slice(b"}\n");
                    break;
                }
                b'Z' if !is_in_comment && after.starts_with(b"0") => {
                    plain.extend_from_slice(b"--");
                    rest = &after[1..];
                    continue;
                }
                _ => {}
            }
            plain.push(byte);
        }
    }
    match is_in_comment {
        true => Err("a comment has no end".to_owned()),
        false => {
            // The crate passes over a glyph that ends with the text.
            plain.push(b'\n');
            Ok(plain)
        }
    }
}

struct GameVisitor;

/// A game that is being read. The last of `open` is the line at hand, and the first one is the main line.
struct Reading {
    game: Game,
    open: Vec<Line>,
    /// The first part of a comment that comes in several.
    comment: Vec<u8>,
}

impl Reading {
    fn note(&mut self, note: Note) {
        if let Some(line) = self.open.last_mut() {
            line.plies.last_mut().map_or(&mut line.before, |ply| &mut ply.notes).push(note);
        }
    }
}

type Flow<T = ()> = ControlFlow<Result<Game, String>, T>;

fn refuse<T>(reason: String) -> Flow<T> {
    ControlFlow::Break(Err(reason))
}

impl Visitor for GameVisitor {
    type Tags = Vec<(Vec<u8>, Vec<u8>)>;
    type Movetext = Reading;
    type Output = Result<Game, String>;

    fn begin_tags(&mut self) -> Flow<Self::Tags> {
        ControlFlow::Continue(Vec::new())
    }

    fn tag(&mut self, tags: &mut Self::Tags, name: &[u8], value: RawTag<'_>) -> Flow {
        tags.push((name.trim_ascii().to_vec(), value.as_bytes().to_vec()));
        ControlFlow::Continue(())
    }

    fn begin_movetext(&mut self, tags: Self::Tags) -> Flow<Reading> {
        let mut game = Game {
            tags,
            line: Line::default(),
            history: PositionHistory::new(Position::startpos()),
            moves: Vec::new(),
            result: None,
            chess960: false,
        };
        if let Some(variant) = game.tag("Variant") {
            let name = String::from_utf8_lossy(variant).to_ascii_lowercase().replace([' ', '-', '_'], "");
            let is_chess960 = CHESS960.contains(&name.as_str());
            if !is_chess960 && !name.is_empty() && !CHESS.contains(&name.as_str()) {
                return refuse(format!("the variant {} is not chess", quoted_bytes(variant)));
            }
            game.chess960 = is_chess960;
        }
        if let Some(fen) = game.tag("FEN") {
            match Position::from_fen(&RawTag(fen).decode_utf8_lossy()) {
                Ok(position) => game.history = PositionHistory::new(position),
                Err(error) => return refuse(error.to_string()),
            }
        }
        ControlFlow::Continue(Reading { game, open: vec![Line::default()], comment: Vec::new() })
    }

    fn san(&mut self, reading: &mut Reading, san_plus: SanPlus) -> Flow {
        if reading.game.result.is_some() {
            return refuse(format!("the move {} follows the result", quoted(&san_plus.to_string())));
        }
        let mut san = san_plus;
        if reading.open.len() == 1 {
            if reading.game.moves.len() == MOST_PLIES {
                return refuse(format!("there are more than {MOST_PLIES} moves"));
            }
            let position = reading.game.history.last();
            let Ok(m) = san.san.to_move(position.board()) else {
                let reason = format!("illegal move {} in {}", quoted(&san.to_string()), position.to_fen());
                return refuse(reason);
            };
            san = SanPlus::from_move(position.board().clone(), m);
            reading.game.history.push(m);
            reading.game.moves.push(m);
        }
        if let Some(line) = reading.open.last_mut() {
            line.plies.push(Ply { san, notes: Vec::new() });
        }
        ControlFlow::Continue(())
    }

    fn nag(&mut self, reading: &mut Reading, nag: Nag) -> Flow {
        reading.note(Note::Glyph(nag.0));
        ControlFlow::Continue(())
    }

    fn partial_comment(&mut self, reading: &mut Reading, comment: RawComment<'_>) -> Flow {
        reading.comment.extend_from_slice(comment.as_bytes());
        ControlFlow::Continue(())
    }

    fn comment(&mut self, reading: &mut Reading, comment: RawComment<'_>) -> Flow {
        let mut text = std::mem::take(&mut reading.comment);
        text.extend_from_slice(comment.as_bytes());
        reading.note(Note::Comment(text));
        ControlFlow::Continue(())
    }

    fn begin_variation(&mut self, reading: &mut Reading) -> Flow<Skip> {
        if reading.open.len() > DEEPEST_VARIATION {
            return refuse(format!("more than {DEEPEST_VARIATION} variations are inside each other"));
        }
        if reading.open.last().is_some_and(|line| line.plies.is_empty()) {
            return refuse("a variation stands before the first move of its line".to_owned());
        }
        reading.open.push(Line::default());
        ControlFlow::Continue(Skip(false))
    }

    fn end_variation(&mut self, reading: &mut Reading) -> Flow {
        match reading.open.pop().filter(|_| !reading.open.is_empty()) {
            Some(line) => reading.note(Note::Variation(line)),
            None => return refuse("a variation ends that has not begun".to_owned()),
        }
        ControlFlow::Continue(())
    }

    fn outcome(&mut self, reading: &mut Reading, outcome: Outcome) -> Flow {
        // Some programs write a result at the end of a variation, where it says nothing.
        if reading.open.len() == 1 {
            reading.game.result = Some(match outcome {
                Outcome::Known(KnownOutcome::Draw) => "1/2-1/2",
                Outcome::Known(KnownOutcome::Decisive { winner: Color::White }) => "1-0",
                Outcome::Known(KnownOutcome::Decisive { winner: Color::Black }) => "0-1",
                Outcome::Unknown => "*",
            });
        }
        ControlFlow::Continue(())
    }

    fn end_game(&mut self, reading: Reading) -> Self::Output {
        let Reading { mut game, mut open, .. } = reading;
        match (open.pop(), open.is_empty()) {
            (Some(line), true) => {
                game.line = line;
                Ok(game)
            }
            _ => Err("a variation has no end".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_game_that_breaks_has_a_reason() {
        for (text, reason) in [
            ("1. e4 e5 2. Ke3 *", "illegal move `Ke3` in "),
            ("1. e4 {open", "a comment has no end"),
            ("garbage ][", "there is neither a tag nor a move"),
            ("1. e4 (1. d4 d5 *", "a variation has no end"),
            ("1. e4 ) e5 *", "a variation ends that has not begun"),
            ("(1. e4) d4 *", "a variation stands before"),
            ("1. e4 * 1. d4 *", "follows the result"),
            ("[Variant \"Atomic\"]\n\n1. e4 *", "the variant `Atomic` is not chess"),
            ("[FEN \"nonsense\"]\n\n*", "nonsense"),
        ] {
            let error = read_game(text.as_bytes()).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        let deep = format!("1. e4 {}", "(1. d4 ".repeat(1000));
        assert!(read_game(deep.as_bytes()).unwrap_err().contains("inside each other"));
    }

    #[test]
    fn chess960_is_read_by_its_tags() {
        let game = read_game(
            b"[Variant \"chess 960\"]\n[FEN \"4k3/8/8/8/8/8/8/1R3K1R w HB - 0 1\"]\n\n1. O-O Kd7 *",
        )
        .unwrap();
        assert!(game.chess960);
        assert!(game.history.last().to_fen().starts_with("8/3k4/8/8/8/8/8/1R3RK1 w"));
    }
}
