//! `simulate`: measures how many pieces a second a server can do, with many simulated workers in one process. A worker
//! has a connection of its own and does what a real one does, except that its pieces only wait.

use super::args::{ServerArgs, SimulateArgs};
use super::error::{FleetError, server_error};
use super::job::{self, Kind, PieceResult};
use super::server::{connect_client, context_of, job};
use crate::work::spend;
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
        let (name, ahead, start) = (job.name.clone(), arguments.ahead, Arc::clone(&start));
        let server = server.clone();
        workers.spawn(async move {
            let client = connect_client(&server, "rukh-fleet simulated worker", true).await;
            start.wait().await;
            work(context_of(client?), name, pause, ahead, &count, &ended).await
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

async fn work(
    context: Context,
    name: String,
    pause: Duration,
    ahead: usize,
    count: &AtomicU64,
    ended: &AtomicBool,
) -> Result<(), FleetError> {
    let failed = |error: String| server_error("work on a piece", error);
    let stream = context.get_stream_no_info(job::work_stream(&name)).await;
    let stream = stream.map_err(|error| failed(error.to_string()))?;
    let consumer: PullConsumer =
        stream.get_consumer(job::CONSUMER).await.map_err(|error| failed(error.to_string()))?;
    let messages = consumer.stream().max_messages_per_batch(ahead + 1).messages().await;
    let mut messages = messages.map_err(|error| failed(error.to_string()))?;
    while let Some(message) = messages.next().await {
        if ended.load(Ordering::Relaxed) {
            break;
        }
        let message = message.map_err(|error| failed(error.to_string()))?;
        let piece = serde_json::from_slice::<job::Piece>(&message.payload);
        let piece = piece.map_err(|error| failed(error.to_string()))?;
        tokio::time::sleep(pause).await;
        let result = serde_json::to_vec(&PieceResult::new(piece.piece)).unwrap_or_default();
        let ack = context.publish(job::done_subject(&name), result.into()).await;
        ack.map_err(|error| failed(error.to_string()))?.await.map_err(|error| failed(error.to_string()))?;
        message.ack().await.map_err(|error| failed(error.to_string()))?;
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
