//! Works on a piece, by the kind of its job.

use super::analysis::AnalysisEngine;
use super::games::GameEngine;
use super::outcome::Outcome;
use crate::allowed::{Folders, engine_flags};
use crate::args::WorkArgs;
use crate::engine::{self, Mode};
use crate::error::FleetError;
use crate::job::{EngineIdentity, Job, Kind, Piece, PieceResult};
use crate::server::FILES;
use async_nats::jetstream::context::Context;
use std::hint::black_box;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The pieces of a test that have begun or wait for their turn.
const TEST_PIECES: usize = 4;

/// Why a worker cannot work on a job.
pub(super) struct StartError {
    pub(super) reason: String,
    /// Whether it is no use to try again.
    pub(super) is_final: bool,
}

/// What works on the pieces of a job. It is cheap to clone.
#[derive(Clone)]
pub(super) enum Runner {
    Analysis(AnalysisEngine),
    Games(GameEngine),
    Test(TestRunner),
}

/// Spends time, one piece after the other.
#[derive(Clone)]
pub(super) struct TestRunner {
    pause: Duration,
    computes: bool,
    /// Held during a piece.
    turn: Arc<Mutex<()>>,
}

impl Runner {
    /// Starts the engine, and checks that it is the one that the job asks for.
    pub(super) async fn start(
        context: &Context,
        program: &Path,
        job: &Job,
        arguments: &WorkArgs,
    ) -> Result<Runner, StartError> {
        let limit = Duration::from_secs(job.time_limit_s);
        match tokio::time::timeout(limit, Runner::start_engine(context, program, job, arguments)).await {
            Ok(started) => started,
            Err(_) => {
                let reason = format!("the engine was not ready after {} seconds", job.time_limit_s);
                Err(StartError { reason, is_final: false })
            }
        }
    }

    async fn start_engine(
        context: &Context,
        program: &Path,
        job: &Job,
        arguments: &WorkArgs,
    ) -> Result<Runner, StartError> {
        let for_now = |reason: String| StartError { reason, is_final: false };
        let for_ever = |reason: String| StartError { reason, is_final: true };
        let flags = engine_flags(&job.flags, &Folders::new(&arguments.folders, program));
        let flags = flags.map_err(|error| match error {
            // The owner of this machine may put it there.
            FleetError::NotHere(reason) => for_now(reason),
            error => for_ever(error.to_string()),
        })?;
        let flags: Vec<String> = flags.into_iter().chain(arguments.flags.iter().cloned()).collect();
        let (runner, found) = match &job.kind {
            Kind::Test { milliseconds, computes } => {
                let pause = Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or_default();
                let turn = Arc::default();
                return Ok(Runner::Test(TestRunner { pause, computes: *computes, turn }));
            }
            Kind::Analysis { format } => {
                let engine = AnalysisEngine::start(program, *format, &flags).await.map_err(for_now)?;
                let found = engine.identity().clone();
                (Runner::Analysis(engine), found)
            }
            Kind::Games { games, shards, openings, training, .. } => {
                let mode = Mode::Games { training: *training };
                let found = engine::identity(program, mode, &flags).await;
                let found = found.map_err(|error| for_now(error.to_string()))?;
                let file = match openings {
                    None => None,
                    Some(name) => {
                        let bytes = FILES.get(context, &job.name).await;
                        let bytes = bytes.map_err(|error| for_now(error.to_string()))?;
                        let bytes = bytes.ok_or_else(|| for_now("its openings are gone".to_owned()))?;
                        Some((name.as_str(), bytes))
                    }
                };
                let engine =
                    GameEngine::new(program, flags, *games, *shards, file, *training).map_err(for_now)?;
                (Runner::Games(engine), found)
            }
        };
        match job.engine.as_ref().and_then(|wanted| difference(wanted, &found)) {
            Some(reason) => Err(for_ever(reason)),
            None => Ok(runner),
        }
    }

    /// The engine in words.
    pub(super) fn describe(&self) -> String {
        match self {
            Runner::Analysis(engine) => {
                let EngineIdentity { version, network } = engine.identity();
                format!("{version} with {}", network.as_deref().unwrap_or("no network"))
            }
            Runner::Games(_) => "games".to_owned(),
            Runner::Test(_) => "test".to_owned(),
        }
    }

    /// The number of pieces that keep the engine busy, if a piece has about so many positions.
    pub(super) fn slots(&self, positions: f64) -> usize {
        match self {
            // Half of the positions wait, so that no search is without one when another piece ends.
            Runner::Analysis(engine) => {
                1 + (2.0 * engine.parallelism() as f64 / positions.max(1.0)).ceil() as usize
            }
            Runner::Games(_) => 1,
            // The next pieces wait for their turn, so that one begins at once when another ends.
            Runner::Test(_) => TEST_PIECES,
        }
    }

    /// Works on a piece. An engine that takes longer than `limit` is ended.
    pub(super) async fn run(&self, piece: &Piece, limit: Duration) -> Outcome {
        if let Ok(outcome) = tokio::time::timeout(limit, self.run_unlimited(piece)).await {
            return outcome;
        }
        let reason =
            format!("the engine was ended, because the piece took more than {} seconds", limit.as_secs());
        match self {
            Runner::Analysis(engine) => {
                engine.end(&reason);
                Outcome::EngineLost(reason)
            }
            // The process of a game engine is killed when what waits for it is dropped.
            Runner::Games(_) | Runner::Test(_) => Outcome::Failed(reason),
        }
    }

    async fn run_unlimited(&self, piece: &Piece) -> Outcome {
        match self {
            Runner::Analysis(engine) => engine.run(piece).await,
            Runner::Games(engine) => engine.run(piece).await,
            Runner::Test(TestRunner { pause, computes, turn }) => {
                let (pause, computes, turn) = (*pause, *computes, Arc::clone(turn));
                // The timer of the runtime is too coarse for a millisecond.
                let spend_in_turn = move || {
                    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                    spend(pause, computes);
                };
                let _ = tokio::task::spawn_blocking(spend_in_turn).await;
                Outcome::Done(PieceResult::new(&piece.job, piece.piece), Vec::new())
            }
        }
    }
}

/// Spends a time by waiting or by computing.
pub(crate) fn spend(time: Duration, computes: bool) {
    if !computes {
        return std::thread::sleep(time);
    }
    let begun = Instant::now();
    while begun.elapsed() < time {
        black_box((0..1000_u64).fold(0, |sum, term| black_box(sum + term)));
    }
}

/// Why an engine is not the one that a job asks for.
fn difference(wanted: &EngineIdentity, found: &EngineIdentity) -> Option<String> {
    if wanted.version != found.version {
        return Some(format!(
            "it needs version {} of the engine, and this is {}",
            wanted.version, found.version
        ));
    }
    match (&wanted.network, &found.network) {
        (Some(wanted), Some(found)) if wanted != found => {
            Some(format!("it needs the network {wanted}, and this engine has {found}"))
        }
        (Some(wanted), None) => Some(format!("it needs the network {wanted}, and this engine has none")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_of_another_version_or_network_is_named() {
        let of = |version: &str, network: Option<&str>| EngineIdentity {
            version: version.to_owned(),
            network: network.map(str::to_owned),
        };
        assert_eq!(difference(&of("1", Some("a")), &of("1", Some("a"))), None);
        assert_eq!(difference(&of("1", None), &of("1", Some("a"))), None);
        assert!(
            difference(&of("1", None), &of("2", None)).is_some_and(|reason| reason.contains("this is 2"))
        );
        assert!(
            difference(&of("1", Some("a")), &of("1", Some("b")))
                .is_some_and(|reason| reason.contains("has b"))
        );
    }
}
