//! The move if no search can run, because the system starts no thread, for example.

use super::evaluator::Evaluator;
use rukh_backend::EvalRequest;
use rukh_chess::{Move, PackedMove, PositionHistory};
use rukh_registry::priors;
use rukh_search::Responder;
use rukh_search::first_choice::{NO_CHOICE, best_by_priors};
use rukh_tree::{State, Tree};

/// The best move of the last position of `history`, which is the root of `tree`: by the tree of earlier searches, or else
/// by one evaluation on the processor. `None` if there is no legal move. If `searchmoves` has moves, it is one of them.
pub(super) fn best_without_search(
    tree: &Tree,
    evaluator: &Evaluator,
    history: &PositionHistory,
    searchmoves: &[PackedMove],
    responder: &dyn Responder,
) -> Option<Move> {
    let position = history.last();
    let moves: Vec<PackedMove> = position.legal_moves().into_iter().map(PackedMove::new).collect();
    let mut searched = moves.iter().filter(|m| searchmoves.is_empty() || searchmoves.contains(m));
    let any = *searched.next()?;
    if searched.next().is_none() {
        return Some(any.unpack(position));
    }
    let request = EvalRequest { history, moves: &moves };
    let best = best_by_tree(tree, history, searchmoves)
        .or_else(|| best_by_priors(&moves, &priors_now(evaluator, request)?, searchmoves));
    if best.is_none() {
        responder.message(NO_CHOICE);
    }
    Some(best.unwrap_or(any).unpack(position))
}

/// The move with the most visits and then the highest prior, if the root was evaluated.
fn best_by_tree(tree: &Tree, history: &PositionHistory, searchmoves: &[PackedMove]) -> Option<PackedMove> {
    let root = tree.node(tree.root());
    if root.state() != State::Expanded {
        return None;
    }
    let moves = tree
        .edges(root, history.last())
        .into_iter()
        .map(|(edge, link)| (edge.packed_move(), link.map_or(0, |link| link.visits()), edge.prior()))
        .filter(|(m, ..)| searchmoves.is_empty() || searchmoves.contains(m));
    moves.max_by(|a, b| a.1.cmp(&b.1).then(a.2.total_cmp(&b.2))).map(|(m, ..)| m)
}

/// The priors of the network that is at hand on the processor, or of the embedded one. A device is not asked, because it
/// may hang.
fn priors_now(evaluator: &Evaluator, request: EvalRequest<'_>) -> Option<Vec<f32>> {
    let backend = evaluator.current();
    let cached = backend.and_then(|backend| backend.cached(request)).map(|known| known.priors.to_vec());
    let processor = backend.filter(|backend| backend.attributes().runs_on_cpu);
    cached.or_else(|| priors(processor?, request)).or_else(|| evaluator.fallback()?.embedded_priors(request))
}
