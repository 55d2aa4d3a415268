//! Whole games on the clock: no manager loses on time, and none sits on its time.
//!
//! The games are simulated: an engine that is asked as the search asks, with the lag of a real one between the
//! stop and the move's arrival. Hours of play take a second.

use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use rukh::chess::{Color, Position};
use rukh::options::Options;
use rukh::search::stop::ChainStopper;
use rukh::search::time::make_time_manager;
use rukh::search::{
    GoParams, IterationStats, SearchStart, Stopper, StopperHints, TimeUsageHint, build_stoppers,
};
use std::time::Duration;

const MANAGERS: [&str; 4] = ["legacy", "smooth", "alphazero", "simple"];

/// `base` ms for `moves` moves (the whole game, if `None`) and `increment` ms for each.
#[derive(Clone, Copy, Debug)]
struct Control {
    base: u64,
    increment: u64,
    moves: Option<u32>,
}

const BULLET: Control = Control { base: 1000, increment: 10, moves: None };
const BLITZ: Control = Control { base: 10_000, increment: 100, moves: None };
const CLASSIC: Control = Control { base: 60_000, increment: 0, moves: Some(40) };
/// Nothing but the increment: GUIs put the first one on the clock.
/// Not a millisecond but those at the start.
const SUDDEN_DEATH: Control = Control { base: 60_000, increment: 0, moves: None };
const DELAY: Control = Control { base: 1000, increment: 1000, moves: None };

/// Smart pruning is left to [`think`], which stops early by dice.
fn options(move_overhead: u64) -> Options {
    Options { move_overhead: move_overhead as u32, smart_pruning_factor: 0.0, ..Options::default() }
}

/// A search that asks as the watchdog does, and is as slow to stop as a batch is long.
///
/// Some searches end early, as smart pruning makes them; some are in doubt and ask for more time. Returns the ms
/// until the move is made, without lag.
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

/// What a game showed.
#[derive(Debug, Default)]
struct Record {
    /// The part of the time it was given that was used, the overhead aside.
    used: f64,
    /// The largest part of the clock that one move took, the last one before a control aside.
    largest_share: f64,
}

/// Plays `moves` moves; panics where the flag falls.
fn play_game(description: &str, control: Control, overhead: u64, lag: u64, moves: u32, seed: u64) -> Record {
    let mut dice = StdRng::seed_from_u64(seed);
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
        let start = SearchStart {
            side_to_move: side,
            game_ply: number * 2 + u32::from(side == Color::Black),
            reused_nodes: nodes,
        };
        let mut stopper = build_stoppers(&options(overhead), &go, &start, &mut *manager);
        let thought = think(&mut stopper, nodes, &mut dice);
        nodes = (thought * 20) / dice.random_range(2..20);
        let spent = thought + dice.random_range(0..=lag);
        assert!(
            spent <= left,
            "{description} {control:?}: lost on time at move {number}: {spent} of {left} ms (thought {thought})"
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

/// The worst over many games.
fn worst_of(description: &str, control: Control, overhead: u64, lag: u64, moves: u32) -> Record {
    (0..25).map(|seed| play_game(description, control, overhead, lag, moves, seed)).fold(
        Record { used: f64::MAX, largest_share: 0.0 },
        |worst, record| Record {
            used: worst.used.min(record.used),
            largest_share: worst.largest_share.max(record.largest_share),
        },
    )
}

#[test]
fn nobody_loses_on_time_or_sits_on_it() {
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

/// A network so large that its batch takes an eighth of a second, or a GUI at the other end of the world.
#[test]
fn a_heavy_lag_is_survived_where_the_increment_pays_for_it() {
    for manager in MANAGERS {
        for control in [BLITZ, CLASSIC, DELAY] {
            worst_of(manager, control, 200, 125, 100);
        }
    }
}

/// Settings at the ends of their ranges make bad managers, but no lost games.
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

/// The share of a move depends on plies really played: a FEN with move 30 is ply 58, not ply 30.
#[test]
fn a_fen_in_mid_game_counts_its_plies() {
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
    // 0.049 % of 100 s for each of 58 plies.
    assert!((thirtieth - first - 58.0 * 0.049).abs() < 1e-3, "{first} {thirtieth}");
}

/// Any number a GUI could send, with the interesting ones more often.
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
    /// Whatever happened in the moves before, a budget is above zero, and within what is on the clock less the
    /// overhead (where anything is).
    #[test]
    fn every_budget_is_above_zero_and_on_the_clock(
        manager in 0..MANAGERS.len(),
        overhead in prop_oneof![Just(0_u64), 0..1000_u64, Just(100_000_000)],
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
                reused_nodes: u64::from(nodes),
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
