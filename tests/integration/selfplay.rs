//! Two processes of the binary play whole games against each other, and every line that they write is checked.
//!
//! There is at least one game for each kind of limit, with the `trivial` backend and with a small network on the CPU.
//! Each line must be UCI, each move must be legal, no answer may be late, no player may lose on time, and both
//! processes must exit successfully.

use crate::driver::{self, Driver};
use crate::uci_lines::is_uci;
use rukh_chess::{Color, Position, PositionHistory, uci_move};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Starting position 356 of Chess960, with its castling rights as in Shredder-FEN.
const CHESS960: &str = "nbbrkrqn/pppppppp/8/8/8/8/PPPPPPPP/NBBRKRQN w FDfd - 0 1";

/// The limit of every search in a game.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Nodes(u32),
    MoveTime(Duration),
    Clock { base: Duration, increment: Duration },
}

/// Starts an engine process and a new game in it.
fn start_player(flags: &[&str], chess960: bool) -> Driver {
    let mut player = Driver::start(flags);
    player.send("uci");
    read_until(&player, "uciok");
    player.send(&format!("setoption name UCI_Chess960 value {chess960}"));
    player.send("ucinewgame");
    player.send("isready");
    read_until(&player, "readyok");
    player
}

/// Reads up to a line that begins with `beginning`. Every line must be UCI, and none may be an error.
fn read_until(player: &Driver, beginning: &str) -> Vec<String> {
    let lines = player.until(beginning);
    for line in &lines {
        assert!(is_uci(line), "not UCI: {line:?}");
        assert!(!line.starts_with("info string error"), "{line}");
    }
    lines
}

/// Sends `quit`. The process must exit successfully and write nothing more.
fn finish(mut player: Driver) {
    player.send("quit");
    let next_line = player.next_line_within(driver::PATIENCE);
    assert_eq!(next_line, None, "a line after the last move");
    let status = player.ends_within(driver::PATIENCE);
    assert!(status.success(), "{status}");
}

/// The shortest time that counts as one in which the machine stands still. The engine must cope with shorter ones.
const LEAST_STALL: Duration = Duration::from_millis(50);

/// The time for which a watching thread, which sleeps for a millisecond at a time, was not woken: the whole machine has
/// stood still, as a virtual machine does while others have its processors. No engine can do anything about that.
struct Stalls(Arc<AtomicU64>);

impl Stalls {
    fn watch() -> Stalls {
        let microseconds = Arc::new(AtomicU64::new(0));
        let noted = Arc::downgrade(&microseconds);
        std::thread::spawn(move || {
            let mut begun = Instant::now();
            while let Some(noted) = noted.upgrade() {
                std::thread::sleep(Duration::from_millis(1));
                let slept = begun.elapsed();
                begun = Instant::now();
                if slept >= LEAST_STALL {
                    noted.fetch_add(slept.as_micros() as u64, Ordering::Relaxed);
                }
            }
        });
        Stalls(microseconds)
    }

    /// Subtracts the time that was noted, and forgets it.
    fn take_off(&self, time: Duration) -> Duration {
        time.saturating_sub(Duration::from_micros(self.0.swap(0, Ordering::Relaxed)))
    }
}

/// Plays a game from `start` (the usual position, if `None`) to its end, but no more than `most_plies` plies.
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
    let (mut plies, stalls) = (0, Stalls::watch());
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
        let answer = read_until(player, "bestmove");
        let mut spent = stalls.take_off(begun.elapsed());
        if matches!(limit, Limit::Clock { .. }) && spent > clocks[side] {
            // The engine may have woken up before the thread that watches.
            std::thread::sleep(LEAST_STALL);
            spent = stalls.take_off(spent);
        }
        match limit {
            Limit::Nodes(_) => {}
            // A busy machine may delay a thread; an engine that ignores its limit is later than this.
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
    assert!(plies > 8, "the game ended too early: {position}");
    for player in players {
        finish(player);
    }
}

const TRIVIAL: [&str; 2] = ["--backend=trivial", "--threads=1"];

/// Plays with the small network micro-attn on the CPU.
fn play_with_network(start: Option<&str>, limit: Limit, most_plies: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["tests/data", "../shared/nets"].map(|folder| root.join(folder).join("micro-attn.pb.gz"));
    match files.iter().find(|file| file.exists()) {
        Some(file) => {
            let weights = format!("--weights={}", file.display());
            play_game(&[&weights, "--backend=cpu", "--threads=1"], start, limit, most_plies);
        }
        None => println!("skipped: micro-attn.pb.gz is neither in tests/data nor in ../shared/nets"),
    }
}

const FAST_CLOCK: Limit =
    Limit::Clock { base: Duration::from_millis(2500), increment: Duration::from_millis(40) };

#[test]
fn trivial_plays_with_a_node_limit() {
    play_game(&TRIVIAL, None, Limit::Nodes(60), 400);
}

#[test]
fn trivial_plays_chess960_with_a_node_limit() {
    play_game(&TRIVIAL, Some(CHESS960), Limit::Nodes(60), 400);
}

#[test]
fn trivial_plays_at_a_fixed_time_per_move() {
    play_game(&TRIVIAL, None, Limit::MoveTime(Duration::from_millis(40)), 200);
}

#[test]
fn trivial_plays_chess960_on_a_clock() {
    play_game(&TRIVIAL, Some(CHESS960), FAST_CLOCK, 300);
}

#[test]
fn a_network_plays_chess960_with_a_node_limit() {
    play_with_network(Some(CHESS960), Limit::Nodes(40), 200);
}

#[test]
fn a_network_plays_at_a_fixed_time_per_move() {
    play_with_network(None, Limit::MoveTime(Duration::from_millis(40)), 200);
}

#[test]
fn a_network_plays_on_a_clock() {
    play_with_network(None, FAST_CLOCK, 300);
}
