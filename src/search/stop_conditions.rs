//! Chooses the stoppers for one `go`.
//!
//! There are three kinds of search:
//! - A search without an end of its own (`go infinite`, `go ponder`) ignores the clock and stops only at a limit on
//!   nodes or depth, at the mate that `go mate` asks for, or, with `MultiPV` 1, at a mate in one. Even then the engine
//!   sends no move before `stop` or `ponderhit`.
//! - A search for a mate stops early only when it has found the mate. Limits and the clock still apply.
//! - An ordinary search may be stopped early by smart pruning or by `MinimumKLDGainPerNode`.
//!
//! Every search stops when the position is solved.

use super::limits::GoParams;
use super::stop::{
    ChainStopper, DepthStopper, KldGainStopper, MOST_VISITS, MateStopper, PatienceStopper, PlayoutsStopper,
    SmartPruningStopper, SolvedStopper, SpeedHint, TimeLimitStopper, VisitsStopper,
};
use super::time::{Clock, ClockReading, Lag, TimeManager};
use crate::chess::{Color, Position};
use crate::options::Options;
use std::time::Duration;

/// The facts about the start of a search that stoppers need.
#[derive(Clone, Copy, Debug)]
pub struct SearchStart {
    /// The side whose clock runs.
    pub side_to_move: Color,
    /// The number of plies from the beginning of the game. If the game began with a FEN, the FEN's move number is
    /// included.
    pub game_ply: u32,
    /// The root's visits from earlier searches.
    pub reused_nodes: u64,
    /// How late the engine's moves have come lately.
    pub lag: Lag,
}

impl SearchStart {
    /// The start of a search of `position`.
    pub fn new(position: &Position, reused_nodes: u64) -> SearchStart {
        SearchStart {
            side_to_move: position.side_to_move(),
            game_ply: position.game_ply(),
            reused_nodes,
            lag: Lag::default(),
        }
    }
}

/// Builds the chain of stoppers for one `go`.
///
/// At `ponderhit` the engine calls it again, with `ponder` cleared and the clock started anew. Before `ponderhit` the
/// chain does not use the time manager.
pub fn build_stoppers(
    options: &Options,
    go: &GoParams,
    start: &SearchStart,
    time_manager: &mut dyn TimeManager,
) -> ChainStopper {
    let overhead = u64::from(options.move_overhead);
    let prunes = options.smart_pruning_factor > 0.0;
    let has_no_end = go.infinite || go.ponder;
    let mut chain = ChainStopper::new();

    // In the analysis of a single line a mate in one is enough.
    chain.push(SolvedStopper::new(has_no_end && options.multipv == 1));
    if options.nps_limit > 0.0 {
        chain.push(SpeedHint::new(options.nps_limit));
    }
    let clock = clock_of(go, start.side_to_move, overhead).map(|clock| clock.with_lag(start.lag));
    if !has_no_end && let Some(limit) = patience(go, clock.as_ref(), overhead) {
        chain.push(PatienceStopper::new(limit, clock.as_ref().map(Clock::last_moment)));
    }
    if !has_no_end && let Some(clock) = clock {
        chain.push_boxed(time_manager.stopper(&clock, start.game_ply, start.reused_nodes));
    }
    match go.nodes {
        Some(nodes) if options.nodes_as_playouts => chain.push(PlayoutsStopper::new(nodes, prunes)),
        _ => {}
    }
    let visits = go.nodes.filter(|_| !options.nodes_as_playouts).unwrap_or(MOST_VISITS);
    chain.push(VisitsStopper::new(visits.min(MOST_VISITS), prunes));
    if !has_no_end && let Some(time) = go.movetime {
        chain.push(TimeLimitStopper::new(fixed_budget(time, overhead)));
    }
    if let Some(depth) = go.depth {
        chain.push(DepthStopper::new(depth));
    }
    if let Some(moves) = go.mate {
        chain.push(MateStopper::new(moves));
    }
    if !has_no_end && go.mate.is_none() {
        if options.minimum_kldgain_per_node > 0.0 {
            let minimum_gain = f64::from(options.minimum_kldgain_per_node);
            chain.push(KldGainStopper::new(minimum_gain, u64::from(options.kldgain_average_interval)));
        }
        // Smart pruning comes last, because it reads the hints of the other stoppers.
        if prunes {
            let factor = f64::from(options.smart_pruning_factor);
            chain.push(SmartPruningStopper::new(factor, u64::from(options.smart_pruning_minimum_batches)));
        }
    }
    chain
}

/// What `go` says about the clock of the side to move at `position`, if it has one. It has none in a search that the
/// clock does not end.
pub fn clock_reading(go: &GoParams, position: &Position) -> Option<ClockReading> {
    let side = position.side_to_move();
    let clock = clock_of(go, side, 0).filter(|_| !go.infinite)?;
    let (remaining, increment) = (clock.remaining(), clock.increment());
    Some(ClockReading { side, game_ply: position.game_ply(), remaining, increment })
}

/// The clock of the side to move, if it has one.
fn clock_of(go: &GoParams, side: Color, overhead: u64) -> Option<Clock> {
    let (time, increment) = match side {
        Color::White => (go.wtime, go.winc),
        Color::Black => (go.btime, go.binc),
    };
    Clock::new(time, increment, go.movestogo, overhead)
}

/// The shortest wait for a first evaluation in `go movetime`. A slow processor may need longer than a very short
/// `movetime`, and its move is better than a move without an evaluation.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(500);

/// The longest wait for a first evaluation: half of the clock, or the whole `movetime`. If it is not there by then, the
/// device hangs or is being replaced.
fn patience(go: &GoParams, clock: Option<&Clock>, overhead: u64) -> Option<Duration> {
    let half_clock = clock.map(|clock| clock.remaining() / 2);
    let movetime = go.movetime.map(|time| fixed_budget(time, overhead).max(SHORTEST_PATIENCE));
    half_clock.into_iter().chain(movetime).min()
}

/// The time for `go movetime`, less the overhead. At least half of the given time remains, so that a GUI that gives a
/// tenth of a second gets a searched move even with a large overhead.
fn fixed_budget(movetime: u64, overhead: u64) -> Duration {
    Duration::from_millis(movetime.saturating_sub(overhead).max(movetime / 2).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::time::make_time_manager;
    use crate::search::{IterationStats, Stopper, StopperHints};

    fn start(side_to_move: Color) -> SearchStart {
        SearchStart { side_to_move, game_ply: 0, reused_nodes: 500, lag: Lag::default() }
    }

    fn build(options: &Options, go: &GoParams, side: Color) -> ChainStopper {
        let mut manager = make_time_manager("alphazero(alphazero-time-pct=50)").expect("a good description");
        build_stoppers(options, go, &start(side), &mut *manager)
    }

    /// The hints of a search that has just begun, and whether it stops at once.
    fn at_start(options: &Options, go: &GoParams, side: Color) -> (bool, StopperHints) {
        let stats = IterationStats { total_nodes: 501, edge_visits: vec![300, 200], ..Default::default() };
        let mut hints = StopperHints::default();
        let stops = build(options, go, side).should_stop(&stats, &mut hints);
        (stops, hints)
    }

    fn time_of(go: &GoParams, side: Color) -> Option<u128> {
        at_start(&Options::default(), go, side).1.remaining_time.map(|time| time.as_millis())
    }

    #[test]
    fn each_side_has_its_own_clock() {
        let go = GoParams {
            wtime: Some(10_200),
            btime: Some(1200),
            winc: Some(50),
            binc: Some(100),
            ..Default::default()
        };
        assert_eq!(time_of(&go, Color::White), Some(5000));
        assert_eq!(time_of(&go, Color::Black), Some(500));
        let only_white = GoParams { wtime: Some(10_200), ..Default::default() };
        assert_eq!(time_of(&only_white, Color::Black), None);
    }

    #[test]
    fn no_clock_counts_before_ponderhit() {
        let clock = GoParams { wtime: Some(10_200), movetime: Some(300), ..Default::default() };
        for go in [GoParams { infinite: true, ..clock.clone() }, GoParams { ponder: true, ..clock.clone() }] {
            let mut chain = build(&Options::default(), &go, Color::White);
            let stats = IterationStats {
                total_nodes: 1_000_000,
                nodes_since_move_start: 1_000_000,
                time_since_move_start: Duration::from_secs(3600),
                edge_visits: vec![999_999],
                win_found: true,
                ..Default::default()
            };
            let mut hints = StopperHints::default();
            assert!(!chain.should_stop(&stats, &mut hints), "{go:?}");
            assert_eq!(hints.remaining_time, None);
        }
        assert_eq!(time_of(&clock, Color::White), Some(150), "the time limit applies after ponderhit");
    }

    #[test]
    fn a_fixed_time_is_cut_by_the_overhead_and_never_by_more_than_half() {
        assert_eq!(
            [1000, 400, 300, 100, 1, 0].map(|ms| fixed_budget(ms, 200).as_millis()),
            [800, 200, 150, 50, 1, 1]
        );
        assert_eq!(fixed_budget(u64::MAX, u64::MAX), Duration::from_millis(u64::MAX / 2));
    }

    #[test]
    fn a_search_waits_for_its_first_evaluation_for_half_of_its_clock() {
        let patience = |go: GoParams| {
            build(&Options::default(), &go, Color::White).patience().map(|time| time.as_millis())
        };
        assert_eq!(patience(GoParams { wtime: Some(10_000), ..Default::default() }), Some(5000));
        assert_eq!(patience(GoParams { movetime: Some(1000), ..Default::default() }), Some(800));
        assert_eq!(patience(GoParams { movetime: Some(1), ..Default::default() }), Some(500));
        assert_eq!(patience(GoParams { infinite: true, wtime: Some(10), ..Default::default() }), None);
        assert_eq!(patience(GoParams { nodes: Some(9), ..Default::default() }), None);
    }

    #[test]
    fn nodes_are_visits_or_playouts() {
        let go = GoParams { nodes: Some(501), ..Default::default() };
        assert!(at_start(&Options::default(), &go, Color::White).0);
        let as_playouts = Options { nodes_as_playouts: true, ..Options::default() };
        let (stops, hints) = at_start(&as_playouts, &go, Color::White);
        assert!(!stops);
        assert_eq!(hints.remaining_playouts, Some(501));
    }

    #[test]
    fn a_single_root_move_ends_the_search_only_with_smart_pruning() {
        let unpruned = Options { smart_pruning_factor: 0.0, ..Options::default() };
        let go = GoParams { nodes: Some(1000), ..Default::default() };
        assert_eq!(at_start(&unpruned, &go, Color::White).1.remaining_playouts, None);
        let one_move = IterationStats { total_nodes: 1, edge_visits: vec![1], ..Default::default() };
        assert!(!build(&unpruned, &go, Color::White).should_stop(&one_move, &mut StopperHints::default()));
        assert!(
            build(&Options::default(), &go, Color::White)
                .should_stop(&one_move, &mut StopperHints::default())
        );
    }

    #[test]
    fn a_search_for_a_mate_stops_only_when_it_has_found_the_mate() {
        let go = GoParams { mate: Some(3), ..Default::default() };
        let mut chain = build(&Options::default(), &go, Color::White);
        let mut stats = IterationStats {
            total_nodes: 100,
            time_since_move_start: Duration::from_secs(3600),
            edge_visits: vec![99],
            mate_depth: Some(4),
            win_found: true,
            ..Default::default()
        };
        assert!(!chain.should_stop(&stats, &mut StopperHints::default()));
        stats.mate_depth = Some(3);
        assert!(chain.should_stop(&stats, &mut StopperHints::default()));
    }

    #[test]
    fn limits_apply_to_a_search_for_a_mate() {
        let mate = GoParams { mate: Some(3), ..Default::default() };
        let stats = IterationStats {
            total_nodes: 100,
            time_since_move_start: Duration::from_secs(1),
            edge_visits: vec![99, 0],
            ..Default::default()
        };
        for go in [
            GoParams { movetime: Some(1000), ..mate.clone() },
            GoParams { wtime: Some(1000), ..mate.clone() },
            GoParams { nodes: Some(100), ..mate.clone() },
        ] {
            let mut chain = build(&Options::default(), &go, Color::White);
            assert!(chain.should_stop(&stats, &mut StopperHints::default()), "{go:?}");
        }
    }

    #[test]
    fn a_search_stops_when_the_position_is_solved() {
        let endless = GoParams { infinite: true, ..Default::default() };
        let limited = GoParams { nodes: Some(100_000), ..Default::default() };
        let unpruned = Options { smart_pruning_factor: 0.0, ..Options::default() };
        let two_lines = Options { multipv: 2, ..Options::default() };
        let found = IterationStats { total_nodes: 9, edge_visits: vec![5, 3], ..Default::default() };
        let solved = IterationStats { is_solved: true, ..found.clone() };
        let mate_in_one = IterationStats { mate_depth: Some(1), ..found.clone() };
        let mate_in_two = IterationStats { mate_depth: Some(2), ..found };
        for (options, go, stats, stops) in [
            (&unpruned, &endless, &solved, true),
            (&unpruned, &limited, &solved, true),
            (&two_lines, &endless, &solved, true),
            (&unpruned, &endless, &mate_in_one, true),
            // Without `go mate`, a mate ends only the analysis of a single line, and only if it is a mate in one.
            (&unpruned, &endless, &mate_in_two, false),
            (&two_lines, &endless, &mate_in_one, false),
            (&unpruned, &limited, &mate_in_one, false),
        ] {
            let stopped = build(options, go, Color::White).should_stop(stats, &mut StopperHints::default());
            assert_eq!(stopped, stops, "{go:?} {stats:?}");
        }
    }

    #[test]
    fn every_search_ends_before_its_counters_overflow() {
        let stats = IterationStats { total_nodes: MOST_VISITS, ..Default::default() };
        for go in [
            GoParams { infinite: true, ..Default::default() },
            GoParams { nodes: Some(u64::MAX), ..Default::default() },
        ] {
            let mut chain = build(&Options::default(), &go, Color::White);
            assert!(chain.should_stop(&stats, &mut StopperHints::default()));
        }
    }

    #[test]
    fn options_add_their_stoppers() {
        let go = GoParams::default();
        let grown = IterationStats { total_nodes: 1000, edge_visits: vec![500, 499], ..Default::default() };
        let stops = |options: &Options| {
            build(options, &go, Color::White).should_stop(&grown, &mut StopperHints::default())
        };
        assert!(!stops(&Options::default()));
        // A full tree is no reason to stop.
        assert!(!stops(&Options { ramlimit_mb: 1, ..Options::default() }));

        let gain = Options { minimum_kldgain_per_node: 1e-6, ..Options::default() };
        let mut chain = build(&gain, &go, Color::White);
        let twice = IterationStats { total_nodes: 1999, edge_visits: vec![1000, 998], ..grown.clone() };
        assert!(!chain.should_stop(&grown, &mut StopperHints::default()));
        assert!(chain.should_stop(&twice, &mut StopperHints::default()));

        let slow = Options { nps_limit: 40.0, ..Options::default() };
        assert_eq!(at_start(&slow, &go, Color::White).1.nodes_per_second, Some(40.0));
    }
}
