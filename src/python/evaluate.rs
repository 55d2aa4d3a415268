//! Evaluates chunks of positions, each as one batch.

use crate::board::{self, BOARDS, PackedBoard};
use crate::games::Games;
use crate::planes;
use rukh_backend::ticket::catch_panic;
use rukh_backend::{Added, Backend, BackendError, Batch, EvalRequest, Evaluation, Ticket, Value};
use rukh_chess::{PackedMove, Position, PositionHistory};
use rukh_net::input::encode_shown;
use rukh_net::policy_index::index_of;
use rukh_net::{HistoryFill, InputFormat};
use shakmaty::Position as _;

/// Positions to evaluate.
pub(crate) enum Chunk<'a> {
    Games(Games),
    /// The boards of each position, newest first.
    Packed(&'a [[PackedBoard; BOARDS]]),
    /// The numbers of the planes of each position.
    Planes(&'a [f32]),
}

/// What the network says of some positions, from the view of the side to move.
pub(crate) struct Evaluations {
    /// The probabilities of win, draw and loss.
    pub(crate) wdl: Vec<f32>,
    /// The plies to the end of the game.
    pub(crate) moves_left: Vec<f32>,
    /// The moves of position i are those from `offsets[i]` to before `offsets[i + 1]`; the first is 0.
    pub(crate) offsets: Vec<i64>,
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
    /// The threads of a call, each of which encodes batches and waits for them.
    pub(crate) threads: usize,
}

/// A chunk whose batch has been submitted.
pub(crate) struct Asked {
    positions: Vec<Known>,
    /// `None` if no position needs the network.
    ticket: Option<Box<dyn Ticket>>,
    /// So far only the moves; [`On::finish`] adds the rest.
    evaluations: Evaluations,
}

/// What is known of a position before its batch has been evaluated.
enum Known {
    Nothing,
    Evaluation(Evaluation),
    /// There is no legal move, and whether the side to move is in check.
    Ended(bool),
}

impl On<'_> {
    /// Encodes a chunk, whose first position has the number `first`, and submits it as one batch.
    pub(crate) fn begin(self, chunk: &Chunk<'_>, first: usize) -> Result<Asked, Failure> {
        self.caught(|| match chunk {
            Chunk::Games(games) => self.positions(games.iter(), games.len(), first),
            Chunk::Packed(rows) => self.positions(rows.iter().map(|row| &row[..]), rows.len(), first),
            Chunk::Planes(numbers) => self.planes(numbers, first),
        })
    }

    /// Waits for the batch, and adds its answers.
    pub(crate) fn finish(self, asked: Asked) -> Result<Evaluations, Failure> {
        self.caught(|| self.answers(asked))
    }

    fn caught<T>(self, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        catch_panic(&self.backend.attributes().name, || Ok(work()))
            .unwrap_or_else(|error| Err(Failure::Backend(error)))
    }

    fn positions<'b>(
        self,
        positions: impl Iterator<Item = &'b [PackedBoard]>,
        count: usize,
        first: usize,
    ) -> Result<Asked, Failure> {
        let mut evaluations = Evaluations::with_capacity(count);
        let mut batch = self.backend.new_batch();
        let mut known = Vec::with_capacity(count);
        let (mut moves, mut ordered) = (Vec::new(), Vec::new());
        for (number, boards) in (first..).zip(positions) {
            let failed = |reason| Failure::Position(number, reason);
            let boards = board::oldest_first(boards, &mut ordered).map_err(failed)?;
            let newest = &boards[boards.len() - 1];
            let last = newest.position().map_err(failed)?;
            last.packed_moves(&mut moves);
            let start = evaluations.indices.len();
            let (planes, transform) = encode_shown(&last, boards, self.format, HistoryFill::FenOnly);
            evaluations.add_moves(&last, &moves, transform, newest.castles_to_rook());
            known.push(if moves.is_empty() {
                Known::Ended(last.is_check())
            } else if batch.add_planes(&planes, &evaluations.indices[start..]) {
                Known::Nothing
            } else {
                ask(&mut *batch, &board::history(boards).map_err(failed)?, &moves)
            });
        }
        Ok(Asked::submit(batch, known, evaluations))
    }

    fn planes(self, numbers: &[f32], first: usize) -> Result<Asked, Failure> {
        let count = numbers.len() / planes::NUMBERS;
        let mut evaluations = Evaluations::with_capacity(count);
        let mut batch = self.backend.new_batch();
        let mut moves = Vec::new();
        for (number, numbers) in (first..).zip(numbers.chunks_exact(planes::NUMBERS)) {
            let planes = planes::collect(numbers).map_err(|reason| Failure::Position(number, reason))?;
            moves.clear();
            let start = evaluations.indices.len();
            match planes::shown(&planes, self.format) {
                Some(position) => {
                    position.packed_moves(&mut moves);
                    evaluations.add_moves(&position, &moves, 0, false);
                }
                None => evaluations.end_moves(),
            }
            if !batch.add_planes(&planes, &evaluations.indices[start..]) {
                return Err(Failure::NoPlanes(self.backend.attributes().name.clone()));
            }
        }
        let known = (0..count).map(|_| Known::Nothing).collect();
        Ok(Asked::submit(batch, known, evaluations))
    }

    fn answers(self, asked: Asked) -> Result<Evaluations, Failure> {
        let Asked { positions, ticket, mut evaluations } = asked;
        let has_wdl = self.backend.attributes().has_wdl;
        let answers = ticket
            .map_or_else(|| Ok(Default::default()), |ticket| ticket.wait())
            .map_err(Failure::Backend)?;
        let mut answers = answers.iter();
        for (known, &end) in positions.iter().zip(&evaluations.offsets[1..]) {
            let (mut value, priors) = match known {
                Known::Nothing => answers.next().ok_or(Failure::Panicked)?,
                Known::Evaluation(evaluation) => (evaluation.value, &*evaluation.priors),
                Known::Ended(is_mated) => {
                    let (q, d) = if *is_mated { (-1.0, 0.0) } else { (0.0, 1.0) };
                    (Value { q, d, ..Value::default() }, &[][..])
                }
            };
            if !has_wdl && !matches!(known, Known::Ended(_)) {
                value.d = 0.0;
            }
            let (win, loss) = ((1.0 + value.q - value.d) / 2.0, (1.0 - value.q - value.d) / 2.0);
            evaluations.wdl.extend([win, value.d, loss]);
            evaluations.moves_left.push(value.m);
            // More moves than a game's position can have get no priors.
            evaluations.priors.extend_from_slice(priors);
            evaluations.priors.resize(end as usize, 0.0);
        }
        Ok(evaluations)
    }
}

impl Asked {
    fn submit(batch: Box<dyn Batch>, positions: Vec<Known>, evaluations: Evaluations) -> Asked {
        let ticket = (!batch.is_empty()).then(|| batch.submit());
        Asked { positions, ticket, evaluations }
    }
}

fn ask(batch: &mut dyn Batch, history: &PositionHistory, moves: &[PackedMove]) -> Known {
    match batch.add(EvalRequest { history, moves }) {
        Added::Queued => Known::Nothing,
        Added::Ready(evaluation) => Known::Evaluation(evaluation),
    }
}

impl Evaluations {
    /// The moves of each position for which memory is reserved. Few games have more on average.
    const MOVES: usize = 40;

    pub(crate) fn with_capacity(positions: usize) -> Evaluations {
        let moves = positions * Self::MOVES;
        let mut offsets = Vec::with_capacity(positions + 1);
        offsets.push(0);
        Evaluations {
            wdl: Vec::with_capacity(3 * positions),
            moves_left: Vec::with_capacity(positions),
            offsets,
            moves: Vec::with_capacity(moves),
            indices: Vec::with_capacity(moves),
            priors: Vec::with_capacity(moves),
        }
    }

    /// The number of positions.
    pub(crate) fn count(&self) -> usize {
        self.moves_left.len()
    }

    pub(crate) fn append(&mut self, other: &Evaluations) {
        let start = self.moves.len() as i64;
        self.wdl.extend_from_slice(&other.wdl);
        self.moves_left.extend_from_slice(&other.moves_left);
        self.offsets.extend(other.offsets[1..].iter().map(|offset| start + offset));
        self.moves.extend_from_slice(&other.moves);
        self.indices.extend_from_slice(&other.indices);
        self.priors.extend_from_slice(&other.priors);
    }

    /// Adds a position's legal moves.
    fn add_moves(&mut self, position: &Position, moves: &[PackedMove], transform: u8, castles_to_rook: bool) {
        let side = position.side_to_move();
        self.indices.extend(moves.iter().map(|&m| index_of(m, side, transform)));
        let start = self.moves.len();
        // python-chess's numbers of the promotions are higher by 1.
        self.moves.extend(moves.iter().map(|m| m.bits() + (u16::from(m.bits() >> 12 != 0) << 12)));
        let (chess, kings) = (position.board(), position.board().board().kings());
        if !castles_to_rook && chess.castles().any() {
            for (written, &m) in self.moves[start..].iter_mut().zip(moves) {
                if chess.us().contains(m.to()) && kings.contains(m.from()) {
                    let (from, to) = (m.from() as u16, m.to() as u16);
                    *written = from | (from & !7 | if to > from { 6 } else { 2 }) << 6;
                }
            }
        }
        self.end_moves();
    }

    /// Ends a position's moves.
    fn end_moves(&mut self) {
        self.offsets.push(self.moves.len() as i64);
    }
}
