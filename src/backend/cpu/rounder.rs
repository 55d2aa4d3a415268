//! Rounds the layers of a network to 8 bits, one after another: by what their inputs are, or as an earlier time.

use super::kernels::matrix::{KeptRounding, Quantised, Taps, quantise};
use super::simd::Isa;
use super::steps::NetworkStatistics;
use std::collections::BTreeMap;

/// What is kept of the rounded weights of a network, by the numbers of its layers.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct NetworkRounding {
    pub(super) dense: BTreeMap<u32, KeptRounding>,
    pub(super) convolutions: BTreeMap<u32, KeptRounding>,
}

/// By what weights are rounded.
#[derive(Debug)]
pub(super) enum Guide {
    /// What the inputs of the layers are on real positions. A layer without statistics is rounded to the nearest steps.
    Statistics(NetworkStatistics),
    /// How the network's weights were rounded before.
    Kept(NetworkRounding),
}

/// Rounds layers.
#[derive(Debug)]
pub(super) struct Rounder {
    isa: Isa,
    /// The largest 8-bit weight.
    largest: i8,
    guide: Guide,
    /// What has been rounded, if it is to be kept.
    made: Option<NetworkRounding>,
}

impl Rounder {
    pub(super) fn new(isa: Isa, largest: i8, guide: Guide) -> Rounder {
        Rounder { isa, largest, guide, made: None }
    }

    /// For a network without 8-bit layers.
    pub(super) fn idle(isa: Isa) -> Rounder {
        Rounder::new(isa, isa.largest_int8_weight(), Guide::Statistics(NetworkStatistics::default()))
    }

    /// A rounder that keeps what it does.
    pub(super) fn keeping(self) -> Rounder {
        Rounder { made: Some(NetworkRounding::default()), ..self }
    }

    /// What has been rounded. `None` unless the rounder keeps it.
    pub(super) fn made(self) -> Option<NetworkRounding> {
        self.made
    }

    /// Rounds the dense layer `number`.
    pub(super) fn dense(&mut self, number: usize, weights: &[f32], inputs: usize) -> Quantised {
        let layer = Taps { weights, inputs, taps: 1 };
        let statistics = match &mut self.guide {
            Guide::Statistics(statistics) => statistics.dense.get_mut(number).map(std::mem::take),
            Guide::Kept(kept) => match restored(&mut kept.dense, number, layer, self.largest) {
                Some(quantised) => return quantised,
                None => None,
            },
        };
        let quantised = quantise(self.isa, weights, inputs, 1, self.largest, statistics.as_ref());
        if let Some(made) = &mut self.made {
            made.dense.insert(number as u32, KeptRounding::of(&quantised, weights, self.largest));
        }
        quantised
    }

    /// Rounds the 3x3 convolution `number`.
    pub(super) fn convolution(&mut self, number: usize, layer: Taps<'_>) -> Quantised {
        let statistics = match &mut self.guide {
            Guide::Statistics(statistics) => statistics.convolutions.get_mut(number).map(std::mem::take),
            Guide::Kept(kept) => match restored(&mut kept.convolutions, number, layer, self.largest) {
                Some(quantised) => return quantised,
                None => None,
            },
        };
        let Taps { weights, inputs, taps } = layer;
        let quantised = quantise(self.isa, weights, inputs, taps, self.largest, statistics.as_ref());
        if let Some(made) = &mut self.made {
            made.convolutions.insert(number as u32, KeptRounding::of(&quantised, weights, self.largest));
        }
        quantised
    }
}

/// The layer as it was rounded before. Each layer is asked for once, so that its memory is freed.
fn restored(
    kept: &mut BTreeMap<u32, KeptRounding>,
    number: usize,
    Taps { weights, inputs, .. }: Taps<'_>,
    largest: i8,
) -> Option<Quantised> {
    kept.remove(&(number as u32))?.restore(weights, inputs, largest)
}
