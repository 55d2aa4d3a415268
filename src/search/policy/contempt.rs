//! Contempt and calibration: adjusts the network's win, draw and loss probabilities to the strength of the players.
//!
//! The network was trained on games between equal players. Against a weaker opponent more games are decisive, and the
//! stronger side wins more of them. In the model behind the adjustment, a game's outcome is a random walk whose end has
//! a logistic distribution with mean mu and scale s. An end above 1 is a win, and an end below -1 is a loss. Playing
//! strength multiplies the scale by a *ratio*. A difference in strength shifts the mean by `s * s * diff`. Ratio and
//! diff are computed from the options with lc0's formulas and fitted constants, so that the same settings have the same
//! effect in both engines.

use super::outcome_model::OutcomeModel;
use rukh_chess::Color;
use rukh_options::{ContemptMode, Options};
use rukh_tree::Sample;

/// Twice `ln(10) / 400`, which is the natural logarithm of the odds that one Elo is worth. The formulas below use it
/// doubled.
const PER_ELO: f32 = std::f32::consts::LN_10 / 200.0;

/// The parameters by which [`WdlRescale::apply`] adjusts probabilities.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WdlRescale {
    /// The target scale divided by the network's scale.
    pub ratio: f32,
    /// The shift of the mean in favour of `side`, divided by the square of the scale.
    pub diff: f32,
    /// The upper bound of the scale (`WDLMaxS`). A larger scale of the network is reduced to this bound.
    pub max_s: f32,
    /// The side that contempt favours. `None` means that contempt is off.
    pub side: Option<Color>,
}

impl WdlRescale {
    /// Parameters that change nothing.
    pub const OFF: WdlRescale = WdlRescale { ratio: 1.0, diff: 0.0, max_s: 1.4, side: None };

    /// Computes the parameters from the options. `player` is the engine's colour, `None` in analysis.
    pub fn from_options(options: &Options, player: Option<Color>) -> WdlRescale {
        let advantage = advantage(&options.contempt, &options.uci_opponent, options.uci_rating_adv)
            .clamp(-options.contempt_max_value, options.contempt_max_value);
        let network_scale = scale_of_draw_rate(options.wdl_draw_rate_reference);
        let (ratio, diff) = if options.wdl_calibration_elo == 0.0 {
            let target_scale = match options.wdl_draw_rate_target {
                0.0 => network_scale,
                target => scale_of_draw_rate(target.max(0.001)),
            };
            by_draw_rate(advantage, network_scale, target_scale, options.wdl_book_exit_bias)
        } else {
            by_elo(advantage, network_scale, options.wdl_calibration_elo)
        };
        let side = match options.contempt_mode {
            ContemptMode::Play => player,
            ContemptMode::White => Some(Color::White),
            ContemptMode::Black => Some(Color::Black),
            ContemptMode::Disable => None,
        };
        let diff = if side.is_some() { diff * options.wdl_contempt_attenuation } else { 0.0 };
        WdlRescale { ratio, diff, max_s: options.wdl_max_s, side }
    }

    /// Whether [`WdlRescale::apply`] changes anything.
    pub fn is_active(&self) -> bool {
        self.ratio != 1.0 || self.diff != 0.0
    }

    /// Adjusts `sample`, the network's value of a position in which `side_to_move` is to move. If one of its three
    /// probabilities is close to 0 or 1, the model does not apply and the value stays unchanged.
    #[must_use]
    pub fn apply(&self, sample: Sample, side_to_move: Color) -> Sample {
        if !self.is_active() {
            return sample;
        }
        let Some(network) = OutcomeModel::of_shares(sample.wl, sample.d) else { return sample };
        let scale = network.scale.min(self.max_s);
        let shift = if self.side == Some(side_to_move) { self.diff } else { -self.diff };
        let adjusted = OutcomeModel { mean: network.mean + scale * scale * shift, scale: scale * self.ratio };
        let (wl, d) = adjusted.shares();
        Sample { wl, d, m: sample.m }
    }
}

/// The Elo advantage to assume. The first entry of `contempt` whose name occurs in `opponent` gives it. If there is no
/// such entry, the last entry without a name gives it, and otherwise it is `rating_advantage`. Entries that cannot be
/// parsed are ignored.
fn advantage(contempt: &str, opponent: &str, rating_advantage: f32) -> f32 {
    let opponent = opponent.to_ascii_lowercase();
    let mut advantage = rating_advantage;
    for entry in contempt.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        match entry.split_once('=') {
            Some((name, value)) => {
                let named = opponent.contains(&name.trim().to_ascii_lowercase());
                if let (true, Ok(value)) = (named, value.trim().parse()) {
                    return value;
                }
            }
            None => advantage = entry.parse().unwrap_or(advantage),
        }
    }
    advantage
}

/// The scale at which equal players draw with probability `draw_rate`.
fn scale_of_draw_rate(draw_rate: f32) -> f32 {
    1.0 / ((1.0 + draw_rate) / (1.0 - draw_rate)).ln()
}

/// Computes ratio and diff for a given target scale. `advantage` is in Elo, measured in games from an opening book
/// whose positions favour one side by `bias`.
fn by_draw_rate(advantage: f32, network_scale: f32, target_scale: f32, bias: f32) -> (f32, f32) {
    let density = |end: f32| (0.5 * end / target_scale).cosh().powi(-2);
    let shift_per_elo =
        target_scale / (network_scale * network_scale) / (density(1.0 - bias) + density(1.0 + bias))
            * PER_ELO;
    (target_scale / network_scale, shift_per_elo * advantage)
}

/// Computes ratio and diff from the Elo of both players, with a fit of how often players of a given strength draw.
fn by_elo(advantage: f32, network_scale: f32, elo: f32) -> (f32, f32) {
    /// The scale of the weakest players. `ELO_SLOPE` and `OFFSET` say how it falls as Elo rises (fitted to the strength
    /// levels of an engine).
    const WEAKEST_SCALE: f32 = 15.0;
    const ELO_SLOPE: f32 = 425.0;
    const OFFSET: f32 = 6.75;
    let scale = |elo: f32| 1.0 / (1.0 / WEAKEST_SCALE + (elo / ELO_SLOPE - OFFSET).exp());
    // The integral of the scale over Elo, times `PER_ELO`.
    let mean = |elo: f32| {
        let tail = (-elo / ELO_SLOPE + OFFSET).exp() / WEAKEST_SCALE;
        -PER_ELO * WEAKEST_SCALE * ELO_SLOPE * (1.0 + tail).ln()
    };
    let (ours, theirs) = (game_pair_elo(elo), game_pair_elo(elo - advantage));
    let target_scale = ((scale(ours).powi(2) + scale(theirs).powi(2)) / 2.0).sqrt();
    let diff = (mean(ours) - mean(theirs)) / (network_scale * network_scale);
    (target_scale / network_scale, diff)
}

/// Converts ordinary Elo to the Elo of game pairs from unbalanced openings. Such games still tell the strongest players
/// apart. Far above `MIDPOINT` the two are equal. Far below it, differences are half as large in game pairs.
fn game_pair_elo(elo: f32) -> f32 {
    const SHARPNESS: f32 = 250.0;
    const MIDPOINT: f32 = 2737.0;
    elo + 0.5 * SHARPNESS * (1.0 + ((MIDPOINT - elo) / SHARPNESS).exp()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EQUAL: Sample = Sample { wl: 0.0, d: 0.5, m: 30.0 };

    fn rescale(settings: &[(&str, &str)], player: Option<Color>) -> WdlRescale {
        let mut options = Options::default();
        for (name, value) in settings {
            options.set(name, value).expect("valid settings");
        }
        WdlRescale::from_options(&options, player)
    }

    #[test]
    fn defaults_change_nothing() {
        let rescale = rescale(&[], Some(Color::White));
        assert!(!rescale.is_active());
        assert_eq!(rescale.apply(EQUAL, Color::White), EQUAL);
    }

    #[test]
    fn contempt_favours_its_side_and_draws_stay_likely() {
        let rescale = rescale(&[("Contempt", "200")], Some(Color::White));
        let (ours, theirs) = (rescale.apply(EQUAL, Color::White), rescale.apply(EQUAL, Color::Black));
        assert!(ours.wl > 0.1 && (ours.wl + theirs.wl).abs() < 1e-6, "{ours:?} {theirs:?}");
        assert!(ours.d > 0.3 && (ours.d - theirs.d).abs() < 1e-6);
        assert_eq!(ours.m, EQUAL.m);
        // Without a side, contempt has no effect.
        assert!(!self::rescale(&[("Contempt", "200")], None).is_active());
    }

    #[test]
    fn the_mode_chooses_the_side() {
        let side = |mode| rescale(&[("Contempt", "50"), ("ContemptMode", mode)], Some(Color::White)).side;
        assert_eq!(side("play"), Some(Color::White));
        assert_eq!(side("white_side_analysis"), Some(Color::White));
        assert_eq!(side("black_side_analysis"), Some(Color::Black));
        assert_eq!(side("disable"), None);
    }

    #[test]
    fn the_opponents_name_chooses_the_advantage() {
        let list = "stock=-30, 15 ,maia=100,maia=200";
        assert_eq!(advantage(list, "none none computer Stockfish 17", 0.0), -30.0);
        assert_eq!(advantage(list, "none 1900 computer MAIA 1900", 0.0), 100.0);
        assert_eq!(advantage(list, "somebody", 7.0), 15.0);
        assert_eq!(advantage("", "somebody", 7.0), 7.0);
        assert_eq!(advantage("much,maia=more", "maia", 7.0), 7.0);
    }

    #[test]
    fn advantages_are_limited_to_the_maximum() {
        let diff = |contempt| rescale(&[("Contempt", contempt)], Some(Color::White)).diff;
        assert_eq!(diff("420"), diff("9000"));
        assert!(diff("-420") < 0.0 && diff("100") < diff("420"));
    }

    #[test]
    fn calibration_changes_the_draw_rate() {
        let draws = |elo| rescale(&[("WDLCalibrationElo", elo)], None).apply(EQUAL, Color::White).d;
        assert!(draws("1500") < draws("2500") && draws("2500") < draws("3600"));
        let target = rescale(&[("WDLDrawRateTarget", "0.8")], None);
        // A position with the reference draw rate (0.5) gets the target draw rate.
        assert!((target.apply(EQUAL, Color::White).d - 0.8).abs() < 1e-3);
    }

    #[test]
    fn decided_positions_stay_unchanged() {
        let rescale = rescale(&[("Contempt", "300")], Some(Color::White));
        for sample in [Sample { wl: 1.0, d: 0.0, m: 5.0 }, Sample { wl: 0.0, d: 1.0, m: 5.0 }] {
            assert_eq!(rescale.apply(sample, Color::White), sample);
        }
        let nan = rescale.apply(Sample { wl: f32::NAN, d: 0.5, m: 1.0 }, Color::White);
        assert!(nan.wl.is_nan());
    }

    #[test]
    fn the_reported_score_removes_contempt() {
        use crate::report::score::WdlView;
        let rescale = rescale(&[("Contempt", "250"), ("WDLCalibrationElo", "2400")], Some(Color::White));
        let view = WdlView {
            ratio: rescale.ratio,
            diff: rescale.diff,
            for_side_to_move: true,
            max_s: rescale.max_s,
        };
        let sample = Sample { wl: 0.2, d: 0.45, m: 20.0 };
        let searched = rescale.apply(sample, Color::White);
        let (_, _, mu) = view.convert(searched.wl, searched.d);
        let (_, _, plain) = WdlView::plain(rescale.max_s).convert(sample.wl, sample.d);
        assert!((mu - plain).abs() < 1e-3, "{mu} {plain}");
    }
}
