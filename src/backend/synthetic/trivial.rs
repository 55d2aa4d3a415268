//! `trivial`: a backend without a network.
//!
//! The value is material plus piece-square bonuses. The policy prefers captures, promotions, castling and moves to
//! better squares, and avoids squares that enemy pawns guard. The result is weak but sane chess. The backend has two
//! other purposes. It costs almost nothing, so benchmarks on it measure the speed of the search itself. Its
//! evaluations have the same bits on every machine, so the search signature can be compared between machines.
//!
//! To give the same bits everywhere, all arithmetic is on integers up to the last step, and that step uses only
//! `+ - * /` and `sqrt`. IEEE 754 defines these exactly, while `exp` and `ln` differ between C libraries. Rust never
//! fuses a multiplication and an addition on its own.
//!
//! The numbers below are round figures chosen by hand, not tuned for strength. The policy is not the result of a
//! softmax, so `PolicyTemperature` has no effect on it.
//!
//! The hot path is `TrivialBatch::add`: the evaluation is complete when `add` returns, and the ticket only returns it.

use crate::ticket::{Done, check_batch_size};
use crate::{Added, Attributes, Backend, Batch, BatchSizes, EvalRequest, Evaluations, Ticket, Value};
use rukh_chess::{Color, Position, Role, Square};
use shakmaty::{Board, Position as _};
use std::sync::Arc;

/// Piece values in centipawns, by role code: 0 empty, 1 pawn … 5 queen, 6 king, 7 king in the endgame.
const PIECE_VALUE: [i32; 8] = [0, 100, 305, 320, 490, 930, 0, 0];

const PAWN: usize = Role::Pawn as usize;
const KING: usize = Role::King as usize;
/// The role code of a king in the endgame, which has a piece-square table of its own.
const KING_IN_ENDGAME: usize = 7;

/// Piece value plus square bonus in centipawns: `[role code][square]`, the square from its owner's view (a1 = 0).
static PIECE_SQUARE: [[i16; 64]; 8] = piece_square_table();

/// The bonus for having the move, in centipawns.
const TEMPO: i32 = 12;

/// The advantage in centipawns at which q is 1/sqrt(2).
const VALUE_SCALE: f32 = 400.0;

const fn piece_square_table() -> [[i16; 64]; 8] {
    const PAWN_ADVANCE: [i32; 8] = [0, 0, 2, 6, 14, 32, 70, 0];
    let mut table = [[0; 64]; 8];
    let mut square = 0;
    while square < 64 {
        let file = square as i32 % 8;
        let rank = square as i32 / 8;
        // 0 on the a and h files (or first and eighth ranks) … 3 in the middle.
        let inner_file = 3 - (2 * file - 7).abs() / 2;
        let inner_rank = 3 - (2 * rank - 7).abs() / 2;
        let centre = inner_file + inner_rank;
        let early_advance = if rank > 3 { 2 } else { rank - 1 };
        let bonus = [
            0,
            PAWN_ADVANCE[rank as usize] + 3 * inner_file * early_advance,
            7 * centre - 20,
            4 * centre - 12,
            2 * inner_file + if rank == 6 { 20 } else { 0 },
            2 * centre - 6,
            -12 * rank - 6 * inner_file,
            8 * centre - 24,
        ];
        let mut role = 1;
        while role < 8 {
            table[role][square] = (PIECE_VALUE[role] + bonus[role]) as i16;
            role += 1;
        }
        square += 1;
    }
    table
}

/// A position as bit planes, so that a few shifts without a branch give the role on a square.
struct View {
    /// Bits 0, 1 and 2 of the role code of every square.
    role_bits: [u64; 3],
    own: u64,
    enemy: u64,
    occupied: u64,
    /// The squares that enemy pawns attack.
    guarded: u64,
    /// The XOR of this number and a square is the square from the view of the side to move.
    flip: usize,
    /// The role code of kings: the endgame's code if few heavy pieces are left.
    king: usize,
}

impl View {
    fn new(position: &Position) -> View {
        let board = position.board().board();
        let side = position.side_to_move();
        let role = |role| u64::from(board.by_role(role));
        let (knights, bishops, rooks) = (role(Role::Knight), role(Role::Bishop), role(Role::Rook));
        let (queens, kings) = (role(Role::Queen), role(Role::King));
        let heavy = 2 * queens.count_ones() + rooks.count_ones();
        View {
            role_bits: [
                role(Role::Pawn) | bishops | queens,
                knights | bishops | kings,
                rooks | queens | kings,
            ],
            own: board.by_color(side).into(),
            enemy: board.by_color(!side).into(),
            occupied: board.occupied().into(),
            guarded: pawn_attacks(board, !side),
            flip: if side == Color::White { 0 } else { 56 },
            king: if heavy <= 2 { KING_IN_ENDGAME } else { KING },
        }
    }

    /// The role code of a square; 0 if it is empty.
    #[inline]
    fn role(&self, square: usize) -> usize {
        let bit = |plane: usize| (self.role_bits[plane] >> square & 1) as usize;
        let role = bit(0) | bit(1) << 1 | bit(2) << 2;
        if role == KING { self.king } else { role }
    }

    /// Material and square bonuses of the pieces in `side`, in centipawns. `flip` gives their owner's view.
    #[inline]
    fn score(&self, side: u64, flip: usize) -> i32 {
        let [low, middle, high] = self.role_bits;
        let (pawns, knights, bishops) = (low & !middle & !high, middle & !low & !high, low & middle);
        let (rooks, queens, kings) = (high & !low & !middle, high & low, high & middle);
        let mut score = 0;
        for (role, squares) in
            [(1, pawns), (2, knights), (3, bishops), (4, rooks), (5, queens), (self.king, kings)]
        {
            let mut pieces = squares & side;
            while pieces != 0 {
                score += i32::from(PIECE_SQUARE[role][pieces.trailing_zeros() as usize ^ flip]);
                pieces &= pieces - 1;
            }
        }
        score
    }

    /// The value for the side to move.
    fn value(&self) -> Value {
        let advantage = self.score(self.own, self.flip) - self.score(self.enemy, self.flip ^ 56) + TEMPO;
        let advantage = advantage as f32;
        let q = advantage / (advantage * advantage + VALUE_SCALE * VALUE_SCALE).sqrt();
        let undecided = 1.0 - q.abs();
        Value {
            q,
            // Half of the undecided share is drawn, so the win and loss probabilities are never negative.
            d: 0.5 * undecided,
            m: 8.0 + 60.0 * undecided + 2.0 * self.occupied.count_ones() as f32,
            // The value of a decided game is more certain than that of an open one.
            e: 0.05 + 0.3 * undecided,
        }
    }

    /// Looks up the piece on `from`.
    #[inline]
    fn mover(&self, from: Square) -> Mover {
        let role = self.role(from as usize);
        let place = &PIECE_SQUARE[role];
        let is_pawn = role == PAWN;
        let is_attacked = !is_pawn && is_on(self.guarded, from);
        Mover {
            from,
            place,
            place_now: i32::from(place[from as usize ^ self.flip]),
            value: PIECE_VALUE[role],
            is_pawn,
            base: 6 + if is_attacked { PIECE_VALUE[role] >> 6 } else { 0 },
            // A king, which has no value, never loses any.
            shunned: if is_pawn || PIECE_VALUE[role] == 0 { 0 } else { self.guarded },
        }
    }

    /// The prior of a move before normalisation: the square of its points, from 1 to about 4,500.
    #[inline]
    fn policy_weight(&self, mover: &Mover, to: Square, promotion: Option<Role>) -> i32 {
        let improvement = i32::from(mover.place[to as usize ^ self.flip]) - mover.place_now;
        let mut points = (improvement >> 3).clamp(-5, 8) + mover.base;
        let victim_value = if is_on(self.occupied, to) {
            if is_on(self.own, to) {
                // Castling: the king takes its own rook.
                return 14 * 14;
            }
            PIECE_VALUE[self.role(to as usize)]
        } else if mover.is_pawn && mover.from.file() != to.file() {
            PIECE_VALUE[PAWN] // en passant
        } else {
            0
        };
        if victim_value > 0 {
            points += 8 + ((victim_value - (mover.value >> 3)) >> 5);
        }
        if is_on(mover.shunned, to) && victim_value < mover.value {
            points -= 8;
        }
        match promotion {
            None => {}
            Some(Role::Queen) => points += 30,
            Some(_) => points >>= 2,
        }
        let points = points.max(1);
        points * points
    }
}

/// A piece that can move, with the values that all its moves share.
struct Mover {
    from: Square,
    /// The piece-square table of the piece's role.
    place: &'static [i16; 64],
    /// The table's entry for `from`.
    place_now: i32,
    /// The piece's value in centipawns.
    value: i32,
    is_pawn: bool,
    /// The points of a quiet move to an equally good square. They are higher if an enemy pawn attacks the piece.
    base: i32,
    /// The squares where an enemy pawn could take the piece; none for pawns.
    shunned: u64,
}

#[inline]
fn is_on(squares: u64, square: Square) -> bool {
    squares >> (square as u32) & 1 != 0
}

/// The squares that `side`'s pawns attack.
fn pawn_attacks(board: &Board, side: Color) -> u64 {
    const NOT_FILE_A: u64 = !0x0101_0101_0101_0101;
    const NOT_FILE_H: u64 = !0x8080_8080_8080_8080;
    let pawns = u64::from(board.pawns() & board.by_color(side));
    match side {
        Color::White => (pawns & NOT_FILE_A) << 7 | (pawns & NOT_FILE_H) << 9,
        Color::Black => (pawns & NOT_FILE_A) >> 9 | (pawns & NOT_FILE_H) >> 7,
    }
}

/// The backend that counts material. It has no options.
pub struct TrivialBackend {
    attributes: Arc<Attributes>,
}

impl TrivialBackend {
    /// Makes the backend. This cannot fail, because there is no network to load.
    pub fn new() -> TrivialBackend {
        TrivialBackend {
            attributes: Arc::new(Attributes {
                name: "trivial".to_owned(),
                has_wdl: true,
                has_mlh: true,
                has_value_error: true,
                runs_on_cpu: true,
                suggested_threads: 1,
                recommended_batch_size: 256,
                maximum_batch_size: 1024,
                batch_sizes: BatchSizes::default(),
            }),
        }
    }
}

impl Default for TrivialBackend {
    fn default() -> TrivialBackend {
        TrivialBackend::new()
    }
}

impl Backend for TrivialBackend {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(TrivialBatch {
            attributes: Arc::clone(&self.attributes),
            evaluations: Evaluations::with_capacity(self.attributes.recommended_batch_size),
            weights: Vec::new(),
        })
    }
}

/// Evaluates each request when it is added.
struct TrivialBatch {
    attributes: Arc<Attributes>,
    evaluations: Evaluations,
    /// The unnormalised priors of one position; scratch memory of `add`.
    weights: Vec<i32>,
}

impl Batch for TrivialBatch {
    fn len(&self) -> usize {
        self.evaluations.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        let view = View::new(request.history.last());
        self.weights.clear();
        // The moves of one piece are mostly adjacent in the list.
        let mut mover = view.mover(Square::A1);
        self.weights.extend(request.moves.iter().map(|chess_move| {
            if chess_move.from() != mover.from {
                mover = view.mover(chess_move.from());
            }
            view.policy_weight(&mover, chess_move.to(), chess_move.promotion())
        }));
        let total: i32 = self.weights.iter().sum();
        // Without legal moves the scale is infinite, but then no prior is multiplied by it.
        let scale = 1.0 / total as f32;
        self.evaluations.push(view.value(), self.weights.iter().map(|&weight| weight as f32 * scale));
        Added::Queued
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        let outcome = check_batch_size(&self.attributes, self.evaluations.len());
        Done::boxed(outcome.map(|()| self.evaluations))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_chess::{PackedMove, PositionHistory};

    fn evaluate(fen: &str) -> (Vec<PackedMove>, Value, Vec<f32>) {
        let history = PositionHistory::new(Position::from_fen(fen).unwrap());
        let moves: Vec<PackedMove> = history.last().legal_moves().into_iter().map(PackedMove::new).collect();
        let mut batch = TrivialBackend::new().new_batch();
        batch.add(EvalRequest { history: &history, moves: &moves });
        let evaluations = batch.submit().wait().unwrap();
        let (value, priors) = evaluations.get(0);
        (moves, value, priors.to_vec())
    }

    fn favourite(fen: &str) -> (String, String) {
        let (moves, _, priors) = evaluate(fen);
        let best = (0..moves.len()).max_by(|&a, &b| priors[a].total_cmp(&priors[b])).unwrap();
        (moves[best].from().to_string(), moves[best].to().to_string())
    }

    #[test]
    fn values_are_probabilities_and_do_not_depend_on_the_colour() {
        let fens = [
            (
                "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
                "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR b KQkq - 0 1",
            ),
            ("4k3/8/8/8/8/8/PPP5/QR2K3 w - - 0 1", "qr2k3/ppp5/8/8/8/8/8/4K3 b - - 0 1"),
            ("4k3/8/8/8/8/8/PPP5/QR2K3 b - - 0 1", "qr2k3/ppp5/8/8/8/8/8/4K3 w - - 0 1"),
        ];
        for (white, black) in fens {
            let ((_, value, priors), (_, mirrored, _)) = (evaluate(white), evaluate(black));
            assert_eq!(value, mirrored);
            assert!(value.d >= 0.0 && value.q.abs() + value.d <= 1.0 && value.m > 0.0);
            assert!((priors.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            assert!(priors.iter().all(|&prior| prior > 0.0));
        }
        assert!(evaluate(fens[1].0).1.q > 0.8 && evaluate(fens[2].0).1.q < -0.8);
    }

    #[test]
    fn the_policy_prefers_captures_and_queens() {
        let take_the_queen = "rnb1kbnr/pppp1ppp/8/4p3/3P2q1/5N1P/PPP1PPP1/RNBQKB1R w KQkq - 0 1";
        assert_eq!(favourite(take_the_queen), ("h3".to_owned(), "g4".to_owned()));
        assert_eq!(favourite("8/4P1k1/8/8/8/8/8/4K3 w - - 0 1"), ("e7".to_owned(), "e8".to_owned()));
        let (moves, _, priors) = evaluate("8/4P1k1/8/8/8/8/8/4K3 w - - 0 1");
        let best = (0..moves.len()).max_by(|&a, &b| priors[a].total_cmp(&priors[b])).unwrap();
        assert_eq!(moves[best].promotion(), Some(Role::Queen));
    }
}
