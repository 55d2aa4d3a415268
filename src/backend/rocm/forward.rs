//! The forward pass as a list of steps: one function per stage, every step with its shapes.
//!
//! This file has the frame. An attention body's embedding is in [`super::embedding`], its encoders are in
//! [`super::encoder`], a residual tower is in [`super::tower`], the heads are in [`super::heads`]. B is the number of
//! positions, T = 64 B the number of squares. Activations lie as `[position][square][channel]`, so that the squares are
//! the rows of a matrix. The steps have the names of the papers: *Attention is all you need*, *Deep residual learning*,
//! *Squeeze-and-excitation networks*.
//!
//! Nothing runs here: the steps are laid out once per slot and bucket, then enqueued or captured as they are.

use super::embedding::embed;
use super::encoder;
use super::error::Result;
use super::heads;
use super::network::Body;
use super::pass::Pass;
use super::steps::StepList;
use super::tower;

/// Lays the whole pass out.
///
/// # Errors
/// A kernel that the device's code lacks, a product that no library takes, a layer beyond the kernels.
pub(super) fn forward(pass: &Pass<'_>, steps: &mut StepList<'_>) -> Result<()> {
    // planes -> stream [T][channels]
    let stream = match &pass.network.layers.body {
        Body::Convolution { input, blocks } => tower::tower(pass, input, blocks, steps)?,
        Body::Attention { embedding, stack } => {
            let stream = embed(pass, embedding, stack, steps)?;
            encoder::encoders("encoder", stack, pass, (stream, embedding.width), steps)?;
            stream
        }
    };
    heads::heads(pass, stream, steps)
}
