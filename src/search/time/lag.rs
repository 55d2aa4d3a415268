//! Learns from the clock how late this engine's moves come.
//!
//! A move costs more time than its search was meant to take: threads wait for a core, the first evaluation may come after
//! the planned end, and the move passes through pipes to a program that also waits for a core. On an idle machine that is
//! a millisecond or two; on a machine that is busy with a compiler it can be a hundred. The chess program tells the
//! remaining time with each `go`, so the engine can see what its last move really cost. The difference to what was
//! intended is that move's *lag*, and [`Clock::with_lag`](super::Clock::with_lag) keeps time for it.
//!
//! lc0 knows only `MoveOverheadMs`. As long as that is the longer time, nothing learned here changes a budget.

use rukh_chess::Color;
use std::time::Duration;

/// A longer lag is not believed: the user has probably set the clock back.
const LONGEST: Duration = Duration::from_secs(2);
/// The share of the worst lag that is left one move later, if no worse one comes.
const FADING: f64 = 0.97;
/// The weight of the latest lag in the mean.
const WEIGHT: f64 = 0.125;

/// The lag of recent moves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lag {
    /// The worst lag. It fades with every move.
    pub worst: Duration,
    /// The mean lag of about the last eight moves.
    pub usual: Duration,
}

/// What `go` says about the clock of the side to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The side to move.
    pub side: Color,
    /// The plies played before the move.
    pub game_ply: u32,
    /// The time left.
    pub remaining: Duration,
    /// The time that is added after the move.
    pub increment: Duration,
}

/// Measures the lag of each move. It lives as long as the engine, because the lag belongs to the machine and not to the
/// game.
#[derive(Debug, Default)]
pub struct LagMeter {
    /// The clock before the last move.
    before: Option<ClockReading>,
    /// How long the search of the last move was meant to take.
    intended: Option<Duration>,
    lag: Lag,
}

impl LagMeter {
    /// A search begins with this clock; `None` if it has none. If the last search was that of the side's last move, its
    /// lag is measured.
    pub fn search_begins(&mut self, clock: Option<ClockReading>) {
        let (before, intended) = (self.before.take(), self.intended.take());
        self.before = clock;
        let (Some(before), Some(intended), Some(now)) = (before, intended, clock) else { return };
        if now.side != before.side || now.game_ply != before.game_ply.saturating_add(2) {
            return;
        }
        // The difference is negative if a new time control began, or if the clock does not run. Then nothing is known.
        let charged = (before.remaining + before.increment).checked_sub(now.remaining);
        if let Some(lag) =
            charged.and_then(|charged| charged.checked_sub(intended)).filter(|&lag| lag <= LONGEST)
        {
            self.lag.worst = lag.max(self.lag.worst.mul_f64(FADING));
            self.lag.usual = self.lag.usual.mul_f64(1.0 - WEIGHT) + lag.mul_f64(WEIGHT);
        }
    }

    /// The search has ended. It was meant to stop after `intended`, or stopped earlier after that time. `None` if it had
    /// no clock.
    pub fn search_ended(&mut self, intended: Option<Duration>) {
        self.intended = intended;
    }

    /// The next search is not that of the next move: another game has begun.
    pub fn forget_move(&mut self) {
        self.before = None;
        self.intended = None;
    }

    /// The lag of recent moves.
    pub fn lag(&self) -> Lag {
        self.lag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    fn clock(game_ply: u32, remaining: u64) -> Option<ClockReading> {
        let side = if game_ply.is_multiple_of(2) { Color::White } else { Color::Black };
        Some(ClockReading { side, game_ply, remaining: ms(remaining), increment: ms(10) })
    }

    /// The lag after a move at ply 10 that was meant to take 30 ms, with these clocks before and after it.
    fn measured(before: Option<ClockReading>, after: Option<ClockReading>) -> Lag {
        let mut meter = LagMeter::default();
        meter.search_begins(before);
        meter.search_ended(Some(ms(30)));
        meter.search_begins(after);
        meter.lag()
    }

    #[test]
    fn the_lag_is_what_the_clock_lost_beyond_the_plan() {
        let lag = measured(clock(10, 1000), clock(12, 940));
        assert_eq!((lag.worst, lag.usual), (ms(40), ms(5)), "1000 + 10 - 940 - 30");
    }

    #[test]
    fn clocks_that_do_not_belong_together_say_nothing() {
        for after in [
            None,
            clock(10, 940),
            clock(11, 940),
            clock(14, 940),
            // A clock that did not run, a new time control, and a clock that was set back by the user.
            clock(12, 1000),
            clock(12, 5000),
        ] {
            assert_eq!(measured(clock(10, 1000), after), Lag::default(), "{after:?}");
        }
        assert_eq!(measured(clock(10, 60_000), clock(12, 1000)), Lag::default());
        assert_eq!(measured(None, clock(12, 940)), Lag::default());
    }

    #[test]
    fn the_worst_lag_fades() {
        let mut meter = LagMeter::default();
        let mut remaining = 100_000;
        for (ply, spent) in [(0, 130), (2, 31), (4, 31), (6, 31)] {
            meter.search_begins(clock(ply, remaining));
            meter.search_ended(Some(ms(30)));
            remaining = remaining + 10 - spent;
        }
        meter.search_begins(clock(8, remaining));
        let worst = meter.lag().worst;
        assert!(ms(90) < worst && worst < ms(92), "{worst:?} is 100 ms after three moves");
        assert!(meter.lag().usual < ms(12), "{:?}", meter.lag());
    }
}
