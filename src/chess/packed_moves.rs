//! Generates legal moves in packed form, in the same order as shakmaty.
//!
//! A move in shakmaty's list also holds the moving and the captured piece. Looking these up and dropping them again
//! takes longer than generating the moves. So this module generates the ordinary moves itself, with shakmaty's board
//! and attack tables and in its order. It leaves castling, en passant, and positions with more material than
//! a game can have to shakmaty.

use super::{Color, PackedMove, Position, Role, Square};
use shakmaty::{Bitboard, Board, CastlingSide, Position as _, attacks};

/// The roles that a pawn can be promoted to, in shakmaty's order.
const PROMOTIONS: [Role; 4] = [Role::Queen, Role::Rook, Role::Bishop, Role::Knight];
const FILE_A: u64 = 0x0101_0101_0101_0101;
const BACK_RANKS: u64 = 0xFF00_0000_0000_00FF;
/// The length of the list that is being filled. An index of eight bits needs no bounds check, and no position without
/// excess material has so many moves.
const CAPACITY: usize = 256;

impl Position {
    /// Replaces the contents of `moves` with the moves of [`Position::legal_moves`], in the same order.
    pub fn packed_moves(&self, moves: &mut Vec<PackedMove>) {
        moves.clear();
        let chess = self.board();
        let (board, turn) = (chess.board(), chess.turn());
        let Some(king) = board.king_of(turn) else { return };
        if self.has_excess_material() {
            moves.extend(self.legal_moves().iter().map(|&m| PackedMove::new(m)));
            return;
        }
        moves.extend_from_slice(&[PackedMove::default(); CAPACITY]);
        let Some(places) = moves.first_chunk_mut() else { return };
        let us = board.by_color(turn);
        let pinned = us & between_king_and_sliders(board, turn, king);
        let mut list = List { board, turn, us, king, pinned, places, count: 0 };
        if chess.maybe_ep_square().is_some() {
            chess.en_passant_moves().iter().for_each(|&m| list.push(PackedMove::new(m)));
        }
        let checkers = board.attacks_to(king, !turn, board.occupied());
        if checkers.is_empty() {
            list.add_pieces(!us);
            list.add_king(!us);
            for side in CastlingSide::ALL {
                let is_open = (chess.castles().path(turn, side) & board.occupied()).is_empty();
                if is_open && chess.castles().has(turn, side) {
                    chess.castling_moves(side).iter().for_each(|&m| list.push(PackedMove::new(m)));
                }
            }
        } else {
            // The king cannot escape a checking slider along the slider's own line.
            let lines = (checkers & board.sliders()).into_iter();
            let lines =
                lines.fold(Bitboard::EMPTY, |all, slider| all | (attacks::ray(slider, king) ^ slider));
            list.add_king(!us & !lines);
            if let Some(checker) = checkers.single_square() {
                list.add_pieces(attacks::between(king, checker).with(checker));
            }
        }
        let count = list.count;
        moves.truncate(count);
    }
}

/// The pieces of either color that are the only piece between the king of `turn` and an enemy slider.
fn between_king_and_sliders(board: &Board, turn: Color, king: Square) -> Bitboard {
    let sliders = (attacks::rook_attacks(king, Bitboard::EMPTY) & board.rooks_and_queens())
        | (attacks::bishop_attacks(king, Bitboard::EMPTY) & board.bishops_and_queens());
    (sliders & board.by_color(!turn)).into_iter().fold(Bitboard::EMPTY, |all, slider| {
        let between = attacks::between(king, slider) & board.occupied();
        if between.more_than_one() { all } else { all | between }
    })
}

/// The list being filled, with the parts of the position that the generators read.
struct List<'a> {
    board: &'a Board,
    turn: Color,
    us: Bitboard,
    king: Square,
    /// The pieces of the side to move that may move only along their line through the king.
    pinned: Bitboard,
    places: &'a mut [PackedMove; CAPACITY],
    /// The number of moves so far.
    count: usize,
}

impl List<'_> {
    #[inline]
    fn push(&mut self, m: PackedMove) {
        self.places[self.count % CAPACITY] = m;
        self.count += 1;
    }

    /// Adds the moves from a square to the squares `targets`.
    #[inline]
    fn push_all(&mut self, from: Square, targets: Bitboard) {
        let mut count = self.count;
        targets.for_each(|to| {
            self.places[count % CAPACITY] = PackedMove::from_squares(from, to, None);
            count += 1;
        });
        self.count = count;
    }

    /// Adds the moves to the squares `targets`, of all pieces except the king.
    fn add_pieces(&mut self, targets: Bitboard) {
        let (board, occupied) = (self.board, self.board.occupied());
        self.add_pawns(targets);
        self.add_from(board.knights(), targets, attacks::knight_attacks);
        self.add_from(board.bishops(), targets, |from| attacks::bishop_attacks(from, occupied));
        self.add_from(board.rooks(), targets, |from| attacks::rook_attacks(from, occupied));
        self.add_from(board.queens(), targets, |from| attacks::queen_attacks(from, occupied));
    }

    #[inline]
    fn add_from(&mut self, pieces: Bitboard, targets: Bitboard, attacks_from: impl Fn(Square) -> Bitboard) {
        (pieces & self.us).for_each(|from| {
            let mut targets = attacks_from(from) & targets;
            if self.pinned.contains(from) {
                targets &= attacks::ray(self.king, from);
            }
            self.push_all(from, targets);
        });
    }

    fn add_pawns(&mut self, targets: Bitboard) {
        let (targets, empty) = (u64::from(targets), !u64::from(self.board.occupied()));
        let pawns = u64::from(self.board.pawns() & self.us);
        let captured = targets & u64::from(self.board.by_color(!self.turn));
        // Target squares of captures towards the A file and towards the H file, of single steps and of double steps.
        let (west, east, step, double_step, forward) = match self.turn {
            Color::White => {
                let step = pawns << 8 & empty;
                ((pawns & !FILE_A) << 7, pawns << 9 & !FILE_A, step, (step & 0x00FF_0000) << 8, 8)
            }
            Color::Black => {
                let step = pawns >> 8 & empty;
                ((pawns & !FILE_A) >> 9, pawns >> 7 & !FILE_A, step, (step & 0x0000_FF00_0000_0000) >> 8, -8)
            }
        };
        for (to, offset) in
            [(west & captured, forward - 1), (east & captured, forward + 1), (step & targets, forward)]
        {
            self.add_pawns_to(to & !BACK_RANKS, offset, &[None]);
            if to & BACK_RANKS != 0 {
                self.add_pawns_to(to & BACK_RANKS, offset, &PROMOTIONS.map(Some));
            }
        }
        self.add_pawns_to(double_step & empty & targets, 2 * forward, &[None]);
    }

    /// Adds the pawn moves to the squares `to` from the squares `to - offset`.
    #[inline]
    fn add_pawns_to(&mut self, to: u64, offset: i32, promotions: &[Option<Role>]) {
        Bitboard(to).for_each(|to| {
            let Some(from) = to.offset(-offset) else { return };
            if !self.pinned.contains(from) || attacks::aligned(from, to, self.king) {
                promotions.iter().for_each(|&role| self.push(PackedMove::from_squares(from, to, role)));
            }
        });
    }

    /// Adds the king's moves to those `targets` that are not attacked.
    fn add_king(&mut self, targets: Bitboard) {
        let (board, king) = (self.board, self.king);
        (attacks::king_attacks(king) & targets).for_each(|to| {
            if board.attacks_to(to, !self.turn, board.occupied()).is_empty() {
                self.push(PackedMove::from_squares(king, to, None));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the moves of all positions up to `depth` plies ahead.
    fn check(position: &Position, depth: u32, packed: &mut Vec<PackedMove>) {
        let moves = position.legal_moves();
        position.packed_moves(packed);
        let expected: Vec<PackedMove> = moves.iter().map(|&m| PackedMove::new(m)).collect();
        assert_eq!(*packed, expected, "{}", position.to_fen());
        if depth > 0 {
            moves.iter().for_each(|&m| check(&position.play(m), depth - 1, packed));
        }
    }

    #[test]
    fn moves_and_their_order_are_shakmatys() {
        for fen in [
            "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
            "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
            "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8",
            // En passant with a pin along the rank, and as an answer to a check.
            "8/3p4/8/r3P2K/8/8/8/4k3 b - - 0 1",
            "8/8/8/2k5/3Pp3/8/8/4K3 b - d3 0 1",
            // A double check, and castling in Chess960.
            "4k3/8/4r3/8/8/3n4/8/4K3 w - - 0 1",
            "1rk2r2/8/8/8/8/8/8/1RK2R2 w BFbf - 0 1",
            // More material than a game can have, and a king that can be taken.
            "QQQQQQQk/Q6Q/Q6Q/Q6Q/Q6Q/Q6Q/Q6Q/KQQQQQQQ w - - 0 1",
            "4k2r/8/8/8/8/8/4R3/4K3 w k - 0 1",
        ] {
            check(&Position::from_fen(fen).expect("test FEN"), 2, &mut Vec::new());
        }
    }
}
