//! The temperature of the root's policy (`RootPolicyTemperature`).
//!
//! A wide policy at the root finds moves that the network underestimates. The factor f of `PolicyTemperature` makes a
//! prior p into `p^(1 / f)`, and the priors are made to sum to the same again. They are changed when they are used,
//! because the root of one search was an inner node of the search before.

use super::math::{exponential, natural_log};

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
    fn a_higher_temperature_makes_priors_more_equal_and_keeps_their_sum() {
        let mut priors = [0.64, 0.16, 0.0, 0.1];
        change_temperature(&mut priors, 2.0);
        assert!((priors.iter().sum::<f32>() - 0.9).abs() < 1e-6, "{priors:?}");
        assert!((priors[0] / priors[1] - 2.0).abs() < 1e-4 && priors[2] == 0.0, "{priors:?}");
    }
}
