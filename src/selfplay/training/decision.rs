//! Turns the searches of a finished game into its records, with the formulas of lc0's `trainingdata.cc`.

use super::planes::{is_black_to_move, write_position};
use super::record::{Record, flags};
use crate::selfplay::score::GameScore;
use rukh_backend::Evaluation;
use rukh_chess::{Move, PackedMove, PositionHistory};
use rukh_net::InputFormat;
use rukh_net::input::HistoryFill;
use rukh_net::policy_index::index_of;
use rukh_search::{RootMove, RootReport};
use rukh_tree::Sample;
use zerocopy::little_endian::F32;

/// The evaluation cache rounds smaller priors to 0, of which there is no logarithm.
const LEAST_PRIOR: f32 = 1.0 / (1_u32 << 31) as f32;

/// What a player has found out about a position, and the move that it has played.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) played: PackedMove,
    pub(crate) root: RootReport,
    /// The network's own evaluation of the position, if it is known.
    pub(crate) evaluation: Option<Evaluation>,
    /// The softmax temperature that is in the evaluation's priors.
    pub(crate) policy_temperature: f32,
    /// The player's rule for the boards before the first position of the game.
    pub(crate) fill: HistoryFill,
}

/// How a game ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) score: GameScore,
    /// Whether the rules of chess did not end the game.
    pub(crate) is_adjudicated: bool,
    /// Whether it was ended for its length.
    pub(crate) is_too_long: bool,
}

/// The records of a game, one for each decision. `opening` is the history up to the first searched position, and `moves`
/// are all moves that were played from there. There are no records at all if a search has visited no move though there
/// was a choice, because readers find the moves of a game by comparing records that follow each other.
pub(crate) fn records(
    opening: PositionHistory,
    moves: &[Move],
    decisions: &[Decision],
    format: InputFormat,
    outcome: Outcome,
) -> Vec<Record> {
    let mut history = opening;
    let mut records = Vec::with_capacity(decisions.len());
    for (ply, decision) in decisions.iter().enumerate() {
        let Some(record) = record(&history, decision, format) else { return Vec::new() };
        records.push(record);
        if let Some(&m) = moves.get(ply) {
            history.push(m);
        }
    }
    // The last search estimates how long the game would have gone on.
    let estimate = records.last().map_or(0.0, |last| last.best_m.get());
    let count = records.len();
    for (ply, record) in records.iter_mut().enumerate() {
        add_outcome(record, outcome, estimate + (count - 1 - ply) as f32);
    }
    records
}

/// The record of the last position of `history`, without the result of the game. `None` if the search visited no move
/// though there was a choice.
fn record(history: &PositionHistory, decision: &Decision, format: InputFormat) -> Option<Record> {
    let root = &decision.root;
    let best = root.moves.first()?;
    let played = root.find(decision.played).unwrap_or(best);
    let total: u32 = root.moves.iter().map(|m| m.visits).sum();
    if total == 0 && root.moves.len() > 1 {
        return None;
    }
    let share = |m: &RootMove| if total == 0 { 1.0 } else { m.visits as f32 / total as f32 };
    let mut record = Record::empty(format);
    let transform = write_position(&mut record, history, decision.fill).ok()?;
    let side = history.last().side_to_move();
    let index = |m: &RootMove| index_of(m.packed, side, transform);
    for m in &root.moves {
        record.probabilities[usize::from(index(m))] = share(m).into();
    }
    record.policy_kld = divergence(history, decision, share).into();
    if best.proven.is_some_and(|result| root.moves.iter().all(|m| m.best_possible <= result)) {
        record.invariance_info |= flags::BEST_IS_PROVEN;
    }
    let mut write = |sample: Sample, q: fn(&mut Record) -> [&mut F32; 3]| {
        let (wl, d) = within_bounds(sample.wl, sample.d);
        for (field, value) in q(&mut record).into_iter().zip([wl, d, sample.m]) {
            *field = value.into();
        }
    };
    write(root.sample, |record| [&mut record.root_q, &mut record.root_d, &mut record.root_m]);
    write(root.value_of(best), |record| [&mut record.best_q, &mut record.best_d, &mut record.best_m]);
    write(root.value_of(played), |record| [&mut record.played_q, &mut record.played_d, &mut record.played_m]);
    let value = decision.evaluation.as_ref().map(|evaluation| evaluation.value);
    let [orig_q, orig_d, orig_m] = value.map_or([f32::NAN; 3], |value| [value.q, value.d, value.m]);
    record.orig_q = orig_q.into();
    record.orig_d = orig_d.into();
    record.orig_m = orig_m.into();
    record.visits = root.visits.into();
    record.best_idx = index(best).into();
    record.played_idx = index(played).into();
    Some(record)
}

/// The Kullback-Leibler divergence of the visits from the network's policy without its softmax temperature. 0 without an
/// evaluation, and otherwise a little more, as in lc0.
fn divergence(history: &PositionHistory, decision: &Decision, share: impl Fn(&RootMove) -> f32) -> f32 {
    let Some(evaluation) = &decision.evaluation else { return 0.0 };
    let mut moves = Vec::new();
    history.last().packed_moves(&mut moves);
    let (mut sum, mut total) = (0.0, 0.0);
    for m in &decision.root.moves {
        let place = moves.iter().position(|&legal| legal == m.packed);
        let prior = place.and_then(|place| evaluation.priors.get(place)).copied().unwrap_or(0.0);
        let prior = prior.max(LEAST_PRIOR).powf(decision.policy_temperature);
        let share = share(m);
        if share > 0.0 {
            sum += share * (share / prior).ln();
        }
        total += prior;
    }
    (sum + f32::ln(total)).max(0.0) + f32::MIN_POSITIVE
}

/// q and d after rounding errors are removed: the probabilities of a win, a draw and a loss are not negative.
fn within_bounds(q: f32, d: f32) -> (f32, f32) {
    let (q, mut d) = (q.clamp(-1.0, 1.0), d.clamp(0.0, 1.0));
    let win = (1.0 - d + q) / 2.0;
    let loss = win - q;
    let least = win.min(loss);
    if least < 0.0 {
        d = (d + 2.0 * least).max(0.0);
    }
    (q, d)
}

fn add_outcome(record: &mut Record, outcome: Outcome, plies_left: f32) {
    let for_white = match outcome.score {
        GameScore::WhiteWon => 1.0,
        GameScore::Draw => 0.0,
        GameScore::BlackWon => -1.0,
    };
    let result = if is_black_to_move(record) { 0.0 - for_white } else { for_white };
    record.result_q = f32::into(result);
    record.result_d = f32::into(if result == 0.0 { 1.0 } else { 0.0 });
    record.plies_left = plies_left.into();
    if outcome.is_adjudicated {
        record.invariance_info |= flags::ADJUDICATED;
    }
    if outcome.is_too_long {
        record.invariance_info |= flags::TOO_LONG;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rukh_backend::Value;
    use rukh_chess::{Position, uci_move};

    fn root_move(position: &Position, text: &str, visits: u32, sample: Option<Sample>) -> RootMove {
        let packed = PackedMove::new(uci_move::parse(position, text).unwrap());
        RootMove { packed, visits, sample, proven: None, best_possible: 1 }
    }

    fn sample(wl: f32, d: f32, m: f32) -> Sample {
        Sample { wl, d, m }
    }

    /// Black to move has three legal moves: g8, h7 and h6.
    const FEN: &str = "7k/8/5P2/8/8/8/8/K7 b - - 3 70";

    fn decision(position: &Position) -> Decision {
        let moves = vec![
            root_move(position, "h8h7", 6, Some(sample(-0.5, 0.25, 12.0))),
            root_move(position, "h8g8", 2, Some(sample(-0.75, 0.0, 9.0))),
        ];
        Decision {
            played: moves[1].packed,
            root: RootReport { visits: 9, sample: sample(-0.5, 0.25, 11.0), moves },
            evaluation: Some(Evaluation {
                value: Value { q: -0.25, d: 0.5, m: 20.0, e: 0.0 },
                priors: [0.8, 0.2].into(),
            }),
            policy_temperature: 2.0,
            fill: HistoryFill::No,
        }
    }

    fn lost() -> Outcome {
        Outcome { score: GameScore::WhiteWon, is_adjudicated: true, is_too_long: false }
    }

    #[test]
    fn a_record_has_the_figures_of_the_search() {
        let history = PositionHistory::new(Position::from_fen(FEN).unwrap());
        let decision = decision(history.last());
        let found =
            records(history.clone(), &[], std::slice::from_ref(&decision), InputFormat::Classical112, lost());
        let [record] = &found[..] else { panic!("{} records", found.len()) };
        record.check().unwrap();
        let legal = record.probabilities.iter().filter(|share| share.get() >= 0.0).count();
        assert_eq!(legal, 2);
        let side = history.last().side_to_move();
        let index = |place: usize| index_of(decision.root.moves[place].packed, side, 0);
        assert_eq!((record.best_idx.get(), record.played_idx.get()), (index(0), index(1)));
        assert_eq!(record.probabilities[usize::from(index(0))].get(), 0.75);
        assert_eq!(record.probabilities[usize::from(index(1))].get(), 0.25);
        let q = [record.root_q, record.best_q, record.played_q, record.orig_q, record.result_q].map(F32::get);
        assert_eq!(q, [-0.5, -0.5, -0.75, -0.25, -1.0]);
        let d = [record.root_d, record.best_d, record.played_d, record.orig_d, record.result_d].map(F32::get);
        assert_eq!(d, [0.25, 0.25, 0.0, 0.5, 0.0]);
        let m =
            [record.root_m, record.best_m, record.played_m, record.orig_m, record.plies_left].map(F32::get);
        assert_eq!(m, [11.0, 12.0, 9.0, 20.0, 12.0]);
        assert_eq!((record.visits.get(), record.rule50_count), (9, 3));
        assert_eq!(record.invariance_info, flags::ADJUDICATED);
        assert_eq!(record.side_to_move_or_enpassant, 1);
    }

    /// The divergence by its definition: the policy at temperature 1 is proportional to the squares of the priors.
    #[test]
    fn the_divergence_is_from_the_policy_without_its_temperature() {
        let history = PositionHistory::new(Position::from_fen(FEN).unwrap());
        let decision = decision(history.last());
        let found =
            records(history.clone(), &[], std::slice::from_ref(&decision), InputFormat::Canonical, lost());
        let mut legal = Vec::new();
        history.last().packed_moves(&mut legal);
        let prior = |m: PackedMove| if legal[0] == m { 0.8_f64.powi(2) } else { 0.2_f64.powi(2) };
        let total: f64 = decision.root.moves.iter().map(|m| prior(m.packed)).sum();
        let expected: f64 = (decision.root.moves.iter().zip([0.75_f64, 0.25]))
            .map(|(m, share)| share * (share / (prior(m.packed) / total)).ln())
            .sum();
        assert!((f64::from(found[0].policy_kld.get()) - expected).abs() < 1e-5, "{}", found[0].policy_kld);
        let unknown = Decision { evaluation: None, ..decision };
        let found = records(history, &[], &[unknown], InputFormat::Canonical, lost());
        assert_eq!(found[0].policy_kld.get(), 0.0);
        assert!(
            found[0].orig_q.get().is_nan()
                && found[0].orig_d.get().is_nan()
                && found[0].orig_m.get().is_nan()
        );
    }

    #[test]
    fn the_best_move_is_proven_if_no_other_can_be_better() {
        let history = PositionHistory::new(Position::from_fen(FEN).unwrap());
        let proven = |results: [(Option<i8>, i8); 2]| {
            let mut decision = decision(history.last());
            for (m, (proven, best_possible)) in decision.root.moves.iter_mut().zip(results) {
                (m.proven, m.best_possible) = (proven, best_possible);
            }
            let found = records(history.clone(), &[], &[decision], InputFormat::Classical112, lost());
            found[0].invariance_info & flags::BEST_IS_PROVEN != 0
        };
        assert!(proven([(Some(1), 1), (None, 1)]));
        assert!(proven([(Some(0), 0), (None, 0)]));
        assert!(!proven([(Some(0), 0), (None, 1)]));
        assert!(!proven([(None, 1), (None, 1)]));
    }

    #[test]
    fn plies_left_go_down_to_the_last_searchs_estimate() {
        let mut history = PositionHistory::new(Position::from_fen(FEN).unwrap());
        let opening = history.clone();
        let (mut moves, mut decisions) = (Vec::new(), Vec::new());
        for text in ["h8h7", "a1b1", "h7h8"] {
            let mut decision = decision(opening.last());
            decision.root.moves = vec![root_move(history.last(), text, 0, None)];
            decision.root.sample.m = 30.0 + moves.len() as f32;
            let m = uci_move::parse(history.last(), text).unwrap();
            history.push(m);
            moves.push(m);
            decisions.push(decision);
        }
        let draw = Outcome { score: GameScore::Draw, is_adjudicated: true, is_too_long: true };
        let found = records(opening, &moves, &decisions, InputFormat::CanonicalV2, draw);
        let plies: Vec<f32> = found.iter().map(|record| record.plies_left.get()).collect();
        assert_eq!(plies, [34.0, 33.0, 32.0]);
        for (record, black) in found.iter().zip([true, false, true]) {
            assert_eq!(is_black_to_move(record), black);
            assert_eq!((record.result_q.get(), record.result_d.get()), (0.0, 1.0));
            let expected = flags::ADJUDICATED | flags::TOO_LONG;
            assert_eq!(record.invariance_info & expected, expected);
        }
    }

    #[test]
    fn a_search_without_visits_gives_no_records_unless_the_move_was_forced() {
        let history = PositionHistory::new(Position::from_fen(FEN).unwrap());
        let mut decision = decision(history.last());
        decision.root.moves.iter_mut().for_each(|m| (m.visits, m.sample) = (0, None));
        let found = |decision: &Decision| {
            records(history.clone(), &[], std::slice::from_ref(decision), InputFormat::Classical112, lost())
        };
        assert!(found(&decision).is_empty());
        decision.root.moves.truncate(1);
        assert_eq!(found(&decision)[0].best_q.get(), -0.5, "the root's value stands for the move's");
    }

    proptest! {
        #[test]
        fn corrected_values_are_probabilities(q in -1.1f32..1.1, d in -0.1f32..1.1) {
            let (q, d) = within_bounds(q, d);
            let win = (1.0 - d + q) / 2.0;
            prop_assert!((-1.0..=1.0).contains(&q) && (0.0..=1.0).contains(&d));
            prop_assert!(win >= -1e-6 && win - q >= -1e-6, "{} {}", q, d);
        }

        #[test]
        fn sound_values_stay(win in 0.0f32..1.0, share in 0.0f32..1.0) {
            let d = (1.0 - win) * share;
            let q = win - (1.0 - win - d);
            let (found_q, found_d) = within_bounds(q, d);
            prop_assert!((found_q - q).abs() < 1e-6 && (found_d - d).abs() < 1e-6);
        }
    }
}
