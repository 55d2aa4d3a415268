//! `serve` that is killed: the server that it leaves behind is found again.

use crate::harness::*;
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Processes of `serve` with one store. Those that are left are asked to end.
struct Serving {
    folder: TempDir,
    address: String,
    processes: Vec<Child>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        for mut process in self.processes.drain(..) {
            let _ = Command::new("kill").arg(process.id().to_string()).status();
            let _ = process.wait();
        }
    }
}

impl Serving {
    fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let (listen, store) = (format!("--listen={}", self.address), self.folder.path().join("store"));
        let mut command = fleet_command(&self.address);
        command.args(["serve", &listen, &format!("--store={}", store.display())]);
        command.arg(format!("--nats-server={}", nats_server().unwrap().display()));
        self.processes.push(command.stdin(Stdio::null()).stderr(log).spawn().unwrap());
    }

    fn call(&self, arguments: &[&str]) -> bool {
        let mut command = fleet_command(&self.address);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "{what} does not happen: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The number of the server's process.
    fn server(&self) -> String {
        fs::read_to_string(self.folder.path().join("store/nats-server.pid"))
            .unwrap_or_default()
            .trim()
            .to_owned()
    }
}

#[test]
fn a_server_whose_serve_was_killed_is_found_again_and_no_second_one_has_its_store() {
    if nats_server().is_none() {
        return;
    }
    let mut serving =
        Serving { folder: TempDir::new().unwrap(), address: free_address(), processes: Vec::new() };
    serving.start();
    serving.until("an answer", || serving.call(&["status"]));
    assert!(serving.call(&["submit", "test", "--job=kept", "--pieces=3"]));
    // A second one is refused.
    serving.start();
    let mut second = serving.processes.pop().unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(1));
    let left = serving.server();
    let mut first = serving.processes.pop().unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    let is_alive =
        |id: &str| Command::new("kill").args(["-0", id]).stderr(Stdio::null()).status().unwrap().success();
    assert!(is_alive(&left) && serving.call(&["status", "kept"]), "the workers go on without `serve`");
    serving.start();
    serving.until("a new server", || !serving.server().is_empty() && serving.server() != left);
    serving.until("an answer", || serving.call(&["status", "kept"]));
    let server = serving.server();
    let process = serving.processes.pop().unwrap();
    assert!(Command::new("kill").arg(process.id().to_string()).status().unwrap().success());
    serving.processes.push(process);
    serving.until("the end", || !is_alive(&server) && !serving.call(&["status"]));
}
