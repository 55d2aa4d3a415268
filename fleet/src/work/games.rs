//! The engine that plays games: a process of `rukh selfplay` for each piece, which plays one shard of the games.

use super::outcome::Outcome;
use crate::engine::{self, Mode, last_lines};
use crate::job::{Piece, PieceResult};
use bytes::Bytes;
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::process::Command;

/// The engine with the settings of a job.
#[derive(Clone)]
pub(super) struct GameEngine(Arc<Settings>);

struct Settings {
    program: PathBuf,
    flags: Vec<String>,
    games: u64,
    shards: u64,
    /// The folder of the openings, and of the tries with what they write.
    folder: TempDir,
    openings: Option<PathBuf>,
    training: bool,
}

impl GameEngine {
    /// `openings` are the name and the content of a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn new(
        program: &Path,
        flags: Vec<String>,
        games: u64,
        shards: u64,
        openings: Option<(&str, Bytes)>,
        training: bool,
    ) -> Result<GameEngine, String> {
        let folder =
            TempDir::with_prefix("rukh-fleet-").map_err(|error| format!("no temporary folder: {error}"))?;
        let openings = match openings {
            None => None,
            Some((name, content)) => {
                // The name comes from another machine. Only its ending matters, which says the format.
                let path = folder.path().join(format!("openings{}", ending(name)));
                fs::write(&path, content)
                    .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
                Some(path)
            }
        };
        Ok(GameEngine(Arc::new(Settings {
            program: program.to_owned(),
            flags,
            games,
            shards,
            folder,
            openings,
            training,
        })))
    }

    /// Plays the games of a piece.
    pub(super) async fn run(&self, piece: &Piece) -> Outcome {
        let Settings { program, flags, games, shards, folder, openings, training } = &*self.0;
        // What an earlier try has left is not part of this one, so each try has a folder of its own.
        let try_folder = match TempDir::new_in(folder.path()) {
            Ok(folder) => folder,
            Err(error) => return Outcome::Failed(format!("no temporary folder: {error}")),
        };
        let (pgn, data) = (try_folder.path().join("games.pgn"), try_folder.path().join("data"));
        let mut command = engine::command(program, Mode::Games { training: *training }, flags);
        if *training {
            command.arg(engine::training_folder(&data));
        }
        command.arg("--json").arg(format!("--games={games}"));
        command.arg(format!("--shard={}/{shards}", piece.piece + 1));
        command.arg(format!("--pgn={}", pgn.display())).arg(engine::END_WITH_STDIN);
        if let Some(path) = openings {
            command.arg(format!("--openings-pgn={}", path.display()));
        }
        let output = match output(&mut command).await {
            Ok(output) => output,
            Err(error) => return Outcome::Failed(format!("{}: {error}", program.display())),
        };
        if !output.status.success() {
            return Outcome::Failed(format!(
                "the engine has ended ({}): {}",
                output.status,
                last_lines(&output.stderr)
            ));
        }
        let figures = match serde_json::from_slice::<Value>(output.stdout.trim_ascii()) {
            Ok(figures) => figures,
            Err(error) => return Outcome::Failed(format!("the engine's result cannot be read: {error}")),
        };
        let chunks = if *training { read_files(&data) } else { Ok(Vec::new()) };
        let chunks = match chunks {
            Ok(chunks) => chunks,
            Err(error) => return Outcome::Failed(format!("the training data cannot be read: {error}")),
        };
        let mut result = PieceResult::new(&piece.job, piece.piece);
        result.output = String::from_utf8_lossy(&fs::read(&pgn).unwrap_or_default()).into_owned();
        result.games = Some(figures);
        Outcome::Done(result, chunks)
    }
}

/// The ending of a file of openings that says its format; that of a PGN if it is none of those that the engine knows.
fn ending(name: &str) -> &'static str {
    const ENDINGS: [&str; 6] = [".pgn", ".epd", ".fen", ".pgn.gz", ".epd.gz", ".fen.gz"];
    let name = name.to_ascii_lowercase();
    ENDINGS.into_iter().rev().find(|ending| name.ends_with(ending)).unwrap_or(".pgn")
}

/// Runs the engine with a standard input that ends only with this process.
async fn output(command: &mut Command) -> io::Result<Output> {
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    let output = child.wait_with_output().await;
    drop(stdin);
    output
}

/// The contents of all files in a folder, in the order of their names.
fn read_files(folder: &Path) -> io::Result<Vec<Bytes>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    paths.sort();
    paths.iter().map(|path| fs::read(path).map(Bytes::from)).collect()
}
