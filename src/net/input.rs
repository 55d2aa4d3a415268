//! The 112 input planes of a position with its history.
//!
//! Eight boards of 13 planes each, newest first, then eight planes about the whole:
//!
//! | planes | what |
//! |---|---|
//! | 13 b + 0…5 | board b: our pawns, knights, bishops, rooks, queens, king |
//! | 13 b + 6…11 | theirs |
//! | 13 b + 12 | all ones if this board had stood before |
//! | 104…107 | format 1: our O-O-O, our O-O, their O-O-O, their O-O, all ones or nothing |
//! | 104, 105 | other formats: rooks that can still castle on the a-side, on the h-side |
//! | 108 | formats 1 and 2: all ones if Black moves; canonical: the en passant file, on the eighth rank |
//! | 109 | plies since the last capture or pawn move; in hundredths from format 4 on |
//! | 110 | armageddon formats: all ones if Black moves |
//! | 111 | all ones |
//!
//! "We" are the side to move, and everything is seen from its side: for Black all ranks are flipped, in
//! the older boards too.
//!
//! **Canonical formats** (3 and up) turn the board so that equal positions look equal: our king goes to
//! the files e-h; without pawns also to the ranks 1-4, and below the diagonal h1-a8 (on the diagonal, the
//! first set of pieces that is not its own reflection decides). No turning while anybody may castle. They
//! also show history only as far as it can be repeated from: it ends at a capture or pawn move, at other
//! castling rights, and at an en passant square.
//!
//! **Version 2 formats** (5 and 133) show, beside the newest board, only boards that had stood before,
//! and so up to eight of those. Where the game has no older board left, lc0 goes on asking its oldest
//! board whether it was a repetition; if it was not and neither was it zeroing, lc0 never stops asking, and
//! crashes. Here the history simply ends: a board that had not stood before is not shown, so however
//! often it were asked nothing would follow.
//!
//! The hot path is [`encode`], once per evaluated leaf: bitboards straight from shakmaty, no allocation.

use super::InputFormat;
use crate::chess::{Color, Position, PositionHistory, Role};
pub use crate::options::HistoryFill;
use shakmaty::{Bitboard, Board, Castles, CastlingSide, Position as _};

/// 112 planes of 64 squares, from the side to move's view: bit `8 * rank + file` of `masks[plane]`.
/// Every plane's value is 1 where its bit is set, except [`InputPlanes::RULE50_PLANE`].
#[derive(Clone, PartialEq, Debug)]
pub struct InputPlanes {
    /// One bit a square.
    pub masks: [u64; InputPlanes::COUNT],
    /// The value of the rule-50 plane's set bits (it can be 0 with all bits set).
    pub rule50_value: f32,
}

impl InputPlanes {
    /// How many planes there are.
    pub const COUNT: usize = 112;
    /// The first so many are the newest board's pieces, ours and theirs.
    pub const PIECES: usize = 12;
    /// The only plane whose value is not 1.
    pub const RULE50_PLANE: usize = 109;
}

/// Boards shown.
const BOARDS: usize = 8;
/// Planes of one board.
const PLANES_PER_BOARD: usize = 13;
/// Where the planes about the whole begin.
const AUXILIARY: usize = BOARDS * PLANES_PER_BOARD;
/// The last plane that a transform turns.
const LAST_TURNED: usize = AUXILIARY + 4;
const ALL: u64 = !0;

/// Encodes the last position of `history`. Returns the planes and the board transform (0…7, see
/// [`super::policy_index`]) that was applied to them and must be applied to the policy.
pub fn encode(history: &PositionHistory, format: InputFormat, fill: HistoryFill) -> (InputPlanes, u8) {
    let mut masks = [0; InputPlanes::COUNT];
    let last = history.last();
    let us = last.side_to_move();
    write_auxiliary(&mut masks, last, format);
    write_boards(&mut masks, history.positions(), us, format, fill);
    let transform = if is_canonical(format) { choose_transform(last) } else { 0 };
    if transform != 0 {
        for mask in &mut masks[..=LAST_TURNED] {
            *mask = turn(*mask, transform);
        }
    }
    let rule50 = f32::from(last.rule50_ply());
    let rule50_value = if in_hundredths(format) { rule50 / 100.0 } else { rule50 };
    (InputPlanes { masks, rule50_value }, transform)
}

fn is_canonical(format: InputFormat) -> bool {
    !matches!(format, InputFormat::Classical112 | InputFormat::CastlingPlane)
}

fn in_hundredths(format: InputFormat) -> bool {
    is_canonical(format) && format != InputFormat::Canonical
}

fn is_armageddon(format: InputFormat) -> bool {
    matches!(format, InputFormat::CanonicalHectopliesArmageddon | InputFormat::CanonicalV2Armageddon)
}

fn shows_repetitions_only(format: InputFormat) -> bool {
    matches!(format, InputFormat::CanonicalV2 | InputFormat::CanonicalV2Armageddon)
}

/// `mask` as `us` sees it.
#[inline]
fn seen_by(us: Color, mask: Bitboard) -> u64 {
    if us.is_white() { mask.0 } else { mask.0.swap_bytes() }
}

/// The planes about the whole.
fn write_auxiliary(masks: &mut [u64; InputPlanes::COUNT], last: &Position, format: InputFormat) {
    let us = last.side_to_move();
    let castles = last.board().castles();
    let all_if = |condition| if condition { ALL } else { 0 };
    let auxiliary = &mut masks[AUXILIARY..];
    if format == InputFormat::Classical112 {
        auxiliary[0] = all_if(castles.has(us, CastlingSide::QueenSide));
        auxiliary[1] = all_if(castles.has(us, CastlingSide::KingSide));
        auxiliary[2] = all_if(castles.has(!us, CastlingSide::QueenSide));
        auxiliary[3] = all_if(castles.has(!us, CastlingSide::KingSide));
    } else {
        let rooks = |side| {
            let rooks = Color::ALL.into_iter().filter_map(|color| castles.rook(color, side));
            seen_by(us, Bitboard::from_iter(rooks))
        };
        auxiliary[0] = rooks(CastlingSide::QueenSide);
        auxiliary[1] = rooks(CastlingSide::KingSide);
    }
    auxiliary[4] = if is_canonical(format) {
        last.en_passant().map_or(0, |square| 1 << (56 + u32::from(square.file())))
    } else {
        all_if(us.is_black())
    };
    auxiliary[5] = ALL;
    auxiliary[6] = all_if(is_armageddon(format) && us.is_black());
    auxiliary[7] = ALL;
}

/// The history, newest first.
fn write_boards(
    masks: &mut [u64; InputPlanes::COUNT],
    positions: &[Position],
    us: Color,
    format: InputFormat,
    fill: HistoryFill,
) {
    let canonical = is_canonical(format);
    let repetitions_only = shows_repetitions_only(format);
    let Some((newest, oldest)) = positions.last().zip(positions.first()) else {
        return;
    };
    let rights = castling_rights(newest.board().castles());
    let may_fill_all = match fill {
        HistoryFill::No => false,
        HistoryFill::FenOnly => !is_usual_start(oldest),
        HistoryFill::Always => true,
    };

    let mut slots = masks[..AUXILIARY].chunks_exact_mut(PLANES_PER_BOARD);
    let mut older = 0;
    let mut boards_left = BOARDS;
    while boards_left > 0 {
        let known = older < positions.len();
        let position = if known { &positions[positions.len() - 1 - older] } else { oldest };
        let en_passant = position.en_passant();
        if canonical && castling_rights(position.board().castles()) != rights {
            break;
        }
        if canonical && older > 0 && en_passant.is_some() {
            break;
        }
        // An en passant square tells the one move before it.
        let proven = fill == HistoryFill::No && older == positions.len() && en_passant.is_some();
        if !known && !may_fill_all && !proven {
            break;
        }
        older += 1;
        if repetitions_only && position.repetitions() == 0 && boards_left < BOARDS {
            // Copies of the oldest board would all be left out like it.
            if position.rule50_ply() == 0 || !known {
                break;
            }
            continue;
        }
        let Some(slot) = slots.next() else { break };
        write_board(slot, position, us);
        if !known && let Some(square) = en_passant {
            undo_double_push(slot, square.file() as u32, position.side_to_move() != us);
        }
        boards_left -= 1;
        if canonical && position.rule50_ply() == 0 {
            break;
        }
    }
}

/// One board's 13 planes.
#[inline]
fn write_board(slot: &mut [u64], position: &Position, us: Color) {
    let board = position.board().board();
    let (ours, theirs) = (board.by_color(us), board.by_color(!us));
    for (plane, role) in Role::ALL.into_iter().enumerate() {
        let pieces = board.by_role(role);
        slot[plane] = seen_by(us, pieces & ours);
        slot[plane + 6] = seen_by(us, pieces & theirs);
    }
    slot[12] = if position.repetitions() > 0 { ALL } else { 0 };
}

/// Puts the pawn that went over an en passant square back to where it came from, so that a made-up board is
/// the one before that move.
fn undo_double_push(slot: &mut [u64], file: u32, pawn_is_ours: bool) {
    if pawn_is_ours {
        slot[0] = slot[0] & !(1 << (24 + file)) | 1 << (8 + file);
    } else {
        slot[6] = slot[6] & !(1 << (32 + file)) | 1 << (48 + file);
    }
}

/// The four rights as bits, whatever files the rooks stand on.
fn castling_rights(castles: &Castles) -> u8 {
    let mut rights = 0;
    for color in Color::ALL {
        for side in CastlingSide::ALL {
            rights = rights << 1 | u8::from(castles.has(color, side));
        }
    }
    rights
}

/// Whether this is the usual first position of a game; counters do not matter.
fn is_usual_start(position: &Position) -> bool {
    position.side_to_move().is_white()
        && position.board().castles().castling_rights() == Bitboard::CORNERS
        && position.board().board() == &Board::new()
}

/// How a canonical format turns the board (transform bits as in [`super::policy_index`]).
fn choose_transform(position: &Position) -> u8 {
    use super::policy_index::{MIRROR_FILES, MIRROR_RANKS, TRANSPOSE};
    const FILES_A_TO_D: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    const RANKS_5_TO_8: u64 = 0xffff_ffff_0000_0000;
    /// With the king in e1-h4: the squares above the diagonal h1-e4, and that diagonal.
    const ABOVE_DIAGONAL: u64 = 0xe0c0_8000;
    const DIAGONAL: u64 = 0x1020_4080;

    if position.board().castles().any() {
        return 0;
    }
    let us = position.side_to_move();
    let board = position.board().board();
    let king = seen_by(us, board.kings() & board.by_color(us));
    let mut transform = 0;
    if king & FILES_A_TO_D != 0 {
        transform |= MIRROR_FILES;
    }
    if board.pawns().any() {
        return transform;
    }
    if king & RANKS_5_TO_8 != 0 {
        transform |= MIRROR_RANKS;
    }
    let king = turn(king, transform);
    if king & ABOVE_DIAGONAL != 0 {
        return transform | TRANSPOSE;
    }
    if king & DIAGONAL != 0 {
        let ours = board.by_color(us);
        let sets = [
            board.occupied(),
            ours,
            board.kings(),
            board.queens(),
            board.rooks(),
            board.knights(),
            board.bishops(),
        ];
        for set in sets {
            let set = turn(seen_by(us, set), transform);
            let reflected = turn(set, TRANSPOSE);
            if set != reflected {
                return if set < reflected { transform } else { transform | TRANSPOSE };
            }
        }
    }
    transform
}

/// Mirrors files, then ranks, then reflects in the diagonal h1-a8, as the bits of `transform` say.
fn turn(mask: u64, transform: u8) -> u64 {
    use super::policy_index::{MIRROR_FILES, MIRROR_RANKS, TRANSPOSE};
    let mut mask = Bitboard(mask);
    if transform & MIRROR_FILES != 0 {
        mask = mask.flip_horizontal();
    }
    if transform & MIRROR_RANKS != 0 {
        mask = mask.flip_vertical();
    }
    if transform & TRANSPOSE != 0 {
        mask = mask.flip_anti_diagonal();
    }
    mask.0
}
