//! The 1858 policy outputs and the moves they stand for.
//!
//! An output is a move seen from the side to move (for Black the ranks are flipped), named by its two
//! squares. There is one for every pair of squares that a queen or a knight could go between, in the
//! order of from and to (1792), and then for each of the 22 ways of a pawn onto the last rank one each
//! for queen, rook and bishop (66). The plain pair of squares of such a move stands for the promotion to
//! a knight, or for any other piece's move there. Castling is king takes own rook.
//!
//! Networks of the canonical input formats see a transformed board (see [`super::input`]), and what
//! they say is about transformed moves: hence the `transform` of [`index_of`].
//!
//! The tables are made by rule at compile time. [`index_of`] is on the hot path (each legal move of
//! each leaf): three table look-ups and no branches that matter. The two other layouts that policy heads
//! use are mapped once when a network is loaded: [`attention_index`] and [`convolution_index`].

use crate::chess::{Color, PackedMove, Role, Square};

/// How many outputs a policy head has.
pub const POLICY_SIZE: usize = 1858;

/// How many logits an attention policy head computes: every pair of squares, then for each from file, to
/// file and piece (queen, rook, bishop) a promotion.
pub const ATTENTION_LOGITS: usize = 64 * 64 + 8 * 8 * 3;

/// How many planes of a convolution policy head have a meaning (files hold 80; the last 7 have none).
pub const CONVOLUTION_PLANES: usize = 73;

/// Where the promotions begin.
const FIRST_PROMOTION: u16 = 1792;
/// No output.
const NONE: u16 = u16::MAX;

/// Transform bits, as in [`index_of`].
pub const MIRROR_FILES: u8 = 1;
/// See [`MIRROR_FILES`].
pub const MIRROR_RANKS: u8 = 2;
/// See [`MIRROR_FILES`].
pub const TRANSPOSE: u8 = 4;

/// Policy index by `from * 64 + to`, without promotions.
static PLAIN: [u16; 4096] = plain_table();
/// The squares of each policy index, `from * 64 + to`.
static SQUARES: [u16; POLICY_SIZE] = squares_table();

/// The policy index of a legal move of `side`, under board transform `transform` (bit 0 mirror files,
/// bit 1 mirror ranks, bit 2 transpose; 0 where the input format is not canonical).
///
/// Any other pair of squares than a queen's or knight's move gives index 0.
pub fn index_of(m: PackedMove, side: Color, transform: u8) -> u16 {
    let flip = view(side) ^ square_flip(transform);
    let (from, to) = (m.from() as usize ^ flip, m.to() as usize ^ flip);
    match promotion_offset(m.promotion()) {
        // Only pawns promote, and with pawns on the board no rank is ever mirrored: the files are enough.
        Some(piece) => FIRST_PROMOTION + promotion_pair(from % 8, to % 8) * 3 + piece,
        None => {
            let index = PLAIN[from * 64 + to];
            if index == NONE { 0 } else { index }
        }
    }
}

/// The inverse of [`index_of`] for a policy index below [`POLICY_SIZE`]. A knight promotion comes back
/// without its promotion: only the position tells it from another piece's move.
///
/// # Panics
/// If `index` is not below [`POLICY_SIZE`].
pub fn move_at(index: u16, side: Color, transform: u8) -> PackedMove {
    let squares = usize::from(SQUARES[usize::from(index)]);
    let promotion = (index >= FIRST_PROMOTION).then(|| match (index - FIRST_PROMOTION) % 3 {
        0 => Role::Queen,
        1 => Role::Rook,
        _ => Role::Bishop,
    });
    let mut flip = view(side) ^ square_flip(transform);
    if promotion.is_some() {
        flip = view(side) | (flip & 7);
    }
    PackedMove::from_squares(
        Square::ALL[(squares / 64) ^ flip],
        Square::ALL[(squares % 64) ^ flip],
        promotion,
    )
}

/// For each of an attention policy's 4096 + 192 logits (layout: from * 64 + to, then 4096 + 24 * from
/// file + 3 * to file + piece), the policy index or `None`.
pub fn attention_index(logit: usize) -> Option<u16> {
    if logit < 4096 {
        return Some(PLAIN[logit]).filter(|&index| index != NONE);
    }
    let promotion = logit - 4096;
    let (from_file, to_file, piece) = (promotion / 24, promotion / 3 % 8, promotion % 3);
    let on_board = from_file < 8 && from_file.abs_diff(to_file) <= 1;
    on_board.then(|| FIRST_PROMOTION + promotion_pair(from_file, to_file) * 3 + piece as u16)
}

/// For each output of a convolution policy head, at `plane * 64 + square`, the policy index or `None`. The
/// square is where the move starts; the plane is the way it goes:
///
/// | planes | move |
/// |---|---|
/// | 0…55 | 7 * direction + distance - 1; directions clockwise from straight ahead (up, up-right, right …) |
/// | 56…63 | knight's moves, clockwise from one right and two up |
/// | 64…72 | from the seventh rank up-left, up, up-right: rook, bishop, queen each |
pub fn convolution_index(output: usize) -> Option<u16> {
    const DIRECTIONS: [(i8, i8); 8] = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)];
    const KNIGHT: [(i8, i8); 8] = [(1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)];
    const PROMOTION_ORDER: [u16; 3] = [1, 2, 0];

    let (plane, square) = (output / 64, output % 64);
    let ((files, ranks), promotion) = match plane {
        0..56 => {
            let (file, rank) = DIRECTIONS[plane / 7];
            let distance = (plane % 7 + 1) as i8;
            ((file * distance, rank * distance), None)
        }
        56..64 => (KNIGHT[plane - 56], None),
        64..CONVOLUTION_PLANES => {
            let way = plane - 64;
            ((way as i8 / 3 - 1, 1), Some(PROMOTION_ORDER[way % 3]))
        }
        _ => return None,
    };
    let (from_file, from_rank) = (square % 8, square / 8);
    let to_file = from_file.checked_add_signed(files.into()).filter(|&file| file < 8)?;
    let to_rank = from_rank.checked_add_signed(ranks.into()).filter(|&rank| rank < 8)?;
    match promotion {
        None => Some(PLAIN[square * 64 + to_rank * 8 + to_file]),
        Some(piece) if from_rank == 6 => {
            Some(FIRST_PROMOTION + promotion_pair(from_file, to_file) * 3 + piece)
        }
        Some(_) => None,
    }
}

/// What to xor a square with to see it as `side` does.
fn view(side: Color) -> usize {
    side.fold_wb(0, 0b111_000)
}

/// What to xor a square with under `transform`.
///
/// The planes of a transposed board are reflected in the diagonal h1-a8, but its moves are turned by 180
/// degrees, whatever the two mirror bits say. That is not what the planes suggest, and lc0 reflected the
/// moves too until March 2025; turning them is what it does since, and so what its figures are. It only
/// matters in pawnless positions.
fn square_flip(transform: u8) -> usize {
    const FLIPS: [usize; 8] =
        [0, 0b000_111, 0b111_000, 0b111_111, 0b111_111, 0b111_111, 0b111_111, 0b111_111];
    FLIPS[usize::from(transform & 7)]
}

/// The place of a promotion piece among its pair of squares.
fn promotion_offset(role: Option<Role>) -> Option<u16> {
    match role {
        Some(Role::Queen) => Some(0),
        Some(Role::Rook) => Some(1),
        Some(Role::Bishop) => Some(2),
        _ => None,
    }
}

/// Numbers the 22 ways onto the last rank by from and to file, which differ by one at most.
const fn promotion_pair(from_file: usize, to_file: usize) -> u16 {
    (2 * from_file + to_file) as u16
}

const fn plain_table() -> [u16; 4096] {
    let mut table = [NONE; 4096];
    let mut next = 0;
    let mut squares: usize = 0;
    while squares < 4096 {
        let (from, to) = (squares / 64, squares % 64);
        let files = (from % 8).abs_diff(to % 8);
        let ranks = (from / 8).abs_diff(to / 8);
        let queen = files == 0 || ranks == 0 || files == ranks;
        let knight = files * ranks == 2;
        if from != to && (queen || knight) {
            table[squares] = next;
            next += 1;
        }
        squares += 1;
    }
    assert!(next == FIRST_PROMOTION, "64 squares have 1456 queen moves and 336 knight moves");
    table
}

const fn squares_table() -> [u16; POLICY_SIZE] {
    let mut table = [0; POLICY_SIZE];
    let plain = plain_table();
    let mut squares = 0;
    while squares < 4096 {
        if plain[squares] != NONE {
            table[plain[squares] as usize] = squares as u16;
        }
        squares += 1;
    }
    let mut from_file = 0;
    while from_file < 8 {
        let mut to_file = if from_file == 0 { 0 } else { from_file - 1 };
        while to_file < 8 && to_file <= from_file + 1 {
            let mut piece = 0;
            while piece < 3 {
                let index = (FIRST_PROMOTION + promotion_pair(from_file, to_file) * 3) as usize + piece;
                table[index] = ((48 + from_file) * 64 + 56 + to_file) as u16;
                piece += 1;
            }
            to_file += 1;
        }
        from_file += 1;
    }
    table
}
