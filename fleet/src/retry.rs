//! `retry`: lets pieces that were put aside, or that are lost, be worked on again. `remove`: removes a job.

use super::args::{JobArgs, ServerArgs};
use super::error::{FleetError, print_error_line, server_error};
use super::job::{self, Piece};
use super::results::{Log, Pieces, parse};
use super::server::{FILES, JOBS, connect, counts, job};
use async_nats::jetstream::context::DeleteStreamErrorKind;
use futures_util::TryStreamExt;
use std::pin::pin;

/// Stores the pieces without a result again.
///
/// # Errors
/// There is no such job, or the server does not store a piece.
pub(crate) async fn run(server: &ServerArgs, arguments: &JobArgs) -> Result<(), FleetError> {
    let context = connect(server, "rukh-fleet retry").await?;
    let job = job(&context, &arguments.job).await?;
    let Some(pieces) = job.pieces else {
        return Err(FleetError::HalfSubmitted);
    };
    if job.is_decided {
        return Err(FleetError::Refused(format!(
            "the test of `{}` is already decided, so its other pieces are not needed",
            job.name
        )));
    }
    let done = Log::open(&context, job::done_stream(&job.name)).await?;
    let work = Log::open(&context, job::work_stream(&job.name)).await?;
    let (mut finished, mut failed) = (Pieces::default(), Pieces::default());
    let last = done.last().await?;
    let mut messages = pin!(done.read(1..=last));
    while let Some((_, bytes)) = messages.try_next().await? {
        // A message that is not a result of this job finishes no piece. `collect` names it.
        let Some(Ok(result)) = bytes.map(|bytes| parse(&bytes, &job, pieces)) else { continue };
        let set = if result.error.is_some() { &mut failed } else { &mut finished };
        set.insert(result.piece);
    }
    // As long as workers have pieces, those without a result may be among them.
    let where_they_are = counts(&context, &job).await?;
    let is_quiet = where_they_are.waiting + where_they_are.held == 0;
    let mut number = 0;
    for piece in 0..pieces {
        if finished.contains(piece) || !(failed.contains(piece) || is_quiet) {
            continue;
        }
        let Some(bytes) = work.get(piece + 1).await? else { continue };
        if let Err(reason) = Piece::read(&bytes, &job).and_then(|found| found.is_number(piece)) {
            print_error_line(&format!("piece {piece} cannot be tried again: {reason}"));
            continue;
        }
        let failed = |error| server_error(format!("store piece {piece}"), error);
        let ack = context.publish(job::work_subject(&job.name), bytes).await.map_err(failed)?;
        ack.await.map_err(failed)?;
        number += 1;
    }
    let stream = context.get_stream_no_info(job::done_stream(&job.name)).await;
    let stream = stream.map_err(|error| server_error("open the results", error))?;
    let purged = stream.purge().filter(job::failed_subject(&job.name)).await;
    purged.map_err(|error| server_error("remove the errors", error))?;
    print_error_line(&format!("{number} pieces are tried again"));
    Ok(())
}

/// Removes a job with everything that belongs to it.
///
/// # Errors
/// The server does not remove it.
pub(crate) async fn remove(server: &ServerArgs, arguments: &JobArgs) -> Result<(), FleetError> {
    let context = connect(server, "rukh-fleet remove").await?;
    let name = &arguments.job;
    if JOBS.get(&context, name).await?.is_none() {
        return Err(FleetError::NoJob(name.clone()));
    }
    // The record goes last, so that the command can be repeated.
    for stream in [job::work_stream(name), job::done_stream(name), job::chunk_stream(name)] {
        match context.delete_stream(&stream).await {
            Ok(_) => {}
            Err(error) => match error.kind() {
                DeleteStreamErrorKind::JetStream(error)
                    if error.error_code() == async_nats::jetstream::ErrorCode::STREAM_NOT_FOUND => {}
                _ => return Err(server_error(format!("remove {stream}"), error)),
            },
        }
    }
    FILES.remove(&context, name).await?;
    JOBS.remove(&context, name).await
}
