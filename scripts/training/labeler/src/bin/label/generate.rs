//! The threads of a run. Most of them play games, each with a Stockfish process of its own. One thread writes the
//! records, and another watches the Stockfish processes.

use crate::game::{self, Plan};
use crate::progress::Progress;
use crate::seen::Seen;
use crate::stockfish::{Stockfish, Watch};
use anyhow::{Context as _, Result, ensure};
use labeler::record::Record;
use labeler::shards::{ShardWriter, complete_shards, read_shard};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A Stockfish process that prints nothing for longer than this is replaced.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);
/// The same limit once the run is over.
const FINAL_SILENCE_LIMIT: Duration = Duration::from_secs(2);
/// Consecutive failures after which a thread gives up.
const MAX_FAILURES: u32 = 20;
/// Time between two lines of progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// The number of finished games that may wait for the writer.
const QUEUE: usize = 1024;

/// The settings of a run.
pub(crate) struct Settings {
    /// The path of the Stockfish program.
    pub(crate) stockfish: PathBuf,
    /// Stockfish processes at a time.
    pub(crate) processes: usize,
    /// The folder of the shards.
    pub(crate) output: PathBuf,
    /// The seed of all random choices.
    pub(crate) seed: u64,
    /// One game in this many goes to the held-out shards.
    pub(crate) heldout_every: u32,
    /// Positions in a full shard.
    pub(crate) shard_positions: usize,
    /// The age at which a shard is closed, full or not.
    pub(crate) shard_age: Duration,
    /// The way games are played.
    pub(crate) plan: Plan,
}

/// The records of a game on their way to the writer.
struct GameRecords {
    held_out: bool,
    records: Vec<Record>,
}

/// Writes shards until `progress` is over.
///
/// # Errors
/// If files cannot be written, or no Stockfish process works.
pub(crate) fn generate(settings: &Settings, progress: &Progress) -> Result<()> {
    std::fs::create_dir_all(&settings.output)
        .with_context(|| format!("cannot create {}", settings.output.display()))?;
    let seen = Seen::new();
    let known = remember_shards(settings, &seen)?;
    if known > 0 {
        eprintln!("label: {known} positions in {} are already labelled", settings.output.display());
    }
    let watches: Vec<Arc<Watch>> = (0..settings.processes).map(|_| Arc::new(Watch::new())).collect();
    let next_game = AtomicU32::new(0);
    let done = (Mutex::new(false), Condvar::new());
    let (sender, receiver) = sync_channel(QUEUE);
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let result = write(settings, receiver);
            // Without the writer, no more games would be stored.
            progress.stop();
            result
        });
        scope.spawn(|| report(progress, &watches, &done));
        let players: Vec<_> = watches
            .iter()
            .map(|watch| {
                let sender = sender.clone();
                let (seen, next_game) = (&seen, &next_game);
                scope.spawn(move || play_games(settings, watch, seen, progress, next_game, &sender))
            })
            .collect();
        drop(sender);
        let mut failures = Vec::new();
        for player in players {
            match player.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => failures.push(error),
                Err(_) => failures.push(anyhow::anyhow!("a thread panicked")),
            }
        }
        let written = writer.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the writer panicked")));
        *done.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        done.1.notify_all();
        // Usually all threads fail for the same reason.
        if let Some(failure) = failures.first() {
            eprintln!("label: {failure:#}");
        }
        let (positions, shards) = written?;
        ensure!(
            failures.len() < settings.processes,
            "every Stockfish process has failed; {positions} positions were written"
        );
        Ok((positions, shards))
    });
    let (positions, shards) = written?;
    eprintln!("label: {progress}");
    eprintln!("label: wrote {positions} positions in {shards} shards to {}", settings.output.display());
    Ok(())
}

/// Reads the positions of earlier runs into `seen`; returns their number.
fn remember_shards(settings: &Settings, seen: &Seen) -> Result<u64> {
    let mut count = 0;
    for shard in complete_shards(&settings.output)? {
        let read = read_shard(&shard, |record| count += u64::from(seen.insert(record.position_hash())));
        if let Err(error) = read {
            eprintln!("label: {error:#}");
        }
    }
    Ok(count)
}

/// The body of a playing thread: plays game after game with one Stockfish at a time.
fn play_games(
    settings: &Settings,
    watch: &Arc<Watch>,
    seen: &Seen,
    progress: &Progress,
    next_game: &AtomicU32,
    sender: &SyncSender<GameRecords>,
) -> Result<()> {
    let mut engine = None;
    let mut failures = 0;
    while !progress.is_over() {
        let mut running = match engine.take() {
            Some(running) => running,
            None => match Stockfish::start(&settings.stockfish, watch) {
                Ok(started) => started,
                Err(error) => {
                    failures += 1;
                    if failures >= MAX_FAILURES {
                        return Err(error.context("a thread has given up"));
                    }
                    thread::sleep(Duration::from_millis(200));
                    continue;
                }
            },
        };
        let nth = next_game.fetch_add(1, Relaxed);
        let number = first_game(settings.seed).wrapping_add(nth);
        let mut rng = StdRng::seed_from_u64(settings.seed.rotate_left(32) ^ u64::from(nth));
        let game = game::play(&mut running, &settings.plan, number, &mut rng, seen, progress);
        progress.played(game.result);
        match game.failure {
            None => {
                engine = Some(running);
                failures = 0;
            }
            Some(error) => {
                failures += 1;
                progress.failed();
                eprintln!("label: {error:#}; replacing this Stockfish process");
                if failures >= MAX_FAILURES {
                    return Err(error.context("a thread has given up"));
                }
            }
        }
        let held_out = nth.is_multiple_of(settings.heldout_every);
        if sender.send(GameRecords { held_out, records: game.records }).is_err() {
            break;
        }
    }
    Ok(())
}

/// The number of the first game of a run. The numbers for different seeds are far apart.
fn first_game(seed: u64) -> u32 {
    // Fibonacci hashing.
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// The body of the writing thread; returns the numbers of positions and shards written.
fn write(settings: &Settings, receiver: Receiver<GameRecords>) -> Result<(u64, u32)> {
    let shards = |prefix| {
        ShardWriter::new(
            &settings.output,
            prefix,
            settings.seed,
            settings.shard_positions,
            settings.shard_age,
        )
    };
    let mut train = shards("train");
    let mut held_out = shards("heldout");
    loop {
        match receiver.recv_timeout(Duration::from_secs(1)) {
            Ok(game) => if game.held_out { &mut held_out } else { &mut train }.write(&game.records)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        train.close_if_old()?;
        held_out.close_if_old()?;
    }
    train.close()?;
    held_out.close()?;
    let ((positions, files), (more_positions, more_files)) = (train.counts(), held_out.counts());
    Ok((positions + more_positions, files + more_files))
}

/// The body of the watching thread: kills processes that are silent for too long, and prints the progress.
fn report(progress: &Progress, watches: &[Arc<Watch>], done: &(Mutex<bool>, Condvar)) {
    let mut printed = Instant::now();
    let mut is_done = done.0.lock().unwrap_or_else(PoisonError::into_inner);
    while !*is_done {
        let (guard, _) =
            done.1.wait_timeout(is_done, Duration::from_secs(1)).unwrap_or_else(PoisonError::into_inner);
        is_done = guard;
        let limit = if progress.is_over() { FINAL_SILENCE_LIMIT } else { SILENCE_LIMIT };
        for watch in watches {
            watch.check(limit);
        }
        if printed.elapsed() >= REPORT_INTERVAL && !*is_done {
            printed = Instant::now();
            eprintln!("label: {progress}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;
    use crate::explorer::Explorer;
    use crate::openings::Shares;
    use rukh_net::discover::EMBEDDED;
    use std::path::Path;

    fn settings(stockfish: &Path, output: &Path, seed: u64) -> Settings {
        let shares = Shares { chess960: 0.3, endgame: 0.3 };
        let explorer = Explorer::load(EMBEDDED, 0.5).expect("a network");
        Settings {
            stockfish: stockfish.to_owned(),
            processes: 2,
            output: output.to_owned(),
            seed,
            heldout_every: 3,
            shard_positions: 100,
            shard_age: Duration::from_secs(60),
            plan: Plan {
                nodes: 100,
                multipv_nodes: 200,
                multipv_share: 0.25,
                shares,
                explorer: Some(explorer),
            },
        }
    }

    #[test]
    fn shards_of_two_runs_are_whole_and_share_no_position() {
        let stockfish = Path::new("/usr/games/stockfish");
        if !stockfish.exists() {
            eprintln!("skipped: there is no {}", stockfish.display());
            return;
        }
        let output = std::env::temp_dir().join(format!("label-test-{}", std::process::id()));
        for seed in [1, 2] {
            let progress = Progress::new(Duration::from_secs(60), 1500);
            generate(&settings(stockfish, &output, seed), &progress).expect("a run");
        }
        let shards = complete_shards(&output).expect("the folder");
        check::check(&shards).expect("good records");
        let (seen, mut count, mut distinct) = (Seen::new(), 0, 0);
        let mut games = [std::collections::HashSet::new(), std::collections::HashSet::new()];
        for shard in &shards {
            let held_out =
                shard.file_name().is_some_and(|name| name.to_string_lossy().starts_with("heldout"));
            let each = |record: &Record| {
                count += 1;
                distinct += u64::from(seen.insert(record.position_hash()));
                games[usize::from(held_out)].insert(record.game());
            };
            read_shard(shard, each).expect("a shard");
        }
        assert!((3000..3010).contains(&count) && distinct == count, "{distinct} of {count} positions");
        assert!(games[0].is_disjoint(&games[1]) && games[1].len() >= 2, "{games:?}");
        let files = std::fs::read_dir(&output).expect("the folder").count();
        assert_eq!(files, shards.len(), "{} has files other than complete shards", output.display());
        std::fs::remove_dir_all(&output).expect("cleaning up");
    }

    #[test]
    fn without_stockfish_a_run_fails_instead_of_waiting() {
        let output = std::env::temp_dir().join(format!("label-test-none-{}", std::process::id()));
        let progress = Progress::new(Duration::from_secs(3600), u64::MAX);
        let error = generate(&settings(Path::new("/nonexistent/stockfish"), &output, 1), &progress);
        assert!(error.is_err_and(|error| error.to_string().contains("every Stockfish process has failed")));
        std::fs::remove_dir_all(&output).expect("cleaning up");
    }
}
