//! The clock of the side to move, made from the arguments of `go`.
//!
//! Not all of the remaining time can be spent on thinking. `MoveOverheadMs` is reserved for the time that this move
//! takes to reach the GUI. Every later move costs some time too, however short its search is. If increments do not pay
//! for that time, part of the clock is reserved for it, because otherwise a long game without increment would be lost
//! on time. The reserve is at most one second, which makes little difference to a clock of minutes. lc0 has no reserve.
//! Both are larger if the moves so far have cost more time than that ([`Clock::with_lag`]).

use super::lag::Lag;
use std::time::Duration;

/// The shortest budget of a move. It may be too short for a batch, but the search evaluates the root in any case.
pub(super) const MINIMUM_BUDGET: Duration = Duration::from_millis(1);

/// The longest time that a clock can show, a hundred days. It keeps sums far from overflow.
const LONGEST: Duration = Duration::from_secs(100 * 24 * 3600);

/// The time in milliseconds that a move costs without any thinking: the wait for a batch, for a process to wake up, and
/// for a pipe.
const BARE_MOVE_MS: f64 = 20.0;

/// The reserve for this move, in worst lags of the moves before it. The worst of many lags to come is longer than the
/// worst of those so far.
const WORST_LAGS: u32 = 2;

/// A usual lag up to this time, in milliseconds, is nothing to plan for, unless the increment is small.
const COMMON_LAG_MS: f64 = 5.0;

/// The same as a share of the increment. If a lag takes most of a small increment, and the rest is spent on thinking, a
/// long game is lost on time.
const COMMON_SHARE_OF_INCREMENT: f64 = 0.25;

/// The number of later moves for which time is reserved. It is less if the next time control comes sooner.
const LATER_MOVES: u32 = 50;

/// The clock of the side to move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    remaining: Duration,
    increment: Duration,
    moves_to_go: Option<u32>,
    /// The option `MoveOverheadMs`.
    overhead: Duration,
    /// What the measured lag asks to keep for this move.
    worst_lags: Duration,
    /// The time in milliseconds that a move costs without any thinking.
    bare_move_ms: f64,
    /// The part of each increment to come that the lag takes, in milliseconds.
    lag_of_increment_ms: f64,
}

impl Clock {
    /// Makes a clock from the arguments of `go` for the side to move: the time left and the increment per move in
    /// milliseconds, and the number of moves to the next time control. `overhead` is the option `MoveOverheadMs`.
    /// `None` means that this side has no clock.
    ///
    /// GUIs send odd values. A time of zero is a clock, because the game still goes on. An increment without a time
    /// means that at least the increment is left. A `movestogo` of zero is ignored.
    pub fn new(
        time: Option<u64>,
        increment: Option<u64>,
        moves_to_go: Option<u32>,
        overhead: u64,
    ) -> Option<Clock> {
        let increment = increment.unwrap_or(0);
        let time = time.or((increment > 0).then_some(increment))?;
        Some(Clock {
            remaining: Duration::from_millis(time).min(LONGEST),
            increment: Duration::from_millis(increment).min(LONGEST),
            moves_to_go: moves_to_go.filter(|&moves| moves > 0),
            overhead: Duration::from_millis(overhead),
            worst_lags: Duration::ZERO,
            bare_move_ms: BARE_MOVE_MS,
            lag_of_increment_ms: 0.0,
        })
    }

    /// The same clock on a machine whose moves have this lag. More time is kept, for this move and for later ones, if
    /// the lag is longer than what is kept anyway.
    pub fn with_lag(self, lag: Lag) -> Clock {
        let common_lag_ms = COMMON_LAG_MS.min(COMMON_SHARE_OF_INCREMENT * self.increment_ms());
        Clock {
            worst_lags: lag.worst * WORST_LAGS,
            bare_move_ms: self.bare_move_ms.max(milliseconds(lag.usual)),
            lag_of_increment_ms: (milliseconds(lag.usual) - common_lag_ms).clamp(0.0, self.increment_ms()),
            ..self
        }
    }

    /// The last moment for an answer, counted from the start of the clock: all of the remaining time, less what the move
    /// takes to reach the GUI. `MoveOverheadMs` is a guess at that, and takes at most half of the remaining time. The
    /// measured lag takes nearly all of it: a lag beyond the increment drains the clock, and a few moves without an
    /// evaluation let it recover.
    pub fn last_moment(&self) -> Duration {
        let way_to_the_gui = self.worst_lags.max(self.overhead.min(self.remaining / 2));
        self.remaining.saturating_sub(way_to_the_gui).max(self.remaining / 8)
    }

    /// The time left in milliseconds, without any deduction.
    pub fn remaining_ms(&self) -> f64 {
        milliseconds(self.remaining)
    }

    /// The time left, without any deduction.
    pub fn remaining(&self) -> Duration {
        self.remaining
    }

    /// The increment per move.
    pub fn increment(&self) -> Duration {
        self.increment
    }

    /// The increment per move, in milliseconds.
    pub fn increment_ms(&self) -> f64 {
        milliseconds(self.increment)
    }

    /// The time in milliseconds that may be spent on thinking: the time left, less the overhead and the reserve for
    /// later moves. It may be 0.
    pub fn spendable_ms(&self) -> f64 {
        let free = milliseconds(self.remaining.saturating_sub(self.overhead.max(self.worst_lags)));
        let later_moves = self.moves_to_go.map_or(LATER_MOVES, |moves| moves - 1).min(LATER_MOVES);
        let reserve = f64::from(later_moves) * (self.bare_move_ms - self.increment_ms()).max(0.0);
        // If at least twice the reserve is left, the whole reserve is deducted. Below that, a parabola takes over that
        // meets the line with the same slope, so that some time always remains.
        if free >= 2.0 * reserve { free - reserve } else { free * free / (4.0 * reserve) }
    }

    /// The time in milliseconds for the next `moves` moves together: the time that may be spent now, and the increments
    /// to come, as far as they are not needed for a long lag.
    pub fn total_ms(&self, moves: f64) -> f64 {
        let increment = self.increment_ms() - self.lag_of_increment_ms;
        (self.spendable_ms() + increment * (moves - 1.0)).max(0.0)
    }

    /// The number of moves to plan for: `estimate`, but not beyond the next time control.
    pub fn moves_until_control(&self, estimate: f64) -> f64 {
        self.moves_to_go.map_or(estimate, |moves| estimate.min(f64::from(moves)))
    }

    /// Limits the budget `wanted_ms` of a formula to the time that may be spent. The result is at least
    /// [`MINIMUM_BUDGET`].
    pub fn grant(&self, wanted_ms: f64) -> Duration {
        let allowed = wanted_ms.min(self.spendable_ms());
        // `f64::min` and `f64::max` replace a NaN, and the result is within the range of a clock.
        Duration::from_secs_f64(allowed.max(0.0) / 1000.0).max(MINIMUM_BUDGET)
    }
}

/// A duration in milliseconds, as a float for the formulas.
pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_without_a_clock_has_none() {
        assert_eq!(Clock::new(None, None, Some(40), 200), None);
        assert_eq!(Clock::new(None, Some(0), None, 200), None);
    }

    #[test]
    fn odd_values_are_corrected() {
        let clock = Clock::new(Some(0), None, Some(0), 200).expect("a time is given");
        assert_eq!((clock.remaining_ms(), clock.increment_ms(), clock.moves_to_go), (0.0, 0.0, None));
        assert_eq!(clock.grant(50.0), MINIMUM_BUDGET);
        let only_increment = Clock::new(None, Some(1000), None, 200).expect("an increment is given");
        assert_eq!(only_increment.spendable_ms(), 800.0);
        let huge = Clock::new(Some(u64::MAX), Some(u64::MAX), Some(u32::MAX), u64::MAX);
        let huge = huge.expect("a time is given");
        assert_eq!(huge.grant(f64::INFINITY), MINIMUM_BUDGET, "all of it is overhead");
    }

    #[test]
    fn grants_no_more_than_there_is() {
        let clock = Clock::new(Some(1000), Some(100), None, 200).expect("a time is given");
        assert_eq!(clock.grant(300.0), Duration::from_millis(300));
        for too_much in [801.0, 1e300, f64::INFINITY, f64::NAN] {
            assert_eq!(clock.grant(too_much), Duration::from_millis(800), "{too_much}");
        }
        for too_little in [0.0, -1.0, f64::NEG_INFINITY] {
            assert_eq!(clock.grant(too_little), MINIMUM_BUDGET, "{too_little}");
        }
        assert_eq!(clock.total_ms(11.0), 1800.0);
    }

    #[test]
    fn later_moves_keep_a_reserve_unless_increments_pay_for_them() {
        let spendable = |time, increment, moves_to_go| {
            Clock::new(Some(time), Some(increment), moves_to_go, 200).expect("a time is given").spendable_ms()
        };
        assert_eq!(spendable(1200, 20, None), 1000.0);
        assert_eq!(spendable(1200, 0, Some(1)), 1000.0, "the control comes after this move");
        assert_eq!(spendable(10_200, 0, None), 9000.0, "50 moves of 20 ms are kept");
        assert_eq!(spendable(10_200, 0, Some(500)), 9000.0);
        assert_eq!(spendable(10_200, 15, Some(11)), 9950.0, "10 of 5 ms");
        assert_eq!(spendable(2200, 0, None), 1000.0, "where line and parabola meet");
        assert_eq!(spendable(1200, 0, None), 250.0);
        assert!(spendable(210, 0, None) > 0.0);
        assert_eq!(spendable(200, 0, None), 0.0);
        assert_eq!(spendable(0, 0, Some(1)), 0.0);
    }

    #[test]
    fn a_lag_that_is_longer_than_the_reserves_takes_their_place() {
        let ms = Duration::from_millis;
        let clock = |lag| Clock::new(Some(5000), Some(20), None, 100).expect("a time is given").with_lag(lag);
        assert_eq!(
            clock(Lag { worst: ms(50), usual: ms(20) }).spendable_ms(),
            4900.0,
            "no more than is kept anyway"
        );
        assert_eq!(clock(Lag { worst: ms(60), usual: ms(20) }).spendable_ms(), 4880.0);
        assert_eq!(
            clock(Lag { worst: ms(60), usual: ms(30) }).spendable_ms(),
            4380.0,
            "50 moves of 10 ms more"
        );
        assert_eq!(clock(Lag { worst: ms(9000), usual: ms(9000) }).spendable_ms(), 0.0);
        assert_eq!(clock(Lag { worst: ms(0), usual: ms(5) }).total_ms(11.0), 4900.0 + 200.0);
        assert_eq!(clock(Lag { worst: ms(0), usual: ms(25) }).total_ms(11.0), 4650.0 + 0.0);
        assert_eq!(
            clock(Lag { worst: ms(0), usual: ms(99) }).total_ms(1.0),
            clock(Lag { worst: ms(0), usual: ms(99) }).spendable_ms()
        );
        assert_eq!(clock(Lag::default()).last_moment(), ms(4900));
        assert_eq!(clock(Lag { worst: ms(100), usual: ms(0) }).last_moment(), ms(4800));
        assert_eq!(clock(Lag { worst: ms(9000), usual: ms(0) }).last_moment(), ms(625));
        let short = Clock::new(Some(40), Some(10), None, 200).expect("a time is given");
        assert_eq!(short.last_moment(), ms(20));
        assert_eq!(short.with_lag(Lag { worst: ms(19), usual: ms(0) }).last_moment(), ms(5));
    }

    #[test]
    fn the_next_control_cuts_the_estimate() {
        let clock = |moves_to_go| Clock::new(Some(1000), None, moves_to_go, 0).expect("a time is given");
        assert_eq!(clock(Some(10)).moves_until_control(51.5), 10.0);
        assert_eq!(clock(Some(80)).moves_until_control(51.5), 51.5);
        assert_eq!(clock(None).moves_until_control(51.5), 51.5);
    }
}
