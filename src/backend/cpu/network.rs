//! A network packed for the CPU, and its outputs.

use super::kernels::convolution::gain_of_bytes;
use super::kernels::matrix::{Format, is_bf16_faster};
use super::layers::{self, Body, Packing};
use super::rounder::Rounder;
use super::scratch::Outputs;
use super::simd::{Factors, Isa};
use rukh_backend::Value;
use rukh_net::Network;
use rukh_net::network::Body as FileBody;
use rukh_net::prepare::PreparedNetwork;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The number format of the large matrix products.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Precision {
    /// All numbers are fp32.
    #[default]
    Fp32,
    /// Weights and inputs of the dense layers are rounded to bf16 (nearest, ties to even), sums are fp32. With AMX the
    /// factors of attention are rounded as well. LayerNorm, softmax, 3x3 convolutions and the value and moves-left heads
    /// stay in fp32, so a residual tower gains nothing. Over all golden networks and positions, the largest differences
    /// from lc0's fp32 are 0.13 in a raw policy logit, 0.014 in q, 0.011 in d and 0.22 in moves left. The tests assert
    /// this with a margin. Without instructions for bf16 it is emulated, with nearly the same results. A backend uses it
    /// only where it is faster than fp32 ([`InstructionSet::bf16_pays`]).
    Bf16,
    /// Weights of the dense layers, and of the 3x3 convolutions of residual blocks but the first, are rounded to 8 bits
    /// with a factor for each output, by what the layers' inputs are on some positions; inputs are rounded to 8 bits with
    /// a factor and a minimum for each row, or for each board in a convolution; sums are 32-bit integers. What else bf16
    /// leaves in fp32 stays in fp32 here too, and with AMX attention is as in bf16. On x86-64 without VNNI and
    /// AMX the weights have 7 bits, because the processor adds two products in 16 bits. The tests have the differences
    /// from lc0's fp32 for all golden networks.
    Int8,
    /// The same with 3x3 convolutions in fp32. A backend uses it instead of `Int8` where convolutions are not faster in
    /// 8 bits ([`InstructionSet::int8_convolutions_pay`]).
    Int8Dense,
}

impl Precision {
    /// The name of the backend that computes in this format.
    pub(super) fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "cpu",
            Precision::Bf16 => "cpu-bf16",
            Precision::Int8 | Precision::Int8Dense => "cpu-int8",
        }
    }

    /// The factors of the dense layers' products.
    fn factors(self) -> Factors {
        match self {
            Precision::Fp32 => Factors::Fp32,
            Precision::Bf16 => Factors::Bf16,
            Precision::Int8 | Precision::Int8Dense => Factors::Int8,
        }
    }

    /// The number format of dense layers.
    fn format(self) -> Format {
        match self {
            Precision::Fp32 => Format::Fp32,
            Precision::Bf16 => Format::Bf16,
            Precision::Int8 | Precision::Int8Dense => Format::Int8,
        }
    }

    /// The 3x3 convolutions in 8-bit integers, by the order in which they are packed: those of a tower's blocks, which
    /// have two each, except the first block. In fp32 the first block takes two fifths off the error of q of maia-1900,
    /// and the policy head, whose convolutions come after those of the tower, a third off its divergence.
    pub(super) fn int8_convolutions(self, body: &FileBody) -> Range<usize> {
        match body {
            FileBody::Convolution { blocks, .. } if self == Precision::Int8 => 2..2 * blocks.len().max(1),
            _ => 0..0,
        }
    }
}

/// An instruction set that this machine has. Only tests choose another than the best.
#[derive(Clone, Copy, Debug)]
pub struct InstructionSet(pub(super) Isa);

impl InstructionSet {
    /// All instruction sets of this machine. The last is the best.
    pub fn available() -> Vec<InstructionSet> {
        Isa::available().into_iter().map(InstructionSet).collect()
    }

    /// A line that names the instruction sets which tests of all of them skip on this machine; `None` if there are none.
    pub fn skipped() -> Option<String> {
        Isa::skipped()
    }

    /// The best instruction set of this machine.
    pub fn best() -> InstructionSet {
        InstructionSet(Isa::best())
    }

    /// The name for messages, for example `AVX-512`.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The name of the instructions that products in this precision use.
    pub(super) fn name_for(self, precision: Precision) -> &'static str {
        self.0.name_for(precision.factors())
    }

    /// Whether products in this precision have other instructions than with the sets before this one.
    pub fn changes(self, precision: Precision) -> bool {
        self.0.changes(precision.factors())
    }

    /// Whether products in bf16 are faster than in fp32, measured once in a millisecond. With AVX512-BF16 they are nearly
    /// twice as fast on AMD's processors, and slower on an Intel Xeon whose AMX is hidden.
    pub fn bf16_pays(self) -> bool {
        static MEASURED: OnceLock<bool> = OnceLock::new();
        self.has_bf16() && (self.0.has_amx() || *MEASURED.get_or_init(|| is_bf16_faster(self.0)))
    }

    /// Whether 3x3 convolutions with so many channels are faster in 8-bit integers than in fp32. Without instructions for
    /// bytes they are not. With them it is measured once, in some milliseconds: the gain depends on the processor's caches.
    pub fn int8_convolutions_pay(self, channels: usize) -> bool {
        /// By the name of the instruction set and the number of channels.
        static MEASURED: Mutex<BTreeMap<(&str, usize), bool>> = Mutex::new(BTreeMap::new());
        if !self.0.multiplies_bytes() {
            return false;
        }
        let channels = channels.clamp(1, MOST_MEASURED_CHANNELS);
        let mut measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
        *measured
            .entry((self.name(), channels))
            .or_insert_with(|| gain_of_bytes(self.0, channels) >= LEAST_CONVOLUTION_GAIN)
    }

    /// Whether the processor multiplies bf16 in hardware with this instruction set.
    pub fn has_bf16(self) -> bool {
        self.0.has_bf16()
    }
}

/// Convolutions are computed in 8-bit integers if that is so many times as fast, because they are less accurate.
const LEAST_CONVOLUTION_GAIN: f64 = 1.1;
/// The largest number of channels of a convolution whose time is measured. With more, a measurement would take long, and
/// 8-bit integers gain more, because the weights in fp32 no longer fit the caches.
const MOST_MEASURED_CHANNELS: usize = 256;

/// The number of positions that go through a tower together. With 64 channels, Winograd's components of 8 positions fit
/// a second-level cache of 1 MB beside the weights that stream through it (8 is 5 % faster than 16 and 15 % faster than
/// 32).
const SLICE_OF_TOWER: usize = 8;
/// The number of positions that go through encoders together. Smolgen's dense layers read their weights once per slice,
/// and gain nothing from larger slices.
const SLICE_OF_ENCODERS: usize = 16;

/// A network packed for one instruction set.
pub struct CpuNetwork {
    pub(super) isa: Isa,
    /// Whether the factors of attention may be rounded to bf16.
    pub(super) attention_in_bf16: bool,
    pub(super) layers: layers::Network,
    /// The number of outputs that the policy head computes for a position.
    pub(super) policy_width: usize,
    /// The index of each of the 1858 policy logits in a row of [`Outputs::policy`].
    pub(super) policy_places: Vec<u16>,
    /// The number of positions that go through the layers together.
    pub(super) slice: usize,
}

/// The outputs of the network for one position.
#[derive(Clone, PartialEq, Debug)]
pub struct RawEvaluation {
    /// The 1858 logits, before the softmax over legal moves.
    pub policy: Vec<f32>,
    /// Win minus loss probability.
    pub q: f32,
    /// Draw probability; 0 without a WDL head.
    pub d: f32,
    /// Plies to the end of the game; 0 without a moves-left head.
    pub m: f32,
    /// The expected error of q; 0 without a value-error head.
    pub e: f32,
}

impl CpuNetwork {
    /// Packs a network. Each of its layers is freed as soon as it is packed. 8-bit weights are rounded by `rounder`, which
    /// is returned, too.
    pub(super) fn pack(
        network: Network,
        precision: Precision,
        instructions: InstructionSet,
        rounder: Rounder,
    ) -> (CpuNetwork, Rounder) {
        let mut packing = Packing {
            isa: instructions.0,
            format: precision.format(),
            int8_convolutions: precision.int8_convolutions(&network.body),
            rounder,
            packed: 0,
            packed_convolutions: 0,
        };
        let Ok(PreparedNetwork { network, policy_width, policy_places }) = network.prepare(&mut packing);
        let packed = CpuNetwork {
            isa: packing.isa,
            attention_in_bf16: precision != Precision::Fp32,
            slice: match network.body {
                Body::Convolution { .. } => SLICE_OF_TOWER,
                Body::Attention { .. } => SLICE_OF_ENCODERS,
            },
            layers: network,
            policy_width,
            policy_places,
        };
        (packed, packing.rounder)
    }

    /// The policy head's outputs for position `index`. `policy_places` has the indices of the logits.
    pub(super) fn logits<'a>(&self, outputs: &'a Outputs, index: usize) -> &'a [f32] {
        &outputs.policy[index * self.policy_width..][..self.policy_width]
    }

    /// The value of position `index`.
    pub(super) fn value(&self, outputs: &Outputs, index: usize) -> Value {
        let m = if self.layers.moves_left.is_some() { outputs.moves_left[index] } else { 0.0 };
        let (q, d) = if self.layers.architecture.wdl {
            win_draw(&outputs.value[index * 3..][..3])
        } else {
            (outputs.value[index].tanh(), 0.0)
        };
        let e = if self.layers.value_error.is_some() { outputs.value_error[index] } else { 0.0 };
        Value { q, d, m, e }
    }
}

/// Win minus loss probability, and draw probability, from three logits.
pub(super) fn win_draw(logits: &[f32]) -> (f32, f32) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let [win, draw, loss] = [0, 1, 2].map(|i| (logits[i] - largest).exp());
    let total = win + draw + loss;
    ((win - loss) / total, draw / total)
}

impl std::fmt::Debug for CpuNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CpuNetwork for {}", self.isa.name())
    }
}
