//! The arithmetic of the manager `smooth`, and its memory of the game.

use crate::time::arguments::{Arguments, TimeManagerError};
use crate::time::clock::Clock;
use crate::time::legacy::MovesLeftCurve;

/// The assumed speed in nodes per second before the first measurement.
const FIRST_SPEED: f64 = 20_000.0;

/// lc0's eighteen parameters of this manager, with their names and defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    /// `init-tree-reuse` (0.52): the first estimate of the share of a tree that the next move reuses.
    pub first_tree_reuse: f64,
    /// `max-tree-reuse` (0.73): the upper bound of that estimate.
    pub max_tree_reuse: f64,
    /// `tree-reuse-update-rate` (3.39): the number of average moves after which the estimate has moved half-way to
    /// the measured share.
    pub tree_reuse_half_life: f64,
    /// `nps-update-period` (20): the number of seconds of a search after which the estimate of the speed has fallen
    /// to the measured value.
    pub speed_window_seconds: f64,
    /// `init-timeuse` (0.7): the first estimate of the share of a budget that a move spends.
    pub first_time_use: f64,
    /// `min-timeuse` (0.34): the lower bound of that estimate.
    pub min_time_use: f64,
    /// `timeuse-update-rate` (5.51): the number of average moves after which the estimate has moved half-way to
    /// the measured share.
    pub time_use_half_life: f64,
    /// `max-move-budget` (0.42): the maximum share of the clock for one move, without the reserve.
    pub max_share_of_clock: f64,
    /// `init-piggybank` (0.09): the share of the first clock that goes into the reserve.
    pub first_reserve: f64,
    /// `per-move-piggybank` (0.12): the share of each move's time that goes into the reserve.
    pub reserve_tax: f64,
    /// `max-piggybank-use` (0.94): the maximum share of the reserve for one move.
    pub max_share_of_reserve: f64,
    /// `max-piggybank-moves` (36.5): the maximum size of the reserve, in average moves.
    pub max_reserve_moves: f64,
    /// `trend-nps-update-period-ms` (3000): the time between two baselines of a
    /// [`VisitsTrend`](super::trend::VisitsTrend).
    pub trend_period_ms: f64,
    /// `bestmove-optimism` (0.2): the factor by which the rate of visits of the best move is expected to change.
    pub best_move_optimism: f64,
    /// `overtaker-optimism` (4): the factor by which the rate of visits of a rival is expected to change.
    pub rival_optimism: f64,
    /// `force-piggybank-ms` (1000): the time after the first batch during which every move may use the reserve.
    pub force_reserve_ms: f64,
    /// `midpoint` (45.2) and `steepness` (5.93), also as `mle-legacy(midpoint=...,steepness=...)`.
    pub moves_left: MovesLeftCurve,
}

impl Parameters {
    /// Takes the parameters from the text of the option.
    pub(crate) fn read(arguments: &mut Arguments) -> Result<Parameters, TimeManagerError> {
        let midpoint = arguments.take("midpoint", 45.2, 1.0..=1000.0)?;
        let steepness = arguments.take("steepness", 5.93, 0.1..=100.0)?;
        Ok(Parameters {
            first_tree_reuse: arguments.take("init-tree-reuse", 0.52, 0.0..=0.99)?,
            max_tree_reuse: arguments.take("max-tree-reuse", 0.73, 0.0..=0.99)?,
            tree_reuse_half_life: arguments.take("tree-reuse-update-rate", 3.39, 0.01..=1e6)?,
            speed_window_seconds: arguments.take("nps-update-period", 20.0, 0.0..=1e6)?,
            first_time_use: arguments.take("init-timeuse", 0.7, 0.01..=1.0)?,
            min_time_use: arguments.take("min-timeuse", 0.34, 0.01..=1.0)?,
            time_use_half_life: arguments.take("timeuse-update-rate", 5.51, 0.01..=1e6)?,
            max_share_of_clock: arguments.take("max-move-budget", 0.42, 0.0..=1.0)?,
            first_reserve: arguments.take("init-piggybank", 0.09, 0.0..=1.0)?,
            reserve_tax: arguments.take("per-move-piggybank", 0.12, 0.0..=1.0)?,
            max_share_of_reserve: arguments.take("max-piggybank-use", 0.94, 0.0..=1.0)?,
            max_reserve_moves: arguments.take("max-piggybank-moves", 36.5, 0.0..=1e6)?,
            trend_period_ms: arguments.take("trend-nps-update-period-ms", 3000.0, 0.0..=1e9)?,
            best_move_optimism: arguments.take("bestmove-optimism", 0.2, 0.0..=1000.0)?,
            rival_optimism: arguments.take("overtaker-optimism", 4.0, 0.0..=1000.0)?,
            force_reserve_ms: arguments.take("force-piggybank-ms", 1000.0, 0.0..=1e9)?,
            moves_left: MovesLeftCurve {
                midpoint: arguments.take("mle-legacy.midpoint", midpoint, 1.0..=1000.0)?,
                steepness: arguments.take("mle-legacy.steepness", steepness, 0.1..=100.0)?,
            },
        })
    }
}

/// The time for one move in milliseconds. Both parts together are at most the time that the clock allows for thinking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MovePlan {
    /// The time for an ordinary move.
    pub budget_ms: f64,
    /// The additional time for a hard move.
    pub reserve_ms: f64,
}

/// The manager's memory of the game.
#[derive(Debug)]
pub(crate) struct GameMemory {
    parameters: Parameters,
    /// The estimated share of a tree that the next move reuses.
    tree_reuse: f64,
    /// The estimated speed in nodes per second.
    speed: f64,
    /// Whether `speed` is based on a whole move. Until then each measurement replaces the previous estimate.
    speed_is_settled: bool,
    /// The estimated share of a budget that a move spends.
    time_use: f64,
    /// The average time per move until the next time control in milliseconds, as last planned.
    average_move_ms: f64,
    /// The budget of the current move, in milliseconds.
    budget_ms: f64,
    /// The time since the first batch when the speed was last measured, in milliseconds. [`GameMemory::plan_move`]
    /// resets it.
    last_measured_ms: f64,
    /// The root's visits at the end of the last search; 0 if there was no search.
    last_nodes: u64,
    /// The reserve (lc0's piggy bank), in milliseconds.
    reserve_ms: f64,
    is_first_move: bool,
}

impl GameMemory {
    /// The memory at the start of a game.
    pub(crate) fn new(parameters: Parameters) -> GameMemory {
        GameMemory {
            tree_reuse: parameters.first_tree_reuse,
            speed: FIRST_SPEED,
            speed_is_settled: false,
            time_use: parameters.first_time_use,
            average_move_ms: 0.0,
            budget_ms: 0.0,
            last_measured_ms: 0.0,
            last_nodes: 0,
            reserve_ms: 0.0,
            is_first_move: true,
            parameters,
        }
    }

    pub(crate) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Plans the next move. The root already has `reused_nodes` visits.
    pub(crate) fn plan_move(&mut self, clock: &Clock, game_ply: u32, reused_nodes: u64) -> MovePlan {
        let parameters = self.parameters;
        if std::mem::take(&mut self.is_first_move) {
            self.reserve_ms = clock.remaining_ms() * parameters.first_reserve;
        } else {
            self.learn_tree_reuse(reused_nodes);
        }
        self.last_measured_ms = 0.0;

        let moves = clock.moves_until_control(parameters.moves_left.estimate(game_ply));
        let max_reserve = parameters.max_reserve_moves * clock.total_ms(moves) / moves;
        self.reserve_ms = self.reserve_ms.clamp(0.0, max_reserve);
        self.average_move_ms = (clock.total_ms(moves) - self.reserve_ms).max(0.0) / moves;

        // The target is a number of nodes, including the reused nodes.
        let speed = self.speed.max(1.0);
        let target_nodes = self.average_move_ms / 1000.0 * speed / (1.0 - self.tree_reuse);
        let new_nodes = (target_nodes - reused_nodes as f64).max(0.0);
        let expected_ms = new_nodes / speed * 1000.0;

        let taxed = (expected_ms * parameters.reserve_tax).min(max_reserve - self.reserve_ms);
        let reserve = self.reserve_ms * parameters.max_share_of_reserve;
        self.reserve_ms += taxed;
        // The budget may be larger than the expected time, because smart pruning will end the search early.
        self.budget_ms = ((expected_ms - taxed) / self.time_use)
            .min(clock.remaining_ms() * parameters.max_share_of_clock)
            .min(clock.spendable_ms());
        MovePlan { budget_ms: self.budget_ms, reserve_ms: reserve.min(clock.spendable_ms() - self.budget_ms) }
    }

    /// Updates the estimate of the speed from a running search, which has made `nodes` visits in `elapsed_ms` since its
    /// first batch. Returns the estimate in nodes per second.
    ///
    /// A speed above the estimate replaces the estimate at once. A lower speed replaces it gradually over the window,
    /// because a search often starts slowly.
    pub(crate) fn measure_speed(&mut self, elapsed_ms: f64, nodes: u64) -> f64 {
        if elapsed_ms <= self.last_measured_ms {
            return self.speed;
        }
        let measured = nodes as f64 * 1000.0 / elapsed_ms;
        let window_ms = self.parameters.speed_window_seconds * 1000.0;
        let is_slower = self.speed_is_settled && measured < self.speed;
        self.speed = if is_slower && elapsed_ms < window_ms {
            // The estimate follows a straight line from its value at the start of the move to the measured value at the
            // end of the window. Its distance to the measured value shrinks in proportion to the rest of the window.
            let ahead = (window_ms - elapsed_ms) / (window_ms - self.last_measured_ms);
            measured + (self.speed - measured) * ahead
        } else {
            measured
        };
        self.last_measured_ms = elapsed_ms;
        self.speed
    }

    /// Learns from a finished move. `from_reserve_ms` is the time taken from the reserve, `None` if the move did not
    /// use it.
    pub(crate) fn finish_move(&mut self, elapsed_ms: f64, from_reserve_ms: Option<f64>, nodes: u64) {
        self.speed_is_settled = true;
        self.last_nodes = nodes;
        self.reserve_ms = (self.reserve_ms - from_reserve_ms.unwrap_or(0.0)).max(0.0);
        // A move that used the reserve has spent its whole budget.
        let used = match from_reserve_ms {
            Some(_) => 1.0,
            None if self.budget_ms > 0.0 => elapsed_ms / self.budget_ms,
            None => 1.0,
        };
        let weight = self.in_average_moves(elapsed_ms);
        self.time_use = approach(self.time_use, used, weight / self.parameters.time_use_half_life)
            .max(self.parameters.min_time_use);
    }

    fn learn_tree_reuse(&mut self, reused_nodes: u64) {
        if self.last_nodes == 0 || self.last_measured_ms <= 0.0 {
            return;
        }
        let reused = reused_nodes as f64 / self.last_nodes as f64;
        let weight = self.in_average_moves(self.last_measured_ms);
        self.tree_reuse = approach(self.tree_reuse, reused, weight / self.parameters.tree_reuse_half_life)
            .min(self.parameters.max_tree_reuse);
    }

    fn in_average_moves(&self, ms: f64) -> f64 {
        if self.average_move_ms > 0.0 { ms / self.average_move_ms } else { 0.0 }
    }
}

/// Moves a value towards another, half of the way for each half-life.
fn approach(from: f64, to: f64, half_lives: f64) -> f64 {
    to + (from - to) * 0.5_f64.powf(half_lives)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(description: &str) -> GameMemory {
        let (_, mut arguments) = Arguments::parse(description).expect("well formed");
        let parameters = Parameters::read(&mut arguments).expect("in range");
        arguments.finish().expect("nothing is left");
        GameMemory::new(parameters)
    }

    fn clock(time: u64) -> Clock {
        Clock::new(Some(time), None, Some(10), 0).expect("a time is given")
    }

    #[test]
    fn half_lives_halve() {
        assert_eq!(approach(1.0, 0.0, 0.0), 1.0);
        assert_eq!(approach(1.0, 0.0, 1.0), 0.5);
        assert_eq!(approach(0.0, 8.0, 2.0), 6.0);
    }

    #[test]
    fn the_first_plan_follows_the_formulas() {
        // 100 s for 10 moves: 9 s go to the reserve, and the share of a move is about 9.1 s. With 52 % reused the
        // target is 18.9 s. A tax of 12 % is subtracted, and with a time use of 70 % the rest gives a budget of about
        // 23.8 s.
        let mut memory = memory("smooth");
        let plan = memory.plan_move(&clock(100_000), 0, 0);
        let share = (clock(100_000).total_ms(10.0) - 9000.0) / 10.0;
        assert!((9000.0..9100.0).contains(&share));
        assert!((plan.budget_ms - share / 0.48 * 0.88 / 0.7).abs() < 1e-6, "{plan:?}");
        assert!((plan.reserve_ms - 9000.0 * 0.94).abs() < 1e-6, "{plan:?}");
        assert!((memory.reserve_ms - (9000.0 + share / 0.48 * 0.12)).abs() < 1e-6);
    }

    #[test]
    fn a_reused_tree_needs_less() {
        // 18.9 s at 20 000 nodes a second are 378 000 nodes, of which half are reused.
        let fresh = memory("smooth").plan_move(&clock(100_000), 0, 0).budget_ms;
        let half = memory("smooth").plan_move(&clock(100_000), 0, 189_000).budget_ms;
        assert!((half / fresh - 0.5).abs() < 0.01);
        assert_eq!(memory("smooth").plan_move(&clock(100_000), 0, 1_000_000).budget_ms, 0.0);
    }

    #[test]
    fn one_move_gets_at_most_its_share_of_the_clock() {
        let last_move = Clock::new(Some(100_000), None, Some(1), 0).expect("a time is given");
        assert_eq!(memory("smooth").plan_move(&last_move, 0, 0).budget_ms, 42_000.0);
    }

    #[test]
    fn early_stops_make_later_budgets_larger_up_to_a_bound() {
        let mut memory = memory("smooth(init-piggybank=0)");
        for _ in 0..40 {
            let plan = memory.plan_move(&clock(100_000), 0, 0);
            memory.finish_move(plan.budget_ms * 0.1, None, 0);
        }
        assert!((memory.time_use - 0.34).abs() < 1e-9);
        for _ in 0..40 {
            let plan = memory.plan_move(&clock(100_000), 0, 0);
            memory.finish_move(plan.budget_ms, None, 0);
        }
        assert!(memory.time_use > 0.99);
    }

    #[test]
    fn the_reserve_shrinks_by_the_time_taken_from_it() {
        let mut memory = memory("smooth");
        memory.plan_move(&clock(100_000), 0, 0);
        let before = memory.reserve_ms;
        memory.finish_move(30_000.0, Some(4000.0), 0);
        assert_eq!(memory.reserve_ms, before - 4000.0);
        memory.finish_move(30_000.0, Some(40_000.0), 0);
        assert_eq!(memory.reserve_ms, 0.0);
    }

    #[test]
    fn the_reserve_is_bounded_by_the_clock() {
        let mut memory = memory("smooth");
        memory.plan_move(&clock(1_000_000), 0, 0);
        let plan = memory.plan_move(&clock(1000), 0, 0);
        assert!(memory.reserve_ms <= 3650.0);
        assert!(plan.budget_ms + plan.reserve_ms <= 1000.0);
        assert!(plan.budget_ms >= 0.0 && plan.reserve_ms >= 0.0);
    }

    #[test]
    fn a_slow_start_lowers_the_speed_gradually() {
        let mut memory = memory("smooth(nps-update-period=10)");
        memory.plan_move(&clock(100_000), 0, 0);
        assert_eq!(memory.measure_speed(1000.0, 500), 500.0, "in the first move each measurement counts");
        assert_eq!(memory.measure_speed(2000.0, 2000), 1000.0);
        memory.finish_move(2000.0, None, 2000);
        memory.plan_move(&clock(98_000), 2, 0);
        // The measured speed is half of the estimate. After a fifth of the window the estimate has gone a fifth of the
        // way.
        assert!((memory.measure_speed(2000.0, 1000) - 900.0).abs() < 1e-9);
        assert!((memory.measure_speed(5000.0, 2500) - 750.0).abs() < 1e-9);
        assert_eq!(memory.measure_speed(5000.0, 9999), 750.0, "without time there is no measurement");
        assert_eq!(memory.measure_speed(12_000.0, 6000), 500.0);
        assert_eq!(memory.measure_speed(13_000.0, 13_000), 1000.0, "a higher speed counts at once");
    }

    #[test]
    fn tree_reuse_is_learned() {
        let mut memory = memory("smooth(max-tree-reuse=0.9)");
        memory.plan_move(&clock(100_000), 0, 0);
        for ply in 1..200 {
            memory.measure_speed(9000.0, 100_000);
            memory.finish_move(9000.0, None, 100_000);
            memory.plan_move(&clock(100_000), ply, 10_000);
        }
        assert!((memory.tree_reuse - 0.1).abs() < 0.01, "{}", memory.tree_reuse);
    }
}
