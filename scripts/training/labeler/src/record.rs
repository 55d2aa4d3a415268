//! Writes the record of a labelled position, and reads it back. [`crate::layout`] describes the bytes.

use crate::layout::{
    CASTLING, EN_PASSANT, FLAG_CHESS960, FLAG_NO_END, FLAG_SOFT, FLAGS, GAME, LABELS, LEGAL, LEGAL_TAIL,
    LOSS, MAX_MOVES, MOVES, OCCUPIED, PIECES, PLIES_LEFT, RECORD_BYTES, RESULT, RULE50, SCORE, SCORES, WIN,
};
use rukh_chess::{Color, PackedMove, Position, Role, Square};
use rukh_net::policy_index::{POLICY_SIZE, index_of};
use shakmaty::{
    Bitboard, Board, CastlingMode, CastlingSide, Chess, EnPassantMode, File, Position as _, Rank, Setup,
};
use std::hash::{DefaultHasher, Hasher};

/// The largest `rule50` that is stored.
const MAX_RULE50: u16 = 100;
/// Means "no file" in a field that holds a file, and "unknown" in `result`.
const NONE: u8 = 255;

/// The roles in the order of their codes.
const ROLES: [Role; 6] = [Role::Pawn, Role::Knight, Role::Bishop, Role::Rook, Role::Queen, Role::King];

/// The result of a search of a position, from the view of the side to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Centipawns; a mate in n moves is ±(32000 - n).
    pub score: i16,
    /// Probability of a win, permille.
    pub win: u16,
    /// Probability of a loss, permille.
    pub loss: u16,
    /// Policy index and score of 1…4 moves, best first.
    pub moves: Vec<(u16, i16)>,
}

/// How a game ended for the side to move. The values are those of the field `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The side to move lost.
    Loss = 0,
    /// The game was drawn, by whatever rule.
    Draw = 1,
    /// The side to move won.
    Win = 2,
    /// The game was broken off, a later blunder decided it, or the position is in a side line.
    Unknown = 255,
}

/// What a record says beside its position, as its fields hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) result: u8,
    pub(crate) flags: u8,
    pub(crate) plies_left: u16,
    pub(crate) score: i16,
    pub(crate) win: u16,
    pub(crate) loss: u16,
    pub(crate) labels: u8,
    pub(crate) moves: [u16; MAX_MOVES],
    pub(crate) scores: [i16; MAX_MOVES],
}

impl Default for Numbers {
    /// Those of a record without a label and a result.
    fn default() -> Numbers {
        Numbers {
            result: Outcome::Unknown as u8,
            flags: FLAG_NO_END,
            plies_left: 0,
            score: 0,
            win: 0,
            loss: 0,
            labels: 0,
            moves: [u16::MAX; MAX_MOVES],
            scores: [0; MAX_MOVES],
        }
    }
}

/// The bytes of a record that hold its board: pieces, castling, `rule50` and en passant.
pub(crate) const BOARD_BYTES: usize = RESULT.offset;

/// The bytes of one record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record([u8; RECORD_BYTES]);

impl Record {
    /// A record with these bytes. They may be damaged; [`Record::board`] and [`Record::label`] check them.
    pub fn from_bytes(bytes: [u8; RECORD_BYTES]) -> Record {
        Record(bytes)
    }

    /// The bytes as a file holds them.
    pub fn bytes(&self) -> &[u8; RECORD_BYTES] {
        &self.0
    }

    /// A record of the position without a label or a result.
    pub fn of_position(position: &Position, chess960: bool) -> Record {
        Record::of_board(position.board(), position.rule50_ply(), chess960)
    }

    /// [`Record::of_position`] of a board, with `rule50` plies since the last capture or pawn move.
    pub(crate) fn of_board(chess: &Chess, rule50: u16, chess960: bool) -> Record {
        let mut record = Record([0; RECORD_BYTES]);
        let us = chess.turn();
        let board = chess.board();
        let occupied = seen_by(us, board.occupied());
        record.put(OCCUPIED.offset, &occupied.0.to_le_bytes());
        for (nth, square) in occupied.into_iter().enumerate() {
            let Some(piece) = board.piece_at(seen_square(us, square)) else { continue };
            let code = role_code(piece.role) | if piece.color == us { 0 } else { 8 };
            record.0[PIECES.offset + nth / 2] |= code << (nth % 2 * 4);
        }
        let rooks = castling_rights().map(|(ours, side)| {
            let color = if ours { us } else { !us };
            chess.castles().rook(color, side).map_or(NONE, |square| square.file() as u8)
        });
        record.put(CASTLING.offset, &rooks);
        record.0[RULE50.offset] = rule50.min(MAX_RULE50) as u8;
        record.0[EN_PASSANT.offset] =
            chess.ep_square(EnPassantMode::Legal).map_or(NONE, |square| square.file() as u8);
        record.0[RESULT.offset] = Outcome::Unknown as u8;
        record.0[FLAGS.offset] = FLAG_NO_END | if chess960 { FLAG_CHESS960 } else { 0 };
        record.allow_legal(chess);
        record
    }

    /// Stores the result of a search.
    pub fn set_label(&mut self, label: &Label) {
        self.put(SCORE.offset, &label.score.to_le_bytes());
        self.put(WIN.offset, &label.win.to_le_bytes());
        self.put(LOSS.offset, &label.loss.to_le_bytes());
        let count = label.moves.len().min(MAX_MOVES);
        self.0[LABELS.offset] = count as u8;
        if count > 1 {
            self.0[FLAGS.offset] |= FLAG_SOFT;
        }
        for nth in 0..MAX_MOVES {
            let (index, score) = label.moves.get(nth).copied().unwrap_or((u16::MAX, 0));
            self.put(MOVES.offset + 2 * nth, &index.to_le_bytes());
            self.put(SCORES.offset + 2 * nth, &score.to_le_bytes());
        }
    }

    /// Stores the number of the game, which all of its records share.
    pub fn set_game(&mut self, number: u32) {
        self.put(GAME.offset, &number.to_le_bytes());
    }

    /// Stores how the game ended; `plies_to_end` is `None` if it was not played to its end.
    pub fn set_end(&mut self, outcome: Outcome, plies_to_end: Option<usize>) {
        self.0[RESULT.offset] = outcome as u8;
        if let Some(plies) = plies_to_end {
            self.0[FLAGS.offset] &= !FLAG_NO_END;
            self.put(PLIES_LEFT.offset, &u16::try_from(plies).unwrap_or(u16::MAX).to_le_bytes());
        }
    }

    /// A hash of the position without its rule-50 counter.
    pub fn position_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0[..RULE50.offset]);
        hasher.write_u8(self.0[EN_PASSANT.offset]);
        hasher.finish()
    }

    /// The flags of [`crate::layout`].
    pub fn flags(&self) -> u8 {
        self.0[FLAGS.offset]
    }

    /// How the game ended.
    ///
    /// # Errors
    /// A message if the byte is not a result.
    pub fn outcome(&self) -> Result<Outcome, String> {
        match self.0[RESULT.offset] {
            0 => Ok(Outcome::Loss),
            1 => Ok(Outcome::Draw),
            2 => Ok(Outcome::Win),
            NONE => Ok(Outcome::Unknown),
            other => Err(format!("result {other}, expected 0, 1, 2 or 255")),
        }
    }

    /// Plies to the end of the game, or `None` if the game was not played to its end.
    pub fn plies_to_end(&self) -> Option<u16> {
        (self.flags() & FLAG_NO_END == 0).then(|| self.u16_at(PLIES_LEFT.offset))
    }

    /// The number of the game.
    pub fn game(&self) -> u32 {
        u32::from(self.u16_at(GAME.offset)) | u32::from(self.u16_at(GAME.offset + 2)) << 16
    }

    /// The result of the search.
    ///
    /// # Errors
    /// A message that names the impossible field.
    pub fn label(&self) -> Result<Label, String> {
        let count = usize::from(self.0[LABELS.offset]);
        if !(1..=MAX_MOVES).contains(&count) {
            return Err(format!("{count} labelled moves, expected 1 to {MAX_MOVES}"));
        }
        if (count > 1) != (self.flags() & FLAG_SOFT != 0) {
            return Err(format!("{count} labelled moves with flags {}", self.flags()));
        }
        let moves: Vec<(u16, i16)> = (0..count)
            .map(|nth| (self.u16_at(MOVES.offset + 2 * nth), self.u16_at(SCORES.offset + 2 * nth) as i16))
            .collect();
        if let Some((index, _)) = moves.iter().find(|(index, _)| !self.allows(*index)) {
            return Err(format!("labelled move {index} is not legal"));
        }
        if (count..MAX_MOVES).any(|nth| self.u16_at(MOVES.offset + 2 * nth) != u16::MAX) {
            return Err("an unused labelled move is not 65535".to_owned());
        }
        let (win, loss) = (self.u16_at(WIN.offset), self.u16_at(LOSS.offset));
        if win > 1000 || loss > 1000 || win + loss > 1000 {
            return Err(format!("win {win} and loss {loss} permille"));
        }
        Ok(Label { score: self.u16_at(SCORE.offset) as i16, win, loss, moves })
    }

    /// The position, with the side to move as White.
    ///
    /// # Errors
    /// A message if the record's position is impossible, or if its legal moves differ from those in the record.
    pub fn board(&self) -> Result<Chess, String> {
        let chess = self.board_alone()?;
        let mut legal = Record([0; RECORD_BYTES]);
        legal.allow_legal(&chess);
        if let Some(index) = (0..POLICY_SIZE as u16).find(|&i| legal.allows(i) != self.allows(i)) {
            return Err(format!("the board and the mask disagree on whether policy index {index} is legal"));
        }
        Ok(chess)
    }

    /// [`Record::board`] without a look at the legal moves in the record.
    pub(crate) fn board_alone(&self) -> Result<Chess, String> {
        let mut bits = [0; 8];
        bits.copy_from_slice(&self.0[..8]);
        let occupied = Bitboard(u64::from_le_bytes(bits));
        if occupied.count() > 32 {
            return Err(format!("{} pieces", occupied.count()));
        }
        let mut board = Board::empty();
        for (nth, square) in occupied.into_iter().enumerate() {
            let code = self.0[PIECES.offset + nth / 2] >> (nth % 2 * 4) & 15;
            let role = ROLES.get(usize::from(code & 7)).ok_or_else(|| format!("piece code {code}"))?;
            board.set_piece_at(square, role.of(Color::from_white(code < 8)));
        }
        let mut castling = Bitboard::EMPTY;
        for (&file, (ours, _)) in self.0[CASTLING.offset..][..4].iter().zip(castling_rights()) {
            if file != NONE {
                let file = file_of(file)?;
                castling.add(Square::from_coords(file, if ours { Rank::First } else { Rank::Eighth }));
            }
        }
        let en_passant = match self.0[EN_PASSANT.offset] {
            NONE => None,
            file => Some(Square::from_coords(file_of(file)?, Rank::Sixth)),
        };
        let setup = Setup {
            board,
            turn: Color::White,
            castling_rights: castling,
            ep_square: en_passant,
            halfmoves: self.0[RULE50.offset].into(),
            ..Setup::empty()
        };
        let chess: Chess = setup.position(CastlingMode::Chess960).map_err(|error| error.to_string())?;
        if chess.ep_square(EnPassantMode::Legal) != en_passant {
            return Err(format!("en passant file {} where no pawn can be taken", self.0[EN_PASSANT.offset]));
        }
        Ok(chess)
    }

    /// The record, without a label, of the board in these bytes.
    ///
    /// # Errors
    /// A message if the position is impossible.
    pub(crate) fn of_board_bytes(bytes: &[u8; BOARD_BYTES]) -> Result<Record, String> {
        let mut record = Record([0; RECORD_BYTES]);
        record.put(0, bytes);
        let chess = record.board_alone()?;
        record.allow_legal(&chess);
        Ok(record)
    }

    /// The bytes of the board.
    pub(crate) fn board_bytes(&self) -> &[u8; BOARD_BYTES] {
        self.0.first_chunk().expect("a record is longer than its board")
    }

    /// What the record says beside its position and its game.
    pub(crate) fn numbers(&self) -> Numbers {
        Numbers {
            result: self.0[RESULT.offset],
            flags: self.flags(),
            plies_left: self.u16_at(PLIES_LEFT.offset),
            score: self.u16_at(SCORE.offset) as i16,
            win: self.u16_at(WIN.offset),
            loss: self.u16_at(LOSS.offset),
            labels: self.0[LABELS.offset],
            moves: std::array::from_fn(|nth| self.u16_at(MOVES.offset + 2 * nth)),
            scores: std::array::from_fn(|nth| self.u16_at(SCORES.offset + 2 * nth) as i16),
        }
    }

    /// Stores what [`Record::numbers`] returns.
    pub(crate) fn set_numbers(&mut self, numbers: &Numbers) {
        self.0[RESULT.offset] = numbers.result;
        self.0[FLAGS.offset] = numbers.flags;
        self.0[LABELS.offset] = numbers.labels;
        for (field, number) in [
            (PLIES_LEFT, numbers.plies_left),
            (SCORE, numbers.score as u16),
            (WIN, numbers.win),
            (LOSS, numbers.loss),
        ] {
            self.put(field.offset, &number.to_le_bytes());
        }
        for nth in 0..MAX_MOVES {
            self.put(MOVES.offset + 2 * nth, &numbers.moves[nth].to_le_bytes());
            self.put(SCORES.offset + 2 * nth, &numbers.scores[nth].to_le_bytes());
        }
    }

    /// The policy indices of the legal moves, in order.
    pub(crate) fn legal_indices(&self) -> Vec<u16> {
        (0..POLICY_SIZE as u16).filter(|&index| self.allows(index)).collect()
    }

    /// Whether the record says that a policy index is a legal move.
    pub fn allows(&self, index: u16) -> bool {
        usize::from(index) < POLICY_SIZE && {
            let (byte, bit) = mask_place(index);
            self.0[byte] >> bit & 1 == 1
        }
    }

    fn allow_legal(&mut self, chess: &Chess) {
        for m in chess.legal_moves() {
            self.allow(index_of(PackedMove::new(m), chess.turn(), 0));
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

/// The byte and the bit of a policy index in a record.
fn mask_place(index: u16) -> (usize, u16) {
    let byte = if index < 1856 { LEGAL.offset + usize::from(index / 8) } else { LEGAL_TAIL.offset };
    (byte, index % 8)
}

/// The castling rights in the order of the record: whether the right belongs to the side to move, and its wing.
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
pub(crate) mod tests {
    use super::*;
    use rukh_chess::uci_move;

    fn position(fen: &str) -> Position {
        Position::from_fen(fen).expect("test FEN")
    }

    /// A record with these labelled moves and their scores; `e8h8` and `e1h1` castle.
    pub(crate) fn labelled(fen: &str, moves: &[(&str, i16)]) -> Record {
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

    /// Positions with White and with Black to move, all castling rights, Chess960 rooks, en passant, and promotions.
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

    /// One record of each position, with some of its legal moves labelled.
    pub(crate) fn examples() -> Vec<Example> {
        let labels: [&[(&str, i16)]; 9] = [
            &[("e2e4", 35), ("d2d4", 31)],
            &[("e8h8", -20), ("e8a8", -25), ("h3g2", -31995)],
            &[("e1h1", 7)],
            &[("e5f6", 120), ("e5e6", 60), ("d2d4", 50), ("g1f3", -10)],
            &[("c4d3", 12)],
            &[("h8g7", 30000)],
            &[("a7b8q", 31999), ("c7b8r", 31997), ("c7d8b", 300)],
            &[("c1a1", 5)],
            &[("c8b8", -5)],
        ];
        let examples = POSITIONS.iter().zip(labels);
        examples.map(|(&fen, moves)| (fen, moves.to_vec(), labelled(fen, moves))).collect()
    }

    /// FEN, labelled moves with their scores, and the record.
    pub(crate) type Example = (&'static str, Vec<(&'static str, i16)>, Record);

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
    fn the_last_two_policy_indices_have_their_own_place() {
        // The last two policy indices are h7-h8 with promotion to a rook and to a bishop.
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
        // Each case is the offset of a byte and its new value.
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
    fn the_hash_of_a_position_leaves_out_its_rule_50_counter() {
        let hash = |fen: &str| Record::of_position(&position(fen), false).position_hash();
        let first = hash("4k2r/8/8/8/8/8/8/4K3 w k - 0 1");
        assert_eq!(first, hash("4k2r/8/8/8/8/8/8/4K3 w k - 40 90"));
        assert_ne!(first, hash("4k2r/8/8/8/8/8/8/4K3 w - - 0 1"));
        assert_ne!(first, hash("4k2r/8/8/8/8/8/8/4K3 b k - 0 1"));
    }
}
