//! The policy's temperature by depth.
//!
//! Near the root a wide policy finds moves that the network underestimates; far below it, most visits should follow the
//! best line. Monty uses the temperature `base + (depth - offset)^-exponent` with the root at depth 1
//! (`SearchHelpers::get_pst`, without its term for won positions). Here that is a factor of `PolicyTemperature`, so a
//! prior p becomes `p^(1 / factor)`, and the priors are made to sum to 1 again.
//!
//! Below the root, the factor applies when a node is expanded. The root's priors are changed when they are used, because
//! the root of one search was an inner node of the search before.

use super::math::{exponential, natural_log};
use crate::options::Options;

/// A fall of the temperature with the depth.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Fall {
    base: f32,
    amount: f32,
    offset: f32,
    exponent: f32,
}

/// The factors of the policy's temperature. The default is 1 everywhere.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PolicyTemperature {
    fall: Option<Fall>,
    /// A further factor at the root.
    at_root: f32,
}

impl Default for PolicyTemperature {
    fn default() -> PolicyTemperature {
        PolicyTemperature { fall: None, at_root: 1.0 }
    }
}

impl PolicyTemperature {
    /// The factors in `options`.
    pub(crate) fn from_options(options: &Options) -> PolicyTemperature {
        PolicyTemperature {
            fall: options.use_policy_temperature_by_depth.then_some(Fall {
                base: options.policy_temperature_base,
                amount: options.policy_temperature_amount,
                offset: options.policy_temperature_offset,
                exponent: options.policy_temperature_exponent,
            }),
            at_root: options.root_policy_temperature,
        }
    }

    /// The factor for the priors of a node that is expanded `depth` plies below the root, which is not 0. `None` means
    /// that they stay as they are.
    #[inline]
    pub(crate) fn below_root(&self, depth: usize) -> Option<f32> {
        self.fall.map(|fall| fall.at(depth))
    }

    /// The factor for the priors of the root. `None` means that they stay as they are.
    pub(crate) fn at_root(&self) -> Option<f32> {
        let factor = self.at_root * self.fall.map_or(1.0, |fall| fall.at(0));
        (factor != 1.0).then_some(factor)
    }
}

impl Fall {
    fn at(self, depth: usize) -> f32 {
        let reached = depth as f32 + 1.0 - self.offset;
        let power = exponential(f64::from(-self.exponent * natural_log(reached)));
        (self.base + self.amount * power as f32).max(0.1)
    }
}

/// Changes the temperature of `priors` by `factor`. Priors of 0 stay 0, and the sum stays the same.
pub(crate) fn change_temperature(priors: &mut [f32], factor: f32) {
    let sum: f32 = priors.iter().sum();
    let mut changed_sum = 0.0;
    for prior in priors.iter_mut().filter(|prior| **prior >= f32::MIN_POSITIVE) {
        *prior = exponential(f64::from(natural_log(*prior) / factor)) as f32;
        changed_sum += *prior;
    }
    if changed_sum > 0.0 {
        priors.iter_mut().for_each(|prior| *prior *= sum / changed_sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_changes_unless_asked_for() {
        let off = PolicyTemperature::from_options(&Options::default());
        assert_eq!(off, PolicyTemperature::default());
        assert_eq!((off.below_root(3), off.at_root()), (None, None));
    }

    #[test]
    fn the_temperature_falls_with_the_depth() {
        let options = Options { use_policy_temperature_by_depth: true, ..Options::default() };
        let on = PolicyTemperature::from_options(&options);
        // Monty's figures: 1 - 0.1055 + (depth - 0.34054)^-1.788.
        for (depth, expected) in [(1, 1.2985), (2, 1.0684), (9, 0.9117)] {
            let found = on.below_root(depth).unwrap();
            assert!((found - expected).abs() < 2e-3, "{depth}: {found}");
        }
        assert!((on.at_root().unwrap() - 2.9998).abs() < 5e-3, "{:?}", on.at_root());
        let at_root = Options { root_policy_temperature: 1.5, ..Options::default() };
        assert_eq!(PolicyTemperature::from_options(&at_root).at_root(), Some(1.5));
    }

    #[test]
    fn a_higher_temperature_makes_priors_more_equal_and_keeps_their_sum() {
        let mut priors = [0.64, 0.16, 0.0, 0.1];
        change_temperature(&mut priors, 2.0);
        assert!((priors.iter().sum::<f32>() - 0.9).abs() < 1e-6, "{priors:?}");
        assert!((priors[0] / priors[1] - 2.0).abs() < 1e-4 && priors[2] == 0.0, "{priors:?}");
    }
}
