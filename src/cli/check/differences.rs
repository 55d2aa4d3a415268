//! The differences between two backends' evaluations of the same positions.

use rukh_backend::Comparison;
use serde::Serialize;

/// The share of positions whose differences are at most the percentile that is printed.
const PERCENTILE: f64 = 0.99;

/// The differences of each position so far.
#[derive(Default)]
pub(super) struct Differences {
    q: Vec<f64>,
    /// The sum of the differences of q with their signs.
    signed_q: f64,
    d: Vec<f64>,
    m: Vec<f64>,
    divergence: Vec<f64>,
    same_best_move: usize,
}

/// One kind of difference over all positions.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Figure {
    pub(super) mean: f64,
    /// The smallest number that at least 99 % of the differences do not exceed.
    pub(super) percentile_99: f64,
    pub(super) largest: f64,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    pub(super) positions: usize,
    /// Absolute differences of win minus loss probability.
    pub(super) q: Figure,
    /// The mean of the differences of q with their signs, which is 0 if the tested backend is neither too optimistic nor
    /// too pessimistic.
    pub(super) signed_q: f64,
    /// Absolute differences of the draw probability.
    pub(super) d: Figure,
    /// Absolute differences of the plies left.
    pub(super) m: Figure,
    /// The Kullback-Leibler divergence of the tested policy from the reference's: the sum over the legal moves of
    /// `p ln(p / p')`, where p is the reference's prior, in nats.
    pub(super) divergence: Figure,
    /// The share of positions in which the same move has the highest prior.
    pub(super) same_best_move: f64,
}

impl Summary {
    /// The figures with their names.
    pub(super) fn figures(&self) -> [(&'static str, Figure); 4] {
        [("q", self.q), ("d", self.d), ("m (plies)", self.m), ("policy, KL (nats)", self.divergence)]
    }
}

impl Differences {
    /// The number of positions.
    pub(super) fn count(&self) -> usize {
        self.q.len()
    }

    /// Adds a position. Both evaluations have at least one prior, and as many.
    pub(super) fn add(&mut self, comparison: Comparison<'_>) {
        self.q.push(comparison.q().absolute());
        self.signed_q += comparison.q().signed();
        self.d.push(comparison.d().absolute());
        self.m.push(comparison.m().absolute());
        self.divergence.push(comparison.divergence());
        self.same_best_move += usize::from(comparison.has_same_best_move());
    }

    /// The figures over all positions, of which there is at least one.
    pub(super) fn summary(mut self) -> Summary {
        let positions = self.count();
        Summary {
            positions,
            q: figure(&mut self.q),
            signed_q: self.signed_q / positions.max(1) as f64,
            d: figure(&mut self.d),
            m: figure(&mut self.m),
            divergence: figure(&mut self.divergence),
            same_best_move: self.same_best_move as f64 / positions.max(1) as f64,
        }
    }
}

fn figure(differences: &mut [f64]) -> Figure {
    differences.sort_by(f64::total_cmp);
    let count = differences.len();
    let at =
        |share: f64| differences.get(((share * count as f64).ceil() as usize).saturating_sub(1)).copied();
    Figure {
        mean: differences.iter().sum::<f64>() / count.max(1) as f64,
        percentile_99: at(PERCENTILE).unwrap_or(0.0),
        largest: at(1.0).unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_backend::Value;

    fn value(q: f32) -> Value {
        Value { q, d: 0.5, m: 10.0, e: 0.0 }
    }

    #[test]
    fn figures_are_over_all_positions() {
        let mut differences = Differences::default();
        for index in 0..200 {
            let q = if index == 7 { 0.5 } else { 0.25 };
            let said = (value(q), &[0.25, 0.75][..]);
            differences.add(Comparison::new(said, (value(0.25), &[0.25, 0.75])));
        }
        // The reference prefers the first move, by 3 to 1.
        let said = (value(0.25), &[0.25, 0.75][..]);
        differences.add(Comparison::new(said, (value(0.25), &[0.75, 0.25])));
        let summary = differences.summary();
        assert_eq!(summary.positions, 201);
        assert_eq!((summary.q.percentile_99, summary.q.largest), (0.0, 0.25));
        assert!((summary.q.mean - 0.25 / 201.0).abs() < 1e-12);
        assert!((summary.signed_q - 0.25 / 201.0).abs() < 1e-12);
        assert!((summary.same_best_move - 200.0 / 201.0).abs() < 1e-12);
        assert!((summary.divergence.largest - 0.5 * 3.0_f64.ln()).abs() < 1e-7);
        assert_eq!(summary.d, Figure { mean: 0.0, percentile_99: 0.0, largest: 0.0 });
    }
}
