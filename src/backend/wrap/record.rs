//! `recordreplay`: writes every evaluation to a file, or reads evaluations from such a file without a network.
//!
//! With a recording, other people can reproduce a fault, and a search can be repeated without the original graphics
//! card.
//!
//! The file is little endian: 8 bytes `RUKHREC2`, a byte of flags (1: has WDL, 2: has moves left, 4: has the value's
//! error), then one record for each evaluation: the position's key (8 bytes), q, d, m, e (f32 each), the number of
//! moves (2 bytes), and one f32 prior for each move. Recording to an existing file appends to it. The key covers
//! everything that a network sees of the position and its history ([`full_key`]). If a position has several records,
//! the first counts.

use crate::position_key::full_key;
use crate::ticket::{Done, OrderedBatch, OrderedTicket, check_batch_size};
use crate::{
    Added, Attributes, Backend, BackendError, Batch, BatchSizes, DeviceWork, Devices, EvalRequest,
    Evaluation, Evaluations, Ticket, Value,
};
use rukh_base::regular_file::{self, FileError};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The first bytes of a recording. The digit is the format's version.
const MAGIC: [u8; 8] = *b"RUKHREC2";
const HEADER_LENGTH: usize = MAGIC.len() + 1;
/// The size of a record before its priors, in bytes: key, four floats and number of moves.
const RECORD_HEAD_LENGTH: usize = 8 + 4 * 4 + 2;
const HAS_WDL: u8 = 1;
const HAS_MLH: u8 = 2;
const HAS_VALUE_ERROR: u8 = 4;
/// A number of moves that no legal position exceeds. A record with more moves is damaged.
const MAXIMUM_MOVES: usize = 512;

fn file_error(action: &str, path: &Path, reason: &dyn std::fmt::Display) -> BackendError {
    BackendError::Create {
        name: "recordreplay".to_owned(),
        reason: format!("cannot {action} {}: {reason}", path.display()),
    }
}

/// Evaluates on the backend inside and records the evaluations.
pub struct RecordingBackend {
    inner: Arc<dyn Backend>,
    attributes: Attributes,
    file: Arc<RecordFile>,
}

struct RecordFile {
    path: PathBuf,
    writer: Mutex<BufWriter<File>>,
}

impl RecordingBackend {
    /// Records the evaluations of `inner` in the file `path`.
    ///
    /// # Errors
    /// The file cannot be written, or it exists and is not a recording.
    pub fn new(inner: Arc<dyn Backend>, path: &Path) -> Result<RecordingBackend, BackendError> {
        let attributes =
            Attributes { name: format!("record({})", inner.attributes().name), ..inner.attributes().clone() };
        let writer =
            open_for_recording(path, &attributes).map_err(|error| file_error("record to", path, &error))?;
        let file = Arc::new(RecordFile { path: path.to_owned(), writer: Mutex::new(writer) });
        Ok(RecordingBackend { inner, attributes, file })
    }
}

/// Opens a file for appending. Writes the header of a new file, and checks the header of an existing one.
fn open_for_recording(path: &Path, attributes: &Attributes) -> io::Result<BufWriter<File>> {
    // A pipe would wait for a reader.
    if let Ok(metadata) = std::fs::metadata(path) {
        regular_file::check_kind(&metadata)?;
    }
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let length = file.metadata()?.len();
    if length == 0 {
        let flags = [
            (attributes.has_wdl, HAS_WDL),
            (attributes.has_mlh, HAS_MLH),
            (attributes.has_value_error, HAS_VALUE_ERROR),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, flag)| flags | flag);
        file.write_all(&MAGIC)?;
        file.write_all(&[flags])?;
    } else {
        read_header(&mut file)?;
    }
    Ok(BufWriter::new(file))
}

/// Reads the header of a recording and returns its flags.
fn read_header(reader: &mut impl Read) -> io::Result<u8> {
    let mut header = [0; HEADER_LENGTH];
    reader.read_exact(&mut header).map_err(|_| not_a_recording())?;
    if header[..MAGIC.len()] != MAGIC {
        return Err(not_a_recording());
    }
    Ok(header[MAGIC.len()])
}

fn not_a_recording() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a recording of evaluations")
}

impl RecordFile {
    /// Appends a batch and flushes it to the operating system, so that it survives a crash of this process.
    fn write(&self, keys: &[u64], evaluations: &Evaluations) -> io::Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, (value, priors)) in keys.iter().zip(evaluations.iter()) {
            writer.write_all(&key.to_le_bytes())?;
            for figure in [value.q, value.d, value.m, value.e] {
                writer.write_all(&figure.to_le_bytes())?;
            }
            // The number of legal moves always fits two bytes.
            writer.write_all(&(priors.len() as u16).to_le_bytes())?;
            for prior in priors {
                writer.write_all(&prior.to_le_bytes())?;
            }
        }
        writer.flush()
    }
}

impl Backend for RecordingBackend {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(RecordingBatch {
            inner: OrderedBatch::new(&self.attributes.name, self.inner.new_batch()),
            file: Arc::clone(&self.file),
            keys: Vec::new(),
        })
    }

    fn clear_cache(&self) {
        self.inner.clear_cache();
    }

    fn devices(&self) -> Devices {
        self.inner.devices()
    }

    fn work(&self) -> Vec<DeviceWork> {
        self.inner.work()
    }
}

struct RecordingBatch {
    inner: OrderedBatch,
    file: Arc<RecordFile>,
    keys: Vec<u64>,
}

impl Batch for RecordingBatch {
    fn len(&self) -> usize {
        self.keys.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        self.inner.add(request);
        self.keys.push(full_key(request.history));
        Added::Queued
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        Box::new(RecordingTicket { inner: self.inner.submit(), file: self.file, keys: self.keys })
    }
}

struct RecordingTicket {
    inner: OrderedTicket,
    file: Arc<RecordFile>,
    keys: Vec<u64>,
}

impl Ticket for RecordingTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        let evaluations = self.inner.finish()?;
        self.file.write(&self.keys, &evaluations).map_err(|error| BackendError::Evaluate {
            name: "recordreplay".to_owned(),
            reason: format!("cannot write to {}: {error}", self.file.path.display()),
        })?;
        Ok(evaluations)
    }
}

/// Takes evaluations from a recording. If the recording lacks a position, the batch fails.
pub struct ReplayingBackend {
    recording: Arc<Recording>,
}

struct Recording {
    attributes: Attributes,
    evaluations: HashMap<u64, Evaluation>,
}

impl ReplayingBackend {
    /// Reads the recording in the file `path`.
    ///
    /// # Errors
    /// The file cannot be read, is not a recording, or is damaged.
    pub fn new(path: &Path) -> Result<ReplayingBackend, BackendError> {
        let (flags, evaluations) =
            read_recording(path).map_err(|error| file_error("replay", path, &error))?;
        let attributes = Attributes {
            name: format!("replay({})", path.display()),
            has_wdl: flags & HAS_WDL != 0,
            has_mlh: flags & HAS_MLH != 0,
            has_value_error: flags & HAS_VALUE_ERROR != 0,
            runs_on_cpu: true,
            suggested_threads: 1,
            recommended_batch_size: 256,
            maximum_batch_size: 1024,
            batch_sizes: BatchSizes::default(),
        };
        Ok(ReplayingBackend { recording: Arc::new(Recording { attributes, evaluations }) })
    }
}

/// The most bytes of a recording that is read into memory: some ten million evaluations.
const MOST_BYTES: u64 = 4 << 30;

fn read_recording(path: &Path) -> io::Result<(u8, HashMap<u64, Evaluation>)> {
    let (file, metadata) = regular_file::open(path)?;
    if metadata.len() > MOST_BYTES {
        return Err(FileError::TooLarge { limit_bytes: MOST_BYTES }.into());
    }
    let mut reader = BufReader::new(file.take(MOST_BYTES));
    let flags = read_header(&mut reader)?;
    let mut evaluations = HashMap::new();
    while let Some((key, evaluation)) = read_record(&mut reader)? {
        evaluations.entry(key).or_insert(evaluation);
    }
    Ok((flags, evaluations))
}

/// Reads the next record; returns `None` at the end of the file. A truncated record, left by a process that was killed,
/// is an error.
fn read_record(reader: &mut impl Read) -> io::Result<Option<(u64, Evaluation)>> {
    let mut head = Vec::with_capacity(RECORD_HEAD_LENGTH);
    reader.by_ref().take(RECORD_HEAD_LENGTH as u64).read_to_end(&mut head)?;
    if head.is_empty() {
        return Ok(None);
    }
    let truncated = || io::Error::new(io::ErrorKind::UnexpectedEof, "the last record is truncated");
    let head: [u8; RECORD_HEAD_LENGTH] = head.try_into().map_err(|_| truncated())?;
    let word = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
    let key = u64::from(u32::from_le_bytes(word(0))) | u64::from(u32::from_le_bytes(word(4))) << 32;
    let [q, d, m, e] = [8, 12, 16, 20].map(|at| f32::from_le_bytes(word(at)));
    let moves = usize::from(u16::from_le_bytes([head[24], head[25]]));
    if moves > MAXIMUM_MOVES {
        let reason = format!("the file is damaged: a record has {moves} moves");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let mut bytes = vec![0; 4 * moves];
    reader.read_exact(&mut bytes).map_err(|_| truncated())?;
    let priors: Box<[f32]> =
        bytes.as_chunks::<4>().0.iter().map(|&prior| f32::from_le_bytes(prior)).collect();
    if [q, d, m, e].iter().chain(&priors).any(|figure| !figure.is_finite()) {
        let reason = "the file is damaged: a record has a value that is not finite";
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(Some((key, Evaluation { value: Value { q, d, m, e }, priors })))
}

impl Backend for ReplayingBackend {
    fn attributes(&self) -> &Attributes {
        &self.recording.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        Box::new(ReplayingBatch {
            recording: Arc::clone(&self.recording),
            evaluations: Evaluations::default(),
            error: None,
        })
    }
}

struct ReplayingBatch {
    recording: Arc<Recording>,
    evaluations: Evaluations,
    /// The error for the first request that is not in the recording.
    error: Option<BackendError>,
}

impl Batch for ReplayingBatch {
    fn len(&self) -> usize {
        self.evaluations.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        let recorded = self.recording.evaluations.get(&full_key(request.history));
        match recorded.filter(|evaluation| evaluation.priors.len() == request.moves.len()) {
            Some(evaluation) => self.evaluations.push(evaluation.value, evaluation.priors.iter().copied()),
            None => {
                self.error.get_or_insert_with(|| BackendError::Evaluate {
                    name: self.recording.attributes.name.clone(),
                    reason: format!(
                        "the recording does not have the position {}",
                        request.history.last().to_fen()
                    ),
                });
                // A placeholder keeps the number of evaluations right, although the batch will fail.
                self.evaluations.push(Value::default(), []);
            }
        }
        Added::Queued
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        let ReplayingBatch { recording, evaluations, error } = *self;
        let outcome = match error {
            Some(error) => Err(error),
            None => check_batch_size(&recording.attributes, evaluations.len()),
        };
        Done::boxed(outcome.map(|()| evaluations))
    }
}
