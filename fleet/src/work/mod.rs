//! `work`: pulls pieces and lets the engine work on them.
//!
//! A worker works on one job at a time, because jobs have different settings of the engine. It leaves a job when there
//! are no more pieces or when a job with a higher priority has some.
//!
//! | module | what it does |
//! |---|---|
//! | [`pieces`] | pulls the pieces of a job, has them worked on, stores the results |
//! | [`worker`] | what the worker keeps from one job to the next |
//! | [`umpire`] | ends a tournament whose test is decided |
//! | [`store`] | stores a result and acknowledges its piece |
//! | [`finished`] | knows which pieces have a result already |
//! | [`report`] | reports the worker's state |
//! | [`runner`] | works on a piece, by its kind |
//! | [`analysis`] | the engine that analyses documents |
//! | [`games`] | the engine that plays games |
//! | [`outcome`] | how a piece has ended |

mod analysis;
mod finished;
mod games;
mod outcome;
mod pieces;
mod report;
mod runner;
mod store;
mod umpire;
mod worker;

use super::args::{ServerArgs, WorkArgs};
use super::engine;
use super::error::{FleetError, print_error_line};
use super::job::{self, Job, checked_name};
use super::server::{JOBS, Jobs, WORKERS, connect_client, context_of, jobs};
use super::signal::signal;
use async_nats::jetstream::consumer::{Info, PullConsumer};
pub(crate) use pieces::pieces_ahead;
pub(crate) use report::Report;
pub(crate) use runner::spend;

use pieces::End;
use report::Reporter;
use runner::Runner;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use worker::Worker;

/// The pause before jobs are looked for again.
const IDLE_PAUSE: Duration = Duration::from_secs(1);

/// The pause before an engine that could not be started is tried again.
const ENGINE_PAUSE: Duration = Duration::from_secs(30);

/// Works until the user interrupts it, or until all work is done if that is asked for.
///
/// # Errors
/// The settings of the connection are wrong.
pub(crate) async fn run(server: &ServerArgs, arguments: WorkArgs) -> Result<(), FleetError> {
    let name = match &arguments.name {
        Some(name) => name.clone(),
        None => default_name(),
    };
    let client = connect_client(server, &name, true).await?;
    let context = context_of(client.clone());
    let stop = watch_signals();
    let reporter = Reporter::new(&name);
    let reports = tokio::spawn(reporter.clone().publish_forever(context.clone()));
    let program = engine::program(arguments.engine.as_deref());
    let refused = HashMap::new();
    let mut worker = Worker { context, program, arguments, name, reporter, stop, refused };
    let ended = worker.run().await;
    reports.abort();
    // The server forgets the worker by itself if it cannot be told now.
    let goodbye = async {
        let _ = WORKERS.remove(&worker.context, &worker.name).await;
        let _ = client.flush().await;
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), goodbye).await;
    ended
}

/// The machine's name and the number of the process.
fn default_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("COMPUTERNAME").ok()).or_else(|| std::env::var("HOSTNAME").ok());
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let host: String = host.unwrap_or_default().trim().chars().map(allowed).take(48).collect();
    let host = checked_name(&host).unwrap_or_else(|_| "worker".to_owned());
    format!("{host}-{}", std::process::id())
}

/// Becomes true at the first signal that asks the process to end. The second one ends it at once.
fn watch_signals() -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        signal().await;
        print_error_line(
            "ending; the pieces that are being worked on are finished first, if that takes at most ten seconds",
        );
        let _ = sender.send(true);
        signal().await;
        std::process::exit(1);
    });
    receiver
}

impl Worker {
    async fn run(&mut self) -> Result<(), FleetError> {
        // The engine stays for a job whose pieces come in portions.
        let mut runner: Option<(String, Runner)> = None;
        let mut has_named_trouble = false;
        while !*self.stop.borrow() {
            let choice = match self.choose().await {
                Ok(choice) => {
                    has_named_trouble = false;
                    choice
                }
                Err(error) => {
                    if !has_named_trouble {
                        print_error_line(&format!("{error}; tries again"));
                        has_named_trouble = true;
                    }
                    self.pause(IDLE_PAUSE).await;
                    continue;
                }
            };
            let (job, consumer) = match choice {
                Choice::Job(job, consumer) => (*job, *consumer),
                Choice::Nothing { is_all_done: true } if self.arguments.once => return Ok(()),
                Choice::Nothing { .. } => {
                    self.reporter.set_job(None);
                    runner = None;
                    self.pause(IDLE_PAUSE).await;
                    continue;
                }
            };
            if runner.as_ref().is_none_or(|(id, _)| *id != job.id) {
                // Two engines at once may not fit into the memory of a graphics card.
                drop(runner.take());
                match Runner::start(&self.context, &self.program, &job, &self.arguments).await {
                    Ok(started) => runner = Some((job.id.clone(), started)),
                    Err(refusal) => {
                        let text = format!("job {}: {}", job.name, refusal.reason);
                        print_error_line(&text);
                        self.reporter.refuse(&job.name, &refusal.reason);
                        let until = (!refusal.is_final).then(|| Instant::now() + ENGINE_PAUSE);
                        self.refuse(&job, until);
                        continue;
                    }
                }
            }
            self.reporter.accept(&job.name);
            if let Some((_, started)) = &mut runner {
                match pieces::work(self, &job, &consumer, started).await {
                    End::Idle | End::Stopped | End::OtherJob => {}
                    // An engine that is lost again and again is started anew, after a pause.
                    End::EngineLost(reason) => {
                        print_error_line(&format!("job {}: {reason}", job.name));
                        self.reporter.refuse(&job.name, &reason);
                        runner = None;
                        self.refuse(&job, Some(Instant::now() + ENGINE_PAUSE));
                    }
                }
            }
        }
        Ok(())
    }

    /// Sleeps, unless the process should end.
    async fn pause(&mut self, pause: Duration) {
        let mut stop = self.stop.clone();
        let _ = tokio::time::timeout(pause, stop.wait_for(|&stop| stop)).await;
    }

    /// The job to work on: the first one with pieces that wait. Without one, the first one with pieces that other workers
    /// hold, because they may be lost.
    async fn choose(&mut self) -> Result<Choice, FleetError> {
        JOBS.open(&self.context).await?;
        WORKERS.open(&self.context).await?;
        let Jobs { known: jobs, others, unreadable } = jobs(&self.context).await?;
        for (name, version) in others {
            let reason =
                format!("it has version {version} of the protocol, and this worker {}", job::PROTOCOL);
            self.reporter.refuse(&name, &reason);
        }
        for (name, reason) in unreadable {
            self.reporter.refuse(&name, &format!("its record cannot be used: {reason}"));
        }
        let (mut fallback, mut is_all_done) = (None, true);
        for job in jobs {
            let is_ours = self.arguments.job.as_ref().is_none_or(|name| *name == job.name);
            if !is_ours || job.is_decided || self.is_refused(&job) {
                continue;
            }
            let stream = self.context.get_stream_no_info(job::work_stream(&job.name)).await;
            let Ok(stream) = stream else { continue };
            let Ok(mut consumer) = stream.get_consumer(&job.consumer()).await else { continue };
            let consumer: &mut PullConsumer = &mut consumer;
            let Ok(Info { num_pending, num_ack_pending, .. }) = consumer.info().await else { continue };
            let (waiting, held) = (*num_pending, *num_ack_pending);
            if waiting > 0 {
                return Ok(Choice::Job(Box::new(job), Box::new(consumer.clone())));
            }
            // A job that is being submitted will have more pieces.
            is_all_done &= held == 0 && job.pieces.is_some();
            if held > 0 && fallback.is_none() {
                fallback = Some(Choice::Job(Box::new(job), Box::new(consumer.clone())));
            }
        }
        Ok(fallback.unwrap_or(Choice::Nothing { is_all_done }))
    }
}

/// What a worker does next.
enum Choice {
    Job(Box<Job>, Box<PullConsumer>),
    /// There is no piece now. `is_all_done` says that there will be none either.
    Nothing {
        is_all_done: bool,
    },
}
