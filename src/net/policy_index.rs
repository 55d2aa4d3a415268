//! Maps moves to the 1858 outputs of a policy head and back.
//!
//! An output stands for a move seen from the side to move: for Black the ranks are flipped. The first 1792
//! outputs are the pairs of squares that a queen's or a knight's move can connect, ordered by from-square and
//! then by to-square. The other 66 are promotions: for each of the 22 ways in which a pawn can reach the last
//! rank, one output each for queen, rook and bishop. A knight promotion uses the output of its pair of squares,
//! as the move of any other piece does. Castling is encoded as the king's move to the square of its rook.
//!
//! Networks of the canonical input formats see a transformed board ([`super::input`]), so their outputs stand
//! for transformed moves. Therefore [`index_of`] takes the `transform` of the position.
//!
//! The tables are computed at compile time. [`index_of`] is on the hot path: it runs for each legal move of
//! each leaf. Attention and convolution heads compute their logits in another order; [`attention_index`] and
//! [`convolution_index`] map that order to policy indices once, when a network is loaded.

use rukh_chess::{Color, PackedMove, Role, Square};

/// The number of outputs of a policy head.
pub const POLICY_SIZE: usize = 1858;

/// The number of logits of an attention policy head: one for every pair of squares, and one for every promotion
/// `[from-file][to-file][queen, rook, bishop]`.
pub const ATTENTION_LOGITS: usize = 64 * 64 + 8 * 8 * 3;

/// The number of planes of a convolution policy head that stand for moves. In network files the head has 80 planes;
/// the last 7 are unused.
pub const CONVOLUTION_PLANES: usize = 73;

/// The index of the first promotion.
const FIRST_PROMOTION: u16 = 1792;
/// The entry of [`PLAIN`] for a pair of squares that has no output.
const NONE: u16 = u16::MAX;

/// The bit of a board transform that exchanges the files a and h, b and g, and so on.
pub const MIRROR_FILES: u8 = 1;
/// The bit of a board transform that exchanges the ranks 1 and 8, 2 and 7, and so on.
pub const MIRROR_RANKS: u8 = 2;
/// The bit of a board transform that reflects the board in the diagonal h1-a8, after any mirroring.
pub const TRANSPOSE: u8 = 4;

/// The policy index of a move that is not a promotion to queen, rook or bishop, by `from * 64 + to`.
static PLAIN: [u16; 4096] = plain_table();
/// `from * 64 + to` of each policy index.
static SQUARES: [u16; POLICY_SIZE] = squares_table();

/// The policy index of a legal move of `side` in a position that was encoded with `transform`: a combination of
/// [`MIRROR_FILES`], [`MIRROR_RANKS`] and [`TRANSPOSE`], or 0 if the input format is not canonical.
///
/// Returns 0 for a pair of squares that neither a queen's nor a knight's move connects.
pub fn index_of(m: PackedMove, side: Color, transform: u8) -> u16 {
    let flip = view(side) ^ square_flip(transform);
    let (from, to) = (m.from() as usize ^ flip, m.to() as usize ^ flip);
    match promotion_offset(m.promotion()) {
        // Only pawns promote, and a board with pawns never has its ranks mirrored. So the files identify the
        // move.
        Some(piece) => FIRST_PROMOTION + promotion_pair(from % 8, to % 8) * 3 + piece,
        None => {
            let index = PLAIN[from * 64 + to];
            if index == NONE { 0 } else { index }
        }
    }
}

/// The move of a policy index: the inverse of [`index_of`]. The result for a knight promotion has no promotion
/// piece, because only the position distinguishes it from the move of another piece.
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

/// The policy index of a logit of an attention policy head, or `None` if no move corresponds to it. The logit
/// `from * 64 + to` is a pair of squares. The logit `4096 + 24 * from_file + 3 * to_file + piece` is a
/// promotion to a queen (`piece` is 0), a rook (1) or a bishop (2).
pub fn attention_index(logit: usize) -> Option<u16> {
    if logit < 4096 {
        return Some(PLAIN[logit]).filter(|&index| index != NONE);
    }
    let promotion = logit - 4096;
    let (from_file, to_file, piece) = (promotion / 24, promotion / 3 % 8, promotion % 3);
    let on_board = from_file < 8 && from_file.abs_diff(to_file) <= 1;
    on_board.then(|| FIRST_PROMOTION + promotion_pair(from_file, to_file) * 3 + piece as u16)
}

/// The policy index of output `plane * 64 + square` of a convolution policy head, or `None` if no move
/// corresponds to it. The square is the from-square; the plane is the direction and distance of the move:
///
/// | planes | move |
/// |---|---|
/// | 0…55 | `7 * direction + distance - 1`; directions clockwise from straight ahead (up, up-right, right …) |
/// | 56…63 | knight's moves, clockwise from one file right and two ranks up |
/// | 64…72 | promotions from the seventh rank: up-left, up, up-right, each to rook, bishop, queen |
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
            let promotion = plane - 64;
            ((promotion as i8 / 3 - 1, 1), Some(PROMOTION_ORDER[promotion % 3]))
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

/// The number to xor a square with to see it from the point of view of `side`.
fn view(side: Color) -> usize {
    side.fold_wb(0, 0b111_000)
}

/// The number to xor a square with to apply `transform` to a move.
///
/// [`TRANSPOSE`] reflects the planes of a board in the diagonal h1-a8, but it rotates the moves by 180 degrees,
/// whatever the two mirror bits are. lc0 reflected the moves too until March 2025. Since then it rotates them,
/// and Rukh follows it, so that both find the same policy. Only positions without pawns are affected.
fn square_flip(transform: u8) -> usize {
    const FLIPS: [usize; 8] =
        [0, 0b000_111, 0b111_000, 0b111_111, 0b111_111, 0b111_111, 0b111_111, 0b111_111];
    FLIPS[usize::from(transform & 7)]
}

/// The offset of a promotion piece among the three outputs of its pair of files; `None` for knights and other
/// moves.
fn promotion_offset(role: Option<Role>) -> Option<u16> {
    match role {
        Some(Role::Queen) => Some(0),
        Some(Role::Rook) => Some(1),
        Some(Role::Bishop) => Some(2),
        _ => None,
    }
}

/// The number of a promotion's pair of files, 0…21. The files differ by one at most.
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
