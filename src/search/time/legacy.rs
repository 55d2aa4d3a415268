//! The default manager: gives each move that is probably still to come the same share of the clock.
//!
//! The number of these moves is estimated from the moves played, by a curve that starts at `midpoint-move` and never
//! reaches zero. Time that smart pruning saves on a move goes into a time bank, and the next move gets the share
//! `immediate-use` of the bank. The first move of a game gets more time, because its tree is empty.

use super::arguments::{Arguments, TimeManagerError};
use super::clock::{Clock, milliseconds};
use super::manager::TimeManager;
use crate::stop::TimeLimitStopper;
use crate::stop::{IterationStats, Stopper, StopperHints};
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

/// `slowmover` lengthens a budget only if the result is longer than this, because smart pruning needs that time to
/// settle.
const SHORTEST_SLOWED_MS: f64 = 200.0;
/// The number of book plies beyond which the bonus grows no further.
const MOST_BOOK_PLIES: u32 = 12;

/// lc0's parameters of this manager, with their names and defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    /// `slowmover` (1): the factor of every budget. It lengthens a budget only if the result is more than 200 ms.
    pub slow_mover: f64,
    /// `midpoint-move` (51.5) and `steepness` (7).
    pub moves_left: MovesLeftCurve,
    /// `immediate-use` (1): the share of the time bank that the next move gets.
    pub immediate_use: f64,
    /// `first-move-bonus` (1.8): added to the factor 1 for the first move of the game.
    pub first_move_bonus: f64,
    /// `book-ply-bonus` (0.25): added to the factor of the first move for each ply before it, up to 12 plies.
    pub book_ply_bonus: f64,
}

impl Parameters {
    /// Takes the parameters from the text of the option.
    pub(super) fn read(arguments: &mut Arguments) -> Result<Parameters, TimeManagerError> {
        Ok(Parameters {
            slow_mover: arguments.take("slowmover", 1.0, 0.0..=100.0)?,
            moves_left: MovesLeftCurve {
                midpoint: arguments.take("midpoint-move", 51.5, 1.0..=1000.0)?,
                steepness: arguments.take("steepness", 7.0, 0.1..=100.0)?,
            },
            immediate_use: arguments.take("immediate-use", 1.0, 0.0..=1.0)?,
            first_move_bonus: arguments.take("first-move-bonus", 1.8, 0.0..=1000.0)?,
            book_ply_bonus: arguments.take("book-ply-bonus", 0.25, 0.0..=1000.0)?,
        })
    }
}

/// An estimate of the number of moves that a game still lasts, by the number of moves played.
#[derive(Clone, Copy, Debug)]
pub(super) struct MovesLeftCurve {
    /// The expected length of a game in moves at its start. The curve bends at this move.
    pub midpoint: f64,
    /// The sharpness of the bend.
    pub steepness: f64,
}

impl MovesLeftCurve {
    /// `midpoint · (1 + 2 (move / midpoint)^steepness)^(1/steepness) − move`, and at least 1.
    pub(super) fn estimate(&self, game_ply: u32) -> f64 {
        let played = f64::from(game_ply) / 2.0;
        let bend = (played / self.midpoint).powf(self.steepness);
        if bend > 1e12 {
            // Far beyond the bend the 1 is lost in rounding, and the power might overflow. The curve's asymptote is
            // used instead.
            return (played * (2_f64.powf(1.0 / self.steepness) - 1.0)).max(1.0);
        }
        (self.midpoint * (1.0 + 2.0 * bend).powf(1.0 / self.steepness) - played).max(1.0)
    }
}

/// The manager `legacy`.
pub(super) struct Legacy {
    parameters: Parameters,
    is_first_move: bool,
    /// The time bank in milliseconds, negative if it is overdrawn. The stopper adds to it when its search is done.
    /// Nothing else is shared, so the orderings are Relaxed.
    time_bank_ms: Arc<AtomicI64>,
}

impl Legacy {
    /// The manager at the start of a game.
    pub(super) fn new(parameters: Parameters) -> Legacy {
        Legacy { parameters, is_first_move: true, time_bank_ms: Arc::default() }
    }
}

impl TimeManager for Legacy {
    fn stopper(&mut self, clock: &Clock, game_ply: u32, _reused_nodes: u64) -> Box<dyn Stopper> {
        let Parameters { slow_mover, moves_left, immediate_use, first_move_bonus, book_ply_bonus } =
            self.parameters;
        let moves = clock.moves_until_control(moves_left.estimate(game_ply));
        let time_bank = self.time_bank_ms.load(Ordering::Relaxed) as f64;
        let saved = time_bank.max(0.0);
        let from_bank = saved * immediate_use;

        // The time in the bank is on the clock too, and must not be given out twice.
        let mut budget = (clock.total_ms(moves) - saved).max(0.0) / moves;
        if std::mem::take(&mut self.is_first_move) {
            let book_plies = f64::from(game_ply.min(MOST_BOOK_PLIES));
            budget *= 1.0 + first_move_bonus + book_ply_bonus * book_plies;
        }
        let mut overdrawn = 0.0;
        if slow_mover < 1.0 || budget * slow_mover > SHORTEST_SLOWED_MS {
            overdrawn = budget * (slow_mover - 1.0);
            budget *= slow_mover;
        }
        self.time_bank_ms.store((time_bank - from_bank - overdrawn) as i64, Ordering::Relaxed);
        Box::new(LegacyStopper {
            limit: TimeLimitStopper::new(clock.grant(budget + from_bank)),
            time_bank_ms: Arc::clone(&self.time_bank_ms),
        })
    }
}

/// A time limit that puts its unused time into the bank.
struct LegacyStopper {
    limit: TimeLimitStopper,
    time_bank_ms: Arc<AtomicI64>,
}

impl Stopper for LegacyStopper {
    fn should_stop(&mut self, stats: &IterationStats, hints: &mut StopperHints) -> bool {
        self.limit.should_stop(stats, hints)
    }

    fn on_search_done(&mut self, stats: &IterationStats) {
        let unused = milliseconds(self.limit.limit()) - milliseconds(stats.time_since_move_start);
        self.time_bank_ms.fetch_add(unused as i64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn manager(description: &str) -> Legacy {
        let (_, mut arguments) = Arguments::parse(description).expect("well formed");
        Legacy::new(Parameters::read(&mut arguments).expect("in range"))
    }

    fn clock(time: u64) -> Clock {
        Clock::new(Some(time), None, None, 200).expect("a time is given")
    }

    /// Plays a move that takes `used` ms, and returns its budget in ms.
    fn play(manager: &mut Legacy, clock: &Clock, ply: u32, used: u64) -> f64 {
        let mut stopper = manager.stopper(clock, ply, 0);
        let mut hints = StopperHints::default();
        stopper.should_stop(&IterationStats::default(), &mut hints);
        stopper.on_search_done(&IterationStats {
            time_since_move_start: Duration::from_millis(used),
            ..Default::default()
        });
        milliseconds(hints.remaining_time.expect("the stopper gives the remaining time as a hint"))
    }

    #[test]
    fn the_curve_starts_at_its_midpoint_and_stays_above_zero() {
        let curve = MovesLeftCurve { midpoint: 51.5, steepness: 7.0 };
        assert_eq!(curve.estimate(0), 51.5);
        // By hand at move 51.5: 51.5 (3^(1/7) - 1).
        assert!((curve.estimate(103) - 51.5 * (3_f64.powf(1.0 / 7.0) - 1.0)).abs() < 1e-9);
        assert!((1..4000).all(|ply| curve.estimate(ply) >= 1.0));
        assert!(curve.estimate(u32::MAX).is_finite());
        let before = curve.estimate(2600);
        assert!((before - curve.estimate(2700)).abs() < 10.0, "the asymptote joins the curve");
    }

    #[test]
    fn the_first_move_gets_its_bonus_and_the_second_does_not() {
        let mut legacy = manager("legacy");
        let share = clock(60_000).spendable_ms() / 51.5;
        assert!((play(&mut legacy, &clock(60_000), 0, 3200) - 2.8 * share).abs() < 1.0);
        assert!((play(&mut legacy, &clock(60_000), 0, 1) - share).abs() < 2.0);
        let after_book = play(&mut manager("legacy"), &clock(60_000), 30, 1);
        let plain = play(&mut manager("legacy(first-move-bonus=0,book-ply-bonus=0)"), &clock(60_000), 30, 1);
        assert!((after_book / plain - 5.8).abs() < 0.01, "2.8 + 12 plies of 0.25");
    }

    #[test]
    fn time_saved_is_used_at_once() {
        let mut legacy = manager("legacy(first-move-bonus=0)");
        let first = play(&mut legacy, &clock(60_000), 0, 161);
        let saved = first.floor() - 161.0;
        let second = play(&mut legacy, &clock(59_839), 2, 100);
        let share = (clock(59_839).spendable_ms() - saved)
            / (MovesLeftCurve { midpoint: 51.5, steepness: 7.0 }).estimate(2);
        assert!((second - (share + saved)).abs() < 2.0, "{second} is {share} and {saved}");
    }

    #[test]
    fn the_plan_ends_at_the_next_time_control() {
        let until = |moves| {
            let clock = Clock::new(Some(10_000), None, Some(moves), 200).expect("a time is given");
            play(&mut manager("legacy(first-move-bonus=0)"), &clock, 0, 1)
        };
        assert_eq!(until(1), 9800.0);
        // 20 ms are reserved for each of the nine later moves.
        assert_eq!(until(10), 962.0);
        assert_eq!(until(400), until(52));
    }

    #[test]
    fn increments_to_come_are_part_of_the_plan() {
        let with = Clock::new(Some(10_000), Some(1000), None, 200).expect("a time is given");
        let budget = play(&mut manager("legacy(first-move-bonus=0)"), &with, 0, 1);
        assert!((budget - (9800.0 + 1000.0 * 50.5) / 51.5).abs() < 1e-3);
    }

    #[test]
    fn slow_mover_slows_and_hurries() {
        let with = |description| play(&mut manager(description), &clock(60_000), 40, 1);
        let plain = with("legacy(first-move-bonus=0,book-ply-bonus=0)");
        let slow = with("legacy(first-move-bonus=0,book-ply-bonus=0,slowmover=2)");
        let fast = with("legacy(first-move-bonus=0,book-ply-bonus=0,slowmover=0.5)");
        assert!((slow / plain - 2.0).abs() < 1e-6 && (fast / plain - 0.5).abs() < 1e-6);
    }
}
