//! What the engine plays with if the network or the backend of its options cannot be had: it says why, and goes on.

use crate::driver::{Driver, best_move, rukh};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Two small networks.
const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-attn.pb.gz");
const OTHER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/micro-se-conv.pb.gz");

const MISSING: &str = "/nonexistent/network.pb.gz";

/// The lines that begin with `info string `, without that beginning.
fn messages(lines: &[String]) -> Vec<&str> {
    lines.iter().filter_map(|line| line.strip_prefix("info string ")).collect()
}

/// Searches a few nodes, and checks that the answer is that of a search. Returns the messages.
#[track_caller]
fn searched(engine: &mut Driver) -> Vec<String> {
    let lines = engine.search("go nodes 5");
    assert!(lines.iter().any(|line| line.starts_with("info depth ")), "{lines:#?}");
    assert_ne!(best_move(&lines), "0000");
    messages(&lines).into_iter().map(str::to_owned).collect()
}

fn set(engine: &mut Driver, name: &str, value: &str) -> Vec<String> {
    engine.ask(&format!("setoption name {name} value {value}"))
}

#[track_caller]
fn assert_refused(messages: &[&str], reason: &str, instead: &str) {
    let errors: Vec<&&str> = messages.iter().filter(|message| message.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{messages:#?}");
    assert!(errors[0].contains(reason), "`{reason}` in {errors:#?}");
    assert!(errors[0].contains(&format!("; playing on with {instead}")), "`{instead}` in {errors:#?}");
}

#[test]
fn a_missing_network_at_the_start_is_an_error_and_the_embedded_one_plays() {
    let mut path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    path.push(format!("later-{}.pb.gz", std::process::id()));
    let name = path.to_str().unwrap();
    let mut engine = Driver::start(&["--threads=1", "-w", name]);
    // The user hears of it before the network is needed.
    assert!(engine.until("info string")[0].contains(&format!("error: cannot load network {name}: ")));

    let ready = engine.ask("");
    assert_refused(&messages(&ready), name, "network <embedded> on cpu");
    assert!(messages(&ready).contains(&"network <embedded>"), "{ready:#?}");
    // The number format is still chosen by a measurement.
    assert!(messages(&ready).iter().any(|message| message.starts_with("cpu-auto uses ")), "{ready:#?}");
    // The error is not repeated with every search, but with every game.
    assert!(searched(&mut engine).is_empty());
    assert!(engine.ask("").is_empty());
    assert_refused(&messages(&engine.ask("ucinewgame")), name, "network <embedded> on cpu");

    fs::copy(NETWORK, &path).unwrap();
    assert!(searched(&mut engine).is_empty());
    let found = engine.ask("ucinewgame");
    fs::remove_file(&path).unwrap();
    assert_eq!(messages(&found).last(), Some(&format!("network {name}").as_str()), "{found:#?}");
    assert!(searched(&mut engine).is_empty());
}

#[test]
fn every_backend_of_the_processor_reports_a_missing_network_at_the_start() {
    for backend in ["cpu", "cpu-bf16", "cpu-int8"] {
        let engine = Driver::start(&["--threads=1", "-b", backend, "-w", MISSING]);
        let first = engine.until("info string")[0].clone();
        assert!(first.contains(&format!("error: cannot load network {MISSING}: ")), "{backend}: {first}");
    }
}

#[test]
fn a_network_that_cannot_be_read_leaves_the_one_that_worked() {
    let broken = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let mut engine = Driver::start(&["--threads=1", "--backend=cpu", "-w", NETWORK]);
    assert_eq!(searched(&mut engine), [format!("network {NETWORK}")]);
    let instead = format!("network {NETWORK} on cpu");
    assert_refused(&messages(&set(&mut engine, "WeightsFile", MISSING)), MISSING, &instead);
    assert_refused(
        &messages(&set(&mut engine, "WeightsFile", broken)),
        "not a Leela Chess Zero network",
        &instead,
    );
    assert!(searched(&mut engine).is_empty());
    // The other settings still take effect, and are no reason to repeat the error.
    assert!(set(&mut engine, "MultiPV", "2").is_empty());
    assert!(searched(&mut engine).is_empty());
    assert_refused(&messages(&set(&mut engine, "PolicyTemperature", "2")), broken, &instead);
    assert_eq!(messages(&set(&mut engine, "WeightsFile", OTHER)), [format!("network {OTHER}")]);
    assert!(searched(&mut engine).is_empty());
}

#[test]
fn a_wrong_option_during_a_search_is_reported_at_the_next_one() {
    let mut engine = Driver::start(&["--threads=1", "--backend=cpu", "-w", NETWORK]);
    engine.ask("");
    engine.send("go infinite");
    let lines = set(&mut engine, "WeightsFile", MISSING);
    assert!(messages(&lines).is_empty(), "{lines:#?}");
    engine.send("stop");
    engine.until("bestmove");
    let said = searched(&mut engine);
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    assert_refused(&said, MISSING, &format!("network {NETWORK} on cpu"));
}

#[test]
fn a_backend_that_cannot_be_made_leaves_the_users_network() {
    for (backend, options, reason) in [
        ("cpu", "treads=2", "treads=2"),
        ("cpu", "threads=(", "after `=`"),
        ("check", "cpu", "expected two backends"),
        ("recordreplay", "replay_file=/nonexistent/replay", "/nonexistent/replay"),
        ("rocm", "streams=0", "streams=0"),
    ] {
        let mut engine = Driver::start(&["--threads=1", "-w", NETWORK, "-b", backend, "-o", options]);
        let ready = engine.ask("");
        assert_refused(&messages(&ready), reason, &format!("network {NETWORK} on cpu"));
        assert!(searched(&mut engine).is_empty(), "{backend} -o {options}");
    }
}

/// A backend that works is kept with its own options.
#[test]
fn wrong_options_leave_the_backend_that_worked() {
    let mut engine = Driver::trivial();
    assert!(searched(&mut engine).is_empty());
    let lines = set(&mut engine, "BackendOptions", "nonsense=1");
    assert_refused(&messages(&lines), "nonsense=1", "trivial");
    assert!(searched(&mut engine).is_empty());
}

/// The score and the line that a short search of the start ends with.
fn last_line(engine: &mut Driver) -> String {
    engine.ask("ucinewgame");
    let lines = engine.search("go nodes 20");
    let of = |line: &String| {
        // A search of less than a millisecond has no `nps`.
        let (score, rest) = line.split_once(" score ")?.1.split_once(" tbhits ")?;
        Some(format!("{} {}", score.split(" nps ").next()?, rest.split_once(" pv ")?.1))
    };
    lines.iter().rev().find_map(of).expect("a line with a score")
}

#[test]
fn a_network_file_that_has_changed_is_read_again_when_it_is_set_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pb.gz");
    let name = path.to_str().unwrap();
    fs::copy(NETWORK, &path).unwrap();
    let mut other = Driver::start(&["--threads=1", "--backend=cpu", "-w", OTHER]);
    let mut engine = Driver::start(&["--threads=1", "--backend=cpu", "-w", name]);
    engine.ask("");
    let before = last_line(&mut engine);

    // Chess programs send all options before each game, so a file that is as it was is not read again.
    assert!(set(&mut engine, "WeightsFile", name).is_empty());
    fs::copy(OTHER, &path).unwrap();
    assert_eq!(last_line(&mut engine), before, "only the option makes the engine look at the file");
    let read_again = format!("network {name} was read again, because its file has changed");
    assert_eq!(messages(&set(&mut engine, "WeightsFile", name)), [read_again]);
    let after = last_line(&mut engine);
    assert_ne!(after, before);
    assert_eq!(after, last_line(&mut other));
    assert!(set(&mut engine, "WeightsFile", name).is_empty());

    fs::write(&path, b"damaged").unwrap();
    let lines = set(&mut engine, "WeightsFile", name);
    assert_refused(&messages(&lines), "not a Leela Chess Zero network", &format!("network {name} on cpu"));
    assert_eq!(last_line(&mut engine), after);
}

/// Writes a file that was changed `age_s` seconds ago.
fn write(path: &Path, bytes: &[u8], age_s: u64) {
    fs::write(path, bytes).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
}

#[test]
fn autodiscovery_passes_over_damaged_networks_and_says_why() {
    let sound = fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/weights/rukh-128x6.pb.gz")).unwrap();
    // A header that names no layers, and an unknown field of 70,000 bytes, because autodiscovery ignores small files.
    let mut without_layers = b"\x0d\xc0\x01\x00\x00\x22\x02\x08\x01\x52\x00\xa2\x06\xf0\xa2\x04".to_vec();
    without_layers.resize(without_layers.len() + 70_000, 0);
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("cut.pb.gz"), &sound[..sound.len() / 2], 10);
    write(&folder.path().join("without-layers.pb"), &without_layers, 20);
    write(&folder.path().join("sound.pb.gz"), &sound, 30);
    write(&folder.path().join("older.pb.gz"), &sound, 40);

    let start = || {
        let mut command = rukh(&["--threads=1", "--backend=cpu"]);
        command.current_dir(folder.path());
        Driver::spawn(command)
    };
    let ready = start().ask("");
    let [cut, without, network] = messages(&ready)[..] else { panic!("{ready:#?}") };
    let cut_is = "error: cannot load network ./cut.pb.gz: the gzip data is damaged or truncated: ";
    assert!(cut.starts_with(cut_is) && cut.ends_with("; it is passed over"), "{cut}");
    assert!(without.starts_with("error: cannot load network ./without-layers.pb: "), "{without}");
    assert!(without.ends_with("; it is passed over"), "{without}");
    assert!(network.starts_with("network ./sound.pb.gz, because it is in the working folder"), "{network}");

    // So do the tools.
    let described = rukh(&["describenet"]).current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&described.stderr);
    assert!(said.starts_with(cut_is), "{said}");

    // Without another network the embedded one plays.
    for name in ["sound.pb.gz", "older.pb.gz", "without-layers.pb"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let mut engine = start();
    let ready = engine.ask("");
    assert!(ready[0].contains(cut_is), "{ready:#?}");
    assert!(searched(&mut engine).is_empty());
}
