//! An edge: a legal move with its prior, in four bytes.

use rukh_chess::PackedMove;

/// A move (low 16 bits) and its prior (high 16 bits).
///
/// The prior has five bits of exponent and eleven bits of mantissa, rounded from an f32. Its smallest value above 0 is
/// just above `2^-31`. The bits of two priors, as integers, compare as the priors do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge(u32);

/// The exponent field of `2^-31`. A prior up to that becomes 0.
const LOWEST_EXPONENT: u32 = 127 - 31;
/// The number of mantissa bits of an f32 that are dropped.
const DROPPED_BITS: u32 = 23 - 11;

impl Edge {
    /// An edge for the move `m`. The prior is clamped to 0…1, and NaN counts as 0.
    pub fn new(m: PackedMove, prior: f32) -> Edge {
        Edge(u32::from(m.bits()) | encode_prior(prior) << 16)
    }

    /// The move (low 16 bits) and the prior (high 16 bits) as one number.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The inverse of [`Edge::bits`].
    pub fn from_bits(bits: u32) -> Edge {
        Edge(bits)
    }

    /// The move of the edge.
    pub fn packed_move(self) -> PackedMove {
        PackedMove::from_bits(self.0 as u16)
    }

    /// The prior, 0…1.
    #[inline]
    pub fn prior(self) -> f32 {
        let code = self.0 >> 16;
        if code == 0 { 0.0 } else { f32::from_bits((code << DROPPED_BITS) + (LOWEST_EXPONENT << 23)) }
    }
}

fn encode_prior(prior: f32) -> u32 {
    let lowest = f32::from_bits(LOWEST_EXPONENT << 23);
    if prior.is_nan() || prior <= lowest {
        return 0;
    }
    let bits = prior.min(1.0).to_bits() - (LOWEST_EXPONENT << 23);
    (bits + (1 << (DROPPED_BITS - 1))) >> DROPPED_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priors_keep_eleven_bits_and_their_order() {
        let mut last = 0.0;
        for i in 1..=4000 {
            let prior = i as f32 / 4000.0;
            let stored = Edge::new(PackedMove::default(), prior).prior();
            assert!((stored - prior).abs() <= prior / 4096.0, "{prior} became {stored}");
            assert!(stored >= last, "order lost at {prior}");
            last = stored;
        }
        assert_eq!(Edge::new(PackedMove::default(), 1.0).prior(), 1.0);
        assert_eq!(Edge::new(PackedMove::default(), 0.0).prior(), 0.0);
        assert_eq!(Edge::new(PackedMove::default(), f32::NAN).prior(), 0.0);
        assert_eq!(Edge::new(PackedMove::default(), 7.0).prior(), 1.0);
    }

    #[test]
    fn move_and_prior_do_not_touch_each_other() {
        let m = PackedMove::from_bits(0xFFFF);
        let edge = Edge::new(m, 0.25);
        assert_eq!((edge.packed_move(), edge.prior()), (m, 0.25));
        assert_eq!(Edge::from_bits(edge.bits()), edge);
    }
}
