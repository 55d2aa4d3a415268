//! Adjusts the weights of visits, and cpuct, to the uncertainty of values.
//!
//! There are three options, which are off by default. The first two need a network with a head that predicts the
//! value's error *e* (0 … 1). The formulas are those of KataGo's "uncertainty-weighted MCTS playouts" and
//! "dynamic variance-scaled cPUCT", with the parameters of Ergodice's lc0.
//!
//! - `UseUncertaintyWeighting`: a visit has the weight `min(cap, coefficient * e^exponent)` in all means that include
//!   it. A visit that ended in a certain result has the weight `cap`.
//! - `UseCpuctUncertainty`: a node's cpuct is multiplied by a factor that grows with the square of its own e, from
//!   `CpuctUncertaintyMinFactor` to `CpuctUncertaintyMaxFactor`.
//! - `UseVarianceScaling`: a node's cpuct is multiplied by a factor that grows with the standard deviation of the
//!   values of its visits.
//!
//! A node keeps its error, weights and variance in its [`ExtraStatistics`].

use rukh_backend::Attributes;
use rukh_options::Options;
use rukh_tree::ExtraStatistics;

/// The parameters of `UseUncertaintyWeighting`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Weighting {
    pub cap: f32,
    pub coefficient: f32,
    pub exponent: f32,
}

/// The parameters of `UseCpuctUncertainty`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CpuctUncertainty {
    pub min_factor: f32,
    pub max_factor: f32,
    /// The square of e up to which the factor is `min_factor`.
    pub min_uncertainty: f32,
    /// The square of e at and above which the factor is `max_factor`.
    pub max_uncertainty: f32,
}

/// The parameters of `UseVarianceScaling`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct VarianceScaling {
    /// The standard deviation at which cpuct is unchanged.
    pub prior: f32,
    /// The weight of the prior, in visits.
    pub prior_weight: f32,
    /// 0 has no effect. At 1 cpuct is proportional to the deviation.
    pub scale: f32,
}

/// The parameters of the three options. `None` means that an option is off.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct UncertaintyParams {
    pub weighting: Option<Weighting>,
    pub cpuct: Option<CpuctUncertainty>,
    pub variance: Option<VarianceScaling>,
}

impl UncertaintyParams {
    /// The parameters in `options`. The first two options stay off if the backend predicts no error.
    pub fn from_options(options: &Options, attributes: &Attributes) -> UncertaintyParams {
        let has_error = attributes.has_value_error;
        UncertaintyParams {
            weighting: (options.use_uncertainty_weighting && has_error).then_some(Weighting {
                cap: options.uncertainty_weighting_cap,
                coefficient: options.uncertainty_weighting_coefficient,
                exponent: options.uncertainty_weighting_exponent,
            }),
            cpuct: (options.use_cpuct_uncertainty && has_error).then_some(CpuctUncertainty {
                min_factor: options.cpuct_uncertainty_min_factor,
                max_factor: options.cpuct_uncertainty_max_factor,
                min_uncertainty: options.cpuct_uncertainty_min_uncertainty,
                max_uncertainty: options.cpuct_uncertainty_max_uncertainty,
            }),
            variance: options.use_variance_scaling.then_some(VarianceScaling {
                prior: options.cpuct_utility_stdev_prior,
                prior_weight: options.cpuct_utility_stdev_prior_weight,
                scale: options.cpuct_utility_stdev_scale,
            }),
        }
    }

    /// Whether any of the three options is on.
    pub fn is_on(&self) -> bool {
        *self != UncertaintyParams::default()
    }

    /// Whether cpuct depends on the statistics of a node.
    pub fn scales_cpuct(&self) -> bool {
        self.cpuct.is_some() || self.variance.is_some()
    }

    /// The factor of the cpuct of a node with the statistics `extra` and `visits` visits.
    pub(crate) fn cpuct_factor(&self, extra: &ExtraStatistics, visits: u32) -> f32 {
        let by_error = match (self.cpuct, extra.error()) {
            // An error of 0 means that the node was evaluated before a search asked for its error.
            (None, _) | (_, 0.0) => 1.0,
            (Some(cpuct), error) => cpuct.factor(error),
        };
        let by_variance = (self.variance)
            .map_or(1.0, |variance| variance.factor(extra.variance(), extra.weight(visits) as f32));
        by_error * by_variance
    }

    /// The weight of a visit that ended in an evaluation with this error.
    pub fn weight(&self, error: f32) -> f32 {
        self.weighting.map_or(1.0, |weighting| weighting.weight(error))
    }

    /// The weight of a visit that ended in a certain result.
    pub fn certain_weight(&self) -> f32 {
        self.weighting.map_or(1.0, |weighting| weighting.cap)
    }
}

impl Weighting {
    fn weight(&self, error: f32) -> f32 {
        // With an error of 0 and a negative exponent the power is infinite, and the weight is the cap.
        self.cap.min(self.coefficient * error.powf(self.exponent)).max(0.0)
    }
}

impl CpuctUncertainty {
    fn factor(&self, error: f32) -> f32 {
        let range = self.max_uncertainty - self.min_uncertainty;
        let above = error * error - self.min_uncertainty;
        let share =
            if range > 0.0 { (above / range).clamp(0.0, 1.0) } else { f32::from(u8::from(above > 0.0)) };
        self.min_factor + (self.max_factor - self.min_factor) * share
    }
}

impl VarianceScaling {
    /// The factor for visits of variance `variance` and total weight `weight`. The prior counts as `prior_weight`
    /// visits with the prior's deviation around the same mean. The 1 is subtracted because a single visit has no
    /// deviation.
    fn factor(&self, variance: f32, weight: f32) -> f32 {
        if self.prior <= 0.0 || weight <= 0.0 {
            return 1.0;
        }
        let seen = variance * weight;
        let total = (self.prior_weight + weight - 1.0).max(f32::MIN_POSITIVE);
        let deviation = ((self.prior * self.prior * self.prior_weight + seen) / total).sqrt();
        (1.0 + self.scale * (deviation / self.prior - 1.0)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_with_smaller_errors_weigh_more_up_to_the_cap() {
        let weighting = Weighting { cap: 1.03, coefficient: 0.13, exponent: -1.76 };
        assert_eq!(weighting.weight(0.0), 1.03);
        assert_eq!(weighting.weight(0.1), 1.03);
        assert!((weighting.weight(0.5) - 0.13 * 0.5_f32.powf(-1.76)).abs() < 1e-6);
        assert!(weighting.weight(0.9) < weighting.weight(0.5));
    }

    #[test]
    fn cpuct_grows_with_the_error() {
        let cpuct = CpuctUncertainty {
            min_factor: 0.9,
            max_factor: 1.7,
            min_uncertainty: 0.04,
            max_uncertainty: 0.36,
        };
        assert_eq!(cpuct.factor(0.1), 0.9);
        assert!((cpuct.factor(0.2_f32.sqrt()) - 1.3).abs() < 1e-5);
        assert_eq!(cpuct.factor(0.9), 1.7);
        let step = CpuctUncertainty { max_uncertainty: 0.04, ..cpuct };
        assert_eq!((step.factor(0.1), step.factor(0.3)), (0.9, 1.7));
    }

    #[test]
    fn cpuct_follows_the_deviation_of_the_values() {
        let variance = VarianceScaling { prior: 0.2, prior_weight: 10.0, scale: 0.5 };
        // A single visit has no deviation.
        assert!((variance.factor(0.0, 1.0) - 1.0).abs() < 1e-3);
        // Many visits with the prior's deviation, half of it, and twice as much.
        let factor = |deviation: f32| variance.factor(deviation * deviation, 1e6);
        for (deviation, expected) in [(0.2, 1.0), (0.1, 0.75), (0.4, 1.5)] {
            assert!((factor(deviation) - expected).abs() < 2e-3, "{deviation}: {}", factor(deviation));
        }
        let off = VarianceScaling { scale: 0.0, ..variance };
        assert_eq!(off.factor(0.5, 100.0), 1.0);
    }
}
