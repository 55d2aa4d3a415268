//! A batch's forward pass as it is to be laid out: the network, and where input and output lie.

use super::ffi::hip::Address;
use super::network::DeviceNetwork;
use crate::net::input::InputPlanes;

/// Where a batch's input lies on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    /// One bit a square, `[B][112]` of 64 bits.
    pub(super) masks: Address,
    /// Of the rule-50 plane, `[B]` of fp32.
    pub(super) rule50: Address,
    /// `[B + 1]` of 32 bits: where each position's moves begin.
    pub(super) first_moves: Address,
    /// Policy indices of all positions' legal moves, 16 bits each.
    pub(super) moves: Address,
}

/// Where a batch's output goes on the device, all of it fp32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    /// `[B][3]`: win, draw, loss; or `[B]`: q.
    pub(super) value: Address,
    /// `[B]`: the value's error before its sigmoid; nothing where it is not evaluated.
    pub(super) value_error: Address,
    /// `[B]`: plies.
    pub(super) moves_left: Address,
    /// One per move, in the order of [`Input::moves`].
    pub(super) priors: Address,
}

/// What a pass is laid out for.
pub(super) struct Pass<'a> {
    pub(super) network: &'a DeviceNetwork,
    pub(super) input: Input,
    pub(super) output: Output,
    /// One over the policy's softmax temperature.
    pub(super) inverse_temperature: f32,
}

/// Bytes that a batch of so many positions and moves takes on its way in, and where its parts begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InputLayout {
    pub(super) rule50: usize,
    pub(super) first_moves: usize,
    pub(super) masks: usize,
    pub(super) moves: usize,
}

/// Legal moves of a position, at most: what shakmaty's lists hold.
pub(super) const MAXIMUM_MOVES: usize = 256;

impl InputLayout {
    /// For a bucket. The moves are last, so that a copy need not take more of them than there are.
    pub(super) fn new(bucket: usize) -> InputLayout {
        let masks = aligned(bucket * 4) + aligned((bucket + 1) * 4);
        let moves = masks + aligned(bucket * InputPlanes::COUNT * 8);
        InputLayout { rule50: 0, first_moves: aligned(bucket * 4), masks, moves }
    }

    /// Bytes with so many moves.
    pub(super) fn bytes(&self, moves: usize) -> usize {
        self.moves + moves * 2
    }

    /// The addresses on the device.
    pub(super) fn at(&self, base: Address) -> Input {
        Input {
            masks: base.offset(self.masks),
            rule50: base.offset(self.rule50),
            first_moves: base.offset(self.first_moves),
            moves: base.offset(self.moves),
        }
    }
}

/// As [`InputLayout`], for the way out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OutputLayout {
    pub(super) value: usize,
    pub(super) value_error: usize,
    pub(super) moves_left: usize,
    pub(super) priors: usize,
}

impl OutputLayout {
    /// For a bucket, the priors last; with room for the value's error or without.
    pub(super) fn new(bucket: usize, has_value_error: bool) -> OutputLayout {
        let value_error = aligned(bucket * 3 * 4);
        let moves_left = value_error + if has_value_error { aligned(bucket * 4) } else { 0 };
        OutputLayout { value: 0, value_error, moves_left, priors: moves_left + aligned(bucket * 4) }
    }

    /// Bytes with so many moves.
    pub(super) fn bytes(&self, moves: usize) -> usize {
        self.priors + moves * 4
    }

    /// The addresses on the device.
    pub(super) fn at(&self, base: Address) -> Output {
        Output {
            value: base.offset(self.value),
            value_error: base.offset(self.value_error),
            moves_left: base.offset(self.moves_left),
            priors: base.offset(self.priors),
        }
    }
}

fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_batch_do_not_overlap() {
        for bucket in [1, 3, 16, 100, 1024] {
            let input = InputLayout::new(bucket);
            assert!(input.rule50 + bucket * 4 <= input.first_moves);
            assert!(input.first_moves + (bucket + 1) * 4 <= input.masks);
            assert!(input.masks + bucket * InputPlanes::COUNT * 8 <= input.moves);
            assert!(input.masks.is_multiple_of(64) && input.moves.is_multiple_of(64));
            for has_value_error in [false, true] {
                let output = OutputLayout::new(bucket, has_value_error);
                let value_error = if has_value_error { bucket * 4 } else { 0 };
                assert!(output.value + bucket * 12 <= output.value_error);
                assert!(output.value_error + value_error <= output.moves_left);
                assert!(output.moves_left + bucket * 4 <= output.priors);
            }
        }
    }
}
