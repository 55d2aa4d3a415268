//! Reads and writes FEN. The reader accepts what lc0 accepts, as far as that is safe.
//!
//! Beyond the strict format it accepts missing fields (the defaults are white to move, no castling, no en passant
//! square, counters 0 and 1), `-` for a counter, more material than a game can have, checks that no game can reach, and
//! rule-50 counters above 100. It drops castling letters that the board rules out, and well-formed en passant squares
//! that no double push explains. Castling letters are X-FEN (`KQkq`, the outermost rook), Shredder-FEN (files), or a
//! mixture.
//!
//! As in lc0, the side that just moved may be in check. Its king can then be taken, and [`super::Position`] treats a
//! side without a king as mated.
//!
//! The reader refuses positions that cannot be played: a board that is not 8 by 8, a side without exactly one king,
//! pawns on the first or last rank, or both sides in check. It also refuses malformed fields, because a guess at
//! their meaning could give another position than the sender's.
//!
//! Operations of EPD may follow the fields if they end with a semicolon; `hmvc` and `fmvn` give the counters then.
//!
//! An en passant square is kept even if no pawn can take there, as in lc0, because the input planes of some formats
//! show it. After a played move the rule is different (see [`super::position`]).

use super::epd::{Epd, EpdError};
use super::{Color, Move, Square};
use rukh_base::quote::quoted;
use shakmaty::fen::{Fen, LossyFenError};
use shakmaty::{
    Bitboard, Board, CastlingMode, Chess, EnPassantMode, File, FromSetup, Position as _, PositionError,
    PositionErrorKinds, Role, Setup,
};
use std::num::NonZeroU32;

/// The reason why a FEN was refused. The user input in it is already shortened and escaped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FenError {
    /// The text is empty or blank.
    #[error("empty FEN: expected piece placement, side to move, castling, en passant and two counters")]
    Empty,
    /// The first field is malformed.
    #[error("bad FEN board {0}: expected 8 ranks of 8 squares made of PNBRQKpnbrqk and 1-8")]
    Board(String),
    /// The second field is malformed.
    #[error("bad FEN side to move {0}: expected w or b")]
    SideToMove(String),
    /// The third field is malformed.
    #[error("bad FEN castling rights {0}: expected -, letters of KQkq, or rook files (A-H, a-h)")]
    Castling(String),
    /// The fourth field is malformed.
    #[error("bad FEN en passant square {0}: expected - or a square such as e3")]
    EnPassant(String),
    /// The fifth field is malformed.
    #[error("bad FEN rule-50 counter {0}: expected plies since the last capture or pawn move")]
    Rule50(String),
    /// The sixth field is malformed.
    #[error("bad FEN move number {0}: expected a number, 1 or more")]
    MoveNumber(String),
    /// There are more than six fields.
    #[error("unexpected {0} after the FEN's six fields")]
    Trailing(String),
    /// What follows the fields is not an operation of EPD.
    #[error(transparent)]
    Operation(#[from] EpdError),
    /// A side does not have exactly one king.
    #[error("{white} white and {black} black kings in FEN {fen}: expected one of each")]
    Kings {
        /// The number of white kings.
        white: usize,
        /// The number of black kings.
        black: usize,
        /// The whole FEN.
        fen: String,
    },
    /// A pawn is on the first or last rank.
    #[error("pawn on the first or last rank in FEN {0}")]
    PawnOnBackRank(String),
    /// Both kings could be taken.
    #[error("both sides are in check in FEN {0}")]
    BothInCheck(String),
}

/// The content of a FEN.
pub(super) struct ParsedFen {
    /// shakmaty's position.
    pub(super) board: Chess,
    /// The en passant square, even if no pawn can take there.
    pub(super) en_passant: Option<Square>,
    /// Plies since the last capture or pawn move.
    pub(super) rule50_ply: u16,
    /// Plies since the start of the game.
    pub(super) game_ply: u32,
    /// Whether the board has more pieces than promotions can explain.
    pub(super) excess_material: bool,
}

/// Reads a FEN. The top of this file says which FENs are accepted.
pub(super) fn parse(fen: &str) -> Result<ParsedFen, FenError> {
    match fen.trim_end().ends_with(';') {
        true => parse_fields(&Epd::parse(fen)?.fen),
        false => parse_fields(fen),
    }
}

fn parse_fields(fen: &str) -> Result<ParsedFen, FenError> {
    let mut fields = fen.split_ascii_whitespace();
    let board_text = fields.next().ok_or(FenError::Empty)?;
    let board = Board::from_ascii_board_fen(board_text.as_bytes())
        .map_err(|_| FenError::Board(quoted(board_text)))?;
    let turn = match fields.next() {
        None | Some("w" | "W") => Color::White,
        Some("b" | "B") => Color::Black,
        Some(other) => return Err(FenError::SideToMove(quoted(other))),
    };
    let castling_rights = match fields.next() {
        None | Some("-") => Bitboard::EMPTY,
        Some(text) => castling_rooks(&board, text)?,
    };
    let ep_square = match fields.next() {
        None | Some("-") => None,
        Some(text) => Some(text.parse::<Square>().map_err(|_| FenError::EnPassant(quoted(text)))?),
    };
    let halfmoves = counter(fields.next(), 0, FenError::Rule50)?;
    let fullmoves =
        NonZeroU32::new(counter(fields.next(), 1, FenError::MoveNumber)?).unwrap_or(NonZeroU32::MIN);
    if let Some(text) = fields.next() {
        return Err(FenError::Trailing(quoted(text)));
    }

    let setup = Setup { board, turn, castling_rights, ep_square, halfmoves, fullmoves, ..Setup::empty() };
    set_up(&setup, || fen.to_owned())
}

/// The content of a FEN that says what `setup` says; `fen` is for messages.
pub(super) fn set_up(setup: &Setup, fen: impl FnOnce() -> String) -> Result<ParsedFen, FenError> {
    let rule50_ply = u16::try_from(setup.halfmoves).unwrap_or(u16::MAX);
    let setup = Setup { halfmoves: u32::from(rule50_ply), ..setup.clone() };
    let moves_before = setup.fullmoves.get() - 1;
    let game_ply = moves_before.saturating_mul(2).saturating_add(u32::from(setup.turn.is_black()));
    let (board, excess_material) = lenient_board(&setup).map_err(|error| unplayable(&error, &fen()))?;
    let en_passant = board.ep_square(EnPassantMode::Always);
    Ok(ParsedFen { board, en_passant, rule50_ply, game_ply, excess_material })
}

/// The FEN of a setup, for messages.
pub(super) fn of_setup(setup: &Setup) -> String {
    Fen::try_from_setup(setup.clone()).unwrap_or_else(LossyFenError::ignore).to_string()
}

/// shakmaty's position for `setup`, and whether it has more pieces than promotions can explain.
#[expect(clippy::result_large_err, reason = "shakmaty's error holds the board; this runs once per FEN")]
fn lenient_board(setup: &Setup) -> Result<(Chess, bool), PositionError<Chess>> {
    let strict = match Chess::from_setup(setup.clone(), CastlingMode::Chess960) {
        Ok(board) => return Ok((board, false)),
        Err(error) => error,
    };
    let mut excess_material = false;
    let mut lenient = |error: PositionError<Chess>| {
        excess_material = error.kinds().contains(PositionErrorKinds::TOO_MUCH_MATERIAL);
        error
            .ignore_too_much_material()
            .or_else(PositionError::ignore_impossible_check)
            .or_else(PositionError::ignore_invalid_castling_rights)
            .or_else(PositionError::ignore_invalid_ep_square)
    };
    let board = match lenient(strict) {
        Err(error) if error.kinds() == PositionErrorKinds::OPPOSITE_CHECK => {
            // shakmaty refuses this position, but with the checked side to move it is an ordinary check. This builds
            // that position and then passes the turn with a null move: a "promotion" of the king to a king on its own
            // square, which changes no piece and no castling right. (An en passant square is lost.)
            let checked = !setup.turn;
            let king = setup.board.king_of(checked);
            let swapped = setup.clone().into_swapped_turn();
            let mut board = Chess::from_setup(swapped, CastlingMode::Chess960).or_else(lenient)?;
            if let Some(square) = king {
                board.play_unchecked(Move::Normal {
                    role: Role::Pawn,
                    from: square,
                    capture: None,
                    to: square,
                    promotion: Some(Role::King),
                });
            }
            board
        }
        other => other?,
    };
    Ok((board, excess_material))
}

/// `board` with the other side to move, without an en passant square. `None` if the side to move is in check, so that the
/// other side could take its king.
pub(super) fn passed(board: &Chess) -> Option<Chess> {
    if board.is_check() {
        return None;
    }
    let mut setup = board.to_setup(EnPassantMode::Always);
    setup.ep_square = None;
    setup.halfmoves = setup.halfmoves.saturating_add(1);
    setup.fullmoves = setup.fullmoves.saturating_add(u32::from(setup.turn.is_black()));
    lenient_board(&setup.into_swapped_turn()).ok().map(|(board, _)| board)
}

/// Writes a FEN. `en_passant` takes the place of the board's own en passant square.
pub(super) fn write(board: &Chess, en_passant: Option<Square>, rule50_ply: u16, game_ply: u32) -> String {
    let mut setup = board.to_setup(EnPassantMode::Always);
    setup.ep_square = en_passant;
    setup.halfmoves = u32::from(rule50_ply);
    setup.fullmoves = NonZeroU32::MIN.saturating_add(game_ply / 2);
    Fen::try_from_setup(setup).unwrap_or_else(LossyFenError::ignore).to_string()
}

/// The rooks that a castling field names. Letters that name no rook are ignored.
fn castling_rooks(board: &Board, text: &str) -> Result<Bitboard, FenError> {
    let mut rooks = Bitboard::EMPTY;
    for letter in text.chars() {
        let color = Color::from_white(letter.is_ascii_uppercase());
        let rank = board.by_color(color) & color.backrank();
        let candidates = rank & (board.rooks() | board.kings());
        let rook = match letter.to_ascii_lowercase() {
            'k' => candidates.last(),
            'q' => candidates.first(),
            file => {
                let file = File::from_char(file).ok_or_else(|| FenError::Castling(quoted(text)))?;
                Some(Square::from_coords(file, color.backrank()))
            }
        };
        rooks |= Bitboard::from_iter(rook) & rank & board.rooks();
    }
    Ok(rooks)
}

/// Reads the field of a counter. A missing field and `-` mean `default`.
fn counter(text: Option<&str>, default: u32, error: fn(String) -> FenError) -> Result<u32, FenError> {
    match text {
        None | Some("-") => Ok(default),
        Some(text) => text.parse().map_err(|_| error(quoted(text))),
    }
}

/// The first reason why a position cannot be played.
fn unplayable(error: &PositionError<Chess>, fen: &str) -> FenError {
    let kinds = error.kinds();
    let shown = quoted(fen.trim());
    if kinds.contains(PositionErrorKinds::PAWNS_ON_BACKRANK) {
        FenError::PawnOnBackRank(shown)
    } else if kinds.contains(PositionErrorKinds::OPPOSITE_CHECK) {
        FenError::BothInCheck(shown)
    } else {
        let board_text = fen.split_ascii_whitespace().next().unwrap_or_default();
        let count = |king| board_text.chars().filter(|&letter| letter == king).count();
        FenError::Kings { white: count('K'), black: count('k'), fen: shown }
    }
}

#[cfg(test)]
mod tests {
    use crate::Position;

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR";

    fn reread(fen: &str) -> String {
        Position::from_fen(fen).unwrap_or_else(|error| panic!("{fen}: {error}")).to_fen()
    }

    #[test]
    fn missing_fields_have_defaults() {
        let whole = format!("{START} w - - 0 1");
        for tail in ["", " w", " w -", " w - -", " w - - 0", "  w  -  - - -  "] {
            assert_eq!(reread(&format!("{START}{tail}")), whole);
        }
        assert_eq!(reread(&format!("{START} w KQkq - 0 0")), format!("{START} w KQkq - 0 1"));
    }

    #[test]
    fn operations_of_epd_may_follow() {
        for (tail, counters) in [
            ("bm e4; id \"x\";", "0 1"),
            ("0 1 bm e4;", "0 1"),
            ("hmvc 3; fmvn 7;", "3 7"),
            ("5; am d4;", "5 1"),
        ] {
            assert_eq!(reread(&format!("{START} w KQkq - {tail}")), format!("{START} w KQkq - {counters}"));
        }
        for (tail, named) in [("bm e4", "`bm`"), ("0 1 x", "`x`"), ("0 1 7;", "`7`"), ("hmvc x;", "`x`")] {
            let error = Position::from_fen(&format!("{START} w KQkq - {tail}")).expect_err(tail).to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn castling_rights_read_as_xfen_and_shredder() {
        let board = "1r3k1r/pppppppp/8/8/8/8/PPPPPPPP/1R3K1R";
        assert_eq!(reread(&format!("{board} w HBhb - 0 1")), format!("{board} w KQkq - 0 1"));
        assert_eq!(reread(&format!("{board} w KQkq - 0 1")), format!("{board} w KQkq - 0 1"));
        // With two rooks on the king's side, only a file letter can name the inner rook.
        let inner = "4k3/8/8/8/8/8/8/4KR1R w F - 0 1";
        assert_eq!(reread(inner), inner);
        assert_eq!(reread("4k3/8/8/8/8/8/8/4KR1R w K - 0 1"), "4k3/8/8/8/8/8/8/4KR1R w K - 0 1");
    }

    #[test]
    fn impossible_rights_and_squares_are_dropped() {
        assert_eq!(reread("4k3/8/8/8/8/8/4K3/7R w KQkq - 0 1"), "4k3/8/8/8/8/8/4K3/7R w - - 0 1");
        assert_eq!(reread("4k3/8/8/8/8/8/8/4K3 w - e6 0 1"), "4k3/8/8/8/8/8/8/4K3 w - - 0 1");
        assert_eq!(reread("4k3/8/8/8/8/8/8/4K3 w - e3 0 1"), "4k3/8/8/8/8/8/8/4K3 w - - 0 1");
    }

    #[test]
    fn odd_but_playable_positions_are_accepted() {
        let over_fifty = "8/5pk1/6p1/3R4/8/6P1/r4PK1/8 b - - 120 130";
        assert_eq!(reread(over_fifty), over_fifty);
        // The side that just moved left its king in check, and still has castling rights.
        let takeable = "r3k2r/8/8/8/8/8/4R3/4K3 w kq - 3 10";
        assert_eq!(reread(takeable), takeable);
        // Three checkers, and eleven queens.
        reread("4k3/8/8/8/7b/8/3r1n2/3RK2R w - - 0 1");
        reread("k7/8/8/8/QQQQQQQQ/QQQ5/8/K7 b - - 0 1");
    }

    #[test]
    fn unplayable_or_broken_fens_name_what_is_wrong() {
        let garbage = "\u{0}x".repeat(5_000_000);
        let tail = format!("{START} w KQkq - 0 1 moves");
        for (fen, expected) in [
            ("", "empty FEN"),
            ("   ", "empty FEN"),
            (garbage.as_str(), "bad FEN board `\\u{0}x"),
            ("8/8/8/8/8/8/8 w - - 0 1", "8 ranks"),
            ("9/8/8/8/8/8/8/8 w - - 0 1", "8 ranks"),
            (&format!("{START} x - - 0 1"), "side to move `x`"),
            (&format!("{START} w KQz - 0 1"), "castling rights `KQz`"),
            (&format!("{START} w KQkq e9 0 1"), "en passant square `e9`"),
            (&format!("{START} w KQkq - -1 1"), "rule-50 counter `-1`"),
            (&format!("{START} w KQkq - 0 99999999999"), "move number `99999999999`"),
            (&tail, "unexpected `moves`"),
            ("8/8/8/8/8/8/8/8 w - - 0 1", "0 white and 0 black kings"),
            ("kk6/8/8/8/8/8/8/K7 w - - 0 1", "1 white and 2 black kings"),
            ("k6P/8/8/8/8/8/8/K7 w - - 0 1", "pawn on the first or last rank"),
            ("k6R/8/8/8/8/8/8/K6r w - - 0 1", "both sides are in check"),
        ] {
            let error = Position::from_fen(fen).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.len() < 800, "{}", error.len());
        }
    }
}
