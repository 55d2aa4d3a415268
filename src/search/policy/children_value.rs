//! A node's value from the values of its children, where it is not the plain mean of its visits.
//!
//! [`BackupParams`] says which of these are on. If none is, no node is computed this way.
//!
//! - `UseGraphBackup`: the mean of the children's values, each weighted by the visits that came this way, and of the
//!   node's own evaluation, which counts as one visit. A child that other parents visit too counts with all that these
//!   visits have found (KataGo's graph search, `docs/GraphSearch.md`).
//! - `ValueWeightExponent`: a child's weight is multiplied by `(F(z) + 0.0001)^exponent`, and all weights then by one
//!   factor that restores their sum. z is the difference between the child's value and the mean, divided by
//!   `sqrt(1 / (1.5 sqrt(visits)))`. F is the distribution function of Student's t. (KataGo's
//!   `downweightBadChildrenAndNormalizeWeight`; it takes 3 degrees of freedom, and this file 2, because then F needs only
//!   a square root.)

use super::math::{exponential, natural_log};
use rukh_options::Options;

/// The number that is added to the probability in KataGo's weight, so that no weight is 0.
const LEAST_PROBABILITY: f64 = 0.0001;

/// How a node's value follows from its children's. The default is the mean of its visits.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BackupParams {
    from_children: bool,
    /// The exponent of [`value_weight`]. 0 means that the values do not count.
    pub(crate) value_weight_exponent: f32,
}

/// A weighted mean, or a child's value with its weight, from the view of the node whose value is computed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Mean {
    pub(crate) wl: f64,
    pub(crate) d: f64,
    pub(crate) weight: f64,
}

impl Mean {
    /// The mean of both.
    pub(crate) fn with(self, other: Mean) -> Mean {
        let weight = self.weight + other.weight;
        if weight <= 0.0 {
            return self;
        }
        let mean = |ours: f64, theirs: f64| (ours * self.weight + theirs * other.weight) / weight;
        Mean { wl: mean(self.wl, other.wl), d: mean(self.d, other.d), weight }
    }
}

impl BackupParams {
    /// The parameters in `options`.
    pub(crate) fn from_options(options: &Options) -> BackupParams {
        BackupParams {
            from_children: options.use_graph_backup,
            value_weight_exponent: options.value_weight_exponent,
        }
    }

    /// Whether nodes are computed from their children.
    pub fn is_on(&self) -> bool {
        *self != BackupParams::default()
    }

    /// The value of the children together, and their weight, which is 0 if no child has any.
    pub(crate) fn mean_of(&self, children: &mut [Mean]) -> Mean {
        if self.value_weight_exponent > 0.0 {
            weigh_by_value(children, self.value_weight_exponent);
        }
        plain_mean(children)
    }
}

fn plain_mean(children: &[Mean]) -> Mean {
    children.iter().filter(|child| child.weight > 0.0).copied().fold(Mean::default(), Mean::with)
}

fn weigh_by_value(children: &mut [Mean], exponent: f32) {
    let mean = plain_mean(children);
    let mut total = 0.0;
    for child in children.iter_mut().filter(|child| child.weight > 0.0) {
        child.weight *= value_weight(child.wl - mean.wl, child.weight, exponent);
        total += child.weight;
    }
    if total > 0.0 {
        children.iter_mut().for_each(|child| child.weight *= mean.weight / total);
    }
}

/// The factor of a child's weight if its value differs by `difference` from the mean of the children.
#[inline]
pub(crate) fn value_weight(difference: f64, weight: f64, exponent: f32) -> f64 {
    power(probability(difference / value_deviation(weight)), exponent)
}

/// The deviation that a child's value is assumed to have.
pub(super) fn value_deviation(weight: f64) -> f64 {
    (1e-8 + 1.0 / (1.5 * weight.sqrt())).sqrt()
}

/// The distribution function of Student's t with 2 degrees of freedom, plus [`LEAST_PROBABILITY`].
#[inline]
pub(super) fn probability(z: f64) -> f64 {
    student_t(z) + LEAST_PROBABILITY
}

#[inline]
fn student_t(z: f64) -> f64 {
    0.5 + 0.5 * z / (2.0 + z * z).sqrt()
}

/// `base^exponent` for a positive base. The default exponent and KataGo's need only square roots.
pub(super) fn power(base: f64, exponent: f32) -> f64 {
    match exponent {
        0.5 => base.sqrt(),
        0.25 => base.sqrt().sqrt(),
        _ => exponential(f64::from(exponent) * f64::from(natural_log(base as f32))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(wl: f64, weight: f64) -> Mean {
        Mean { wl, d: 0.0, weight }
    }

    fn on(change: impl FnOnce(&mut Options)) -> BackupParams {
        let mut options = Options { value_weight_exponent: 0.0, ..Options::default() };
        change(&mut options);
        BackupParams::from_options(&options)
    }

    #[test]
    fn the_plain_mean_counts_visits() {
        let params = on(|options| options.use_graph_backup = true);
        assert!(params.is_on() && !BackupParams::default().is_on());
        let mean = params.mean_of(&mut [child(0.5, 30.0), child(-0.1, 10.0)]);
        assert!((mean.wl - 0.35).abs() < 1e-9 && mean.weight == 40.0, "{mean:?}");
        assert_eq!(params.mean_of(&mut []).weight, 0.0);
    }

    #[test]
    fn bad_children_weigh_less_and_the_total_weight_stays() {
        let params = on(|options| options.value_weight_exponent = 0.25);
        let mean = params.mean_of(&mut [child(0.5, 30.0), child(-0.7, 30.0)]);
        assert!(mean.wl > 0.0 && mean.wl < 0.5 && (mean.weight - 60.0).abs() < 1e-9, "{mean:?}");
        // KataGo's formula by hand for z of +-0.6 / deviation.
        let z = 0.6 / (1e-8 + 1.0 / (1.5 * 30.0_f64.sqrt())).sqrt();
        let (good, bad) = ((student_t(z) + 1e-4).powf(0.25), (student_t(-z) + 1e-4).powf(0.25));
        assert!((mean.wl - (0.5 * good - 0.7 * bad) / (good + bad)).abs() < 1e-9, "{mean:?}");
    }
}
