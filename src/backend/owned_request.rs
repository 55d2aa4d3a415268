//! Requests that own what they ask about, for tools that evaluate many positions outside a search.

use super::ticket::OrderedBatch;
use super::{Backend, BackendError, EvalRequest, Evaluations};
use rukh_chess::{PackedMove, PositionHistory};

/// A position with its history, and its legal moves.
pub struct OwnedRequest {
    /// The last position is the one to evaluate.
    pub history: PositionHistory,
    /// At least one.
    pub(crate) moves: Vec<PackedMove>,
}

impl OwnedRequest {
    /// Asks about the last position of `history`. `None` if it has no legal move.
    pub fn new(history: PositionHistory) -> Option<OwnedRequest> {
        let mut moves = Vec::new();
        history.last().packed_moves(&mut moves);
        (!moves.is_empty()).then_some(OwnedRequest { history, moves })
    }
}

/// Evaluates the requests as one batch.
///
/// # Errors
/// The evaluation fails, or gives another number of results.
pub fn evaluate(backend: &dyn Backend, requests: &[OwnedRequest]) -> Result<Evaluations, BackendError> {
    let mut batch = OrderedBatch::new(&backend.attributes().name, backend.new_batch());
    for OwnedRequest { history, moves } in requests {
        batch.add(EvalRequest { history, moves });
    }
    batch.submit().finish()
}
