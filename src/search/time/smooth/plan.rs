//! The arithmetic of the smooth manager, and what it remembers of the game.

use crate::search::time::arguments::{Arguments, TimeManagerError};
use crate::search::time::clock::Clock;
use crate::search::time::legacy::MovesLeftCurve;

/// Nodes per second before any was measured.
const FIRST_SPEED: f64 = 20_000.0;

/// lc0's eighteen parameters of this manager, with its names and defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    /// `init-tree-reuse` (0.52): the part of a tree that is there again at the next move, at first.
    pub first_tree_reuse: f64,
    /// `max-tree-reuse` (0.73): never count on more.
    pub most_tree_reuse: f64,
    /// `tree-reuse-update-rate` (3.39): in so many average moves the estimate moves half-way.
    pub tree_reuse_half_life: f64,
    /// `nps-update-period` (20): in so many seconds of a move the speed's estimate comes down to what is
    /// measured in it.
    pub speed_window_seconds: f64,
    /// `init-timeuse` (0.7): the part of a budget that is really spent, at first.
    pub first_time_use: f64,
    /// `min-timeuse` (0.34): never count on less.
    pub least_time_use: f64,
    /// `timeuse-update-rate` (5.51): in so many average moves the estimate moves half-way.
    pub time_use_half_life: f64,
    /// `max-move-budget` (0.42): one move gets at most this part of the clock, without the reserve.
    pub most_of_clock: f64,
    /// `init-piggybank` (0.09): the part of the first clock that goes into the reserve.
    pub first_reserve: f64,
    /// `per-move-piggybank` (0.12): the part of each move's time that goes into the reserve.
    pub reserve_tax: f64,
    /// `max-piggybank-use` (0.94): the part of the reserve that one move may take.
    pub most_of_reserve: f64,
    /// `max-piggybank-moves` (36.5): the reserve holds at most so many average moves.
    pub most_reserve_moves: f64,
    /// `trend-nps-update-period-ms` (3000): see [`VisitsTrend`](super::trend::VisitsTrend).
    pub trend_period_ms: f64,
    /// `bestmove-optimism` (0.2): the best move's future visits, as a part of its present rate.
    pub best_move_optimism: f64,
    /// `overtaker-optimism` (4): a rival's future visits, as a multiple of its present rate.
    pub rival_optimism: f64,
    /// `force-piggybank-ms` (1000): so long every move may draw on the reserve.
    pub force_reserve_ms: f64,
    /// `midpoint` (45.2) and `steepness` (5.93), also as `mle-legacy(midpoint=...,steepness=...)`.
    pub moves_left: MovesLeftCurve,
}

impl Parameters {
    /// Takes them from the option's text.
    pub(crate) fn read(arguments: &mut Arguments) -> Result<Parameters, TimeManagerError> {
        let midpoint = arguments.take("midpoint", 45.2, 1.0..=1000.0)?;
        let steepness = arguments.take("steepness", 5.93, 0.1..=100.0)?;
        Ok(Parameters {
            first_tree_reuse: arguments.take("init-tree-reuse", 0.52, 0.0..=0.99)?,
            most_tree_reuse: arguments.take("max-tree-reuse", 0.73, 0.0..=0.99)?,
            tree_reuse_half_life: arguments.take("tree-reuse-update-rate", 3.39, 0.01..=1e6)?,
            speed_window_seconds: arguments.take("nps-update-period", 20.0, 0.0..=1e6)?,
            first_time_use: arguments.take("init-timeuse", 0.7, 0.01..=1.0)?,
            least_time_use: arguments.take("min-timeuse", 0.34, 0.01..=1.0)?,
            time_use_half_life: arguments.take("timeuse-update-rate", 5.51, 0.01..=1e6)?,
            most_of_clock: arguments.take("max-move-budget", 0.42, 0.0..=1.0)?,
            first_reserve: arguments.take("init-piggybank", 0.09, 0.0..=1.0)?,
            reserve_tax: arguments.take("per-move-piggybank", 0.12, 0.0..=1.0)?,
            most_of_reserve: arguments.take("max-piggybank-use", 0.94, 0.0..=1.0)?,
            most_reserve_moves: arguments.take("max-piggybank-moves", 36.5, 0.0..=1e6)?,
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

/// What one move gets, in ms. The clock has the last word on both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MovePlan {
    /// For a move like any other.
    pub budget_ms: f64,
    /// On top of it, for a hard one.
    pub reserve_ms: f64,
}

/// What the manager has learned in this game.
#[derive(Debug)]
pub(crate) struct GameMemory {
    parameters: Parameters,
    /// The part of a tree that is there again at the next move.
    tree_reuse: f64,
    /// Nodes per second.
    speed: f64,
    /// Whether `speed` has seen a whole move. Before, each measurement replaces the one before.
    speed_is_settled: bool,
    /// The part of a budget that is really spent.
    time_use: f64,
    /// In ms; of moves until the next control, as last planned.
    average_move_ms: f64,
    /// The budget of the move being played.
    budget_ms: f64,
    /// Time since the first batch when the speed was last measured, in this move or the one before.
    last_measured_ms: f64,
    /// Visits of the root when the last search ended; 0: none has.
    last_nodes: u64,
    /// The piggy bank, in ms.
    reserve_ms: f64,
    is_first_move: bool,
}

impl GameMemory {
    /// Nothing learned yet.
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

    /// The settings it was made with.
    pub(crate) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Plans a move; `reused_nodes`: visits that the root already has.
    pub(crate) fn plan_move(&mut self, clock: &Clock, game_ply: u32, reused_nodes: u64) -> MovePlan {
        let parameters = self.parameters;
        if std::mem::take(&mut self.is_first_move) {
            self.reserve_ms = clock.remaining_ms() * parameters.first_reserve;
        } else {
            self.learn_tree_reuse(reused_nodes);
        }
        self.last_measured_ms = 0.0;

        let moves = clock.moves_until_control(parameters.moves_left.estimate(game_ply));
        let most_reserve = parameters.most_reserve_moves * clock.total_ms(moves) / moves;
        self.reserve_ms = self.reserve_ms.clamp(0.0, most_reserve);
        self.average_move_ms = (clock.total_ms(moves) - self.reserve_ms).max(0.0) / moves;

        // In nodes, because that is what the tree brings along: the target includes reused ones.
        let speed = self.speed.max(1.0);
        let target_nodes = self.average_move_ms / 1000.0 * speed / (1.0 - self.tree_reuse);
        let new_nodes = (target_nodes - reused_nodes as f64).max(0.0);
        let expected_ms = new_nodes / speed * 1000.0;

        let taxed = (expected_ms * parameters.reserve_tax).min(most_reserve - self.reserve_ms);
        let reserve = self.reserve_ms * parameters.most_of_reserve;
        self.reserve_ms += taxed;
        // Smart pruning will cut the search short, so that the plan can be larger than what is meant.
        self.budget_ms = ((expected_ms - taxed) / self.time_use)
            .min(clock.remaining_ms() * parameters.most_of_clock)
            .min(clock.spendable_ms());
        MovePlan { budget_ms: self.budget_ms, reserve_ms: reserve.min(clock.spendable_ms() - self.budget_ms) }
    }

    /// The speed, from a running search: `elapsed_ms` since its first batch, `nodes` made by it.
    ///
    /// Faster than thought is believed at once. Slower is believed little by little over the window, because a
    /// search often starts slowly.
    pub(crate) fn measure_speed(&mut self, elapsed_ms: f64, nodes: u64) -> f64 {
        if elapsed_ms <= self.last_measured_ms {
            return self.speed;
        }
        let measured = nodes as f64 * 1000.0 / elapsed_ms;
        let window_ms = self.parameters.speed_window_seconds * 1000.0;
        let is_slower = self.speed_is_settled && measured < self.speed;
        self.speed = if is_slower && elapsed_ms < window_ms {
            // A straight line from the estimate at the move's start to the measured value at the window's end:
            // the part of the way that is still ahead shrinks as the rest of the window does.
            let ahead = (window_ms - elapsed_ms) / (window_ms - self.last_measured_ms);
            measured + (self.speed - measured) * ahead
        } else {
            measured
        };
        self.last_measured_ms = elapsed_ms;
        self.speed
    }

    /// The move is made. `from_reserve_ms`: `None` where the reserve was not touched.
    pub(crate) fn finish_move(&mut self, elapsed_ms: f64, from_reserve_ms: Option<f64>, nodes: u64) {
        self.speed_is_settled = true;
        self.last_nodes = nodes;
        self.reserve_ms = (self.reserve_ms - from_reserve_ms.unwrap_or(0.0)).max(0.0);
        // A move that needed the reserve used its budget in full.
        let used = match from_reserve_ms {
            Some(_) => 1.0,
            None if self.budget_ms > 0.0 => elapsed_ms / self.budget_ms,
            None => 1.0,
        };
        let weight = self.in_average_moves(elapsed_ms);
        self.time_use = approach(self.time_use, used, weight / self.parameters.time_use_half_life)
            .max(self.parameters.least_time_use);
    }

    fn learn_tree_reuse(&mut self, reused_nodes: u64) {
        if self.last_nodes == 0 || self.last_measured_ms <= 0.0 {
            return;
        }
        let reused = reused_nodes as f64 / self.last_nodes as f64;
        let weight = self.in_average_moves(self.last_measured_ms);
        self.tree_reuse = approach(self.tree_reuse, reused, weight / self.parameters.tree_reuse_half_life)
            .min(self.parameters.most_tree_reuse);
    }

    fn in_average_moves(&self, ms: f64) -> f64 {
        if self.average_move_ms > 0.0 { ms / self.average_move_ms } else { 0.0 }
    }
}

/// Goes from a value towards another, half of the way for each half-life.
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
        // 100 s for 10 moves: 9 s go to the reserve, some 9.1 s are a move's share; with 52 % reused the target
        // is 18.9 s; 12 % of it are taxed, and 70 % use makes some 23.8 s out of the rest.
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
        // Some 18.9 s at 20 000 nodes a second are 378 000 nodes: half of them are there.
        let fresh = memory("smooth").plan_move(&clock(100_000), 0, 0).budget_ms;
        let half = memory("smooth").plan_move(&clock(100_000), 0, 189_000).budget_ms;
        assert!((half / fresh - 0.5).abs() < 0.01);
        assert_eq!(memory("smooth").plan_move(&clock(100_000), 0, 1_000_000).budget_ms, 0.0);
    }

    #[test]
    fn one_move_gets_its_part_of_the_clock_at_most() {
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
    fn what_the_reserve_gave_is_gone() {
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
    fn a_slow_start_is_forgiven_over_the_window() {
        let mut memory = memory("smooth(nps-update-period=10)");
        memory.plan_move(&clock(100_000), 0, 0);
        assert_eq!(memory.measure_speed(1000.0, 500), 500.0, "the first move is believed");
        assert_eq!(memory.measure_speed(2000.0, 2000), 1000.0);
        memory.finish_move(2000.0, None, 2000);
        memory.plan_move(&clock(98_000), 2, 0);
        // Half of the speed: after a fifth of the window a fifth of the way.
        assert!((memory.measure_speed(2000.0, 1000) - 900.0).abs() < 1e-9);
        assert!((memory.measure_speed(5000.0, 2500) - 750.0).abs() < 1e-9);
        assert_eq!(memory.measure_speed(5000.0, 9999), 750.0, "no time passed, nothing new");
        assert_eq!(memory.measure_speed(12_000.0, 6000), 500.0);
        assert_eq!(memory.measure_speed(13_000.0, 13_000), 1000.0, "faster is believed at once");
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
