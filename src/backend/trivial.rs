//! `trivial`: a backend without a network.
//!
//! The value is material plus a bonus for where the pieces stand; the policy likes captures, promotions, castling,
//! moves towards better squares, and dislikes squares that enemy pawns guard. It plays legal, sane, weak chess.
//! Its use is another: it costs next to nothing, so that the speed of the search itself can be measured on it, and
//! it gives the same bits on every machine, so that the search signature can be compared between machines.
//!
//! For the second, everything is integer arithmetic up to the last step, and that step uses only `+ - * /` and
//! `sqrt`, which IEEE 754 defines to the bit (`exp` and `ln` differ between C libraries). Rust never fuses a
//! multiply and an add by itself.
//!
//! There is nothing to tune for strength here; the numbers below are round figures chosen by hand. The policy is not
//! the result of a softmax, so `PolicyTemperature` has no effect on it.
//!
//! The hot path is [`TrivialBatch::add`]: the evaluation is complete when `add` returns, and the ticket only hands
//! it over.

use super::ticket::{Done, check_batch_size};
use super::{Added, Attributes, Backend, Batch, EvalRequest, Evaluations, Ticket, Value};
use crate::chess::{Color, PackedMove, Position, Role, Square};
use shakmaty::{Bitboard, Board};
use std::sync::Arc;

/// What a piece is worth where it stands, in hundredths of a pawn: `[role][square]`, the square from its owner's
/// view (a1 = 0). Kings come twice, see [`KING_MIDDLEGAME`] and [`KING_ENDGAME`].
static PIECE_SQUARE: [[i16; 64]; 7] = piece_square_table();

const KING_MIDDLEGAME: usize = 5;
const KING_ENDGAME: usize = 6;

/// Piece values alone, by role, for captures. The king's is only used as that of a capturing piece.
const PIECE_VALUE: [i32; 6] = [100, 305, 320, 490, 930, 0];

/// What having the move is worth.
const TEMPO: i32 = 12;

/// The advantage (in hundredths of a pawn) at which q is 1/sqrt(2).
const VALUE_SCALE: f32 = 400.0;

const fn piece_square_table() -> [[i16; 64]; 7] {
    const PAWN_ADVANCE: [i32; 8] = [0, 0, 2, 6, 14, 32, 70, 0];
    let mut table = [[0; 64]; 7];
    let mut square = 0;
    while square < 64 {
        let file = square as i32 % 8;
        let rank = square as i32 / 8;
        // 0 on the a and h files (or first and eighth ranks) … 3 in the middle.
        let inner_file = 3 - (2 * file - 7).abs() / 2;
        let inner_rank = 3 - (2 * rank - 7).abs() / 2;
        let centre = inner_file + inner_rank;
        let early_advance = if rank > 3 { 2 } else { rank - 1 };
        let values = [
            PIECE_VALUE[0] + PAWN_ADVANCE[rank as usize] + 3 * inner_file * early_advance,
            PIECE_VALUE[1] - 20 + 7 * centre,
            PIECE_VALUE[2] - 12 + 4 * centre,
            PIECE_VALUE[3] + 2 * inner_file + if rank == 6 { 20 } else { 0 },
            PIECE_VALUE[4] - 6 + 2 * centre,
            -12 * rank - 6 * inner_file,
            8 * centre - 24,
        ];
        let mut role = 0;
        while role < 7 {
            table[role][square] = values[role] as i16;
            role += 1;
        }
        square += 1;
    }
    table
}

/// 0 pawn … 5 king.
fn role_index(role: Role) -> usize {
    role as usize - 1
}

/// XOR with this turns a square into its owner's view.
fn view_of(side: Color) -> usize {
    match side {
        Color::White => 0,
        Color::Black => 56,
    }
}

/// Material and placement of one side, in hundredths of a pawn.
fn side_score(board: &Board, side: Color, king_table: usize) -> i32 {
    let pieces = board.by_color(side);
    let view = view_of(side);
    let mut score = 0;
    for role in [
        Role::Pawn,
        Role::Knight,
        Role::Bishop,
        Role::Rook,
        Role::Queen,
        Role::King,
    ] {
        let table = if role == Role::King {
            king_table
        } else {
            role_index(role)
        };
        for square in board.by_role(role) & pieces {
            score += i32::from(PIECE_SQUARE[table][square as usize ^ view]);
        }
    }
    score
}

/// Kings come out when there is little left to mate them with.
fn king_table(board: &Board) -> usize {
    let heavy = 2 * board.queens().count() + board.rooks().count();
    if heavy <= 2 { KING_ENDGAME } else { KING_MIDDLEGAME }
}

/// The value of a position for the side to move.
fn value(position: &Position, king_table: usize) -> Value {
    let board = board_of(position);
    let side = position.side_to_move();
    let score =
        (side_score(board, side, king_table) - side_score(board, side.other(), king_table) + TEMPO) as f32;
    let q = score / (score * score + VALUE_SCALE * VALUE_SCALE).sqrt();
    let undecided = 1.0 - q.abs();
    Value {
        q,
        // Half of what is not decided is drawn: then win and loss probabilities are never negative.
        d: 0.5 * undecided,
        m: 8.0 + 60.0 * undecided + 2.0 * board.occupied().count() as f32,
    }
}

fn board_of(position: &Position) -> &Board {
    use shakmaty::Position as _;
    position.board().board()
}

/// All squares that `side`'s pawns attack.
fn pawn_attacks(board: &Board, side: Color) -> Bitboard {
    const NOT_FILE_A: u64 = !0x0101_0101_0101_0101;
    const NOT_FILE_H: u64 = !0x8080_8080_8080_8080;
    let pawns = u64::from(board.pawns() & board.by_color(side));
    Bitboard(match side {
        Color::White => (pawns & NOT_FILE_A) << 7 | (pawns & NOT_FILE_H) << 9,
        Color::Black => (pawns & NOT_FILE_A) >> 9 | (pawns & NOT_FILE_H) >> 7,
    })
}

/// Appends one weight (1 or more) per move to `weights`: the prior before division by the sum.
fn policy_weights(position: &Position, moves: &[PackedMove], king_table: usize, weights: &mut Vec<u32>) {
    let board = board_of(position);
    let side = position.side_to_move();
    let view = view_of(side);
    let own = board.by_color(side);
    let enemy = board.by_color(side.other());
    let guarded = pawn_attacks(board, side.other());

    // Moves of one piece mostly come together: its role is looked up once.
    let mut last_from = None;
    let mut role = Role::King;
    weights.extend(moves.iter().map(|&chess_move| {
        let (from, to, promotion) = fields(chess_move);
        if last_from != Some(from) {
            last_from = Some(from);
            role = board.role_at(from).unwrap_or(Role::King);
        }
        let points = if own.contains(to) {
            // Castling: the king takes its own rook.
            14
        } else {
            points(board, view, enemy, guarded, king_table, role, from, to, promotion)
        };
        (points * points) as u32
    }));
}

/// From, to and the role promoted to, out of the packed bits.
#[inline]
fn fields(chess_move: PackedMove) -> (Square, Square, Option<Role>) {
    let bits = u32::from(chess_move.bits());
    // A square of six bits is always below 64.
    let (from, to) = (Square::new(bits & 63), Square::new(bits >> 6 & 63));
    let promotion = match bits >> 12 {
        0 => None,
        1 => Some(Role::Knight),
        2 => Some(Role::Bishop),
        3 => Some(Role::Rook),
        _ => Some(Role::Queen),
    };
    (from, to, promotion)
}

/// How much the policy likes a move that is not castling: 1 … about 90.
#[allow(
    clippy::too_many_arguments,
    reason = "the facts of one position, looked up once for all of its moves"
)]
#[inline]
fn points(
    board: &Board,
    view: usize,
    enemy: Bitboard,
    guarded: Bitboard,
    king_table: usize,
    role: Role,
    from: Square,
    to: Square,
    promotion: Option<Role>,
) -> i32 {
    let table = &PIECE_SQUARE[if role == Role::King {
        king_table
    } else {
        role_index(role)
    }];
    let improvement = i32::from(table[to as usize ^ view]) - i32::from(table[from as usize ^ view]);
    let mut points = 6 + (improvement / 6).clamp(-5, 8);

    let own_value = PIECE_VALUE[role_index(role)];
    let victim_value = if enemy.contains(to) {
        board
            .role_at(to)
            .map_or(0, |victim| PIECE_VALUE[role_index(victim)])
    } else if role == Role::Pawn && from.file() != to.file() {
        PIECE_VALUE[0] // en passant
    } else {
        0
    };
    if victim_value > 0 {
        points += 8 + (victim_value - own_value / 8) / 25;
    }
    if role != Role::Pawn {
        if guarded.contains(to) && victim_value < own_value {
            points /= 3;
        }
        if guarded.contains(from) {
            points += own_value / 60;
        }
    }
    match promotion {
        None => {}
        Some(Role::Queen) => points += 30,
        Some(_) => points /= 4,
    }
    points.max(1)
}

/// See the module.
pub struct TrivialBackend {
    attributes: Arc<Attributes>,
}

impl TrivialBackend {
    /// Needs nothing.
    pub fn new() -> TrivialBackend {
        TrivialBackend {
            attributes: Arc::new(Attributes {
                name: "trivial".to_owned(),
                has_wdl: true,
                has_mlh: true,
                runs_on_cpu: true,
                suggested_threads: 1,
                recommended_batch_size: 256,
                maximum_batch_size: 1024,
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
            evaluations: Evaluations::default(),
            weights: Vec::new(),
        })
    }
}

/// Evaluates while it is filled.
struct TrivialBatch {
    attributes: Arc<Attributes>,
    evaluations: Evaluations,
    /// Scratch.
    weights: Vec<u32>,
}

impl Batch for TrivialBatch {
    fn len(&self) -> usize {
        self.evaluations.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        let position = request.history.last();
        let king_table = king_table(board_of(position));
        self.weights.clear();
        policy_weights(position, request.moves, king_table, &mut self.weights);
        let total: u32 = self.weights.iter().sum();
        // No moves: the total is 0, and nothing is multiplied by the infinity.
        let scale = 1.0 / total as f32;
        self.evaluations.push(
            value(position, king_table),
            self.weights.iter().map(|&weight| weight as f32 * scale),
        );
        Added::Queued
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        let outcome = check_batch_size(&self.attributes, self.evaluations.len());
        Done::boxed(outcome.map(|()| self.evaluations))
    }
}
