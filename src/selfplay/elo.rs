//! What the score of a match says about the difference in strength: Elo with its error, and the sequential test.
//!
//! The model is the usual one: an Elo difference x means an expected score of 1 / (1 + 10^(-x/400)). The error is that of
//! the mean of the samples. A sample is a pair of games with the same opening if the games are played in pairs, because
//! the two games of a pair are not independent, and otherwise a game. The sequential test is the generalised SPRT of
//! Michel van den Bergh, in its normal approximation, which Fishtest and fastchess use as well.

use super::score::Score;
use std::str::FromStr;

/// 95 % of a normal distribution lie within this number of standard deviations.
const DEVIATIONS_FOR_95_PERCENT: f64 = 1.959_964;

/// The probability of each of the test's two errors.
pub const ERROR_PROBABILITY: f64 = 0.05;

/// The variance that a test uses counts each outcome as if it had occurred this often in addition. Otherwise the variance
/// of few samples could be zero, and a single pair of games could end a test.
const PRIOR_COUNT: f64 = 0.2;

/// Elo differences of a test are at most this.
const MOST_ELO: f64 = 1000.0;

/// Mean and variance of player 1's score in samples that are worth one point each.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Sampled {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Sampled {
    /// The variance counts each outcome `prior` times in addition. `None` without a sample.
    fn new(score: &Score, prior: f64) -> Option<Sampled> {
        let has_pairs = score.pairs.iter().any(|&count| count > 0);
        let games = [score.losses(), score.draws(), score.wins()];
        let counts: &[u32] = if has_pairs { &score.pairs } else { &games };
        let highest = (counts.len() - 1) as f64;
        let count: f64 = counts.iter().map(|&count| f64::from(count)).sum();
        if count == 0.0 {
            return None;
        }
        let each =
            || counts.iter().enumerate().map(|(step, &count)| (step as f64 / highest, f64::from(count)));
        let mean = each().map(|(points, count)| points * count).sum::<f64>() / count;
        let with_prior = |(points, count): (f64, f64)| ((points - mean).powi(2), count + prior);
        let (squares, weight) =
            each().map(with_prior).fold((0.0, 0.0), |(squares, weight), (square, count)| {
                (squares + square * count, weight + count)
            });
        Some(Sampled { count, mean, variance: squares / weight })
    }
}

/// The Elo difference for an expected score; infinite for 0 and 1.
pub fn elo_of_share(share: f64) -> f64 {
    400.0 * (share / (1.0 - share)).log10()
}

/// The expected score for an Elo difference.
fn share_of_elo(elo: f64) -> f64 {
    1.0 / (1.0 + 10_f64.powf(-elo / 400.0))
}

/// The Elo difference by which player 1 is stronger, with the ends of its 95 % interval. `None` without a sample. The
/// ends are infinite if the interval of the score reaches 0 or 1, or with one sample.
pub fn elo(score: &Score) -> Option<[f64; 3]> {
    let Sampled { count, mean, variance } = Sampled::new(score, 0.0)?;
    // Of one sample the variance is not known.
    let error =
        if count > 1.0 { DEVIATIONS_FOR_95_PERCENT * (variance / count).sqrt() } else { f64::INFINITY };
    Some([mean, mean - error, mean + error].map(|share| elo_of_share(share.clamp(0.0, 1.0))))
}

/// The probability that player 1 is the stronger one, by the wins and losses. `None` without a decided game.
pub fn likelihood_of_superiority(score: &Score) -> Option<f64> {
    let (wins, losses) = (f64::from(score.wins()), f64::from(score.losses()));
    (wins + losses > 0.0).then(|| normal_distribution((wins - losses) / (wins + losses).sqrt()))
}

/// The normal distribution, by the approximation 26.2.17 of Abramowitz and Stegun. The error is below 1e-7.
fn normal_distribution(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] =
        [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let polynomial = COEFFICIENTS.iter().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    let tail = polynomial * (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// A sequential test of two hypotheses about the Elo difference.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sprt {
    /// The difference under the null hypothesis.
    pub elo0: f64,
    /// The difference under the alternative.
    pub elo1: f64,
}

impl FromStr for Sprt {
    type Err = String;

    /// Reads two Elo differences, as in `0,5`.
    fn from_str(text: &str) -> Result<Sprt, String> {
        let parse = |text: &str| text.trim().parse::<f64>().ok().filter(|elo| elo.abs() <= MOST_ELO);
        let ends = text.split_once(',').and_then(|(elo0, elo1)| Some((parse(elo0)?, parse(elo1)?)));
        match ends {
            Some((elo0, elo1)) if elo0 < elo1 => Ok(Sprt { elo0, elo1 }),
            _ => Err("not two Elo differences, the smaller one first, as in 0,5".to_owned()),
        }
    }
}

/// What a sequential test says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// More games are needed.
    Open,
    /// The null hypothesis is accepted.
    H0,
    /// The alternative is accepted.
    H1,
}

impl Sprt {
    /// The logarithm of the likelihood ratio of the two hypotheses; 0 without a sample.
    pub fn log_likelihood_ratio(&self, score: &Score) -> f64 {
        let Some(Sampled { count, mean, variance }) = Sampled::new(score, PRIOR_COUNT) else { return 0.0 };
        let (share0, share1) = (share_of_elo(self.elo0), share_of_elo(self.elo1));
        count * (share1 - share0) * (2.0 * mean - share0 - share1) / (2.0 * variance)
    }

    /// The absolute value of the ratio's logarithm at which the test ends.
    pub fn bound() -> f64 {
        ((1.0 - ERROR_PROBABILITY) / ERROR_PROBABILITY).ln()
    }

    /// What the games so far say.
    pub fn verdict(&self, score: &Score) -> Verdict {
        let ratio = self.log_likelihood_ratio(score);
        match ratio {
            _ if ratio >= Sprt::bound() => Verdict::H1,
            _ if ratio <= -Sprt::bound() => Verdict::H0,
            _ => Verdict::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_pairs(pairs: [u32; 5]) -> Score {
        Score { pairs, ..Score::default() }
    }

    fn of_games(wins: u32, draws: u32, losses: u32) -> Score {
        Score { results: [[wins, 0], [draws, 0], [losses, 0]], ..Score::default() }
    }

    fn is_close(a: f64, b: f64) -> bool {
        (a - b).abs() < 0.01
    }

    #[test]
    fn elo_and_its_error_follow_the_logistic_curve() {
        let [middle, low, high] = elo(&of_games(60, 0, 40)).unwrap();
        assert!(is_close(middle, 70.44) && is_close(low, 2.77) && is_close(high, 143.91), "{low} {high}");
        let [middle, low, high] = elo(&of_pairs([0, 0, 10, 0, 0])).unwrap();
        assert_eq!([middle, low, high], [0.0; 3]);
        assert_eq!(elo(&of_games(3, 0, 0)).unwrap()[0], f64::INFINITY);
        assert_eq!(elo(&Score::default()), None);
        assert_eq!(elo(&of_games(0, 1, 0)), Some([0.0, f64::NEG_INFINITY, f64::INFINITY]));
    }

    /// Pairs cancel the openings' influence: if each pair is one win for each colour, nothing is uncertain.
    #[test]
    fn pairs_and_not_games_are_the_samples() {
        let score = Score { pairs: [0, 0, 50, 0, 0], ..of_games(50, 0, 50) };
        assert_eq!(elo(&score).unwrap(), [0.0; 3]);
    }

    #[test]
    fn superiority_is_the_normal_distribution_of_the_decided_games() {
        assert!(is_close(likelihood_of_superiority(&of_games(10, 5, 10)).unwrap(), 0.5));
        assert!((likelihood_of_superiority(&of_games(20, 0, 10)).unwrap() - 0.966_05).abs() < 1e-4);
        assert_eq!(likelihood_of_superiority(&of_games(0, 7, 0)), None);
    }

    #[test]
    fn a_test_has_two_differences_in_their_order() {
        assert_eq!("-2.5, 5".parse(), Ok(Sprt { elo0: -2.5, elo1: 5.0 }));
        for wrong in ["5,0", "0", "0,0", "0,NaN", "0,1001", "0,5,9", ""] {
            assert!(wrong.parse::<Sprt>().is_err(), "{wrong}");
        }
    }

    /// The figures are computed by hand from the formula: 400 pairs, mean 0.5175, variance 0.02907,
    /// and 0.02931 with the prior.
    #[test]
    fn the_test_ends_at_its_bounds() {
        let sprt = Sprt { elo0: 0.0, elo1: 10.0 };
        let better = of_pairs([5, 60, 242, 88, 5]);
        let ratio = sprt.log_likelihood_ratio(&better);
        assert!((ratio - 2.0237).abs() < 0.001, "{ratio}");
        assert_eq!(sprt.verdict(&better), Verdict::Open);
        assert_eq!(sprt.verdict(&of_pairs([5, 40, 210, 140, 5])), Verdict::H1);
        assert_eq!(sprt.verdict(&of_pairs([5, 140, 210, 40, 5])), Verdict::H0);
        assert_eq!(sprt.verdict(&Score::default()), Verdict::Open);
        assert!(is_close(Sprt::bound(), 2.944));
    }

    /// One pair with a score of 1.5 ended a match of 400 games, in which player 1 had more losses than wins.
    #[test]
    fn few_pairs_of_one_score_do_not_end_a_test() {
        let sprt = Sprt { elo0: 0.0, elo1: 10.0 };
        for pairs in [[0, 0, 0, 1, 0], [0, 0, 0, 8, 0], [0, 5, 0, 0, 0], [3, 0, 0, 0, 0]] {
            assert_eq!(sprt.verdict(&of_pairs(pairs)), Verdict::Open, "{pairs:?}");
        }
        assert_eq!(sprt.verdict(&of_pairs([0, 0, 0, 200, 0])), Verdict::H1);
    }
}
