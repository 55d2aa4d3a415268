//! The 112 input planes of a position with its history.

use super::InputFormat;
use crate::chess::PositionHistory;

/// What stands in the history planes before the game's first known position.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HistoryFill {
    /// Nothing (but for the one board that an en passant square proves).
    No,
    /// The oldest board again, unless the game began at the usual start.
    #[default]
    FenOnly,
    /// The oldest board again, always.
    Always,
}

/// 112 planes of 64 squares, from the side to move's view: bit `8 * rank + file` of `masks[plane]`.
/// Every plane's value is 1 where its bit is set, except [`InputPlanes::RULE50_PLANE`].
#[derive(Clone, PartialEq, Debug)]
pub struct InputPlanes {
    /// One bit a square.
    pub masks: [u64; 112],
    /// The value of the rule-50 plane's set bits (it can be 0 with all bits set).
    pub rule50_value: f32,
}

impl InputPlanes {
    /// The only plane whose value is not 1.
    pub const RULE50_PLANE: usize = 109;
}

/// Encodes the last position of `history`. Returns the planes and the board transform (0…7, see
/// [`super::policy_index`]) that was applied to them and must be applied to the policy.
pub fn encode(_history: &PositionHistory, _format: InputFormat, _fill: HistoryFill) -> (InputPlanes, u8) {
    todo!()
}
