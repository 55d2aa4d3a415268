//! Packs each layer of a network for the kernels.
//!
//! [`rukh_net::prepare`] walks the network and hands its layers to [`Packing`] one by one.

use super::kernels::convolution::PackedConvolution;
use super::kernels::matrix::{Format, PackedMatrix};
use super::kernels::planes::{BoardEmbedding, PlaneConvolution, PlaneEmbedding};
use super::rounder::Rounder;
use super::simd::Isa;
use rukh_net::input::InputPlanes;
use rukh_net::network::{self, Layers};
use rukh_net::prepare::{DenseRole, LayerStore, ScoreOrder};
use rukh_net::weights::{Convolution, Dense, LayerNorm};
use std::convert::Infallible;
use std::ops::Range;

/// The instruction set and the number format that layers are packed for.
#[derive(Debug)]
pub(super) struct Packing {
    /// The instruction set that will run the kernels.
    pub(super) isa: Isa,
    /// The number format of the weights in the large matrix products.
    pub(super) format: Format,
    /// The 3x3 convolutions in 8-bit integers, by the order in which they are packed. The others are in fp32.
    pub(super) int8_convolutions: Range<usize>,
    /// Rounds weights to 8 bits.
    pub(super) rounder: Rounder,
    /// The number of dense layers that are packed.
    pub(super) packed: usize,
    /// The number of 3x3 convolutions that are packed.
    pub(super) packed_convolutions: usize,
}

/// The largest number of weights of a layer of smolgen that stays in fp32 where others have 8 bits. Rounding the inputs of
/// such a layer takes as long as its product in fp32. In the embedded network, the three such layers of an encoder take
/// 0.5 % more of the time than in 8 bits, and q differs 3 % less.
const SMALL_LAYER: usize = 1 << 15;

pub(super) type Network = network::Network<Packing>;
pub(super) type Body = network::Body<Packing>;
pub(super) type ResidualBlock = network::ResidualBlock<Packing>;
pub(super) type Embedding = network::Embedding<Packing>;
pub(super) type EncoderStack = network::EncoderStack<Packing>;
pub(super) type Encoder = network::Encoder<Packing>;
pub(super) type Smolgen = network::Smolgen<Packing>;
pub(super) type FeedForward = network::FeedForward<Packing>;
pub(super) type PolicyHead = network::PolicyHead<Packing>;
pub(super) type AttentionPolicy = network::AttentionPolicy<Packing>;
pub(super) type ScalarHead = network::ScalarHead<Packing>;
pub(super) type ValueError = network::ValueError<Packing>;

impl Layers for Packing {
    type Dense = PackedMatrix;
    type Convolution = PackedConvolution;
    type LayerNorm = LayerNorm;
    type Gate = Vec<f32>;
    type InputConvolution = PlaneConvolution;
    type PlaneEmbedding = PlaneEmbedding;
    type BoardEmbedding = BoardEmbedding;
    type QueryKeyValue = PackedMatrix;
    type QueryKey = PackedMatrix;
    type HeadInput = PackedMatrix;
}

impl LayerStore for Packing {
    /// The kernels take layers of any size.
    type Error = Infallible;

    /// [`super::kernels::attention`] computes scores transposed.
    const SCORE_ORDER: ScoreOrder = ScoreOrder::KeyFirst;

    /// Scaling the weights of the queries once saves a multiplication for each score.
    const SCALES_QUERIES: bool = true;

    fn check_width(&self, _name: &str, _channels: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn check_attention(&self, _name: &str, _width: usize, _heads: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn dense(&mut self, _name: &str, role: DenseRole, layer: Dense) -> Result<PackedMatrix, Infallible> {
        let format = match role {
            DenseRole::Smolgen if self.format == Format::Int8 && layer.weights.len() <= SMALL_LAYER => {
                Format::Fp32
            }
            DenseRole::Encoder | DenseRole::Smolgen | DenseRole::Product => self.format,
            // These products cost next to nothing, and their rounding errors would reach the result directly.
            DenseRole::Squeeze
            | DenseRole::Excite
            | DenseRole::ScalarHead
            | DenseRole::ScalarOutput
            | DenseRole::Promotion => Format::Fp32,
        };
        let number = self.packed;
        self.packed += 1;
        let Dense { weights, biases, inputs, .. } = &layer;
        let packed = match format {
            Format::Int8 => {
                let quantised = self.rounder.dense(number, weights, *inputs);
                PackedMatrix::quantised(self.isa, &quantised, biases, *inputs)
            }
            _ => PackedMatrix::new(self.isa, format, weights, biases, *inputs),
        };
        // Only the inputs of these layers are looked at.
        let is_recorded = matches!(role, DenseRole::Encoder | DenseRole::Smolgen | DenseRole::Product);
        Ok(if is_recorded { packed.with_number(number) } else { packed })
    }

    fn convolution(&mut self, _name: &str, layer: Convolution) -> Result<PackedConvolution, Infallible> {
        let number = self.packed_convolutions;
        self.packed_convolutions += 1;
        let format = if self.int8_convolutions.contains(&number) { Format::Int8 } else { Format::Fp32 };
        Ok(PackedConvolution::new(self.isa, format, number, &layer, |layer| {
            self.rounder.convolution(number, layer)
        }))
    }

    fn input_convolution(&mut self, _name: &str, layer: Convolution) -> Result<PlaneConvolution, Infallible> {
        Ok(PlaneConvolution::new(self.isa, &layer))
    }

    /// The table's contribution and the bias depend only on the square, so they are added up to one constant.
    fn plane_embedding(
        &mut self,
        _name: &str,
        layer: Dense,
        table: Option<Vec<f32>>,
    ) -> Result<PlaneEmbedding, Infallible> {
        let weight = |output: usize, input: usize| layer.weights[output * layer.inputs + input];
        let extra = layer.inputs - InputPlanes::COUNT;
        let constant = |square: usize, output: usize| {
            let table: f32 = table.as_ref().map_or(0.0, |table| {
                let row = &table[square * extra..][..extra];
                row.iter().enumerate().map(|(i, value)| value * weight(output, InputPlanes::COUNT + i)).sum()
            });
            layer.biases[output] + table
        };
        Ok(PlaneEmbedding::new(self.isa, layer.outputs, weight, constant))
    }

    fn board_embedding(&mut self, _name: &str, layer: Dense) -> Result<BoardEmbedding, Infallible> {
        Ok(BoardEmbedding::new(self.isa, &layer))
    }

    fn layer_norm(&mut self, _name: &str, layer: LayerNorm) -> Result<LayerNorm, Infallible> {
        Ok(layer)
    }

    fn gate(&mut self, _name: &str, values: Vec<f32>) -> Result<Vec<f32>, Infallible> {
        Ok(values)
    }
}
