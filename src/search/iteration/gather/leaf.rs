//! The result of a new leaf, if the rules of the game or a tablebase give it.

use crate::state::{Counters, SearchContext};
use rukh_base::sync::atomic::Ordering;
use rukh_chess::Position;
use rukh_tree::{Outcome, TerminalKind};

/// The result of a position by the rules of the game, from the side to move's view. `depth` is in plies below the root.
pub(super) fn outcome_by_rule(
    context: &SearchContext,
    position: &Position,
    has_no_moves: bool,
    depth: usize,
) -> Option<Outcome> {
    let draw = |plies, kind| Some(Outcome { result: 0, plies, kind });
    if has_no_moves {
        let result = if position.is_check() { -1 } else { 0 };
        return Some(Outcome { result, plies: 0, kind: TerminalKind::EndOfGame });
    }
    // The user has asked for a search of the root, so the root is searched even if it is drawn.
    if depth == 0 {
        return None;
    }
    if position.has_insufficient_material() || position.rule50_ply() >= 100 || position.repetitions() >= 2 {
        return draw(0, TerminalKind::EndOfGame);
    }
    let cycle = position.plies_since_repetition();
    if position.repetitions() == 1
        && context.params.two_fold_draws
        && depth >= 4
        && depth >= usize::from(cycle)
    {
        return draw(cycle, TerminalKind::TwoFold);
    }
    None
}

/// The result of a position by the tablebases. `None` if they give no result. `parent_m` is the expected number of
/// plies left at its parent.
pub(super) fn outcome_by_tablebase(
    context: &SearchContext,
    counters: &Counters,
    position: &Position,
    parent_m: f32,
) -> Option<Outcome> {
    let result = context.tablebases.as_ref()?.result_after_zeroing(position)?;
    counters.tablebase_hits.fetch_add(1, Ordering::Relaxed);
    // The tables do not give the length of the game in plies. The parent's estimate less one ply replaces it. (The
    // conversion saturates.)
    Some(Outcome { result, plies: (parent_m - 1.0) as u16, kind: TerminalKind::Tablebase })
}
