//! Moves as the UCI protocol writes them: `e2e4`, `e7e8q`, `e1g1`.
//!
//! Only castling has two notations: the king's squares (`e1g1`) and king takes rook (`e1h1`). [`parse`] accepts both,
//! whatever the GUI asked for. But if castling moves the king by fewer than two files, which happens in Chess960, only
//! king takes rook means castling: `f1g1` with the king on f1 is an ordinary king move. [`text`] writes the king's
//! squares, but it writes king takes rook if the GUI asked for Chess960 or if the king does not start on the e-file,
//! because then the king's squares may be ambiguous.

use super::{Move, Position, Role, Square};
use rukh_base::quote::quoted;
use shakmaty::{CastlingSide, File};

/// The text of a null move.
pub const NULL_MOVE: &str = "0000";

/// The reason why a move's text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UciMoveError {
    /// The text, quoted, does not have the form of a move.
    #[error("invalid move {0}: expected two squares and an optional promotion, such as e2e4 or e7e8q")]
    Malformed(String),
    /// The move is not legal.
    #[error("illegal move `{text}` in position {fen}")]
    Illegal {
        /// The move's text.
        text: String,
        /// The FEN of the position.
        fen: String,
    },
}

/// The legal move of `position` with this text.
///
/// # Errors
/// The text is malformed, or the move is not legal.
pub fn parse(position: &Position, text: &str) -> Result<Move, UciMoveError> {
    let (from, to, promotion) = split(text).ok_or_else(|| UciMoveError::Malformed(quoted(text)))?;
    find(position, from, to, promotion)
        .ok_or_else(|| UciMoveError::Illegal { text: text.to_owned(), fen: position.to_fen() })
}

/// The legal move of `position` between two squares. Castling has the king's squares, or those of king and rook.
pub fn find(position: &Position, from: Square, to: Square, promotion: Option<Role>) -> Option<Move> {
    let moves = position.legal_moves();
    let exact = moves.iter().find(|m| m.from() == Some(from) && m.to() == to && m.promotion() == promotion);
    let by_king_squares = || {
        moves.iter().find(|m| {
            matches!(**m, Move::Castle { king, .. } if king == from)
                && promotion.is_none()
                && to == king_destination(**m)
                && from.distance(to) > 1
        })
    };
    exact.or_else(by_king_squares).copied()
}

/// The text of a legal move. With `chess960`, or if the king is not on the e-file, castling is written as king takes
/// rook.
pub fn text(m: Move, chess960: bool) -> String {
    let from = m.from().unwrap_or(m.to());
    let king_squares = m.is_castle() && !chess960 && from.file() == File::E;
    let to = if king_squares { king_destination(m) } else { m.to() };
    let mut text = format!("{from}{to}");
    text.extend(m.promotion().map(Role::char));
    text
}

/// The king's target square when castling; the target square of any other move.
fn king_destination(m: Move) -> Square {
    match m {
        Move::Castle { king, rook } => {
            Square::from_coords(CastlingSide::from_king_side(king < rook).king_to_file(), king.rank())
        }
        _ => m.to(),
    }
}

/// The origin, target and promotion; `None` if `text` is malformed.
fn split(text: &str) -> Option<(Square, Square, Option<Role>)> {
    let bytes = text.as_bytes();
    let promotion = match bytes {
        [_, _, _, _] => None,
        [_, _, _, _, letter] => match letter.to_ascii_lowercase() {
            b'n' => Some(Role::Knight),
            b'b' => Some(Role::Bishop),
            b'r' => Some(Role::Rook),
            b'q' => Some(Role::Queen),
            _ => return None,
        },
        _ => return None,
    };
    let from = Square::from_ascii(&bytes[..2]).ok()?;
    let to = Square::from_ascii(&bytes[2..4]).ok()?;
    Some((from, to, promotion))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(fen: &str) -> Position {
        Position::from_fen(fen).expect("test FEN")
    }

    #[test]
    fn castling_is_read_in_both_notations_and_written_as_asked() {
        let standard = position("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1");
        for (king_squares, takes_rook) in [("e1g1", "e1h1"), ("e1c1", "e1a1")] {
            let m = parse(&standard, king_squares).expect("castling is legal");
            assert!(m.is_castle());
            assert_eq!(parse(&standard, takes_rook), Ok(m));
            assert_eq!(text(m, false), king_squares);
            assert_eq!(text(m, true), takes_rook);
        }
    }

    #[test]
    fn a_chess960_king_step_is_not_castling() {
        let beside = position("1r3k1r/pppppppp/8/8/8/8/PPPPPPPP/1R3K1R w HBhb - 0 1");
        assert!(!parse(&beside, "f1g1").expect("a king step").is_castle());
        let castling = parse(&beside, "f1h1").expect("castling");
        assert!(castling.is_castle());
        assert_eq!(text(castling, false), "f1h1");
    }

    #[test]
    fn a_move_that_cannot_be_played_is_refused_with_its_text() {
        let start = Position::startpos();
        for bad in ["", "e2", "e2e9", "e2e4x", "e2e4qq", "0000", "é2e4", &"x".repeat(10_000_000)] {
            let error = parse(&start, bad).expect_err(bad);
            assert!(matches!(&error, UciMoveError::Malformed(text) if text.chars().count() < 110), "{error}");
        }
        for illegal in ["e2e5", "e1g1", "e1h1", "e7e5", "e4e5", "e2e4q"] {
            let error = parse(&start, illegal).expect_err(illegal);
            assert!(error.to_string().contains(illegal), "{error}");
        }
        let promotion = position("8/P6k/8/8/8/8/8/K7 w - - 0 1");
        assert!(parse(&promotion, "a7a8").is_err());
        assert!(parse(&promotion, "a7a8Q").is_ok());
    }
}
