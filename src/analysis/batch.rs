//! The analysis of files from their first document to their last.
//!
//! A thread reads the documents. The calling thread keeps as many positions waiting as the searches need, writes each
//! document when all its positions are done, and notes in the journal what is done. Only so many documents are in memory
//! as that needs.

use super::accuracy::Accuracy;
use super::annotate::{Analyst, GraphPoint, graph, players, title};
use super::config::BatchConfig;
use super::document::Document;
use super::feed::{Fed, Feed, Held, Input};
use super::input::RawDocument;
use super::input_state::{InputState, digest};
use super::journal::{Journal, JournalError};
use super::later_mates::with_later_mates;
use super::output::{CSV_HEADER, OutputFormat, text};
use super::part::PartRecord;
use super::pool::{Pool, PoolEvent, Task};
use super::ranges::Ranges;
use super::report::{Analysis, Results};
use super::sink::{Sink, SinkError, check_content};
use crossbeam_channel::{Receiver, never, select, tick};
use rukh_backend::multi::BatchCounts;
use rukh_base::os_error::in_words;
use rukh_base::replace_file::{Access, write_whole};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Positions that wait for each that is being searched.
const WAITING_FOR_EACH: usize = 2;

/// The most documents in memory, beside those whose positions are waiting or being searched.
const DOCUMENTS_AHEAD: usize = 256;

/// How often progress is reported, and how late an interruption may be noticed.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// What happened up to now.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Documents in the output, with those of earlier processes.
    pub documents: u64,
    /// Documents that were refused by this process.
    pub rejected: u64,
    /// Positions that this process has searched.
    pub positions: u64,
    /// An estimate of the positions that are left; `None` if the size of the input is unknown.
    pub positions_left: Option<u64>,
    /// The time since the first document was read.
    pub elapsed: Duration,
    /// The batches that the backend has evaluated; `None` if it evaluates without collecting batches.
    pub evaluated: Option<BatchCounts>,
}

/// What the user is told.
#[derive(Debug)]
pub enum Notice<'a> {
    /// How far the analysis is.
    Progress(&'a Progress),
    /// A document is refused, or a file cannot be read further.
    Trouble(&'a str),
    /// A document is in the output. `points` are for a picture.
    Document {
        /// The number of the document in the input, from 1.
        number: u64,
        /// The players of a game, or the name of a position.
        title: &'a str,
        /// What else is known about it.
        facts: &'a [String],
        /// How well White and Black have played.
        players: [Option<Accuracy>; 2],
        /// Its positions.
        points: &'a [GraphPoint],
    },
}

/// How an analysis ended.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// The final figures.
    pub progress: Progress,
    /// Whether the user has interrupted it.
    pub is_interrupted: bool,
    /// Whether a file could not be read to its end.
    pub has_unread_files: bool,
}

/// Why an analysis ended early.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// A file cannot be written.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal cannot be written.
    #[error("cannot write the journal: {0}; repeat the command to go on")]
    Note(std::io::Error),
    /// A file of the input, or the network, cannot be read.
    #[error("cannot read {}: {}", .0.display(), in_words(.1))]
    Input(PathBuf, #[source] std::io::Error),
    /// The files are not read as they were when the journal was written.
    #[error(
        "when the journal was written, a file could be read further than now, or less far, so that the games and lines \
         after it have other numbers now; begin anew with --overwrite"
    )]
    OtherNumbers,
    /// A search has failed.
    #[error("{place}: the search of the position after {turn} moves failed: {reason}")]
    Search {
        /// The document.
        place: String,
        /// The number of moves before the position.
        turn: usize,
        /// The error of the search.
        reason: String,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// Analyses all files. `notify` is called in between, and `is_interrupted` ends the analysis when it is set.
///
/// # Errors
/// A file cannot be written, or a search fails. If there is a journal, the same analysis goes on from there later.
pub fn run(
    config: &BatchConfig,
    pool: &Pool,
    is_interrupted: &AtomicBool,
    notify: &mut dyn FnMut(Notice<'_>),
) -> Result<Finished, BatchError> {
    let inputs = config.inputs.iter().map(|path| Input { path: path.clone(), state: InputState::of(path) });
    // The files' states are taken before the journal digests the files, so that a change in between is noticed.
    let inputs: Vec<Input> = inputs.collect();
    let mut batch = Batch::open(config, pool)?;
    let feed = Feed::start(inputs, config.input_format, config.shard).map_err(BatchError::Thread)?;
    let timer = tick(PROGRESS_INTERVAL);
    let mut is_at_end = false;
    let mut was_interrupted = false;
    loop {
        batch.write_ready(notify)?;
        if is_at_end && batch.open.is_empty() {
            break;
        }
        let wants_more = !is_at_end && batch.wants_more();
        let documents = if wants_more { feed.documents.clone() } else { never() };
        let events: &Receiver<PoolEvent> = pool.events();
        select! {
            recv(documents) -> fed => match fed {
                Ok(fed) => batch.take(fed, notify)?,
                Err(_) => is_at_end = true,
            },
            recv(events) -> event => if let Ok(event) = event {
                batch.event(event)?;
            },
            recv(timer) -> _ => {
                batch.report_tablebases(notify);
                notify(Notice::Progress(&batch.progress(&feed)));
                if is_interrupted.load(Ordering::Relaxed) {
                    was_interrupted = true;
                    break;
                }
            }
        }
    }
    batch.report_tablebases(notify);
    let progress = batch.progress(&feed);
    let has_unread_files = batch.has_unread_files;
    if !was_interrupted {
        if let Some(journal) = batch.journal.take() {
            batch.record_part()?;
            journal.remove().map_err(BatchError::Note)?;
        }
        batch.sink.end();
    }
    Ok(Finished { progress, is_interrupted: was_interrupted, has_unread_files })
}

/// A document whose positions are not all done, or that waits for its place in the output.
struct Open {
    content: Content,
    /// The number among all documents of the input, from 1.
    number: u64,
    place: String,
    results: Results,
    /// The positions that are not done.
    missing: usize,
    /// Lets more documents be read when this one is written.
    _held: Held,
}

enum Content {
    Document(Box<Document>),
    /// A document that was refused: its text, and the reason.
    Rejected(RawDocument, String),
}

struct Batch<'a> {
    config: &'a BatchConfig,
    pool: &'a Pool,
    sink: Sink<'a>,
    journal: Option<Journal>,
    /// The documents that are in the output. Documents are counted from 0, without those of other shards.
    done: Ranges,
    /// Results of an earlier process, by document.
    recovered: BTreeMap<u64, Results>,
    /// The last document of which an earlier process has done anything.
    last_recovered: Option<u64>,
    /// The documents before which an earlier process could not read a file further, until this process comes to them.
    unread: VecDeque<u64>,
    open: BTreeMap<u64, Open>,
    /// The number of positions that are waiting or being searched.
    in_flight: usize,
    rejected: u64,
    /// The documents that were refused, with those of an earlier process; `None` if those are not known.
    all_rejected: Option<Vec<u64>>,
    positions: u64,
    /// The positions of all documents that this process has read.
    positions_seen: u64,
    /// How far the input had been read after the documents of an earlier process, and is read now, in bytes.
    bytes_skipped: u64,
    bytes_seen: u64,
    has_unread_files: bool,
    /// The number of faults of tablebases that the user was told.
    reported_faults: usize,
    begun: Instant,
    /// The position of the next document that is written, if they are written in order.
    next: u64,
}

/// The bits of a task's key that hold the index of the position.
const INDEX_BITS: u32 = 20;

impl<'a> Batch<'a> {
    fn open(config: &'a BatchConfig, pool: &'a Pool) -> Result<Batch<'a>, BatchError> {
        let (mut journal, recovered) = match config.journal() {
            None => (None, None),
            Some(path) => {
                let digests = config
                    .inputs
                    .iter()
                    .map(|path| digest(path).map_err(|error| BatchError::Input(path.clone(), error)));
                let digests: Vec<u64> = digests.collect::<Result<_, _>>()?;
                let settings = format!(
                    "{} {digests:x?} {} {}",
                    rukh_base::version::version(),
                    pool.network(),
                    config.settings_text()
                );
                let (journal, recovered) = Journal::open(&path, &settings, config.overwrite)?;
                (Some(journal), recovered)
            }
        };
        // From here on the journal is locked, so that no other process changes the files.
        let lengths = recovered.as_ref().map(|recovered| recovered.lengths);
        let checked = config.check_files().map_err(SinkError::Shared);
        if let Err(error) = checked.and_then(|()| check_content(config, lengths)) {
            if let Some(journal) = journal {
                journal.give_up();
            }
            return Err(error.into());
        }
        if let Some(journal) = &mut journal {
            journal.begin()?;
        }
        if let Some(record) = config.record() {
            // That of an earlier analysis, if there is one.
            let _ = fs::remove_file(record);
        }
        let recovered = recovered.unwrap_or_default();
        let last_recovered = recovered.done.last().max(recovered.results.keys().next_back().copied());
        let mut sink = Sink::open(config, recovered.lengths)?;
        if config.format == OutputFormat::Csv && recovered.lengths.output == 0 {
            sink.write(CSV_HEADER.as_bytes())?;
        }
        Ok(Batch {
            config,
            pool,
            sink,
            journal,
            next: 0,
            done: recovered.done,
            last_recovered,
            recovered: recovered.results,
            unread: recovered.unread.into(),
            open: BTreeMap::new(),
            in_flight: 0,
            rejected: 0,
            all_rejected: (!recovered.has_more_rejected).then_some(recovered.rejected),
            positions: 0,
            positions_seen: 0,
            bytes_skipped: 0,
            bytes_seen: 0,
            has_unread_files: false,
            reported_faults: 0,
            begun: Instant::now(),
        })
    }

    fn wants_more(&self) -> bool {
        // Besides the documents with positions in flight, so many finished ones may wait.
        self.in_flight < WAITING_FOR_EACH * self.pool.positions_at_once(self.config.limits)
            && self.open.len() < DOCUMENTS_AHEAD + self.in_flight
    }

    /// Takes the next document of the input.
    fn take(&mut self, fed: Fed, notify: &mut dyn FnMut(Notice<'_>)) -> Result<(), BatchError> {
        let Fed { sequence, number, raw, bytes_read, held } = fed;
        let raw = match raw {
            Ok(raw) => raw,
            Err(trouble) => return self.note_unread(sequence, &trouble, notify),
        };
        if self.unread.front().is_some_and(|&unread| unread <= sequence) {
            return Err(BatchError::OtherNumbers);
        }
        self.bytes_seen = bytes_read;
        if self.done.contains(sequence) {
            self.bytes_skipped = bytes_read;
            return Ok(());
        }
        let place = raw.place.clone();
        let (content, results, missing) = match raw.parse(&self.config.selection) {
            Err(reason) => {
                notify(Notice::Trouble(&format!("{place}: {reason}")));
                (Content::Rejected(raw, reason), Results::new(), 0)
            }
            Ok(document) => {
                let mut results = self.recovered.remove(&sequence).unwrap_or_default();
                results.retain(|index, _| document.wanted.contains(index));
                let missing = self.submit(&document, sequence, &results);
                (Content::Document(Box::new(document)), results, missing)
            }
        };
        self.open.insert(sequence, Open { content, number, place, results, missing, _held: held });
        Ok(())
    }

    /// Notes that a file could not be read further before the document `sequence`.
    ///
    /// # Errors
    /// The process that wrote the journal could read the file further, so that its documents had other numbers.
    fn note_unread(
        &mut self,
        sequence: u64,
        trouble: &str,
        notify: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), BatchError> {
        self.has_unread_files = true;
        notify(Notice::Trouble(trouble));
        if self.unread.front() == Some(&sequence) {
            self.unread.pop_front();
            return Ok(());
        }
        if self.last_recovered.is_some_and(|last| sequence <= last) {
            return Err(BatchError::OtherNumbers);
        }
        match &mut self.journal {
            Some(journal) => journal.unread(sequence).map_err(BatchError::Note),
            None => Ok(()),
        }
    }

    /// Tells the user once of each tablebase that cannot be used.
    fn report_tablebases(&mut self, notify: &mut dyn FnMut(Notice<'_>)) {
        for fault in self.pool.tablebase_faults(self.reported_faults) {
            notify(Notice::Trouble(&format!("SyzygyPath: {fault}")));
            self.reported_faults += 1;
        }
    }

    /// Lets the positions of a document that have no result wait for their searches. Returns their number.
    fn submit(&mut self, document: &Document, sequence: u64, results: &Results) -> usize {
        let mut count = 0;
        for &index in document.wanted.iter().filter(|index| !results.contains_key(index)) {
            self.pool.submit(Task {
                key: sequence << INDEX_BITS | index as u64,
                history: Arc::clone(&document.history),
                ply: index,
                limits: document.limits.unwrap_or(self.config.limits),
                multipv: document.multipv.unwrap_or(self.config.multipv),
                includes_policy: document.includes_policy.unwrap_or(self.config.includes_policy),
                ends_game: document.ends_at(index),
                searchmoves: document.searchmoves.get(&index).cloned().unwrap_or_default(),
                chess960: document.chess960,
                priority: 0,
                report_every: None,
                is_cancelled: Arc::default(),
            });
            count += 1;
        }
        self.in_flight += count;
        self.positions_seen += count as u64;
        count
    }

    fn event(&mut self, event: PoolEvent) -> Result<(), BatchError> {
        let (key, outcome) = match event {
            PoolEvent::Partial(..) => return Ok(()),
            PoolEvent::Done(key, analysis) => (key, Ok(analysis)),
            PoolEvent::Failed(key, reason) => (key, Err(reason)),
        };
        let (sequence, index) = (key >> INDEX_BITS, (key & ((1 << INDEX_BITS) - 1)) as usize);
        self.in_flight -= 1;
        let Some(open) = self.open.get_mut(&sequence) else { return Ok(()) };
        let outcome = outcome.and_then(|analysis: Analysis| match analysis.is_empty() {
            true => Err("it has no result".to_owned()),
            false => Ok(analysis),
        });
        let analysis = outcome.map_err(|reason| BatchError::Search {
            place: open.place.clone(),
            turn: index,
            reason,
        })?;
        self.positions += 1;
        if let Some(journal) = &mut self.journal {
            journal.result(sequence, index, &analysis).map_err(BatchError::Note)?;
        }
        open.results.insert(index, analysis);
        open.missing -= 1;
        Ok(())
    }

    /// Writes the documents that are complete, and whose turn it is.
    fn write_ready(&mut self, notify: &mut dyn FnMut(Notice<'_>)) -> Result<(), BatchError> {
        loop {
            while self.done.contains(self.next) {
                self.next += 1;
            }
            let mut candidates = match self.config.is_ordered {
                true => self.open.range(self.next..=self.next),
                false => self.open.range(..),
            };
            let ready = candidates.find(|(_, open)| open.missing == 0);
            let Some(sequence) = ready.map(|(&sequence, _)| sequence) else { return Ok(()) };
            let Some(open) = self.open.remove(&sequence) else { return Ok(()) };
            self.write(sequence, &open, notify)?;
        }
    }

    fn write(
        &mut self,
        sequence: u64,
        open: &Open,
        notify: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), BatchError> {
        match &open.content {
            Content::Document(document) => {
                let Open { results, number, .. } = open;
                let limits = document.limits.unwrap_or(self.config.limits);
                let analyst = Analyst { network: self.pool.network(), limits };
                let style = &self.config.style;
                let results = &*with_later_mates(document, results);
                let text = text(self.config.format, document, results, *number, style, analyst);
                self.sink.write(&text)?;
                let points = graph(document, results, style);
                let (title, facts) = title(document);
                notify(Notice::Document {
                    number: *number,
                    title: &title,
                    facts: &facts,
                    players: players(document, results),
                    points: &points,
                });
            }
            Content::Rejected(raw, reason) => {
                self.rejected += 1;
                self.all_rejected.iter_mut().for_each(|rejected| rejected.push(sequence));
                self.sink.reject(raw, reason)?;
            }
        }
        let lengths = self.sink.lengths();
        self.done.insert(sequence);
        if let Some(journal) = &mut self.journal {
            journal.written(sequence, lengths).map_err(BatchError::Note)?;
            if journal.is_long() {
                let results = self.open.iter().map(|(&sequence, open)| (sequence, &open.results));
                let later = self.recovered.iter().map(|(&sequence, results)| (sequence, results));
                journal.compact(&self.done, lengths, results.chain(later)).map_err(BatchError::Note)?;
            }
        }
        Ok(())
    }

    /// Leaves the record of a part that is complete beside it.
    fn record_part(&self) -> Result<(), BatchError> {
        let (remainder, of) = self.config.shard;
        let Some(path) = self.config.record().filter(|_| of > 1) else { return Ok(()) };
        let network = self.pool.network();
        let numbers = |rejected: &Vec<u64>| {
            let mut numbers: Vec<u64> =
                rejected.iter().map(|sequence| sequence * of + remainder + 1).collect();
            numbers.sort_unstable();
            numbers
        };
        let record = PartRecord {
            shard: remainder + 1,
            of,
            documents: self.done.count(),
            rejected: self.all_rejected.as_ref().map(numbers),
            bytes: self.sink.lengths().output,
            analysis: self
                .config
                .analysis(network)
                .map_err(|error| BatchError::Input(PathBuf::from(network), error))?,
        };
        let written = write_whole(&path, Access::Usual, |file| Ok(serde_json::to_writer(file, &record)?));
        Ok(written.map_err(|error| SinkError::File(path, error))?)
    }

    fn progress(&self, feed: &Feed) -> Progress {
        let left = feed.total_bytes.map(|total| {
            let seen = self.bytes_seen.saturating_sub(self.bytes_skipped).max(1) as f64;
            let share = total.saturating_sub(self.bytes_skipped) as f64 / seen;
            let expected = self.positions_seen as f64 * share.max(1.0);
            (expected - self.positions as f64).max(0.0) as u64
        });
        Progress {
            documents: self.done.count(),
            rejected: self.rejected,
            positions: self.positions,
            positions_left: left,
            elapsed: self.begun.elapsed(),
            evaluated: self.pool.evaluated(),
        }
    }
}
