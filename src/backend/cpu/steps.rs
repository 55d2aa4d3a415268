//! Single steps of the forward pass: dense layers, LayerNorms, activations.

use super::kernels::SQUARES;
use super::kernels::convolution::{ConvolutionScratch, Finish, PackedConvolution};
use super::kernels::elementary::ActivateRows;
use super::kernels::matrix::{InputStatistics, MatrixProduct, PackedMatrix, RoundedRows};
use super::kernels::norm::LayerNorm;
use super::recorder::{Recorder, Work};
use super::simd::{AlignedVec, Isa};
use rukh_net::architecture::Activation;
use rukh_net::weights;

/// Runs steps on one instruction set. The rows of a matrix follow each other without gaps.
pub(super) struct Steps {
    pub(super) isa: Isa,
    /// The inputs of a step in the format of its layer.
    rounded: RoundedRows,
    convolution: ConvolutionScratch,
    pub(super) recorder: Recorder,
    /// What the inputs of the network's layers are. It is filled only if it is there.
    pub(super) statistics: Option<NetworkStatistics>,
}

/// What the inputs of a network's layers are on real positions.
#[derive(Debug, Default)]
pub(super) struct NetworkStatistics {
    /// Of the dense layers, by their numbers.
    pub(super) dense: Vec<InputStatistics>,
    /// Of the 3x3 convolutions, by their numbers. A row of inputs is a square.
    pub(super) convolutions: Vec<InputStatistics>,
}

/// The statistics of layer `number` of a list, which grows if it is too short.
fn of_layer(all: &mut Vec<InputStatistics>, number: usize) -> &mut InputStatistics {
    all.resize_with(all.len().max(number + 1), InputStatistics::default);
    &mut all[number]
}

impl Steps {
    pub(super) fn new(isa: Isa) -> Steps {
        Steps {
            isa,
            rounded: RoundedRows::default(),
            convolution: ConvolutionScratch::default(),
            recorder: Recorder::default(),
            statistics: None,
        }
    }

    /// `y [rows][outputs] = act(x [rows][inputs] W^T + b)`; y grows if it is too short. `name` is for the recorder.
    pub(super) fn dense(
        &mut self,
        name: &'static str,
        layer: &PackedMatrix,
        rows: usize,
        x: &[f32],
        y: &mut AlignedVec<f32>,
        activation: Activation,
    ) {
        y.grow_to(rows * layer.outputs());
        self.dense_into(name, layer, rows, x, y, activation);
    }

    /// Does the same as [`Steps::dense`], but `y` must be long enough.
    pub(super) fn dense_into(
        &mut self,
        name: &'static str,
        layer: &PackedMatrix,
        rows: usize,
        x: &[f32],
        y: &mut [f32],
        activation: Activation,
    ) {
        self.product(layer, rows, (x, layer.inputs()), y, activation, false);
        self.recorder.lap(name, || work(layer, rows));
    }

    /// Does the same as [`Steps::dense_into`] with rows of x that start `stride` numbers apart, without an activation.
    pub(super) fn dense_strided(
        &mut self,
        name: &'static str,
        layer: &PackedMatrix,
        rows: usize,
        (x, stride): (&[f32], usize),
        y: &mut [f32],
    ) {
        self.product(layer, rows, (x, stride), y, Activation::None, false);
        self.recorder.lap(name, || work(layer, rows));
    }

    /// `y += x W^T`
    pub(super) fn dense_added(
        &mut self,
        name: &'static str,
        layer: &PackedMatrix,
        rows: usize,
        x: &[f32],
        y: &mut [f32],
    ) {
        self.product(layer, rows, (x, layer.inputs()), y, Activation::None, true);
        self.recorder.lap(name, || work(layer, rows));
    }

    fn product(
        &mut self,
        weights: &PackedMatrix,
        rows: usize,
        (x, x_stride): (&[f32], usize),
        y: &mut [f32],
        activation: Activation,
        accumulate: bool,
    ) {
        if let (Some(all), Some(number)) = (&mut self.statistics, weights.number()) {
            of_layer(&mut all.dense, number).add(self.isa, (x, x_stride), rows, weights.inputs());
        }
        let product = MatrixProduct {
            weights,
            which: 0,
            x,
            x_stride,
            y,
            y_stride: weights.outputs(),
            rows,
            activation,
            accumulate,
            rounded: &mut self.rounded,
        };
        product.run(self.isa);
    }

    /// Convolves the `positions` boards of x, `[position][64][channels]`, into y, `[position][64][outputs]`.
    pub(super) fn convolve(
        &mut self,
        name: &'static str,
        layer: &PackedConvolution,
        positions: usize,
        x: &[f32],
        y: &mut [f32],
        finish: Finish<'_>,
    ) {
        if let (Some(all), Some(number)) = (&mut self.statistics, layer.number()) {
            let inputs = layer.inputs();
            of_layer(&mut all.convolutions, number).add(self.isa, (x, inputs), positions * SQUARES, inputs);
        }
        layer.run(self.isa, positions, x, y, finish, &mut self.convolution);
        self.recorder.lap(name, || {
            let (multiply_adds, weight_bytes, numbers) = layer.work(positions);
            Work::multiplying(multiply_adds, weight_bytes, numbers)
        });
    }

    /// `x = LN(x)`
    pub(super) fn normalise(&mut self, name: &'static str, ln: &weights::LayerNorm, x: &mut [f32]) {
        self.layer_norm(ln, x, None, 1.0);
        self.recorder.lap(name, || Work::moving(2 * x.len()));
    }

    /// `x = LN(alpha * branch + x)`; the branch may be longer than x.
    pub(super) fn join(
        &mut self,
        name: &'static str,
        ln: &weights::LayerNorm,
        x: &mut [f32],
        branch: &[f32],
        alpha: f32,
    ) {
        let branch = &branch[..x.len()];
        self.layer_norm(ln, x, Some(branch), alpha);
        self.recorder.lap(name, || Work::moving(3 * x.len()));
    }

    fn layer_norm(&self, ln: &weights::LayerNorm, data: &mut [f32], branch: Option<&[f32]>, alpha: f32) {
        let weights::LayerNorm { gammas, betas, epsilon } = ln;
        self.isa.run(LayerNorm { data, branch, alpha, gammas, betas, epsilon: *epsilon });
    }

    /// `x = act(x)`, elementwise.
    pub(super) fn activate(&mut self, name: &'static str, activation: Activation, x: &mut [f32]) {
        let (width, stride) = (x.len(), x.len());
        self.isa.run(ActivateRows { data: x, width, stride, activation });
        self.recorder.lap(name, || Work::moving(2 * width));
    }
}

/// The work of a dense layer.
fn work(layer: &PackedMatrix, rows: usize) -> Work {
    let (inputs, outputs) = (layer.inputs(), layer.outputs());
    Work::multiplying(rows * inputs * outputs, layer.matrix_bytes(), rows * (inputs + outputs))
}
