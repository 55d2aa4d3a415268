//! How an evaluation differs from one of the same position that counts as right.

use super::Value;

/// A prior below this number counts as this number in the divergence, so that a prior of zero does not make it infinite.
const SMALLEST_PRIOR: f64 = 1e-10;

/// A figure, and what it should be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Figure {
    said: f64,
    right: f64,
}

impl Figure {
    fn new(said: f32, right: f32) -> Figure {
        Figure { said: f64::from(said), right: f64::from(right) }
    }

    /// The two values: what was said, and what is right.
    pub fn values(self) -> (f64, f64) {
        (self.said, self.right)
    }

    /// The difference with its sign.
    pub fn signed(self) -> f64 {
        self.said - self.right
    }

    /// The difference without its sign. It is infinite if either figure is no number, so that no such figure passes for
    /// a right one.
    pub fn absolute(self) -> f64 {
        let difference = self.signed().abs();
        if difference.is_nan() { f64::INFINITY } else { difference }
    }

    /// The larger of the two figures, without its sign.
    pub(crate) fn scale(self) -> f64 {
        self.said.abs().max(self.right.abs())
    }
}

/// Two evaluations of a position.
#[derive(Clone, Copy)]
pub struct Comparison<'a> {
    said: (Value, &'a [f32]),
    right: (Value, &'a [f32]),
}

impl<'a> Comparison<'a> {
    /// Compares an evaluation with the one that counts as right. Each is a value and the priors of the legal moves.
    pub fn new(said: (Value, &'a [f32]), right: (Value, &'a [f32])) -> Comparison<'a> {
        Comparison { said, right }
    }

    fn of(&self, figure: fn(&Value) -> f32) -> Figure {
        Figure::new(figure(&self.said.0), figure(&self.right.0))
    }

    /// The two values of q.
    pub fn q(&self) -> Figure {
        self.of(|value| value.q)
    }

    /// The two values of d.
    pub fn d(&self) -> Figure {
        self.of(|value| value.d)
    }

    /// The two values of m, in plies.
    pub fn m(&self) -> Figure {
        self.of(|value| value.m)
    }

    /// The two values of e.
    pub fn e(&self) -> Figure {
        self.of(|value| value.e)
    }

    /// The priors of the moves that both evaluations have.
    pub fn priors(&self) -> impl Iterator<Item = Figure> + use<'a> {
        self.said.1.iter().zip(self.right.1).map(|(&said, &right)| Figure::new(said, right))
    }

    /// Whether both evaluations have equally many priors.
    pub(crate) fn has_same_moves(&self) -> bool {
        self.said.1.len() == self.right.1.len()
    }

    /// The Kullback-Leibler divergence of the policy from the right one: the sum over the moves of `p ln(p / p')`, where
    /// p is the right prior, in nats.
    pub fn divergence(&self) -> f64 {
        let terms = self.priors().map(|Figure { said, right }| {
            if right > 0.0 { right * (right / said.max(SMALLEST_PRIOR)).ln() } else { 0.0 }
        });
        // Rounding can make the sum of equal policies slightly negative.
        terms.sum::<f64>().max(0.0)
    }

    /// Whether the same move has the highest prior; of equal ones, the last counts.
    pub fn has_same_best_move(&self) -> bool {
        let best = |priors: &[f32]| (0..priors.len()).max_by(|&a, &b| priors[a].total_cmp(&priors[b]));
        best(self.said.1) == best(self.right.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(q: f32) -> Value {
        Value { q, d: 0.5, m: 10.0, e: 0.25 }
    }

    #[test]
    fn each_figure_is_compared_with_its_own_kind() {
        let said = Value { q: -0.5, d: 0.25, m: 12.0, e: 0.5 };
        let comparison = Comparison::new((said, &[]), (value(0.25), &[]));
        let signed = [comparison.q(), comparison.d(), comparison.m(), comparison.e()].map(Figure::signed);
        assert_eq!(signed, [-0.75, -0.25, 2.0, 0.25]);
        assert_eq!((comparison.q().absolute(), comparison.q().scale()), (0.75, 0.5));
    }

    #[test]
    fn what_is_no_number_is_infinitely_wrong() {
        for (said, right) in [(f32::NAN, 0.0), (0.0, f32::NAN), (f32::NAN, f32::NAN)] {
            let priors = [[said], [right]];
            let comparison = Comparison::new((value(said), &priors[0]), (value(right), &priors[1]));
            assert_eq!(comparison.q().absolute(), f64::INFINITY);
            assert!(comparison.priors().all(|prior| prior.absolute() == f64::INFINITY));
        }
    }

    #[test]
    fn policies_are_compared_move_by_move() {
        let compare = |said: &[f32], right: &[f32]| {
            let comparison = Comparison::new((value(0.0), said), (value(0.0), right));
            (comparison.divergence(), comparison.has_same_best_move(), comparison.has_same_moves())
        };
        assert_eq!(compare(&[0.25, 0.75], &[0.25, 0.75]), (0.0, true, true));
        let (divergence, is_same, _) = compare(&[0.25, 0.75], &[0.75, 0.25]);
        assert!((divergence - 0.5 * 3.0_f64.ln()).abs() < 1e-7 && !is_same, "{divergence}");
        // A prior of zero is far off, but not infinitely.
        assert!(compare(&[0.0, 1.0], &[0.5, 0.5]).0 > 10.0);
        assert!(!compare(&[1.0], &[0.5, 0.5]).2);
    }
}
