//! A Stockfish process, controlled by UCI over pipes.
//!
//! The thread that owns the process sleeps in a read while Stockfish searches, and a read has no time limit. Through a
//! [`Watch`], another thread can kill a process that has been silent for too long. That ends the read.

use anyhow::{Context as _, Result, bail};
use labeler::layout::{MATE_SCORE, MAX_CENTIPAWNS, MAX_MOVES};
use rukh_chess::{Move, PositionHistory, uci_move};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Depth limit of a search. Only searches of tiny trees would go deeper; they would print many lines and find nothing
/// new.
const MAX_DEPTH: u32 = 40;

/// Lets another thread kill a silent process.
pub(crate) struct Watch {
    origin: Instant,
    /// The time at which the current read began, in milliseconds since `origin` plus one; 0 outside of reads.
    waiting_since: AtomicU64,
    process: Mutex<Option<Child>>,
}

impl Watch {
    /// Creates a watch without a process.
    pub(crate) fn new() -> Watch {
        Watch { origin: Instant::now(), waiting_since: AtomicU64::new(0), process: Mutex::new(None) }
    }

    /// Kills the process if it has been silent for longer than `limit`.
    pub(crate) fn check(&self, limit: Duration) {
        let since = self.waiting_since.load(Relaxed);
        if since != 0 && self.now() > since.saturating_add(limit.as_millis() as u64) {
            self.kill();
        }
    }

    fn now(&self) -> u64 {
        self.origin.elapsed().as_millis() as u64 + 1
    }

    fn kill(&self) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut child) = process.take() {
            // Nothing can be done if one of these calls fails.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A searched move and its score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScoredMove {
    /// A legal move of the searched position.
    pub(crate) m: Move,
    /// Centipawns; a mate in n moves is ±(32000 - n).
    pub(crate) score: i16,
}

/// The result of a search, from the view of the side to move.
#[derive(Clone, Debug)]
pub(crate) struct Findings {
    /// Probability of a win, permille.
    pub(crate) win: u16,
    /// Probability of a loss, permille.
    pub(crate) loss: u16,
    /// At least one move, best first.
    pub(crate) moves: Vec<ScoredMove>,
}

/// A running Stockfish. Dropping it ends the process.
pub(crate) struct Stockfish {
    watch: Arc<Watch>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The buffer of the commands of a search.
    command: String,
    line: Vec<u8>,
    /// The last `info` line of each rank in MultiPV.
    latest: [Vec<u8>; MAX_MOVES],
    multipv: usize,
    chess960: bool,
}

impl Stockfish {
    /// Starts the program and sets its options: one thread, 8 MB of hash, and win/draw/loss in its output.
    ///
    /// # Errors
    /// If it does not start or does not answer in UCI.
    pub(crate) fn start(path: &Path, watch: &Arc<Watch>) -> Result<Stockfish> {
        let mut child = Command::new(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // In a process group of its own, Stockfish does not get the terminal's Ctrl-C. Only this program gets it,
            // and closes the shards.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", path.display()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("no pipes to {}", path.display());
        };
        *watch.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        let mut engine = Stockfish {
            watch: Arc::clone(watch),
            input,
            output: BufReader::with_capacity(1 << 16, output),
            command: String::new(),
            line: Vec::new(),
            latest: Default::default(),
            multipv: 1,
            chess960: false,
        };
        engine.send("uci\n")?;
        engine.wait_for(b"uciok")?;
        engine.send(
            "setoption name Threads value 1\nsetoption name Hash value 8\n\
             setoption name UCI_ShowWDL value true\nisready\n",
        )?;
        engine.wait_for(b"readyok")?;
        Ok(engine)
    }

    /// Starts a new game.
    ///
    /// # Errors
    /// If the process is dead.
    pub(crate) fn new_game(&mut self, chess960: bool) -> Result<()> {
        if self.chess960 != chess960 {
            self.send(&format!("setoption name UCI_Chess960 value {chess960}\n"))?;
            self.chess960 = chess960;
        }
        self.send("ucinewgame\nisready\n")?;
        self.wait_for(b"readyok")
    }

    /// Searches the last position for `nodes`, with scores for the best `multipv` moves (at most 4).
    ///
    /// The position is sent without its history, except if it repeats an earlier one: then Stockfish gets the whole
    /// game, so that the winning side avoids another repetition.
    ///
    /// # Errors
    /// If the process dies, or prints a line that cannot be parsed.
    pub(crate) fn search(
        &mut self,
        history: &PositionHistory,
        nodes: u64,
        multipv: usize,
    ) -> Result<Findings> {
        let mut command = std::mem::take(&mut self.command);
        command.clear();
        if multipv != self.multipv {
            command.push_str(&format!("setoption name MultiPV value {multipv}\n"));
            self.multipv = multipv;
        }
        position_command(&mut command, history, self.chess960);
        command.push_str(&format!("go nodes {nodes} depth {MAX_DEPTH}\n"));
        let sent = self.send(&command);
        self.command = command;
        sent?;
        self.latest.iter_mut().for_each(Vec::clear);
        loop {
            self.read_line()?;
            if self.line.starts_with(b"info depth") {
                if let Some(rank) = rank_of(&self.line)
                    && let Some(latest) = self.latest.get_mut(rank)
                {
                    std::mem::swap(latest, &mut self.line);
                }
            } else if self.line.starts_with(b"bestmove ") {
                return self.findings(history);
            }
        }
    }

    fn findings(&self, history: &PositionHistory) -> Result<Findings> {
        let best = std::str::from_utf8(&self.line)?.split_ascii_whitespace().nth(1).unwrap_or_default();
        let best = uci_move::parse(history.last(), best)?;
        let mut found: Option<Findings> = None;
        for line in self.latest.iter().take_while(|line| !line.is_empty()) {
            let info = Info::parse(std::str::from_utf8(line)?)?;
            let m = uci_move::parse(history.last(), info.first_move)?;
            let scored = ScoredMove { m, score: info.score };
            match &mut found {
                None => {
                    let scored = ScoredMove { m: best, ..scored };
                    found = Some(Findings { win: info.win, loss: info.loss, moves: vec![scored] });
                }
                // A stop within an iteration leaves later moves with scores of the previous iteration, which may be
                // higher. Stockfish's order is kept, and the scores of these moves are capped.
                Some(found) => {
                    let limit = found.moves.last().map_or(i16::MAX, |last| last.score);
                    if found.moves.iter().all(|other| other.m != m) {
                        found.moves.push(ScoredMove { m, score: scored.score.min(limit) });
                    }
                }
            }
        }
        found.with_context(|| format!("a best move without a score in {}", history.last().to_fen()))
    }

    fn send(&mut self, text: &str) -> Result<()> {
        self.input.write_all(text.as_bytes()).context("cannot write to Stockfish")
    }

    fn wait_for(&mut self, answer: &[u8]) -> Result<()> {
        loop {
            self.read_line()?;
            if self.line.trim_ascii_end() == answer {
                return Ok(());
            }
        }
    }

    fn read_line(&mut self) -> Result<()> {
        self.line.clear();
        self.watch.waiting_since.store(self.watch.now(), Relaxed);
        let count = self.output.read_until(b'\n', &mut self.line);
        self.watch.waiting_since.store(0, Relaxed);
        if count.context("cannot read from Stockfish")? == 0 {
            bail!("Stockfish ended");
        }
        Ok(())
    }
}

impl Drop for Stockfish {
    fn drop(&mut self) {
        self.watch.waiting_since.store(0, Relaxed);
        self.watch.kill();
    }
}

/// Appends `position fen …`, with the moves of the game only if the last position repeats an earlier one.
fn position_command(command: &mut String, history: &PositionHistory, chess960: bool) {
    let last = history.last();
    let first = history.positions().first().filter(|_| last.repetitions() > 0);
    command.push_str("position fen ");
    command.push_str(&first.unwrap_or(last).to_fen());
    if first.is_some() {
        command.push_str(" moves");
        for pair in history.positions().windows(2) {
            command.push(' ');
            command.push_str(&move_between(&pair[0], &pair[1], chess960));
        }
    }
    command.push('\n');
}

/// The text of the move that leads from one position to the next.
fn move_between(before: &rukh_chess::Position, after: &rukh_chess::Position, chess960: bool) -> String {
    let leads = |m: &&Move| before.play(**m).key() == after.key();
    before.legal_moves().iter().find(leads).map(|&m| uci_move::text(m, chess960)).unwrap_or_default()
}

/// The rank of an `info` line in MultiPV, from 0; `None` if it has no `pv`.
fn rank_of(line: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(line).ok()?;
    let (head, _) = text.split_once(" pv ")?;
    let (_, rank) = head.split_once(" multipv ")?;
    rank.split_ascii_whitespace().next()?.parse::<usize>().ok()?.checked_sub(1)
}

/// The parsed terms of an `info` line.
struct Info<'a> {
    score: i16,
    win: u16,
    loss: u16,
    first_move: &'a str,
}

impl Info<'_> {
    fn parse(line: &str) -> Result<Info<'_>> {
        let mut score = None;
        let mut wdl = None;
        let mut words = line.split_ascii_whitespace();
        while let Some(word) = words.next() {
            match word {
                "cp" => {
                    let limit = i64::from(MAX_CENTIPAWNS);
                    score = Some(number(words.next())?.clamp(-limit, limit) as i16);
                }
                "mate" => {
                    let moves = number(words.next())?;
                    let distance = moves.unsigned_abs().min(1000) as i16;
                    score = Some(if moves > 0 { MATE_SCORE - distance } else { distance - MATE_SCORE });
                }
                "wdl" => wdl = Some((number(words.next())?, number(words.next())?, number(words.next())?)),
                "pv" => {
                    let (Some(score), Some((win, _, loss)), Some(first_move)) = (score, wdl, words.next())
                    else {
                        break;
                    };
                    let (win, loss) = (win.clamp(0, 1000), loss.clamp(0, 1000));
                    let loss = loss.min(1000 - win);
                    return Ok(Info { score, win: win as u16, loss: loss as u16, first_move });
                }
                _ => {}
            }
        }
        bail!("an info line without score, wdl and pv: {}", line.trim_end())
    }
}

fn number(word: Option<&str>) -> Result<i64> {
    let word = word.unwrap_or_default();
    word.parse().with_context(|| format!("expected a number from Stockfish, not `{word}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_chess::Position;

    #[test]
    fn scores_mates_and_bounds_are_read() {
        let line = "info depth 9 seldepth 11 multipv 2 score cp -34 wdl 20 900 80 upperbound nodes 2000 nps 1 \
                    hashfull 3 tbhits 0 time 3 pv e7e5 g1f3";
        assert_eq!(rank_of(line.as_bytes()), Some(1));
        let info = Info::parse(line).expect("a good line");
        assert_eq!((info.score, info.win, info.loss, info.first_move), (-34, 20, 80, "e7e5"));
        for (score, expected) in [("mate 3", 31997), ("mate -2", -31998), ("cp 99999", 30000)] {
            let line = format!("info depth 1 multipv 1 score {score} wdl 0 0 1000 pv a1a2");
            assert_eq!(Info::parse(&line).expect("a good line").score, expected);
        }
        assert_eq!(rank_of(b"info depth 20 currmove e2e4 currmovenumber 1"), None);
        assert!(Info::parse("info depth 1 multipv 1 score cp 5 pv e2e4").is_err());
    }

    /// Writes a program that speaks enough UCI to be started, and runs the shell command `answer` when it gets `go`.
    fn fake_stockfish(name: &str, answer: &str) -> std::path::PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("label-{name}-{}", std::process::id()));
        let script = format!(
            "#!/bin/sh\nwhile read word rest; do case $word in uci) echo uciok;; isready) echo readyok;; \
             go) {answer};; esac; done\n"
        );
        std::fs::write(&path, script).expect("a script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("permissions");
        path
    }

    fn search_with(name: &str, answer: &str) -> Result<Findings> {
        let path = fake_stockfish(name, answer);
        let watch = Arc::new(Watch::new());
        let watcher = Arc::clone(&watch);
        let limit = Duration::from_millis(500);
        std::thread::spawn(move || {
            for _ in 0..100 {
                std::thread::sleep(Duration::from_millis(50));
                watcher.check(limit);
            }
        });
        let mut engine = Stockfish::start(&path, &watch)?;
        engine.new_game(true)?;
        let findings = engine.search(&PositionHistory::new(Position::startpos()), 1, 4);
        std::fs::remove_file(path)?;
        findings
    }

    #[test]
    fn dead_silent_and_nonsensical_programs_are_errors() {
        let error = |name, answer| search_with(name, answer).expect_err(name).to_string();
        assert_eq!(error("dead", "exit 1"), "Stockfish ended");
        assert_eq!(error("mute", "exec sleep 60"), "Stockfish ended");
        assert!(error("illegal", "echo bestmove e2e5").contains("illegal move"));
        assert!(error("scoreless", "echo bestmove e2e4").contains("without a score"));
    }

    #[test]
    fn several_moves_come_best_first_and_once() {
        let info = |depth, rank, score, m| {
            format!("echo info depth {depth} multipv {rank} score cp {score} wdl 10 980 10 pv {m}; ")
        };
        let answer = [
            info(7, 1, 90, "a2a3"),
            info(8, 1, 20, "e2e4"),
            info(7, 2, 25, "d2d4"),
            info(7, 3, 5, "e2e4"),
            info(7, 4, -7, "c2c4"),
            "echo bestmove e2e4 ponder e7e5".to_owned(),
        ]
        .concat();
        let findings = search_with("several", &answer).expect("findings");
        let moves: Vec<(String, i16)> =
            findings.moves.iter().map(|scored| (uci_move::text(scored.m, false), scored.score)).collect();
        let expected = [("e2e4", 20), ("d2d4", 20), ("c2c4", -7)].map(|(m, score)| (m.to_owned(), score));
        assert_eq!(moves, expected);
        assert_eq!((findings.win, findings.loss), (10, 10));
    }

    #[test]
    fn only_a_repeated_position_is_sent_with_its_game() {
        let mut history = PositionHistory::new(Position::startpos());
        let mut command = String::new();
        for text in ["g1f3", "g8f6", "f3g1"] {
            history.push(uci_move::parse(history.last(), text).expect("test move"));
        }
        position_command(&mut command, &history, false);
        assert_eq!(command, "position fen rnbqkb1r/pppppppp/5n2/8/8/8/PPPPPPPP/RNBQKBNR b KQkq - 3 2\n");
        history.push(uci_move::parse(history.last(), "f6g8").expect("test move"));
        command.clear();
        position_command(&mut command, &history, false);
        let start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
        assert_eq!(command, format!("position fen {start} moves g1f3 g8f6 f3g1 f6g8\n"));
    }
}
