//! The record of one labelled position: 296 bytes, little endian.
//!
//! Everything is seen from the side to move: for Black the board is flipped vertically (files are never
//! mirrored), as lc0's networks see it.
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0 | u64 | occupied squares: bit `rank * 8 + file`, a1 = 0, the side to move at the bottom |
//! | 8 | 16 bytes | their pieces in the order of the bits, low nibble first: 0…5 = P N B R Q K, + 8 when theirs |
//! | 24 | 4 × u8 | file of the rook that can still castle, or 255: our king side, our queen side, theirs |
//! | 28 | u8 | plies since the last capture or pawn move, at most 100 |
//! | 29 | u8 | file of a pawn that can be taken en passant (legally), or 255 |
//! | 30 | u8 | result of the game for the side to move: 0 loss, 1 draw, 2 win, 255 unknown |
//! | 31 | u8 | flags: [`FLAG_CHESS960`], [`FLAG_NO_END`], [`FLAG_SOFT`] |
//! | 32 | u16 | plies to the end of the game; means nothing with [`FLAG_NO_END`] |
//! | 34 | i16 | score in centipawns; mate in n moves is ±(32000 - n) |
//! | 36 | u16 | win, permille |
//! | 38 | u16 | loss, permille |
//! | 40 | u8 | labelled moves, 1…4 |
//! | 41 | u8 | 0 |
//! | 42 | u32 | number of the game |
//! | 46 | 4 × u16 | labelled moves, best first: lc0's policy index, unused ones 65535 |
//! | 54 | 4 × i16 | their scores, as at 34 |
//! | 62 | u16 | bits 0 and 1: whether policy index 1856 and 1857 are legal |
//! | 64 | 232 bytes | whether each policy index below 1856 is legal: bit `i % 8` of byte `i / 8` |
//!
//! Castling is the move of the king to its own rook's square, in every kind of chess.

use rukh::chess::{Color, PackedMove, Position, Role, Square};
use rukh::net::policy_index::{POLICY_SIZE, index_of};
use shakmaty::{
    Bitboard, Board, CastlingMode, CastlingSide, Chess, EnPassantMode, File, Position as _, Rank, Setup,
};
use std::hash::{DefaultHasher, Hasher};

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 296;
/// How many labelled moves a record has room for.
pub(crate) const MAX_MOVES: usize = 4;
/// Score of a mate in no moves.
pub(crate) const MATE_SCORE: i16 = 32000;
/// The largest score that is no mate.
pub(crate) const MAX_CENTIPAWNS: i16 = 30000;
/// The largest counter stored.
const MAX_RULE50: u16 = 100;
/// No file, no result.
const NONE: u8 = 255;

/// The game began from a Chess960 position.
pub(crate) const FLAG_CHESS960: u8 = 1;
/// The game was adjudicated or broken off: where it would have ended is unknown.
pub(crate) const FLAG_NO_END: u8 = 2;
/// More than one move is labelled.
pub(crate) const FLAG_SOFT: u8 = 4;

/// Piece codes 0…5.
const ROLES: [Role; 6] = [Role::Pawn, Role::Knight, Role::Bishop, Role::Rook, Role::Queen, Role::King];

/// What a search says about a position, from the view of the side to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    /// Centipawns, or mate as the record has it.
    pub(crate) score: i16,
    /// Permille.
    pub(crate) win: u16,
    /// Permille.
    pub(crate) loss: u16,
    /// Policy index and score of 1…4 moves, best first.
    pub(crate) moves: Vec<(u16, i16)>,
}

/// How a game ended for the side to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The values are the record's.
    Loss = 0,
    /// A draw of any kind.
    Draw = 1,
    /// See above.
    Win = 2,
    /// Broken off, or decided by a later blunder.
    Unknown = 255,
}

/// The bytes of one record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record(pub(crate) [u8; RECORD_BYTES]);

impl Record {
    /// A record of the position alone: no label, no result.
    pub(crate) fn of_position(position: &Position, chess960: bool) -> Record {
        let mut record = Record([0; RECORD_BYTES]);
        let chess = position.board();
        let us = chess.turn();
        let board = chess.board();
        let occupied = seen_by(us, board.occupied());
        record.put(0, &occupied.0.to_le_bytes());
        for (nth, square) in occupied.into_iter().enumerate() {
            let Some(piece) = board.piece_at(seen_square(us, square)) else { continue };
            let code = role_code(piece.role) | if piece.color == us { 0 } else { 8 };
            record.0[8 + nth / 2] |= code << (nth % 2 * 4);
        }
        let rooks = castling_rights().map(|(ours, side)| {
            let color = if ours { us } else { !us };
            chess.castles().rook(color, side).map_or(NONE, |square| square.file() as u8)
        });
        record.put(24, &rooks);
        record.0[28] = position.rule50_ply().min(MAX_RULE50) as u8;
        record.0[29] = chess.ep_square(EnPassantMode::Legal).map_or(NONE, |square| square.file() as u8);
        record.0[30] = Outcome::Unknown as u8;
        record.0[31] = FLAG_NO_END | if chess960 { FLAG_CHESS960 } else { 0 };
        for m in position.legal_moves() {
            record.allow(index_of(PackedMove::new(m), us, 0));
        }
        record
    }

    /// Writes a search's findings down.
    pub(crate) fn set_label(&mut self, label: &Label) {
        self.put(34, &label.score.to_le_bytes());
        self.put(36, &label.win.to_le_bytes());
        self.put(38, &label.loss.to_le_bytes());
        let count = label.moves.len().min(MAX_MOVES);
        self.0[40] = count as u8;
        if count > 1 {
            self.0[31] |= FLAG_SOFT;
        }
        for nth in 0..MAX_MOVES {
            let (index, score) = label.moves.get(nth).copied().unwrap_or((u16::MAX, 0));
            self.put(46 + 2 * nth, &index.to_le_bytes());
            self.put(54 + 2 * nth, &score.to_le_bytes());
        }
    }

    /// The number by which records of one game are known to belong together.
    pub(crate) fn set_game(&mut self, number: u32) {
        self.put(42, &number.to_le_bytes());
    }

    /// How the game went on; `plies_to_end` is `None` where it was not played to its end.
    pub(crate) fn set_end(&mut self, outcome: Outcome, plies_to_end: Option<usize>) {
        self.0[30] = outcome as u8;
        if let Some(plies) = plies_to_end {
            self.0[31] &= !FLAG_NO_END;
            self.put(32, &u16::try_from(plies).unwrap_or(u16::MAX).to_le_bytes());
        }
    }

    /// Equal for equal positions, whatever their rule-50 counter.
    pub(crate) fn position_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0[..28]);
        hasher.write_u8(self.0[29]);
        hasher.finish()
    }

    /// The flags.
    pub(crate) fn flags(&self) -> u8 {
        self.0[31]
    }

    /// The outcome.
    ///
    /// # Errors
    /// A text with the byte that is none.
    pub(crate) fn outcome(&self) -> Result<Outcome, String> {
        match self.0[30] {
            0 => Ok(Outcome::Loss),
            1 => Ok(Outcome::Draw),
            2 => Ok(Outcome::Win),
            NONE => Ok(Outcome::Unknown),
            other => Err(format!("result {other}, expected 0, 1, 2 or 255")),
        }
    }

    /// Plies to the end; `None` where that is unknown.
    pub(crate) fn plies_to_end(&self) -> Option<u16> {
        (self.flags() & FLAG_NO_END == 0).then(|| self.u16_at(32))
    }

    /// The game's number.
    pub(crate) fn game(&self) -> u32 {
        u32::from(self.u16_at(42)) | u32::from(self.u16_at(44)) << 16
    }

    /// The label.
    ///
    /// # Errors
    /// A text saying which field cannot be.
    pub(crate) fn label(&self) -> Result<Label, String> {
        let count = usize::from(self.0[40]);
        if !(1..=MAX_MOVES).contains(&count) {
            return Err(format!("{count} labelled moves, expected 1 to {MAX_MOVES}"));
        }
        if (count > 1) != (self.flags() & FLAG_SOFT != 0) {
            return Err(format!("{count} labelled moves with flags {}", self.flags()));
        }
        let moves: Vec<(u16, i16)> =
            (0..count).map(|nth| (self.u16_at(46 + 2 * nth), self.u16_at(54 + 2 * nth) as i16)).collect();
        if let Some((index, _)) = moves.iter().find(|(index, _)| !self.allows(*index)) {
            return Err(format!("labelled move {index} is not legal"));
        }
        if (count..MAX_MOVES).any(|nth| self.u16_at(46 + 2 * nth) != u16::MAX) {
            return Err("an unused labelled move is not 65535".to_owned());
        }
        let (win, loss) = (self.u16_at(36), self.u16_at(38));
        if win > 1000 || loss > 1000 || win + loss > 1000 {
            return Err(format!("win {win} and loss {loss} permille"));
        }
        Ok(Label { score: self.u16_at(34) as i16, win, loss, moves })
    }

    /// The position with the side to move as White; its legal moves must be the record's.
    ///
    /// # Errors
    /// A text saying why there is no such position, or which move differs.
    pub(crate) fn board(&self) -> Result<Chess, String> {
        let mut bits = [0; 8];
        bits.copy_from_slice(&self.0[..8]);
        let occupied = Bitboard(u64::from_le_bytes(bits));
        if occupied.count() > 32 {
            return Err(format!("{} pieces", occupied.count()));
        }
        let mut board = Board::empty();
        for (nth, square) in occupied.into_iter().enumerate() {
            let code = self.0[8 + nth / 2] >> (nth % 2 * 4) & 15;
            let role = ROLES.get(usize::from(code & 7)).ok_or_else(|| format!("piece code {code}"))?;
            board.set_piece_at(square, role.of(Color::from_white(code < 8)));
        }
        let mut castling = Bitboard::EMPTY;
        for (&file, (ours, _)) in self.0[24..28].iter().zip(castling_rights()) {
            if file != NONE {
                let file = file_of(file)?;
                castling.add(Square::from_coords(file, if ours { Rank::First } else { Rank::Eighth }));
            }
        }
        let en_passant = match self.0[29] {
            NONE => None,
            file => Some(Square::from_coords(file_of(file)?, Rank::Sixth)),
        };
        let setup = Setup {
            board,
            turn: Color::White,
            castling_rights: castling,
            ep_square: en_passant,
            halfmoves: self.0[28].into(),
            ..Setup::empty()
        };
        let chess: Chess = setup.position(CastlingMode::Chess960).map_err(|error| error.to_string())?;
        if chess.ep_square(EnPassantMode::Legal) != en_passant {
            return Err(format!("en passant file {} where no pawn can be taken", self.0[29]));
        }
        let mut legal = Record([0; RECORD_BYTES]);
        for m in chess.legal_moves() {
            legal.allow(index_of(PackedMove::new(m), Color::White, 0));
        }
        if let Some(index) = (0..POLICY_SIZE as u16).find(|&i| legal.allows(i) != self.allows(i)) {
            return Err(format!("policy index {index} is legal in one of the board and the mask only"));
        }
        Ok(chess)
    }

    /// Whether the mask has a policy index.
    pub(crate) fn allows(&self, index: u16) -> bool {
        usize::from(index) < POLICY_SIZE && {
            let (byte, bit) = mask_place(index);
            self.0[byte] >> bit & 1 == 1
        }
    }

    fn allow(&mut self, index: u16) {
        let (byte, bit) = mask_place(index);
        self.0[byte] |= 1 << bit;
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn u16_at(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.0[offset], self.0[offset + 1]])
    }
}

/// Byte and bit of a policy index in the record.
fn mask_place(index: u16) -> (usize, u16) {
    let byte = if index < 1856 { 64 + usize::from(index / 8) } else { 62 };
    (byte, index % 8)
}

/// In the record's order: whether the right is that of the side to move, and its side.
fn castling_rights() -> [(bool, CastlingSide); 4] {
    use CastlingSide::{KingSide, QueenSide};
    [(true, KingSide), (true, QueenSide), (false, KingSide), (false, QueenSide)]
}

fn role_code(role: Role) -> u8 {
    ROLES.iter().position(|&other| other == role).unwrap_or(0) as u8
}

fn file_of(file: u8) -> Result<File, String> {
    File::ALL.get(usize::from(file)).copied().ok_or_else(|| format!("file {file}"))
}

fn seen_by(us: Color, squares: Bitboard) -> Bitboard {
    if us.is_white() { squares } else { squares.flip_vertical() }
}

fn seen_square(us: Color, square: Square) -> Square {
    if us.is_white() { square } else { square.flip_vertical() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh::chess::uci_move;

    fn position(fen: &str) -> Position {
        Position::from_fen(fen).expect("test FEN")
    }

    fn labelled(fen: &str, moves: &[(&str, i16)]) -> Record {
        let position = position(fen);
        let mut record = Record::of_position(&position, false);
        let moves = moves
            .iter()
            .map(|&(text, score)| {
                let m = uci_move::parse(&position, text).expect("test move");
                (index_of(PackedMove::new(m), position.side_to_move(), 0), score)
            })
            .collect();
        record.set_label(&Label { score: -31995, win: 1, loss: 990, moves });
        record
    }

    /// Positions with both colours to move, castling on all sides, Chess960 rooks, en passant, promotions.
    const POSITIONS: [&str; 9] = [
        "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 7 10",
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w Kq - 0 1",
        "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
        "rnbqkbnr/pp1ppppp/8/8/2pPP3/8/PPP2PPP/RNBQKBNR b KQkq d3 0 3",
        "1n1b3k/P1P2PPp/8/8/8/8/p1p3pp/2K1N1R1 b - - 12 40",
        "1n1b2k1/P1P3Pp/8/8/8/8/p1p3pp/2K1N1R1 w - - 100 40",
        "1rk1r3/8/8/8/8/8/8/R1K1R3 w EAeb - 3 30",
        "1rk1r3/8/8/8/8/8/8/R1K1R3 b EAeb - 3 30",
    ];

    /// The board as the side to move sees it, by shakmaty's own mirroring.
    fn as_white(position: &Position) -> Chess {
        let mut setup = position.board().to_setup(EnPassantMode::Legal);
        if setup.turn.is_black() {
            setup.mirror();
        }
        setup.position(CastlingMode::Chess960).expect("mirrored position")
    }

    #[test]
    fn boards_come_back_with_castling_and_en_passant() {
        for fen in POSITIONS {
            let position = position(fen);
            let record = Record::of_position(&position, false);
            let decoded = record.board().unwrap_or_else(|error| panic!("{fen}: {error}"));
            let expected = as_white(&position);
            assert_eq!(decoded.board(), expected.board(), "{fen}");
            assert_eq!(decoded.castles().castling_rights(), expected.castles().castling_rights(), "{fen}");
            assert_eq!(decoded.legal_moves(), expected.legal_moves(), "{fen}");
            assert_eq!(decoded.halfmoves(), u32::from(position.rule50_ply()), "{fen}");
        }
    }

    #[test]
    fn bytes_of_a_known_position_are_where_the_format_says() {
        let record = Record::of_position(&position("4k2r/8/8/8/8/8/P7/4K3 b k - 5 9"), true);
        // From Black's view: king e1, rook h1, their pawn a7, their king e8.
        assert_eq!(record.0[..8], (1_u64 << 4 | 1 << 7 | 1 << 48 | 1 << 60).to_le_bytes());
        assert_eq!(record.0[8..10], [0x35, 0xd8]);
        assert_eq!(record.0[24..32], [7, 255, 255, 255, 5, 255, 255, FLAG_CHESS960 | FLAG_NO_END]);
        // lc0's policy index 0 is a1b1, which no piece can play here; e1h1 castles.
        assert!(!record.allows(0));
        let castles = index_of(PackedMove::from_squares(Square::E1, Square::H1, None), Color::White, 0);
        assert!(record.allows(castles));
    }

    #[test]
    fn the_mask_holds_every_legal_move_and_no_other() {
        for fen in POSITIONS {
            let position = position(fen);
            let record = Record::of_position(&position, false);
            let moves = position.legal_moves();
            let count = (0..POLICY_SIZE as u16).filter(|&index| record.allows(index)).count();
            assert_eq!(count, moves.len(), "{fen}");
            for m in moves {
                assert!(
                    record.allows(index_of(PackedMove::new(m), position.side_to_move(), 0)),
                    "{fen} {m:?}"
                );
            }
        }
    }

    #[test]
    fn the_last_two_policy_indexes_have_their_own_place() {
        // h7xg8 and h7-h8 as rook and bishop are among the last policy indexes.
        let record = Record::of_position(&position("6n1/k6P/8/8/8/8/8/K7 w - - 0 1"), false);
        assert!(record.allows(1856) && record.allows(1857));
        assert_eq!(record.0[62..64], [3, 0]);
        assert!(record.board().is_ok());
    }

    #[test]
    fn labels_and_results_come_back() {
        let fen = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 7 10";
        let mut record = labelled(fen, &[("e8h8", -20), ("e8a8", -25), ("h3g2", -31995)]);
        record.set_game(0x8765_4321);
        assert_eq!(record.plies_to_end(), None);
        record.set_end(Outcome::Loss, Some(70_000));
        let label = record.label().expect("a good label");
        assert_eq!((label.score, label.win, label.loss, label.moves.len()), (-31995, 1, 990, 3));
        assert_eq!(label.moves[2].1, -31995);
        assert_eq!(record.flags(), FLAG_SOFT);
        assert_eq!(record.outcome(), Ok(Outcome::Loss));
        assert_eq!((record.game(), record.plies_to_end()), (0x8765_4321, Some(u16::MAX)));
    }

    #[test]
    fn damaged_records_are_noticed() {
        let good = labelled(POSITIONS[0], &[("e2e4", 30)]);
        assert!(good.board().is_ok() && good.label().is_ok());
        // Each damage names a byte and its new value.
        for (byte, value) in [(0, 0xfe), (8, 0x33), (24, 6), (29, 4), (63, 0), (100, 0xff)] {
            let mut bad = good.clone();
            bad.0[byte] = value;
            assert_eq!(bad.board().is_ok(), bad == good, "byte {byte}");
        }
        for (byte, value) in [(37, 4), (40, 0), (40, 2), (40, 5), (46, 0), (50, 0)] {
            let mut bad = good.clone();
            bad.0[byte] = value;
            assert!(bad.label().is_err(), "byte {byte}");
        }
    }

    #[test]
    fn only_the_counter_does_not_make_positions_differ() {
        let hash = |fen: &str| Record::of_position(&position(fen), false).position_hash();
        let first = hash("4k2r/8/8/8/8/8/8/4K3 w k - 0 1");
        assert_eq!(first, hash("4k2r/8/8/8/8/8/8/4K3 w k - 40 90"));
        assert_ne!(first, hash("4k2r/8/8/8/8/8/8/4K3 w - - 0 1"));
        assert_ne!(first, hash("4k2r/8/8/8/8/8/8/4K3 b k - 0 1"));
    }
}
