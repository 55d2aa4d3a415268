//! The binary plays whole games against itself: two processes, every line of theirs read and judged.
//!
//! One game for each kind of limit, with the `trivial` backend and with a small network on the CPU. What must hold:
//! each line is UCI, each move is legal, no answer is late, no flag falls, and both processes end well.

use crate::driver::{self, Driver};
use crate::uci_lines::is_uci;
use rukh::chess::{Color, Position, PositionHistory, uci_move};
use std::path::Path;
use std::time::{Duration, Instant};

/// The position 356 of Chess960, with castling as Shredder-FEN writes it.
const CHESS960: &str = "nbbrkrqn/pppppppp/8/8/8/8/PPPPPPPP/NBBRKRQN w FDfd - 0 1";

/// What a side may spend on a move.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Nodes(u32),
    MoveTime(Duration),
    Clock { base: Duration, increment: Duration },
}

/// Starts a player; a new game, and no move yet.
fn start_player(flags: &[&str], chess960: bool) -> Driver {
    let mut player = Driver::start(flags);
    player.send("uci");
    hear(&player, "uciok");
    player.send(&format!("setoption name UCI_Chess960 value {chess960}"));
    player.send("ucinewgame");
    player.send("isready");
    hear(&player, "readyok");
    player
}

/// The lines up to the one that begins so; nothing among them may be an error, or not UCI.
fn hear(player: &Driver, beginning: &str) -> Vec<String> {
    let lines = player.until(beginning);
    for line in &lines {
        assert!(is_uci(line), "not UCI: {line:?}");
        assert!(!line.starts_with("info string error"), "{line}");
    }
    lines
}

/// Says goodbye: the process has no more to say, and ends well.
fn finish(mut player: Driver) {
    player.send("quit");
    let last_words = player.says_something_within(driver::PATIENCE);
    assert_eq!(last_words, None, "after the last move");
    let status = player.ends_within(driver::PATIENCE);
    assert!(status.success(), "{status}");
}

/// Plays a game to its end, or to `most_plies`.
fn play_game(flags: &[&str], start: Option<&str>, limit: Limit, most_plies: usize) {
    let mut players = [0, 1].map(|_| start_player(flags, start.is_some()));
    let mut history = PositionHistory::new(match start {
        Some(fen) => Position::from_fen(fen).expect("a good FEN"),
        None => Position::startpos(),
    });
    let mut position = start.map_or("position startpos".to_owned(), |fen| format!("position fen {fen}"));
    let mut clocks = match limit {
        Limit::Clock { base, .. } => [base; 2],
        _ => [Duration::ZERO; 2],
    };
    let mut plies = 0;
    while history.result().is_none() && plies < most_plies {
        let side = usize::from(history.last().side_to_move() == Color::Black);
        let player = &mut players[side];
        let [wtime, btime] = clocks.map(|clock| clock.as_millis());
        let begun = Instant::now();
        player.send(&position);
        player.send(&match limit {
            Limit::Nodes(nodes) => format!("go nodes {nodes}"),
            Limit::MoveTime(time) => format!("go movetime {}", time.as_millis()),
            Limit::Clock { increment, .. } => {
                let increment = increment.as_millis();
                format!("go wtime {wtime} btime {btime} winc {increment} binc {increment}")
            }
        });
        let answer = hear(player, "bestmove");
        let spent = begun.elapsed();
        match limit {
            Limit::Nodes(_) => {}
            // A busy machine lets a thread wait; an engine that ignores its limit is later than this.
            Limit::MoveTime(time) => assert!(spent < time + Duration::from_secs(1), "{spent:?} for {time:?}"),
            Limit::Clock { increment, .. } => {
                let left = clocks[side].checked_sub(spent);
                clocks[side] =
                    left.unwrap_or_else(|| panic!("ply {plies}: {spent:?} of {clocks:?}")) + increment;
            }
        }
        let text = driver::best_move(&answer);
        let m = uci_move::parse(history.last(), text)
            .unwrap_or_else(|error| panic!("{}: {error}", history.last().to_fen()));
        history.push(m);
        if plies == 0 {
            position += " moves";
        }
        position += &format!(" {text}");
        plies += 1;
    }
    assert!(plies > 8, "that was no game: {position}");
    for player in players {
        finish(player);
    }
}

const TRIVIAL: [&str; 2] = ["--backend=trivial", "--threads=1"];

/// Plays with a small network, where there is one: in the repository or beside it.
fn play_with_network(start: Option<&str>, limit: Limit, most_plies: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["tests/data", "../shared/nets"].map(|folder| root.join(folder).join("micro-attn.pb.gz"));
    match files.iter().find(|file| file.exists()) {
        Some(file) => {
            let weights = format!("--weights={}", file.display());
            play_game(&[&weights, "--backend=cpu", "--threads=1"], start, limit, most_plies);
        }
        None => println!("skipped: no micro-attn.pb.gz in tests/data or ../shared/nets"),
    }
}

const FAST_CLOCK: Limit =
    Limit::Clock { base: Duration::from_millis(2500), increment: Duration::from_millis(40) };

#[test]
fn trivial_at_fixed_nodes() {
    play_game(&TRIVIAL, None, Limit::Nodes(60), 400);
}

#[test]
fn trivial_at_fixed_nodes_in_chess960() {
    play_game(&TRIVIAL, Some(CHESS960), Limit::Nodes(60), 400);
}

#[test]
fn trivial_at_fixed_time() {
    play_game(&TRIVIAL, None, Limit::MoveTime(Duration::from_millis(40)), 200);
}

#[test]
fn trivial_on_the_clock() {
    play_game(&TRIVIAL, Some(CHESS960), FAST_CLOCK, 300);
}

#[test]
fn a_network_at_fixed_nodes() {
    play_with_network(Some(CHESS960), Limit::Nodes(40), 200);
}

#[test]
fn a_network_at_fixed_time() {
    play_with_network(None, Limit::MoveTime(Duration::from_millis(40)), 200);
}

#[test]
fn a_network_on_the_clock() {
    play_with_network(None, FAST_CLOCK, 300);
}
