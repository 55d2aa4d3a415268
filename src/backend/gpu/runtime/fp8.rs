//! Numbers of 8 bits in the format e4m3: a sign, four bits of exponent and three of mantissa.
//!
//! The format is that of the "OCP 8-bit Floating Point Specification (OFP8)", which has no infinities. gfx942 has an
//! older variant (FNUZ in LLVM's names): its exponents are smaller by one, so that the largest number is 240 instead of
//! 448, and the code of the negative zero is its only NaN.

use serde::{Deserialize, Serialize};

/// A variant of e4m3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) enum Fp8Format {
    /// That of gfx12, gfx950, and NVIDIA's cards.
    Ocp,
    /// That of gfx942.
    Fnuz,
}

impl Fp8Format {
    /// What is added to exponents.
    fn bias(self) -> i32 {
        match self {
            Fp8Format::Ocp => 7,
            Fp8Format::Fnuz => 8,
        }
    }

    /// The code of the largest number.
    fn largest_code(self) -> u8 {
        match self {
            Fp8Format::Ocp => 0x7e,
            Fp8Format::Fnuz => 0x7f,
        }
    }

    /// The largest number.
    pub(crate) fn largest(self) -> f32 {
        self.value(self.largest_code())
    }

    /// The number with this code.
    pub(crate) fn value(self, code: u8) -> f32 {
        let magnitude = code & 0x7f;
        let is_nan = match self {
            Fp8Format::Ocp => magnitude == 0x7f,
            Fp8Format::Fnuz => code == 0x80,
        };
        if is_nan {
            return f32::NAN;
        }
        // Below the least exponent, numbers are multiples of the same step.
        let exponent = i32::from(magnitude >> 3).max(1) - self.bias();
        let steps = if magnitude < 8 { magnitude } else { 8 + magnitude % 8 };
        let value = f32::from(steps) * 2_f32.powi(exponent - 3);
        if code < 0x80 { value } else { -value }
    }

    /// The code of the nearest number, ties to even. Numbers that are too large become the largest. A NaN becomes zero.
    pub(crate) fn round(self, value: f32) -> u8 {
        if value.is_nan() {
            return 0;
        }
        let magnitude = value.abs().min(self.largest());
        let least = 1 - self.bias();
        let exponent = ((magnitude.to_bits() >> 23) as i32 - 127).max(least);
        // A number that is rounded up to the next exponent gets the right code, because codes are in order.
        let steps = (magnitude * 2_f32.powi(3 - exponent)).round_ties_even() as i32;
        let code = (8 * (exponent - least) + steps) as u8;
        if value < 0.0 && code != 0 { code | 0x80 } else { code }
    }

    /// Rounds the weights of a layer, `[outputs][inputs]`, to codes, and returns them with the weight that 1 stands for,
    /// for each output. The largest weight of an output becomes the largest number.
    pub(crate) fn quantise(self, weights: &[f32], inputs: usize) -> (Vec<u8>, Vec<f32>) {
        let (mut codes, mut scales) = (Vec::with_capacity(weights.len()), Vec::new());
        for row in weights.chunks_exact(inputs.max(1)) {
            let most = row.iter().fold(0.0_f32, |most, weight| most.max(weight.abs()));
            let scale = most / self.largest();
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            codes.extend(row.iter().map(|weight| self.round(weight * inverse)));
            scales.push(scale);
        }
        (codes, scales)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [(Fp8Format, f32, f32); 2] =
        [(Fp8Format::Ocp, 448.0, 0.001_953_125), (Fp8Format::Fnuz, 240.0, 0.000_976_562_5)];

    #[test]
    fn every_code_is_the_nearest_to_its_number_and_ties_go_to_even() {
        for (format, largest, least) in BOTH {
            assert_eq!((format.largest(), format.value(1)), (largest, least), "{format:?}");
            let nans = (0..=255).filter(|&code| format.value(code).is_nan()).count();
            assert_eq!(nans, if format == Fp8Format::Ocp { 2 } else { 1 });
            for code in 0..=format.largest_code() {
                let value = format.value(code);
                assert_eq!(format.round(value), code);
                let negative = if code == 0 { 0 } else { code | 0x80 };
                assert_eq!(format.round(-value), negative);
                if code == format.largest_code() {
                    continue;
                }
                let next = format.value(code + 1);
                assert!(next > value, "{code:#x}");
                let middle = (value + next) / 2.0;
                assert_eq!(format.round(middle), code + code % 2, "{value} {next}");
                assert_eq!(format.round(f32::from_bits(middle.to_bits() - 1)), code);
                assert_eq!(format.round(f32::from_bits(middle.to_bits() + 1)), code + 1);
            }
        }
    }

    #[test]
    fn numbers_that_are_too_large_become_the_largest() {
        for (format, largest, _) in BOTH {
            for value in [largest * 1.01, 1e30, f32::INFINITY] {
                assert_eq!(format.value(format.round(value)), largest);
                assert_eq!(format.value(format.round(-value)), -largest);
            }
            assert_eq!(format.round(f32::NAN), 0);
        }
    }

    #[test]
    fn each_output_has_a_scale_of_its_own() {
        for (format, largest, _) in BOTH {
            let weights = [0.5, -0.25, 0.0, 1e-3, 0.0, 0.0, 0.0, 0.0, -3.0, 1.0, 2.0, 1e-9];
            let (codes, scales) = format.quantise(&weights, 4);
            assert_eq!(scales, [0.5 / largest, 0.0, 3.0 / largest]);
            for ((code, weight), scale) in codes.iter().zip(weights).zip(scales.iter().flat_map(|s| [s; 4])) {
                let found = format.value(*code) * scale;
                // Three bits of mantissa, and the least step.
                let allowed = weight.abs() / 16.0 + scale * format.value(1) / 2.0;
                assert!((found - weight).abs() <= allowed * 1.001, "{found}, not {weight}");
            }
        }
    }
}
