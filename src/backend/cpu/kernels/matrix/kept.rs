//! What is kept of the rounded weights of a layer, so that the layer's next rounding needs no statistics.
//!
//! It is what the weights themselves do not say: factors and scales, and by how many steps each 8-bit weight differs from
//! the nearest one. Most of these differences are 0, 1 or -1, so that they can be compressed to a fifth of the 8-bit
//! weights.

use super::quantise::{Quantised, nearest};

/// The rounded weights of a layer, without the weights.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct KeptRounding {
    /// `[outputs]`: see [`Quantised`].
    pub(crate) scales: Vec<f32>,
    /// `[inputs]`, or empty: see [`Quantised`].
    pub(crate) factors: Vec<f32>,
    /// `[outputs][taps][inputs]`: the 8-bit weight minus the nearest one. It wraps around.
    pub(crate) shifts: Vec<i8>,
}

impl KeptRounding {
    /// Keeps the rounded `weights`. `largest` is the largest 8-bit weight.
    pub(crate) fn of(quantised: &Quantised, weights: &[f32], largest: i8) -> KeptRounding {
        let Quantised { bytes, scales, factors } = quantised;
        let nearest = nearest(weights, scales, factors, largest);
        let shifts = bytes.iter().zip(nearest).map(|(byte, nearest)| byte.wrapping_sub(nearest)).collect();
        KeptRounding { scales: scales.clone(), factors: factors.clone(), shifts }
    }

    /// The rounded `weights`, exactly as they were. `None` if this does not belong to a layer of this size, or if a
    /// number is not one that rounding gives.
    pub(crate) fn restore(&self, weights: &[f32], inputs: usize, largest: i8) -> Option<Quantised> {
        let KeptRounding { scales, factors, shifts } = self;
        let fits = shifts.len() == weights.len()
            && (factors.is_empty() || factors.len() == inputs)
            && if scales.is_empty() {
                weights.is_empty()
            } else {
                weights.len().is_multiple_of(scales.len())
            };
        let is_sound = scales.iter().all(|scale| scale.is_finite() && *scale >= 0.0)
            && factors.iter().all(|factor| factor.is_finite() && *factor > 0.0);
        if !fits || !is_sound {
            return None;
        }
        let nearest = nearest(weights, scales, factors, largest);
        let bytes: Vec<i8> =
            shifts.iter().zip(nearest).map(|(shift, nearest)| nearest.wrapping_add(*shift)).collect();
        // The kernels must not meet larger bytes, because sums in 16 bits would overflow.
        let is_in_range = bytes.iter().all(|byte| (-largest..=largest).contains(byte));
        is_in_range.then(|| Quantised { bytes, scales: scales.clone(), factors: factors.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::quantise;
    use super::super::statistics::InputStatistics;
    use super::super::tests::noise;
    use super::*;
    use crate::simd::Isa;

    #[test]
    fn rounded_weights_are_restored_exactly_and_only_for_their_layer() {
        let (inputs, outputs, rows) = (24, 10, 200);
        let weights = noise(outputs * inputs, 1);
        let mut x = noise(rows * inputs, 2);
        // Inputs of different sizes have different factors.
        x.chunks_exact_mut(inputs).for_each(|row| row[3] *= 9.0);
        for isa in Isa::tested() {
            let largest = isa.largest_int8_weight();
            let mut statistics = InputStatistics::default();
            statistics.add(isa, (&x, inputs), rows, inputs);
            for known in [None, Some(&statistics)] {
                let quantised = quantise(isa, &weights, inputs, 1, largest, known);
                let kept = KeptRounding::of(&quantised, &weights, largest);
                let moved = kept.shifts.iter().filter(|shift| **shift != 0).count();
                assert_eq!(moved > 0, known.is_some(), "{}: {moved} are not the nearest", isa.name());
                let restored = kept.restore(&weights, inputs, largest).expect("it fits");
                assert_eq!(restored.bytes, quantised.bytes, "{}", isa.name());
                assert_eq!((&restored.scales, &restored.factors), (&quantised.scales, &quantised.factors));
                assert!(kept.restore(&weights[inputs..], inputs, largest).is_none(), "too few outputs");
                // The first weight becomes -128, which no rounding gives.
                let mut far = kept.shifts.clone();
                far[0] = i8::MIN.wrapping_sub(quantised.bytes[0].wrapping_sub(kept.shifts[0]));
                let broken = [
                    KeptRounding { scales: vec![f32::NAN; outputs], ..kept.clone() },
                    KeptRounding { factors: vec![0.0; inputs], ..kept.clone() },
                    KeptRounding { factors: vec![1.0; inputs - 1], ..kept.clone() },
                    KeptRounding { shifts: far, ..kept.clone() },
                    KeptRounding { scales: Vec::new(), ..kept },
                ];
                for (which, broken) in broken.into_iter().enumerate() {
                    assert!(broken.restore(&weights, inputs, largest).is_none(), "broken {which}");
                }
            }
        }
    }
}
