//! A PGN game as a tree of moves.
//!
//! Texts are bytes, because many databases are not UTF-8, and what was read is written as it was.

use super::tags::unescaped;
use rukh_base::encoding::decoded;
use rukh_chess::{Move, Position, PositionHistory};
use shakmaty::san::SanPlus;

/// A game with its annotations.
#[derive(Clone, Debug)]
pub struct Game {
    /// The names and values of the tags. Values have backslashes before quotes, as they are written.
    pub tags: Vec<(Vec<u8>, Vec<u8>)>,
    /// The main line.
    pub line: Line,
    /// The positions of the main line, from the start position to the one after the last move.
    pub history: PositionHistory,
    /// The moves of the main line; `None` is a null move, by which a side passes.
    pub moves: Vec<Option<Move>>,
    /// The result at the end of the moves, as in `1-0`. `None` if the text has none.
    pub result: Option<&'static str>,
    /// Whether the game is one of Chess960, by its tags.
    pub chess960: bool,
}

/// The main line or a variation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Line {
    /// What stands before the first move.
    pub before: Vec<Note>,
    /// The moves, each with what follows it.
    pub plies: Vec<Ply>,
}

/// A move with what follows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ply {
    /// The move.
    pub san: SanPlus,
    /// Glyphs, comments and variations, in the order of the text.
    pub notes: Vec<Note>,
}

/// Something that stands between two moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// A numeric annotation glyph.
    Glyph(u8),
    /// A comment, without its braces.
    Comment(Vec<u8>),
    /// A variation, which replaces the move that it follows.
    Variation(Line),
}

impl Game {
    /// Whether nothing was read: no tag, no move, no comment and no result.
    pub(crate) fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.line == Line::default() && self.result.is_none()
    }

    /// The value of a tag as text.
    pub fn tag(&self, name: &str) -> Option<String> {
        tag_value(&self.tags, name)
    }

    /// Adds `Variant`, `SetUp` and `FEN` if the game needs them: where it is Chess960, or does not begin as usual.
    pub fn add_start_tags(&mut self) {
        if self.chess960 {
            self.add_tag("Variant", "Chess960");
        }
        if let Some(fen) = self.history.positions().first().and_then(Position::unusual_fen) {
            self.add_tag("SetUp", "1");
            self.add_tag("FEN", &fen);
        }
    }

    /// Adds a tag, unless the game has one of this name.
    pub fn add_tag(&mut self, name: &str, value: &str) {
        if self.tag(name).is_none() {
            self.set_tag(name, value);
        }
    }

    /// Adds a tag, in the place of one of this name.
    pub fn set_tag(&mut self, name: &str, value: &str) {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").into_bytes();
        match self.tags.iter_mut().find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes())) {
            Some((_, old)) => *old = value,
            None => self.tags.push((name.as_bytes().to_vec(), value)),
        }
    }
}

/// The value of the tag `name` as text.
pub(super) fn tag_value(tags: &[(Vec<u8>, Vec<u8>)], name: &str) -> Option<String> {
    let tag = tags.iter().find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()));
    tag.map(|(_, value)| decoded(&unescaped(value)).into_owned())
}
