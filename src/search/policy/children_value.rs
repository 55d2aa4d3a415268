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
//! - `NoisePruneUtilityScale`: in the order of their priors, a child whose value is below the mean of those before it
//!   by a gap g, and which has more than twice its share of the visits by policy, loses `1 - exp(-g / scale)` of the
//!   excess (KataGo's `pruneNoiseWeight`).
//! - `TemperedBackupTemperature`: the expectation under a tempered posterior (Ceres' TPS backup, `TPSScoreCalc`), see
//!   [`Tempered::expectation`].

use super::math::{exponential, natural_log};
use crate::options::Options;

/// The number that is added to the probability in KataGo's weight, so that no weight is 0.
const LEAST_PROBABILITY: f64 = 0.0001;
/// The bounds of a child's standard error in the tempered backup.
const STANDARD_ERROR: (f64, f64) = (0.005, 0.5);
/// A child with fewer visits borrows the deviation of its parent.
const VISITS_FOR_OWN_DEVIATION: f64 = 4.0;
/// The deviation of values if nothing is known about it.
const USUAL_DEVIATION: f64 = 0.2;
const LEAST_TEMPERATURE: f64 = 1e-3;
/// An unvisited move with less policy does not take part in the tempered backup.
pub(crate) const LEAST_PRIOR_UNVISITED: f32 = 0.05;
/// The least prior that enters a logarithm.
const LEAST_PRIOR: f64 = 0.004;
/// The visits at which a child has half of its full weight in the consensus.
const VISITS_FOR_CONSENSUS: f64 = 3.0;

/// The parameters of the tempered backup.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Tempered {
    /// The temperature in units of the values' noise.
    pub(crate) temperature: f32,
    /// The standard error at which a child's value is trusted half.
    pub(crate) error: f32,
    /// The spread of the values that are assumed for uncertain moves, per unit of the logarithm of the policy.
    pub(crate) spread: f32,
}

/// The parameters of the subtree value bias ([`super::subtree_bias`]).
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct BiasParams {
    /// The share of the bias that is applied.
    pub(crate) factor: f32,
    /// The exponent of a subtree's visits in its weight.
    pub(crate) exponent: f32,
}

/// How a node's value follows from its children's. The default is the mean of its visits.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BackupParams {
    from_children: bool,
    value_weight_exponent: f32,
    noise_prune_scale: f32,
    tempered: Option<Tempered>,
    pub(crate) bias: Option<BiasParams>,
}

/// A child, from the view of the node whose value is computed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Child {
    pub(crate) wl: f64,
    pub(crate) d: f64,
    /// The weight of the visits that came through this node's link; 0 for an unvisited move, whose wl and d mean nothing.
    pub(crate) weight: f64,
    /// All visits of the child.
    pub(crate) support: f64,
    /// The variance of the values of its visits.
    pub(crate) variance: f64,
    pub(crate) prior: f64,
    /// Whether its value is proven.
    pub(crate) is_certain: bool,
}

/// A weighted mean.
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
            noise_prune_scale: options.noise_prune_utility_scale,
            tempered: (options.tempered_backup_temperature > 0.0).then_some(Tempered {
                temperature: options.tempered_backup_temperature,
                error: options.tempered_backup_error,
                spread: options.tempered_backup_spread,
            }),
            bias: (options.subtree_value_bias_factor > 0.0).then_some(BiasParams {
                factor: options.subtree_value_bias_factor,
                exponent: options.subtree_value_bias_exponent,
            }),
        }
    }

    /// Whether nodes are computed from their children.
    pub fn is_on(&self) -> bool {
        *self != BackupParams::default()
    }

    /// Whether the backup needs extra statistics of the nodes: the variance of their values, or the slots of their biases.
    pub(crate) fn needs_extra_statistics(&self) -> bool {
        self.tempered.is_some() || self.bias.is_some()
    }

    /// The exponent of [`value_weight`], if a child's part depends on nothing but its value and its visits.
    pub(crate) fn only_value_weights(&self) -> Option<f32> {
        let is_alone = self.tempered.is_none() && self.bias.is_none() && self.noise_prune_scale == 0.0;
        is_alone.then_some(self.value_weight_exponent)
    }

    /// Whether the network's values are corrected by the bias of subtrees.
    pub fn has_bias(&self) -> bool {
        self.bias.is_some()
    }

    /// Whether unvisited moves take part.
    pub(crate) fn wants_unvisited(&self) -> bool {
        self.tempered.is_some()
    }

    /// The value of the children together, and their weight. `variance` is that of the values of the node's visits. The
    /// children are in descending order of their priors. The weight is 0 if no child was visited.
    pub(crate) fn mean_of(&self, children: &mut [Child], variance: f64) -> Mean {
        if let Some(tempered) = self.tempered {
            return tempered.expectation(children, variance);
        }
        if self.noise_prune_scale > 0.0 {
            prune_noise(children, f64::from(self.noise_prune_scale));
        }
        if self.value_weight_exponent > 0.0 {
            weigh_by_value(children, self.value_weight_exponent);
        }
        plain_mean(children)
    }
}

fn plain_mean(children: &[Child]) -> Mean {
    let of = |child: &Child| Mean { wl: child.wl, d: child.d, weight: child.weight };
    children.iter().filter(|child| child.weight > 0.0).map(of).fold(Mean::default(), Mean::with)
}

fn prune_noise(children: &mut [Child], scale: f64) {
    let (mut before, mut prior_before) = (Mean::default(), 0.0);
    for child in children.iter_mut().filter(|child| child.weight > 0.0) {
        let gap = before.wl - child.wl;
        if before.weight > 0.0 && prior_before > 0.0 && gap > 0.0 {
            let share = 2.0 * before.weight * child.prior / prior_before;
            if child.weight > share {
                child.weight -= (child.weight - share) * (1.0 - exponential(-gap / scale));
            }
        }
        before = before.with(Mean { wl: child.wl, d: child.d, weight: child.weight });
        prior_before += child.prior;
    }
}

fn weigh_by_value(children: &mut [Child], exponent: f32) {
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

impl Tempered {
    /// `sum of p_i x_i` over the moves, with `p_i` proportional to `prior_i exp(x_i / t)`.
    ///
    /// x is the child's value q, drawn towards an assumed value a by its standard error s:
    /// `x = w q + (1 - w) a` with `w = error^2 / (error^2 + s^2)` and `s = deviation / sqrt(visits + 1)`. The assumed
    /// values are the consensus of the visited children plus `spread (ln prior - mean of ln prior)`, where the mean is
    /// weighted by the priors. An unvisited move has x = a. The temperature t is
    /// `temperature * m * sqrt(2 ln k)` with k visited children and the median m of their errors, weighted by visits.
    fn expectation(&self, children: &[Child], variance: f64) -> Mean {
        let visited = || children.iter().filter(|child| child.weight > 0.0);
        let weight: f64 = visited().map(|child| child.weight).sum();
        let count = visited().count();
        if count == 0 {
            return Mean::default();
        }
        let consensus = visited().fold(Mean::default(), |mean, child| {
            let trust = child.support / (child.support + VISITS_FOR_CONSENSUS);
            mean.with(Mean { wl: child.wl, d: child.d, weight: child.prior.max(LEAST_PRIOR) * trust })
        });
        let log_prior = |child: &Child| f64::from(natural_log(child.prior.max(LEAST_PRIOR) as f32));
        let (mut prior_sum, mut log_sum) = (0.0, 0.0);
        for child in children {
            let prior = child.prior.max(LEAST_PRIOR);
            prior_sum += prior;
            log_sum += prior * log_prior(child);
        }
        let mean_log = log_sum / prior_sum;
        let own_deviation = if variance > 0.0 { variance.sqrt() } else { USUAL_DEVIATION };
        let error_of = |child: &Child| {
            let has_own = child.support >= VISITS_FOR_OWN_DEVIATION && child.variance > 0.0;
            let deviation = if has_own { child.variance.sqrt() } else { own_deviation };
            (deviation / (child.support + 1.0).sqrt()).clamp(STANDARD_ERROR.0, STANDARD_ERROR.1)
        };
        let trusted = f64::from(self.error) * f64::from(self.error);
        let estimate = |child: &Child| {
            let assumed =
                (consensus.wl + f64::from(self.spread) * (log_prior(child) - mean_log)).clamp(-1.0, 1.0);
            if child.weight <= 0.0 {
                return Mean { wl: assumed, d: consensus.d, weight: 1.0 };
            }
            let error = error_of(child);
            let trust = if child.is_certain { 1.0 } else { trusted / (trusted + error * error) };
            let seen = Mean { wl: child.wl, d: child.d, weight: trust };
            seen.with(Mean { wl: assumed, d: child.d, weight: 1.0 - trust })
        };
        let median =
            weighted_median(visited().map(|child| (error_of(child), child.support.max(1.0))).collect());
        let spread = (2.0 * f64::from(natural_log(count.max(2) as f32))).sqrt();
        let temperature = (f64::from(self.temperature) * median * spread).max(LEAST_TEMPERATURE);
        let logit = |child: &Child| log_prior(child) + estimate(child).wl / temperature;
        let most = children.iter().map(logit).fold(f64::NEG_INFINITY, f64::max);
        let posterior = children.iter().fold(Mean::default(), |mean, child| {
            mean.with(Mean { weight: exponential(logit(child) - most), ..estimate(child) })
        });
        Mean { weight, ..posterior }
    }
}

/// The value at which half of the weight is reached. `values` are values and their weights.
fn weighted_median(mut values: Vec<(f64, f64)>) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|&(_, weight)| weight).sum::<f64>() / 2.0;
    let mut reached = 0.0;
    for &(value, weight) in &values {
        reached += weight;
        if reached >= half {
            return value;
        }
    }
    values.last().map_or(0.0, |&(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(wl: f64, weight: f64, prior: f64) -> Child {
        Child { wl, d: 0.0, weight, support: weight, variance: 0.01, prior, is_certain: false }
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
        let mean = params.mean_of(&mut [child(0.5, 30.0, 0.6), child(-0.1, 10.0, 0.4)], 0.01);
        assert!((mean.wl - 0.35).abs() < 1e-9 && mean.weight == 40.0, "{mean:?}");
        assert_eq!(params.mean_of(&mut [], 0.0).weight, 0.0);
    }

    #[test]
    fn bad_children_weigh_less_and_the_total_weight_stays() {
        let params = on(|options| options.value_weight_exponent = 0.25);
        let mean = params.mean_of(&mut [child(0.5, 30.0, 0.6), child(-0.7, 30.0, 0.4)], 0.01);
        assert!(mean.wl > 0.0 && mean.wl < 0.5 && (mean.weight - 60.0).abs() < 1e-9, "{mean:?}");
        // KataGo's formula by hand for z of +-0.6 / deviation.
        let z = 0.6 / (1e-8 + 1.0 / (1.5 * 30.0_f64.sqrt())).sqrt();
        let (good, bad) = ((student_t(z) + 1e-4).powf(0.25), (student_t(-z) + 1e-4).powf(0.25));
        assert!((mean.wl - (0.5 * good - 0.7 * bad) / (good + bad)).abs() < 1e-9, "{mean:?}");
    }

    #[test]
    fn visits_of_worse_moves_beyond_twice_their_share_by_policy_are_pruned() {
        let params = on(|options| options.noise_prune_utility_scale = 0.15);
        let mut children = [child(0.5, 20.0, 0.5), child(0.2, 20.0, 0.1), child(0.9, 20.0, 0.1)];
        params.mean_of(&mut children, 0.01);
        // The share of the second child is 2 * 20 * 0.1 / 0.5 = 8.
        let expected = 20.0 - 12.0 * (1.0 - (-2.0_f64).exp());
        assert!((children[1].weight - expected).abs() < 1e-6, "{children:?}");
        // The third is better than those before it, and the first has none before it.
        assert_eq!((children[0].weight, children[2].weight), (20.0, 20.0));
    }

    #[test]
    fn the_tempered_backup_follows_the_better_move_as_soon_as_it_is_sure() {
        let params = on(|options| options.tempered_backup_temperature = 0.25);
        let value = |visits| params.mean_of(&mut [child(0.0, visits, 0.7), child(0.4, visits, 0.3)], 0.01).wl;
        assert!(value(1.0) < value(30.0) && value(30.0) < value(3000.0), "{} {}", value(1.0), value(30.0));
        assert!((value(3000.0) - 0.4).abs() < 0.01, "{}", value(3000.0));
        // A proven value is not drawn to the others.
        let proven = Child { is_certain: true, ..child(1.0, 1.0, 0.1) };
        let wins = params.mean_of(&mut [child(0.0, 5.0, 0.9), proven], 0.01).wl;
        assert!(wins > 0.9, "{wins}");
        assert_eq!(params.mean_of(&mut [child(0.0, 0.0, 0.9)], 0.01).weight, 0.0);
    }

    #[test]
    fn the_median_is_weighted() {
        assert_eq!(weighted_median(vec![(3.0, 1.0), (1.0, 1.0), (2.0, 1.0)]), 2.0);
        assert_eq!(weighted_median(vec![(3.0, 9.0), (1.0, 1.0), (2.0, 1.0)]), 3.0);
    }
}
