//! A request that outlives the search's borrow of it, for backends that evaluate on another thread.

use crate::backend::EvalRequest;
use crate::chess::{PackedMove, PositionHistory};

/// Positions that a network can be shown at most.
const POSITIONS_SHOWN: usize = 8;

/// An [`EvalRequest`] with its own copy of what an encoder may look at: the last eight positions, and all
/// since the last capture or pawn move (the input formats that show only repeated positions look that far
/// back).
#[derive(Clone, Debug)]
pub(crate) struct OwnedRequest {
    history: PositionHistory,
    moves: Box<[PackedMove]>,
}

impl OwnedRequest {
    /// Copies what matters of a request.
    pub(crate) fn new(request: EvalRequest<'_>) -> OwnedRequest {
        let positions = request.history.positions();
        let since_zeroing = positions.iter().rev().position(|position| position.rule50_ply() == 0);
        let count = since_zeroing.map_or(positions.len(), |plies| plies + 1).max(POSITIONS_SHOWN);
        OwnedRequest { history: request.history.recent(count), moves: request.moves.into() }
    }

    /// The request, to evaluate.
    pub(crate) fn as_request(&self) -> EvalRequest<'_> {
        EvalRequest { history: &self.history, moves: &self.moves }
    }
}
