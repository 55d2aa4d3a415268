//! The operands of a product.

use super::pack::PackedMatrix;
use super::rounding::RoundedRows;
use rukh_net::architecture::Activation;

/// Computes `y = act(x W^T + b)` or, with `accumulate`, `y = act(y + x W^T)`. Here x is `[rows][inputs]`, W is
/// `[outputs][inputs]` and y is `[rows][outputs]`.
pub(crate) struct MatrixProduct<'a> {
    pub weights: &'a PackedMatrix,
    /// The index of the matrix in `weights`: 0 if there is only one.
    pub which: usize,
    pub x: &'a [f32],
    /// Elements from the start of one row of x to the start of the next.
    pub x_stride: usize,
    pub y: &'a mut [f32],
    /// Elements from the start of one row of y to the start of the next.
    pub y_stride: usize,
    pub rows: usize,
    /// The function `act`. Softmax applies to each row of y.
    pub activation: Activation,
    /// Whether the sums start with y instead of the biases.
    pub accumulate: bool,
    /// Memory for x in the format of the weights. It grows as needed.
    pub rounded: &'a mut RoundedRows,
}
