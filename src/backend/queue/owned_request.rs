//! A copy of a request, for backends that evaluate on another thread.

use crate::EvalRequest;
use rukh_chess::{PackedMove, PositionHistory};

/// The most positions that a network's input planes show.
const POSITIONS_SHOWN: usize = 8;

/// A copy of an [`EvalRequest`] with the positions that an encoder may read: the last eight, and all positions since
/// the last capture or pawn move. (Some input formats show only repeated positions and read that far back.)
#[derive(Clone, Debug)]
pub(crate) struct OwnedRequest {
    pub history: PositionHistory,
    moves: Box<[PackedMove]>,
}

impl OwnedRequest {
    pub(crate) fn new(request: EvalRequest<'_>) -> OwnedRequest {
        let positions = request.history.positions();
        let since_zeroing = positions.iter().rev().position(|position| position.rule50_ply() == 0);
        let count = since_zeroing.map_or(positions.len(), |plies| plies + 1).max(POSITIONS_SHOWN);
        OwnedRequest { history: request.history.recent(count), moves: request.moves.into() }
    }

    pub(crate) fn as_request(&self) -> EvalRequest<'_> {
        EvalRequest { history: &self.history, moves: &self.moves }
    }
}
