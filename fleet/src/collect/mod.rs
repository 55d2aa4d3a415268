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
use super::error::{FleetError, print_error_line, printable_json};
use super::job::{self, Job, Kind, PieceResult};
use super::results::{Log, parse, stored_pieces};
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
        let pieces = stored_pieces(&context, &job).await?;
        let mut messages = pin!(done.read(sequence + 1..=last));
        while let Some((sequence, bytes)) = messages.try_next().await? {
            let Some(bytes) = bytes else { continue };
            let taken = match parse(&bytes, &job, pieces) {
                Ok(result) => collector.take(sequence, result, bytes.len()).await?,
                Err(reason) => Err(reason),
            };
            if let Err(reason) = taken {
                collector.totals.unreadable += 1;
                collector.files.put_message_aside(sequence, &reason, &bytes)?;
            }
        }
        sequence = last;
        if collector.is_complete(&job) || !arguments.wait || is_quiet {
            break;
        }
        collector.files.flush()?;
        tokio::time::sleep(PAUSE).await;
        // A piece is acknowledged after its result is stored, so without open pieces there will be no more results than
        // those that are read next.
        if let (Some(_), Ok(counts)) = (job.pieces, counts(&context, &job).await) {
            is_quiet = counts.waiting + counts.held == 0;
        }
        if job.pieces.is_none() {
            let found = super::server::job(&context, &arguments.job).await?;
            if found.id != job.id {
                return Err(FleetError::Refused(format!("the job `{}` was removed", job.name)));
            }
            job = found;
        }
    }
    let is_decided = collector.totals.is_decided;
    let is_complete = collector.is_complete(&job);
    // A user that may only read cannot note it, and the results are there all the same.
    if is_decided && let Err(error) = put_decided(&context, &job).await {
        print_error_line(&error.to_string());
    }
    collector.finish(&job, &work).await?;
    let Collector { files, failed, totals, .. } = collector;
    let place = files.finish(is_complete || arguments.partial)?;
    let number = failed.len() as u64;
    let missing = job.pieces.map(|pieces| pieces.saturating_sub(totals.seen.count() + number));
    for error in failed.values() {
        print_error_line(error);
    }
    if arguments.json {
        let text = printable_json(&totals.json(&job, number, missing));
        match &arguments.output {
            // Nobody is left to tell if stdout is closed.
            Some(_) => drop(writeln!(std::io::stdout(), "{text}")),
            None => print_error_line(&text),
        }
    } else {
        totals.lines(&job).iter().for_each(|line| print_error_line(line));
    }
    if let Some(place) = place {
        print_error_line(&place);
    }
    let name = &job.name;
    match missing {
        _ if is_decided => Ok(()),
        None => Err(FleetError::HalfSubmitted),
        Some(0) if number == 0 && job.troubles.is_empty() => Ok(()),
        Some(0) if number == 0 => Err(FleetError::Refused(job.troubles.join("; "))),
        Some(0) => Err(FleetError::Refused(format!(
            "{number} pieces were put aside; `rukh-fleet retry {name}` lets them be tried again"
        ))),
        Some(missing) if is_quiet => Err(FleetError::Refused(format!(
            "the results of {missing} pieces are lost; `rukh-fleet retry {name}` lets them be done again"
        ))),
        Some(missing) => Err(FleetError::Refused(format!(
            "the results of {missing} pieces are not there yet; --wait waits for them"
        ))),
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
    /// Whether each piece has a result, or no further ones are needed. A piece that was put aside may still get one, if
    /// another worker has it.
    fn is_complete(&self, job: &Job) -> bool {
        let Totals { seen, is_decided, .. } = &self.totals;
        job.pieces.is_some_and(|pieces| *is_decided || seen.count() >= pieces)
    }

    /// Takes a result of `length` bytes. Of a result that cannot be used, the text says why.
    async fn take(
        &mut self,
        sequence: u64,
        result: PieceResult,
        length: usize,
    ) -> Result<Result<(), String>, FleetError> {
        let piece = result.piece;
        let is_needed = !self.totals.seen.contains(piece) && !self.totals.is_decided;
        if let Some(error) = result.error {
            if is_needed {
                self.failed.insert(piece, error);
            }
            return Ok(Ok(()));
        }
        if let Some(training) = self.training.as_ref().filter(|_| is_needed)
            && let Err(reason) = training.add(&result).await?
        {
            return Ok(Err(reason));
        }
        if !self.totals.add(&result) {
            return Ok(Ok(()));
        }
        // A piece that was put aside and tried again has a result after all.
        self.failed.remove(&piece);
        if !self.is_ordered {
            return self.files.write(&result).map(Ok);
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
        Ok(Ok(()))
    }

    /// Writes a result whose turn has come.
    async fn write(&mut self, early: Early) -> Result<(), FleetError> {
        match early {
            Early::Here(result, length) => {
                self.early_bytes -= length;
                self.files.write(&result)
            }
            // It was checked when it came.
            Early::Stored(sequence) => {
                let bytes = self.done.get(sequence).await?;
                match bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
                    Some(result) => self.files.write(&result),
                    None => Err(FleetError::Refused(format!("the result {sequence} was removed"))),
                }
            }
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
