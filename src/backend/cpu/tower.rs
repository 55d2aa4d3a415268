//! The forward pass of a residual tower. [`super::forward`] explains the shapes.

use super::kernels::SQUARES;
use super::kernels::convolution::Finish;
use super::kernels::planes::PlaneConvolution;
use super::kernels::scale::ScaleAndAdd;
use super::layers::ResidualBlock;
use super::network::CpuNetwork;
use super::recorder::Work;
use super::scratch::Scratch;
use rukh_net::architecture::Activation;
use rukh_net::input::InputPlanes;
use rukh_net::network::SqueezeExcitation;

impl CpuNetwork {
    /// Planes -> `stream [T][filters]`.
    pub(super) fn tower(
        &self,
        input: &PlaneConvolution,
        blocks: &[ResidualBlock],
        inputs: &[InputPlanes],
        scratch: &mut Scratch,
    ) {
        scratch.steps.recorder.enter("input", None);
        self.input_convolution(input, inputs, scratch);
        for (index, block) in blocks.iter().enumerate() {
            scratch.steps.recorder.enter("block", Some(index));
            self.block(block, inputs.len(), input.outputs(), scratch);
        }
    }

    /// Planes `[B][112][64]` -> conv 3x3 -> act -> `stream [T][filters]`.
    fn input_convolution(&self, input: &PlaneConvolution, inputs: &[InputPlanes], scratch: &mut Scratch) {
        let board = SQUARES * input.outputs();
        scratch.stream.grow_to(inputs.len() * board);
        let x = &mut scratch.stream[..inputs.len() * board];
        for (planes, to) in inputs.iter().zip(x.chunks_exact_mut(board.max(1))) {
            input.run(planes, to, &mut scratch.hidden);
        }
        let size = x.len();
        scratch.steps.recorder.lap("convolution", || Work::moving(size));
        scratch.steps.activate("activation", self.layers.activation(), x);
    }

    /// A residual block: `x = act(SE(conv2(act(conv1 x))) + x)`, x `[T][filters]`.
    fn block(&self, block: &ResidualBlock, positions: usize, filters: usize, scratch: &mut Scratch) {
        let Scratch { steps, stream, wide, branch, generated: pooled, hidden, .. } = scratch;
        let (isa, activation) = (steps.isa, self.layers.activation());
        let size = positions * SQUARES * filters;
        let x = &mut stream[..size];
        wide.grow_to(size);
        // [T][filters] -> conv 3x3 -> act -> [T][filters]
        let finish = Finish::Activate(activation);
        steps.convolve("conv1", &block.conv1, positions, x, wide, finish);
        let Some(SqueezeExcitation { squeeze, excite }) = &block.se else {
            // [T][filters] -> conv 3x3 -> + x -> act -> [T][filters]
            let finish = Finish::AddToOutput(activation);
            steps.convolve("conv2", &block.conv2, positions, wide, x, finish);
            return;
        };
        // -> conv 3x3 -> [T][filters], and its means over the squares -> [B][filters]
        branch.grow_to(size);
        pooled.grow_to(positions * filters);
        let finish = Finish::Pool(pooled);
        steps.convolve("conv2", &block.conv2, positions, wide, branch, finish);
        // [B][filters] -> squeeze -> act -> [B][se] -> excite -> [B][2 filters]
        steps.dense("squeeze", squeeze, positions, pooled, hidden, activation);
        steps.dense("excite", excite, positions, hidden, pooled, Activation::None);
        // x = act(sigmoid(first half) * branch + second half + x)
        isa.run(ScaleAndAdd {
            y: &branch[..size],
            excitation: &mut pooled[..positions * 2 * filters],
            residual: x,
            channels: filters,
            activation,
        });
        steps.recorder.lap("SE", || Work::moving(3 * size));
    }
}
