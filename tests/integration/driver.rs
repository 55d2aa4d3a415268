//! Drives the real binary, line by line, as a GUI does.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The longest time that a test waits for the engine. It is enough for a debug build on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that does not exist and cannot be made.
pub(crate) const NO_FOLDER: &str = if cfg!(windows) { "<none>" } else { "/dev/null/none" };

/// The command that starts the binary with `arguments`, and without the configuration files of the user and
/// of the system.
pub(crate) fn rukh(arguments: &[&str]) -> Command {
    rukh_at(Path::new(env!("CARGO_BIN_EXE_rukh")), arguments)
}

/// Does the same as [`rukh`] for a copy of the binary.
pub(crate) fn rukh_at(binary: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.args(arguments);
    let unix = ["HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS"];
    for variable in unix.iter().chain(&["APPDATA", "LOCALAPPDATA"]) {
        command.env(variable, NO_FOLDER);
    }
    // A card of this machine would answer instead of the processor or the emulator.
    command.env("RUKH_CUDA_LIBRARY_PATH", "/nonexistent/cuda");
    command
}

/// Runs a subcommand to its end and returns what it writes to stdout. Panics if it fails.
pub(crate) fn run(arguments: &[&str]) -> String {
    let output = run_any(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?} failed: {stderr}");
    String::from_utf8(output.stdout).expect("stdout is UTF-8")
}

/// Runs a subcommand to its end, whether it succeeds or fails.
pub(crate) fn run_any(arguments: &[&str]) -> Output {
    rukh(arguments).stdin(Stdio::null()).output().expect("the binary starts")
}

/// A running engine, which is killed when this is dropped.
pub(crate) struct Driver {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Driver {
    pub(crate) fn start(arguments: &[&str]) -> Driver {
        Driver::start_with(arguments, &[])
    }

    /// Does the same as [`Driver::start`] with `settings` in the environment.
    pub(crate) fn start_with(arguments: &[&str], settings: &[(&str, &str)]) -> Driver {
        let mut command = rukh(arguments);
        command.envs(settings.iter().copied());
        Driver::spawn(command)
    }

    /// Starts the engine by `command`.
    pub(crate) fn spawn(mut command: Command) -> Driver {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("stdout is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Driver { child, stdin, lines }
    }

    /// Starts the engine on the backend that needs no network, with one thread.
    pub(crate) fn trivial() -> Driver {
        Driver::start(&["--backend=trivial", "--threads=1"])
    }

    /// Sends `line` and a newline in one write, so that the engine does not wait for the second half of a line.
    pub(crate) fn send(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    /// Sends `bytes` without a newline.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("the engine reads");
    }

    /// Waits for a line that begins with `prefix`. Returns the lines up to and including it.
    pub(crate) fn until(&self, prefix: &str) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        let mut lines = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let last = line.starts_with(prefix);
                    lines.push(line);
                    if last {
                        return lines;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("no line `{prefix}` in time, only {lines:#?}"),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the engine ended without `{prefix}`: {lines:#?}")
                }
            }
        }
    }

    /// Sends `line` and `isready`, and returns the engine's lines before `readyok`.
    pub(crate) fn ask(&mut self, line: &str) -> Vec<String> {
        self.send(line);
        self.send("isready");
        let mut lines = self.until("readyok");
        lines.pop();
        lines
    }

    /// Sends `line`, and returns the engine's lines up to and including `bestmove`.
    pub(crate) fn search(&mut self, line: &str) -> Vec<String> {
        self.send(line);
        self.until("bestmove")
    }

    /// The engine's next line, if it writes one within `time`.
    pub(crate) fn next_line_within(&self, time: Duration) -> Option<String> {
        self.lines.recv_timeout(time).ok()
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Closes the engine's stdin, as happens when a GUI ends.
    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits for the process to end. Panics if it is still running after `time`.
    pub(crate) fn ends_within(mut self, time: Duration) -> ExitStatus {
        let deadline = Instant::now() + time;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child can be waited for") {
                return status;
            }
            assert!(Instant::now() < deadline, "the engine did not end within {time:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The best move in `lines`, the last of which must be a `bestmove` line.
pub(crate) fn best_move(lines: &[String]) -> &str {
    let last = lines.last().expect("there is a line");
    last.strip_prefix("bestmove ").and_then(|rest| rest.split(' ').next()).unwrap_or_else(|| panic!("{last}"))
}

/// The number of nodes in the last info line that has one; 0 if none has.
pub(crate) fn nodes_of(lines: &[String]) -> u32 {
    let nodes = |line: &String| line.split_once(" nodes ")?.1.split(' ').next()?.parse().ok();
    lines.iter().rev().find_map(nodes).unwrap_or(0)
}
