//! Contempt and calibration: the network's win, draw and loss shares, moved to other players.
//!
//! The network was trained on games of equals. Against a weaker opponent more games are decided, and by the
//! stronger side. The model behind it: a game's outcome is a random walk whose end has a logistic distribution of
//! mean mu and scale s; an end above 1 is a win, below -1 a loss. Playing strength changes the scale by a *ratio*;
//! a difference in strength moves the mean by `s * s *` a *diff*. Both come from the options, by formulas and fits
//! that are lc0's, so that settings mean the same.

use super::outcome_model::OutcomeModel;
use crate::chess::Color;
use crate::options::{ContemptMode, Options};
use crate::tree::Sample;

/// Elo to the model's natural logarithms.
const PER_ELO: f32 = std::f32::consts::LN_10 / 200.0;

/// How shares are moved. See the module.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WdlRescale {
    /// Scale aimed at by the network's scale.
    pub ratio: f32,
    /// Shift of the mean, per square of the scale, for the side that contempt takes.
    pub diff: f32,
    /// Widest scale that is believed.
    pub max_s: f32,
    /// The side that contempt takes; `None`: nobody's.
    pub side: Option<Color>,
}

impl WdlRescale {
    /// Nothing is moved.
    pub const OFF: WdlRescale = WdlRescale { ratio: 1.0, diff: 0.0, max_s: 1.4, side: None };

    /// What `options` ask for, when `player` is the engine's own side.
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

    /// The network's value `sample` of a position with `side_to_move`, moved. Where one of the shares is next to
    /// nothing the model says nothing, and the value stays.
    #[must_use]
    pub fn apply(&self, sample: Sample, side_to_move: Color) -> Sample {
        if !self.is_active() {
            return sample;
        }
        let Some(network) = OutcomeModel::of_shares(sample.wl, sample.d) else { return sample };
        let scale = network.scale.min(self.max_s);
        let shift = if self.side == Some(side_to_move) { self.diff } else { -self.diff };
        let moved = OutcomeModel { mean: network.mean + scale * scale * shift, scale: scale * self.ratio };
        let (wl, d) = moved.shares();
        Sample { wl, d, m: sample.m }
    }
}

/// The Elo advantage to assume: that of the first entry of `contempt` whose name is in `opponent`, else that of the
/// last entry without a name, else `rating_advantage`. Entries that cannot be read are passed over.
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

/// The scale at which a game of equals is drawn with probability `draw_rate`.
fn scale_of_draw_rate(draw_rate: f32) -> f32 {
    1.0 / ((1.0 + draw_rate) / (1.0 - draw_rate)).ln()
}

/// Ratio and diff that turn `advantage`, measured in games from a book that leaves one side ahead by `bias`, into
/// the model's shift, at a chosen scale.
fn by_draw_rate(advantage: f32, network_scale: f32, target_scale: f32, bias: f32) -> (f32, f32) {
    let density = |end: f32| (0.5 * end / target_scale).cosh().powi(-2);
    let shift_per_elo =
        target_scale / (network_scale * network_scale) / (density(1.0 - bias) + density(1.0 + bias))
            * PER_ELO;
    (target_scale / network_scale, shift_per_elo * advantage)
}

/// Ratio and diff from the Elo of both sides: the fit knows how often players of a strength draw.
fn by_elo(advantage: f32, network_scale: f32, elo: f32) -> (f32, f32) {
    /// Scale of the weakest players, and how it falls with Elo (fitted to an engine's strength levels).
    const WEAKEST_SCALE: f32 = 15.0;
    const ELO_SLOPE: f32 = 425.0;
    const OFFSET: f32 = 6.75;
    let scale = |elo: f32| 1.0 / (1.0 / WEAKEST_SCALE + (elo / ELO_SLOPE - OFFSET).exp());
    // The scale's integral over Elo.
    let mean = |elo: f32| {
        let tail = (-elo / ELO_SLOPE + OFFSET).exp() / WEAKEST_SCALE;
        -PER_ELO * WEAKEST_SCALE * ELO_SLOPE * (1.0 + tail).ln()
    };
    let (ours, theirs) = (game_pair_elo(elo), game_pair_elo(elo - advantage));
    let target_scale = ((scale(ours).powi(2) + scale(theirs).powi(2)) / 2.0).sqrt();
    let diff = (mean(ours) - mean(theirs)) / (network_scale * network_scale);
    (target_scale / network_scale, diff)
}

/// Usual Elo as the Elo of pairs of games from unbalanced openings, which does not flatten out among the strongest.
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
    fn contempt_likes_its_side_and_draws_stay_likely() {
        let rescale = rescale(&[("Contempt", "200")], Some(Color::White));
        let (ours, theirs) = (rescale.apply(EQUAL, Color::White), rescale.apply(EQUAL, Color::Black));
        assert!(ours.wl > 0.1 && (ours.wl + theirs.wl).abs() < 1e-6, "{ours:?} {theirs:?}");
        assert!(ours.d > 0.3 && (ours.d - theirs.d).abs() < 1e-6);
        assert_eq!(ours.m, EQUAL.m);
        // Nobody's side: nothing.
        assert!(!self::rescale(&[("Contempt", "200")], None).is_active());
    }

    #[test]
    fn the_mode_names_the_side() {
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
    fn advantages_are_cut_at_the_maximum() {
        let diff = |contempt| rescale(&[("Contempt", contempt)], Some(Color::White)).diff;
        assert_eq!(diff("420"), diff("9000"));
        assert!(diff("-420") < 0.0 && diff("100") < diff("420"));
    }

    #[test]
    fn calibration_changes_the_draw_rate() {
        let draws = |elo| rescale(&[("WDLCalibrationElo", elo)], None).apply(EQUAL, Color::White).d;
        assert!(draws("1500") < draws("2500") && draws("2500") < draws("3600"));
        let target = rescale(&[("WDLDrawRateTarget", "0.8")], None);
        // The reference draw rate (0.5) becomes the target's.
        assert!((target.apply(EQUAL, Color::White).d - 0.8).abs() < 1e-3);
    }

    #[test]
    fn decided_positions_stay_as_they_are() {
        let rescale = rescale(&[("Contempt", "300")], Some(Color::White));
        for sample in [Sample { wl: 1.0, d: 0.0, m: 5.0 }, Sample { wl: 0.0, d: 1.0, m: 5.0 }] {
            assert_eq!(rescale.apply(sample, Color::White), sample);
        }
        let nan = rescale.apply(Sample { wl: f32::NAN, d: 0.5, m: 1.0 }, Color::White);
        assert!(nan.wl.is_nan());
    }

    #[test]
    fn what_is_shown_takes_contempt_back() {
        use crate::search::report::score::WdlView;
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
