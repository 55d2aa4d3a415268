//! `selfplay --training` through the real binary: what the records say is what the engine computes, and whatever ends
//! the process, every file is whole.

use crate::driver::{Driver, best_move, rukh, run, run_any};
use crate::tournaments::trivial;
use rukh::selfplay::training::chunk::read_chunk;
use rukh::selfplay::training::planes::read_planes;
use rukh::selfplay::training::record::{Record, flags};
use rukh_backend::synthetic::RandomBackend;
use rukh_backend::{Added, Backend, EvalRequest, Value};
use rukh_chess::{Color, Position, PositionHistory, uci_move};
use rukh_net::InputFormat;
use rukh_net::input::{HistoryFill, encode};
use rukh_net::policy_index::index_of;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A search that gives the same figures whenever it is repeated. These are the options of training games, but without
/// chance, and without a cache, which would change the order of evaluations.
const SAME_SEARCH: &[&str] = &[
    "--backend=random",
    "--nncache=0",
    "--threads=1",
    "--minibatch-size=8",
    "--max-prefetch=0",
    "--smart-pruning-factor=0",
    "--search=classic",
    "--no-graph-search",
    "--cpuct=1.2",
    "--cpuct-factor=0",
    "--fpu-value=0",
    "--policy-softmax-temp=1.3",
    "--max-collision-events=1",
    "--max-collision-visits=1",
    "--no-out-of-order-eval",
    "--history-fill=no",
    "--temperature=0",
    "--noise-epsilon=0",
    "--no-sticky-endgames",
    "--no-two-fold-draws",
];

fn chunk_of(path: &Path) -> Vec<Record> {
    read_chunk(File::open(path).unwrap()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The paths in `folder` that end with `suffix`, in order.
fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| path.display().to_string().ends_with(suffix)).collect();
    found.sort();
    found
}

/// The words of a line `gameready` between two of its keywords.
fn between<'a>(line: &'a str, first: &str, second: &str) -> &'a str {
    let rest = line.split_once(&format!(" {first} ")).unwrap_or_else(|| panic!("no {first} in {line}")).1;
    rest.split_once(&format!(" {second}")).map_or(rest, |(words, _)| words)
}

/// The number after `label` in a line of statistics, as in `(WL:  0.12345)`.
fn figure(line: &str, label: &str) -> f32 {
    let rest = line.split_once(label).unwrap_or_else(|| panic!("no {label} in {line}")).1;
    rest.trim_start().split([' ', ')', '%']).next().unwrap().parse().unwrap()
}

fn assert_close(found: f32, expected: f32, tolerance: f32, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found} in the record, {expected} in the search");
}

/// The backend's own value of the last position.
fn evaluation(backend: &RandomBackend, history: &PositionHistory) -> Value {
    let mut moves = Vec::new();
    history.last().packed_moves(&mut moves);
    let mut batch = backend.new_batch();
    match batch.add(EvalRequest { history, moves: &moves }) {
        Added::Ready(evaluation) => evaluation.value,
        Added::Queued => batch.submit().wait().unwrap().iter().next().unwrap().0,
    }
}

/// Another process searches each position of a game again and prints its statistics, which are those of the record.
#[test]
fn records_hold_what_the_search_prints() {
    let folder = TempDir::new().unwrap();
    let chunks = folder.path().join("chunks");
    let directory = format!("--training-dir={}", chunks.display());
    let own = ["--training", "--games=1", "--visits=24", "--chess960", &directory];
    let output = run(&[&["selfplay"], SAME_SEARCH, &own].concat());
    let game = output.lines().find(|line| line.starts_with("gameready")).unwrap();
    let path = PathBuf::from(between(game, "trainingfile", "gameid"));
    assert_eq!(path, chunks.join("game_000000.gz"));
    let records = chunk_of(&path);
    let moves: Vec<&str> = between(game, "moves", "from_fen").split(' ').collect();
    assert_eq!(records.len(), moves.len());
    let for_white: f32 = match between(game, "result", "moves") {
        "whitewon" => 1.0,
        "draw" => 0.0,
        _ => -1.0,
    };

    let mut engine = Driver::start(&[SAME_SEARCH, &["--verbose-move-stats", "--chess960"]].concat());
    let backend = RandomBackend::default();
    let mut history = PositionHistory::new(Position::startpos());
    let mut castlings = 0;
    let estimate = records.last().unwrap().best_m.get();
    for (ply, record) in records.iter().enumerate() {
        let where_ = format!("ply {ply}, {}", history.last().to_fen());
        let (planes, _) = encode(&history, InputFormat::Classical112, HistoryFill::No);
        assert_eq!(read_planes(record).unwrap(), planes, "{where_}");

        let own = evaluation(&backend, &history);
        engine.send("ucinewgame");
        engine.send(format!("position startpos moves {}", moves[..ply].join(" ")).trim_end());
        engine.send("go nodes 24");
        let lines = engine.until("bestmove");
        let statistics = |line: &&String| line.starts_with("info string ") && line.contains("(WL:");
        let (root, rows): (Vec<&String>, Vec<&String>) =
            lines.iter().filter(statistics).partition(|line| line.contains(" node "));
        let [root] = root[..] else { panic!("{lines:?}") };
        let visits = |row: &str| figure(row, "N:");
        let total: f32 = rows.iter().map(|row| visits(row)).sum();
        let mut legal = 0;
        for row in &rows {
            let index =
                row.split_once('(').unwrap().1.split_once(')').unwrap().0.trim().parse::<usize>().unwrap();
            assert_close(
                record.probabilities[index].get(),
                visits(row) / total,
                1e-6,
                &format!("{where_}: {row}"),
            );
            legal += 1;
        }
        let shares = record.probabilities.iter().filter(|share| share.get() >= 0.0).count();
        assert_eq!((shares, legal), (legal, history.last().legal_moves().len()), "{where_}");

        let played = moves[ply];
        assert_eq!(best_move(&lines), played, "{where_}");
        let m = uci_move::parse(history.last(), played).unwrap();
        castlings += u32::from(m.is_castle());
        let best = rows.iter().find(|row| row.split_whitespace().nth(2) == Some(played)).unwrap();
        for (found, expected, tolerance, what) in [
            (record.root_q.get(), figure(root, "WL:"), 6e-6, "root_q"),
            (record.root_d.get(), figure(root, "D:"), 6e-4, "root_d"),
            (record.root_m.get(), figure(root, "M:"), 0.06, "root_m"),
            (record.orig_q.get(), own.q, 0.0, "orig_q"),
            (record.orig_d.get(), own.d, 0.0, "orig_d"),
            (record.orig_m.get(), own.m, 0.0, "orig_m"),
            (record.best_q.get(), figure(best, "WL:"), 6e-6, "best_q"),
            (record.best_d.get(), figure(best, "D:"), 6e-4, "best_d"),
            // The line counts the plies after the move.
            (record.best_m.get(), figure(best, "M:") + 1.0, 0.06, "best_m"),
            (record.played_q.get(), figure(best, "WL:"), 6e-6, "played_q"),
            (record.plies_left.get(), estimate + (records.len() - 1 - ply) as f32, 1e-4, "plies_left"),
        ] {
            assert_close(found, expected, tolerance, &format!("{where_}: {what}"));
        }
        assert_eq!(record.visits.get() as f32, visits(root), "{where_}");
        let side = history.last().side_to_move();
        let index = index_of(rukh_chess::PackedMove::new(m), side, 0);
        assert_eq!((record.best_idx.get(), record.played_idx.get()), (index, index), "{where_}");
        let result = if side == Color::White { for_white } else { -for_white };
        assert_eq!(
            (record.result_q.get(), record.result_d.get()),
            (result, 1.0 - for_white.abs()),
            "{where_}"
        );
        let ended = if moves.len() >= 450 { flags::ADJUDICATED | flags::TOO_LONG } else { 0 };
        assert_eq!(record.invariance_info & !flags::BEST_IS_PROVEN, ended, "{where_}");
        history.push(m);
    }
    println!("{} records, {castlings} castlings", records.len());
}

#[test]
fn runs_go_on_in_one_folder_and_training_games_have_lc0s_defaults() {
    let folder = TempDir::new().unwrap();
    let directory = format!("--training-dir={}", folder.path().display());
    let training = ["--training", "--visits=16", "--games=4", "--parallelism=1", &directory];
    for run_number in 1..=2 {
        let output = run(&trivial(&training));
        assert!(output.contains("4 games"), "{output}");
        assert_eq!(files(folder.path(), ".gz").len(), 4 * run_number);
    }
    assert_eq!(files(folder.path(), "").len(), 8, "nothing else is left");
    let chunks: Vec<Vec<Record>> = files(folder.path(), ".gz").iter().map(|path| chunk_of(path)).collect();
    // With the default temperature the games from one opening differ, and often another move than the best is played.
    let moves = |chunk: &[Record]| chunk.iter().map(|record| record.played_idx.get()).collect::<Vec<_>>();
    assert!(moves(&chunks[0]) != moves(&chunks[4]), "two games from the same opening");
    assert!(chunks[0].iter().any(|record| record.played_idx != record.best_idx));
    // The tree is not kept from move to move, and no value comes from another history than its own.
    assert!(chunks.iter().flatten().all(|record| record.visits.get() <= 17 && !record.orig_q.get().is_nan()));
}

#[cfg(unix)]
#[test]
fn a_run_without_a_folder_makes_one_in_the_cache() {
    let cache = TempDir::new().unwrap();
    let mut command = rukh(&trivial(&["--training", "--visits=4", "--games=1"]));
    let output = command.env("XDG_CACHE_HOME", cache.path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folders = files(&cache.path().join("rukh"), "");
    let [folder] = &folders[..] else { panic!("{folders:?}") };
    let name = folder.file_name().unwrap().to_str().unwrap();
    assert!(name.len() == 17 && name.starts_with("data-"), "{name}");
    assert!(!chunk_of(&folder.join("game_000000.gz")).is_empty());
}

#[test]
fn chunks_go_into_archives_of_the_wanted_size() {
    let folder = TempDir::new().unwrap();
    let directory = format!("--training-dir={}", folder.path().display());
    let output = run(&trivial(&["--training", "--visits=6", "--games=5", "--training-tar=3", &directory]));
    let archives = files(folder.path(), ".tar");
    assert_eq!(archives, ["games_000000.tar", "games_000001.tar"].map(|name| folder.path().join(name)));
    let counts = archives.iter().map(|path| {
        let mut archive = tar::Archive::new(File::open(path).unwrap());
        let entries = archive.entries().unwrap().map(|entry| {
            let mut content = Vec::new();
            std::io::Read::read_to_end(&mut entry.unwrap(), &mut content).unwrap();
            assert!(!read_chunk(std::io::Cursor::new(content)).unwrap().is_empty());
        });
        entries.count()
    });
    assert_eq!(counts.collect::<Vec<_>>(), [3, 2]);
    let named = format!("gameready trainingfile {} gameid", archives[0].display());
    assert_eq!(output.lines().filter(|line| line.starts_with(&named)).count(), 3, "{output}");
}

/// The process is killed while it writes dozens of games in a second.
#[test]
fn a_killed_process_leaves_whole_files() {
    for flag in ["--training-tar=0", "--training-tar=1000"] {
        let folder = TempDir::new().unwrap();
        let directory = format!("--training-dir={}", folder.path().display());
        let arguments = trivial(&["--training", "--visits=2", "--parallelism=8", flag, &directory]);
        let mut child = rukh(&arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let bytes = || {
            files(folder.path(), "")
                .iter()
                .filter_map(|path| fs::metadata(path).ok())
                .map(|data| data.len())
                .sum::<u64>()
        };
        while bytes() < 100_000 && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(7));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut records = 0;
        for path in files(folder.path(), ".gz") {
            records += chunk_of(&path).len();
        }
        for path in files(folder.path(), ".tar") {
            for entry in tar::Archive::new(File::open(&path).unwrap()).entries().unwrap() {
                let mut content = Vec::new();
                std::io::Read::read_to_end(&mut entry.unwrap(), &mut content).unwrap();
                records += read_chunk(std::io::Cursor::new(content)).unwrap().len();
            }
        }
        assert!(records > 100, "{records} records");
    }
}

/// The system refuses to write more than a few kilobytes, as a full disk would.
#[cfg(unix)]
#[test]
fn a_full_disk_ends_the_tournament_in_order() {
    for flag in ["--training-tar=0", "--training-tar=1000"] {
        let folder = TempDir::new().unwrap();
        let arguments =
            trivial(&["--training", "--visits=4", "--games=500", "--parallelism=2", flag]).join(" ");
        let script = format!(
            "trap '' XFSZ; ulimit -f 2; exec {} {arguments} --training-dir={}",
            env!("CARGO_BIN_EXE_rukh"),
            folder.path().display()
        );
        let output =
            std::process::Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("rukh: cannot write training data to "), "{stderr}");
        assert!(stdout.contains("interrupted after "), "{stdout}");
        assert!(files(folder.path(), "").iter().all(|path| !path.display().to_string().contains("partial")));
        for path in files(folder.path(), ".tar") {
            assert_eq!(tar::Archive::new(File::open(&path).unwrap()).entries().unwrap().count(), 0);
        }
    }
}

#[test]
fn wrong_flags_of_training_have_clear_messages() {
    for (arguments, code, shown) in [
        (&["--training", "--visits=1"][..], 2, "training data need searches of at least 2 visits"),
        (&["--training", "--visits=5", "--training-input-format=6"], 2, "not one of 1, 2, 3, 4, 132, 5, 133"),
        (&["--visits=5", "--training-tar=5"], 2, "--training"),
        (&["--visits=5", "--opening-stop-prob=1.5"], 2, "not a number from 0 to 1"),
        (
            &["--visits=5", "--player1.opening-stop-prob=0.5", "--player2.opening-stop-prob=0.25"],
            2,
            "--opening-stop-prob must be equal",
        ),
        #[cfg(target_os = "linux")]
        (
            &["--training", "--visits=5", "--training-dir=/proc/rukh"],
            1,
            "cannot write training data to /proc/rukh",
        ),
    ] {
        let output = run_any(&[&["selfplay", "--backend=trivial", "--games=1"], arguments].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(shown), "{arguments:?}: {stderr}");
    }
}

/// With a probability of 1 every game leaves its opening at once, and with few visits allowed only the best moves are
/// played.
#[test]
fn openings_can_be_left_early_and_rare_moves_refused() {
    let folder = TempDir::new().unwrap();
    let pgn = folder.path().join("openings.pgn");
    fs::write(&pgn, "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 *\n").unwrap();
    let openings = format!("--openings-pgn={}", pgn.display());
    let plies = |probability: &str| {
        let output =
            run(&["selfplay", "--backend=trivial", "--visits=2", "--games=24", &openings, probability]);
        let of_game = |line: &str| between(line, "play_start_ply", "player1").parse::<usize>().unwrap();
        output.lines().filter(|line| line.starts_with("gameready")).map(of_game).collect::<Vec<_>>()
    };
    assert!(plies("--opening-stop-prob=1").iter().all(|&plies| plies == 0));
    assert!(plies("--opening-stop-prob=0").iter().all(|&plies| plies == 6));
    let spread = plies("--opening-stop-prob=0.01");
    assert!(spread.iter().collect::<std::collections::BTreeSet<_>>().len() > 2, "{spread:?}");

    let directory = format!("--training-dir={}", folder.path().display());
    let most = ["--minimum-allowed-visits=1000", "--discarded-start-chance=50", "--games=12", &directory];
    let output = run(&trivial(&[&["--training", "--visits=20", "--parallelism=2"], &most[..]].concat()));
    let records: Vec<Record> = files(folder.path(), ".gz").iter().flat_map(|path| chunk_of(path)).collect();
    let share = |record: &Record, index: u16| record.probabilities[usize::from(index)].get();
    assert!(!records.is_empty());
    for record in &records {
        let most = record.probabilities.iter().map(|share| share.get()).fold(0.0, f32::max);
        let played = record.played_idx.get();
        assert!(share(record, played) == most || played == record.best_idx.get());
    }
    // Some games began where another game had refused a move, which is not a start position of the openings.
    let starts: Vec<&str> = output
        .lines()
        .filter(|line| line.starts_with("gameready"))
        .map(|line| between(line, "play_start_ply", "player1"))
        .collect();
    assert!(starts.iter().any(|&plies| plies != "0"), "{starts:?}");
}
