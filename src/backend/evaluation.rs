//! The results of an evaluation.

/// The value of a position, from the side to move's view.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Value {
    /// The probability of a win minus that of a loss, -1…1.
    pub q: f32,
    /// Draw probability, 0…1.
    pub d: f32,
    /// Plies left in the game.
    pub m: f32,
    /// The estimated error of q, 0…1. It is 0 if the backend does not estimate it
    /// ([`super::Attributes::has_value_error`]).
    pub e: f32,
}

/// One position's evaluation.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Evaluation {
    /// q, d, m and e.
    pub value: Value,
    /// One prior for each legal move, in the order of the request. They sum to 1; priors from the cache sum to 1 within
    /// 1/4096 (see [`CompactPrior`]).
    pub priors: Box<[f32]>,
}

/// The evaluations of a batch, in the order of its requests.
#[derive(Clone, Debug, Default)]
pub struct Evaluations {
    values: Vec<Value>,
    priors: Vec<f32>,
    /// The priors of evaluation i end before `priors[ends[i]]`.
    ends: Vec<u32>,
}

impl Evaluations {
    /// Makes an empty list with capacity for `positions` evaluations.
    pub fn with_capacity(positions: usize) -> Evaluations {
        Evaluations {
            values: Vec::with_capacity(positions),
            priors: Vec::with_capacity(positions * 40),
            ends: Vec::with_capacity(positions),
        }
    }

    /// Appends an evaluation.
    #[inline]
    pub fn push(&mut self, value: Value, priors: impl IntoIterator<Item = f32>) {
        self.values.push(value);
        self.priors.extend(priors);
        self.ends.push(self.priors.len() as u32);
    }

    /// Appends the evaluations of `other`.
    pub fn append(&mut self, other: &Evaluations) {
        let start = self.priors.len() as u32;
        self.values.extend_from_slice(&other.values);
        self.priors.extend_from_slice(&other.priors);
        self.ends.extend(other.ends.iter().map(|end| start + end));
    }

    /// The values and priors of all evaluations, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Value, &[f32])> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The number of evaluations.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value and the priors of evaluation `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Evaluations::len`].
    #[inline]
    pub fn get(&self, index: usize) -> (Value, &[f32]) {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        (self.values[index], &self.priors[start..self.ends[index] as usize])
    }
}

/// A prior in two bytes: 5 bits of exponent and 11 of mantissa, no sign.
///
/// Priors span many orders of magnitude, so the format bounds the relative error. It is at most 1/4096 for priors down
/// to 2^-31. Smaller priors become 0. The priors 0 and 1 are exact, and the order of priors is preserved. Packing an
/// unpacked prior changes nothing, so a prior that is packed several times loses precision only once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct CompactPrior(u16);

impl CompactPrior {
    /// The bits of 2^-31 as an f32. They correspond to code 0.
    const BIAS: u32 = (127 - 31) << 23;
    /// The number of mantissa bits of an f32 that the code drops.
    const SHIFT: u32 = 12;

    /// Rounds to the nearest code. Priors outside 0…1 saturate, and NaN becomes 0.
    #[inline]
    pub fn new(prior: f32) -> CompactPrior {
        let least = f32::from_bits(Self::BIAS);
        // `f32::max` and `f32::min` would also check their second operands for NaN.
        let prior = if prior > least { prior } else { least };
        let bits = if prior < 1.0 { prior } else { 1.0 }.to_bits();
        CompactPrior(((bits - Self::BIAS + (1 << (Self::SHIFT - 1))) >> Self::SHIFT) as u16)
    }

    /// The prior as an f32.
    #[inline]
    pub fn get(self) -> f32 {
        if self.0 == 0 { 0.0 } else { f32::from_bits((u32::from(self.0) << Self::SHIFT) + Self::BIAS) }
    }

    /// The 16-bit code.
    #[inline]
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The inverse of [`CompactPrior::bits`].
    #[inline]
    pub fn from_bits(bits: u16) -> CompactPrior {
        CompactPrior(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn evaluations_keep_their_order_when_appended() {
        let value = |q| Value { q, ..Value::default() };
        let mut all = Evaluations::default();
        all.push(value(0.1), [0.5, 0.5]);
        let mut more = Evaluations::default();
        more.push(value(0.2), []);
        more.push(value(0.3), [1.0]);
        all.append(&more);
        let seen: Vec<(f32, Vec<f32>)> =
            all.iter().map(|(value, priors)| (value.q, priors.to_vec())).collect();
        assert_eq!(seen, [(0.1, vec![0.5, 0.5]), (0.2, vec![]), (0.3, vec![1.0])]);
    }

    #[test]
    fn compact_priors_are_exact_at_the_ends() {
        for (prior, expected) in
            [(0.0, 0.0), (1.0, 1.0), (-1.0, 0.0), (2.0, 1.0), (f32::NAN, 0.0), (1e-20, 0.0)]
        {
            assert_eq!(CompactPrior::new(prior).get(), expected);
        }
    }

    proptest! {
        #[test]
        fn compact_priors_are_close_and_stable(prior in 1e-9f32..=1.0) {
            let compact = CompactPrior::new(prior);
            prop_assert!((compact.get() - prior).abs() <= prior / 4096.0);
            prop_assert_eq!(CompactPrior::new(compact.get()), compact);
        }
    }
}
