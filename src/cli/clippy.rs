//! `backendbench --clippy`: recommends a minibatch size for play.
//!
//! With a larger batch the search is faster, but slightly weaker at the same number of visits. This loss is smaller in
//! longer searches. A size is recommended if the gain in speed outweighs the loss. lc0's authors fitted the loss for
//! each batch size and number of visits; the constants and the picture are theirs.

/// Time controls: the name, padded for the picture, and the seconds per move.
const SPEEDS: [(&str, f64); 3] =
    [("3min/move (Tournament):", 180.0), ("15s/move  (Rapid):", 15.0), ("1s/move   (Bullet):", 1.0)];

/// The best size so far for each time control.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recommendation {
    /// For each of [`SPEEDS`], the size and its positions per second.
    best: [(u32, f64); 3],
}

impl Default for Recommendation {
    fn default() -> Recommendation {
        Recommendation { best: [(1, 0.0); 3] }
    }
}

impl Recommendation {
    /// Considers the next larger size. Returns whether it is now the best for any time control. A size that does not
    /// pay off in slow games is not considered for faster games.
    pub(super) fn consider(&mut self, size: u32, nps: f64) -> bool {
        let mut better = false;
        for ((_, seconds), (best_size, best_nps)) in SPEEDS.iter().zip(&mut self.best) {
            let lost = loss_per_size((nps + *best_nps) / 2.0, *seconds)
                * (f64::from(size) - f64::from(*best_size))
                * *best_nps;
            if nps <= *best_nps || lost >= (nps - *best_nps) * f64::from(*best_size) {
                break;
            }
            (*best_size, *best_nps) = (size, nps);
            better = true;
        }
        better
    }

    /// The lines of lc0's picture, a paper clip that says `title` and the recommended sizes.
    pub(super) fn lines(&self, title: &str) -> Vec<String> {
        let width = title.len() + 1;
        let [tournament, rapid, bullet] = [0, 1, 2].map(|index| {
            let (name, size) = (SPEEDS[index].0, self.best[index].0);
            format!("{:width$}", format!("      {name:<24}{size:>4}"))
        });
        vec![
            "  __".to_owned(),
            " /  \\".to_owned(),
            format!(" |  |    {}", "_".repeat(width + 1)),
            format!(" +  +   | {}|", " ".repeat(width)),
            format!("(@)(@) _| {title} |"),
            format!(" |  |  \\  {bullet}|"),
            format!(" || |/  | {rapid}|"),
            format!(" || ||  | {tournament}|"),
            format!(" |\\_/|  |{}|", "_".repeat(width + 1)),
            " \\___/".to_owned(),
        ]
    }
}

/// The strength that a larger batch size costs in a search of `seconds` at `nps` positions per second. It is the
/// relative gain in speed that makes up for a relative increase of the size, per unit of that increase.
fn loss_per_size(nps: f64, seconds: f64) -> f64 {
    // In a game there are more visits than evaluations, because of reused trees and transpositions.
    let visits = nps.powf(1.085) * seconds;
    0.16947 * (-4.1695e-6 * visits).exp() + 0.02
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected picture is lc0's for a table with these mean speeds.
    #[test]
    fn recommends_and_draws_as_lc0() {
        let mut recommendation = Recommendation::default();
        let speeds = [
            2268, 2344, 2428, 2272, 2281, 2623, 2606, 2640, 2681, 2679, 2660, 2708, 2698, 2695, 2684, 2497,
            2444, 2497, 2303, 2422, 2680, 2208, 2471, 2413, 1910, 2230, 2499, 2390, 2241, 2414, 2411, 1976,
        ];
        for (size, nps) in (1..).zip(speeds) {
            recommendation.consider(size, f64::from(nps));
        }
        let expected = r"  __
 /  \
 |  |    __________________________________________
 +  +   |                                          |
(@)(@) _| Recommended minibatch-size for this net: |
 |  |  \        1s/move   (Bullet):        1       |
 || |/  |       15s/move  (Rapid):         1       |
 || ||  |       3min/move (Tournament):   12       |
 |\_/|  |__________________________________________|
 \___/";
        assert_eq!(recommendation.lines("Recommended minibatch-size for this net:").join("\n"), expected);
    }

    #[test]
    fn the_largest_size_wins_if_speed_is_proportional_to_it() {
        let mut recommendation = Recommendation::default();
        for size in [1, 2, 4, 8, 16, 32] {
            assert!(recommendation.consider(size, 1000.0 * f64::from(size)));
        }
        assert_eq!(recommendation.best.map(|(size, _)| size), [32; 3]);
        assert!(!recommendation.consider(64, 32_000.0));
    }
}
