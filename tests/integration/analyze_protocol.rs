//! `analyze --protocol json`: requests and answers over stdin and stdout.

use crate::driver::Driver;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

struct Client(Driver);

impl Client {
    fn start(more: &[&str]) -> Client {
        let settings = ["analyze", "--protocol=json", "--backend=random", "--nncache=0"];
        Client(Driver::start(&[&settings, more].concat()))
    }

    fn send(&mut self, request: &Value) {
        self.0.send(&request.to_string());
    }

    fn next(&self) -> Value {
        let line = self.0.next_line_within(Duration::from_secs(20)).expect("an answer");
        serde_json::from_str(&line).unwrap()
    }
}

#[test]
fn answers_come_for_each_turn_and_errors_carry_the_name() {
    let mut client = Client::start(&["--nodes=20"]);
    client.send(&json!({ "id": "a", "moves": ["e2e4", "e7e5"], "analyzeTurns": [0, 2], "multiPv": 3 }));
    let mut answers = [client.next(), client.next()];
    answers.sort_by_key(|answer| answer["turnNumber"].as_u64());
    assert_eq!(answers.each_ref().map(|answer| answer["turnNumber"].as_u64()), [Some(0), Some(2)]);
    for answer in &answers {
        assert_eq!((&answer["id"], &answer["isDuringSearch"]), (&json!("a"), &json!(false)));
        assert_eq!(answer["moveInfos"].as_array().unwrap().len(), 3, "{answer}");
        assert!(answer["rootInfo"]["visits"].as_u64().unwrap() >= 20, "{answer}");
    }
    for (request, error) in [
        (json!({ "id": 1, "moves": ["e2e5"] }), "illegal move"),
        (json!({ "id": 1, "maxvisits": 5 }), "unknown field `maxvisits`"),
        (json!({ "id": 1, "action": "dance" }), "unknown action"),
        (json!({ "id": 1, "fen": "x" }), "x"),
    ] {
        client.send(&request);
        let answer = client.next();
        assert_eq!(answer["id"], 1);
        assert!(answer["error"].as_str().unwrap().contains(error), "{answer}");
    }
    client.0.send("no json");
    assert!(client.next()["error"].is_string());
    client.send(&json!({ "id": "v", "action": "query_version" }));
    assert!(client.next()["version"].is_string());
    client.0.close_stdin();
    assert!(client.0.ends_within(Duration::from_secs(10)).success());
}

#[test]
fn urgent_requests_come_first_and_a_search_can_be_ended() {
    let mut client = Client::start(&["--parallelism=1", "--backend-opts=delay=1"]);
    // The first one is being searched while the others wait.
    client.send(&json!({ "id": "long", "maxVisits": 500_000_000_u64, "reportDuringSearchEvery": 0.05 }));
    let partial = client.next();
    assert_eq!((&partial["id"], &partial["isDuringSearch"]), (&json!("long"), &json!(true)));
    client.send(&json!({ "id": "low", "maxVisits": 5, "priority": -1 }));
    client.send(&json!({ "id": "plain", "maxVisits": 5 }));
    client.send(&json!({ "id": "high", "maxVisits": 5, "priority": 9 }));
    client.send(&json!({ "id": "never", "maxVisits": 5 }));
    client.send(&json!({ "id": "end 1", "action": "terminate", "terminateId": "never" }));
    client.send(&json!({ "id": "end 2", "action": "terminate", "terminateId": "long" }));
    let mut order = Vec::new();
    while order.len() < 7 {
        let answer = client.next();
        if answer["isDuringSearch"] != true {
            order.push(answer);
        }
    }
    let names: Vec<&str> = order.iter().map(|answer| answer["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["end 1", "end 2", "long", "high", "plain", "never", "low"]);
    assert!(order[2]["rootInfo"]["visits"].as_u64().unwrap() > 0, "{}", order[2]);
    assert_eq!(order[5]["noResults"], true);
    // The end of the input does not end the searches, but terminate_all does.
    client.send(&json!({ "id": "endless", "maxVisits": 500_000_000_u64 }));
    client.send(&json!({ "id": "all", "action": "terminate_all" }));
    client.0.close_stdin();
    assert_eq!(client.next()["positions"], 1);
    assert_eq!(client.next()["id"], "endless");
    assert!(client.0.ends_within(Duration::from_secs(10)).success());
}

/// The names of the fields in an answer, with those of its parts.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                found.insert(format!("{path}{name}"));
                if name == "policy" {
                    continue;
                }
                fields(value, &format!("{path}{name}."), found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, path, found)),
        _ => {}
    }
}

/// The names in the schema of an object, in the same form.
fn described(schema: &Value, object: &Value, path: &str, found: &mut BTreeSet<String>) {
    if let Some(target) = object["$ref"].as_str() {
        described(schema, &schema["$defs"][target.trim_start_matches("#/$defs/")], path, found);
    }
    for (name, value) in object["properties"].as_object().into_iter().flatten() {
        found.insert(format!("{path}{name}"));
        described(schema, value, &format!("{path}{name}."), found);
        described(schema, &value["items"], &format!("{path}{name}."), found);
    }
}

#[test]
fn a_document_comes_back_as_it_does_from_a_file() {
    let game = "[Event \"a\"]\n\n1. e4 {[%clk 0:01:00]} e5 2. Qh5 Ke7 3. Qxe5# 1-0\n";
    let settings = ["--nodes=40", "--variations=all", "--moves=2-"];
    let mut client = Client::start(&settings);
    client.send(&json!({ "id": "a", "document": game, "documentFormat": "pgn" }));
    client.send(&json!({ "id": "b", "document": "1. e4 e4 *" }));
    let mut answers = [client.next(), client.next()];
    answers.sort_by_key(|answer| answer["id"].to_string());
    assert!(answers[1]["rejected"].as_str().unwrap().contains("illegal move"), "{}", answers[1]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pgn");
    std::fs::write(&path, game).unwrap();
    let alone = ["analyze", "--backend=random", "--nncache=0", path.to_str().unwrap()];
    let written = crate::driver::run(&[&alone, &settings[..]].concat());
    assert_eq!(
        (answers[0]["document"].as_str(), &answers[0]["positions"]),
        (Some(written.as_str()), &json!(4))
    );
    // A row carries the number of its document, and a position that is not selected is not searched.
    let mut rows = Client::start(&["--nodes=5", "--format=csv", "--side=white"]);
    rows.send(&json!({ "id": 1, "document": "8/8/8/8/8/8/k1K5/7R w - - 0 1", "documentNumber": 17 }));
    assert!(rows.next()["document"].as_str().unwrap().starts_with("17,0,8/8/8/8/8/8/k1K5/7R w"));
    rows.send(&json!({ "id": 2, "document": "8/8/8/8/8/8/k1K5/7R b - - 0 1" }));
    assert_eq!(rows.next(), json!({ "id": 2, "document": "", "positions": 0 }));
    rows.send(&json!({ "id": 3, "document": "x", "fen": "y" }));
    assert!(rows.next()["error"].as_str().unwrap().contains("a document has its own fen"));
}

#[test]
fn the_schema_has_every_field() {
    let text = include_str!("../../docs/analysis.schema.json");
    let schema: Value = serde_json::from_str(text).unwrap();
    let (mut known, mut found) = (BTreeSet::new(), BTreeSet::new());
    described(&schema, &schema["$defs"]["answer"], "", &mut known);
    let mut client = Client::start(&["--nodes=40"]);
    for request in [
        json!({ "id": 1, "includePolicy": true }),
        json!({ "id": 2, "fen": "7k/8/6K1/8/8/8/8/R7 w - - 0 1", "maxVisits": 3000 }),
        json!({ "id": 3, "fen": "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1" }),
    ] {
        client.send(&request);
        fields(&client.next(), "", &mut found);
    }
    assert!(found.is_subset(&known), "{:?}", found.difference(&known));
    // These answers have nearly all fields, so the schema has hardly any that no answer has.
    let only_described: Vec<&String> = known.difference(&found).collect();
    assert_eq!(
        only_described,
        ["limit", "lostByPlayed", "moveInfos.movesLeft", "network", "noResults", "played"]
    );
    // The error about an unknown field of a request names the known ones, in the order of the source.
    client.send(&json!({ "id": 4, "unknown": 1 }));
    let error = client.next()["error"].as_str().unwrap().to_owned();
    for name in schema["$defs"]["request"]["properties"].as_object().unwrap().keys() {
        client.send(&json!({ "id": 5, name.as_str(): { "no": "such value" } }));
        let answer = client.next();
        assert!(!answer.to_string().contains("unknown field"), "{name}: {answer}");
    }
    assert!(error.contains("unknown field `unknown`"), "{error}");
}

/// The policy is what `eval` shows, with the cache, which rounds it, and without it.
#[test]
fn the_policy_has_all_moves_and_each_line_has_its_prior() {
    let mut console = Driver::start(&["--backend=cpu", "--weights=<embedded>"]);
    console.ask("position startpos moves e2e4");
    let shown = console.ask("eval");
    let shown: Vec<(&str, f64)> = shown
        .iter()
        .filter(|line| line.starts_with("  "))
        .map(|line| line.trim().split_once(' ').unwrap())
        .map(|(m, share)| (m, share.trim().trim_end_matches(" %").parse::<f64>().unwrap() / 100.0))
        .collect();
    for cache in ["--nncache=10000", "--nncache=0"] {
        let network = ["--backend=cpu", "--weights=<embedded>", "--parallelism=2", cache];
        let mut client = Client::start(&network);
        client.send(
            &json!({ "id": 1, "moves": ["e2e4"], "maxVisits": 30, "multiPv": 500, "includePolicy": true }),
        );
        let answer = client.next();
        let policy = answer["policy"].as_object().unwrap();
        assert_eq!(policy.len(), 20, "{answer}");
        for (m, share) in &shown {
            assert!((policy[*m].as_f64().unwrap() - share).abs() < 2e-4, "{m} {share}: {answer}");
        }
        let lines = answer["moveInfos"].as_array().unwrap();
        assert!(
            lines.len() > 1
                && lines.iter().all(|line| line["prior"] == policy[line["move"].as_str().unwrap()])
        );
        // The network alone: its first choice, and its value.
        client.send(&json!({ "id": 2, "moves": ["e2e4"], "maxVisits": 1, "includePolicy": true }));
        let alone = client.next();
        assert_eq!((&alone["rootInfo"]["visits"], &alone["policy"]), (&json!(1), &answer["policy"]));
        assert_eq!(alone["moveInfos"][0]["move"], shown[0].0);
        client.send(&json!({ "id": 3, "maxVisits": 1 }));
        let plain = client.next();
        assert!(plain["policy"].is_null() && plain["moveInfos"][0]["prior"].is_number(), "{plain}");
    }
}

#[test]
fn allowed_and_avoided_moves_restrict_the_positions_that_are_searched() {
    let mut client = Client::start(&["--nodes=30", "--multipv=500"]);
    let mut moves = |request: Value| -> Vec<String> {
        client.send(&request);
        let answer = client.next();
        let Some(lines) = answer["moveInfos"].as_array() else { return vec![answer["error"].to_string()] };
        let mut moves: Vec<_> = lines.iter().map(|line| line["move"].as_str().unwrap().to_owned()).collect();
        moves.sort();
        moves
    };
    assert_eq!(moves(json!({ "allowMoves": ["g1f3", "a2a3"] })), ["a2a3", "g1f3"]);
    assert_eq!(moves(json!({ "allowMoves": ["g1f3", "a2a3"], "avoidMoves": ["a2a3"] })), ["g1f3"]);
    let castling = "4k3/8/8/8/8/8/8/4K2R w K - 0 1";
    for text in ["e1g1", "e1h1"] {
        assert_eq!(moves(json!({ "fen": castling, "allowMoves": [text] })), ["e1g1"]);
        assert!(!moves(json!({ "fen": castling, "avoidMoves": [text] })).contains(&"e1g1".to_owned()));
    }
    for (request, error) in [
        (json!({ "allowMoves": ["e2e5"] }), "leave no move after 0 moves"),
        (json!({ "avoidMoves": ["e2e5"] }), "`e2e5` is legal nowhere"),
        (json!({ "allowMoves": [] }), "leave no move"),
        (json!({ "document": "1. e4 *", "avoidMoves": ["e2e4"] }), "neither allowMoves"),
    ] {
        assert!(moves(request.clone())[0].contains(error), "{request}");
    }
    // A mate is not found where it must not be played.
    let mate = "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1";
    assert!(!moves(json!({ "fen": mate, "avoidMoves": ["a1a8"] })).contains(&"a1a8".to_owned()));
}

/// The client of the documentation, if Python is there.
#[test]
fn the_client_in_python_gets_its_answers() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/analysis_client.py");
    let mut command = Command::new("python3");
    command.args([script, env!("CARGO_BIN_EXE_rukh"), "--nodes=30", "--backend=trivial", "--config="]);
    let Ok(mut process) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    else {
        println!("skipped: python3 is not installed");
        return;
    };
    let fens = "6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1\n7k/5Q2/6K1/8/8/8/8/8 b - - 0 1\n";
    process.stdin.take().unwrap().write_all(fens.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..2], ["Ra8#", "1.000"], "{text}");
    assert_eq!(lines[1][..2], ["stalemate", "0.500"], "{text}");
}

#[test]
fn a_request_without_a_limit_is_refused() {
    let mut client = Client::start(&[]);
    client.send(&json!({ "id": "x" }));
    assert!(client.next()["error"].as_str().unwrap().contains("maxVisits or maxTime"));
    client.send(&json!({ "id": "t", "maxTime": 0.05 }));
    assert!(client.next()["rootInfo"]["visits"].as_u64().unwrap() > 0);
}
