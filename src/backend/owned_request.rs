//! Requests that own what they ask about, for backends that evaluate on another thread, and for tools.

use super::ticket::OrderedBatch;
use super::{Backend, BackendError, EvalRequest, Evaluations};
use rukh_chess::{PackedMove, PositionHistory};

/// The most positions that a network's input planes show.
const POSITIONS_SHOWN: usize = 8;

/// A position with its history, and its legal moves.
#[derive(Clone, Debug)]
pub struct OwnedRequest {
    /// The last position is the one to evaluate.
    pub history: PositionHistory,
    moves: Box<[PackedMove]>,
}

impl OwnedRequest {
    /// Asks about the last position of `history`. `None` if it has no legal move.
    pub fn about(history: PositionHistory) -> Option<OwnedRequest> {
        let mut moves = Vec::new();
        history.last().packed_moves(&mut moves);
        (!moves.is_empty()).then(|| OwnedRequest { history, moves: moves.into() })
    }

    /// A copy of `request` with the positions that an encoder may read: the last eight, and all positions since the last
    /// capture or pawn move. (Some input formats show only repeated positions and read that far back.)
    pub(crate) fn copy_of(request: EvalRequest<'_>) -> OwnedRequest {
        let positions = request.history.positions();
        let since_zeroing = positions.iter().rev().position(|position| position.rule50_ply() == 0);
        let count = since_zeroing.map_or(positions.len(), |plies| plies + 1).max(POSITIONS_SHOWN);
        OwnedRequest { history: request.history.recent(count), moves: request.moves.into() }
    }

    /// The request without its own memory.
    pub fn as_request(&self) -> EvalRequest<'_> {
        EvalRequest { history: &self.history, moves: &self.moves }
    }
}

/// Evaluates the requests as one batch.
///
/// # Errors
/// The evaluation fails, or gives another number of results.
pub fn evaluate(backend: &dyn Backend, requests: &[OwnedRequest]) -> Result<Evaluations, BackendError> {
    let mut batch = OrderedBatch::new(&backend.attributes().name, backend.new_batch());
    for request in requests {
        batch.add(request.as_request());
    }
    batch.submit().finish()
}
