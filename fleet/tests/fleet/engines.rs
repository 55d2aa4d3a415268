//! Engines that end, hang, or have another version. A shell script takes the place of the engine.

use crate::harness::*;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// An engine that ends when it sees the event `poison`, and hangs when it sees the event `hang` or the second shard of a
/// tournament. It writes the numbers of its processes into a file. For an answer it starts no other program, which would
/// take long on a busy machine.
const FAKE_ENGINE: &str = r#"#!/bin/sh
echo $$ >>"$0.pids"
case $* in
    --version) echo "rukh VERSION"; exit ;;
    *--shard=2/*) exec sleep 600 ;;
    selfplay*) echo '{"networks":[],"with_white":{"wins":1},"with_black":{"losses":1},"pairs":[0,0,1,0,0]}'; exit ;;
esac
while read -r line; do
    id=${line#*'"id":'}
    id=${id%%[!0-9]*}
    case $line in
        *query_version*) printf '{"id":%s,"version":"VERSION","parallelism":4}\n' "$id" ;;
        *poison*) echo "out of memory" >&2; exit 3 ;;
        *hang*) exec sleep 600 ;;
        *) printf '{"id":%s,"document":"done","positions":1}\n' "$id" ;;
    esac
done
"#;

/// Writes [`FAKE_ENGINE`] with the version that it claims to have.
fn fake_engine(fleet: &Fleet, name: &str, version: &str) -> PathBuf {
    executable(fleet, name, &FAKE_ENGINE.replace("VERSION", version))
}

fn executable(fleet: &Fleet, name: &str, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = PathBuf::from(fleet.file(name, script));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The version of the engine that a job asks for.
fn wanted_version(fleet: &Fleet) -> String {
    fleet.status()["jobs"][0]["engine"]["version"].as_str().unwrap().to_owned()
}

#[test]
fn a_piece_that_ends_the_engine_is_put_aside_with_its_error_and_can_be_tried_again() {
    let Some(mut fleet) = Fleet::start() else { return };
    let poison = "[Event \"poison\"]\n\n1. e4 *\n\n";
    let pgn = fleet.file("games.pgn", &format!("{}{poison}{}", games(10), games(10)));
    fleet.submit("p", &[&pgn], &["--tries=2", "--network=any"], &SETTINGS);
    let fake = fake_engine(&fleet, "fake", &wanted_version(&fleet));
    let worker = fleet.worker("fake", &fake, &[]);
    let (figures, is_good) = fleet.collect("p", "fleet.pgn");
    assert_eq!(
        (&figures["failed"], &figures["missing"], is_good),
        (&json!(1), &json!(0), false),
        "{figures}"
    );
    let aside = fleet.text("fleet.pgn.failed");
    assert!(
        aside.contains("out of memory") && aside.contains("poison") && aside.lines().count() == 1,
        "{aside}"
    );
    fleet.kill(worker);
    fleet.succeeds(&["retry", "p"]);
    let engine = fleet.engine.clone();
    fleet.worker("w", &engine, &[]);
    let (figures, is_good) = fleet.collect("p", "fleet.pgn");
    assert!(is_good && figures["failed"] == 0, "{figures}");
    assert!(
        fleet.text("fleet.pgn").contains("[Event \"poison\"]") && !fleet.path("fleet.pgn.failed").exists()
    );
}

/// The engine neither answers nor ends. It is killed, and only its piece is put aside.
#[test]
fn a_piece_with_which_the_engine_hangs_is_put_aside_after_its_time_limit() {
    let Some(mut fleet) = Fleet::start() else { return };
    let hang = "[Event \"hang\"]\n\n1. e4 *\n\n";
    let pgn = fleet.file("games.pgn", &format!("{}{hang}{}", games(6), games(6)));
    let limits = ["--tries=2", "--time-limit=1"];
    fleet.submit("h", &[&pgn], &[&limits[..], &["--network=any"]].concat(), &SETTINGS);
    let tournament = ["submit", "selfplay", "--job=t", "--games=6", "--games-per-piece=2", "--any-version"];
    let flags = ["--network=any", "--", "--visits=2"];
    fleet.succeeds(&[&tournament[..], &limits, &flags].concat());
    let fake = fake_engine(&fleet, "fake", &wanted_version(&fleet));
    let worker = fleet.worker("fake", &fake, &[]);
    let late = "the engine was ended, because the piece took more than 1 seconds";
    let (figures, is_good) = fleet.collect("h", "fleet.pgn");
    assert_eq!(
        (&figures["failed"], &figures["missing"], is_good),
        (&json!(1), &json!(0), false),
        "{figures}"
    );
    let aside = fleet.text("fleet.pgn.failed");
    assert!(aside.contains(late) && aside.contains("hang") && aside.lines().count() == 1, "{aside}");
    let (figures, is_good) = fleet.collect("t", "fleet.pgn");
    assert_eq!((&figures["failed"], &figures["done"], is_good), (&json!(1), &json!(2), false), "{figures}");
    assert!(fleet.text("fake.log").contains(&format!("job t: piece 1 has failed, try 2: {late}")));
    fleet.kill(worker);
    // An idle engine ends with its worker, and those that hung were killed before.
    all_end(&fleet.text("fake.pids"));
}

/// A column of `ps` for a process; empty if there is no such process.
fn ps(pid: &str, column: &str) -> String {
    let format = format!("{column}=");
    let output = Command::new("ps").args(["-o", &format, "-p", pid]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn is_alive(pid: &str) -> bool {
    let state = ps(pid, "stat");
    !state.is_empty() && !state.starts_with('Z')
}

/// Waits until these processes have ended; `pids` has one on each line.
fn all_end(pids: &str) {
    let begun = Instant::now();
    while let Some(pid) = pids.lines().find(|pid| is_alive(pid)) {
        assert!(begun.elapsed() < PATIENCE, "the process {pid} is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Both engines (one analyses, one plays) have work for minutes, and must end with their worker.
#[test]
fn a_busy_engine_ends_with_its_worker() {
    for work in [
        &["analyze", "--", "--backend=trivial", "--movetime=600000"][..],
        &["selfplay", "--games=2", "--", "--backend=trivial", "--movetime=600000"],
    ] {
        let Some(mut fleet) = Fleet::start() else { return };
        let pgn = fleet.file("games.pgn", &games(3));
        let (mode, flags) = work.split_first().unwrap();
        let files = [pgn.as_str()];
        let files = if *mode == "analyze" { &files[..] } else { &[] };
        fleet.succeeds(&[&["submit", mode, "--job=j"], files, flags].concat());
        // Writes the numbers of the engine's processes into a file.
        let script = format!("#!/bin/sh\necho $$ >>\"$0.pids\"\nexec '{}' \"$@\"\n", fleet.engine.display());
        let engine = executable(&fleet, "engine", &script);
        let worker = fleet.worker("w", &engine, &[]);
        let begun = Instant::now();
        let pids = || fs::read_to_string(fleet.path("engine.pids")).unwrap_or_default();
        let is_busy = |pid: &str| ps(pid, "args").contains("--end-with-stdin");
        while !pids().lines().any(is_busy) {
            assert!(begun.elapsed() < PATIENCE, "no engine works: {}", fleet.text("w.log"));
            std::thread::sleep(Duration::from_millis(50));
        }
        // The engine gets its piece.
        std::thread::sleep(Duration::from_millis(300));
        let pids = pids();
        fleet.kill(worker);
        all_end(&pids);
    }
}

/// One worker has an engine of another version. It works on the job that allows that, and leaves the others.
#[test]
fn an_engine_of_another_version_works_only_on_jobs_that_allow_it() {
    let Some(mut fleet) = Fleet::start() else { return };
    let pgn = fleet.file("games.pgn", &games(12));
    fleet.submit("strict", &[&pgn], &[], &SETTINGS);
    let version = wanted_version(&fleet);
    fleet.submit("free", &[&pgn], &["--any-version", "--network=any"], &SETTINGS);
    let tournament = ["submit", "selfplay", "--job=match", "--games=4", "--games-per-piece=2", "--"];
    fleet.succeeds(&[&tournament[..], &["--backend=trivial", "--visits=4"]].concat());
    let fake = fake_engine(&fleet, "fake", "0.0.1-other");
    fleet.worker("other", &fake, &[]);
    fleet.until("the refusals of the version", |status| {
        ["strict", "match"].iter().all(|job| {
            let reason = format!("it needs version {version} of the engine, and this is 0.0.1-other");
            refused(status, "other", job) == reason
        })
    });
    let (figures, is_good) = fleet.collect("free", "free.pgn");
    assert!(is_good && figures["positions"] == 12, "{figures}");
    let engine = fleet.engine.clone();
    fleet.worker("right", &engine, &[]);
    let (figures, is_good) = fleet.collect("strict", "strict.pgn");
    assert!(is_good, "{figures}");
    let local = format!("--output={}", fleet.name("local.pgn"));
    fleet.engine(&[&["analyze", &local, &pgn], &SETTINGS[..]].concat());
    assert_eq!(fleet.text("strict.pgn"), fleet.text("local.pgn"), "the other engine has had no part in it");
    let (figures, is_good) = fleet.collect("match", "match.pgn");
    assert!(is_good && figures["games"]["games"] == 4, "{figures}");
}
