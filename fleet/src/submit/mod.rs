//! `submit`: cuts a job into pieces and stores them.
//!
//! A command that was killed is repeated: it cuts the same pieces again and goes on after the last one that is stored.
//!
//! | module | what it does |
//! |---|---|
//! | [`cut`] | cuts files into pieces |
//! | [`publish`](mod@publish) | stores the pieces in their order, each exactly once |

mod cut;
mod publish;

use super::allowed::{Folders, engine_flags};
use super::args::{
    CommonArgs, EngineArgs, ReadFormat, ServerArgs, SubmitAnalyzeArgs, SubmitArgs, SubmitKind,
};
use super::args::{SubmitSelfplayArgs, SubmitTestArgs};
use super::engine::{self, Mode};
use super::error::{FleetError, file_error, print_error_line, server_error};
use super::job::{self, EngineIdentity, Format, Job, Kind, Piece};
use super::server::{FILES, JOBS, connect, put_job};
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::context::Context;
use async_nats::jetstream::stream;
use cut::Pieces;
use publish::publish;
use rukh::analysis::input::InputFormat;
use rukh::analysis::output::OutputFormat;
use rukh::selfplay::elo::Sprt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most pieces of a job that may be worked on at once.
const MOST_IN_WORK: i64 = 200_000;

/// The most pull requests that may wait.
const MOST_WAITING: i64 = 20_000;

/// Submits a job.
///
/// # Errors
/// A file cannot be read, the engine refuses the flags, or the server does not store the job.
pub(crate) async fn run(server: &ServerArgs, arguments: SubmitArgs) -> Result<(), FleetError> {
    match arguments.kind {
        SubmitKind::Analyze(arguments) => analyze(server, arguments).await,
        SubmitKind::Selfplay(arguments) => selfplay(server, arguments).await,
        SubmitKind::Test(arguments) => test(server, arguments).await,
    }
}

async fn analyze(server: &ServerArgs, arguments: SubmitAnalyzeArgs) -> Result<(), FleetError> {
    let SubmitAnalyzeArgs { inputs, common, positions, input_format, format, engine } = arguments;
    let input_format = input_format.map(|format| match format {
        ReadFormat::Pgn => InputFormat::Pgn,
        ReadFormat::Epd => InputFormat::Epd,
        ReadFormat::Jsonl => InputFormat::Jsonl,
    });
    let format = match format {
        Some(format) => format,
        None => {
            let first = input_format.or(inputs.first().and_then(|path| InputFormat::of_name(path)));
            Format::from(first.map_or(OutputFormat::Pgn, OutputFormat::of_input))
        }
    };
    let identity = identity(&engine, Mode::Analysis(format)).await?;
    let sizes: Vec<u64> =
        inputs.iter().map(|path| std::fs::metadata(path).map_or(0, |metadata| metadata.len())).collect();
    let source = format!("{inputs:?} {sizes:?} {positions} {input_format:?}");
    let job = new_job(common, Kind::Analysis { format }, identity, engine.flags, source);
    submit(server, job, |id| Pieces::new(id, inputs, input_format, positions), None).await
}

async fn selfplay(server: &ServerArgs, arguments: SubmitSelfplayArgs) -> Result<(), FleetError> {
    let SubmitSelfplayArgs { common, games, games_per_piece, sprt, training, openings, engine } = arguments;
    let identity = identity(&engine, Mode::Games { training }).await?;
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).map_err(|error| file_error("read", &path, error))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok::<_, FleetError>((name, bytes))
    };
    let file = openings.map(read).transpose()?;
    let shards = games.div_ceil(games_per_piece);
    let openings = file.as_ref().map(|(name, _)| name.clone());
    let source = format!("{openings:?} {}", file.as_ref().map_or(0, |(_, bytes)| bytes.len()));
    let sprt = sprt.map(|Sprt { elo0, elo1 }| [elo0, elo1]);
    let kind = Kind::Games { games, shards, openings, training, sprt };
    let job = new_job(common, kind, identity, engine.flags, source);
    submit(server, job, |id| empty_pieces(id, shards), file.map(|(_, bytes)| bytes)).await
}

async fn test(server: &ServerArgs, arguments: SubmitTestArgs) -> Result<(), FleetError> {
    let SubmitTestArgs { common, pieces, milliseconds, computes } = arguments;
    let kind = Kind::Test { milliseconds, computes };
    let job = new_job(common, kind, None, Vec::new(), pieces.to_string());
    submit(server, job, |id| empty_pieces(id, pieces), None).await
}

/// Pieces of which nothing is needed but their numbers.
fn empty_pieces(job: &str, count: u64) -> impl Iterator<Item = Result<Piece, String>> + use<> {
    let job = job.to_owned();
    (0..count).map(move |piece| Ok(Piece { job: job.clone(), piece, documents: Vec::new() }))
}

/// The engine that may work on a job: this machine's, unless flags say otherwise.
async fn identity(arguments: &EngineArgs, mode: Mode) -> Result<Option<EngineIdentity>, FleetError> {
    let program = engine::program(arguments.engine.as_deref());
    // Nothing is started with flags that a job must not have.
    let flags = engine_flags(&arguments.flags, &Folders::new(&arguments.folders, &program))?;
    if arguments.any_version && arguments.network.is_some() {
        return Ok(None);
    }
    let found = engine::identity(&program, mode, &flags).await?;
    if arguments.any_version {
        return Ok(None);
    }
    let network = match arguments.network.as_deref() {
        Some("any") => None,
        Some(name) => Some(name.to_owned()),
        None => found.network,
    };
    Ok(Some(EngineIdentity { version: found.version, network }))
}

fn new_job(
    common: CommonArgs,
    kind: Kind,
    engine: Option<EngineIdentity>,
    flags: Vec<String>,
    source: String,
) -> Job {
    Job {
        protocol: job::PROTOCOL,
        name: common.job,
        id: job::new_id(),
        created_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        priority: common.priority,
        kind,
        engine,
        flags,
        most_deliveries: common.tries,
        redelivery_s: common.silence,
        time_limit_s: common.time_limit,
        source,
        pieces: None,
        troubles: Vec::new(),
        is_decided: false,
    }
}

/// Stores a job and its pieces. `pieces` gets the job's number and makes them. `openings` is the content of the file of
/// openings.
async fn submit<P: Iterator<Item = Result<Piece, String>>>(
    server: &ServerArgs,
    mut job: Job,
    pieces: impl FnOnce(&str) -> P,
    openings: Option<Vec<u8>>,
) -> Result<(), FleetError> {
    let context = connect(server, "rukh-fleet submit").await?;
    if let Some(bytes) = JOBS.get(&context, &job.name).await? {
        let found: Option<Job> = serde_json::from_slice(&bytes).ok();
        match found {
            Some(found) if is_same(&found, &job) => match found.pieces {
                Some(count) => {
                    print_error_line(&format!("the job `{}` is complete, with {count} pieces", job.name));
                    return Ok(());
                }
                None => (job.id, job.created_s) = (found.id, found.created_s),
            },
            _ => {
                return Err(FleetError::Refused(format!(
                    "there is another job `{}`; choose another name, or remove it with `rukh-fleet remove {}`",
                    job.name, job.name
                )));
            }
        }
    }
    if let Some(bytes) = openings {
        FILES.put(&context, &job.name, bytes.into()).await?;
    }
    open_streams(&context, &job).await?;
    put_job(&context, &job).await?;
    let mut troubles = Vec::new();
    let pieces = pieces(&job.id).filter_map(|piece| match piece {
        Ok(piece) => Some(piece),
        Err(trouble) => {
            print_error_line(&trouble);
            troubles.push(trouble);
            None
        }
    });
    let count = publish(&context, &job, pieces).await?;
    job.pieces = Some(count);
    job.troubles = troubles;
    put_job(&context, &job).await?;
    print_error_line(&format!("submitted the job `{}` in {count} pieces", job.name));
    match job.troubles.is_empty() {
        true => Ok(()),
        false => Err(FleetError::Refused(
            "a file could not be read to its end; all that could be read is submitted".to_owned(),
        )),
    }
}

/// Whether two records are about the same work. The time and the progress do not count.
fn is_same(found: &Job, job: &Job) -> bool {
    let of_work = |job: &Job| Job {
        id: String::new(),
        created_s: 0,
        pieces: None,
        troubles: Vec::new(),
        is_decided: false,
        ..job.clone()
    };
    of_work(found) == of_work(job)
}

/// Makes the streams of a job, and the consumer of its workers.
async fn open_streams(context: &Context, job: &Job) -> Result<(), FleetError> {
    let name = &job.name;
    let mut streams = vec![
        (job::work_stream(name), vec![job::work_subject(name)]),
        (job::done_stream(name), vec![job::done_subject(name), job::failed_subject(name)]),
    ];
    if matches!(job.kind, Kind::Games { training: true, .. }) {
        streams.push((job::chunk_stream(name), vec![job::chunk_subject(name)]));
    }
    for (stream, subjects) in streams {
        let config = stream::Config {
            name: stream.clone(),
            subjects,
            allow_direct: true,
            // The number of a piece makes results idempotent, so the server need not remember its messages.
            duplicate_window: Duration::from_secs(1),
            ..stream::Config::default()
        };
        let opened = context.get_or_create_stream(config).await;
        opened.map_err(|error| server_error(format!("open the stream {stream}"), error))?;
    }
    let config = pull::Config {
        durable_name: Some(job.consumer()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: Duration::from_secs(job.redelivery_s),
        max_ack_pending: MOST_IN_WORK,
        max_waiting: MOST_WAITING,
        ..pull::Config::default()
    };
    let made = context.create_consumer_on_stream(config, job::work_stream(name)).await;
    made.map(drop).map_err(|error| server_error("make the consumer of the workers", error))
}
