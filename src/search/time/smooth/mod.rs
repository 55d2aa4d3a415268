//! A time manager that plans in nodes and learns during the game.
//!
//! Three things make a search shorter than its budget: part of the tree is reused, smart pruning stops early, and easy
//! moves need less time. The manager estimates the first two from the moves played so far and plans larger budgets
//! accordingly, so that the time spent matches the plan. For hard moves there is a reserve (lc0's piggy bank). A move
//! is hard if the move with the best value is not the one with the most visits, or if a rival is catching up. The
//! reserve is filled at the start of the game and by a tax on every move.
//!
//! [`plan`] does the arithmetic and remembers the estimates. [`trend`] predicts whether a rival will overtake the best
//! move. This file has the stopper, which connects both to the search.

pub(super) mod plan;
pub(super) mod trend;

pub(super) use plan::Parameters;

use super::clock::{Clock, milliseconds};
use super::manager::TimeManager;
use crate::stop::{IterationStats, Stopper, StopperHints, TimeUsageHint};
use plan::GameMemory;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trend::VisitsTrend;

/// The manager `smooth`.
pub(super) struct Smooth {
    /// The stopper of the running search shares the memory, and records the search's speed and end in it.
    memory: Arc<Mutex<GameMemory>>,
}

impl Smooth {
    /// The manager at the start of a game.
    pub(super) fn new(parameters: Parameters) -> Smooth {
        Smooth { memory: Arc::new(Mutex::new(GameMemory::new(parameters))) }
    }
}

impl TimeManager for Smooth {
    fn stopper(&mut self, clock: &Clock, game_ply: u32, reused_nodes: u64) -> Box<dyn Stopper> {
        let mut memory = lock(&self.memory);
        let plan = memory.plan_move(clock, game_ply, reused_nodes);
        // The clock limits both deadlines, so that even the reserve stays within it.
        let deadline = clock.grant(plan.budget_ms);
        let last_deadline = clock.grant(plan.budget_ms + plan.reserve_ms).max(deadline);
        let parameters = memory.parameters();
        Box::new(SmoothStopper {
            deadline,
            last_deadline,
            reserve_is_free_for: Duration::from_secs_f64(parameters.force_reserve_ms / 1000.0),
            trend: VisitsTrend::new(parameters),
            used_reserve: false,
            memory: Arc::clone(&self.memory),
        })
    }
}

struct SmoothStopper {
    deadline: Duration,
    /// The deadline of a move that may use the reserve.
    last_deadline: Duration,
    /// The time after the first batch during which every move may use the reserve.
    reserve_is_free_for: Duration,
    trend: VisitsTrend,
    used_reserve: bool,
    memory: Arc<Mutex<GameMemory>>,
}

impl Stopper for SmoothStopper {
    fn should_stop(&mut self, stats: &IterationStats, hints: &mut StopperHints) -> bool {
        let speed = lock(&self.memory)
            .measure_speed(milliseconds(stats.time_since_first_batch), stats.nodes_since_move_start);
        let now = stats.time_since_move_start;
        self.trend.update(now, &stats.edge_visits);
        let needs_reserve = stats.time_usage_hint == TimeUsageHint::NeedMoreTime
            || stats.time_since_first_batch <= self.reserve_is_free_for
            || self.trend.is_overtaken_by(self.last_deadline);
        let limit = if needs_reserve { self.last_deadline } else { self.deadline };
        self.used_reserve |= needs_reserve && now >= self.deadline;
        hints.nodes_per_second = Some(speed as f32);
        hints.plan_end(limit, now);
        now >= limit
    }

    fn on_search_done(&mut self, stats: &IterationStats) {
        let elapsed = milliseconds(stats.time_since_move_start);
        let from_reserve = self.used_reserve.then(|| (elapsed - milliseconds(self.deadline)).max(0.0));
        lock(&self.memory).finish_move(elapsed, from_reserve, stats.total_nodes);
    }
}

/// A search thread that panicked while it held the lock has at worst left an old estimate.
fn lock(memory: &Mutex<GameMemory>) -> MutexGuard<'_, GameMemory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::arguments::Arguments;

    fn stopper(description: &str, time: u64) -> Box<dyn Stopper> {
        let (_, mut arguments) = Arguments::parse(description).expect("well formed");
        let mut smooth = Smooth::new(Parameters::read(&mut arguments).expect("in range"));
        let clock = Clock::new(Some(time), None, None, 200).expect("a time is given");
        smooth.stopper(&clock, 20, 0)
    }

    fn at(ms: u64) -> IterationStats {
        IterationStats {
            time_since_move_start: Duration::from_millis(ms),
            time_since_first_batch: Duration::from_millis(ms),
            nodes_since_move_start: ms,
            total_nodes: ms + 1,
            edge_visits: vec![1_000_000 + ms as u32, 0],
            ..Default::default()
        }
    }

    /// The time limit of the stopper at `ms` milliseconds. `change` edits the statistics.
    fn limit_at(stopper: &mut dyn Stopper, ms: u64, change: impl Fn(&mut IterationStats)) -> Duration {
        let (mut stats, mut hints) = (at(ms), StopperHints::default());
        change(&mut stats);
        stopper.should_stop(&stats, &mut hints);
        assert_eq!(hints.nodes_per_second, Some(if ms == 0 { 20_000.0 } else { 1000.0 }));
        hints.remaining_time.expect("a clock limits the time") + Duration::from_millis(ms)
    }

    #[test]
    fn the_reserve_needs_a_reason_once_the_first_second_is_over() {
        let mut stopper = stopper("smooth", 600_000);
        let early = limit_at(&mut *stopper, 500, |_| ());
        let plain = limit_at(&mut *stopper, 1500, |_| ());
        let doubtful = limit_at(&mut *stopper, 1600, |stats| {
            stats.time_usage_hint = TimeUsageHint::NeedMoreTime;
        });
        assert!(plain < early, "{plain:?} {early:?}");
        assert_eq!(early, doubtful);
        let rivalled = limit_at(&mut *stopper, 1700, |stats| stats.edge_visits = vec![1_000_100, 1_000_000]);
        assert_eq!(rivalled, doubtful);
    }

    #[test]
    fn stops_at_its_deadline() {
        let mut stopper = stopper("smooth", 600_000);
        let deadline = limit_at(&mut *stopper, 2000, |_| ()).as_millis() as u64;
        let mut hints = StopperHints::default();
        assert!(!stopper.should_stop(&at(deadline - 1), &mut hints));
        assert!(stopper.should_stop(&at(deadline + 1), &mut hints));
    }
}
