//! Packs the weights of a dense layer into panels.

use super::quantise::{Quantised, round_output};
use crate::simd::{AlignedVec, Factors, Isa, Word, bf16_bits};

/// The number format of the factors in a layer's products. Sums are fp32, or 32-bit integers for `Int8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// Weights and inputs as they are.
    Fp32,
    /// Weights and inputs rounded to bf16 (to nearest, ties to even).
    Bf16,
    /// Weights rounded to whole multiples of a number for each output, and inputs to multiples of a number for each row.
    Int8,
}

/// How the factors of a product are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Storage {
    /// A step is one fp32 number.
    Fp32,
    /// A step is a pair of bf16.
    Bf16,
    /// A step is four bytes.
    Int8,
    /// An fp32 number is the sum of three bf16. Sixteen steps of pairs of the first terms are followed by the same steps
    /// of the second and of the third terms.
    #[cfg(target_arch = "x86_64")]
    Split,
}

impl Storage {
    /// The storage for a format on an instruction set.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(unused_variables, reason = "only AMX stores fp32 in another way")
    )]
    fn of(isa: Isa, format: Format) -> Storage {
        match format {
            #[cfg(target_arch = "x86_64")]
            Format::Fp32 if isa.amx().is_some() => Storage::Split,
            Format::Fp32 => Storage::Fp32,
            Format::Bf16 => Storage::Bf16,
            Format::Int8 => Storage::Int8,
        }
    }

    /// The number of steps whose words for an output are neighbours in a panel: 2 if the processor multiplies blocks.
    fn group(self, isa: Isa) -> usize {
        match self {
            Storage::Bf16 if isa.multiplies_blocks(Factors::Bf16) => 2,
            Storage::Int8 if isa.multiplies_blocks(Factors::Int8) => 2,
            _ => 1,
        }
    }

    /// The number of steps of a product over `inputs` columns. AMX multiplies whole tiles, and needs at least one.
    fn steps(self, isa: Isa, inputs: usize) -> usize {
        let steps = match self {
            Storage::Fp32 => inputs,
            Storage::Bf16 => inputs.div_ceil(2),
            Storage::Int8 => inputs.div_ceil(4),
            #[cfg(target_arch = "x86_64")]
            Storage::Split => return 3 * tile_steps(inputs.div_ceil(2)),
        };
        #[cfg(target_arch = "x86_64")]
        if isa.amx().is_some() {
            return tile_steps(steps);
        }
        steps.next_multiple_of(self.group(isa))
    }
}

/// Rounds a number of steps up to whole tiles.
#[cfg(target_arch = "x86_64")]
fn tile_steps(steps: usize) -> usize {
    use crate::simd::amx::STEPS;
    steps.next_multiple_of(STEPS).max(STEPS)
}

#[derive(Clone, Debug)]
enum Panels {
    Fp32(AlignedVec<f32>),
    Words(AlignedVec<Word>),
}

/// A weight matrix and its biases, or several matrices of the same size, packed for the product on one
/// instruction set.
#[derive(Clone, Debug)]
pub(crate) struct PackedMatrix {
    /// `[matrix][panel][step / group][2 * LANES][group]`
    panels: Panels,
    storage: Storage,
    /// The number of steps whose words for an output are neighbours.
    group: usize,
    /// `[outputs]`, padded with zeros to the end of the last panel.
    biases: AlignedVec<f32>,
    /// For `Int8`, `[matrix][outputs]`, padded like the biases: the weight that 1 stands for.
    scales: AlignedVec<f32>,
    /// For `Int8`, in the same layout: the sum of the output's weights, after they were rounded.
    sums: AlignedVec<f32>,
    /// For `Int8`, `[inputs]`, padded with zeros to whole vectors: the numbers by which the inputs are multiplied before
    /// they are rounded. Empty if they are all 1.
    factors: AlignedVec<f32>,
    /// The number of the layer among those of a network.
    number: Option<usize>,
    inputs: usize,
    outputs: usize,
    steps: usize,
    panel_width: usize,
}

impl PackedMatrix {
    /// Packs `weights` (`[outputs][inputs]`) and `biases` (`[outputs]`, or empty if there are none).
    ///
    /// # Panics
    /// If the slices do not have these sizes, which the network loader has checked.
    pub(crate) fn new(isa: Isa, format: Format, weights: &[f32], biases: &[f32], inputs: usize) -> Self {
        let outputs = weights.len().checked_div(inputs).unwrap_or(0);
        assert_eq!(weights.len(), inputs * outputs, "weights are [outputs][inputs]");
        Self::from_fn(isa, format, outputs, inputs, biases, |output, input| weights[output * inputs + input])
    }

    /// Packs rounded weights (`[outputs][inputs]`) and `biases` (`[outputs]`) in 8 bits.
    pub(crate) fn quantised(isa: Isa, quantised: &Quantised, biases: &[f32], inputs: usize) -> Self {
        let Quantised { bytes, scales, factors } = quantised;
        let mut packed = Self::from_bytes(isa, bytes, scales, biases, inputs);
        if !factors.is_empty() {
            packed.factors = AlignedVec::zeroed(inputs.next_multiple_of(isa.lanes()));
            packed.factors[..inputs].copy_from_slice(factors);
        }
        packed
    }

    /// Packs weights that are rounded already: `bytes` (`[outputs][inputs]`) are multiples of `scales` (`[outputs]`).
    pub(crate) fn from_bytes(isa: Isa, bytes: &[i8], scales: &[f32], biases: &[f32], inputs: usize) -> Self {
        let mut packed = Self::from_fn(isa, Format::Int8, scales.len(), inputs, biases, |_, _| 0.0);
        for (output, scale) in scales.iter().enumerate() {
            packed.store_bytes(0, output, &bytes[output * inputs..][..inputs], *scale);
        }
        packed
    }

    /// The same matrix as the layer `number` of a network.
    pub(crate) fn with_number(self, number: usize) -> Self {
        PackedMatrix { number: Some(number), ..self }
    }

    /// Packs the matrix with the elements `weight(output, input)`.
    pub(crate) fn from_fn(
        isa: Isa,
        format: Format,
        outputs: usize,
        inputs: usize,
        biases: &[f32],
        weight: impl Fn(usize, usize) -> f32,
    ) -> Self {
        assert!(biases.is_empty() || biases.len() == outputs, "one bias for each output, or none");
        let mut packed =
            Self::batch_from_fn(isa, format, 1, outputs, inputs, |_, output, input| weight(output, input));
        packed.biases[..biases.len()].copy_from_slice(biases);
        packed
    }

    /// Packs `count` matrices of the same size with the elements `weight(which, output, input)` and no biases.
    pub(crate) fn batch_from_fn(
        isa: Isa,
        format: Format,
        count: usize,
        outputs: usize,
        inputs: usize,
        weight: impl Fn(usize, usize, usize) -> f32,
    ) -> Self {
        let storage = Storage::of(isa, format);
        let panel_width = 2 * isa.lanes();
        let padded = outputs.next_multiple_of(panel_width);
        let steps = storage.steps(isa, inputs);
        let length = count * padded * steps;
        let mut packed = PackedMatrix {
            panels: match storage {
                Storage::Fp32 => Panels::Fp32(AlignedVec::zeroed(length)),
                _ => Panels::Words(AlignedVec::zeroed(length)),
            },
            storage,
            group: storage.group(isa),
            biases: AlignedVec::zeroed(padded),
            scales: AlignedVec::zeroed(if storage == Storage::Int8 { count * padded } else { 0 }),
            sums: AlignedVec::zeroed(if storage == Storage::Int8 { count * padded } else { 0 }),
            factors: AlignedVec::default(),
            number: None,
            inputs,
            outputs,
            steps,
            panel_width,
        };
        let mut column = vec![0.0; inputs];
        for which in 0..count {
            for output in 0..outputs {
                for (input, place) in column.iter_mut().enumerate() {
                    *place = weight(which, output, input);
                }
                packed.store_column(which, output, &column, isa.largest_int8_weight());
            }
        }
        packed
    }

    /// Stores the weights of one output. `largest` is the largest 8-bit weight.
    fn store_column(&mut self, which: usize, output: usize, weights: &[f32], largest: i8) {
        let place = self.places(which, output);
        let words = match &mut self.panels {
            Panels::Fp32(numbers) => {
                for (step, weight) in weights.iter().enumerate() {
                    numbers[place(step)] = *weight;
                }
                return;
            }
            Panels::Words(words) => words,
        };
        match self.storage {
            Storage::Fp32 | Storage::Bf16 => {
                for (step, pair) in weights.chunks(2).enumerate() {
                    words[place(step)] = pair_of(pair, bf16_bits);
                }
            }
            Storage::Int8 => {
                let mut bytes = vec![0; weights.len()];
                let scale = round_output(weights, largest, &mut bytes);
                self.store_bytes(which, output, &bytes, scale);
            }
            #[cfg(target_arch = "x86_64")]
            Storage::Split => {
                use crate::simd::amx::STEPS;
                for (step, pair) in weights.chunks(2).enumerate() {
                    for term in 0..3 {
                        let step = step / STEPS * 3 * STEPS + term * STEPS + step % STEPS;
                        words[place(step)] = pair_of(pair, |weight| term_bits(weight, term));
                    }
                }
            }
        }
    }

    /// Stores the rounded weights of one output: multiples of `scale`.
    fn store_bytes(&mut self, which: usize, output: usize, bytes: &[i8], scale: f32) {
        let (place, index) = (self.places(which, output), which * self.biases.len() + output);
        if let Panels::Words(words) = &mut self.panels {
            for (step, four) in bytes.chunks(4).enumerate() {
                let byte = |i: usize| four.get(i).map_or(0, |byte| *byte as u8);
                words[place(step)] = Word::from_le_bytes([byte(0), byte(1), byte(2), byte(3)]);
            }
        }
        self.scales[index] = scale;
        self.sums[index] = scale * bytes.iter().map(|byte| i32::from(*byte)).sum::<i32>() as f32;
    }

    /// The place of each step of an output in the panels.
    fn places(&self, which: usize, output: usize) -> impl Fn(usize) -> usize + use<> {
        let PackedMatrix { steps, panel_width, group, .. } = *self;
        let index = which * self.biases.len() + output;
        let (panel, column) = (index / panel_width * steps * panel_width, output % panel_width);
        move |step| panel + (step / group * panel_width + column) * group + step % group
    }

    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// The number of the layer among those of a network, if it is one of them.
    pub(crate) fn number(&self) -> Option<usize> {
        self.number
    }

    /// The biases of all outputs.
    pub(crate) fn biases(&self) -> &[f32] {
        &self.biases[..self.outputs]
    }

    /// For `Int8`: the numbers by which the inputs are multiplied before they are rounded, padded to whole vectors.
    pub(super) fn factors(&self) -> Option<&[f32]> {
        (!self.factors.is_empty()).then_some(&self.factors)
    }

    /// The size of one of the packed matrices.
    pub(crate) fn matrix_bytes(&self) -> usize {
        self.biases.len() * self.steps * size_of::<Word>()
    }

    /// The number of outputs in a panel.
    pub(super) fn panel_width(&self) -> usize {
        self.panel_width
    }

    pub(super) fn storage(&self) -> Storage {
        self.storage
    }

    /// The number format of the product's factors.
    pub(crate) fn format(&self) -> Format {
        match self.storage {
            Storage::Fp32 => Format::Fp32,
            #[cfg(target_arch = "x86_64")]
            Storage::Split => Format::Fp32,
            Storage::Bf16 => Format::Bf16,
            Storage::Int8 => Format::Int8,
        }
    }

    /// The number of steps in a panel: the words of a row of x in this storage.
    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    /// The biases of the panel that starts at `column`.
    pub(super) fn biases_from(&self, column: usize) -> &[f32] {
        &self.biases[column..][..self.panel_width]
    }

    /// For `Int8`: the scales and the sums of the outputs of a matrix's panel.
    pub(super) fn scales_and_sums(&self, which: usize, column: usize) -> (&[f32], &[f32]) {
        let at = which * self.biases.len() + column;
        (&self.scales[at..][..self.panel_width], &self.sums[at..][..self.panel_width])
    }

    /// The words of a matrix, in the layout of `panels`. Empty if the storage is `Fp32`.
    pub(super) fn panels(&self, which: usize) -> &[Word] {
        match &self.panels {
            Panels::Words(words) => &words[self.matrix(which)],
            Panels::Fp32(_) => &[],
        }
    }

    /// The numbers of a matrix, `[panel][steps][2 * LANES]`. Empty if the storage is not `Fp32`.
    pub(super) fn fp32_panels(&self, which: usize) -> &[f32] {
        match &self.panels {
            Panels::Fp32(numbers) => &numbers[self.matrix(which)],
            Panels::Words(_) => &[],
        }
    }

    /// The place of a matrix in the panels.
    fn matrix(&self, which: usize) -> std::ops::Range<usize> {
        let length = self.biases.len() * self.steps;
        which * length..(which + 1) * length
    }
}

/// A word of one or two numbers, the first in the low half.
fn pair_of(numbers: &[f32], bits: impl Fn(f32) -> u16) -> Word {
    let half = |i: usize| numbers.get(i).map_or(0, |x| u32::from(bits(*x)));
    half(0) | half(1) << 16
}

/// The bits of a term of an fp32 number: the upper half of what the terms before it have left. A bf16 holds eight of the
/// 24 bits, so the sum of the three terms is exact.
#[cfg(target_arch = "x86_64")]
fn term_bits(x: f32, term: usize) -> u16 {
    let upper = |x: f32| f32::from_bits(x.to_bits() & 0xffff_0000);
    let rest = (0..term).fold(x, |rest, _| rest - upper(rest));
    (rest.to_bits() >> 16) as u16
}
