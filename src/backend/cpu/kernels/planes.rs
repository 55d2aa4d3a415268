//! The first layers of the networks, whose inputs are the 112 planes as bit masks.
//!
//! Most of the 112 x 64 inputs are 0. About 250 inputs are single set bits (pieces), and the other nonzero inputs
//! fill whole planes (castling rights, the side to move, the rule-50 counter, ones). So these layers are not
//! computed as matrix products. They add up the weight rows of the set bits, and add the row of a full plane
//! once for all squares.

use super::SQUARES;
use crate::simd::{AlignedVec, Isa, Kernel, Simd};
use rukh_net::input::InputPlanes;
use rukh_net::weights::{Convolution, Dense};

const PLANES: usize = InputPlanes::COUNT;
const PIECE_PLANES: usize = InputPlanes::PIECES;

/// The value of the set bits of a plane.
fn plane_value(input: &InputPlanes, plane: usize) -> f32 {
    if plane == InputPlanes::RULE50_PLANE { input.rule50_value } else { 1.0 }
}

/// The squares of the set bits of a mask.
fn squares(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let square = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        square
    })
}

/// Computes `to += row`.
#[inline(always)]
fn add_row<S: Simd>(simd: S, to: &mut [f32], row: &[f32]) {
    let count = to.len();
    let row = &row[..count];
    let whole = count / S::LANES * S::LANES;
    for i in (0..whole).step_by(S::LANES) {
        let place = &mut to[i..i + S::LANES];
        simd.store(simd.add(simd.load(&row[i..i + S::LANES]), simd.load(place)), place);
    }
    for i in whole..count {
        to[i] += row[i];
    }
}

/// Computes `to += scale * row`.
#[inline(always)]
fn add_scaled_row<S: Simd>(simd: S, to: &mut [f32], row: &[f32], scale: f32) {
    let count = to.len();
    let row = &row[..count];
    let whole = count / S::LANES * S::LANES;
    let factor = simd.splat(scale);
    for i in (0..whole).step_by(S::LANES) {
        let place = &mut to[i..i + S::LANES];
        simd.store(simd.mul_add(simd.load(&row[i..i + S::LANES]), factor, simd.load(place)), place);
    }
    for i in whole..count {
        to[i] += scale * row[i];
    }
}

/// The planes with all bits set, and the values of those bits.
fn full_planes(input: &InputPlanes) -> impl Iterator<Item = (usize, f32)> {
    let full = input.masks.iter().enumerate().filter(|(_, mask)| **mask == u64::MAX);
    full.map(|(plane, _)| (plane, plane_value(input, plane)))
}

/// The planes with some but not all bits set, and their masks.
fn sparse_planes(input: &InputPlanes) -> impl Iterator<Item = (usize, u64)> {
    input.masks.iter().copied().enumerate().filter(|&(_, mask)| mask != 0 && mask != u64::MAX)
}

/// A dense layer that is applied to the 112 inputs of each square.
#[derive(Clone, Debug)]
pub(crate) struct PlaneEmbedding {
    isa: Isa,
    /// `[112][outputs]`
    rows: AlignedVec<f32>,
    /// `[64][outputs]`: the bias and all other terms that depend only on the square.
    constant: AlignedVec<f32>,
    outputs: usize,
}

impl PlaneEmbedding {
    /// Packs the weights `weight(output, plane)` and the constant terms `constant(square, output)`.
    pub(crate) fn new(
        isa: Isa,
        outputs: usize,
        weight: impl Fn(usize, usize) -> f32,
        constant: impl Fn(usize, usize) -> f32,
    ) -> PlaneEmbedding {
        PlaneEmbedding {
            isa,
            rows: filled(PLANES, outputs, |plane, output| weight(output, plane)),
            constant: filled(SQUARES, outputs, constant),
            outputs,
        }
    }

    /// Writes the outputs `[64][outputs]`, without an activation, to `to`.
    pub(crate) fn run(&self, input: &InputPlanes, to: &mut [f32]) {
        self.isa.run(EmbedPlanes { layer: self, input, to: &mut to[..SQUARES * self.outputs] });
    }
}

/// A matrix `[rows][columns]` with the elements `value(row, column)`.
fn filled(rows: usize, columns: usize, value: impl Fn(usize, usize) -> f32) -> AlignedVec<f32> {
    let mut all = AlignedVec::zeroed(rows * columns);
    for row in 0..rows {
        for column in 0..columns {
            all[row * columns + column] = value(row, column);
        }
    }
    all
}

struct EmbedPlanes<'a> {
    layer: &'a PlaneEmbedding,
    input: &'a InputPlanes,
    to: &'a mut [f32],
}

impl Kernel for EmbedPlanes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let PlaneEmbedding { rows, constant, outputs, .. } = self.layer;
        let outputs = *outputs;
        if outputs == 0 {
            return;
        }
        // The sum over the full planes is computed in the first square and copied to the others.
        let (first, others) = self.to.split_at_mut(outputs);
        first.fill(0.0);
        for (plane, value) in full_planes(self.input) {
            add_scaled_row(simd, first, &rows[plane * outputs..], value);
        }
        for (other, constant) in
            others.chunks_exact_mut(outputs).zip(constant[outputs..].chunks_exact(outputs))
        {
            other.copy_from_slice(first);
            add_row(simd, other, constant);
        }
        add_row(simd, first, constant);
        for (plane, mask) in sparse_planes(self.input) {
            let row = &rows[plane * outputs..][..outputs];
            let value = plane_value(self.input, plane);
            for square in squares(mask) {
                add_scaled_row(simd, &mut self.to[square * outputs..][..outputs], row, value);
            }
        }
    }
}

/// A dense layer whose inputs are the piece planes of the newest board, `[64][12]`.
#[derive(Clone, Debug)]
pub(crate) struct BoardEmbedding {
    isa: Isa,
    /// `[64 * 12][outputs]`
    rows: AlignedVec<f32>,
    biases: Vec<f32>,
}

impl BoardEmbedding {
    /// Packs the layer of the file, whose inputs are numbered `square * 12 + plane`.
    pub(crate) fn new(isa: Isa, dense: &Dense) -> BoardEmbedding {
        BoardEmbedding {
            isa,
            rows: filled(dense.inputs, dense.outputs, |input, output| {
                dense.weights[output * dense.inputs + input]
            }),
            biases: dense.biases.clone(),
        }
    }

    pub(crate) fn outputs(&self) -> usize {
        self.biases.len()
    }

    /// Writes the outputs of one position, without an activation, to `to`.
    pub(crate) fn run(&self, input: &InputPlanes, to: &mut [f32]) {
        self.isa.run(EmbedBoard { layer: self, input, to });
    }
}

struct EmbedBoard<'a> {
    layer: &'a BoardEmbedding,
    input: &'a InputPlanes,
    to: &'a mut [f32],
}

impl Kernel for EmbedBoard<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let outputs = self.layer.biases.len();
        self.to.copy_from_slice(&self.layer.biases);
        for (plane, &mask) in self.input.masks[..PIECE_PLANES].iter().enumerate() {
            for square in squares(mask) {
                let row = &self.layer.rows[(square * PIECE_PLANES + plane) * outputs..][..outputs];
                add_row(simd, self.to, row);
            }
        }
    }
}

/// A 3x3 convolution of the 112 planes: the first layer of a residual tower.
#[derive(Clone, Debug)]
pub(crate) struct PlaneConvolution {
    isa: Isa,
    /// `[112][3][3][outputs]`: the taps by rank and by file. The files are in reverse order, so that the three
    /// taps by which one input contributes to neighbouring squares are in the order of those squares.
    taps: AlignedVec<f32>,
    /// `[112][3][3][outputs]`: the contribution of a full plane to a square, which is the sum of those taps
    /// that are on the board. It depends only on whether the rank of the square is the first, the last, or
    /// another one, and likewise its file (the indices of [`edge`]).
    full: AlignedVec<f32>,
    biases: Vec<f32>,
}

/// Returns 0 for the first rank or file, 2 for the last, and 1 for the others.
fn edge(coordinate: usize) -> usize {
    match coordinate {
        0 => 0,
        7 => 2,
        _ => 1,
    }
}

impl PlaneConvolution {
    /// Packs a 3x3 convolution of 112 planes.
    pub(crate) fn new(isa: Isa, convolution: &Convolution) -> PlaneConvolution {
        let outputs = convolution.outputs;
        let weight = |output: usize, plane: usize, tap: usize| {
            convolution.weights[(output * convolution.inputs + plane) * 9 + tap]
        };
        // Whether a tap (0: before the square, 1: on it, 2: after it) is on the board, for a square whose
        // rank or file has the index `edge`.
        let inside = |edge: usize, tap: usize| !matches!((edge, tap), (0, 0) | (2, 2));
        PlaneConvolution {
            isa,
            taps: filled(PLANES * 9, outputs, |row, output| {
                let (rank, file) = (row % 9 / 3, 2 - row % 3);
                weight(output, row / 9, rank * 3 + file)
            }),
            full: filled(PLANES * 9, outputs, |row, output| {
                let (rank, file) = (row % 9 / 3, row % 3);
                (0..9)
                    .filter(|tap| inside(rank, tap / 3) && inside(file, tap % 3))
                    .map(|tap| weight(output, row / 9, tap))
                    .sum()
            }),
            biases: convolution.biases.clone(),
        }
    }

    pub(crate) fn outputs(&self) -> usize {
        self.biases.len()
    }

    /// Writes the outputs `[64][outputs]`, without an activation, to `to`. `edges` is working memory, which
    /// grows as needed.
    pub(crate) fn run(&self, input: &InputPlanes, to: &mut [f32], edges: &mut AlignedVec<f32>) {
        edges.grow_to(9 * self.outputs());
        self.isa.run(ConvolvePlanes { layer: self, input, to: &mut to[..SQUARES * self.outputs()], edges });
    }
}

struct ConvolvePlanes<'a> {
    layer: &'a PlaneConvolution,
    input: &'a InputPlanes,
    to: &'a mut [f32],
    /// `[3][3][outputs]`: the bias and the contributions of all full planes, by the indices of [`edge`].
    edges: &'a mut [f32],
}

impl Kernel for ConvolvePlanes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let outputs = self.layer.biases.len();
        if outputs == 0 {
            return;
        }
        let edges = &mut self.edges[..9 * outputs];
        for sums in edges.chunks_exact_mut(outputs) {
            sums.copy_from_slice(&self.layer.biases);
        }
        for (plane, value) in full_planes(self.input) {
            add_scaled_row(simd, edges, &self.layer.full[plane * 9 * outputs..], value);
        }
        for (square, to) in self.to.chunks_exact_mut(outputs).enumerate() {
            let from = edge(square / 8) * 3 + edge(square % 8);
            to.copy_from_slice(&edges[from * outputs..][..outputs]);
        }
        for (plane, mask) in sparse_planes(self.input) {
            let taps = &self.layer.taps[plane * 9 * outputs..][..9 * outputs];
            let value = plane_value(self.input, plane);
            for square in squares(mask) {
                let (rank, file) = (square / 8, square % 8);
                // The bit contributes to `count` files from `first` on. On the a-file, the first of the
                // reversed taps contributes to a square outside the board and is skipped.
                let first = file.saturating_sub(1);
                let count = (file + 2).min(8) - first;
                let skipped = usize::from(file == 0);
                for tap in 0..3 {
                    // Tap `tap` of a square reads from `tap - 1` ranks above the square, so the bit contributes to
                    // the squares that are `tap - 1` ranks below it.
                    let rank = (rank + 1).wrapping_sub(tap);
                    if rank < 8 {
                        let to = &mut self.to[(rank * 8 + first) * outputs..][..count * outputs];
                        add_scaled_row(simd, to, &taps[(3 * tap + skipped) * outputs..], value);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::matrix::tests::noise;

    /// Planes with scattered pieces, with some full planes, and with a rule-50 counter.
    fn some_input() -> InputPlanes {
        let mut masks = [0; 112];
        for (plane, mask) in masks.iter_mut().enumerate().take(104) {
            *mask = 0x8100_0420_1002_0081_u64.rotate_left(plane as u32 * 7) & !(plane as u64);
        }
        masks[105] = u64::MAX;
        masks[109] = u64::MAX;
        masks[111] = u64::MAX;
        InputPlanes { masks, rule50_value: 17.0 }
    }

    fn dense_input(input: &InputPlanes, plane: usize, square: usize) -> f64 {
        let set = input.masks[plane] >> square & 1 == 1;
        if set { f64::from(plane_value(input, plane)) } else { 0.0 }
    }

    fn close(got: f32, right: f64) -> bool {
        (f64::from(got) - right).abs() < 1e-4
    }

    #[test]
    fn embedding_sums_the_set_bits() {
        let input = some_input();
        for isa in Isa::tested() {
            for outputs in [1, 16, 33, 64] {
                let (weights, constants) = (noise(outputs * 112, 1), noise(64 * outputs, 2));
                let layer = PlaneEmbedding::new(
                    isa,
                    outputs,
                    |output, plane| weights[output * 112 + plane],
                    |square, output| constants[square * outputs + output],
                );
                let mut to = vec![f32::NAN; 64 * outputs];
                layer.run(&input, &mut to);
                for square in 0..64 {
                    for output in 0..outputs {
                        let mut right = f64::from(constants[square * outputs + output]);
                        for plane in 0..112 {
                            right +=
                                f64::from(weights[output * 112 + plane]) * dense_input(&input, plane, square);
                        }
                        assert!(close(to[square * outputs + output], right), "{} {outputs}", isa.name());
                    }
                }
            }
        }
    }

    #[test]
    fn board_embedding_sums_the_newest_pieces() {
        let input = some_input();
        for isa in Isa::tested() {
            let outputs = 37;
            let dense =
                Dense { weights: noise(outputs * 768, 1), biases: noise(outputs, 2), inputs: 768, outputs };
            let mut to = vec![f32::NAN; outputs];
            BoardEmbedding::new(isa, &dense).run(&input, &mut to);
            for (output, &got) in to.iter().enumerate() {
                let mut right = f64::from(dense.biases[output]);
                for square in 0..64 {
                    for plane in 0..12 {
                        let weight = f64::from(dense.weights[output * 768 + square * 12 + plane]);
                        right += weight * dense_input(&input, plane, square);
                    }
                }
                assert!(close(got, right), "{}", isa.name());
            }
        }
    }

    #[test]
    fn convolution_of_bits_matches_the_direct_sum() {
        let input = some_input();
        for isa in Isa::tested() {
            for outputs in [1, 17, 32] {
                let convolution = Convolution {
                    weights: noise(outputs * 112 * 9, 1),
                    biases: noise(outputs, 2),
                    inputs: 112,
                    outputs,
                    size: 3,
                };
                let mut to = vec![f32::NAN; 64 * outputs];
                let layer = PlaneConvolution::new(isa, &convolution);
                layer.run(&input, &mut to, &mut AlignedVec::default());
                for square in 0..64 {
                    for output in 0..outputs {
                        let mut right = f64::from(convolution.biases[output]);
                        for plane in 0..112 {
                            for tap in 0..9_usize {
                                let rank = (square / 8 + tap / 3).wrapping_sub(1);
                                let file = (square % 8 + tap % 3).wrapping_sub(1);
                                if rank < 8 && file < 8 {
                                    right += f64::from(convolution.weights[(output * 112 + plane) * 9 + tap])
                                        * dense_input(&input, plane, rank * 8 + file);
                                }
                            }
                        }
                        assert!(close(to[square * outputs + output], right), "{} {square}", isa.name());
                    }
                }
            }
        }
    }
}
