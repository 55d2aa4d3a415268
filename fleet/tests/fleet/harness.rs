//! A server with its workers, and what a user does with them.

use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest time that a test waits for a job. It is enough for debug builds on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Without a cache, the result of a position does not depend on the searches beside it.
pub(crate) const SETTINGS: [&str; 3] = ["--backend=trivial", "--nncache=0", "--nodes=60"];

/// A folder that does not exist, so that no configuration file is read.
pub(crate) const NO_FOLDER: &str = if cfg!(windows) { "<none>" } else { "/dev/null/none" };

/// A server with its workers. All are killed when this is dropped.
pub(crate) struct Fleet {
    folder: TempDir,
    address: String,
    pub(crate) engine: PathBuf,
    nats_server: PathBuf,
    server: Option<Child>,
    pub(crate) workers: Vec<Child>,
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
    pub(crate) fn start() -> Option<Fleet> {
        let nats_server = nats_server()?;
        let engine = engine()?;
        let mut fleet = Fleet {
            folder: TempDir::new().unwrap(),
            address: free_address(),
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

    pub(crate) fn start_server(&mut self) {
        let mut command = Command::new(&self.nats_server);
        command.arg("--config").arg(self.path("nats.conf")).stdout(Stdio::null()).stderr(Stdio::null());
        self.server = Some(command.spawn().unwrap());
        let begun = Instant::now();
        while self.call(&["status"]).status.code() != Some(0) {
            assert!(begun.elapsed() < PATIENCE, "the server does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn kill_server(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        fs::write(self.path(name), content).unwrap();
        self.name(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = fleet_command(&self.address);
        command.args(arguments);
        command
    }

    pub(crate) fn call(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    pub(crate) fn succeeds(&self, arguments: &[&str]) {
        let output = self.call(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Waits until a worker ends by itself.
    pub(crate) fn ends(&mut self, worker: usize) {
        let begun = Instant::now();
        while self.workers[worker].try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "the worker does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts a worker, whose stderr goes to `NAME.log`.
    pub(crate) fn worker(&mut self, name: &str, engine: &Path, flags: &[&str]) -> usize {
        self.worker_with(name, engine, &[], flags)
    }

    /// Does the same with flags of the worker itself.
    pub(crate) fn worker_with(&mut self, name: &str, engine: &Path, own: &[&str], flags: &[&str]) -> usize {
        let log = File::create(self.path(&format!("{name}.log"))).unwrap();
        let engine = format!("--engine={}", engine.display());
        let name = format!("--name={name}");
        let arguments = [&["work", &engine, &name], own, &["--"], flags].concat();
        let worker = self.command(&arguments).stdin(Stdio::null()).stderr(log).spawn().unwrap();
        self.workers.push(worker);
        self.workers.len() - 1
    }

    pub(crate) fn kill(&mut self, worker: usize) {
        self.workers[worker].kill().unwrap();
        self.workers[worker].wait().unwrap();
    }

    pub(crate) fn status(&self) -> Value {
        serde_json::from_slice(&self.call(&["status", "--json"]).stdout).unwrap_or_default()
    }

    /// Waits until the status says something.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
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

    /// Waits until a worker's log contains `text`.
    pub(crate) fn says(&self, worker: &str, text: &str) {
        let begun = Instant::now();
        loop {
            let log = self.text(&format!("{worker}.log"));
            if log.contains(text) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{text} is not in {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for the results of a job. Returns the figures, and whether nothing was put aside.
    pub(crate) fn collect(&self, job: &str, output: &str) -> (Value, bool) {
        let output = format!("--output={}", self.name(output));
        let done = self.call(&["collect", job, "--wait", "--json", &output]);
        let figures = serde_json::from_slice(&done.stdout);
        (
            figures.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&done.stderr))),
            done.status.success(),
        )
    }

    /// Runs the engine alone.
    pub(crate) fn engine(&self, arguments: &[&str]) -> Output {
        Command::new(&self.engine).args(arguments).env("XDG_CONFIG_HOME", NO_FOLDER).output().unwrap()
    }

    /// Stores the record of a job, as another program would do it.
    pub(crate) fn store_job(&self, name: &str, record: Value) {
        self.publish(&format!("rukh.jobs.{name}"), record.to_string().as_bytes());
    }

    /// Sends a message to a subject, as another program would do it.
    pub(crate) fn publish(&self, subject: &str, payload: &[u8]) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = payload.len();
        write!(stream, "CONNECT {{\"verbose\":false}}\r\nPUB {subject} {length}\r\n").unwrap();
        stream.write_all(payload).unwrap();
        stream.write_all(b"\r\nPING\r\n").unwrap();
        // The answer to PING says that the message was read.
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&answer).contains("PONG") {
            let length = stream.read(&mut buffer).unwrap();
            assert!(length > 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&buffer[..length]);
        }
    }

    /// Asks the server as another program would do it. Returns the subject to which the answer asks to reply, if it
    /// does, and its payload.
    pub(crate) fn request(&self, subject: &str, payload: &str) -> (Option<String>, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = payload.len();
        let asked = format!("SUB answers 1\r\nPUB {subject} answers {length}\r\n{payload}\r\n");
        write!(stream, "CONNECT {{\"verbose\":false}}\r\n{asked}").unwrap();
        let mut answer = String::new();
        let mut buffer = [0; 4096];
        loop {
            let length = stream.read(&mut buffer).unwrap();
            assert!(length > 0, "{answer}");
            answer.push_str(&String::from_utf8_lossy(&buffer[..length]));
            // `MSG subject 1 [reply] length`. A piece comes under its own subject.
            let Some((head, rest)) = answer.split_once("MSG ").and_then(|(_, m)| m.split_once("\r\n")) else {
                continue;
            };
            let words: Vec<&str> = head.split(' ').collect();
            let (reply, length) = match words[..] {
                [_, _, reply, length] => (Some(reply.to_owned()), length),
                [_, _, length] => (None, length),
                _ => panic!("{answer}"),
            };
            if let Some(payload) = rest.get(..length.parse().unwrap()) {
                return (reply, payload.to_owned());
            }
        }
    }

    /// Takes a piece of a job without acknowledging it. Returns the subject of its acknowledgement.
    pub(crate) fn take_piece(&self, job: &str) -> String {
        let (_, names) = self.request(&format!("$JS.API.CONSUMER.NAMES.rukh-work-{job}"), "");
        let names: Value = serde_json::from_str(&names).unwrap();
        let consumer = names["consumers"][0].as_str().unwrap_or_else(|| panic!("{names}"));
        let (reply, piece) =
            self.request(&format!("$JS.API.CONSUMER.MSG.NEXT.rukh-work-{job}.{consumer}"), "");
        reply.filter(|subject| subject.starts_with("$JS.ACK.")).unwrap_or_else(|| panic!("{piece}"))
    }

    pub(crate) fn submit(&self, job: &str, files: &[&str], more: &[&str], flags: &[&str]) {
        let job = format!("--job={job}");
        let head = ["submit", "analyze", &job, "--positions=8", "--silence=2"];
        self.succeeds(&[&head, more, files, &["--"], flags].concat());
    }
}

/// An address at which nobody listens. Its port is below those that a system gives to outgoing connections. Such a
/// connection of another test could take the port before the server has it, or while the server is killed.
pub(crate) fn free_address() -> String {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        // Processes that test at the same time begin at different ports.
        let number = std::process::id().wrapping_mul(101).wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        let address = format!("127.0.0.1:{}", 10_000 + number % 20_000);
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

/// The engine beside `rukh-fleet`. Without one, it says so and returns `None`.
pub(crate) fn engine() -> Option<PathBuf> {
    let engine = Path::new(env!("CARGO_BIN_EXE_rukh-fleet")).with_file_name("rukh");
    let engine = engine.with_extension(std::env::consts::EXE_EXTENSION);
    if !engine.exists() {
        eprintln!("skipped: there is no engine beside rukh-fleet; build the package rukh first");
        return None;
    }
    Some(engine)
}

/// The program of the server. Without one, it says so and returns `None`.
pub(crate) fn nats_server() -> Option<PathBuf> {
    let program = std::env::var_os("RUKH_NATS_SERVER").map_or("nats-server".into(), PathBuf::from);
    if Command::new(&program).arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no nats-server, which is in Debian's package of this name");
        return None;
    }
    Some(program)
}

/// `rukh-fleet` with the address of a server, without the user's configuration files.
pub(crate) fn fleet_command(address: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rukh-fleet"));
    command.env("RUKH_FLEET_SERVER", format!("nats://{address}"));
    for variable in ["HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS", "APPDATA"] {
        command.env(variable, NO_FOLDER);
    }
    command
}

/// Games of many lengths, as PGN.
pub(crate) fn games(count: usize) -> String {
    let words = "1. Nf3 Nf6 2. Ng1 Ng8 3. Nc3 Nc6 4. Nb1 Nb8 5. e4 e5 6. Ke2 Ke7";
    let words: Vec<&str> = words.split(' ').collect();
    let game = |number: usize| {
        let moves = words[..3 + number % 14].join(" ");
        format!("[Event \"game {number}\"]\n\n{moves} *\n\n")
    };
    (0..count).map(game).collect()
}

/// Why a worker leaves a job to others; empty if it does not.
pub(crate) fn refused(status: &Value, worker: &str, job: &str) -> String {
    let workers = status["workers"].as_array().cloned().unwrap_or_default();
    let found = workers.iter().find(|report| report["name"] == worker);
    found.and_then(|report| report["refused"][job].as_str()).unwrap_or_default().to_owned()
}
