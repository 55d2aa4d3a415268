//! Analyses over the fleet, and pieces that only wait.

use crate::harness::*;
use serde_json::json;
use std::fs;

/// The broken games are in the middle of the file, and one file ends in the middle of a game.
#[test]
fn an_analysis_is_that_of_the_engine_alone_although_workers_and_server_are_killed() {
    let Some(mut fleet) = Fleet::start() else { return };
    let text =
        format!("{}[Event \"bad\"]\n\n1. e4 e4 *\n\n{}[Event \"open\"]\n\n1. e4 {{", games(40), games(40));
    let (pgn, epd) =
        (fleet.file("games.pgn", &text), fleet.file("a.epd", "8/8/8/8/8/8/8/8 w - - id \"x\";\n"));
    let flags = [&SETTINGS[..], &["--multipv=2", "--variations=all", "--moves=2-"]].concat();
    fleet.submit("a", &[&pgn, &epd], &[], &flags);
    let engine = fleet.engine.clone();
    for round in 0..3 {
        let workers =
            [0, 1].map(|index| fleet.worker(&format!("w{round}{index}"), &engine, &["--parallelism=2"]));
        fleet.until("a result", |status| status["jobs"][0]["results"].as_u64() > Some(3 * round));
        if round == 2 {
            break;
        }
        workers.into_iter().for_each(|worker| fleet.kill(worker));
        fleet.kill_server();
        fleet.start_server();
    }
    let (figures, is_good) = fleet.collect("a", "fleet.pgn");
    assert!(is_good, "{figures}");
    assert_eq!(
        (&figures["missing"], &figures["failed"], &figures["rejected"]),
        (&json!(0), &json!(0), &json!(3))
    );
    let local = format!("--output={}", fleet.name("local.pgn"));
    let output = fleet.engine(&[&["analyze", &local, &pgn, &epd], &flags[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fleet.text("fleet.pgn"), fleet.text("local.pgn"));
    assert_eq!(fleet.text("fleet.pgn.rejected"), fleet.text("local.pgn.rejected"));
}

#[test]
fn rows_have_the_numbers_of_their_games_and_one_header() {
    let Some(mut fleet) = Fleet::start() else { return };
    let pgn = fleet.file("games.pgn", &games(20));
    fleet.submit("rows", &[&pgn], &["--format=csv"], &SETTINGS);
    let engine = fleet.engine.clone();
    fleet.worker("w", &engine, &[]);
    assert!(fleet.collect("rows", "fleet.csv").1);
    let local = format!("--output={}", fleet.name("local.csv"));
    fleet.engine(&[&["analyze", &local, &pgn], &SETTINGS[..]].concat());
    assert_eq!(fleet.text("fleet.csv"), fleet.text("local.csv"));
    // The same command is no second job, and another one of the same name is refused.
    fleet.submit("rows", &[&pgn], &["--format=csv"], &SETTINGS);
    assert_eq!(fleet.call(&["submit", "test", "--job=rows", "--pieces=1"]).status.code(), Some(1));
    fleet.succeeds(&["remove", "rows"]);
    assert_eq!(fleet.status()["jobs"], json!([]));
}

#[test]
fn test_pieces_are_done_once_although_workers_are_killed() {
    let Some(mut fleet) = Fleet::start() else { return };
    fleet.succeeds(&["submit", "test", "--job=t", "--pieces=4000", "--silence=1"]);
    let engine = fleet.engine.clone();
    for round in 0..4 {
        let worker = fleet.worker(&format!("w{round}"), &engine, &[]);
        fleet.until("some results", |status| status["jobs"][0]["results"].as_u64() > Some(500 * (round + 1)));
        fleet.kill(worker);
    }
    fleet.worker("last", &engine, &[]);
    let (figures, is_good) = fleet.collect("t", "out");
    assert!(is_good && figures["done"] == 4000 && figures["missing"] == 0, "{figures}");
}

/// A worker that lives on notices the loss from the numbers of the deliveries. It also ends the pieces that it holds, at
/// most 260, whose results may come after the finished pieces were read.
#[test]
fn a_worker_does_not_do_pieces_with_results_again_when_the_server_has_lost_what_was_acknowledged() {
    let Some(mut fleet) = Fleet::start() else { return };
    work_until_the_state_is_lost(&mut fleet);
    fleet.start_server();
    let (figures, is_good) = fleet.collect("t", "out");
    assert!(is_good && figures["done"] == 2000 && figures["missing"] == 0, "{figures}");
    // Without the check these are more than 800.
    assert!(figures["repeated"].as_u64() < Some(400), "{figures}");
    fleet.says("old", LOST);
}

/// A new worker notices the loss from the number of the results.
#[test]
fn a_new_worker_does_not_do_pieces_with_results_again_when_the_server_has_lost_what_was_acknowledged() {
    let Some(mut fleet) = Fleet::start() else { return };
    let old = work_until_the_state_is_lost(&mut fleet);
    fleet.kill(old);
    fleet.start_server();
    let engine = fleet.engine.clone();
    fleet.worker("new", &engine, &[]);
    let (figures, is_good) = fleet.collect("t", "out");
    assert!(is_good && figures["done"] == 2000 && figures["missing"] == 0, "{figures}");
    assert!(figures["repeated"].as_u64() < Some(400), "{figures}");
    fleet.says("new", LOST);
}

/// What a worker says when the server has lost what was acknowledged.
const LOST: &str = "the server has lost what workers have acknowledged";

/// Starts a job and a worker, and kills the server as if it were writing the state of the job's consumer: the server that
/// is started next has none. Returns the worker.
fn work_until_the_state_is_lost(fleet: &mut Fleet) -> usize {
    // A worker that a busy machine stops for longer than `--silence` gets pieces twice, too.
    fleet.succeeds(&["submit", "test", "--job=t", "--pieces=2000", "--silence=10"]);
    let engine = fleet.engine.clone();
    let worker = fleet.worker("old", &engine, &[]);
    fleet.until("some results", |status| status["jobs"][0]["results"].as_u64() > Some(800));
    fleet.kill_server();
    let consumers = fs::read_dir(fleet.path("store/jetstream/$G/streams/rukh-work-t/obs")).unwrap();
    for consumer in consumers {
        fs::remove_file(consumer.unwrap().path().join("o.dat")).unwrap();
    }
    worker
}
