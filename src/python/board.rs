//! Boards in 40 bytes: what networks see of a position.

use rukh_chess::{Color, Position, PositionHistory, Role, Square};
use rukh_net::input::Shown;
use shakmaty::{Bitboard, Board, ByColor, ByRole, Position as _, Setup, attacks};
use std::sync::LazyLock;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The boards of a packed position, as `rukh/packed.py` and the README say; most networks see no more.
pub(crate) const BOARDS: usize = 8;

/// The value of `en_passant` without a square.
pub(crate) const NO_SQUARE: u8 = u8::MAX;
/// A flag: there is a board here.
const IS_THERE: u8 = 1;
/// A flag: Black is to move.
const BLACK_TO_MOVE: u8 = 2;
/// A flag: a castling move is that of the king to its rook, as in Chess960.
const KING_TO_ROOK: u8 = 4;

/// One board. `rukh.BOARD` in `packed.py` is its numpy type, and says what the fields mean.
#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct PackedBoard {
    squares: [u64; 4],
    pub(crate) rule50: u16,
    en_passant: u8,
    pub(crate) repetitions: u8,
    flags: u8,
    unused: [u8; 3],
}

/// The bitboards of a position, and what else a FEN says.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    /// From pawns to kings.
    pub(crate) roles: [u64; 6],
    pub(crate) black: u64,
    /// The rooks that may castle.
    pub(crate) castling: u64,
    pub(crate) en_passant: Option<Square>,
    pub(crate) rule50: u16,
    pub(crate) turn: Color,
}

impl PackedBoard {
    /// No board: the game had not begun.
    pub(crate) const NONE: PackedBoard = PackedBoard {
        squares: [0; 4],
        rule50: 0,
        en_passant: NO_SQUARE,
        repetitions: 0,
        flags: 0,
        unused: [0; 3],
    };

    pub(crate) fn new(parts: &Parts) -> PackedBoard {
        let [pawns, knights, bishops, rooks, queens, kings] = parts.roles;
        let castling = parts.castling & rooks;
        PackedBoard {
            squares: [
                pawns | bishops | queens | castling,
                knights | bishops | kings | castling,
                rooks | queens | kings,
                parts.black,
            ],
            rule50: parts.rule50,
            en_passant: parts.en_passant.map_or(NO_SQUARE, u8::from),
            repetitions: 0,
            flags: IS_THERE | if parts.turn.is_black() { BLACK_TO_MOVE } else { 0 },
            unused: [0; 3],
        }
    }

    /// That of a position, with its counters.
    pub(crate) fn of(position: &Position) -> PackedBoard {
        let board = position.board().board();
        let packed = PackedBoard::new(&Parts {
            roles: Role::ALL.map(|role| board.by_role(role).0),
            black: board.black().0,
            castling: position.board().castles().castling_rights().0,
            en_passant: position.en_passant(),
            rule50: position.rule50_ply(),
            turn: position.side_to_move(),
        });
        PackedBoard { repetitions: position.repetitions(), ..packed }
    }

    /// Drops an en passant square that no pawn attacks: a position keeps it only if it came as a FEN.
    pub(crate) fn as_played(mut self) -> PackedBoard {
        if self.en_passant != NO_SQUARE {
            let square = Square::new(u32::from(self.en_passant & 63));
            let [b0, b1, b2, black] = self.squares;
            let ours = if self.turn().is_black() { black } else { !black };
            let pawns = b0 & !b1 & !b2 & ours;
            if (attacks::pawn_attacks(!self.turn(), square) & Bitboard(pawns)).is_empty() {
                self.en_passant = NO_SQUARE;
            }
        }
        self
    }

    pub(crate) fn is_there(&self) -> bool {
        self.flags & IS_THERE != 0
    }

    pub(crate) fn turn(&self) -> Color {
        Color::from_white(self.flags & BLACK_TO_MOVE == 0)
    }

    pub(crate) fn castles_to_rook(&self) -> bool {
        self.flags & KING_TO_ROOK != 0
    }

    pub(crate) fn castling_to_rook(mut self, is_so: bool) -> PackedBoard {
        if is_so {
            self.flags |= KING_TO_ROOK;
        }
        self
    }

    /// Whether castling moves can only be written as those of the king to its rook.
    pub(crate) fn needs_king_to_rook(&self) -> bool {
        let [b0, b1, b2, _] = self.squares;
        let (castling, kings) = (b0 & b1 & b2, !b0 & b1 & b2);
        let rank = |mask: u64, rank: u32| (mask >> (8 * rank)) as u8;
        [0, 7].into_iter().any(|at| {
            let rooks = rank(castling, at);
            rooks != 0 && (rooks & !0x81 != 0 || rank(kings, at) & 0x10 == 0)
        })
    }

    /// Whether this is a repetition of `other`, as lc0 counts.
    pub(crate) fn repeats(&self, other: &PackedBoard) -> bool {
        self.squares == other.squares
            && self.en_passant == other.en_passant
            && (self.flags ^ other.flags) & BLACK_TO_MOVE == 0
    }

    /// The position on the board, without those before it.
    ///
    /// # Errors
    /// The fields contradict each other, or the position cannot be played.
    pub(crate) fn position(&self) -> Result<Position, String> {
        let [b0, b1, b2, black] = self.squares;
        let occupied = b0 | b1 | b2;
        let castling = b0 & b1 & b2;
        let role = ByRole {
            pawn: Bitboard(b0 & !b1 & !b2),
            knight: Bitboard(!b0 & b1 & !b2),
            bishop: Bitboard(b0 & b1 & !b2),
            rook: Bitboard(!b0 & !b1 & b2 | castling),
            queen: Bitboard(b0 & !b1 & b2),
            king: Bitboard(!b0 & b1 & b2),
        };
        let color = ByColor { black: Bitboard(black), white: Bitboard(occupied & !black) };
        let board = Board::try_from_bitboards(role, color)
            .map_err(|_| "a packed board has a colour without a piece".to_owned())?;
        if self.en_passant != NO_SQUARE && self.en_passant > 63 {
            return Err(format!("a packed board has the en passant square {}", self.en_passant));
        }
        let setup = Setup {
            board,
            turn: self.turn(),
            castling_rights: Bitboard(castling),
            ep_square: (self.en_passant != NO_SQUARE).then(|| Square::new(u32::from(self.en_passant))),
            halfmoves: u32::from(self.rule50),
            ..Setup::empty()
        };
        Position::from_setup(&setup, self.repetitions).map_err(|error| error.to_string())
    }
}

impl Shown for PackedBoard {
    #[inline]
    fn pieces(&self, role: Role, color: Color) -> Bitboard {
        let [b0, b1, b2, black] = self.squares;
        let pieces = match role {
            Role::Pawn => b0 & !b1 & !b2,
            Role::Knight => !b0 & b1 & !b2,
            Role::Bishop => b0 & b1 & !b2,
            Role::Rook => b2 & !(b0 ^ b1),
            Role::Queen => b0 & !b1 & b2,
            Role::King => !b0 & b1 & b2,
        };
        Bitboard(pieces & if color.is_black() { black } else { !black })
    }

    fn rights(&self) -> u8 {
        let [b0, b1, b2, black] = self.squares;
        let mut rights = 0;
        for color in Color::ALL {
            let rooks = b0 & b1 & b2 & if color.is_black() { black } else { !black };
            let below_king = self.pieces(Role::King, color).0.wrapping_sub(1);
            rights =
                rights << 2 | u8::from(rooks & below_king != 0) << 1 | u8::from(rooks & !below_king != 0);
        }
        rights
    }

    fn en_passant(&self) -> Option<Square> {
        (self.en_passant < 64).then(|| Square::new(u32::from(self.en_passant)))
    }

    fn side_to_move(&self) -> Color {
        self.turn()
    }

    fn rule50_ply(&self) -> u16 {
        self.rule50
    }

    fn repetitions(&self) -> u8 {
        self.repetitions
    }

    fn is_standard_start(&self) -> bool {
        static START: LazyLock<PackedBoard> = LazyLock::new(|| PackedBoard::of(&Position::startpos()));
        self.squares == START.squares && self.turn().is_white()
    }
}

/// Boards, newest first, up to the first that is not there, as the oldest first.
///
/// # Errors
/// There is no board.
pub(crate) fn oldest_first<'a>(
    boards: &[PackedBoard],
    ordered: &'a mut Vec<PackedBoard>,
) -> Result<&'a [PackedBoard], String> {
    let count = boards.iter().take_while(|board| board.is_there()).count();
    ordered.clear();
    ordered.extend(boards[..count].iter().rev());
    match count {
        0 => Err("a packed position has no board".to_owned()),
        _ => Ok(ordered),
    }
}

/// The history of boards, oldest first.
///
/// # Errors
/// There is no board, or a position cannot be played.
pub(crate) fn history(boards: &[PackedBoard]) -> Result<PositionHistory, String> {
    let positions = boards.iter().map(PackedBoard::position).collect::<Result<Vec<_>, _>>()?;
    PositionHistory::of(positions).ok_or_else(|| "a packed position has no board".to_owned())
}
