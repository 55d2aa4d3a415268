//! Numbers of eight bits in the format e4m3: a sign, four bits of exponent, three of mantissa. See "OCP 8-bit Floating
//! Point Specification (OFP8)" for gfx12's variant, and "AMD Instinct MI300 Instruction Set Architecture" for that of
//! gfx942, which is called FNUZ: its exponents are smaller by one, and the code of the negative zero means NaN.

use super::table::{Row, handler, lanes, rows};
use super::wave::{F32, Instruction, Lane, Lanes, U16, WAVE, Wave};

/// A variant of the format.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    /// The value of each code.
    values: [f32; 256],
    /// What is added to exponents.
    bias: i32,
    /// The code of the largest number.
    largest: u32,
    /// The code for everything that is too large.
    nan: u32,
}

/// gfx12's.
pub(crate) static OCP: Format = Format::new(7, 0x7e, 0x7f);
/// gfx942's.
pub(crate) static FNUZ: Format = Format::new(8, 0x7f, 0x80);

impl Format {
    const fn new(bias: i32, largest: u32, nan: u32) -> Self {
        let mut values = [f32::NAN; 256];
        let mut magnitude = 0;
        while magnitude <= largest {
            let (exponent, mantissa) = ((magnitude >> 3) as i32, magnitude & 7);
            let (exponent, mantissa) = if exponent == 0 { (1, mantissa) } else { (exponent, mantissa + 8) };
            let value = mantissa as f32 * power_of_two(exponent - bias - 3);
            values[magnitude as usize] = value;
            // The negative zero of FNUZ is a NaN.
            if (magnitude | 0x80) != nan {
                values[(magnitude | 0x80) as usize] = -value;
            }
            magnitude += 1;
        }
        Self { values, bias, largest, nan }
    }

    /// The number with this code.
    pub(crate) fn value(&self, code: u8) -> f32 {
        self.values[usize::from(code)]
    }

    /// The nearest number's code, ties to even. Numbers above the largest by half a step or more become NaN, as they do
    /// where the mode bit FP16_OVFL is not set.
    pub(crate) fn round(&self, value: f32) -> u32 {
        let magnitude = value.abs();
        if !magnitude.is_finite() {
            return self.nan;
        }
        let least = 1 - self.bias;
        let exponent = ((magnitude.to_bits() >> 23) as i32 - 127).max(least);
        let steps = (magnitude * power_of_two(3 - exponent)).round_ties_even() as i32;
        let code = (8 * (exponent - least) + steps) as u32;
        let signed = code | u32::from(value.is_sign_negative()) << 7;
        match code > self.largest {
            true => self.nan,
            false if signed == self.nan => 0,
            false => signed,
        }
    }
}

const fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

rows! {
    /// The conversions of VOP3. Their opcodes are those of gfx12 and gfx942.
    FP8:
    0x369 v_cvt_pk_fp8_f32 (a: F32, b: F32) -> U16 = OCP.round(a) | OCP.round(b) << 8;
    0x2a2 cvt_pk_fp8_f32_fnuz (a: F32, b: F32) -> U16 = FNUZ.round(a) | FNUZ.round(b) << 8;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values as the documents define them.
    fn values(fnuz: bool) -> Vec<f64> {
        let bias = if fnuz { 8 } else { 7 };
        let value = |code: i32| {
            let (exponent, mantissa) = (code >> 3 & 15, f64::from(code & 7) / 8.0);
            let magnitude = match exponent {
                0 => mantissa * 2f64.powi(1 - bias),
                _ => (1.0 + mantissa) * 2f64.powi(exponent - bias),
            };
            let is_nan = if fnuz { code == 0x80 } else { code & 0x7f == 0x7f };
            if is_nan {
                f64::NAN
            } else if code < 0x80 {
                magnitude
            } else {
                -magnitude
            }
        };
        (0..256).map(value).collect()
    }

    #[test]
    fn all_codes_have_their_values_and_numbers_between_them_are_rounded_to_the_nearest_and_ties_to_even() {
        for (format, fnuz, largest) in [(&OCP, false, 448.0), (&FNUZ, true, 240.0)] {
            let values = values(fnuz);
            for (code, &value) in values.iter().enumerate() {
                let found = format.values[code];
                assert!(f64::from(found) == value || found.is_nan() && value.is_nan(), "{code:#x}: {found}");
                if !value.is_nan() {
                    assert_eq!(format.round(value as f32), code as u32, "{code:#x}");
                }
                let Some(&next) = values.get(code + 1).filter(|next| !next.is_nan() && !value.is_nan())
                else {
                    continue;
                };
                let middle = ((value + next) / 2.0) as f32;
                let even = (code + code % 2) as u32;
                assert_eq!(format.round(middle), even, "{value} {next}");
                let nearer = |bits: u32| format.round(f32::from_bits(bits));
                assert_eq!(nearer(middle.to_bits() - 1), code as u32, "{value}");
                assert_eq!(nearer(middle.to_bits() + 1), code as u32 + 1, "{next}");
            }
            assert_eq!(values.iter().copied().fold(0.0, f64::max), largest);
            let nan = if fnuz { 0x80 } else { 0x7f };
            let half_step = largest as f32 / (if fnuz { 15.0 } else { 14.0 } * 2.0);
            for value in [largest as f32 + half_step, f32::INFINITY, f32::NAN] {
                // The middle between the largest number and the next is a tie, whose even neighbour exists in neither
                // variant: OCP's largest mantissa is even, so that the tie stays at the largest number.
                let is_tie_to_largest = !fnuz && value == 464.0;
                assert_eq!(format.round(value), if is_tie_to_largest { 0x7e } else { nan }, "{value}");
            }
            assert_eq!(format.round(-0.0), if fnuz { 0 } else { 0x80 });
        }
    }
}
