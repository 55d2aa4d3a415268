//! `simulate`: measures how many pieces a second a server can do, with many simulated workers in one process. A worker
//! has a connection of its own and does what a real one does, except that its pieces only wait.

use super::args::{ServerArgs, SimulateArgs};
use super::error::{FleetError, server_error};
use super::job::{self, Job, Kind, PieceResult};
use super::server::{connect_client, context_of, job};
use crate::work::{pieces_ahead, spend};
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::context::Context;
use futures_util::StreamExt;
use serde_json::json;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// The time before the measurement begins.
const WARM_UP: Duration = Duration::from_secs(2);

/// How late the timer of the runtime may be.
const TIMER: Duration = Duration::from_millis(2);

/// Measures, and prints the pieces a second as JSON.
///
/// # Errors
/// The server does not answer, or the job is not a test.
pub(crate) async fn run(server: &ServerArgs, arguments: &SimulateArgs) -> Result<(), FleetError> {
    let client = connect_client(server, "rukh-fleet simulate", false).await?;
    let job = job(&context_of(client), &arguments.job).await?;
    let Kind::Test { milliseconds, computes } = job.kind else {
        return Err(FleetError::Refused("simulated workers work on jobs of the kind test only".to_owned()));
    };
    let pause = Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or_default();
    // Only figures and a flag, so their orderings are Relaxed.
    let (count, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut workers = JoinSet::new();
    // All workers begin together, when the last one has its connection.
    let start = Arc::new(Barrier::new(if arguments.local { 1 } else { arguments.workers as usize + 1 }));
    for _ in 0..arguments.workers {
        let (count, ended) = (Arc::clone(&count), Arc::clone(&ended));
        if arguments.local {
            workers.spawn_blocking(move || {
                while !ended.load(Ordering::Relaxed) {
                    spend(pause, computes);
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
            continue;
        }
        let (job, start) = (job.clone(), Arc::clone(&start));
        let server = server.clone();
        workers.spawn(async move {
            let client = connect_client(&server, "rukh-fleet simulated worker", true).await;
            start.wait().await;
            work(context_of(client?), job, pause, &count, &ended).await
        });
    }
    start.wait().await;
    tokio::time::sleep(WARM_UP).await;
    let (begun, before) = (Instant::now(), count.load(Ordering::Relaxed));
    tokio::time::sleep(Duration::try_from_secs_f64(arguments.seconds).unwrap_or_default()).await;
    let done = count.load(Ordering::Relaxed) - before;
    let seconds = begun.elapsed().as_secs_f64();
    ended.store(true, Ordering::Relaxed);
    let stop = async {
        while let Some(worker) = workers.join_next().await {
            if let Ok(Err(error)) = worker {
                return Err(error);
            }
        }
        Ok(())
    };
    // A worker that waits for pieces need not be waited for.
    tokio::time::timeout(Duration::from_secs(3), stop).await.unwrap_or(Ok(()))?;
    let figures = json!({
        "workers": arguments.workers,
        "milliseconds": milliseconds,
        "pieces": done,
        "seconds": seconds,
        "pieces_per_second": done as f64 / seconds,
    });
    let _ = writeln!(std::io::stdout(), "{figures}");
    Ok(())
}

/// A worker with one slot. Like a real one it holds pieces ahead, and stores results while it works on the next piece.
async fn work(
    context: Context,
    job: Job,
    pause: Duration,
    count: &Arc<AtomicU64>,
    ended: &AtomicBool,
) -> Result<(), FleetError> {
    let failed = |error: String| server_error("work on a piece", error);
    let stream = context.get_stream_no_info(job::work_stream(&job.name)).await;
    let stream = stream.map_err(|error| failed(error.to_string()))?;
    let consumer: PullConsumer =
        stream.get_consumer(&job.consumer()).await.map_err(|error| failed(error.to_string()))?;
    let most = 1 + pieces_ahead(pause.as_secs_f64(), 1);
    let messages = consumer.stream().max_messages_per_batch(most).messages().await;
    let mut messages = messages.map_err(|error| failed(error.to_string()))?;
    let mut storing: JoinSet<Result<(), String>> = JoinSet::new();
    // The runtime's timer is late by up to two milliseconds. So the end of a piece follows from that of the one before it,
    // as long as there was always a piece.
    let mut free_at = tokio::time::Instant::now();
    while let Some(message) = messages.next().await {
        if ended.load(Ordering::Relaxed) {
            break;
        }
        let message = message.map_err(|error| failed(error.to_string()))?;
        let piece = serde_json::from_slice::<job::Piece>(&message.payload);
        let piece = piece.map_err(|error| failed(error.to_string()))?;
        if !pause.is_zero() {
            let late = tokio::time::Instant::now().checked_sub(TIMER).unwrap_or(free_at);
            free_at = free_at.max(late) + pause;
            tokio::time::sleep_until(free_at).await;
        }
        let result = serde_json::to_vec(&PieceResult::new(&piece.job, piece.piece)).unwrap_or_default();
        let (context, count, subject) = (context.clone(), Arc::clone(count), job::done_subject(&job.name));
        storing.spawn(async move {
            let ack = context.publish(subject, result.into()).await.map_err(|error| error.to_string())?;
            ack.await.map_err(|error| error.to_string())?;
            message.ack().await.map_err(|error| error.to_string())?;
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        loop {
            let has_room = storing.len() <= most;
            let stored = if has_room { storing.try_join_next() } else { storing.join_next().await };
            let Some(stored) = stored else { break };
            stored.unwrap_or(Ok(())).map_err(failed)?;
        }
    }
    Ok(())
}
