//! The last step of a convolution.

use rukh_net::architecture::Activation;

/// What becomes of the sums of a convolution.
pub(crate) enum Finish<'a> {
    /// `y = act(sum + bias)`
    Activate(Activation),
    /// `y = act(sum + bias + y)`, where y contains the residual.
    AddToOutput(Activation),
    /// `y = sum + bias`. The mean of y over the board is written to `[position][output]`.
    Pool(&'a mut [f32]),
}
