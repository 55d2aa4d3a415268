//! The priors of a node's moves: one byte for each move, in the order of the move generator.
//!
//! Nearly all nodes are leaves without visited children. They do not store moves, because the move generator can
//! produce them again. They store priors with just the precision that selection needs to find the next best move and
//! to estimate its prior. A move that is visited gets a [link](super::links), which stores the move.

/// A prior as four bits of exponent and four bits of mantissa: from 1 down to about 2^-16, in steps of 3 to 6 per cent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct PriorCode(u8);

/// The number of bits of an f32 below the four highest mantissa bits.
const DROPPED_BITS: u32 = 19;
/// The offset of the exponent. It gives the prior 1 the largest code, 255.
const OFFSET: u32 = (1.0_f32.to_bits() >> DROPPED_BITS) - 255;

impl PriorCode {
    /// The nearest code. NaN and a prior below the smallest code become 0.
    #[inline]
    pub(super) fn new(prior: f32) -> PriorCode {
        // This code has no branches and uses only operations that compilers vectorise. NaN becomes 0, because it is not
        // above 0. The bits of a number from 0 to 1 are positive as i32.
        let prior = if prior > 0.0 { prior } else { 0.0 };
        let prior = if prior < 1.0 { prior } else { 1.0 };
        let rounded = (prior.to_bits() + (1 << (DROPPED_BITS - 1))) >> DROPPED_BITS;
        PriorCode((rounded as i32 - OFFSET as i32).max(0) as u8)
    }

    /// The decoded prior, 0…1.
    #[inline]
    pub(super) fn prior(self) -> f32 {
        if self.0 == 0 { 0.0 } else { f32::from_bits((u32::from(self.0) + OFFSET) << DROPPED_BITS) }
    }

    #[inline]
    pub(super) fn bits(self) -> u8 {
        self.0
    }

    /// The inverse of [`PriorCode::bits`].
    #[inline]
    pub(super) fn from_bits(bits: u8) -> PriorCode {
        PriorCode(bits)
    }
}

/// A move's place in the order of visits: by descending prior, then by the order of the move generator. A greater place
/// is visited earlier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place(u16);

impl Place {
    /// A place after the places of all moves. No move has this place, because a node has fewer than 256 moves.
    pub(super) const LAST: Place = Place(0);

    #[inline]
    pub(super) fn new(code: PriorCode, index: usize) -> Place {
        Place(u16::from(code.bits()) << 8 | (255 - index as u16))
    }

    pub(super) fn code(self) -> PriorCode {
        PriorCode((self.0 >> 8) as u8)
    }

    pub(super) fn index(self) -> usize {
        usize::from(255 - (self.0 & 255))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priors_keep_their_order_and_four_bits() {
        let mut last = 0.0;
        for i in 1..=4000 {
            let prior = i as f32 / 4000.0;
            let stored = PriorCode::new(prior).prior();
            assert!((stored - prior).abs() <= prior / 30.0, "{prior} became {stored}");
            assert!(stored >= last, "order lost at {prior}");
            last = stored;
        }
        for (prior, expected) in
            [(1.0, 1.0), (0.0, 0.0), (7.0, 1.0), (-1.0, 0.0), (1e-9, 0.0), (0.5, 0.5), (f32::NAN, 0.0)]
        {
            assert_eq!(PriorCode::new(prior).prior(), expected, "{prior}");
        }
        for bits in 0..=255 {
            assert_eq!(PriorCode::new(PriorCode::from_bits(bits).prior()).bits(), bits);
        }
    }

    #[test]
    fn places_fall_with_the_prior_and_then_with_the_index() {
        let (low, high) = (PriorCode::new(0.1), PriorCode::new(0.2));
        assert!(Place::new(high, 9) > Place::new(low, 0) && Place::new(low, 0) > Place::new(low, 1));
        let place = Place::new(high, 200);
        assert_eq!((place.code(), place.index()), (high, 200));
    }
}
