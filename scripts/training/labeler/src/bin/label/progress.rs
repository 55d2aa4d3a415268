//! The progress of a run, shared by all threads, and the conditions that end it.

use rukh_chess::{Color, GameResult};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The counters and limits of a run.
pub(crate) struct Progress {
    started: Instant,
    /// `None` if the time is too long to be represented.
    deadline: Option<Instant>,
    max_positions: u64,
    /// Shared with the signal handlers.
    stopped: Arc<AtomicBool>,
    labelled: AtomicU64,
    repeated: AtomicU64,
    games: AtomicU64,
    white_wins: AtomicU64,
    draws: AtomicU64,
    black_wins: AtomicU64,
    failures: AtomicU64,
}

impl Progress {
    /// Starts the clock of a run.
    pub(crate) fn new(time: Duration, max_positions: u64) -> Progress {
        let started = Instant::now();
        Progress {
            started,
            deadline: started.checked_add(time),
            max_positions,
            stopped: Arc::default(),
            labelled: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            games: AtomicU64::new(0),
            white_wins: AtomicU64::new(0),
            draws: AtomicU64::new(0),
            black_wins: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    /// Whether the run has been stopped, has used its time, or has enough positions.
    pub(crate) fn is_over(&self) -> bool {
        self.stopped.load(Relaxed)
            || self.labelled.load(Relaxed) >= self.max_positions
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The flag that ends the run once it is true.
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stopped)
    }

    /// Ends the run.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// Counts a search of a new position, or of one that is labelled already.
    pub(crate) fn searched(&self, new: bool) {
        if new { &self.labelled } else { &self.repeated }.fetch_add(1, Relaxed);
    }

    /// Counts a game. `None` means that the game was broken off.
    pub(crate) fn played(&self, result: Option<GameResult>) {
        self.games.fetch_add(1, Relaxed);
        match result {
            Some(GameResult::Won(Color::White)) => &self.white_wins,
            Some(GameResult::Won(Color::Black)) => &self.black_wins,
            Some(GameResult::Drawn) => &self.draws,
            None => return,
        }
        .fetch_add(1, Relaxed);
    }

    /// Counts a Stockfish process that had to be replaced.
    pub(crate) fn failed(&self) {
        self.failures.fetch_add(1, Relaxed);
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.started.elapsed().as_secs_f64();
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        let labelled = count(&self.labelled);
        let (white, draws, black) = (count(&self.white_wins), count(&self.draws), count(&self.black_wins));
        let games = count(&self.games);
        write!(
            f,
            "{seconds:.0} s: {labelled} positions, {:.0}/s, {} repeated; {games} games: {white} won, {draws} drawn, \
             {black} lost, {} broken off; {} Stockfish restarts",
            labelled as f64 / seconds.max(0.001),
            count(&self.repeated),
            games.saturating_sub(white + draws + black),
            count(&self.failures),
        )
    }
}
