//! Scores: converts the search's values to the numbers that a GUI shows.
//!
//! The formulas are lc0's, so that evaluation bars and statistics mean the same for both engines.
//!
//! All values are from the point of view of the side to move at the root. `wl` is the probability of a win minus that
//! of a loss (-1…1), `d` is the probability of a draw (0…1), and `q` is `wl` plus `d` times the draw score.

use crate::policy::outcome_model::OutcomeModel;
use rukh_options::ScoreType;

/// The values from which a score is computed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ScoreInputs {
    /// The probability of a win minus that of a loss (-1…1).
    pub wl: f32,
    /// The probability of a draw (0…1).
    pub d: f32,
    /// `wl` plus `d` times the draw score.
    pub q: f32,
    /// The advantage from [`WdlView::convert`]; 0 if the model does not apply.
    pub mu: f32,
    /// Whether the network predicts the probability of a draw.
    pub has_wdl: bool,
}

/// The number after `score cp`, rounded towards zero.
pub fn score(score_type: ScoreType, inputs: ScoreInputs) -> i32 {
    let ScoreInputs { wl, q, .. } = inputs;
    let (wide_wl, wide_q) = (f64::from(wl), f64::from(q));
    let value = match score_type {
        ScoreType::Centipawn => 90.0 * (1.563_754_189_7 * wide_wl).tan(),
        ScoreType::CentipawnWithDrawScore => 90.0 * (1.563_754_189_7 * wide_q).tan(),
        ScoreType::Centipawn2019 => 295.0 * wide_wl / (1.0 - 0.976_953_126 * wide_wl.powi(14)),
        ScoreType::Centipawn2018 => 290.680_623_072 * (1.548_090_806 * wide_wl).tan(),
        // This value and the next two are computed in single precision, so that a q of 0.9 gives 9000 and not 8999.
        ScoreType::WinPercentage => f64::from(wl * 5000.0 + 5000.0),
        ScoreType::Q => f64::from(q * 10_000.0),
        ScoreType::WinMinusLoss => f64::from(wl * 10_000.0),
        ScoreType::WdlMu => wdl_mu_score(inputs),
    };
    // `as` saturates, and makes NaN zero.
    value as i32
}

/// mu in hundredths, where it can be trusted, and otherwise centipawns. mu can be trusted if the network predicts
/// draws, the game is not decided, and mu is either small or larger than the centipawns.
fn wdl_mu_score(inputs: ScoreInputs) -> f64 {
    /// Above this sum of `|wl|` and d, the smaller of the win and loss probabilities is lost in rounding.
    const DECIDED: f32 = 0.996;
    let ScoreInputs { wl, d, mu, has_wdl, .. } = inputs;
    let centipawns = 45.0 * (1.567_280_716_28 * f64::from(wl)).tan();
    let mu_score = 100.0 * f64::from(mu);
    let trusted = has_wdl
        && mu != 0.0
        && wl.abs() + d < DECIDED
        && (mu.abs() < 1.0 || centipawns.abs() < mu_score.abs());
    if trusted { mu_score } else { centipawns }
}

/// Moves to mate for a root move with a proven mate, negative if the move loses. The game is over `plies` plies after the
/// move (the search's m).
pub fn mate_in(wl: f32, plies: f32) -> i32 {
    let moves = (plies.round() / 2.0) as i32 + 1;
    if wl < 0.0 { -moves } else { moves }
}

/// The score of a certain win (1), draw (0) or loss (-1) that the tablebases know. They do not know how far the mate is,
/// so that a win is the highest score of its type, and no mate.
pub fn tablebase_score(score_type: ScoreType, result: i8, draw_score: f32) -> i32 {
    let (wl, d) = (f32::from(result), if result == 0 { 1.0 } else { 0.0 });
    score(score_type, ScoreInputs { wl, d, q: wl + d * draw_score, ..ScoreInputs::default() })
}

/// The probabilities of win, draw and loss in thousandths, which sum to 1000.
pub fn wdl_permille(wl: f32, d: f32) -> [u16; 3] {
    let share =
        |sign: f64| (500.0 * (1.0 + sign * f64::from(wl) - f64::from(d))).round().clamp(0.0, 1000.0) as i32;
    let (win, loss) = (share(1.0), share(-1.0));
    let draw = 1000 - win - loss;
    if draw >= 0 {
        return [win as u16, draw as u16, loss as u16];
    }
    // The sum is too large, because of rounding or of a value head whose shares do not sum to 1. Half of the surplus is
    // taken from the wins.
    let win = (win + draw / 2).clamp(0, 1000);
    [win as u16, 0, (1000 - win) as u16]
}

/// Converts the search's win, draw and loss probabilities to the probabilities that are shown. It takes back the shift
/// by contempt, and keeps the scale that calibration gave them.
///
/// In the model behind it, a game's outcome is a random walk whose end has a logistic distribution with mean `mu` and
/// scale `s`. An end above 1 is a win, an end below -1 is a loss.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct WdlView {
    /// The scale of the search's distribution divided by that of the network's.
    pub ratio: f32,
    /// The advantage that contempt added to the mean, divided by the square of s and multiplied by
    /// `WDLEvalObjectivity`. 0 means none.
    pub diff: f32,
    /// Whether contempt favours the side to move.
    pub for_side_to_move: bool,
    /// The upper bound of s (`WDLMaxS`).
    pub max_s: f32,
}

impl WdlView {
    /// A view without rescaling: `convert` only computes mu.
    #[cfg(test)]
    pub(crate) fn plain(max_s: f32) -> WdlView {
        WdlView { ratio: 1.0, diff: 0.0, for_side_to_move: true, max_s }
    }

    /// Returns (wl, d, mu) to show for the search's `wl` and `d`. If the probability of a win, a draw or a loss is
    /// close to 0 or 1, the model does not apply: wl and d stay unchanged, and mu is 0.
    pub(crate) fn convert(&self, wl: f32, d: f32) -> (f32, f32, f32) {
        let Some(searched) = OutcomeModel::of_shares(wl, d) else { return (wl, d, 0.0) };
        let network_s = (searched.scale / self.ratio).min(self.max_s);
        let sign = if self.for_side_to_move { 1.0 } else { -1.0 };
        // The advantage was added at the network's scale, so it is subtracted at that scale. The shown distribution
        // keeps the search's scale.
        let mean = searched.mean - sign * network_s * network_s * self.diff;
        let (wl, d) = OutcomeModel { mean, ..searched }.shares();
        (wl, d, mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_wl(score_type: ScoreType, wl: f32) -> i32 {
        score(score_type, ScoreInputs { wl, d: 0.3, q: wl, mu: 0.0, has_wdl: true })
    }

    /// The expected scores were computed from the formulas with another program.
    #[test]
    fn scores_of_known_values() {
        for (score_type, at_0, at_025, at_minus_09) in [
            (ScoreType::Centipawn, 0, 37, -545),
            (ScoreType::CentipawnWithDrawScore, 0, 37, -545),
            (ScoreType::Centipawn2019, 0, 73, -341),
            (ScoreType::Centipawn2018, 0, 118, -1620),
            (ScoreType::WinPercentage, 5000, 6250, 500),
            (ScoreType::Q, 0, 2500, -9000),
            (ScoreType::WinMinusLoss, 0, 2500, -9000),
            (ScoreType::WdlMu, 0, 18, -278),
        ] {
            assert_eq!(of_wl(score_type, 0.0), at_0, "{score_type}");
            assert_eq!(of_wl(score_type, 0.25), at_025, "{score_type}");
            assert_eq!(of_wl(score_type, -0.9), at_minus_09, "{score_type}");
        }
    }

    #[test]
    fn a_certain_win_has_a_large_but_finite_score() {
        for &score_type in ScoreType::ALL {
            let won = of_wl(score_type, 1.0);
            assert!((5_000..1_000_000).contains(&won), "{score_type}: {won}");
        }
        assert_eq!(of_wl(ScoreType::Centipawn, 1.0), 12780);
        assert_eq!(of_wl(ScoreType::Centipawn2019, 1.0), 12800);
    }

    #[test]
    fn the_draw_score_counts_only_in_q_and_centipawn_with_draw_score() {
        let inputs = ScoreInputs { wl: 0.0, d: 0.5, q: -0.25, mu: 0.0, has_wdl: true };
        assert_eq!(score(ScoreType::Centipawn, inputs), 0);
        assert_eq!(score(ScoreType::CentipawnWithDrawScore, inputs), -37);
        assert_eq!(score(ScoreType::Q, inputs), -2500);
        assert_eq!(score(ScoreType::WinMinusLoss, inputs), 0);
    }

    #[test]
    fn mu_is_shown_only_where_it_can_be_trusted() {
        let inputs = ScoreInputs { wl: 0.3, d: 0.6, q: 0.3, mu: 0.6, has_wdl: true };
        assert_eq!(score(ScoreType::WdlMu, inputs), 60);
        let fallback = 22;
        assert_eq!(score(ScoreType::WdlMu, ScoreInputs { has_wdl: false, ..inputs }), fallback);
        assert_eq!(score(ScoreType::WdlMu, ScoreInputs { mu: 0.0, ..inputs }), fallback);
        assert_eq!(score(ScoreType::WdlMu, ScoreInputs { d: 0.699, ..inputs }), fallback);
        // A large mu counts only if it is larger than the centipawns.
        let large = ScoreInputs { wl: 0.9, d: 0.09, mu: 1.5, ..inputs };
        assert_eq!(score(ScoreType::WdlMu, large), 278);
        assert_eq!(score(ScoreType::WdlMu, ScoreInputs { mu: 3.0, ..large }), 300);
    }

    #[test]
    fn mates_count_full_moves() {
        assert_eq!([0.0, 2.0, 4.0].map(|plies| mate_in(1.0, plies)), [1, 2, 3]);
        assert_eq!([1.0, 3.0].map(|plies| mate_in(-1.0, plies)), [-1, -2]);
    }

    #[test]
    fn shares_sum_to_a_thousand() {
        assert_eq!(wdl_permille(0.0, 1.0), [0, 1000, 0]);
        assert_eq!(wdl_permille(1.0, 0.0), [1000, 0, 0]);
        assert_eq!(wdl_permille(-1.0, 0.0), [0, 0, 1000]);
        assert_eq!(wdl_permille(0.1, 0.5), [300, 500, 200]);
        for wl in -20..=20 {
            for d in 0..=20 {
                let [w, d, l] = wdl_permille(wl as f32 / 20.0, d as f32 / 20.0);
                assert_eq!(w + d + l, 1000);
            }
        }
        // A value head whose probabilities sum to slightly more than 1.
        assert_eq!(wdl_permille(0.001, -0.000_01), [501, 0, 499]);
        assert_eq!(wdl_permille(f32::NAN, 0.0), [0, 1000, 0]);
    }

    #[test]
    fn the_plain_view_changes_nothing_and_finds_mu() {
        let view = WdlView::plain(1.4);
        for (wl, d) in [(0.0, 0.5), (0.3, 0.6), (-0.7, 0.25)] {
            let (shown_wl, shown_d, mu) = view.convert(wl, d);
            assert!((shown_wl - wl).abs() < 1e-5 && (shown_d - d).abs() < 1e-5);
            assert_eq!(mu.signum() * wl.abs().ceil(), wl.signum() * wl.abs().ceil());
        }
        // w = .45, l = .15, d = .4: a = ln(17/3), b = ln(11/9), mu = (a - b) / (a + b).
        assert!((view.convert(0.3, 0.4).2 - 0.792_617_3).abs() < 1e-5);
        assert_eq!(view.convert(1.0, 0.0), (1.0, 0.0, 0.0));
    }

    #[test]
    fn the_view_removes_contempt() {
        let contempt = WdlView { ratio: 1.0, diff: 0.5, for_side_to_move: true, max_s: 1.4 };
        let (_, _, plain) = WdlView::plain(1.4).convert(0.2, 0.5);
        let (ours, _, mu) = contempt.convert(0.2, 0.5);
        assert!(mu < plain && ours < 0.2);
        let theirs = WdlView { for_side_to_move: false, ..contempt }.convert(0.2, 0.5).0;
        assert!(theirs > 0.2);
    }
}
