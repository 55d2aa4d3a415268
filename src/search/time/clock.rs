//! The clock of the side to move, as one `go` told it.
//!
//! Not all that is on it can be spent on thinking. `MoveOverheadMs` is kept for this move's way to the GUI. And
//! every later move costs something too, however short its search: where increments do not pay for that, some is
//! kept for them, or a long game without increment ends with a fallen flag. lc0 leaves the second part out; for
//! clocks above a few seconds it makes no difference.

use std::time::Duration;

/// The least time a move is given. A search makes its first batch in any case; this is for the watchdog.
pub(super) const MINIMUM_BUDGET: Duration = Duration::from_millis(1);

/// No clock says more than this (a hundred days): it keeps sums far from any overflow.
const LONGEST: Duration = Duration::from_secs(100 * 24 * 3600);

/// What a move costs without any thought: a batch to be waited for, a process to wake up, a pipe.
const BARE_MOVE_MS: f64 = 20.0;

/// A game without a time control in sight may still last so many moves.
const LATER_MOVES: u32 = 50;

/// What the side to move has on its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    remaining: Duration,
    increment: Duration,
    moves_to_go: Option<u32>,
    overhead: Duration,
}

impl Clock {
    /// Reads what a GUI sent for the side to move, in milliseconds: time left, increment per move, moves to the
    /// next time control; and the option `MoveOverheadMs`. `None`: there is no clock for this side.
    ///
    /// GUIs send odd things. A time of zero is a clock (the flag has not fallen yet, so play); an increment
    /// without a time means that at least the increment is there; a `movestogo` of zero is none.
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
        })
    }

    /// Milliseconds left, without any deduction.
    pub fn remaining_ms(&self) -> f64 {
        milliseconds(self.remaining)
    }

    /// Milliseconds that each move brings.
    pub fn increment_ms(&self) -> f64 {
        milliseconds(self.increment)
    }

    /// Milliseconds that may be thought away: what is left, less the overhead and the reserve for later moves.
    /// May be 0.
    pub fn spendable_ms(&self) -> f64 {
        let free = milliseconds(self.remaining.saturating_sub(self.overhead));
        let later_moves = self.moves_to_go.map_or(LATER_MOVES, |moves| moves - 1).min(LATER_MOVES);
        let reserve = f64::from(later_moves) * (BARE_MOVE_MS - self.increment_ms()).max(0.0);
        // As long as twice the reserve is there, all above it is shared out; below, less and less of it (a
        // parabola that meets the line with the same slope), but never nothing.
        if free >= 2.0 * reserve { free - reserve } else { free * free / (4.0 * reserve) }
    }

    /// Milliseconds for the next `moves` moves together: what may be spent and the increments to come.
    pub fn total_ms(&self, moves: f64) -> f64 {
        (self.spendable_ms() + self.increment_ms() * (moves - 1.0)).max(0.0)
    }

    /// The estimate of the moves still to come, cut at the next time control.
    pub fn moves_until_control(&self, estimate: f64) -> f64 {
        self.moves_to_go.map_or(estimate, |moves| estimate.min(f64::from(moves)))
    }

    /// Turns what a formula wants into what the clock allows: at most what may be spent, and where that is
    /// nothing, the least there is.
    pub fn grant(&self, wanted_ms: f64) -> Duration {
        let allowed = wanted_ms.min(self.spendable_ms());
        // `max` also takes the place of a NaN, and the range is that of the clock.
        Duration::from_secs_f64(allowed.max(0.0) / 1000.0).max(MINIMUM_BUDGET)
    }
}

/// As a float, for the formulas.
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
    fn odd_values_become_sane_ones() {
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
    fn the_next_control_cuts_the_estimate() {
        let clock = |moves_to_go| Clock::new(Some(1000), None, moves_to_go, 0).expect("a time is given");
        assert_eq!(clock(Some(10)).moves_until_control(51.5), 10.0);
        assert_eq!(clock(Some(80)).moves_until_control(51.5), 51.5);
        assert_eq!(clock(None).moves_until_control(51.5), 51.5);
    }
}
