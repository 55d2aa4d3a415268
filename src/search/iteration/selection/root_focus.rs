//! The root moves that may be tried: the moves of `searchmoves` that can still become the best move.

use crate::chess::PackedMove;
use crate::search::state::SearchContext;
use crate::tree::{Link, LinkId};

/// The root moves that may be tried in one gather step.
pub(crate) struct RootFocus<'a> {
    /// The moves that the user allows. If it is empty, all are allowed.
    searchmoves: &'a [PackedMove],
    /// The link with the most visits, and its visits.
    best: Option<(LinkId, u32)>,
    /// The number of visits still to come. A move that is further behind than this cannot become the best.
    remaining_playouts: Option<u64>,
}

impl<'a> RootFocus<'a> {
    pub(crate) fn new(context: &'a SearchContext, remaining_playouts: Option<u64>) -> RootFocus<'a> {
        let best = remaining_playouts.and_then(|_| context.most_visited_root_link());
        RootFocus { searchmoves: &context.searchmoves, best, remaining_playouts }
    }

    /// Whether any move may be excluded.
    pub(super) fn is_narrow(&self) -> bool {
        let best_visits = self.best.map_or(0, |(_, visits)| visits);
        !self.searchmoves.is_empty()
            || self.remaining_playouts.is_some_and(|remaining| u64::from(best_visits) > remaining)
    }

    /// Whether the move of this root link may be tried.
    pub(super) fn allows(&self, id: LinkId, link: Link<'_>) -> bool {
        if !self.searchmoves.is_empty() && !self.searchmoves.contains(&link.edge().packed_move()) {
            return false;
        }
        match (self.best, self.remaining_playouts) {
            (Some((best, best_visits)), Some(remaining)) => {
                id == best || u64::from(best_visits.saturating_sub(link.visits())) <= remaining
            }
            _ => true,
        }
    }
}
