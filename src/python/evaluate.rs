//! Evaluates many positions: chunks of them are read with Python's lock, and evaluated without it by some threads.

use crate::board::{self, BOARDS, PackedBoard};
use crate::games::Games;
use crate::planes;
use crate::process::SIGNAL_INTERVAL;
use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded, unbounded};
use pyo3::prelude::*;
use rukh_backend::ticket::catch_panic;
use rukh_backend::{Added, Backend, BackendError, Batch, EvalRequest, Evaluation, Value};
use rukh_chess::{PackedMove, Position, PositionHistory, Role};
use rukh_net::input::encode_shown;
use rukh_net::policy_index::index_of;
use rukh_net::{HistoryFill, InputFormat};
use shakmaty::Position as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// Positions to evaluate.
pub(crate) enum Chunk<'a> {
    Games(Games),
    /// The boards of each position, newest first.
    Packed(&'a [[PackedBoard; BOARDS]]),
    /// The numbers of the planes of each position.
    Planes(&'a [f32]),
}

/// What the network says of some positions, from the view of the side to move.
#[derive(Default)]
pub(crate) struct Evaluations {
    /// The probabilities of win, draw and loss.
    pub(crate) wdl: Vec<f32>,
    /// The plies to the end of the game.
    pub(crate) moves_left: Vec<f32>,
    /// The number of moves of each position.
    pub(crate) counts: Vec<u16>,
    /// The legal moves: from, to << 6, python-chess's number of the piece of a promotion << 12.
    pub(crate) moves: Vec<u16>,
    /// Their places among the outputs of the network's policy.
    pub(crate) indices: Vec<u16>,
    /// Their probabilities.
    pub(crate) priors: Vec<f32>,
}

/// Why positions could not be evaluated.
pub(crate) enum Failure {
    /// The position of this number is wrong.
    Position(usize, String),
    Backend(BackendError),
    /// Planes were given to a backend that makes them itself.
    NoPlanes(String),
    Panicked,
}

/// The network on its device.
#[derive(Clone, Copy)]
pub(crate) struct On<'a> {
    pub(crate) backend: &'a dyn Backend,
    pub(crate) format: InputFormat,
    pub(crate) threads: usize,
}

/// Why a call ends without its evaluations.
pub(crate) enum Ended {
    /// An error of Python, such as that of Ctrl+C.
    Python(PyErr),
    Failed(Failure),
}

impl From<PyErr> for Ended {
    fn from(error: PyErr) -> Ended {
        Ended::Python(error)
    }
}

/// A chunk with its number and that of its first position.
struct Numbered<'a> {
    index: usize,
    first: usize,
    chunk: Chunk<'a>,
}

type Answer = (usize, Result<Evaluations, Failure>);

/// Evaluates the chunks that `next` returns until there is none, each with the number of its first position. While some
/// are evaluated, the next ones are read.
pub(crate) fn evaluate<'a>(
    py: Python<'_>,
    on: On<'_>,
    mut next: impl FnMut(Python<'_>) -> PyResult<Option<(usize, Chunk<'a>)>>,
) -> Result<Vec<Evaluations>, Ended> {
    let Some((first, chunk)) = next(py)? else { return Ok(Vec::new()) };
    let Some(second) = next(py)? else {
        // Threads are not worth it.
        return py.detach(|| on.evaluate(&chunk, first)).map(|only| vec![only]).map_err(Ended::Failed);
    };
    let is_over = AtomicBool::new(false);
    let (chunks, to_do) = bounded(on.threads);
    let (done, answers) = unbounded();
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let start = |_| {
            let (to_do, done) = (to_do.clone(), done.clone());
            std::thread::Builder::new().spawn_scoped(scope, move || work(on, &to_do, &done, is_over)).ok()
        };
        let workers: Vec<_> = (0..on.threads).map_while(start).collect();
        if workers.is_empty() {
            return Err(Ended::Failed(Failure::Backend(BackendError::Evaluate {
                name: on.backend.attributes().name.clone(),
                reason: "the system starts no thread".to_owned(),
            })));
        }
        drop((to_do, done));
        let outcome = feed(py, [(first, chunk), second], next, chunks, &answers);
        is_over.store(true, Ordering::Relaxed);
        // A worker that has panicked has given no answer.
        py.detach(|| workers.into_iter().for_each(|worker| drop(worker.join())));
        outcome
    })
}

/// Sends the chunks to the workers, and collects their answers in order.
fn feed<'a>(
    py: Python<'_>,
    first_two: [(usize, Chunk<'a>); 2],
    mut next: impl FnMut(Python<'_>) -> PyResult<Option<(usize, Chunk<'a>)>>,
    chunks: Sender<Numbered<'a>>,
    answers: &Receiver<Answer>,
) -> Result<Vec<Evaluations>, Ended> {
    let mut upcoming = first_two.into_iter();
    let mut count = 0;
    'chunks: while let Some((first, chunk)) =
        upcoming.next().map_or_else(|| next(py), |known| Ok(Some(known)))?
    {
        let mut numbered = Numbered { index: count, first, chunk };
        loop {
            match py.detach(|| chunks.send_timeout(numbered, SIGNAL_INTERVAL)) {
                Ok(()) => break,
                Err(SendTimeoutError::Timeout(back)) => numbered = back,
                // The workers have ended early, and one of their answers is the reason.
                Err(SendTimeoutError::Disconnected(_)) => break 'chunks,
            }
            py.check_signals()?;
        }
        count += 1;
    }
    drop(chunks);
    let mut outputs: Vec<_> = (0..count).map(|_| None).collect();
    let mut missing = count;
    while missing > 0 {
        match py.detach(|| answers.recv_timeout(SIGNAL_INTERVAL)) {
            Ok((index, answer)) => {
                outputs[index] = Some(answer.map_err(Ended::Failed)?);
                missing -= 1;
            }
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(Ended::Failed(Failure::Panicked)),
        }
    }
    Ok(outputs.into_iter().flatten().collect())
}

/// The body of a worker's thread.
fn work(on: On<'_>, to_do: &Receiver<Numbered<'_>>, done: &Sender<Answer>, is_over: &AtomicBool) {
    for Numbered { index, first, chunk } in to_do {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let answer = on.evaluate(&chunk, first);
        if answer.is_err() {
            is_over.store(true, Ordering::Relaxed);
        }
        // The other end waits for all answers unless it has failed.
        let _ = done.send((index, answer));
    }
}

/// What is known of a position before its batch has been evaluated.
enum Asked {
    Network,
    Ready(Evaluation),
    /// There is no legal move, and whether the side to move is in check.
    Ended(bool),
}

impl On<'_> {
    /// Evaluates a chunk as one batch.
    fn evaluate(self, chunk: &Chunk<'_>, first: usize) -> Result<Evaluations, Failure> {
        let evaluate = || match chunk {
            Chunk::Games(games) => self.positions(games.iter(), first),
            Chunk::Packed(rows) => self.positions(rows.iter().map(|row| &row[..]), first),
            Chunk::Planes(numbers) => self.planes(numbers, first),
        };
        catch_panic(&self.backend.attributes().name, || Ok(evaluate()))
            .unwrap_or_else(|error| Err(Failure::Backend(error)))
    }

    fn positions<'b>(
        self,
        positions: impl Iterator<Item = &'b [PackedBoard]>,
        first: usize,
    ) -> Result<Evaluations, Failure> {
        let mut evaluations = Evaluations::default();
        let mut batch = self.backend.new_batch();
        let (mut asked, mut moves, mut ordered) = (Vec::new(), Vec::new(), Vec::new());
        for (number, boards) in (first..).zip(positions) {
            let failed = |reason| Failure::Position(number, reason);
            let boards = board::oldest_first(boards, &mut ordered).map_err(failed)?;
            let newest = &boards[boards.len() - 1];
            let last = newest.position().map_err(failed)?;
            last.packed_moves(&mut moves);
            let start = evaluations.indices.len();
            let (planes, transform) = encode_shown(&last, boards, self.format, HistoryFill::FenOnly);
            evaluations.add_moves(&last, &moves, transform, newest.castles_to_rook());
            asked.push(if moves.is_empty() {
                Asked::Ended(last.is_check())
            } else if batch.add_planes(&planes, &evaluations.indices[start..]) {
                Asked::Network
            } else {
                ask(&mut *batch, &board::history(boards).map_err(failed)?, &moves)
            });
        }
        self.finish(batch, &asked, evaluations)
    }

    fn planes(self, numbers: &[f32], first: usize) -> Result<Evaluations, Failure> {
        let mut evaluations = Evaluations::default();
        let mut batch = self.backend.new_batch();
        let (mut asked, mut moves) = (Vec::new(), Vec::new());
        for (number, numbers) in (first..).zip(numbers.chunks_exact(planes::NUMBERS)) {
            let planes = planes::collect(numbers).map_err(|reason| Failure::Position(number, reason))?;
            moves.clear();
            let start = evaluations.indices.len();
            match planes::shown(&planes, self.format) {
                Some(position) => {
                    position.packed_moves(&mut moves);
                    evaluations.add_moves(&position, &moves, 0, false);
                }
                None => evaluations.counts.push(0),
            }
            if !batch.add_planes(&planes, &evaluations.indices[start..]) {
                return Err(Failure::NoPlanes(self.backend.attributes().name.clone()));
            }
            asked.push(Asked::Network);
        }
        self.finish(batch, &asked, evaluations)
    }

    /// Waits for the batch, and adds its answers.
    fn finish(
        self,
        batch: Box<dyn Batch>,
        asked: &[Asked],
        mut evaluations: Evaluations,
    ) -> Result<Evaluations, Failure> {
        let attributes = self.backend.attributes();
        let answers = match batch.is_empty() {
            true => Default::default(),
            false => batch.submit().wait().map_err(Failure::Backend)?,
        };
        let mut answers = answers.iter();
        let mut moves = 0;
        for (asked, &count) in asked.iter().zip(&evaluations.counts) {
            let (mut value, priors) = match asked {
                Asked::Network => answers.next().ok_or(Failure::Panicked)?,
                Asked::Ready(evaluation) => (evaluation.value, &*evaluation.priors),
                Asked::Ended(is_mated) => {
                    let (q, d) = if *is_mated { (-1.0, 0.0) } else { (0.0, 1.0) };
                    (Value { q, d, ..Value::default() }, &[][..])
                }
            };
            if !attributes.has_wdl && !matches!(asked, Asked::Ended(_)) {
                value.d = 0.0;
            }
            let (win, loss) = ((1.0 + value.q - value.d) / 2.0, (1.0 - value.q - value.d) / 2.0);
            evaluations.wdl.extend([win, value.d, loss]);
            evaluations.moves_left.push(value.m);
            // More moves than a game's position can have get no priors.
            moves += usize::from(count);
            evaluations.priors.extend_from_slice(priors);
            evaluations.priors.resize(moves, 0.0);
        }
        Ok(evaluations)
    }
}

fn ask(batch: &mut dyn Batch, history: &PositionHistory, moves: &[PackedMove]) -> Asked {
    match batch.add(EvalRequest { history, moves }) {
        Added::Queued => Asked::Network,
        Added::Ready(evaluation) => Asked::Ready(evaluation),
    }
}

impl Evaluations {
    /// Adds a position's legal moves.
    fn add_moves(&mut self, position: &Position, moves: &[PackedMove], transform: u8, castles_to_rook: bool) {
        let side = position.side_to_move();
        let kings = position.board().board().kings();
        let ours = position.board().board().by_color(side);
        self.counts.push(moves.len() as u16);
        self.indices.extend(moves.iter().map(|&m| index_of(m, side, transform)));
        self.moves.extend(moves.iter().map(|&m| {
            let (from, mut to) = (m.from() as u16, m.to() as u16);
            if !castles_to_rook && ours.contains(m.to()) && kings.contains(m.from()) {
                to = from & !7 | if to > from { 6 } else { 2 };
            }
            let promotion = match m.promotion() {
                None => 0,
                Some(Role::Knight) => 2,
                Some(Role::Bishop) => 3,
                Some(Role::Rook) => 4,
                Some(_) => 5,
            };
            from | to << 6 | promotion << 12
        }));
    }
}
