//! Pulls the pieces of a job, has them worked on, and stores the results.
//!
//! A worker holds the pieces that it works on and a few more, so that it never waits for the server. It tells the server
//! every few seconds that it still has them. A piece is acknowledged after its result is stored. A piece whose worker is
//! gone is delivered to another one.
//!
//! A piece that fails is given back, and put aside with its error when it was tried often enough. If the engine ends, all
//! pieces that it had are suspects, and each of them is tried alone; the one with which the engine ends again has failed.
//! An engine that takes too long for a piece is ended, with the same consequences.
//! A piece that was delivered too often without any result, because its workers were killed, is tried alone as well, and
//! then put aside.
//!
//! If the server delivers pieces again that have a result already ([`super::finished`]), they are only acknowledged.

use super::finished::Deliveries;
use super::outcome::Outcome;
use super::runner::{Runner, StartError};
use super::store::{Held, Received, store};
use super::umpire::Umpire;
use super::worker::Worker;
use crate::job::{self, Job, PieceResult};
use crate::results::Log;
use crate::server::{self, Jobs, jobs};
use async_nats::jetstream::AckKind;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::pull::Batch;
use bytes::Bytes;
use futures_util::StreamExt;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// The work that is held beside the pieces that are being worked on, in seconds.
const AHEAD_S: f64 = 0.25;

/// The most pieces that are held beside those that are being worked on.
const MOST_AHEAD: usize = 256;

/// How long the server waits for pieces before it says that there are none.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the worker looks for jobs with a higher priority.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The pause before a piece that has failed is delivered again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The pause after the server has refused to deliver pieces.
const PULL_PAUSE: Duration = Duration::from_millis(500);

/// How long a worker that should end waits for the pieces that it works on.
const GRACE: Duration = Duration::from_secs(10);

/// How often the engine may be started anew before the worker leaves the job alone for a while.
const MOST_RESTARTS: u32 = 20;

/// Why the work on a job has ended.
pub(super) enum End {
    /// There are no more pieces now.
    Idle,
    /// The process should end.
    Stopped,
    /// The job is gone, or another job comes first.
    OtherJob,
    /// The engine cannot be started any more, or it ends with every piece.
    EngineLost(String),
}

/// How many pieces to hold beside those that are being worked on, given the mean time of a piece in seconds.
pub(crate) fn pieces_ahead(mean_s: f64, slots: usize) -> usize {
    let pieces = (AHEAD_S / mean_s.max(1e-6) * slots as f64).ceil();
    (pieces as usize).clamp(1, MOST_AHEAD)
}

/// Works on a job until there are no more pieces.
pub(super) async fn work(
    worker: &mut Worker,
    job: &Job,
    consumer: &PullConsumer,
    runner: &mut Runner,
) -> End {
    worker.reporter.set_engine(runner.describe());
    let deliveries = Deliveries::new(&worker.context, job);
    let mut shift = Shift {
        job,
        worker,
        waiting: VecDeque::new(),
        suspects: VecDeque::new(),
        held: HashMap::new(),
        next_key: 0,
        working: JoinSet::new(),
        storing: JoinSet::new(),
        deliveries,
        unchecked: VecDeque::new(),
        skipping: Skipping::No,
        is_alone: false,
        mean_s: 1.0,
        mean_positions: 256.0,
        restarts: 0,
        umpire: Umpire::new(job),
    };
    let end = shift.run(consumer, runner).await;
    // Other workers get what is left.
    for held in shift.held.values() {
        held.give_back(Duration::ZERO).await;
    }
    shift.worker.reporter.set_running(0);
    end
}

/// Whether the server delivers pieces that have a result already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Skipping {
    No,
    /// It does; therefore many are pulled at once.
    Yes,
    /// It did, so there may be more pieces here than this worker needs.
    Ended,
}

/// A worker's work on a job.
struct Shift<'a> {
    job: &'a Job,
    worker: &'a mut Worker,
    /// The keys of the pieces that wait.
    waiting: VecDeque<u64>,
    /// The keys of the pieces that are tried alone.
    suspects: VecDeque<u64>,
    /// The pieces whose results are not stored.
    held: HashMap<u64, Arc<Held>>,
    next_key: u64,
    working: JoinSet<(u64, Outcome, Duration)>,
    /// Results that are being stored, with the keys and the positions of their pieces.
    storing: JoinSet<(u64, u64)>,
    /// Knows the pieces that have a result although the server delivers them. Pieces that come while these are read are
    /// `unchecked`.
    deliveries: Deliveries,
    unchecked: VecDeque<u64>,
    skipping: Skipping,
    /// Whether the piece that is being worked on is tried alone.
    is_alone: bool,
    /// The mean time and the mean number of positions of a piece.
    mean_s: f64,
    mean_positions: f64,
    restarts: u32,
    /// Ends a tournament whose test is decided.
    umpire: Option<Umpire>,
}

impl Shift<'_> {
    async fn run(&mut self, consumer: &PullConsumer, runner: &mut Runner) -> End {
        let mut stop = self.worker.stop.clone();
        self.deliveries.look().await;
        let Ok(pieces) = Log::open(&self.worker.context, job::work_stream(&self.job.name)).await else {
            return End::OtherJob;
        };
        let mut batch: Option<Batch> = None;
        let mut pull_after = Instant::now();
        // The pieces of the current batch, and whether the last one was empty.
        let (mut from_batch, mut is_exhausted) = (0, false);
        let third = Duration::from_secs_f64(self.job.redelivery_s as f64 / 3.0);
        let mut hold = tokio::time::interval(third);
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        look.reset();
        for timer in [&mut hold, &mut look] {
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            if *stop.borrow() {
                return self.finish(GRACE, End::Stopped).await;
            }
            if batch.is_none() && is_exhausted && self.held.is_empty() {
                return End::Idle;
            }
            self.start_pieces(runner);
            let slots = self.slots(runner);
            let ahead = match self.skipping {
                Skipping::Yes => MOST_AHEAD,
                Skipping::No | Skipping::Ended => pieces_ahead(self.mean_s, slots),
            };
            if self.skipping == Skipping::Ended && batch.is_none() {
                self.skipping = Skipping::No;
                self.give_back_surplus(slots + ahead).await;
            }
            let here = self.waiting.len() + self.unchecked.len() + self.working.len();
            let missing = (slots + ahead).saturating_sub(here);
            let has_room = self.suspects.is_empty() && self.storing.len() <= slots + ahead;
            if batch.is_none()
                && has_room
                && 2 * missing > ahead
                && missing > 0
                && Instant::now() >= pull_after
            {
                match consumer.batch().max_messages(missing).expires(PATIENCE).messages().await {
                    Ok(opened) => (batch, from_batch) = (Some(opened), 0),
                    Err(_) => pull_after = Instant::now() + PULL_PAUSE,
                }
            }
            tokio::select! {
                message = async { batch.as_mut()?.next().await }, if batch.is_some() => match message {
                    Some(Ok(message)) => {
                        from_batch += 1;
                        is_exhausted = false;
                        match Held::read(message, &self.worker.context, self.job, &pieces).await {
                            Ok(Received::Piece(held)) => self.receive(held).await,
                            Ok(Received::NoPiece(result, message)) => {
                                let reason = result.error.as_deref().unwrap_or_default();
                                self.worker.reporter.failed(&format!("job {}: {reason}", self.job.name));
                                store(&self.worker.context, &self.job.name, *result, &[]).await;
                                let _ = message.ack().await;
                            }
                            Ok(Received::OtherJob(message)) => {
                                let _ = message.ack_with(AckKind::Nak(None)).await;
                                return self.finish(Duration::ZERO, End::OtherJob).await;
                            }
                            // The server delivers it again.
                            Ok(Received::Foreign) | Err(_) => {}
                        }
                    }
                    Some(Err(_)) => {
                        batch = None;
                        pull_after = Instant::now() + PULL_PAUSE;
                    }
                    None => {
                        batch = None;
                        is_exhausted = from_batch == 0;
                    }
                },
                Some(finished) = self.working.join_next() => {
                    if let Ok((key, outcome, time)) = finished
                        && let Some(end) = self.finished(key, outcome, time, runner).await
                    {
                        return end;
                    }
                }
                Some(stored) = self.storing.join_next() => self.stored(stored.ok()),
                Some(()) = self.deliveries.has_read() => {
                    for key in std::mem::take(&mut self.unchecked) {
                        self.take(key).await;
                    }
                }
                _ = hold.tick() => {
                    for held in self.held.values().filter(|held| held.taken.elapsed() > third / 2) {
                        held.in_progress().await;
                    }
                }
                _ = look.tick() => if let Some(time) = self.time_left().await {
                    return self.finish(time, End::OtherJob).await;
                },
                () = tokio::time::sleep_until(pull_after.into()),
                    if batch.is_none() && Instant::now() < pull_after => {}
                _ = stop.changed() => {}
            }
        }
    }

    fn slots(&self, runner: &Runner) -> usize {
        match self.worker.arguments.slots {
            Some(slots) => usize::from(slots),
            None => runner.slots(self.mean_positions),
        }
    }

    /// Receives a piece that was delivered.
    async fn receive(&mut self, held: Held) {
        self.deliveries.note(held.delivery);
        let key = self.next_key;
        self.next_key += 1;
        self.held.insert(key, Arc::new(held));
        match self.deliveries.is_reading() {
            true => self.unchecked.push_back(key),
            false => self.take(key).await,
        }
    }

    /// Lets a piece wait for its turn, unless it has a result already.
    async fn take(&mut self, key: u64) {
        let Some(held) = self.held.get(&key) else { return };
        if self.deliveries.is_finished(held.piece.piece) {
            held.acknowledge().await;
            self.held.remove(&key);
            self.skipping = Skipping::Yes;
            return;
        }
        if self.skipping == Skipping::Yes {
            self.skipping = Skipping::Ended;
        }
        let most = self.job.most_deliveries;
        if held.deliveries > 2 * most {
            let mut result = PieceResult::new(&self.job.id, held.piece.piece);
            result.error = Some(format!(
                "it was delivered {} times, and its workers were lost, even when it was tried alone",
                held.deliveries - 1
            ));
            self.put_aside(key, result);
            return;
        }
        let queue = if held.deliveries > most { &mut self.suspects } else { &mut self.waiting };
        queue.push_back(key);
    }

    /// Gives pieces back that are more than `most` to other workers.
    async fn give_back_surplus(&mut self, most: usize) {
        for key in self.waiting.split_off(most.min(self.waiting.len())) {
            if let Some(held) = self.held.remove(&key) {
                held.give_back(Duration::ZERO).await;
            }
        }
    }

    /// Starts as many pieces as there are slots. A suspect has the engine alone.
    fn start_pieces(&mut self, runner: &Runner) {
        if !self.suspects.is_empty() {
            if self.working.is_empty()
                && let Some(key) = self.suspects.pop_front()
            {
                self.is_alone = true;
                self.start(key, runner);
            }
            return;
        }
        if self.is_alone && !self.working.is_empty() {
            return;
        }
        self.is_alone = false;
        while self.working.len() < self.slots(runner) {
            let Some(key) = self.waiting.pop_front() else { break };
            self.start(key, runner);
        }
    }

    fn start(&mut self, key: u64, runner: &Runner) {
        let Some(held) = self.held.get(&key) else { return };
        let (held, runner) = (Arc::clone(held), runner.clone());
        let limit = Duration::from_secs(self.job.time_limit_s);
        self.working.spawn(async move {
            let begun = Instant::now();
            let outcome = runner.run(&held.piece, limit).await;
            (key, outcome, begun.elapsed())
        });
        self.worker.reporter.set_running(self.working.len());
    }

    /// Deals with a piece that is not worked on any more. Returns why the work cannot go on, if it cannot.
    async fn finished(
        &mut self,
        key: u64,
        outcome: Outcome,
        time: Duration,
        runner: &mut Runner,
    ) -> Option<End> {
        self.worker.reporter.set_running(self.working.len());
        match outcome {
            Outcome::Done(mut result, chunks) => {
                self.mean_s += 0.1 * (time.as_secs_f64() - self.mean_s);
                if result.positions > 0 {
                    self.mean_positions += 0.1 * (result.positions as f64 - self.mean_positions);
                }
                if !matches!(runner, Runner::Test(_)) {
                    result.worker.clone_from(&self.worker.name);
                }
                self.restarts = 0;
                self.store(key, result, chunks);
                None
            }
            Outcome::Failed(reason) => {
                self.failed(key, reason).await;
                None
            }
            Outcome::EngineLost(reason) => self.engine_lost(key, reason, runner).await,
        }
    }

    /// Starts the engine anew. What it worked on is tried alone.
    async fn engine_lost(&mut self, key: u64, reason: String, runner: &mut Runner) -> Option<End> {
        if self.is_alone {
            self.failed(key, reason.clone()).await;
        } else {
            self.worker
                .reporter
                .failed(&format!("job {}: {reason}; each of its pieces is tried alone", self.job.name));
            self.suspects.push_back(key);
        }
        while let Some(finished) = self.working.join_next().await {
            match finished {
                Ok((key, Outcome::EngineLost(_), _)) => self.suspects.push_back(key),
                Ok((key, Outcome::Done(result, chunks), _)) => self.store(key, result, chunks),
                Ok((key, Outcome::Failed(reason), _)) => self.failed(key, reason).await,
                Err(_) => {}
            }
        }
        self.restarts += 1;
        if self.restarts > MOST_RESTARTS {
            return Some(End::EngineLost(reason));
        }
        let Worker { context, program, arguments, .. } = &*self.worker;
        match Runner::start(context, program, self.job, arguments).await {
            Ok(started) => {
                *runner = started;
                None
            }
            Err(StartError { reason, .. }) => Some(End::EngineLost(reason)),
        }
    }

    /// Gives a piece back that has failed, or puts it aside.
    async fn failed(&mut self, key: u64, reason: String) {
        let Some(held) = self.held.get(&key) else { return };
        let (piece, deliveries) = (held.piece.piece, held.deliveries);
        let place = match held.piece.documents.as_slice() {
            [] => String::new(),
            [only] => format!(" ({})", only.place),
            [first, .., last] => format!(" ({} to {})", first.place, last.place),
        };
        let text =
            format!("job {}: piece {piece}{place} has failed, try {deliveries}: {reason}", self.job.name);
        self.worker.reporter.failed(&text);
        if deliveries < self.job.most_deliveries {
            held.give_back(RETRY_PAUSE).await;
            self.held.remove(&key);
        } else {
            let mut result = PieceResult::new(&self.job.id, piece);
            result.error = Some(format!("piece {piece}{place}: {reason}"));
            self.put_aside(key, result);
        }
    }

    fn put_aside(&mut self, key: u64, mut result: PieceResult) {
        result.worker.clone_from(&self.worker.name);
        self.store(key, result, Vec::new());
    }

    fn store(&mut self, key: u64, result: PieceResult, chunks: Vec<Bytes>) {
        let Some(held) = self.held.get(&key) else { return };
        let (held, context, job) = (Arc::clone(held), self.worker.context.clone(), self.job.name.clone());
        self.storing.spawn(async move {
            let positions = result.positions;
            store(&context, &job, result, &chunks).await;
            held.acknowledge().await;
            (key, positions)
        });
    }

    fn stored(&mut self, stored: Option<(u64, u64)>) {
        if let Some((key, positions)) = stored {
            self.held.remove(&key);
            self.worker.reporter.done(positions);
        }
    }

    /// Lets the pieces that are being worked on end, as far as that is possible in time.
    async fn finish(&mut self, time: Duration, end: End) -> End {
        let unchecked = self.unchecked.drain(..);
        let waiting: Vec<u64> =
            self.waiting.drain(..).chain(self.suspects.drain(..)).chain(unchecked).collect();
        for held in waiting.iter().filter_map(|key| self.held.remove(key)) {
            held.give_back(Duration::ZERO).await;
        }
        let finish = async {
            while let Some(finished) = self.working.join_next().await {
                match finished {
                    Ok((key, Outcome::Done(result, chunks), _)) => self.store(key, result, chunks),
                    Ok((key, Outcome::Failed(reason), _)) => self.failed(key, reason).await,
                    _ => {}
                }
            }
            while let Some(stored) = self.storing.join_next().await {
                self.stored(stored.ok());
            }
        };
        let _ = tokio::time::timeout(time, finish).await;
        end
    }

    /// How long the worker may still work on the pieces that it holds, if it should leave the job: zero if the job is
    /// gone or its test is decided, and without a limit if a job with a higher priority has pieces that wait.
    async fn time_left(&mut self) -> Option<Duration> {
        if let Some(umpire) = &mut self.umpire {
            // If the server does not answer, there is another look soon.
            let _ = umpire.look(&self.worker.context, &self.worker.name).await;
        }
        let context = &self.worker.context;
        let Ok(Jobs { known: jobs, .. }) = jobs(context).await else { return None };
        let is_same = |job: &&Job| job.name == self.job.name && job.id == self.job.id;
        if jobs.iter().find(is_same).is_none_or(|job| job.is_decided) {
            return Some(Duration::ZERO);
        }
        let is_before = |job: &&Job| job.priority > self.job.priority && !job.is_decided;
        for job in jobs.iter().filter(is_before).filter(|job| !self.worker.is_refused(job)) {
            let is_ours = self.worker.arguments.job.as_ref().is_none_or(|name| *name == job.name);
            let counts = server::counts(context, job).await;
            if is_ours && counts.is_ok_and(|counts| counts.waiting > 0) {
                return Some(Duration::MAX);
            }
        }
        None
    }
}
