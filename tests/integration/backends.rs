//! Backends as the search and the user see them: every wrapper returns the evaluations of the backend that it wraps,
//! errors reach the caller, and options are accepted or refused by name.

mod cache;
mod reports;
mod user_options;
mod with_network;
mod wrappers;

use rukh_backend::synthetic::RandomBackend;
use rukh_backend::{
    Added, Attributes, Backend, BackendError, Batch, EvalRequest, Evaluation, Evaluations, Ticket, Value,
};
use rukh_chess::{PackedMove, Position, PositionHistory, uci_move};
use rukh_net::InputPlanes;
use rukh_registry::{self, BackendConfig};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A position with its history and its legal moves.
struct Sample {
    history: PositionHistory,
    moves: Vec<PackedMove>,
}

impl Sample {
    fn new(history: PositionHistory) -> Sample {
        let moves = history.last().legal_moves().into_iter().map(PackedMove::new).collect();
        Sample { history, moves }
    }

    fn after(moves: &str) -> Sample {
        let mut history = PositionHistory::new(Position::startpos());
        for text in moves.split_whitespace() {
            let chess_move = uci_move::parse(history.last(), text).unwrap();
            history.push(chess_move);
        }
        Sample::new(history)
    }

    fn request(&self) -> EvalRequest<'_> {
        EvalRequest { history: &self.history, moves: &self.moves }
    }
}

/// `count` different positions from games of arbitrary legal moves.
fn samples(count: usize) -> Vec<Sample> {
    let mut history = PositionHistory::new(Position::startpos());
    let mut samples = Vec::new();
    let mut choice = 7usize;
    while samples.len() < count {
        let legal = history.last().legal_moves();
        if legal.is_empty() || history.last().rule50_ply() > 60 {
            let start = samples.len() % 20;
            history = PositionHistory::new(Position::startpos());
            let first = history.last().legal_moves()[start];
            history.push(first);
            continue;
        }
        choice = choice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        history.push(legal[(choice >> 33) % legal.len()]);
        let sample = Sample::new(history.clone());
        if !sample.moves.is_empty() && history.last().repetitions() == 0 {
            samples.push(sample);
        }
    }
    samples
}

/// Evaluates `samples` in one batch. The evaluations have the order of `samples`, even if some come from a cache.
fn evaluate(backend: &dyn Backend, samples: &[Sample]) -> Result<Vec<Evaluation>, BackendError> {
    let mut batch = backend.new_batch();
    let added: Vec<Added> = samples.iter().map(|sample| batch.add(sample.request())).collect();
    let evaluations = batch.submit().wait()?;
    let mut queued = evaluations.iter();
    Ok(added
        .into_iter()
        .map(|added| match added {
            Added::Ready(evaluation) => evaluation,
            Added::Queued => {
                let (value, priors) = queued.next().expect("one evaluation per queued request");
                Evaluation { value, priors: priors.into() }
            }
        })
        .collect())
}

fn random() -> Arc<dyn Backend> {
    Arc::new(RandomBackend::default())
}

fn create(backend: &str, options: &str) -> Result<Arc<dyn Backend>, BackendError> {
    let config = BackendConfig {
        backend: backend.to_owned(),
        options: options.to_owned(),
        network: "no such file.pb.gz".to_owned(),
        cache_entries: 0,
        ..BackendConfig::default()
    };
    rukh_registry::create(&config).map(|created| created.backend)
}

fn creation_error(backend: &str, options: &str) -> String {
    match create(backend, options) {
        Ok(_) => panic!("{backend} with {options} should be refused"),
        Err(error) => error.to_string(),
    }
}

/// The path of a file in Cargo's directory for temporary test files. The file does not exist yet.
fn scratch_file(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// How a [`Faulty`] backend fails.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    ErrorInWait,
    PanicInWait,
    PanicInSubmit,
    TooFewEvaluations,
    /// The backend answers, but adds this number to every q.
    WrongValue(f32),
}

/// `random` with a fault and a delay for each batch. It counts its batches.
struct Faulty {
    attributes: Attributes,
    fault: Option<Fault>,
    delay: Duration,
    batches: Arc<AtomicUsize>,
}

impl Faulty {
    fn with(fault: Fault) -> Arc<dyn Backend> {
        Arc::new(Faulty { fault: Some(fault), ..Faulty::slow(Duration::ZERO) })
    }

    fn slow(delay: Duration) -> Faulty {
        let attributes = Attributes { name: "faulty".to_owned(), ..random().attributes().clone() };
        Faulty { attributes, fault: None, delay, batches: Arc::default() }
    }
}

impl Backend for Faulty {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        Box::new(FaultyBatch { inner: random().new_batch(), fault: self.fault, delay: self.delay })
    }
}

struct FaultyBatch {
    inner: Box<dyn Batch>,
    fault: Option<Fault>,
    delay: Duration,
}

impl Batch for FaultyBatch {
    fn len(&self) -> usize {
        self.inner.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        self.inner.add(request)
    }

    fn add_planes(&mut self, planes: &InputPlanes, indices: &[u16]) -> bool {
        self.inner.add_planes(planes, indices)
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        assert!(self.fault != Some(Fault::PanicInSubmit), "injected panic");
        Box::new(FaultyTicket { inner: self.inner.submit(), fault: self.fault, delay: self.delay })
    }
}

struct FaultyTicket {
    inner: Box<dyn Ticket>,
    fault: Option<Fault>,
    delay: Duration,
}

impl Ticket for FaultyTicket {
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        thread::sleep(self.delay);
        match self.fault {
            Some(Fault::ErrorInWait) => {
                Err(BackendError::Evaluate { name: "faulty".to_owned(), reason: "injected error".to_owned() })
            }
            Some(Fault::PanicInWait) => panic!("injected panic"),
            Some(Fault::TooFewEvaluations) => Ok(Evaluations::default()),
            Some(Fault::WrongValue(error)) => {
                let mut wrong = Evaluations::default();
                for (value, priors) in self.inner.wait()?.iter() {
                    wrong.push(Value { q: value.q + error, ..value }, priors.iter().copied());
                }
                Ok(wrong)
            }
            _ => self.inner.wait(),
        }
    }
}

fn assert_same(name: &str, found: &[Evaluation], expected: &[Evaluation], relative_tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.value, expected.value, "{name}");
        assert_eq!(found.priors.len(), expected.priors.len(), "{name}");
        for (found, expected) in found.priors.iter().zip(&expected.priors) {
            assert!(
                (found - expected).abs() <= expected * relative_tolerance,
                "{name}: {found} for {expected}"
            );
        }
    }
}
