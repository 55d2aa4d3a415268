//! Workers that cannot do a job, and records of other versions.

use crate::harness::*;
use serde_json::json;

/// A worker without a network and one with another network leave the job to the others.
#[test]
fn workers_that_cannot_do_a_job_say_why_and_leave_it() {
    let Some(mut fleet) = Fleet::start() else { return };
    let pgn = fleet.file("games.pgn", &games(6));
    let dead = fleet.file("dead.pb.gz", "no network");
    fleet.submit("other", &[&pgn], &["--network=other.pb.gz"], &SETTINGS);
    fleet.submit("job", &[&pgn], &[], &SETTINGS);
    // Jobs of a later and of an earlier version, as other programs would store them.
    fleet.store_job("later", json!({ "protocol": 99, "name": "later", "what": "ever" }));
    fleet.store_job("earlier", json!({ "protocol": 1, "name": "earlier", "pieces": 7 }));
    let engine = fleet.engine.clone();
    fleet.worker("dead", &engine, &["--backend=cpu", &format!("--weights={dead}")]);
    fleet.until("the refusal of the dead network", |status| {
        refused(status, "dead", "job").contains("dead.pb.gz")
    });
    fleet.worker("alive", &engine, &[]);
    let (figures, is_good) = fleet.collect("job", "fleet.pgn");
    assert!(is_good, "{figures}");
    fleet.until("the refusal of the network", |status| {
        refused(status, "alive", "other").contains("needs the network other.pb.gz")
            && refused(status, "alive", "later").contains("version 99")
            && refused(status, "alive", "earlier").contains("version 1 ")
            && status["other_versions"].as_array().is_some_and(|others| others.len() == 2)
    });
    assert_eq!(fleet.call(&["collect", "other"]).status.code(), Some(1), "nothing was done");
    for command in ["collect", "retry"] {
        let said = fleet.call(&[command, "earlier"]);
        let error = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(error.contains("`earlier` was submitted by another version of rukh-fleet"), "{error}");
    }
    fleet.succeeds(&["remove", "earlier"]);
}
