//! 3x3 convolutions on the 8x8 board, in fp32 or in 8-bit integers.
//!
//! | module | what it holds |
//! |---|---|
//! | [`winograd`] | in fp32, with a quarter of the multiplications |
//! | [`bytes`] | in 8-bit integers, as products of matrices |
//! | [`neighbourhoods`] | the rows of that product: the neighbourhoods of the squares |
//! | [`finish`] | what becomes of the sums |
//!
//! A convolution in bytes multiplies four times as often as one in fp32, and an instruction for bytes multiplies four
//! times as many numbers. It is faster because it has no transforms, and because its weights take a sixteenth of the
//! memory: nine bytes instead of 36 fp32 numbers. AMX multiplies bytes twelve times as fast as fp32.

mod bytes;
mod finish;
mod neighbourhoods;
mod winograd;

pub(crate) use finish::Finish;

use super::SQUARES;
use super::matrix::{Format, PackedMatrix, Quantised, Taps};
use crate::simd::Isa;
use bytes::{ByteConvolution, ByteScratch};
use rukh_net::architecture::Activation;
use rukh_net::weights::Convolution;
use std::time::{Duration, Instant};
use winograd::{WinogradConvolution, WinogradScratch};

/// Working memory of [`PackedConvolution::run`]. Reusing it avoids allocations.
#[derive(Default, Debug)]
pub(crate) struct ConvolutionScratch {
    winograd: WinogradScratch,
    bytes: ByteScratch,
}

/// A 3x3 convolution with packed weights.
#[derive(Clone, Debug)]
pub(crate) struct PackedConvolution {
    kind: Kind,
    /// The number of the convolution among those of a network.
    number: Option<usize>,
}

#[derive(Clone, Debug)]
enum Kind {
    Fp32(WinogradConvolution),
    Int8(ByteConvolution),
}

impl Kind {
    /// See [`PackedConvolution::work`].
    fn work(&self, positions: usize) -> (usize, usize, usize) {
        match self {
            Kind::Fp32(convolution) => convolution.work(positions),
            Kind::Int8(convolution) => convolution.work(positions),
        }
    }
}

impl PackedConvolution {
    /// Packs the weights of a 3x3 convolution as the convolution `number` of a network. `round` rounds weights to 8 bits,
    /// if that is the format. Formats without a kernel of their own are computed in fp32.
    pub(crate) fn new(
        isa: Isa,
        format: Format,
        number: usize,
        convolution: &Convolution,
        round: impl FnOnce(Taps<'_>) -> Quantised,
    ) -> PackedConvolution {
        let kind = match format {
            Format::Int8 => Kind::Int8(ByteConvolution::new(isa, convolution, round)),
            // Winograd's components cannot be rounded to bf16: see `winograd`.
            Format::Fp32 | Format::Bf16 => Kind::Fp32(WinogradConvolution::new(isa, convolution)),
        };
        PackedConvolution { kind, number: Some(number) }
    }

    /// The number of the convolution among those of a network.
    pub(crate) fn number(&self) -> Option<usize> {
        self.number
    }

    /// The convolution as a product of matrices, if it is in 8-bit integers.
    pub(crate) fn byte_product(&self) -> Option<&PackedMatrix> {
        match &self.kind {
            Kind::Fp32(_) => None,
            Kind::Int8(convolution) => Some(convolution.product_weights()),
        }
    }

    /// The number of channels of x.
    pub(crate) fn inputs(&self) -> usize {
        match &self.kind {
            Kind::Fp32(convolution) => convolution.inputs(),
            Kind::Int8(convolution) => convolution.inputs(),
        }
    }

    /// The number of multiplications of the products of `positions` boards, the bytes of all packed weights, and the
    /// number of numbers that are read and written.
    pub(crate) fn work(&self, positions: usize) -> (usize, usize, usize) {
        self.kind.work(positions)
    }

    /// Convolves the `positions` boards of x, `[position][64][channels]`, into y, `[position][64][outputs]`.
    pub(crate) fn run(
        &self,
        isa: Isa,
        positions: usize,
        x: &[f32],
        y: &mut [f32],
        finish: Finish<'_>,
        scratch: &mut ConvolutionScratch,
    ) {
        match &self.kind {
            Kind::Fp32(convolution) => convolution.run(isa, positions, x, y, finish, &mut scratch.winograd),
            Kind::Int8(convolution) => convolution.run(isa, positions, x, y, finish, &mut scratch.bytes),
        }
    }
}

/// How many times as fast as in fp32 the convolutions of a tower with so many channels are in 8-bit integers: by the
/// fastest of a few runs of each.
pub(crate) fn gain_of_bytes(isa: Isa, channels: usize) -> f64 {
    const POSITIONS: usize = 8;
    const RUNS: usize = 5;
    /// The bytes of fp32 weights that a run reads, if that takes at most so many layers. A tower's weights do not stay in
    /// the second-level cache, so a single layer would make fp32 seem faster than it is.
    const WEIGHT_BYTES: usize = 6 << 20;
    const MOST_LAYERS: usize = 12;
    let kinds = [
        Kind::Fp32(WinogradConvolution::constant(isa, channels)),
        Kind::Int8(ByteConvolution::constant(isa, channels)),
    ];
    let (_, weight_bytes, _) = kinds[0].work(POSITIONS);
    let count = (WEIGHT_BYTES / weight_bytes.max(1)).clamp(1, MOST_LAYERS);
    let x = vec![1.0; POSITIONS * SQUARES * channels];
    let mut y = vec![0.0; POSITIONS * SQUARES * channels];
    let mut scratch = ConvolutionScratch::default();
    let mut shortest = [Duration::MAX; 2];
    let layers = kinds.map(|kind| vec![PackedConvolution { kind, number: None }; count]);
    for _ in 0..RUNS {
        for (layers, shortest) in layers.iter().zip(&mut shortest) {
            let start = Instant::now();
            for layer in layers {
                let finish = Finish::Activate(Activation::Relu);
                layer.run(isa, POSITIONS, &x, &mut y, finish, &mut scratch);
            }
            *shortest = start.elapsed().min(*shortest);
        }
    }
    let [fp32, int8] = shortest.map(|time| time.as_secs_f64());
    fp32 / int8
}
