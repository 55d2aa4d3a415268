//! Simulated games on the clock: no time manager loses on time, and none leaves too much time unused.
//!
//! The simulation asks the stoppers as a search does, and adds the lag of a real engine between the stop and the
//! arrival of the move. Hours of play take a second.

use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use rukh_chess::{Color, Position};
use rukh_options::Options;
use rukh_search::stop::ChainStopper;
use rukh_search::time::{ClockReading, Lag, LagMeter, make_time_manager};
use rukh_search::{
    GoParams, IterationStats, SearchStart, Stopper, StopperHints, TimeUsageHint, build_stoppers,
};
use std::time::Duration;

const MANAGERS: [&str; 4] = ["legacy", "smooth", "alphazero", "simple"];

/// A time control: `base` ms for `moves` moves (for the whole game if `None`), and `increment` ms per move.
#[derive(Clone, Copy, Debug)]
struct Control {
    base: u64,
    increment: u64,
    moves: Option<u32>,
}

const BULLET: Control = Control { base: 1000, increment: 10, moves: None };
const BLITZ: Control = Control { base: 10_000, increment: 100, moves: None };
const CLASSIC: Control = Control { base: 60_000, increment: 0, moves: Some(40) };
/// No time is added after the start.
const SUDDEN_DEATH: Control = Control { base: 60_000, increment: 0, moves: None };
/// The increment is the only time. A GUI adds the first one to the clock at the start of the game.
const DELAY: Control = Control { base: 1000, increment: 1000, moves: None };

/// Options without smart pruning: [`think`] imitates it by ending some searches early.
fn options(move_overhead: u64) -> Options {
    Options { move_overhead: move_overhead as u32, smart_pruning_factor: 0.0, ..Options::default() }
}

/// Simulates a search. It asks the stopper as the watchdog does: when the hints say so, and at least every 100 ms.
///
/// Some searches end early, as with smart pruning, and some ask for more time. Returns the time in ms from the start
/// to the stop, without lag.
fn think(stopper: &mut ChainStopper, reused_nodes: u64, dice: &mut impl Rng) -> u64 {
    let ends_early_at = if dice.random_bool(0.3) { dice.random_range(0..2000) } else { u64::MAX };
    let in_doubt = dice.random_bool(0.2);
    let mut now = dice.random_range(0..3);
    loop {
        let nodes = now * 20 + 1;
        let stats = IterationStats {
            time_since_move_start: Duration::from_millis(now),
            time_since_first_batch: Duration::from_millis(now),
            total_nodes: reused_nodes + nodes,
            nodes_since_move_start: nodes,
            batches_since_move_start: nodes / 64 + 1,
            edge_visits: vec![(reused_nodes + nodes / 2) as u32, (nodes / 4) as u32, (nodes / 8) as u32],
            time_usage_hint: if in_doubt { TimeUsageHint::NeedMoreTime } else { TimeUsageHint::Normal },
            ..Default::default()
        };
        let mut hints = StopperHints::default();
        if stopper.should_stop(&stats, &mut hints) || now >= ends_early_at {
            let done = IterationStats { time_since_move_start: Duration::from_millis(now), ..stats };
            stopper.on_search_done(&done);
            return now;
        }
        let wait = hints.remaining_time.expect("a clock always limits the time").as_millis() as u64;
        now += wait.clamp(1, 100);
    }
}

/// The measurements of a game, or the worst ones of several games.
#[derive(Debug, Default)]
struct Record {
    /// The used share of all the time on the clock, less the move overhead.
    used: f64,
    /// The largest share of the remaining time that one move took. The last move before a time control does not count.
    largest_share: f64,
}

/// The lag of each move in ms, given its number. It includes the waits of the engine's threads for a core, and the way
/// to the GUI.
type LagOfMove<'a> = &'a dyn Fn(u32, &mut StdRng) -> u64;

/// Plays `moves` moves and panics on a loss on time. `overhead` is in ms.
fn play_game(
    description: &str,
    control: Control,
    overhead: u64,
    lag_of_move: LagOfMove<'_>,
    moves: u32,
    seed: u64,
) -> Record {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut meter = LagMeter::default();
    let mut manager = make_time_manager(description).expect(description);
    let side = if dice.random_bool(0.5) { Color::White } else { Color::Black };
    let mut left = control.base;
    let (mut given, mut used) = (control.base, 0);
    let mut record = Record::default();
    let mut nodes = 0;
    for number in 0..moves {
        let to_go = control.moves.map(|moves| moves - number % moves);
        let go = GoParams {
            wtime: Some(left),
            btime: Some(left),
            winc: Some(control.increment),
            binc: Some(control.increment),
            movestogo: to_go,
            ..Default::default()
        };
        let game_ply = number * 2 + u32::from(side == Color::Black);
        meter.search_begins(Some(ClockReading {
            side,
            game_ply,
            remaining: Duration::from_millis(left),
            increment: Duration::from_millis(control.increment),
        }));
        let start = SearchStart {
            side_to_move: side,
            game_ply,
            lag: meter.lag(),
            ..SearchStart::new(&Position::startpos(), nodes)
        };
        let mut stopper = build_stoppers(&options(overhead), &go, &start, &mut *manager);
        let thought = think(&mut stopper, nodes, &mut dice);
        nodes = (thought * 20) / dice.random_range(2..20);
        meter.search_ended(Some(Duration::from_millis(thought)));
        let spent = thought + lag_of_move(number, &mut dice);
        assert!(
            spent <= left,
            "{description} {control:?}: lost on time at move {number}: {spent} of {left} ms ({thought} ms of search)"
        );
        if to_go != Some(1) {
            record.largest_share = record.largest_share.max(spent as f64 / left as f64);
        }
        left -= spent;
        used += spent;
        left += control.increment;
        given += control.increment;
        if to_go == Some(1) && number + 1 < moves {
            left += control.base;
            given += control.base;
        }
    }
    record.used = used as f64 / given.saturating_sub(overhead) as f64;
    record
}

/// The worst measurements of 25 games in which each move has a lag of at most `lag` ms.
fn worst_of(description: &str, control: Control, overhead: u64, lag: u64, moves: u32) -> Record {
    let any_lag = |_, dice: &mut StdRng| dice.random_range(0..=lag);
    (0..25).map(|seed| play_game(description, control, overhead, &any_lag, moves, seed)).fold(
        Record { used: f64::MAX, largest_share: 0.0 },
        |worst, record| Record {
            used: worst.used.min(record.used),
            largest_share: worst.largest_share.max(record.largest_share),
        },
    )
}

#[test]
fn no_manager_loses_on_time_or_leaves_its_time_unused() {
    for manager in MANAGERS {
        for (control, moves, least_used, most_for_a_move) in [
            (BULLET, 80, 0.75, 0.2),
            (BULLET, 250, 0.9, 0.2),
            (BLITZ, 40, 0.8, 0.25),
            (BLITZ, 100, 0.9, 0.45),
            (CLASSIC, 40, 0.7, 0.75),
            (CLASSIC, 200, 0.95, 0.75),
            (DELAY, 80, 0.85, 0.95),
            (SUDDEN_DEATH, 80, 0.9, 0.5),
            (SUDDEN_DEATH, 120, 0.95, 0.5),
        ] {
            let worst = worst_of(manager, control, 200, 15, moves);
            assert!(
                (least_used..=1.01).contains(&worst.used) && worst.largest_share <= most_for_a_move,
                "{manager}, {moves} moves at {control:?}: {worst:?}"
            );
        }
    }
}

/// The lag is up to 125 ms, as with a very large network or a GUI that is far away.
#[test]
fn no_manager_loses_on_time_with_a_long_lag() {
    for manager in MANAGERS {
        for control in [BLITZ, CLASSIC, DELAY] {
            worst_of(manager, control, 200, 125, 100);
        }
    }
}

/// On a machine that is busy with a compiler some moves come late by much more than `MoveOverheadMs`. After the first of
/// them, time is kept for the next.
#[test]
fn no_manager_loses_on_time_on_a_busy_machine() {
    let busy = |number, dice: &mut StdRng| match number % 16 {
        5 => dice.random_range(80..=94),
        _ => dice.random_range(0..=4),
    };
    for manager in MANAGERS {
        for increment in [10, 20] {
            let control = Control { increment, ..BULLET };
            for seed in 0..25 {
                play_game(manager, control, 20, &busy, 80, seed);
            }
        }
    }
}

/// Settings at the ends of their ranges make bad time managers, but none that loses on time.
#[test]
fn no_setting_loses_on_time() {
    for description in [
        "legacy(slowmover=100,first-move-bonus=1000)",
        "legacy(slowmover=0)",
        "legacy(immediate-use=0,midpoint-move=1)",
        "smooth(max-move-budget=1,init-piggybank=1,max-piggybank-use=1,min-timeuse=0.01,init-timeuse=0.01)",
        "smooth(max-tree-reuse=0.99,init-tree-reuse=0.99,nps-update-period=0,force-piggybank-ms=0)",
        "alphazero(alphazero-time-pct=100)",
        "alphazero(alphazero-time-pct=0)",
        "simple(base-pct=100,ply-pct=1,time-factor=100,opening-bonus-pct=1000)",
    ] {
        for control in [BULLET, BLITZ, CLASSIC, DELAY] {
            worst_of(description, control, 200, 15, 60);
        }
    }
}

/// The budget depends on the game ply. White's move 30 in a FEN is ply 58.
#[test]
fn the_budget_uses_the_game_ply_of_a_fen() {
    let budget = |fen: &str| {
        let position = Position::from_fen(fen).expect("a good FEN");
        let go = GoParams { wtime: Some(100_200), winc: Some(20), ..Default::default() };
        let mut manager = make_time_manager("simple").expect("a good description");
        let start = SearchStart::new(&position, 0);
        let mut hints = StopperHints::default();
        let stats = IterationStats { total_nodes: 1, ..Default::default() };
        build_stoppers(&options(200), &go, &start, &mut *manager).should_stop(&stats, &mut hints);
        hints.remaining_time.expect("a clock is given").as_secs_f64()
    };
    let first = budget("4k3/8/8/8/8/8/8/4KR2 w - - 0 1");
    let thirtieth = budget("4k3/8/8/8/8/8/8/4KR2 w - - 0 30");
    // Each of the 58 plies adds 0.049 % of 100 s.
    assert!((thirtieth - first - 58.0 * 0.049).abs() < 1e-3, "{first} {thirtieth}");
}

/// Any number of milliseconds that a GUI could send, with small ones more often.
fn any_ms() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        Just(None),
        Just(Some(0)),
        (0..500_u64).prop_map(Some),
        (0..10_000_000_u64).prop_map(Some),
        any::<u64>().prop_map(Some),
    ]
}

fn any_moves_to_go() -> impl Strategy<Value = Option<u32>> {
    prop_oneof![Just(None), (0..60_u32).prop_map(Some), any::<u32>().prop_map(Some)]
}

proptest! {
    /// Whatever happened in earlier moves, a budget is positive. It is at most the remaining time less the overhead, or
    /// at most 1 ms if less than that remains.
    #[test]
    fn every_budget_is_positive_and_within_the_remaining_time(
        manager in 0..MANAGERS.len(),
        overhead in prop_oneof![Just(0_u64), 0..1000_u64, Just(100_000_000)],
        worst_lag in 0..3000_u64,
        moves in prop::collection::vec(
            (any_ms(), any_ms(), any_moves_to_go(), any::<u16>(), 0..3_000_000_000_u32, any::<u32>(), any::<bool>()),
            1..12,
        ),
    ) {
        let mut manager = make_time_manager(MANAGERS[manager]).expect("a known name");
        for (time, increment, movestogo, ply, nodes, elapsed_ms, in_doubt) in moves {
            let go = GoParams { wtime: time, winc: increment, movestogo, ..Default::default() };
            let start = SearchStart {
                side_to_move: Color::White,
                game_ply: u32::from(ply),
                lag: Lag { worst: Duration::from_millis(worst_lag), usual: Duration::from_millis(worst_lag / 2) },
                ..SearchStart::new(&Position::startpos(), u64::from(nodes))
            };
            let mut stopper = build_stoppers(&options(overhead), &go, &start, &mut *manager);
            let mut stats = IterationStats {
                total_nodes: u64::from(nodes) + 1,
                edge_visits: vec![nodes, 0],
                time_usage_hint: if in_doubt { TimeUsageHint::NeedMoreTime } else { TimeUsageHint::Normal },
                ..Default::default()
            };
            let mut hints = StopperHints::default();
            let stops = stopper.should_stop(&stats, &mut hints);
            let clock = time.or(increment.filter(|&ms| ms > 0));
            prop_assert_eq!(hints.remaining_time.is_some(), clock.is_some());
            if let (Some(budget), Some(clock)) = (hints.remaining_time, clock) {
                let most = Duration::from_millis(clock.saturating_sub(overhead).max(1));
                prop_assert!(!stops && budget > Duration::ZERO && budget <= most, "{budget:?} of {most:?}");
            }
            stats.time_since_move_start = Duration::from_millis(u64::from(elapsed_ms));
            stats.time_since_first_batch = stats.time_since_move_start;
            stats.nodes_since_move_start = u64::from(nodes);
            stopper.should_stop(&stats, &mut StopperHints::default());
            stopper.on_search_done(&stats);
        }
    }
}
