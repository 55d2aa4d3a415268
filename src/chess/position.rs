//! One position of a game: shakmaty's position, with counters and en passant square as in lc0.
//!
//! shakmaty's `Chess` implements the rules. [`Position`] adds the counters and the en passant square that lc0's input
//! planes and repetition test use. The en passant square differs from shakmaty's: after a played double push it is set
//! only if an enemy pawn attacks the skipped square (even if it may not take), while a FEN's square is kept as given.
//! Therefore `position fen … e3` and `position startpos moves e2e4` differ, as they do in lc0.
//!
//! The Zobrist key covers pieces, side to move, castling rights and this en passant square. Two positions with the same
//! key and the same pieces are a repetition in lc0's sense. [`Position::play`], a hot path, updates the key
//! incrementally.
//!
//! A position does not know the earlier ones: [`super::PositionHistory`] fills in the repetition counters.

use super::{Color, FenError, Move, MoveList, Square, fen};
use shakmaty::san::{San, SanPlus, Suffix};
use shakmaty::zobrist::{Zobrist64, ZobristValue};
use shakmaty::{Bitboard, Castles, CastlingSide, Chess, EnPassantMode, Position as _, Role, Setup};

/// A position with its counters.
#[derive(Clone, Debug)]
pub struct Position {
    board: Chess,
    /// The square that a double push skipped, in lc0's sense (see the top of this file).
    en_passant: Option<Square>,
    rule50_ply: u16,
    game_ply: u32,
    repetitions: u8,
    plies_since_repetition: u16,
    key: u64,
    /// Whether there are more pieces than a game can have, so that the move list might overflow. Only a FEN can give
    /// such a position.
    excess_material: bool,
}

impl Position {
    /// The standard start position.
    pub fn startpos() -> Position {
        let board = Chess::new();
        let key = key_from_scratch(&board, None);
        Position {
            board,
            en_passant: None,
            rule50_ply: 0,
            game_ply: 0,
            repetitions: 0,
            plies_since_repetition: 0,
            key,
            excess_material: false,
        }
    }

    /// Reads a FEN, standard or Chess960 (X-FEN and Shredder-FEN castling). [`super::fen`] says which FENs are
    /// accepted.
    ///
    /// # Errors
    /// The FEN is malformed, or its position cannot be played.
    pub fn from_fen(fen: &str) -> Result<Position, FenError> {
        fen::parse(fen).map(Position::from_parsed)
    }

    /// A position that has already occurred so many times, from a setup whose fields mean what those of a FEN mean.
    ///
    /// # Errors
    /// The position cannot be played.
    pub fn from_setup(setup: &Setup, repetitions: u8) -> Result<Position, FenError> {
        let parsed = fen::set_up(setup, || fen::of_setup(setup))?;
        Ok(Position { repetitions, ..Position::from_parsed(parsed) })
    }

    fn from_parsed(parsed: fen::ParsedFen) -> Position {
        let fen::ParsedFen { board, en_passant, rule50_ply, game_ply, excess_material } = parsed;
        let key = key_from_scratch(&board, en_passant);
        Position {
            board,
            en_passant,
            rule50_ply,
            game_ply,
            repetitions: 0,
            plies_since_repetition: 0,
            key,
            excess_material,
        }
    }

    /// The FEN. Castling rights have Shredder letters where X-FEN's would be ambiguous.
    pub fn to_fen(&self) -> String {
        fen::write(&self.board, self.en_passant, self.rule50_ply, self.game_ply)
    }

    /// The FEN, unless this is the usual starting position.
    pub fn unusual_fen(&self) -> Option<String> {
        Some(self.to_fen()).filter(|fen| *fen != Position::startpos().to_fen())
    }

    /// The position after a legal move. Its repetition counters are zero, because only a history knows them.
    pub fn play(&self, m: Move) -> Position {
        let mut next = self.clone();
        next.advance(m);
        next
    }

    /// Plays a legal move in place, like [`Position::play`].
    pub(super) fn advance(&mut self, m: Move) {
        let castles = self.board.castles().clone();
        let mut key = Zobrist64(self.key);
        key ^= Zobrist64::zobrist_for_white_turn();
        toggle_pieces(&mut key, m, self.board.turn());
        toggle_en_passant(&mut key, self.en_passant);
        self.board.play_unchecked(m);
        self.en_passant = self.board.ep_square(EnPassantMode::PseudoLegal);
        toggle_en_passant(&mut key, self.en_passant);
        if castles.castling_rights() != self.board.castles().castling_rights() {
            toggle_castling(&mut key, &castles);
            toggle_castling(&mut key, self.board.castles());
        }
        self.key = key.0;
        self.rule50_ply = if m.is_zeroing() { 0 } else { self.rule50_ply.saturating_add(1) };
        self.game_ply = self.game_ply.saturating_add(1);
        self.set_repetitions(0, 0);
    }

    /// The position after a null move, by which the side to move passes. `None` if this side is in check. The rules know
    /// no such move, but annotated games have it.
    pub fn pass(&self) -> Option<Position> {
        if self.is_king_taken() {
            return None;
        }
        let board = fen::passed(&self.board)?;
        Some(Position {
            key: key_from_scratch(&board, None),
            board,
            en_passant: None,
            rule50_ply: self.rule50_ply.saturating_add(1),
            game_ply: self.game_ply.saturating_add(1),
            repetitions: 0,
            plies_since_repetition: 0,
            excess_material: self.excess_material,
        })
    }

    /// All legal moves. The list is truncated if a position has more moves than it can hold, which needs far more
    /// material than a game allows. It is empty if the king is taken, which can happen only after a FEN with the wrong
    /// side in check.
    pub fn legal_moves(&self) -> MoveList {
        if self.is_king_taken() {
            return MoveList::new();
        }
        if self.excess_material && self.mobility_bound() > MoveList::new().capacity() {
            return self.legal_moves_one_by_one();
        }
        self.board.legal_moves()
    }

    /// The number of pieces and pawns of both sides, with the kings.
    pub fn piece_count(&self) -> usize {
        self.board.board().occupied().count()
    }

    /// shakmaty's position. Its en passant square and counters may differ.
    pub fn board(&self) -> &Chess {
        &self.board
    }

    /// The colour of the side to move.
    pub fn side_to_move(&self) -> Color {
        self.board.turn()
    }

    /// The square that a double push skipped, in lc0's sense (see the top of this file).
    pub fn en_passant(&self) -> Option<Square> {
        self.en_passant
    }

    /// Plies since the last capture or pawn move.
    pub fn rule50_ply(&self) -> u16 {
        self.rule50_ply
    }

    /// Plies played since the start of the game, including the plies that a FEN's full-move number implies.
    pub fn game_ply(&self) -> u32 {
        self.game_ply
    }

    /// How often the position occurred before, since the last capture or pawn move (0, 1, 2 …).
    pub fn repetitions(&self) -> u8 {
        self.repetitions
    }

    /// Plies since the latest earlier occurrence of the position; 0 if it has not occurred before.
    pub fn plies_since_repetition(&self) -> u16 {
        self.plies_since_repetition
    }

    /// The Zobrist key of pieces, side to move, castling rights and lc0's en passant square.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Whether the side to move is in check. A taken king counts as in check, so that it is a loss.
    pub fn is_check(&self) -> bool {
        self.is_king_taken() || self.board.is_check()
    }

    /// The pieces that give check to the side to move.
    pub fn checkers(&self) -> Bitboard {
        self.board.checkers()
    }

    /// Whether the side to move is mated.
    pub fn is_checkmate(&self) -> bool {
        self.is_check() && self.legal_moves().is_empty()
    }

    /// A legal move in standard algebraic notation, with its sign of check or mate. To take the king is mate.
    pub fn san(&self, m: Move) -> SanPlus {
        let next = self.play(m);
        let suffix = match (next.is_checkmate(), next.is_check()) {
            (true, _) => Some(Suffix::Checkmate),
            (false, true) => Some(Suffix::Check),
            (false, false) => None,
        };
        SanPlus { san: San::from_move(&self.board, m), suffix }
    }

    /// A legal move that gives checkmate, if there is one.
    pub fn mating_move(&self) -> Option<Move> {
        self.legal_moves().into_iter().find(|&m| self.play(m).is_checkmate())
    }

    /// Whether neither side can mate with the remaining pieces: bare kings, one minor piece, or any number of bishops
    /// of either side that are all on squares of one color. As in lc0, two knights are sufficient, and so is a knight
    /// against a bishop.
    pub fn has_insufficient_material(&self) -> bool {
        let board = self.board.board();
        if (board.pawns() | board.rooks_and_queens()).any() {
            return false;
        }
        if board.occupied().count() < 4 {
            return true;
        }
        let bishops = board.bishops();
        board.knights().is_empty()
            && ((bishops & Bitboard::LIGHT_SQUARES).is_empty()
                || (bishops & Bitboard::DARK_SQUARES).is_empty())
    }

    /// Whether this position repeats `other`: same pieces, side to move, castling rights and en passant square.
    pub(super) fn repeats(&self, other: &Position) -> bool {
        self.key == other.key
            && self.board.board() == other.board.board()
            && self.board.turn() == other.board.turn()
            && self.en_passant == other.en_passant
            && self.board.castles().castling_rights() == other.board.castles().castling_rights()
    }

    /// Whether both positions have the same castling rights.
    pub(super) fn has_same_rights(&self, other: &Position) -> bool {
        self.board.castles().castling_rights() == other.board.castles().castling_rights()
    }

    /// Whether there are more pieces than a game can have.
    pub(super) fn has_excess_material(&self) -> bool {
        self.excess_material
    }

    /// Sets the counters that only the history knows.
    pub(super) fn set_repetitions(&mut self, repetitions: u8, plies_since_repetition: u16) {
        self.repetitions = repetitions;
        self.plies_since_repetition = plies_since_repetition;
    }

    /// Whether the side to move could take the other side's king, or a king has been taken. Only a FEN can lead to
    /// such a position.
    pub(super) fn is_king_takeable(&self) -> bool {
        let board = self.board.board();
        let (turn, occupied) = (self.board.turn(), board.occupied());
        match board.king_of(!turn) {
            Some(king) if !self.is_king_taken() => board.attacks_to(king, turn, occupied).any(),
            _ => true,
        }
    }

    /// Whether the side to move has no king.
    #[inline]
    fn is_king_taken(&self) -> bool {
        self.board.our(Role::King).is_empty()
    }

    /// An upper bound on the number of moves that shakmaty's generator lists before it drops illegal moves.
    fn mobility_bound(&self) -> usize {
        let board = self.board.board();
        let us = self.board.us();
        // 3 targets of 4 promotions each; 2 castling moves.
        let pawns = 12 * (us & board.pawns()).count() + 2;
        let pieces = us & !board.pawns();
        pawns + pieces.into_iter().map(|square| (board.attacks_from(square) & !us).count()).sum::<usize>()
    }

    /// Generates the moves for each kind of piece and target square separately. It is slow, but it can stop at a full
    /// list.
    fn legal_moves_one_by_one(&self) -> MoveList {
        let mut moves = MoveList::new();
        let castling = CastlingSide::ALL.into_iter().flat_map(|side| {
            if self.board.is_check() { MoveList::new() } else { self.board.castling_moves(side) }
        });
        let others = Role::ALL
            .into_iter()
            .flat_map(|role| Square::ALL.into_iter().map(move |to| (role, to)))
            .flat_map(|(role, to)| self.board.san_candidates(role, to));
        for m in castling.chain(others) {
            if moves.try_push(m).is_err() {
                break;
            }
        }
        moves
    }
}

/// Computes the key from the whole position. [`Position::play`] updates it afterwards.
fn key_from_scratch(chess: &Chess, en_passant: Option<Square>) -> u64 {
    let mut key = Zobrist64::default();
    for color in Color::ALL {
        for role in Role::ALL {
            let piece = role.of(color);
            let squares = chess.board().by_piece(piece);
            squares.for_each(|square| key ^= Zobrist64::zobrist_for_piece(square, piece));
        }
    }
    if chess.turn().is_white() {
        key ^= Zobrist64::zobrist_for_white_turn();
    }
    toggle_castling(&mut key, chess.castles());
    toggle_en_passant(&mut key, en_passant);
    key.0
}

fn toggle_en_passant(key: &mut Zobrist64, square: Option<Square>) {
    if let Some(square) = square {
        *key ^= Zobrist64::zobrist_for_en_passant_file(square.file());
    }
}

fn toggle_castling(key: &mut Zobrist64, castles: &Castles) {
    for color in Color::ALL {
        for side in CastlingSide::ALL {
            if castles.has(color, side) {
                *key ^= Zobrist64::zobrist_for_castling_right(color, side);
            }
        }
    }
}

/// Updates the key for the pieces that `m` removes and places.
fn toggle_pieces(key: &mut Zobrist64, m: Move, color: Color) {
    let mut toggle = |square, role: Role, color| *key ^= Zobrist64::zobrist_for_piece(square, role.of(color));
    match m {
        Move::Normal { role, from, capture, to, promotion } => {
            toggle(from, role, color);
            toggle(to, promotion.unwrap_or(role), color);
            if let Some(captured) = capture {
                toggle(to, captured, !color);
            }
        }
        Move::EnPassant { from, to } => {
            toggle(from, Role::Pawn, color);
            toggle(to, Role::Pawn, color);
            toggle(Square::from_coords(to.file(), from.rank()), Role::Pawn, !color);
        }
        Move::Castle { king, rook } => {
            let side = CastlingSide::from_king_side(king < rook);
            toggle(king, Role::King, color);
            toggle(rook, Role::Rook, color);
            toggle(Square::from_coords(side.king_to_file(), king.rank()), Role::King, color);
            toggle(Square::from_coords(side.rook_to_file(), king.rank()), Role::Rook, color);
        }
        // Only Crazyhouse has this kind of move.
        Move::Put { role, to } => toggle(to, role, color),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uci_move;

    fn after(fen: &str, moves: &[&str]) -> Position {
        let start = Position::from_fen(fen).expect("test FEN");
        moves
            .iter()
            .fold(start, |position, text| position.play(uci_move::parse(&position, text).expect("test move")))
    }

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

    #[test]
    fn en_passant_square_is_kept_from_fen_but_not_after_a_lone_push() {
        assert_eq!(after(START, &["e2e4"]).en_passant(), None);
        let given = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1";
        assert_eq!(after(given, &[]).en_passant(), Some(Square::E3));
        assert_eq!(after(START, &["e2e4", "a7a6", "e4e5", "d7d5"]).en_passant(), Some(Square::D6));
    }

    #[test]
    fn en_passant_square_is_kept_where_the_capture_is_illegal() {
        // A capture would open the rank to the rook, but lc0's test is pseudo-legal.
        let pinned = after("8/3p4/8/r3P2K/8/8/8/4k3 b - - 0 1", &["d7d5"]);
        assert_eq!(pinned.en_passant(), Some(Square::D6));
        assert!(pinned.legal_moves().iter().all(|m| !m.is_en_passant()));
    }

    #[test]
    fn a_king_left_in_check_can_be_taken_and_is_then_mated() {
        let takeable = "4k2r/8/8/8/8/8/4R3/4K3 w k - 0 1";
        let taken = after(takeable, &["e2e8"]);
        assert!(taken.is_check());
        assert!(taken.legal_moves().is_empty());
        // If the king is not taken, the game continues as usual.
        assert!(after(takeable, &["e1d1"]).legal_moves().iter().all(|m| !m.is_castle()));
    }

    #[test]
    fn game_ply_counts_both_sides_moves_before_the_fen() {
        assert_eq!(Position::startpos().game_ply(), 0);
        let black_to_move = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R b KQkq - 3 10";
        let position = after(black_to_move, &[]);
        assert_eq!((position.game_ply(), position.rule50_ply()), (19, 3));
        assert_eq!(position.to_fen(), black_to_move);
        assert_eq!(after(black_to_move, &["e8g8", "e1c1"]).game_ply(), 21);
    }

    #[test]
    fn a_side_passes_unless_it_is_in_check() {
        let pass = |fen: &str| after(fen, &[]).pass().map(|position| position.to_fen());
        assert_eq!(
            pass("rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq e6 0 2").as_deref(),
            Some("rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 1 2")
        );
        assert_eq!(
            pass("4k3/8/8/8/8/8/8/4K2R b K - 3 9").as_deref(),
            Some("4k3/8/8/8/8/8/8/4K2R w K - 4 10")
        );
        assert_eq!(pass("4k3/8/8/8/8/8/4R3/4K3 b - - 0 1"), None);
        // More knights than a game can have.
        assert!(pass("k7/8/8/8/8/NNNNNNNN/NNN5/K7 b - - 0 1").is_some());
    }

    #[test]
    fn insufficient_material_is_what_lc0_calls_so() {
        for (board, expected) in [
            ("4k3/8/8/8/8/8/8/4K3", true),
            ("4k3/8/8/8/8/8/8/3NK3", true),
            ("4k3/8/8/8/8/8/8/3BK3", true),
            ("2b1k3/8/8/8/8/8/8/4KB2", true),
            ("2b1k3/8/8/8/8/8/8/3BK3", true),
            ("2b1k3/8/8/8/8/8/8/2B1K3", false),
            ("4k3/8/8/8/8/8/8/2NNK3", false),
            ("3nk3/8/8/8/8/8/8/3NK3", false),
            ("4k3/8/8/8/8/8/P7/4K3", false),
            ("4k3/8/8/8/8/8/8/R3K3", false),
            ("4k3/8/8/8/8/8/8/Q3K3", false),
        ] {
            let position = after(&format!("{board} w - - 0 1"), &[]);
            assert_eq!(position.has_insufficient_material(), expected, "{board}");
        }
    }

    #[test]
    fn a_list_with_too_many_moves_is_truncated() {
        // 279 moves, counted by python-chess.
        let ring = "QQQQQQQk/Q6Q/Q6Q/Q6Q/Q6Q/Q6Q/Q6Q/KQQQQQQQ w - - 0 1";
        let start = after(ring, &[]);
        let moves = start.legal_moves();
        assert_eq!(moves.len(), moves.capacity());
        for &m in &moves {
            let next = start.play(m);
            for &reply in &next.legal_moves() {
                next.play(reply).legal_moves();
            }
        }
    }

    #[test]
    fn one_by_one_generation_agrees_with_the_fast_one() {
        for fen in [
            START,
            "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
            "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
            "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1",
            "rnb1kbnr/pppp1ppp/8/4p3/5PPq/8/PPPPP2P/RNBQKBNR w KQkq - 1 3",
            "1n1b3k/P1P2PPp/8/8/8/8/p1p3pp/2K1N1R1 w - - 0 1",
        ] {
            let position = after(fen, &[]);
            let sorted = |moves: MoveList| {
                let mut texts: Vec<String> = moves.iter().map(|&m| uci_move::text(m, true)).collect();
                texts.sort();
                texts
            };
            assert_eq!(sorted(position.legal_moves()), sorted(position.legal_moves_one_by_one()), "{fen}");
            assert!(position.mobility_bound() >= position.legal_moves().len(), "{fen}");
        }
    }
}
