//! The 1858 policy outputs and the moves they stand for.

use crate::chess::{Color, PackedMove};

/// How many outputs a policy head has.
pub const POLICY_SIZE: usize = 1858;

/// The policy index of a legal move of `side`, under board transform `transform` (bit 0 mirror files,
/// bit 1 mirror ranks, bit 2 transpose; 0 where the input format is not canonical).
pub fn index_of(_m: PackedMove, _side: Color, _transform: u8) -> u16 {
    todo!()
}

/// The inverse of [`index_of`] for a policy index below [`POLICY_SIZE`].
pub fn move_at(_index: u16, _side: Color, _transform: u8) -> PackedMove {
    todo!()
}

/// For each of an attention policy's 4096 + 192 logits (layout in the project's docs: from * 64 + to, then
/// 4096 + 24 * from file + 3 * to file + piece), the policy index or `None`.
pub fn attention_index(_logit: usize) -> Option<u16> {
    todo!()
}
