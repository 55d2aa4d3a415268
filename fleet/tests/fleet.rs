//! Jobs through the real binaries, with a server on loopback: results are those of the engine alone, also after workers
//! and the server were killed, and what is wrong is named and kept aside.
//!
//! The tests need `nats-server` on the path (or in `RUKH_NATS_SERVER`), and the engine beside `rukh-fleet`.

use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest time that a test waits for a job. It is enough for debug builds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Without a cache, the result of a position does not depend on the searches beside it.
const SETTINGS: [&str; 3] = ["--backend=trivial", "--nncache=0", "--nodes=60"];

/// A folder that does not exist, so that no configuration file is read.
const NO_FOLDER: &str = if cfg!(windows) { "<none>" } else { "/dev/null/none" };

/// A server with its workers. All are killed when this is dropped.
struct Fleet {
    folder: TempDir,
    address: String,
    engine: PathBuf,
    nats_server: PathBuf,
    server: Option<Child>,
    workers: Vec<Child>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for mut child in self.workers.drain(..).chain(self.server.take()) {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Fleet {
    /// Starts a server. Without one, or without an engine, it says so and returns `None`.
    fn start() -> Option<Fleet> {
        let nats_server = std::env::var_os("RUKH_NATS_SERVER").map_or("nats-server".into(), PathBuf::from);
        if Command::new(&nats_server).arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: there is no nats-server, which is in Debian's package of this name");
            return None;
        }
        let engine = Path::new(env!("CARGO_BIN_EXE_rukh-fleet")).with_file_name("rukh");
        let engine = engine.with_extension(std::env::consts::EXE_EXTENSION);
        if !engine.exists() {
            eprintln!("skipped: there is no engine beside rukh-fleet; build the package rukh first");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut fleet = Fleet {
            folder: TempDir::new().unwrap(),
            address: format!("127.0.0.1:{port}"),
            engine,
            nats_server,
            server: None,
            workers: Vec::new(),
        };
        // The server itself and not `serve`, so that killing it leaves nothing behind.
        let config = format!(
            "listen: \"{}\"\njetstream {{ store_dir: {} }}\n",
            fleet.address,
            Value::from(fleet.name("store"))
        );
        fs::write(fleet.path("nats.conf"), config).unwrap();
        fleet.start_server();
        Some(fleet)
    }

    fn start_server(&mut self) {
        let mut command = Command::new(&self.nats_server);
        command.arg("--config").arg(self.path("nats.conf")).stdout(Stdio::null()).stderr(Stdio::null());
        self.server = Some(command.spawn().unwrap());
        let begun = Instant::now();
        while self.call(&["status"]).status.code() != Some(0) {
            assert!(begun.elapsed() < PATIENCE, "the server does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn kill_server(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn file(&self, name: &str, content: &str) -> String {
        fs::write(self.path(name), content).unwrap();
        self.name(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rukh-fleet"));
        command.args(arguments).env("RUKH_FLEET_SERVER", format!("nats://{}", self.address));
        for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS", "APPDATA"] {
            command.env(variable, NO_FOLDER);
        }
        command
    }

    fn call(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    fn succeeds(&self, arguments: &[&str]) {
        let output = self.call(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Waits until a worker ends by itself.
    fn ends(&mut self, worker: usize) {
        let begun = Instant::now();
        while self.workers[worker].try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "the worker does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts a worker, whose stderr goes to `NAME.log`.
    fn worker(&mut self, name: &str, engine: &Path, flags: &[&str]) -> usize {
        self.worker_with(name, engine, &[], flags)
    }

    /// Does the same with flags of the worker itself.
    fn worker_with(&mut self, name: &str, engine: &Path, own: &[&str], flags: &[&str]) -> usize {
        let log = File::create(self.path(&format!("{name}.log"))).unwrap();
        let engine = format!("--engine={}", engine.display());
        let name = format!("--name={name}");
        let arguments = [&["work", &engine, &name], own, &["--"], flags].concat();
        let worker = self.command(&arguments).stdin(Stdio::null()).stderr(log).spawn().unwrap();
        self.workers.push(worker);
        self.workers.len() - 1
    }

    fn kill(&mut self, worker: usize) {
        self.workers[worker].kill().unwrap();
        self.workers[worker].wait().unwrap();
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&self.call(&["status", "--json"]).stdout).unwrap_or_default()
    }

    /// Waits until the status says something.
    fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        let begun = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{what} does not happen: {status}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits for the results of a job. Returns the figures, and whether nothing was put aside.
    fn collect(&self, job: &str, output: &str) -> (Value, bool) {
        let output = format!("--output={}", self.name(output));
        let done = self.call(&["collect", job, "--wait", "--json", &output]);
        let figures = serde_json::from_slice(&done.stdout);
        (
            figures.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&done.stderr))),
            done.status.success(),
        )
    }

    /// Runs the engine alone.
    fn engine(&self, arguments: &[&str]) -> Output {
        Command::new(&self.engine).args(arguments).env("XDG_CONFIG_HOME", NO_FOLDER).output().unwrap()
    }

    fn submit(&self, job: &str, files: &[&str], more: &[&str], flags: &[&str]) {
        let job = format!("--job={job}");
        let head = ["submit", "analyze", &job, "--positions=8", "--silence=2"];
        self.succeeds(&[&head, more, files, &["--"], flags].concat());
    }
}

fn games(count: usize) -> String {
    let words = "1. Nf3 Nf6 2. Ng1 Ng8 3. Nc3 Nc6 4. Nb1 Nb8 5. e4 e5 6. Ke2 Ke7";
    let words: Vec<&str> = words.split(' ').collect();
    let game = |number: usize| {
        let moves = words[..3 + number % 14].join(" ");
        format!("[Event \"game {number}\"]\n\n{moves} *\n\n")
    };
    (0..count).map(game).collect()
}

fn refused(status: &Value, worker: &str, job: &str) -> String {
    let workers = status["workers"].as_array().cloned().unwrap_or_default();
    let found = workers.iter().find(|report| report["name"] == worker);
    found.and_then(|report| report["refused"][job].as_str()).unwrap_or_default().to_owned()
}

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

/// A worker without a network and one with another network leave the job to the others.
#[test]
fn workers_that_cannot_do_a_job_say_why_and_leave_it() {
    let Some(mut fleet) = Fleet::start() else { return };
    let pgn = fleet.file("games.pgn", &games(6));
    let dead = fleet.file("dead.pb.gz", "no network");
    fleet.submit("other", &[&pgn], &["--network=other.pb.gz"], &SETTINGS);
    fleet.submit("job", &[&pgn], &[], &SETTINGS);
    // A job of a later version, as another program would store it.
    let record = json!({ "protocol": 99, "name": "later", "what": "ever" }).to_string();
    let mut stream = TcpStream::connect(&fleet.address).unwrap();
    write!(
        stream,
        "CONNECT {{\"verbose\":false}}\r\nPUB rukh.jobs.later {}\r\n{record}\r\nPING\r\n",
        record.len()
    )
    .unwrap();
    let mut answer = [0; 4096];
    let length = stream.read(&mut answer).unwrap();
    assert!(length > 0);
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
            && status["other_versions"][0]["name"] == "later"
    });
    assert_eq!(fleet.call(&["collect", "other"]).status.code(), Some(1), "nothing was done");
}

/// An engine that ends when it sees the event `poison`, after some games that it answers.
#[cfg(unix)]
const FAKE_ENGINE: &str = r#"#!/bin/sh
while read -r line; do
    id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case $line in
        *query_version*) printf '{"id":%s,"version":"VERSION","parallelism":4}\n' "$id" ;;
        *poison*) echo "out of memory" >&2; exit 3 ;;
        *) printf '{"id":%s,"document":"done","positions":1}\n' "$id" ;;
    esac
done
"#;

#[cfg(unix)]
#[test]
fn a_piece_that_ends_the_engine_is_put_aside_with_its_error_and_can_be_tried_again() {
    use std::os::unix::fs::PermissionsExt;
    let Some(mut fleet) = Fleet::start() else { return };
    let poison = "[Event \"poison\"]\n\n1. e4 *\n\n";
    let pgn = fleet.file("games.pgn", &format!("{}{poison}{}", games(10), games(10)));
    fleet.submit("p", &[&pgn], &["--tries=2", "--network=any"], &SETTINGS);
    let version = fleet.status()["jobs"][0]["engine"]["version"].as_str().unwrap().to_owned();
    let fake = PathBuf::from(fleet.file("fake", &FAKE_ENGINE.replace("VERSION", &version)));
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
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
