//! The forward pass as a list of steps. Each stage is a function, and comments give the shapes of every step.
//!
//! This file calls the stages. An attention body's embedding is in [`super::embedding`], its encoders are in
//! [`super::encoder`], a residual tower is in [`super::tower`], and the heads are in [`super::heads`]. B is the number
//! of positions, and T = 64 B is the number of squares. Activations have the layout `[position][square][channel]`, so
//! that the squares are the rows of a matrix. The steps have the names of the papers: *Attention is all you need*,
//! *Deep residual learning*, *Squeeze-and-excitation networks*.
//!
//! This code runs nothing on the device. It makes the list of steps once for each slot and bucket, and the slot later
//! enqueues or captures the list unchanged.

use super::arguments::Pass;
use super::embedding::embed;
use super::encoder;
use super::heads;
use super::steps::StepList;
use super::tower;
use crate::network::device_network::Body;
use crate::runtime::error::Result;

/// Appends the steps of the whole pass.
///
/// # Errors
/// The device's code lacks a kernel, no library can compute a GEMM, or the kernels do not support a layer.
pub(crate) fn forward(pass: &Pass<'_>, steps: &mut StepList<'_>) -> Result<()> {
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
