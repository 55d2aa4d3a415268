//! Tournaments and training games over the fleet.

use crate::harness::*;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_tournament_has_the_score_of_one_process() {
    let Some(mut fleet) = Fleet::start() else { return };
    let openings = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1\n\
                    rnbqkbnr/pppppppp/8/8/3P4/8/PPP1PPPP/RNBQKBNR b KQkq - 0 1\n\
                    rnbqkbnr/pppppppp/8/8/2P5/8/PP1PPPPP/RNBQKBNR b KQkq - 0 1\n";
    let openings = fleet.file("openings.epd", openings);
    let flags = ["--backend=trivial", "--mirror-openings", "--player1.visits=12", "--player2.visits=4"];
    let shipped = format!("--openings={openings}");
    let head = ["submit", "selfplay", "--job=match", "--games=10", "--games-per-piece=4", &shipped, "--"];
    fleet.succeeds(&[&head, &flags[..]].concat());
    let engine = fleet.engine.clone();
    fleet.worker("w1", &engine, &["--parallelism=2"]);
    let last = fleet.worker_with("w2", &engine, &["--once"], &["--parallelism=2"]);
    let (figures, is_good) = fleet.collect("match", "fleet.pgn");
    fleet.ends(last);
    assert!(is_good, "{figures}");
    let read = format!("--openings-pgn={openings}");
    let local = fleet.engine(&[&["selfplay", "--games=10", "--json", &read], &flags[..]].concat());
    let local: Value = serde_json::from_slice(local.stdout.trim_ascii()).unwrap();
    for name in ["games", "wins", "draws", "losses", "pairs", "elo", "elo_low", "elo_high"] {
        assert_eq!(figures["games"][name], local[name], "{name}");
    }
    let text = fleet.text("fleet.pgn");
    let mut rounds: Vec<u32> = text
        .lines()
        .filter_map(|line| line.strip_prefix("[Round \"")?.strip_suffix("\"]")?.parse().ok())
        .collect();
    rounds.sort_unstable();
    assert_eq!(rounds, (1..=10).collect::<Vec<_>>());
}

/// The tests of two tournaments are decided after a few of their many pieces: one by `collect`, and one by a worker,
/// without anybody who waits.
#[test]
fn a_tournament_ends_when_its_test_is_decided() {
    let Some(mut fleet) = Fleet::start() else { return };
    let openings = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1\n\
                    rnbqkbnr/pppppppp/8/8/3P4/8/PPP1PPPP/RNBQKBNR b KQkq - 0 1\n";
    let openings = format!("--openings={}", fleet.file("openings.epd", openings));
    let flags = ["--backend=trivial", "--mirror-openings", "--player1.visits=12", "--player2.visits=2"];
    let engine = fleet.engine.clone();
    let workers = ["waited", "unwatched"].map(|job| {
        let name = format!("--job={job}");
        let head =
            ["submit", "selfplay", &name, "--games=6000", "--games-per-piece=2", "--sprt=-300,0", &openings];
        fleet.succeeds(&[&head[..], &["--"], &flags].concat());
        fleet.worker_with(job, &engine, &["--once", &name], &["--parallelism=2"])
    });
    let says = |done: Output| {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        for text in [
            " games of 6000, until the test was decided\n",
            "SPRT of -300 and 0 Elo: LLR ",
            ", 0 Elo accepted",
        ] {
            assert!(said.contains(text), "{text}: {said}");
        }
    };
    says(fleet.call(&["collect", "waited", "--wait", &format!("--output={}", fleet.name("waited.pgn"))]));
    // Both workers leave their jobs, although most pieces are left.
    workers.into_iter().for_each(|worker| fleet.ends(worker));
    let status = fleet.status();
    for job in status["jobs"].as_array().unwrap() {
        assert_eq!(job["is_decided"], true, "{job}");
        assert!(job["results"].as_u64().unwrap() < 1500 && job["waiting"].as_u64().unwrap() > 1000, "{job}");
    }
    says(fleet.call(&["collect", "unwatched", &format!("--output={}", fleet.name("unwatched.pgn"))]));
    // The games are those up to the decision, and the engine says the same about their score.
    let (figures, _) = fleet.collect("unwatched", "again.pgn");
    let games = figures["games"]["games"].as_u64().unwrap() as usize;
    assert_eq!(fleet.text("again.pgn").matches("[Event ").count(), games);
    assert_eq!(
        (&figures["games"]["finish"], &figures["games"]["sprt"]["verdict"]),
        (&json!("test ended"), &json!("elo1"))
    );
    assert_eq!(fleet.call(&["retry", "unwatched"]).status.code(), Some(1));
}

/// The chunks in a folder, from files and from archives, in the order of their contents.
fn chunks(folder: &Path) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => chunks.push(fs::read(&path).unwrap()),
            Some("tar") => {
                let mut archive = tar::Archive::new(File::open(&path).unwrap());
                for entry in archive.entries().unwrap() {
                    let mut content = Vec::new();
                    entry.unwrap().read_to_end(&mut content).unwrap();
                    chunks.push(content);
                }
            }
            _ => {}
        }
    }
    chunks.sort_unstable();
    chunks
}

/// Without temperature and noise, the games are always the same, and so are their chunks.
#[test]
fn training_data_are_those_of_one_process_although_workers_server_and_collect_are_killed() {
    let Some(mut fleet) = Fleet::start() else { return };
    let openings: String = [
        "4P3/8/PPPP1PPP",
        "3P4/8/PPP1PPPP",
        "2P5/8/PP1PPPPP",
        "8/4P3/PPPP1PPP",
        "8/3P4/PPP1PPPP",
        "5P2/8/PPPPP1PP",
    ]
    .iter()
    .map(|pawns| format!("rnbqkbnr/pppppppp/8/8/{pawns}/RNBQKBNR b KQkq - 0 1\n"))
    .collect();
    let openings = fleet.file("openings.epd", &openings);
    let flags = [
        "--backend=trivial",
        "--temperature=0",
        "--noise-epsilon=0",
        "--player1.visits=12",
        "--player2.visits=4",
    ];
    let shipped = format!("--openings={openings}");
    let head = ["submit", "selfplay", "--job=train", "--training", "--games=36", "--games-per-piece=3"];
    fleet.succeeds(&[&head[..], &["--silence=2", &shipped, "--"], &flags].concat());
    let engine = fleet.engine.clone();
    let folder = fleet.name("data");
    let into = format!("--training-dir={folder}");
    for round in 0..3 {
        let workers =
            [0, 1].map(|index| fleet.worker(&format!("w{round}{index}"), &engine, &["--parallelism=2"]));
        fleet.until("a result", |status| status["jobs"][0]["results"].as_u64() > Some(2 * round));
        // What is there is written, and the command is killed while it waits for the rest.
        let log = File::create(fleet.path("collect.log")).unwrap();
        let mut command = fleet.command(&["collect", "train", "--wait", &into]);
        let collect = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        fleet.workers.push(collect);
        let collect = fleet.workers.len() - 1;
        let begun = Instant::now();
        while !Path::new(&folder).exists() || chunks(Path::new(&folder)).len() < 3 {
            assert!(begun.elapsed() < PATIENCE, "no training data: {}", fleet.text("collect.log"));
            std::thread::sleep(Duration::from_millis(20));
        }
        fleet.kill(collect);
        if round == 2 {
            break;
        }
        workers.into_iter().for_each(|worker| fleet.kill(worker));
        fleet.kill_server();
        fleet.start_server();
    }
    let collect = |into: &str, more: &[&str]| {
        let output = format!("--output={}", fleet.name("train.pgn"));
        let command = [&["collect", "train", "--wait", "--json", &output, into], more].concat();
        let done = fleet.call(&command);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice::<Value>(&done.stdout).unwrap()
    };
    assert_eq!(collect(&into, &[])["training_games"], 36);
    let archives = fleet.name("archives");
    collect(&format!("--training-dir={archives}"), &["--training-tar"]);
    let local = fleet.name("local");
    let (read, local_dir) = (format!("--openings-pgn={openings}"), format!("--training-dir={local}"));
    let alone = ["selfplay", "--training", "--games=36", "--json", &read, &local_dir];
    let output = fleet.engine(&[&alone[..], &flags].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = chunks(Path::new(&local));
    assert_eq!(expected.len(), 36);
    assert!(chunks(Path::new(&folder)) == expected, "the chunks in files are others");
    assert!(chunks(Path::new(&archives)) == expected, "the chunks in archives are others");
    // The folder belongs to its job.
    let foreign = fleet.call(&["collect", "train", &format!("--training-dir={local}")]);
    assert_eq!(foreign.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&foreign.stderr).contains("has other files"));
    fleet.succeeds(&["remove", "train"]);
}
