//! The engine's program, and what it says about itself.

use super::error::FleetError;
use super::job::{EngineIdentity, Format};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;
use tokio::process::Command;

/// How the engine is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// It analyses documents, which come back in this format.
    Analysis(Format),
    /// It plays games.
    Games {
        /// Whether they give training data. Then the command needs a folder for them too ([`training_folder`]).
        training: bool,
    },
}

/// The flag that names the folder of the training data.
pub(crate) fn training_folder(folder: &Path) -> String {
    format!("--training-dir={}", folder.display())
}

/// The flag with which the engine ends when its standard input does, so that it does not outlive a worker that is killed.
pub(crate) const END_WITH_STDIN: &str = "--end-with-stdin";

/// The engine's program: the one that is named, or `rukh` beside this program, or `rukh` on the path.
pub(crate) fn program(named: Option<&Path>) -> PathBuf {
    if let Some(path) = named {
        return path.to_owned();
    }
    let name = format!("rukh{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name(&name));
    beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from(name))
}

/// The command that starts the engine for a job.
pub(crate) fn command(program: &Path, mode: Mode, flags: &[String]) -> Command {
    let mut command = Command::new(program);
    match mode {
        Mode::Analysis(format) => {
            command.args(["analyze", "--protocol=json", &format!("--format={}", format.word())]);
        }
        Mode::Games { training } => {
            command.arg("selfplay");
            if training {
                command.arg("--training");
            }
        }
    }
    command.args(flags);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// The answer to `query_version` as an identity.
pub(crate) fn identity_of(answer: &Value) -> EngineIdentity {
    let text = |name: &str| answer[name].as_str().map(str::to_owned);
    let network = text("network").map(|path| path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned());
    EngineIdentity { version: text("version").unwrap_or_default(), network }
}

/// What the engine says about itself with the flags of a job.
///
/// # Errors
/// The engine cannot be started, or it refuses the flags.
pub(crate) async fn identity(
    program: &Path,
    mode: Mode,
    flags: &[String],
) -> Result<EngineIdentity, FleetError> {
    let failed = |reason: String| FleetError::Program { program: program.display().to_string(), reason };
    match mode {
        Mode::Analysis(_) => {
            let mut child =
                command(program, mode, flags).spawn().map_err(|error| failed(error.to_string()))?;
            if let Some(mut stdin) = child.stdin.take() {
                use tokio::io::AsyncWriteExt;
                // If the engine has ended, its status says why.
                let _ = stdin.write_all(b"{\"action\":\"query_version\"}\n").await;
            }
            let output = child.wait_with_output().await.map_err(|error| failed(error.to_string()))?;
            let answer = output.stdout.split(|&byte| byte == b'\n').next().unwrap_or_default();
            match (output.status.success(), serde_json::from_slice::<Value>(answer)) {
                (true, Ok(answer)) if answer["version"].is_string() => Ok(identity_of(&answer)),
                _ => Err(failed(last_lines(&output.stderr))),
            }
        }
        Mode::Games { training } => {
            let mut command = command(program, mode, flags);
            command.args(["--games=0", "--json"]).stdin(Stdio::null());
            let folder = match training {
                true => Some(TempDir::with_prefix("rukh-fleet-").map_err(|error| failed(error.to_string()))?),
                false => None,
            };
            command.args(folder.iter().map(|folder| training_folder(folder.path())));
            let output = command.output().await.map_err(|error| failed(error.to_string()))?;
            let answer = serde_json::from_slice::<Value>(output.stdout.trim_ascii());
            let answer = match (output.status.success(), answer) {
                (true, Ok(answer)) => answer,
                _ => return Err(failed(last_lines(&output.stderr))),
            };
            let version = Command::new(program).arg("--version").output().await;
            let version = version.map_err(|error| failed(error.to_string()))?;
            let version =
                String::from_utf8_lossy(&version.stdout).trim().trim_start_matches("rukh ").to_owned();
            Ok(EngineIdentity { version, network: games_networks(&answer) })
        }
    }
}

/// The networks of both players in what `rukh selfplay --json` prints, as one name.
fn games_networks(answer: &Value) -> Option<String> {
    let names: Vec<&str> = answer["networks"].as_array()?.iter().filter_map(Value::as_str).collect();
    Some(
        names
            .iter()
            .map(|path| path.rsplit(['/', '\\']).next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join(" and "),
    )
}

/// The last lines that a program has written to stderr, as one line.
pub(crate) fn last_lines(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines[lines.len().saturating_sub(4)..].join(" | ") {
        text if text.is_empty() => "it ended without a message".to_owned(),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_known_by_its_file() {
        let answer = serde_json::json!({ "version": "0.1.0", "network": "/data/nets/t82.pb.gz" });
        let identity = EngineIdentity { version: "0.1.0".into(), network: Some("t82.pb.gz".into()) };
        assert_eq!(identity_of(&answer), identity);
    }

    #[test]
    fn an_error_is_the_end_of_stderr() {
        assert_eq!(last_lines(b"a\n\nb\nc\nd\ne\n"), "b | c | d | e");
        assert_eq!(last_lines(b""), "it ended without a message");
    }
}
