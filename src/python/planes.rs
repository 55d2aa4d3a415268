//! Input planes as arrays `[112][8][8]`, and the moves that they allow.

use rukh_chess::{Color, Position, Square};
use rukh_net::{InputFormat, InputPlanes};
use shakmaty::{Bitboard, Board, ByColor, ByRole, Setup};

/// The numbers of a position's planes.
pub(crate) const NUMBERS: usize = InputPlanes::COUNT * 64;

/// Appends the numbers of the planes: `[plane][rank][file]`.
pub(crate) fn expand(planes: &InputPlanes, numbers: &mut Vec<f32>) {
    for (plane, mask) in planes.masks.iter().enumerate() {
        let value = if plane == InputPlanes::RULE50_PLANE { planes.rule50_value } else { 1.0 };
        numbers.extend((0..64).map(|square| if mask >> square & 1 == 1 { value } else { 0.0 }));
    }
}

/// Reads the numbers of a position's planes.
///
/// # Errors
/// A number is neither 0 nor 1, or plane 109 has several numbers.
pub(crate) fn collect(numbers: &[f32]) -> Result<InputPlanes, String> {
    let mut planes = InputPlanes { masks: [0; InputPlanes::COUNT], rule50_value: 0.0 };
    for (plane, (numbers, mask)) in numbers.chunks_exact(64).zip(&mut planes.masks).enumerate() {
        if plane == InputPlanes::RULE50_PLANE {
            planes.rule50_value = numbers[0];
            *mask = !0;
            if !numbers[0].is_finite() || numbers.iter().any(|&number| number != numbers[0]) {
                return Err(format!("plane {plane} must have one number, the rule-50 counter"));
            }
            continue;
        }
        *mask = bits(numbers).ok_or_else(|| format!("plane {plane} must consist of the numbers 0 and 1"))?;
    }
    Ok(planes)
}

/// The ones among 64 numbers. `None` if a number is neither 0 nor 1.
fn bits(numbers: &[f32]) -> Option<u64> {
    /// Moves the lowest bits of eight bytes to the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (mut bytes, mut is_wrong) = ([0; 64], false);
    for (byte, &number) in bytes.iter_mut().zip(numbers) {
        *byte = u8::from(number == 1.0);
        is_wrong |= (number != 0.0) & (number != 1.0);
    }
    let gathered = bytes.as_chunks().0.iter().rev();
    let bits =
        gathered.fold(0, |all, bytes| all << 8 | u64::from_le_bytes(*bytes).wrapping_mul(GATHER) >> 56);
    (!is_wrong).then_some(bits)
}

/// The position that the planes show: the side to move is White, and in the canonical formats the board stays mirrored or
/// transposed. `None` if that is no position.
pub(crate) fn shown(planes: &InputPlanes, format: InputFormat) -> Option<Position> {
    let masks = &planes.masks;
    let of = |role: usize| Bitboard(masks[role] | masks[role + 6]);
    let role = ByRole { pawn: of(0), knight: of(1), bishop: of(2), rook: of(3), queen: of(4), king: of(5) };
    let side = |first: usize| masks[first..first + 6].iter().fold(0, |all, mask| all | mask);
    let (ours, theirs) = (side(0), side(6));
    let board =
        Board::try_from_bitboards(role, ByColor { white: Bitboard(ours), black: Bitboard(theirs) }).ok()?;
    let setup = Setup {
        board,
        turn: Color::White,
        castling_rights: Bitboard(castling_rooks(masks, format)),
        ep_square: en_passant(masks, format),
        ..Setup::empty()
    };
    Position::from_setup(&setup, 0).ok()
}

/// The rooks that may castle.
fn castling_rooks(masks: &[u64; InputPlanes::COUNT], format: InputFormat) -> u64 {
    if format != InputFormat::Classical112 {
        return masks[104] | masks[105];
    }
    // The outermost rooks of the rank.
    let outermost = |right: usize, rooks: u64, is_a_side: bool| match (masks[right] != 0, is_a_side) {
        (false, _) => 0,
        (true, true) => rooks & rooks.wrapping_neg(),
        (true, false) => (1u64 << 63).wrapping_shr(rooks.leading_zeros()) & rooks,
    };
    let (ours, theirs) = (masks[3] & 0xff, masks[9] & 0xff << 56);
    outermost(104, ours, true)
        | outermost(105, ours, false)
        | outermost(106, theirs, true)
        | outermost(107, theirs, false)
}

/// The square that the opponent's pawn has just passed. Formats without a plane for it show it only as a difference
/// from the board before.
fn en_passant(masks: &[u64; InputPlanes::COUNT], format: InputFormat) -> Option<Square> {
    let file = match rukh_net::input::is_canonical(format) {
        true => masks[108] >> 56,
        false => {
            let (now, before) = (masks[6], masks[13 + 6]);
            (now & !before) >> 32 & 0xff & ((before & !now) >> 48)
        }
    };
    (file.count_ones() == 1).then(|| Square::new(40 + file.trailing_zeros()))
}
