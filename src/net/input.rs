//! Encodes a position and its history as the 112 input planes of lc0's networks.
//!
//! The planes are eight boards of 13 planes each, newest first, and eight auxiliary planes. The numbers of the
//! formats are those of [`InputFormat`]:
//!
//! | planes | contents |
//! |---|---|
//! | 13 b + 0…5 | board b: our pawns, knights, bishops, rooks, queens, king |
//! | 13 b + 6…11 | board b: their pawns, knights, bishops, rooks, queens, king |
//! | 13 b + 12 | all ones if the position of board b is a repetition |
//! | 104…107 | format 1: our O-O-O, our O-O, their O-O-O, their O-O; each is all ones or all zeros |
//! | 104, 105 | other formats: the rooks that can still castle to the a-side, to the h-side |
//! | 108 | formats 1 and 2: all ones if Black is to move; canonical formats: the en passant file, on the eighth rank |
//! | 109 | the number of plies since the last capture or pawn move; divided by 100 except in formats 1, 2 and 3 |
//! | 110 | armageddon formats: all ones if Black is to move |
//! | 111 | all ones |
//!
//! "We" are the side to move. All boards, older ones too, are seen from our side: if we are Black, the ranks
//! are flipped.
//!
//! **Canonical formats** (all except 1 and 2) transform the board so that symmetrical positions have the same
//! planes. Our king goes to the files e-h. If there are no pawns, it also goes to the ranks 1-4, and below the
//! diagonal h1-a8; if it is on that diagonal, the first set of pieces that is not its own reflection decides.
//! The board is not transformed while either side has a castling right. The history of these formats contains
//! only positions that could be repeated: it ends at a capture or pawn move, at a change of castling rights,
//! and at an en passant square.
//!
//! **Version 2 formats** (5 and 133) encode the newest board and, of the older ones, only those that are
//! repetitions, so they reach farther back. If fewer than eight boards have been found when the game has no
//! older position, lc0 checks the oldest position again and again. If that position is neither a repetition nor
//! the result of a capture or pawn move, lc0 never leaves this loop and crashes. Rukh ends the history there,
//! because a position that is not a repetition would not be encoded however often it were checked.
//!
//! [`encode`] is on the hot path: it runs once for each evaluated leaf. It copies shakmaty's bitboards and does
//! not allocate.

use super::InputFormat;
use rukh_chess::{Color, Position, PositionHistory, Role, Square};
pub use rukh_options::HistoryFill;
use shakmaty::{Bitboard, Board, CastlingSide, Position as _};

/// The 112 input planes, seen from the side to move. Bit `8 * rank + file` of `masks[plane]` is the square; a
/// set bit means the value 1, except in [`InputPlanes::RULE50_PLANE`].
#[derive(Clone, PartialEq, Debug)]
pub struct InputPlanes {
    /// One bit for each square of each plane.
    pub masks: [u64; InputPlanes::COUNT],
    /// The value of the set bits of [`Self::RULE50_PLANE`]. All bits of that plane are set even if the value is
    /// 0.
    pub rule50_value: f32,
}

impl InputPlanes {
    /// The number of planes.
    pub const COUNT: usize = 112;
    /// The number of planes with pieces of the newest board. They are the first planes.
    pub const PIECES: usize = 12;
    /// The plane whose set bits mean [`Self::rule50_value`] instead of 1.
    pub const RULE50_PLANE: usize = 109;
}

/// The largest number of boards in the planes.
const BOARDS: usize = 8;
const PLANES_PER_BOARD: usize = 13;
/// The first auxiliary plane.
const AUXILIARY: usize = BOARDS * PLANES_PER_BOARD;
/// The last plane that a board transform changes: that of the en passant file.
const LAST_TRANSFORMED: usize = AUXILIARY + 4;
const ALL: u64 = !0;

/// Encodes the last position of `history`. `fill` determines the boards before the first position of the game.
/// Returns the planes and the board transform that was applied to them (0…7, see [`super::policy_index`]). The
/// caller must pass the transform to [`index_of`](super::policy_index::index_of) to find moves in the policy.
pub fn encode(history: &PositionHistory, format: InputFormat, fill: HistoryFill) -> (InputPlanes, u8) {
    encode_shown(history.last(), history.positions(), format, fill)
}

/// What the planes show of every position of the history; of the newest one they show more.
pub trait Shown {
    /// The pieces of this role and color.
    fn pieces(&self, role: Role, color: Color) -> Bitboard;
    /// The four castling rights as bits, in any order, independent of the files of the rooks.
    fn rights(&self) -> u8;
    /// The square that a double push skipped, in lc0's sense.
    fn en_passant(&self) -> Option<Square>;
    /// The colour of the side to move.
    fn side_to_move(&self) -> Color;
    /// Plies since the last capture or pawn move.
    fn rule50_ply(&self) -> u16;
    /// How often the position occurred before.
    fn repetitions(&self) -> u8;
    /// Whether this is the starting position of standard chess, whatever its move counters.
    fn is_standard_start(&self) -> bool;
}

impl Shown for Position {
    #[inline]
    fn pieces(&self, role: Role, color: Color) -> Bitboard {
        self.board().board().by_role(role) & self.board().board().by_color(color)
    }

    fn rights(&self) -> u8 {
        let mut rights = 0;
        for color in Color::ALL {
            for side in CastlingSide::ALL {
                rights = rights << 1 | u8::from(self.board().castles().has(color, side));
            }
        }
        rights
    }

    fn en_passant(&self) -> Option<Square> {
        self.en_passant()
    }

    fn side_to_move(&self) -> Color {
        self.side_to_move()
    }

    fn rule50_ply(&self) -> u16 {
        self.rule50_ply()
    }

    fn repetitions(&self) -> u8 {
        self.repetitions()
    }

    fn is_standard_start(&self) -> bool {
        self.side_to_move().is_white()
            && self.board().castles().castling_rights() == Bitboard::CORNERS
            && self.board().board() == &Board::new()
    }
}

/// Does the same as [`encode`] for positions in another form, oldest first. `last` is the newest one as a
/// [`Position`].
pub fn encode_shown<P: Shown>(
    last: &Position,
    positions: &[P],
    format: InputFormat,
    fill: HistoryFill,
) -> (InputPlanes, u8) {
    let mut masks = [0; InputPlanes::COUNT];
    write_auxiliary(&mut masks, last, format);
    write_boards(&mut masks, positions, last.side_to_move(), format, fill);
    let transform = if is_canonical(format) { choose_transform(last) } else { 0 };
    if transform != 0 {
        for mask in &mut masks[..=LAST_TRANSFORMED] {
            *mask = transformed(*mask, transform);
        }
    }
    let rule50 = f32::from(last.rule50_ply());
    let rule50_value = if divides_rule50_by_100(format) { rule50 / 100.0 } else { rule50 };
    (InputPlanes { masks, rule50_value }, transform)
}

/// Whether `format` shows older positions only if they are repetitions, and so reaches farther back than eight.
pub fn encodes_only_repetitions(format: InputFormat) -> bool {
    matches!(format, InputFormat::CanonicalV2 | InputFormat::CanonicalV2Armageddon)
}

/// Whether `format` transforms the board so that symmetrical positions have the same planes.
pub fn is_canonical(format: InputFormat) -> bool {
    !matches!(format, InputFormat::Classical112 | InputFormat::CastlingPlane)
}

/// Whether the value of [`InputPlanes::RULE50_PLANE`] is a share of 100 plies.
pub fn divides_rule50_by_100(format: InputFormat) -> bool {
    is_canonical(format) && format != InputFormat::Canonical
}

/// Whether plane 110 says that Black is to move.
pub fn is_armageddon(format: InputFormat) -> bool {
    matches!(format, InputFormat::CanonicalHectopliesArmageddon | InputFormat::CanonicalV2Armageddon)
}

/// `mask` from the point of view of `us`: the ranks are flipped for Black.
#[inline]
fn seen_by(us: Color, mask: Bitboard) -> u64 {
    if us.is_white() { mask.0 } else { mask.0.swap_bytes() }
}

/// Writes the eight auxiliary planes.
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

/// Writes the boards of the history, newest first.
fn write_boards<P: Shown>(
    masks: &mut [u64; InputPlanes::COUNT],
    positions: &[P],
    us: Color,
    format: InputFormat,
    fill: HistoryFill,
) {
    let canonical = is_canonical(format);
    let repetitions_only = encodes_only_repetitions(format);
    let Some((newest, oldest)) = positions.last().zip(positions.first()) else {
        return;
    };
    let rights = newest.rights();
    let may_fill_all = match fill {
        HistoryFill::No => false,
        HistoryFill::FenOnly => !oldest.is_standard_start(),
        HistoryFill::Always => true,
    };

    let mut slots = masks[..AUXILIARY].chunks_exact_mut(PLANES_PER_BOARD);
    let mut older = 0;
    let mut boards_left = BOARDS;
    while boards_left > 0 {
        let in_game = older < positions.len();
        let position = if in_game { &positions[positions.len() - 1 - older] } else { oldest };
        let en_passant = position.en_passant();
        if canonical && position.rights() != rights {
            break;
        }
        if canonical && older > 0 && en_passant.is_some() {
            break;
        }
        // An en passant square implies the double push before the oldest position, and so the board before
        // that.
        let implied = fill == HistoryFill::No && older == positions.len() && en_passant.is_some();
        if !in_game && !may_fill_all && !implied {
            break;
        }
        older += 1;
        if repetitions_only && position.repetitions() == 0 && boards_left < BOARDS {
            // Beyond the oldest position, every further board would be a copy of it and be left out too.
            if position.rule50_ply() == 0 || !in_game {
                break;
            }
            continue;
        }
        let Some(slot) = slots.next() else { break };
        write_board(slot, position, us);
        if !in_game && let Some(square) = en_passant {
            undo_double_push(slot, square.file() as u32, position.side_to_move() != us);
        }
        boards_left -= 1;
        if canonical && position.rule50_ply() == 0 {
            break;
        }
    }
}

/// Writes the 13 planes of one board.
#[inline]
fn write_board(slot: &mut [u64], position: &impl Shown, us: Color) {
    for (plane, role) in Role::ALL.into_iter().enumerate() {
        slot[plane] = seen_by(us, position.pieces(role, us));
        slot[plane + 6] = seen_by(us, position.pieces(role, !us));
    }
    slot[12] = if position.repetitions() > 0 { ALL } else { 0 };
}

/// Moves the pawn that has just passed the en passant square of `file` back to its starting square, so that a
/// board before the first position of the game is the one before the double push.
fn undo_double_push(slot: &mut [u64], file: u32, pawn_is_ours: bool) {
    if pawn_is_ours {
        slot[0] = slot[0] & !(1 << (24 + file)) | 1 << (8 + file);
    } else {
        slot[6] = slot[6] & !(1 << (32 + file)) | 1 << (48 + file);
    }
}

/// The board transform of the canonical formats, as bits of [`super::policy_index`].
fn choose_transform(position: &Position) -> u8 {
    use super::policy_index::{MIRROR_FILES, MIRROR_RANKS, TRANSPOSE};
    const FILES_A_TO_D: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    const RANKS_5_TO_8: u64 = 0xffff_ffff_0000_0000;
    // The king is in the quarter e1-h4: the squares above the diagonal h1-e4, and the diagonal itself.
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
    let king = transformed(king, transform);
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
            let set = transformed(seen_by(us, set), transform);
            let reflected = transformed(set, TRANSPOSE);
            if set != reflected {
                return if set < reflected { transform } else { transform | TRANSPOSE };
            }
        }
    }
    transform
}

/// Applies the bits of `transform` to `mask`: mirrors the files, mirrors the ranks, and reflects in the
/// diagonal h1-a8.
fn transformed(mask: u64, transform: u8) -> u64 {
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
