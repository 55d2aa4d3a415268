//! Commands for people who type at the engine, as they know them from Stockfish. No chess program sends them, so their
//! answers are not UCI.

use super::output::Output;
use rukh_backend::owned_request::{OwnedRequest, evaluate};
use rukh_backend::{Backend, BackendError};
use rukh_base::sync::start_system_thread;
use rukh_chess::perft::divide;
use rukh_chess::{Color, Position, PositionHistory, Square, uci_move};
use rukh_engine::Engine;
use rukh_search::report::score::wdl_permille;
use shakmaty::fen::Fen;
use shakmaty::{EnPassantMode, Position as _, Role, Setup};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What can be typed. The last lines are about UCI's commands.
pub(super) const HELP: &str = "\
d                          shows the position
eval                       shows what the network says about the position
go perft N                 counts the sequences of N moves
bench                      measures the speed of the search
go nodes N                 searches until N visits; also: go movetime MILLISECONDS, go depth N, go mate N, go infinite
stop                       ends the search
position startpos moves …  sets the position; also: position fen FEN moves …
setoption name X value Y   sets an option; uci lists all
quit                       ends the engine
`rukh --help` describes flags and tools.";

/// How long `quit`, `wait` and the end of stdin wait for a count. Scripts send `quit` right behind `go perft`.
const PATIENCE: Duration = Duration::from_secs(10);
/// The table of the pieces is left out if it would take longer.
const PATIENCE_FOR_PIECES: Duration = Duration::from_secs(5);
/// The time between two looks at a count.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// The board, the FEN, the key and the pieces that give check, as Stockfish shows them.
pub(super) fn diagram(position: &Position) -> Vec<String> {
    const LINE: &str = " +---+---+---+---+---+---+---+---+";
    let board = position.board().board();
    let mut lines = vec![String::new(), LINE.to_owned()];
    for rank in (0..8).rev() {
        let mut line = String::new();
        for file in 0..8 {
            let piece = board.piece_at(Square::new(8 * rank + file)).map_or(' ', |piece| piece.char());
            // Writing to a string cannot fail.
            let _ = write!(line, " | {piece}");
        }
        lines.push(format!("{line} | {}", rank + 1));
        lines.push(LINE.to_owned());
    }
    let checkers: String = position.checkers().into_iter().map(|square| format!(" {square}")).collect();
    lines.extend([
        "   a   b   c   d   e   f   g   h".to_owned(),
        String::new(),
        format!("Fen: {}", position.to_fen()),
        format!("Key: {:016X}", position.key()),
        format!("Checkers:{checkers}"),
    ]);
    lines
}

/// What the network says about the current position, without a search.
///
/// # Errors
/// There is no legal move or no position, no backend can be made, or the evaluation fails.
pub(super) fn evaluation(engine: &mut Engine) -> Result<Vec<String>, String> {
    let history = engine.history().map_err(|reason| format!("the last position was refused: {reason}"))?;
    let Some(request) = OwnedRequest::about(history.clone()) else {
        return Err("there is no legal move".to_owned());
    };
    let backend = engine.backend().map_err(|error| error.to_string())?;
    let began = Instant::now();
    let evaluations =
        evaluate(&*backend, std::slice::from_ref(&request)).map_err(|error| error.to_string())?;
    let time = began.elapsed();
    let (value, priors) = evaluations.get(0);
    let attributes = backend.attributes();
    let network = engine.network().unwrap_or("no network");
    let [win, draw, loss] = wdl_permille(value.q, value.d).map(|share| f64::from(share) / 10.0);
    let side = request.history.last().side_to_move();
    let mut lines = vec![
        format!("network     {network} on {}", attributes.name),
        format!("for         {side}, who is to move"),
        format!("q           {:+.4}", value.q),
    ];
    if attributes.has_wdl {
        lines.push(format!("wdl         {win:.1} % wins, {draw:.1} % draws, {loss:.1} % losses"));
    }
    if attributes.has_mlh {
        lines.push(format!("moves left  {:.1}", value.m / 2.0));
    }
    let position = request.history.last();
    if time * position.piece_count() as u32 <= PATIENCE_FOR_PIECES {
        lines.push("pieces      change of White's q by each piece".to_owned());
        lines.extend(pieces(&*backend, position).map_err(|error| error.to_string())?);
    }
    let options = engine.options();
    lines.push(format!("policy      at temperature {}", options.policy_softmax_temp));
    lines.extend(policy(&request.history, priors, options.chess960));
    Ok(lines)
}

/// A board with the change of White's q by each piece: the network's q of the position less that of the position without
/// the piece. Both are without history.
fn pieces(backend: &dyn Backend, position: &Position) -> Result<Vec<String>, BackendError> {
    let alone = |position: Position| OwnedRequest::about(PositionHistory::new(position));
    let board = position.board().board();
    let (mut squares, mut requests) = (vec![None], Vec::from_iter(alone(position.clone())));
    for square in board.occupied() & !board.kings() {
        if let Some(request) = without(position, square).and_then(alone) {
            squares.push(Some(square));
            requests.push(request);
        }
    }
    let sign = if position.side_to_move() == Color::White { 1.0 } else { -1.0 };
    let mut q = Vec::new();
    for part in requests.chunks(backend.attributes().maximum_batch_size.max(1)) {
        let evaluations = evaluate(backend, part)?;
        q.extend(evaluations.iter().map(|(value, _)| sign * value.q));
    }
    let cell = |square: Square| {
        let Some(piece) = board.piece_at(square) else { return "   .   ".to_owned() };
        let index = squares.iter().position(|&known| known == Some(square));
        let change = index.and_then(|index| Some(q.first()? - q.get(index)?));
        change.map_or_else(
            || format!("   {}   ", piece.char()),
            |change| format!("{}{change:+.2} ", piece.char()),
        )
    };
    let rank = |rank: u32| {
        let cells: String = (0..8).map(|file| cell(Square::new(8 * rank + file))).collect();
        format!("{}  {}", rank + 1, cells.trim_end())
    };
    Ok((0..8).rev().map(rank).collect())
}

/// The position without the piece on `square`; `None` if that position is impossible, as with a king that could be
/// taken.
fn without(position: &Position, square: Square) -> Option<Position> {
    let mut setup: Setup = position.board().to_setup(EnPassantMode::Legal);
    let piece = setup.board.remove_piece_at(square)?;
    let king = setup.board.king_of(!setup.turn)?;
    if setup.board.attacks_to(king, setup.turn, setup.board.occupied()).any() {
        return None;
    }
    setup.castling_rights.discard(square);
    if piece.role == Role::Pawn {
        // It may be the one that would be taken, or the one that would take.
        setup.ep_square = None;
    }
    Position::from_fen(&Fen::try_from_setup(setup).ok()?.to_string()).ok()
}

/// The legal moves of the last position with their priors, the highest first.
fn policy(history: &PositionHistory, priors: &[f32], chess960: bool) -> Vec<String> {
    let moves = history.last().legal_moves();
    let mut moves: Vec<_> = moves.iter().zip(priors).collect();
    moves.sort_by(|a, b| b.1.total_cmp(a.1));
    let line =
        |(&m, prior): (_, &f32)| format!("  {:5} {:6.2} %", uci_move::text(m, chess960), prior * 100.0);
    moves.into_iter().map(line).collect()
}

/// A count of move sequences, on a thread of its own, so that `stop` and `quit` can end it.
pub(super) struct Count {
    thread: Option<JoinHandle<()>>,
    is_stopped: Arc<AtomicBool>,
    /// Whether all is counted. Set before the last lines: whoever has read them may begin another count, although the
    /// thread has not quite ended.
    is_done: Arc<AtomicBool>,
}

impl Count {
    /// Begins to count, and to write lines.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(super) fn start(
        position: Position,
        depth: u32,
        chess960: bool,
        output: Arc<Output>,
    ) -> Result<Count, String> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_stopped);
        let is_done = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&is_done);
        let count = move || {
            let is_stopped = || flag.load(Ordering::Relaxed);
            let mut total = u64::from(depth == 0);
            for (m, nodes) in divide(&position, depth, &is_stopped) {
                total += nodes;
                output.line(&format!("{}: {nodes}", uci_move::text(m, chess960)));
            }
            done.store(true, Ordering::Relaxed);
            match is_stopped() {
                true => output.message("perft was stopped"),
                false => output.lines(&["", &format!("Nodes searched: {total}"), ""]),
            }
        };
        let thread = start_system_thread("perft", count).map_err(|error| error.to_string())?;
        Ok(Count { thread: Some(thread), is_stopped, is_done })
    }

    /// Whether there is still something to count.
    pub(super) fn is_running(&self) -> bool {
        !self.is_done.load(Ordering::Relaxed) && !self.has_ended()
    }

    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the count ends, but for no longer than [`PATIENCE`].
    pub(super) fn wait_a_while(&self) {
        let start = Instant::now();
        while !self.has_ended() && start.elapsed() < PATIENCE {
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}

impl Drop for Count {
    /// Stops the count and waits for its thread.
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread has reported its own panic already.
            let _ = thread.join();
        }
    }
}
