//! The forward pass. Each stage is a function, and the comments give the shapes of its steps.
//!
//! This file calls the stages. The residual tower is in [`super::tower`], the encoder stack in [`super::encoder`], and
//! the heads are in [`super::heads`]. B is the number of positions, and T = 64 B is the number of squares. Activations
//! have the layout `[position][square][channel]`, so that the squares are the rows of a matrix. The steps are named as
//! in the papers: *Attention is all you need* for the encoder, *Deep residual learning* and *Squeeze-and-excitation
//! networks* for the tower.
//!
//! All memory is in [`Scratch`]. Each thread keeps its own, so that nothing is allocated after the thread's largest
//! batch.

use super::kernels::SQUARES;
use super::layers::Body;
use super::network::{CpuNetwork, RawEvaluation};
use super::scratch::{Outputs, Scratch};
use rukh_backend::Value;
use rukh_net::input::InputPlanes;

impl CpuNetwork {
    /// Evaluates positions as one batch and returns the policy logits before the softmax. Tests and tools use this; the
    /// search evaluates requests through a backend.
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

    /// Computes `stream [T][channels]` from the planes, and returns the number of channels.
    fn body(&self, inputs: &[InputPlanes], scratch: &mut Scratch) -> usize {
        match &self.layers.body {
            Body::Convolution { input, blocks } => {
                self.tower(input, blocks, inputs, scratch);
                input.outputs()
            }
            Body::Attention { embedding, stack } => {
                self.embedding(embedding, stack, inputs, scratch);
                // The stream is taken out, because the encoders borrow the rest of the scratch memory.
                let mut stream = std::mem::take(&mut scratch.stream);
                let x = &mut stream[..inputs.len() * SQUARES * embedding.width];
                self.encoders("encoder", stack, inputs.len(), x, scratch);
                scratch.stream = stream;
                embedding.width
            }
        }
    }
}
