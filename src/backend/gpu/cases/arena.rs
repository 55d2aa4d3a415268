//! The memory of one launch, with guards around every array.
//!
//! All arrays of a launch lie in one block of device memory. After the launch, the block may differ from what was
//! uploaded only where the kernel must write.

use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::Address;
use crate::runtime::numbers;

/// The least number of guard bytes between two arrays. An access just outside of an array meets them.
const GUARD: usize = 256;

/// Arrays begin at multiples of this many bytes.
const ALIGNMENT: usize = 256;

/// The value of guard bytes. As elements they are huge or no number at all, so that a read of them shows in a result.
const GUARD_BYTE: u8 = 0xfd;

/// The value of bytes that the kernel must overwrite. As floating-point
/// elements of 16 or 32 bits they are not a number.
const UNWRITTEN_BYTE: u8 = 0xff;

/// The arrays of a launch.
pub(crate) struct Arena {
    base: Address,
    bytes: Vec<u8>,
    arrays: Vec<Array>,
}

/// The place of an array in the arena, and the type of its elements; `None` for other things than numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array {
    pub(super) start: usize,
    pub(super) bytes: usize,
    pub(super) element: Option<ElementType>,
}

/// The place of one of a launch's arrays in the device's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(super) address: Address,
    pub(super) start: usize,
    bytes: usize,
}

/// What an array must hold after a launch.
pub(crate) struct Expected {
    pub(super) place: Place,
    pub(super) element: ElementType,
    /// The elements. The kernel must not write those that are not a number.
    pub(super) values: Vec<f64>,
    /// The largest error, as [`numbers::error_above`] measures it with `least`.
    pub(super) allowed: f64,
    /// Errors are relative to the expected number, or to this one if it is larger.
    pub(super) least: f64,
}

/// The error that a partial sum in fp32 may have, on every card. It is this large because gfx90a takes factors in fp16 that
/// are subnormal (below 6.1e-5) for zeros (<https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html>).
pub(super) const PARTIAL_ERROR: f64 = 1e-4;

/// The error that a result of the type may have if it is rounded once: two roundings to 16 bits, or a long sum in fp32.
pub(super) fn allowed(element: ElementType) -> f64 {
    numbers::allowed(element) / 2.0
}

impl Expected {
    /// All of an array, with errors of at most `allowed`: relative ones, or absolute ones of numbers below 1.
    pub(super) fn new(place: Place, element: ElementType, values: Vec<f64>, allowed: f64) -> Expected {
        Expected { place, element, values, allowed, least: 1.0 }
    }

    /// The same, where errors are relative from `least` on instead of from 1.
    pub(super) fn above(self, least: f64) -> Expected {
        Expected { least, ..self }
    }
}

/// How a launch turned out.
#[derive(PartialEq, Debug)]
pub(crate) struct Judgement {
    /// The error that comes nearest to what is allowed.
    pub(crate) error: f64,
    /// What is allowed for it.
    pub(crate) allowed: f64,
    /// The first figure with an error that is too large, in words.
    pub(crate) wrong: Option<String>,
    /// The first byte that was changed although it belongs to no result, in words.
    pub(crate) damage: Option<String>,
}

impl Arena {
    /// An arena in device memory that begins at `base`.
    pub(crate) fn new(base: Address) -> Arena {
        let mut arena = Arena { base, bytes: Vec::new(), arrays: Vec::new() };
        arena.guard();
        arena
    }

    /// The contents to upload.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The arrays, in the order of their places.
    pub(super) fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn guard(&mut self) {
        let end = (self.bytes.len() + GUARD).next_multiple_of(ALIGNMENT);
        self.bytes.resize(end, GUARD_BYTE);
    }

    /// Adds an array with these bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Place {
        self.add(bytes, None)
    }

    fn add(&mut self, contents: &[u8], element: Option<ElementType>) -> Place {
        let (start, bytes) = (self.bytes.len(), contents.len());
        self.bytes.extend_from_slice(contents);
        self.arrays.push(Array { start, bytes, element });
        self.guard();
        Place { address: self.base.offset(start), start, bytes }
    }

    /// Adds an array of numbers. Returns their values after rounding, too.
    pub(super) fn numbers(&mut self, element: ElementType, values: &[f32]) -> (Place, Vec<f64>) {
        let (bytes, rounded) = numbers::encode(element, values);
        (self.add(&bytes, Some(element)), rounded)
    }

    /// Adds an array of `count` elements that the kernel writes.
    pub(super) fn room(&mut self, element: ElementType, count: usize) -> Place {
        self.add(&vec![UNWRITTEN_BYTE; count * element.bytes()], Some(element))
    }

    /// Compares the memory after a launch with what it must be.
    pub(crate) fn judge(&self, after: &[u8], expected: &[Expected]) -> Judgement {
        let mut judgement = Judgement { error: 0.0, allowed: f64::INFINITY, wrong: None, damage: None };
        let mut is_result = vec![false; self.bytes.len()];
        for Expected { place, element, values, allowed, least } in expected {
            let found = numbers::decode(*element, &after[place.start..place.start + place.bytes]);
            let size = element.bytes();
            let written = values.iter().zip(found).enumerate().filter(|(_, (value, _))| !value.is_nan());
            for (index, (value, found)) in written {
                let start = place.start + index * size;
                is_result[start..start + size].fill(true);
                let error = numbers::error_above(found, *value, *least);
                if error / allowed >= judgement.error / judgement.allowed {
                    (judgement.error, judgement.allowed) = (error, *allowed);
                }
                if error > *allowed && judgement.wrong.is_none() {
                    judgement.wrong = Some(format!("element {index} is {found:.6} instead of {value:.6}"));
                }
            }
        }
        let pairs = self.bytes.iter().zip(after).zip(&is_result).enumerate();
        let mut damaged = pairs.filter(|(_, ((before, after), is_result))| !**is_result && before != after);
        judgement.damage = damaged.next().map(|(byte, _)| self.whereabouts(byte, expected));
        judgement
    }

    /// Where a byte of the arena lies, in words.
    fn whereabouts(&self, byte: usize, expected: &[Expected]) -> String {
        let Some(place) = expected
            .iter()
            .map(|expected| expected.place)
            .min_by_key(|place| place.start.abs_diff(byte).min((place.start + place.bytes).abs_diff(byte)))
        else {
            return format!("byte {byte} of the memory was written");
        };
        if byte < place.start {
            format!(
                "a byte outside of a result was overwritten, {} before its first byte",
                place.start - byte
            )
        } else if byte >= place.start + place.bytes {
            format!(
                "a byte outside of a result was overwritten, {} behind its last byte",
                byte + 1 - place.start - place.bytes
            )
        } else {
            format!("byte {} of a result was written, but lies between its rows", byte - place.start)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F16: ElementType = ElementType::Fp16;

    /// An arena with an input and an output of four elements, of which the last one is not written; and the memory
    /// after a launch that wrote 1, 2 and 3.
    fn launched() -> (Arena, Vec<Expected>, Vec<u8>) {
        let mut arena = Arena::new(Address::NULL);
        let (input, rounded) = arena.numbers(F16, &[0.5, 0.25]);
        assert_eq!((rounded, input.start), (vec![0.5, 0.25], 256));
        let output = arena.room(F16, 4);
        let values = vec![1.0, 2.0, 3.0, f64::NAN];
        let mut after = arena.bytes().to_vec();
        after[output.start..output.start + 6].copy_from_slice(&numbers::encode(F16, &[1.0, 2.0, 3.0]).0);
        (arena, vec![Expected::new(output, F16, values, 1e-3)], after)
    }

    #[test]
    fn right_figures_inside_of_their_array_are_right() {
        let (arena, expected, after) = launched();
        let judgement = arena.judge(&after, &expected);
        assert_eq!(judgement, Judgement { error: 0.0, allowed: 1e-3, wrong: None, damage: None });
        // Nothing was written.
        let judgement = arena.judge(arena.bytes(), &expected);
        assert_eq!(judgement.error, f64::INFINITY);
        assert_eq!(judgement.wrong.as_deref(), Some("element 0 is NaN instead of 1.000000"));
    }

    #[test]
    fn a_wrong_figure_is_found() {
        let (arena, expected, mut after) = launched();
        let start = expected[0].place.start;
        after[start + 2..start + 4].copy_from_slice(&numbers::encode(F16, &[2.5]).0);
        let judgement = arena.judge(&after, &expected);
        assert_eq!((judgement.error, judgement.damage), (0.25, None));
        assert_eq!(judgement.wrong.as_deref(), Some("element 1 is 2.500000 instead of 2.000000"));
    }

    #[test]
    fn a_byte_outside_of_the_results_is_found() {
        let (arena, expected, after) = launched();
        let start = expected[0].place.start;
        for (byte, text) in [
            (start - 1, "a byte outside of a result was overwritten, 1 before its first byte"),
            (start + 8, "a byte outside of a result was overwritten, 1 behind its last byte"),
            (start + 7, "byte 7 of a result was written, but lies between its rows"),
        ] {
            let mut after = after.clone();
            after[byte] ^= 1;
            let judgement = arena.judge(&after, &expected);
            assert_eq!((judgement.wrong, judgement.damage.as_deref()), (None, Some(text)));
        }
        // The kernel must not change its input.
        let mut after = after;
        after[256] ^= 1;
        assert!(arena.judge(&after, &expected).damage.is_some());
    }
}
