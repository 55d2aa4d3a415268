//! The arguments of a forward pass: the network, and the layout and addresses of a batch's input and output.

use crate::network::device_network::DeviceNetwork;
use crate::runtime::ffi::hip::Address;
use rukh_net::input::InputPlanes;

/// The addresses of a batch's input on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    /// The planes, `[B][112]` of 64 bits: one bit per square.
    pub(crate) masks: Address,
    /// The value of the rule-50 plane, `[B]` of fp32.
    pub(crate) rule50: Address,
    /// The index of each position's first move in `moves`, then the number of all moves, `[B + 1]` of 32 bits.
    pub(crate) first_moves: Address,
    /// The policy indices of all positions' legal moves, 16 bits each.
    pub(crate) moves: Address,
}

/// The addresses of a batch's output on the device. All numbers are fp32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// `[B][3]`: win, draw and loss. Or `[B]`: q.
    pub(crate) value: Address,
    /// `[B]`: the value's error before its sigmoid. Not written if the network has no value-error head.
    pub(crate) value_error: Address,
    /// `[B]`: plies to the end of the game.
    pub(crate) moves_left: Address,
    /// One probability per move, in the order of [`Input::moves`].
    pub(crate) priors: Address,
}

/// The network and the buffers of a forward pass, from which its steps are made.
pub(crate) struct Pass<'a> {
    pub(crate) network: &'a DeviceNetwork,
    pub(crate) input: Input,
    pub(crate) output: Output,
    /// The reciprocal of the policy's softmax temperature.
    pub(crate) inverse_temperature: f32,
}

/// The offsets, in bytes, of the parts of a batch's input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InputLayout {
    pub(crate) rule50: usize,
    pub(crate) first_moves: usize,
    pub(crate) masks: usize,
    pub(crate) moves: usize,
}

/// The most legal moves that a position can have: the capacity of shakmaty's move lists.
pub(crate) const MAXIMUM_MOVES: usize = 256;

impl InputLayout {
    /// The layout for `bucket` positions. The moves are last, so that a copy can end after the last move.
    pub(crate) fn new(bucket: usize) -> InputLayout {
        let masks = aligned(bucket * 4) + aligned((bucket + 1) * 4);
        let moves = masks + aligned(bucket * InputPlanes::COUNT * 8);
        InputLayout { rule50: 0, first_moves: aligned(bucket * 4), masks, moves }
    }

    /// The size in bytes of an input with `moves` moves.
    pub(crate) fn bytes(&self, moves: usize) -> usize {
        self.moves + moves * 2
    }

    /// The addresses of the parts if the input begins at `base`.
    pub(crate) fn at(&self, base: Address) -> Input {
        Input {
            masks: base.offset(self.masks),
            rule50: base.offset(self.rule50),
            first_moves: base.offset(self.first_moves),
            moves: base.offset(self.moves),
        }
    }
}

/// The offsets, in bytes, of the parts of a batch's output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OutputLayout {
    pub(crate) value: usize,
    pub(crate) value_error: usize,
    pub(crate) moves_left: usize,
    pub(crate) priors: usize,
}

impl OutputLayout {
    /// The layout for `bucket` positions, with or without room for the value's error. The priors are last.
    pub(crate) fn new(bucket: usize, has_value_error: bool) -> OutputLayout {
        let value_error = aligned(bucket * 3 * 4);
        let moves_left = value_error + if has_value_error { aligned(bucket * 4) } else { 0 };
        OutputLayout { value: 0, value_error, moves_left, priors: moves_left + aligned(bucket * 4) }
    }

    /// The size in bytes of an output with `moves` moves.
    pub(crate) fn bytes(&self, moves: usize) -> usize {
        self.priors + moves * 4
    }

    /// The addresses of the parts if the output begins at `base`.
    pub(crate) fn at(&self, base: Address) -> Output {
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
