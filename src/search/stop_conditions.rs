//! Chooses the stoppers for one `go`.
//!
//! There are three kinds of search:
//! - A search without an end of its own (`go infinite`, `go ponder`) ignores the clock and stops only at a limit on
//!   nodes or depth, at the mate that `go mate` asks for, or, with `MultiPV` 1, at a mate in one. Even then the engine
//!   sends no move before `stop` or `ponderhit`.
//! - A search for a mate stops early only when it has found the mate. Limits and the clock still apply.
//! - An ordinary search may be stopped early by `MinimumKLDGainPerNode` or for the reasons in [`EarlyEnd`]. With
//!   `go depth` it also ends at any proven win.
//!
//! Every search stops when the position is solved.

use super::limits::GoParams;
use super::stop::{
    ChainStopper, DepthStopper, Enough, KldGainStopper, MOST_VISITS, MateStopper, PatienceStopper,
    PlayoutsStopper, SmartPruningStopper, SolvedStopper, SpeedHint, TimeLimitStopper, VisitsStopper,
};
use super::time::{Clock, ClockReading, Lag, TimeManager};
use rukh_chess::{Color, Position};
use rukh_options::Options;
use std::time::Duration;

/// The facts about the start of a search that stoppers need.
#[derive(Clone, Copy, Debug)]
pub struct SearchStart {
    /// The side whose clock runs.
    pub side_to_move: Color,
    /// The number of plies from the beginning of the game. If the game began with a FEN, the FEN's move number is
    /// included.
    pub game_ply: u32,
    /// The visits from earlier searches: those of the root or, if only some of its moves are searched, those below these.
    pub reused_nodes: u64,
    /// Whether there is nothing to choose: the rules or the tablebases leave one move, and the user did not say which
    /// moves to search.
    pub is_only_move: bool,
    /// Whether even the default of `SmartPruningFactor` counts as the user's own value, because this mode has another
    /// default.
    pub prunes_as_lc0: bool,
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
            is_only_move: position.legal_moves().len() == 1,
            prunes_as_lc0: false,
            lag: Lag::default(),
        }
    }
}

/// What may end an ordinary search before its limits.
#[derive(Clone, Copy, PartialEq, Debug)]
enum EarlyEnd {
    /// Nothing but a solved position.
    Never,
    /// A result that no search can change: the value of a single line is proven, or there is nothing to choose. Every
    /// root move is searched to the end.
    ByProof,
    /// Also a lead in visits, divided by this factor. Root moves that cannot catch up are skipped.
    ByVisits(f64),
}

impl EarlyEnd {
    /// `SmartPruningFactor` is about time on a clock. Without a clock its default has no effect: a move with fewer
    /// visits may be chosen for its lower bound, and the user wants the whole limit of nodes or time to be used.
    /// Another value means what it means in lc0. The default cannot be told from an option that was not sent, because
    /// many programs send every default.
    fn of(options: &Options, start: &SearchStart, has_clock: bool) -> EarlyEnd {
        let factor = options.smart_pruning_factor;
        let is_default = factor == Options::default().smart_pruning_factor;
        match factor > 0.0 {
            false => EarlyEnd::Never,
            true if is_default && !start.prunes_as_lc0 && !has_clock => EarlyEnd::ByProof,
            true => EarlyEnd::ByVisits(f64::from(factor)),
        }
    }

    /// What settles a search that shows `lines` lines, where `is_only_move` says that there is nothing to choose.
    fn enough(self, lines: u32, is_only_move: bool) -> Enough {
        let (win, only_move) = match self {
            EarlyEnd::Never => (false, false),
            EarlyEnd::ByProof => (lines == 1, is_only_move),
            EarlyEnd::ByVisits(_) => (true, is_only_move),
        };
        Enough { win, only_move, mate_in_one: false }
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
    let has_no_end = go.infinite || go.ponder;
    let clock = clock_of(go, start.side_to_move, overhead).map(|clock| clock.with_lag(start.lag));
    let early_end = match has_no_end || go.mate.is_some() {
        true => EarlyEnd::Never,
        false => EarlyEnd::of(options, start, clock.is_some()),
    };
    let prunes = matches!(early_end, EarlyEnd::ByVisits(_));
    let mut chain = ChainStopper::new();

    chain.push(SolvedStopper::new(match has_no_end {
        // In the analysis of a single line a mate in one is enough.
        true => Enough { mate_in_one: options.multipv == 1, ..Enough::default() },
        false => {
            let enough = early_end.enough(options.multipv, start.is_only_move);
            // Nearly all visits would end in the win, so that their average depth might never reach the limit.
            Enough { win: enough.win || (go.depth.is_some() && go.mate.is_none()), ..enough }
        }
    }));
    if options.nps_limit > 0.0 {
        chain.push(SpeedHint::new(options.nps_limit));
    }
    if !has_no_end && let Some(limit) = patience(go, clock.as_ref()) {
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
    // With `go nodes 0`, one visit finds a move.
    chain.push(VisitsStopper::new(visits.clamp(1, MOST_VISITS), prunes));
    if !has_no_end && let Some(time) = go.movetime {
        chain.push(TimeLimitStopper::new(fixed_budget(time)));
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
        if let EarlyEnd::ByVisits(factor) = early_end {
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
fn patience(go: &GoParams, clock: Option<&Clock>) -> Option<Duration> {
    let half_clock = clock.map(|clock| clock.remaining() / 2);
    let movetime = go.movetime.map(|time| fixed_budget(time).max(SHORTEST_PATIENCE));
    half_clock.into_iter().chain(movetime).min()
}

/// The time from the end of a search to its answer, with what a busy machine usually adds.
const ANSWER_MS: u64 = 2;

/// The time for `go movetime`. The user wants the answer when it is over, so `MoveOverheadMs`, which keeps a clock from
/// running out, is not subtracted.
fn fixed_budget(movetime: u64) -> Duration {
    Duration::from_millis(movetime.saturating_sub(ANSWER_MS).max(movetime / 2).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::make_time_manager;
    use crate::{IterationStats, Stopper, StopperHints};

    fn start(side_to_move: Color) -> SearchStart {
        SearchStart {
            side_to_move,
            game_ply: 0,
            reused_nodes: 500,
            is_only_move: false,
            prunes_as_lc0: false,
            lag: Lag::default(),
        }
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
        assert_eq!(time_of(&clock, Color::White), Some(298), "the time limit applies after ponderhit");
    }

    #[test]
    fn a_fixed_time_is_used_up_to_the_answer() {
        assert_eq!([1000, 3, 1, 0].map(|ms| fixed_budget(ms).as_millis()), [998, 1, 1, 1]);
    }

    #[test]
    fn a_search_waits_for_its_first_evaluation_for_half_of_its_clock() {
        let patience = |go: GoParams| {
            build(&Options::default(), &go, Color::White).patience().map(|time| time.as_millis())
        };
        assert_eq!(patience(GoParams { wtime: Some(10_000), ..Default::default() }), Some(5000));
        assert_eq!(patience(GoParams { movetime: Some(1000), ..Default::default() }), Some(998));
        assert_eq!(patience(GoParams { movetime: Some(1), ..Default::default() }), Some(500));
        assert_eq!(patience(GoParams { infinite: true, wtime: Some(10), ..Default::default() }), None);
        assert_eq!(patience(GoParams { nodes: Some(9), ..Default::default() }), None);
    }

    #[test]
    fn nodes_are_visits_or_playouts() {
        let go = GoParams { nodes: Some(501), ..Default::default() };
        assert!(at_start(&Options::default(), &go, Color::White).0);
        let as_playouts = Options { nodes_as_playouts: true, ..with_factor(1.5) };
        let (stops, hints) = at_start(&as_playouts, &go, Color::White);
        assert!(!stops);
        assert_eq!(hints.remaining_playouts, Some(501));
    }

    fn with_factor(smart_pruning_factor: f32) -> Options {
        Options { smart_pruning_factor, ..Options::default() }
    }

    /// Whether a search stops that has 1000 of 1001 visits.
    fn stops_at(options: &Options, go: &GoParams, start: &SearchStart, stats: IterationStats) -> bool {
        let stats = IterationStats {
            total_nodes: 1000,
            nodes_since_move_start: 999,
            batches_since_move_start: 9,
            ..stats
        };
        let mut manager = make_time_manager("legacy").expect("a good description");
        let mut chain = build_stoppers(options, go, start, &mut *manager);
        chain.should_stop(&stats, &mut StopperHints::default())
    }

    #[test]
    fn without_a_clock_only_a_factor_of_the_user_lets_a_lead_in_visits_end_a_search() {
        let go = GoParams { nodes: Some(1001), ..Default::default() };
        let leads = || IterationStats { edge_visits: vec![998, 1, 0], ..Default::default() };
        let start = start(Color::White);
        for (factor, stops) in [(0.0, false), (1.33, false), (1.0, true), (2.0, true)] {
            let options = with_factor(factor);
            assert_eq!(stops_at(&options, &go, &start, leads()), stops, "{factor}");
            // With such a hint the search skips root moves.
            assert_eq!(at_start(&options, &go, Color::White).1.remaining_playouts.is_some(), stops);
        }
        // In a mode whose default is another one, 1.33 is the user's.
        let of_mode = SearchStart { prunes_as_lc0: true, ..start };
        assert!(stops_at(&with_factor(1.33), &go, &of_mode, leads()));
        assert!(!stops_at(&with_factor(0.0), &go, &of_mode, leads()));
        let on_the_clock = GoParams { wtime: Some(60_000), ..go };
        assert!(at_start(&with_factor(1.33), &on_the_clock, Color::White).1.remaining_playouts.is_some());
    }

    #[test]
    fn a_proof_or_a_lack_of_choice_ends_a_search() {
        let (nodes, clock) = (
            GoParams { nodes: Some(1001), ..Default::default() },
            GoParams { wtime: Some(60_000), ..Default::default() },
        );
        let open = IterationStats { edge_visits: vec![500, 498, 1], ..Default::default() };
        let win = IterationStats { win_found: true, ..open.clone() };
        let all_others_lose = IterationStats { losing_edges: 2, ..open.clone() };
        let one_searched = IterationStats { edge_visits: vec![999], ..Default::default() };
        let chosen = start(Color::White);
        let only_move = SearchStart { is_only_move: true, ..chosen };
        let (off, default, two_lines) =
            (with_factor(0.0), Options::default(), Options { multipv: 2, ..Options::default() });
        for (options, go, start, stats, stops) in [
            (&default, &nodes, chosen, &win, true),
            // The second line would be worth nothing.
            (&two_lines, &nodes, chosen, &win, false),
            (&two_lines, &clock, chosen, &win, true),
            (&off, &nodes, chosen, &win, false),
            // Its value is not proven.
            (&default, &nodes, chosen, &all_others_lose, false),
            (&default, &clock, chosen, &all_others_lose, true),
            (&default, &nodes, chosen, &one_searched, false),
            (&default, &clock, chosen, &one_searched, false),
            (&default, &nodes, only_move, &one_searched, true),
            (&default, &clock, only_move, &one_searched, true),
            (&off, &nodes, only_move, &one_searched, false),
        ] {
            assert_eq!(stops_at(options, go, &start, stats.clone()), stops, "{go:?} {start:?} {stats:?}");
        }
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
