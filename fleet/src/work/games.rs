//! The engine that plays games: a process of `rukh selfplay` for each piece, which plays one shard of the games.

use super::runner::Outcome;
use crate::engine::{self, Mode, last_lines};
use crate::job::{Piece, PieceResult};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tempfile::TempDir;

/// The engine with the settings of a job.
#[derive(Clone)]
pub(super) struct GameEngine(Arc<Settings>);

struct Settings {
    program: PathBuf,
    flags: Vec<String>,
    games: u64,
    shards: u64,
    /// The folder of the openings and of the games that are being played.
    folder: TempDir,
    openings: Option<PathBuf>,
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
        openings: Option<(&str, bytes::Bytes)>,
    ) -> Result<GameEngine, String> {
        let folder =
            TempDir::with_prefix("rukh-fleet-").map_err(|error| format!("no temporary folder: {error}"))?;
        let openings = match openings {
            None => None,
            Some((name, content)) => {
                // The name comes from another machine. Only its ending matters, which says the format.
                let ending = name.split_once('.').map_or("pgn", |(_, ending)| ending);
                let is_plain = ending.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
                let path = folder.path().join(format!("openings.{}", if is_plain { ending } else { "pgn" }));
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
        })))
    }

    /// Plays the games of a piece.
    pub(super) async fn run(&self, piece: &Piece) -> Outcome {
        let Settings { program, flags, games, shards, folder, openings } = &*self.0;
        let pgn = folder.path().join(format!("piece-{}.pgn", piece.piece));
        // What an earlier try has left is not part of this one.
        let _ = fs::remove_file(&pgn);
        let mut command = engine::command(program, Mode::Games, flags);
        command.arg("--json").arg(format!("--games={games}"));
        command.arg(format!("--shard={}/{shards}", piece.piece + 1));
        command.arg(format!("--pgn={}", pgn.display())).stdin(Stdio::null());
        if let Some(path) = openings {
            command.arg(format!("--openings-pgn={}", path.display()));
        }
        let output = match command.output().await {
            Ok(output) => output,
            Err(error) => return Outcome::Failed(format!("{}: {error}", program.display())),
        };
        let games = fs::read(&pgn).unwrap_or_default();
        let _ = fs::remove_file(&pgn);
        if !output.status.success() {
            return Outcome::Failed(format!(
                "the engine has ended ({}): {}",
                output.status,
                last_lines(&output.stderr)
            ));
        }
        match serde_json::from_slice::<Value>(output.stdout.trim_ascii()) {
            Ok(figures) => {
                let mut result = PieceResult::new(piece.piece);
                result.output = String::from_utf8_lossy(&games).into_owned();
                result.games = Some(figures);
                Outcome::Done(result)
            }
            Err(error) => Outcome::Failed(format!("the engine's result cannot be read: {error}")),
        }
    }
}
