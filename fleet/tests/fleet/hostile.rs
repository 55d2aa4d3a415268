//! Programs that store what they like on the server: no worker starts or writes what they ask for, neither workers nor
//! `collect` stop, and the results of others are right.

use crate::harness::*;
use serde_json::{Value, json};
use std::fs;

/// A record of a job as `submit` makes them, with changes.
fn record(name: &str, changes: Value) -> Value {
    let mut record = json!({
        "protocol": 4, "name": name, "id": "1234", "created_s": 1, "priority": 9, "kind": { "kind": "analysis", "format": "pgn" },
        "engine": null, "flags": [], "most_deliveries": 5, "redelivery_s": 2, "time_limit_s": 60, "source": "", "pieces": 3,
        "troubles": [], "is_decided": false,
    });
    for (name, value) in changes.as_object().unwrap() {
        record[name] = value.clone();
    }
    record
}

#[test]
fn flags_that_write_files_or_start_programs_are_refused_before_anything_is_started() {
    let Some(mut fleet) = Fleet::start() else { return };
    let pgn = fleet.file("games.pgn", &games(3));
    let marker = fleet.path("marker");
    let writes = [
        format!("--backend-opts=backend=trivial,record_file={}", marker.display()),
        format!("--backend-opts=(backend=recordreplay,record_file={})", marker.display()),
        format!("--backend-opts=helper={}", marker.display()),
        format!("--backend-opts=tuning_file={}", marker.display()),
        format!("--logfile={}", marker.display()),
        "--weights=/etc/shadow".to_owned(),
        "--weights=../games.pgn".to_owned(),
    ];
    for flag in &writes {
        let backend =
            if flag.contains("record_file") { "--backend=recordreplay" } else { "--backend=trivial" };
        let name = flag.split_once('=').unwrap().0;
        // As submitted by `submit`.
        let head = ["submit", "analyze", &pgn, "--job=s", "--network=any", "--", "--nodes=5"];
        for flags in [&[flag.as_str()][..], &[backend, flag]] {
            let refused = fleet.call(&[&head[..], flags].concat());
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(1), "{flag}: {said}");
            assert!(
                said.contains(name) || flags.len() == 2 && said.contains("recordreplay"),
                "{flag}: {said}"
            );
            assert!(!said.contains("root:"), "{said}");
        }
        assert!(!marker.exists(), "{flag}");
    }
    // As stored by another program, with the streams of a job.
    let name = |number: usize| format!("h{number}");
    for (number, flag) in writes.iter().enumerate() {
        let name = name(number);
        fleet.succeeds(&["submit", "test", &format!("--job={name}"), "--pieces=3"]);
        let status = fleet.status();
        let of_name = |job: &&Value| job["name"] == json!(name);
        let id = &status["jobs"].as_array().unwrap().iter().find(of_name).unwrap()["id"];
        let flags = ["--backend=trivial", "--nodes=5", flag];
        fleet.store_job(&name, record(&name, json!({ "id": id, "flags": flags })));
    }
    let engine = fleet.engine.clone();
    fleet.worker("w", &engine, &[]);
    for (number, flag) in writes.iter().enumerate() {
        let option = flag.split_once('=').unwrap().0;
        fleet.until("the refusal", |status| refused(status, "w", &name(number)).contains(option));
    }
    assert!(!marker.exists());
}

#[test]
fn bad_messages_are_put_aside_with_their_errors_and_the_result_is_right() {
    let Some(mut fleet) = Fleet::start() else { return };
    let pgn = fleet.file("games.pgn", &games(30));
    fleet.submit("honest", &[&pgn], &[], &SETTINGS);
    let id = fleet.status()["jobs"][0]["id"].as_str().unwrap().to_owned();
    let result = |piece: u64| json!({ "job": id, "piece": piece, "output": "[Event \"false\"]\n\n*\n\n" });
    let bad = [
        b"garbage".to_vec(),
        b"\x1b[2J\x00\xff".to_vec(),
        Vec::new(),
        vec![b'['; 100_000],
        result(u64::MAX).to_string().into_bytes(),
        result((1 << 32) - 1).to_string().into_bytes(),
        json!({ "job": "another", "piece": 0, "output": "false" }).to_string().into_bytes(),
        json!({ "piece": 0, "output": "of an earlier version" }).to_string().into_bytes(),
        json!({ "job": id, "piece": 0, "games": {} }).to_string().into_bytes(),
        json!({ "job": id, "piece": 99_999, "error": "\u{1b}]0;title\u{7}" }).to_string().into_bytes(),
    ];
    for message in &bad {
        for subject in ["done", "failed", "work"] {
            fleet.publish(&format!("rukh.{subject}.honest"), message);
        }
    }
    // A piece that is not the one that was submitted, and an error of a piece that is worked on later.
    let false_piece = json!({ "job": id, "piece": 0, "documents": [
        { "number": 1, "place": "here", "format": "pgn", "text": "[Event \"false\"]\n\n1. e4 *\n\n" },
    ] });
    fleet.publish("rukh.work.honest", false_piece.to_string().as_bytes());
    fleet.publish(
        "rukh.failed.honest",
        json!({ "job": id, "piece": 1, "error": "why" }).to_string().as_bytes(),
    );
    let job = |changes: Value| record("bad", changes);
    for (name, record) in [
        ("bad", job(json!({ "redelivery_s": 0 }))),
        ("bad1", job(json!({ "name": "bad1", "time_limit_s": u64::MAX }))),
        ("bad2", job(json!({ "name": "honest", "priority": i64::MIN }))),
        ("bad3", json!("\u{1b}[31m")),
        ("\u{1b}[31m", job(json!({}))),
    ] {
        fleet.store_job(name, record);
    }
    fleet.publish("rukh.workers.w\u{1b}[31m", b"{}");
    fleet.publish("rukh.workers.other", json!({ "name": "\u{1b}[31m" }).to_string().as_bytes());
    let engine = fleet.engine.clone();
    fleet.worker("w", &engine, &[]);
    let output = format!("--output={}", fleet.name("fleet.pgn"));
    let done = fleet.call(&["collect", "honest", "--wait", "--json", &output]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    let figures: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&figures["missing"], &figures["failed"]), (&json!(0), &json!(0)), "{figures}");
    assert!(figures["unreadable"].as_u64() >= Some(2 * bad.len() as u64), "{figures}");
    let local = format!("--output={}", fleet.name("local.pgn"));
    fleet.engine(&[&["analyze", &local, &pgn], &SETTINGS[..]].concat());
    assert_eq!(fleet.text("fleet.pgn"), fleet.text("local.pgn"));
    let aside = fleet.text("fleet.pgn.failed");
    assert!(aside.contains("garbage") && aside.contains("there is no piece 18446744073709551615"), "{aside}");
    // The names and texts of others are shown without what a terminal would obey.
    let status = [fleet.call(&["status"]).stdout, fleet.call(&["status", "--json"]).stdout].concat();
    let log = fs::read(fleet.path("w.log")).unwrap();
    for (what, shown) in [("collect", &done.stderr), ("status", &status), ("work", &log)] {
        let is_obeyed = |&byte: &u8| byte < b' ' && byte != b'\n' || byte == 0x7f;
        assert!(!shown.iter().any(is_obeyed), "{what}: {}", String::from_utf8_lossy(shown).escape_debug());
    }
    assert!(String::from_utf8_lossy(&status).contains("redelivery_s"), "the record is named");
    fleet.succeeds(&["retry", "honest"]);
    // `remove` needs no record that can be read.
    for name in ["bad", "bad3", "honest"] {
        fleet.succeeds(&["remove", name]);
    }
}

#[test]
fn a_complete_result_is_not_replaced_by_an_incomplete_one_unless_that_is_told() {
    let Some(mut fleet) = Fleet::start() else { return };
    let pgn = fleet.file("games.pgn", &games(12));
    let engine = fleet.engine.clone();
    fleet.submit("first", &[&pgn], &[], &SETTINGS);
    let worker = fleet.worker("w", &engine, &[]);
    assert!(fleet.collect("first", "out.pgn").1);
    let complete = fleet.text("out.pgn");
    fleet.kill(worker);
    fleet.submit("second", &[&pgn], &[], &SETTINGS);
    let output = format!("--output={}", fleet.name("out.pgn"));
    let incomplete = fleet.call(&["collect", "second", &output]);
    let said = String::from_utf8_lossy(&incomplete.stderr).into_owned();
    assert_eq!(incomplete.status.code(), Some(1), "{said}");
    assert!(said.contains("out.pgn.part") && said.contains("--partial"), "{said}");
    assert_eq!(fleet.text("out.pgn"), complete);
    assert_eq!(fleet.text("out.pgn.part"), "");
    assert_eq!(fleet.call(&["collect", "second", &output, "--partial"]).status.code(), Some(1));
    assert_eq!(fleet.text("out.pgn"), "");
    // A device is written and not replaced.
    assert_eq!(fleet.call(&["collect", "first", "--output=/dev/null"]).status.code(), Some(0));
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

/// A piece of the new job has the same number as the old job's acknowledged piece. A client has taken it, and never
/// finishes it.
#[test]
fn an_acknowledgement_of_a_piece_of_a_removed_job_does_not_count_for_a_new_one_of_its_name() {
    let Some(mut fleet) = Fleet::start() else { return };
    let pgn = fleet.file("games.pgn", &games(4));
    fleet.submit("same", &[&pgn], &[], &SETTINGS);
    let old = fleet.take_piece("same");
    fleet.succeeds(&["remove", "same"]);
    fleet.submit("same", &[&pgn], &[], &SETTINGS);
    fleet.take_piece("same");
    fleet.publish(&old, b"+ACK");
    let engine = fleet.engine.clone();
    fleet.worker("w", &engine, &[]);
    let (figures, is_good) = fleet.collect("same", "fleet.pgn");
    assert!(is_good, "{figures}");
}

/// A worker that is slow has a piece of a job that was removed in the meantime. There is a new job of its name.
#[test]
fn the_results_of_a_job_that_was_removed_are_not_those_of_a_new_one_of_its_name() {
    let Some(mut fleet) = Fleet::start() else { return };
    let old = fleet.file("old.pgn", &games(12));
    fleet.submit("same", &[&old], &[], &["--backend=trivial", "--nncache=0", "--nodes=200000"]);
    let engine = fleet.engine.clone();
    fleet.worker("w", &engine, &["--parallelism=1"]);
    fleet.until("the work", |status| status["workers"][0]["running"].as_u64() > Some(0));
    fleet.succeeds(&["remove", "same"]);
    let new = fleet.file("new.pgn", &games(20).replace("Event \"", "Event \"new "));
    fleet.submit("same", &[&new], &[], &SETTINGS);
    let (figures, is_good) = fleet.collect("same", "fleet.pgn");
    assert!(is_good, "{figures}");
    let local = format!("--output={}", fleet.name("local.pgn"));
    fleet.engine(&[&["analyze", &local, &new], &SETTINGS[..]].concat());
    assert_eq!(fleet.text("fleet.pgn"), fleet.text("local.pgn"));
}
