//! `collect`: writes the results of a job.
//!
//! Of several results of a piece the first one counts. Results that come before their turn wait in memory, and those
//! beyond a limit are read again when their turn comes.
//!
//! | module | what it does |
//! |---|---|
//! | [`files`] | the files of the results, of refused documents and of pieces that were put aside |
//! | [`training`] | the folder of the training data |
//! | [`totals`] | the figures of a job |

mod files;
pub(crate) mod totals;
mod training;

use super::args::{CollectArgs, ServerArgs};
use super::error::{FleetError, print_error_line};
use super::job::{self, Job, Kind, PieceResult};
use super::results::{Log, parse};
use super::server::{connect, counts, job, put_decided};
use files::Files;
use futures_util::TryStreamExt;
use std::collections::BTreeMap;
use std::io::Write;
use std::pin::pin;
use std::time::Duration;
use totals::Totals;
use training::TrainingFolder;

/// The most bytes of results that wait in memory for their turn.
const MOST_WAITING_BYTES: usize = 64 << 20;

/// The pause before new results are looked for.
const PAUSE: Duration = Duration::from_millis(500);

/// Writes the results of a job.
///
/// # Errors
/// There is no such job, results are missing or pieces were put aside, or a file cannot be written.
pub(crate) async fn run(server: &ServerArgs, arguments: &CollectArgs) -> Result<(), FleetError> {
    let context = connect(server, "rukh-fleet collect").await?;
    let mut job = job(&context, &arguments.job).await?;
    let done = Log::open(&context, job::done_stream(&job.name)).await?;
    let work = Log::open(&context, job::work_stream(&job.name)).await?;
    let training = match &arguments.training_dir {
        None => {
            if matches!(job.kind, Kind::Games { training: true, .. }) {
                print_error_line("the training data stay on the server; --training-dir=FOLDER writes them");
            }
            None
        }
        Some(folder) => {
            let chunks = Log::open(&context, job::chunk_stream(&job.name)).await?;
            Some(TrainingFolder::open(folder, &job, chunks, arguments.training_tar)?)
        }
    };
    let files = Files::create(arguments.output.as_deref(), &job.kind)?;
    let mut collector = Collector {
        is_ordered: !arguments.unordered,
        done: done.clone(),
        files,
        training,
        failed: BTreeMap::new(),
        early: BTreeMap::new(),
        early_bytes: 0,
        next: 0,
        totals: Totals::new(&job),
    };
    let (mut sequence, mut is_quiet) = (0, false);
    loop {
        let last = done.last().await?;
        let mut messages = pin!(done.read(sequence + 1..=last));
        while let Some((sequence, bytes)) = messages.try_next().await? {
            if let Some(bytes) = bytes {
                collector.take(sequence, parse(&bytes, sequence)?, bytes.len()).await?;
            }
        }
        sequence = last;
        if collector.is_complete(&job) || !arguments.wait {
            break;
        }
        collector.files.flush()?;
        tokio::time::sleep(PAUSE).await;
        // A piece is acknowledged after its result is stored, so without open pieces there will be no more results.
        if let (Some(_), Ok(counts)) = (job.pieces, counts(&context, &job.name).await)
            && counts.waiting + counts.held == 0
            && done.last().await? == sequence
        {
            is_quiet = true;
            break;
        }
        if job.pieces.is_none() {
            job = super::server::job(&context, &arguments.job).await?;
        }
    }
    let is_complete = collector.is_complete(&job);
    let is_decided = collector.totals.is_decided;
    if is_decided {
        put_decided(&context, &job.name).await?;
    }
    collector.finish(&job, &work).await?;
    let Collector { files, failed, totals, .. } = collector;
    files.finish()?;
    let missing = job.pieces.map(|pieces| pieces - totals.seen.count() - failed.len() as u64);
    for error in failed.values() {
        print_error_line(error);
    }
    if arguments.json {
        let text = totals.json(&job, failed.len() as u64, missing).to_string();
        match &arguments.output {
            // Nobody is left to tell if stdout is closed.
            Some(_) => drop(writeln!(std::io::stdout(), "{text}")),
            None => print_error_line(&text),
        }
    } else {
        totals.lines(&job).iter().for_each(|line| print_error_line(line));
    }
    let number = failed.len();
    match (is_complete, missing, number) {
        (true, ..) if is_decided => Ok(()),
        (true, _, 0) if job.troubles.is_empty() => Ok(()),
        (true, _, 0) => Err(FleetError::Refused(job.troubles.join("; "))),
        (true, ..) => Err(FleetError::Refused(format!(
            "{number} pieces were put aside; `rukh-fleet retry {}` lets them be tried again",
            job.name
        ))),
        (false, Some(missing), _) if is_quiet => Err(FleetError::Refused(format!(
            "the results of {missing} pieces are lost; `rukh-fleet retry {}` lets them be done again",
            job.name
        ))),
        (false, Some(missing), _) => Err(FleetError::Refused(format!(
            "the results of {missing} pieces are not there yet; --wait waits for them"
        ))),
        (false, None, _) => Err(FleetError::HalfSubmitted),
    }
}

/// Puts results into order.
struct Collector {
    is_ordered: bool,
    done: Log,
    files: Files,
    training: Option<TrainingFolder>,
    /// The pieces that were put aside, with their errors.
    failed: BTreeMap<u64, String>,
    /// The results that came before their turn.
    early: BTreeMap<u64, Early>,
    early_bytes: usize,
    /// The piece whose turn it is.
    next: u64,
    totals: Totals,
}

/// A result that waits for its turn.
enum Early {
    Here(Box<PieceResult>, usize),
    /// The sequence of the result, which is read again.
    Stored(u64),
}

impl Collector {
    fn is_complete(&self, job: &Job) -> bool {
        let Totals { seen, is_decided, .. } = &self.totals;
        job.pieces.is_some_and(|pieces| *is_decided || seen.count() + self.failed.len() as u64 >= pieces)
    }

    /// Takes a result of `length` bytes.
    async fn take(&mut self, sequence: u64, result: PieceResult, length: usize) -> Result<(), FleetError> {
        let piece = result.piece;
        if let Some(error) = result.error {
            if !self.totals.seen.contains(piece) && !self.totals.is_decided {
                self.failed.insert(piece, error);
            }
            return Ok(());
        }
        if !self.totals.add(&result) {
            return Ok(());
        }
        // A piece that was put aside and tried again has a result after all.
        self.failed.remove(&piece);
        if let Some(training) = &self.training {
            training.add(&result).await?;
        }
        if !self.is_ordered {
            return self.files.write(&result);
        }
        let early = if self.early_bytes + length <= MOST_WAITING_BYTES || piece == self.next {
            self.early_bytes += length;
            Early::Here(Box::new(result), length)
        } else {
            Early::Stored(sequence)
        };
        self.early.insert(piece, early);
        while let Some(early) = self.early.remove(&self.next) {
            self.next += 1;
            self.write(early).await?;
        }
        Ok(())
    }

    async fn write(&mut self, early: Early) -> Result<(), FleetError> {
        match early {
            Early::Here(result, length) => {
                self.early_bytes -= length;
                self.files.write(&result)
            }
            Early::Stored(sequence) => match self.done.get(sequence).await? {
                Some(bytes) => self.files.write(&parse(&bytes, sequence)?),
                None => Err(FleetError::Refused(format!("the result {sequence} was removed"))),
            },
        }
    }

    /// Writes what waits for pieces that have no result, and the pieces that were put aside.
    async fn finish(&mut self, job: &Job, work: &Log) -> Result<(), FleetError> {
        for (_, early) in std::mem::take(&mut self.early) {
            self.write(early).await?;
        }
        if !matches!(job.kind, Kind::Analysis { .. }) {
            return Ok(());
        }
        for (piece, error) in &self.failed {
            // The first copy of a piece has the sequence that follows from its number.
            let bytes = work.get(piece + 1).await?.unwrap_or_default();
            self.files.put_aside(*piece, error, &bytes)?;
        }
        Ok(())
    }
}
