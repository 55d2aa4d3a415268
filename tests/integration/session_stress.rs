//! A GUI that sends random commands at random moments, while other threads keep the processors busy. The session must
//! not hang, every search must have its answer, and the memory must be given back.

use crate::driver::Driver;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rukh::uci::log::Log;
use rukh::uci::output::Output;
use rukh::uci::session::Session;
use rukh_chess::{Position, uci_move};
use rukh_options::Options;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The longest time that any answer may take.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Positions in which games begin: the usual start, a middlegame, an endgame, a position with one legal move, two
/// positions close to mate or stalemate, and one in which the king of the side that just moved can be taken.
const STARTS: [&str; 7] = [
    "startpos",
    "fen r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 10",
    "fen 8/8/8/8/8/2k5/2n5/KQ6 w - - 97 80",
    "fen 7k/8/8/8/8/8/1q6/K7 w - - 0 1",
    "fen 6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1",
    "fen 7k/5K2/8/6Q1/8/8/8/8 w - - 0 1",
    "fen 4k3/8/8/8/8/8/4R3/4K3 w - - 0 1",
];

/// Options that change threads, batches, memory and output; the last does not exist. [`Gui::settled`] sets the first
/// value of each of the others.
const OPTIONS: [(&str, &[&str]); 16] = [
    ("Backend", &["random", "trivial"]),
    ("BackendOptions", &["", "delay=1", "delay=15"]),
    ("Threads", &["2", "1", "5", "8"]),
    ("MinibatchSize", &["8", "1", "3", "256"]),
    ("NNCacheSize", &["20000", "0", "1", "300000"]),
    ("RamLimitMb", &["0", "1", "20"]),
    ("MultiPV", &["1", "4", "500"]),
    ("VerboseMoveStats", &["false", "true"]),
    ("SmartPruningFactor", &["1.33", "0"]),
    ("TimeManager", &["legacy", "smooth", "alphazero", "simple"]),
    ("MoveOverheadMs", &["200", "0"]),
    ("Ponder", &["false", "true"]),
    ("MinimumKLDGainPerNode", &["0", "0.0001"]),
    ("NodesPerSecondLimit", &["0", "1000"]),
    ("SyzygyPath", &[concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/syzygy"), "", "/no/such/directory"]),
    ("NoSuchOption", &["1"]),
];

/// Makes random UCI lines. It remembers the game and counts the searches.
struct Script {
    dice: StdRng,
    start: &'static str,
    moves: Vec<String>,
    /// The number of `go` lines so far.
    searches: u64,
}

impl Script {
    fn new(seed: u64) -> Script {
        Script { dice: StdRng::seed_from_u64(seed), start: STARTS[0], moves: Vec::new(), searches: 0 }
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.dice.random_range(0..choices.len())]
    }

    fn next_line(&mut self) -> String {
        match self.dice.random_range(0..20) {
            0 => "ucinewgame".to_owned(),
            1 | 2 => {
                (self.start, self.moves) = (self.one_of(&STARTS), Vec::new());
                self.position()
            }
            3..6 => {
                self.play_a_move();
                self.position()
            }
            6..9 => "stop".to_owned(),
            9 | 10 => "ponderhit".to_owned(),
            11 | 12 => {
                let (name, values) = self.one_of(&OPTIONS);
                format!("setoption name {name} value {}", self.one_of(values))
            }
            13 => self.one_of(&["isready", "setoption name ClearTree", "uci", "nonsense", ""]).to_owned(),
            _ => {
                self.searches += 1;
                self.go()
            }
        }
    }

    fn go(&mut self) -> String {
        let number = self.dice.random_range(0..40);
        match self.dice.random_range(0..10) {
            0..3 => "go infinite".to_owned(),
            3 => format!("go ponder wtime {number} btime {number} winc 5 binc 5"),
            4 => format!("go wtime {number} btime 30 movestogo 3"),
            5 => format!("go nodes {}", number * number),
            6 => format!("go movetime {number}"),
            7 => self.one_of(&["go", "go mate 2", "go depth 3", "go ponder", "go nodes 0"]).to_owned(),
            8 => "go nodes 500 searchmoves e2e4 a1a2 b1b8 nonsense".to_owned(),
            _ => format!("go infinite nodes {number}"),
        }
    }

    fn position(&self) -> String {
        format!("position {} moves {}", self.start, self.moves.join(" "))
    }

    /// Plays any legal move, if there is one and the game is still short.
    fn play_a_move(&mut self) {
        let mut position = match self.start.strip_prefix("fen ") {
            None => Position::startpos(),
            Some(fen) => Position::from_fen(fen).expect("a valid FEN"),
        };
        for text in &self.moves {
            position = position.play(uci_move::parse(&position, text).expect("a legal move"));
        }
        let legal = position.legal_moves();
        if !legal.is_empty() && self.moves.len() < 40 {
            let m = legal[self.dice.random_range(0..legal.len())];
            self.moves.push(uci_move::text(m, false));
        }
    }

    /// Sleeps for a random time, yields, or returns at once.
    fn pause(&mut self) {
        match self.dice.random_range(0..6) {
            0 => std::thread::sleep(Duration::from_micros(self.dice.random_range(0..20_000))),
            1 | 2 => std::thread::sleep(Duration::from_micros(self.dice.random_range(0..1000))),
            3 => std::thread::yield_now(),
            _ => {}
        }
    }
}

/// Threads that keep processors busy until this is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn start(threads: usize) -> Load {
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..threads {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Load(is_over)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The memory and the threads of a process, read from Linux's `/proc`.
#[derive(Debug)]
struct Footprint {
    resident_mib: u64,
    threads: u64,
}

fn footprint(process: u32) -> Option<Footprint> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let number = |name: &str| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
    };
    Some(Footprint { resident_mib: number("VmRSS:")? / 1024, threads: number("Threads:")? })
}

/// The real program, with the script of the lines to send and a count of the best moves received.
struct Gui {
    engine: Driver,
    script: Script,
    answered: u64,
}

impl Gui {
    fn start(seed: u64) -> Gui {
        Gui { engine: Driver::start(&["--backend=random"]), script: Script::new(seed), answered: 0 }
    }

    /// Waits until the engine answers `isready`. `after` is the line that was sent before, for the failure message.
    fn wait_until_ready(&mut self, after: &str) {
        let sent = Instant::now();
        let said = self.engine.ask("");
        let took = sent.elapsed();
        assert!(took < LONGEST_WAIT, "`isready` after `{after}` took {took:?}");
        self.count(&said);
    }

    fn count(&mut self, said: &[String]) {
        self.answered += said.iter().filter(|line| line.starts_with("bestmove ")).count() as u64;
        assert!(self.answered <= self.script.searches, "more answers than searches: {said:#?}");
    }

    /// Sends some commands and then `stop`, after which every `go` must have its answer.
    fn sequence(&mut self) {
        let mut sent = String::new();
        for _ in 0..self.script.dice.random_range(1..16) {
            sent = self.script.next_line();
            self.engine.send(&sent);
            self.script.pause();
            if self.script.dice.random_bool(0.2) {
                self.wait_until_ready(&sent);
            }
        }
        self.stop(&sent);
    }

    fn stop(&mut self, after: &str) {
        let stopped = Instant::now();
        self.engine.send("stop");
        self.wait_until_ready(after);
        while self.answered < self.script.searches {
            let said = self.engine.until("bestmove ");
            self.count(&said);
        }
        let took = stopped.elapsed();
        assert!(took < LONGEST_WAIT, "the answer to `stop` after `{after}` took {took:?}");
    }

    /// The footprint of the idle engine, after a small search with the first value of every option.
    fn settled(&mut self) -> Option<Footprint> {
        for (name, values) in &OPTIONS[..OPTIONS.len() - 1] {
            self.engine.ask(&format!("setoption name {name} value {}", values[0]));
        }
        self.engine.ask("ucinewgame");
        self.engine.ask("position startpos");
        self.engine.search("go nodes 1000");
        self.engine.ask("ucinewgame");
        // The threads of a search end shortly after its answer.
        let deadline = Instant::now() + LONGEST_WAIT;
        loop {
            let found = footprint(self.engine.process_id())?;
            if found.threads == IDLE_THREADS || Instant::now() > deadline {
                return Some(found);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn run(&mut self, sequences: u32) {
        for _ in 0..sequences {
            self.sequence();
        }
        assert_eq!(self.answered, self.script.searches);
    }
}

/// The threads of an engine that waits for a command: the session's, and the one that reads stdin.
const IDLE_THREADS: u64 = 2;

/// Growth of the least reading beyond this is a leak; growth below it may be memory that the allocator keeps.
const SPARE_MIB: u64 = 24;

/// How often the memory is read in each half of the sequences after the warm-up. What the allocator keeps rises and
/// falls by up to 40 MiB from one reading to the next, because searches of many threads take memory from many arenas. A
/// leak raises all later readings, so the least one of each half counts.
const READINGS: usize = 3;

fn stress(seed: u64, sequences: u32, load: usize) {
    let _load = Load::start(load);
    let mut gui = Gui::start(seed);
    // After these sequences, the allocator has about as many arenas as it will ever have.
    gui.run(sequences);
    let mut read = || {
        gui.run(sequences / READINGS as u32);
        gui.settled()
    };
    let found: Option<Vec<Footprint>> = (0..2 * READINGS).map(|_| read()).collect();
    println!("{} searches: {found:?}", gui.script.searches);
    if let Some(found) = found {
        let (earlier, later) = found.split_at(READINGS);
        let least = |half: &[Footprint]| half.iter().map(|footprint| footprint.resident_mib).min();
        assert!(least(later) <= least(earlier).map(|mib| mib + SPARE_MIB), "{found:?}");
        assert!(
            found.iter().all(|footprint| footprint.threads == IDLE_THREADS),
            "a thread of a search is left: {found:?}"
        );
    }
    gui.engine.send("quit");
    assert!(gui.engine.ends_within(LONGEST_WAIT).success());
}

#[test]
fn a_session_answers_whatever_comes_and_gives_its_memory_back() {
    stress(1, 40, 2);
}

/// To run it: `cargo test --test integration thousand_sequences -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn a_thousand_sequences_under_load() {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    stress(2, 1000, 2 * processors);
}

/// Collects the output of a session.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics while it holds the lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn best_moves(&self) -> u64 {
        let bytes = self.0.lock().expect("no test panics while it holds the lock").clone();
        String::from_utf8(bytes)
            .expect("the output is UTF-8")
            .lines()
            .filter(|line| line.starts_with("bestmove "))
            .count() as u64
    }
}

#[test]
fn a_session_leaves_no_visit_in_flight() {
    for seed in 10..16 {
        let sink = Sink::default();
        let log = Arc::new(Log::default());
        let output = Output::new(Box::new(sink.clone()), Arc::clone(&log), |error| panic!("{error}"));
        let mut options = Options::default();
        options.set("Backend", "random").expect("a valid option");
        let mut session = Session::new(options, Arc::new(output), log, false);
        let mut script = Script::new(seed);
        for step in 0..150 {
            let line = script.next_line();
            let sent = Instant::now();
            assert!(session.handle(&line).is_continue());
            let took = sent.elapsed();
            assert!(took < LONGEST_WAIT, "seed {seed}, step {step}: `{line}` took {took:?}");
            script.pause();
        }
        let tree = session.engine().finished_tree();
        tree.check_invariants().unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        assert_eq!(sink.best_moves(), script.searches, "seed {seed}");
    }
}
