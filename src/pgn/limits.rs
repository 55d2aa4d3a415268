//! The limits of a game, so that a damaged or hostile file cannot fill the memory.

/// The most variations inside each other.
pub(super) const DEEPEST_VARIATION: usize = 64;

/// The most moves of a game. No game by the rules is longer than about 18000 plies.
pub const MOST_PLIES: usize = 20_000;

/// The most bytes of one game.
pub(super) const MOST_BYTES: usize = 4 << 20;

/// The longest comment, in bytes.
pub(super) const LONGEST_COMMENT: usize = 1 << 19;

/// Why a game of more than [`MOST_BYTES`] is refused.
pub(super) fn too_long() -> String {
    format!("the game is longer than {MOST_BYTES} bytes")
}

/// Why a comment of more than [`LONGEST_COMMENT`] bytes is refused.
pub(super) fn long_comment() -> String {
    format!("a comment is longer than {LONGEST_COMMENT} bytes")
}
