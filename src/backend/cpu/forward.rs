//! The forward pass: one function per stage, every step with its shapes.
//!
//! This file has the frame. A residual tower is in [`super::tower`], an encoder stack in [`super::encoder`], the heads
//! are in [`super::heads`]. B is the number of positions, T = 64 B the number of squares. Activations lie as
//! `[position][square][channel]`, so that the squares are the rows of a matrix. The steps have the names of the papers:
//! *Attention is all you need* for the encoder, *Deep residual learning* and *Squeeze-and-excitation networks* for the
//! tower.
//!
//! All memory is in [`Scratch`], which a thread keeps: once it has seen its largest batch, nothing is
//! allocated.

use super::kernels::SQUARES;
use super::layers::Body;
use super::network::{CpuNetwork, RawEvaluation};
use super::scratch::{Outputs, Scratch};
use crate::backend::Value;
use crate::net::input::InputPlanes;

impl CpuNetwork {
    /// Evaluates positions as one batch and returns the policy logits as they are. This is for tests and tools: a
    /// backend evaluates requests.
    pub fn evaluate_raw(&self, inputs: &[InputPlanes]) -> Vec<RawEvaluation> {
        let mut outputs = Outputs::default();
        self.forward(inputs, &mut Scratch::new(self.isa), &mut outputs);
        (0..inputs.len())
            .map(|i| {
                let logits = self.logits(&outputs, i);
                let Value { q, d, m, e } = self.value(&outputs, i);
                let policy = self.policy_places.iter().map(|&place| logits[usize::from(place)]).collect();
                RawEvaluation { policy, q, d, m, e }
            })
            .collect()
    }

    /// Evaluates all inputs into `outputs`.
    pub(super) fn forward(&self, inputs: &[InputPlanes], scratch: &mut Scratch, outputs: &mut Outputs) {
        let (policy_width, value_width) = (self.policy_width, self.layers.value.output.outputs());
        outputs.policy.grow_to(inputs.len() * policy_width);
        outputs.value.grow_to(inputs.len() * value_width);
        outputs.moves_left.grow_to(inputs.len());
        if self.layers.value_error.is_some() {
            outputs.value_error.grow_to(inputs.len());
        }
        // A large batch goes through in slices, whose activations stay in the caches.
        for (i, slice) in inputs.chunks(self.slice).enumerate() {
            let (first, count) = (i * self.slice, slice.len());
            let channels = self.body(slice, scratch);
            let value = &mut outputs.value[first * value_width..][..count * value_width];
            self.value_head(count, channels, scratch, value);
            if let Some(head) = &self.layers.value_error {
                let value_error = &mut outputs.value_error[first..][..count];
                self.value_error_head(head, count, channels, scratch, value_error);
            }
            if let Some(head) = &self.layers.moves_left {
                let moves_left = &mut outputs.moves_left[first..][..count];
                self.moves_left_head(head, count, channels, scratch, moves_left);
            }
            let policy = &mut outputs.policy[first * policy_width..][..count * policy_width];
            self.policy_head(count, channels, scratch, policy);
        }
    }

    /// Planes -> `stream [T][channels]`; returns the channels.
    fn body(&self, inputs: &[InputPlanes], scratch: &mut Scratch) -> usize {
        match &self.layers.body {
            Body::Convolution { input, blocks } => {
                self.tower(input, blocks, inputs, scratch);
                input.outputs()
            }
            Body::Attention { embedding, stack } => {
                self.embedding(embedding, stack, inputs, scratch);
                // Taken out, because the encoders borrow the rest of the scratch memory.
                let mut stream = std::mem::take(&mut scratch.stream);
                let x = &mut stream[..inputs.len() * SQUARES * embedding.width];
                self.encoders(stack, inputs.len(), x, scratch);
                scratch.stream = stream;
                embedding.width
            }
        }
    }
}
