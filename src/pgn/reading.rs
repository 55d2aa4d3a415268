//! A game while its tokens are read, in one language.

use super::game::{Game, Line, Note, Ply, tag_value};
use super::limits::{DEEPEST_VARIATION, LONGEST_COMMENT, MOST_PLIES, long_comment};
use super::notation::{Language, NoMove, Pattern, read_move};
use super::signs::{Signs, read_signs};
use super::tags::Tag;
use super::tokens::{Token, result_of};
use rukh_base::encoding::decoded;
use rukh_base::quote::{quoted, quoted_bytes};
use rukh_chess::{Color, Move, Position, PositionHistory, uci_move};
use shakmaty::san::{San, SanPlus};

/// The names of the variants of chess that are played by the rules of chess, in lower case and without spaces, and those
/// of Chess960.
const CHESS: [&str; 4] = ["standard", "chess", "normal", "fromposition"];
const CHESS960: [&str; 5] = ["chess960", "fischerandom", "fischerrandom", "freestyle", "freestylechess"];

/// What is wrong with a token.
pub(super) enum Wrong {
    /// It is no legal move in this language.
    Move(String),
    Other(String),
}

impl From<String> for Wrong {
    fn from(reason: String) -> Wrong {
        Wrong::Other(reason)
    }
}

/// A line that is being read.
struct Open {
    line: Line,
    /// The position after its moves, and the one before the last of them.
    position: Position,
    before: Option<Position>,
    last: Option<Move>,
    /// By how much the move numbers of the text exceed those of the positions; the first number of the line decides.
    /// Some programs begin with 1 after any start position.
    numbers_ahead: Option<i64>,
    /// A number without dots, which belongs to a move.
    number: Option<String>,
}

impl Open {
    fn new(position: Position) -> Open {
        Open { line: Line::default(), position, before: None, last: None, numbers_ahead: None, number: None }
    }

    fn note(&mut self, note: Note) {
        self.line.plies.last_mut().map_or(&mut self.line.before, |ply| &mut ply.notes).push(note);
    }
}

/// A game that is being read.
pub(super) struct Reading<'a> {
    language: &'a Language,
    tags: Vec<(Vec<u8>, Vec<u8>)>,
    /// The lines around the one that is read, from the main line on.
    outer: Vec<Open>,
    /// The line that is read.
    current: Open,
    history: PositionHistory,
    moves: Vec<Option<Move>>,
    result: Option<&'static str>,
    chess960: bool,
    /// The first part of a comment that comes in several; `None` outside of comments.
    comment: Option<Vec<u8>>,
    /// Whether the tags are over, so that the start position is known.
    has_start: bool,
}

impl<'a> Reading<'a> {
    pub(super) fn new(language: &'a Language) -> Reading<'a> {
        Reading {
            language,
            tags: Vec::new(),
            outer: Vec::new(),
            current: Open::new(Position::startpos()),
            history: PositionHistory::new(Position::startpos()),
            moves: Vec::new(),
            result: None,
            chess960: false,
            comment: None,
            has_start: false,
        }
    }

    /// Takes the next token.
    ///
    /// # Errors
    /// It is not understood, or it cannot stand here.
    pub(super) fn take(&mut self, token: Token<'_>) -> Result<(), Wrong> {
        match token {
            Token::Tag(Tag { name, value, .. }) => self.tags.push((name.to_vec(), value)),
            Token::BadTag(text) => return Err(format!("{} is not a tag", quoted_bytes(text)).into()),
            Token::Escape => {}
            Token::LineComment(text) if text.len() > LONGEST_COMMENT => return Err(long_comment().into()),
            Token::LineComment(text) => {
                // A brace cannot stand in a comment in braces.
                let text = text.trim_ascii_end().iter().map(|&byte| if byte == b'}' { b')' } else { byte });
                self.current.note(Note::Comment(text.collect()));
            }
            Token::OpenComment => self.comment = Some(Vec::new()),
            Token::CommentText(text) => {
                if let Some(comment) = &mut self.comment {
                    comment.extend_from_slice(text);
                    if comment.len() > LONGEST_COMMENT {
                        return Err(long_comment().into());
                    }
                }
            }
            Token::CloseComment => {
                let comment = self.comment.take().map(Note::Comment);
                comment.into_iter().for_each(|comment| self.current.note(comment));
            }
            Token::OpenVariation => self.open_variation()?,
            Token::CloseVariation => self.close_variation()?,
            Token::Glyph(digits) => {
                let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
                let text = [b"$", digits].concat();
                let wrong = || self.at(&format!("{} is not a glyph from $0 to $255", quoted_bytes(&text)));
                let number = number.ok_or_else(wrong)?;
                self.current.note(Note::Glyph(number));
            }
            Token::Word(word) => self.word(word)?,
        }
        Ok(())
    }

    /// A reason with the move at which it was found.
    fn at(&self, reason: &str) -> String {
        let position = &self.current.position;
        let side = if position.side_to_move() == Color::White { "White" } else { "Black" };
        let place = if self.outer.is_empty() { "" } else { " in a variation" };
        format!("{reason} at move {} of {side}{place}", position.game_ply() / 2 + 1)
    }

    /// Sets up the start position that the tags give.
    fn start(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.has_start, true) {
            return Ok(());
        }
        let [variant, fen] = ["Variant", "FEN"].map(|name| tag_value(&self.tags, name));
        if let Some(variant) = variant {
            let name = variant.to_ascii_lowercase().replace([' ', '-', '_'], "");
            self.chess960 = CHESS960.contains(&name.as_str());
            if !self.chess960 && !name.is_empty() && !CHESS.contains(&name.as_str()) {
                return Err(format!("the variant {} is not chess", quoted(&variant)));
            }
        }
        if let Some(fen) = fen {
            let position = Position::from_fen(&fen).map_err(|error| error.to_string())?;
            self.history = PositionHistory::new(position.clone());
            self.current.position = position;
        }
        Ok(())
    }

    fn open_variation(&mut self) -> Result<(), String> {
        self.start()?;
        if self.outer.len() >= DEEPEST_VARIATION {
            return Err(self.at(&format!("more than {DEEPEST_VARIATION} variations are inside each other")));
        }
        self.expect_no_number()?;
        // A variation replaces the move before it.
        let Some(before) = self.current.before.clone() else {
            return Err(self.at("a variation stands before the first move of its line"));
        };
        let mut variation = Open::new(before);
        variation.numbers_ahead = self.current.numbers_ahead;
        self.outer.push(std::mem::replace(&mut self.current, variation));
        Ok(())
    }

    fn close_variation(&mut self) -> Result<(), String> {
        self.expect_no_number()?;
        let Some(outer) = self.outer.pop() else {
            return Err(self.at("a variation ends that has not begun"));
        };
        let variation = std::mem::replace(&mut self.current, outer);
        self.current.note(Note::Variation(variation.line));
        Ok(())
    }

    /// # Errors
    /// A number without dots has no move behind it. It may be what is left of a move.
    fn expect_no_number(&self) -> Result<(), String> {
        let number = self.current.number.as_deref();
        number
            .map_or(Ok(()), |number| Err(self.at(&format!("no move follows the number {}", quoted(number)))))
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Wrong> {
        self.start()?;
        let text = decoded(word);
        if let Some(result) = result_of(word) {
            return Ok(self.end_with(result)?);
        }
        let rest = self.without_number(&text)?;
        if rest.is_empty() {
            return Ok(());
        }
        if let Some(signs) = read_signs(rest) {
            // It may be a move with a mistake: `ch` differs from `c4` by one character.
            if signs.says_check && !self.current.position.is_check() {
                return Err(Wrong::Move(
                    self.at(&format!("{} is not a move, and there is no check", quoted(&text))),
                ));
            }
            return Ok(self.add_signs(&signs, &text)?);
        }
        let Some((pattern, signs)) = read_move(rest, self.language) else {
            return Err(Wrong::Move(self.at(&format!("{} is not a move", quoted(&text)))));
        };
        if self.outer.is_empty() {
            if self.result.is_some() {
                return Err(self.at(&format!("the move {} follows the result", quoted(&text))).into());
            }
            if self.moves.len() == MOST_PLIES {
                return Err(format!("there are more than {MOST_PLIES} moves").into());
            }
        }
        self.current.number = None;
        self.play(pattern, &text)?;
        Ok(self.add_signs(&signs, &text)?)
    }

    fn end_with(&mut self, result: &'static str) -> Result<(), String> {
        self.expect_no_number()?;
        if self.outer.is_empty() {
            if let Some(first) = self.result.filter(|&first| first != result) {
                return Err(self.at(&format!("the result {result} follows the result {first}")));
            }
            self.result = Some(result);
        } else if result != "*" {
            // Some programs write the result at the end of a variation.
            self.current.note(Note::Comment(result.into()));
        }
        Ok(())
    }

    /// Takes a move number, as in `12.`, `12...` or `12`, from the beginning of a word. Returns the rest.
    ///
    /// # Errors
    /// The number shows that a move is missing or, if it has no dots, is not that of the next move.
    fn without_number<'w>(&mut self, text: &'w str) -> Result<&'w str, Wrong> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let after = &text[digits..];
        let rest = after.trim_start_matches(['.', '…']);
        let dots = after.len() - rest.len();
        let is_null_move = text == uci_move::NULL_MOVE;
        if is_null_move || digits > 0 && dots == 0 && !rest.is_empty() || digits + dots == 0 {
            return Ok(text);
        }
        let position = &self.current.position;
        let is_white = position.side_to_move() == Color::White;
        let own = i64::from(position.game_ply() / 2 + 1);
        let missing = |reason: &str| self.at(&format!("{} {reason}", quoted(text)));
        if dots > 1 && is_white {
            return Err(missing(
                "is the number of a move of Black: a move is missing, or there is one too many",
            )
            .into());
        }
        if digits == 0 {
            return Ok(rest);
        }
        let number: i64 =
            text[..digits].parse().map_err(|_| self.at(&format!("{} is not a move number", quoted(text))))?;
        let is_first = self.current.numbers_ahead.is_none();
        let expected = own + *self.current.numbers_ahead.get_or_insert(number - own);
        if dots == 1 && !is_white && number == expected + 1 {
            let reason = "is the number of a move of White: a move of Black is missing";
            return Err(self.at(&format!("{} {reason}", quoted(text))).into());
        }
        if dots == 0 {
            // Without dots, a number may be a part of a move.
            self.expect_no_number()?;
            let begins_with_1 = number == 1 && self.current.line.plies.is_empty();
            if number != expected || is_first && number != own && !begins_with_1 {
                return Err(Wrong::Move(self.at(&format!("{} is not a move", quoted(text)))));
            }
            self.current.number = Some(text.to_owned());
        }
        Ok(rest)
    }

    /// Adds the signs behind a move, or those that stand alone.
    fn add_signs(&mut self, signs: &Signs, text: &str) -> Result<(), String> {
        let Open { line, last, position, .. } = &self.current;
        if signs.needs_move && line.plies.is_empty() {
            return Err(self.at(&format!("{} stands before the first move", quoted(text))));
        }
        if signs.is_en_passant && !last.is_some_and(Move::is_en_passant) {
            return Err(self.at(&format!("{} says en passant of another move", quoted(text))));
        }
        let side = if line.plies.is_empty() { position.side_to_move() } else { !position.side_to_move() };
        signs.glyphs(side).for_each(|glyph| self.current.note(Note::Glyph(glyph)));
        Ok(())
    }

    fn play(&mut self, pattern: Pattern, text: &str) -> Result<(), Wrong> {
        let position = &self.current.position;
        let (next, played, san) = if pattern == Pattern::Null {
            let next = position.pass().ok_or_else(|| {
                let reason = format!("the null move {} while in check", quoted(text));
                format!("{}, in {}", self.at(&reason), position.to_fen())
            })?;
            (next, None, SanPlus { san: San::Null, suffix: None })
        } else {
            let m = pattern.find(position).map_err(|no_move| {
                let reason = match no_move {
                    NoMove::Illegal => format!("illegal move {}", quoted(text)),
                    NoMove::Ambiguous => format!("ambiguous move {}", quoted(text)),
                };
                Wrong::Move(format!("{}, in {}", self.at(&reason), position.to_fen()))
            })?;
            (position.play(m), Some(m), position.san(m))
        };
        if self.outer.is_empty() {
            match played {
                Some(m) => self.history.push(m),
                None => _ = self.history.pass(),
            }
            self.moves.push(played);
        }
        let current = &mut self.current;
        current.before = Some(std::mem::replace(&mut current.position, next));
        current.last = played;
        current.line.plies.push(Ply { san, notes: Vec::new() });
        Ok(())
    }

    /// The game, after its last token.
    ///
    /// # Errors
    /// Something that has begun has no end, or there is nothing.
    pub(super) fn finish(mut self) -> Result<Game, String> {
        self.start()?;
        self.expect_no_number()?;
        if self.comment.is_some() {
            return Err(self.at("a comment has no end"));
        }
        if !self.outer.is_empty() {
            return Err(self.at("a variation has no end"));
        }
        let Reading { tags, current, history, moves, result, chess960, .. } = self;
        let game = Game { tags, line: current.line, history, moves, result, chess960 };
        if game.is_empty() {
            return Err("there is neither a tag nor a move".to_owned());
        }
        Ok(game)
    }
}
