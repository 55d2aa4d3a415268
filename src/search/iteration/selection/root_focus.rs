//! The root moves that may be tried: the searched moves that smart pruning does not skip.

use crate::state::SearchContext;
use rukh_tree::{Link, LinkId};

/// The root moves that may be tried in one gather step.
pub(crate) struct RootFocus<'a> {
    context: &'a SearchContext,
    /// The searched link with the most visits, and its visits.
    best: Option<(LinkId, u32)>,
    /// The number of visits still to come. A move that is further behind than this cannot become the most visited. `None`
    /// skips no move.
    remaining_playouts: Option<u64>,
}

impl<'a> RootFocus<'a> {
    pub(crate) fn new(context: &'a SearchContext, remaining_playouts: Option<u64>) -> RootFocus<'a> {
        let best = remaining_playouts.and_then(|_| context.most_visited_root_link());
        RootFocus { context, best, remaining_playouts }
    }

    /// Whether only some of the root's moves are searched.
    pub(super) fn is_restricted(&self) -> bool {
        self.context.is_restricted()
    }

    /// Whether the move of this root link is searched.
    pub(super) fn searches(&self, link: Link<'_>) -> bool {
        self.context.is_searched(link.edge().packed_move())
    }

    /// Whether any searched move may be skipped.
    pub(super) fn is_narrow(&self) -> bool {
        let best_visits = self.best.map_or(0, |(_, visits)| visits);
        self.remaining_playouts.is_some_and(|remaining| u64::from(best_visits) > remaining)
    }

    /// Whether the move of this root link, which is searched, may be tried.
    pub(super) fn allows(&self, id: LinkId, link: Link<'_>) -> bool {
        match (self.best, self.remaining_playouts) {
            (Some((best, best_visits)), Some(remaining)) => {
                id == best || u64::from(best_visits.saturating_sub(link.visits())) <= remaining
            }
            _ => true,
        }
    }
}
