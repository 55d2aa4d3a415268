//! The status of a node in one word, so that each change is one compare-and-swap. The statistics are separate.
//!
//! ```text
//!  bits   0-1    2-3    4        5        6        7           8       9       10         11         12-19       20-31
//!        state  kind  no loss  no draw  no win  recomputing  in use  shared  collapsed  ruled out  edge count   plies
//! ```
//! `no loss`, `no draw` and `no win` say that the position cannot have this result.
//! A word of zeros is a free entry of the arena.

/// The state of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// The node was never evaluated, or was collapsed.
    Unevaluated = 0,
    /// A thread has claimed the node and evaluates it, or recycling has condemned the node.
    Evaluating = 1,
    /// The node is evaluated and has edges.
    Expanded = 2,
    /// The node's value is exact: end of game, tablebase, repetition, or a proof by its children.
    Terminal = 3,
}

/// The reason why a node is terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum TerminalKind {
    /// The rules, or a proof from positions that are terminal by the rules.
    #[default]
    EndOfGame = 0,
    /// An endgame tablebase.
    Tablebase = 1,
    /// A first repetition within the search, which counts as a draw. It depends on the path, so it is undone when the
    /// root moves past the first occurrence.
    TwoFold = 2,
}

/// The proven bounds of a position's result, from the point of view of the side to move: -1 loss, 0 draw, 1 win.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The result is at least this.
    pub lower: i8,
    /// The result is at most this.
    pub upper: i8,
}

impl Bounds {
    /// The bounds of a position about which nothing is proven.
    pub const UNKNOWN: Bounds = Bounds { lower: -1, upper: 1 };

    /// The bounds of a position whose result is known.
    pub const fn exact(result: i8) -> Bounds {
        Bounds { lower: result, upper: result }
    }

    /// The same bounds from the other side's point of view.
    pub const fn flipped(self) -> Bounds {
        Bounds { lower: -self.upper, upper: -self.lower }
    }

    /// Whether the result is known.
    pub const fn is_exact(self) -> bool {
        self.lower == self.upper
    }
}

/// The exact result of a terminal node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    /// -1 (loss), 0 (draw) or 1 (win), from the point of view of the side to move.
    pub result: i8,
    /// Plies to the end, at most [`Outcome::MOST_PLIES`]; for [`TerminalKind::TwoFold`] the cycle's length.
    pub plies: u16,
    /// The reason for the result.
    pub kind: TerminalKind,
}

impl Outcome {
    /// The most plies that fit into a node's status.
    pub const MOST_PLIES: u16 = (1 << (32 - PLIES_SHIFT)) - 1;

    /// Whether this is a draw only because it repeats a position that is now above the root. `depth` is the number of
    /// plies from the root to the drawn position.
    pub fn is_outlived_repetition(self, depth: usize) -> bool {
        self.kind == TerminalKind::TwoFold && depth < usize::from(self.plies)
    }
}

/// The most edges that fit into a node's status: more than the legal moves of any position in a game.
pub const MOST_EDGES: usize = (1 << (PLIES_SHIFT - COUNT_SHIFT)) - 1;

const STATE_MASK: u32 = 3;
const KIND_SHIFT: u32 = 2;
const NO_LOSS: u32 = 1 << 4;
const NO_DRAW: u32 = 1 << 5;
const NO_WIN: u32 = 1 << 6;
const COUNT_SHIFT: u32 = 12;
const PLIES_SHIFT: u32 = 20;
const RESULT_BITS: u32 = 3 << KIND_SHIFT | NO_LOSS | NO_DRAW | NO_WIN | !0 << PLIES_SHIFT;

/// The status word of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Status(pub(super) u32);

impl Status {
    /// A thread recomputes the node's means.
    pub(super) const RECOMPUTING: u32 = 1 << 7;
    /// The entry of the arena holds a node, so it is not free. A condemned node without this flag is doomed.
    pub(super) const IN_USE: u32 = 1 << 8;
    /// The node is in the transposition table, so it may have several parents.
    pub(super) const SHARED: u32 = 1 << 9;
    /// Recycling has removed the node's children, but not its visits.
    pub(super) const COLLAPSED: u32 = 1 << 10;
    /// A search for a mate need not visit the node again.
    pub(super) const RULED_OUT: u32 = 1 << 11;

    pub(super) fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    #[inline]
    pub(super) fn state(self) -> State {
        match self.0 & STATE_MASK {
            0 => State::Unevaluated,
            1 => State::Evaluating,
            2 => State::Expanded,
            _ => State::Terminal,
        }
    }

    pub(super) fn with_state(self, state: State) -> Status {
        Status(self.0 & !STATE_MASK | state as u32)
    }

    /// The number of edges that a thread may use. A node that is being evaluated has none.
    #[inline]
    pub(super) fn edge_count(self) -> usize {
        if self.state() == State::Evaluating { 0 } else { self.stored_edge_count() }
    }

    /// The number of edges in memory. Only a condemned node has edges that no thread may use.
    #[inline]
    pub(super) fn stored_edge_count(self) -> usize {
        (self.0 >> COUNT_SHIFT) as usize & MOST_EDGES
    }

    /// Whether recycling keeps threads out of the node, to free its edges.
    pub(super) fn is_condemned(self) -> bool {
        self.state() == State::Evaluating && self.stored_edge_count() > 0
    }

    /// Whether the node is condemned and nothing refers to it any more.
    pub(super) fn is_doomed(self) -> bool {
        self.is_condemned() && !self.has(Status::IN_USE)
    }

    /// The status of a condemned node to which nothing refers any more.
    pub(super) fn doomed(self) -> Status {
        Status(self.0 & !Status::IN_USE)
    }

    pub(super) fn with_edge_count(self, count: usize) -> Status {
        let mask = (MOST_EDGES as u32) << COUNT_SHIFT;
        Status(self.0 & !mask | (count.min(MOST_EDGES) as u32) << COUNT_SHIFT)
    }

    pub(super) fn bounds(self) -> Bounds {
        let lower = i8::from(self.has(NO_LOSS)) + i8::from(self.has(NO_LOSS) && self.has(NO_DRAW)) - 1;
        let upper = 1 - i8::from(self.has(NO_WIN)) - i8::from(self.has(NO_WIN) && self.has(NO_DRAW));
        Bounds { lower, upper }
    }

    pub(super) fn with_bounds(self, bounds: Bounds) -> Status {
        let Bounds { lower, upper } = bounds;
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let no_draw = flag(lower > 0 || upper < 0, NO_DRAW);
        let kept = self.0 & !(NO_LOSS | NO_DRAW | NO_WIN);
        Status(kept | flag(lower > -1, NO_LOSS) | no_draw | flag(upper < 1, NO_WIN))
    }

    pub(super) fn with_outcome(self, outcome: Outcome) -> Status {
        let kept = Status(self.0 & !RESULT_BITS).with_bounds(Bounds::exact(outcome.result)).0;
        let plies = u32::from(outcome.plies.min(Outcome::MOST_PLIES));
        Status(kept | (outcome.kind as u32) << KIND_SHIFT | plies << PLIES_SHIFT)
    }

    /// This status without its bounds and outcome.
    pub(super) fn without_result(self) -> Status {
        Status(self.0 & !RESULT_BITS)
    }

    /// The exact result, if the state is `Terminal`.
    #[inline]
    pub(super) fn outcome(self) -> Option<Outcome> {
        (self.state() == State::Terminal).then(|| {
            let kind = match (self.0 >> KIND_SHIFT) & 3 {
                1 => TerminalKind::Tablebase,
                2 => TerminalKind::TwoFold,
                _ => TerminalKind::EndOfGame,
            };
            Outcome { result: self.bounds().lower, plies: (self.0 >> PLIES_SHIFT) as u16, kind }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let mut status = Status(Status::IN_USE | Status::SHARED | Status::RECOMPUTING);
        assert_eq!(status.bounds(), Bounds::UNKNOWN);
        status = status.with_state(State::Expanded).with_edge_count(MOST_EDGES);
        for (lower, upper) in [(-1, 1), (-1, 0), (-1, -1), (0, 0), (1, 1), (0, 1)] {
            status = status.with_bounds(Bounds { lower, upper });
            assert_eq!((status.state(), status.edge_count()), (State::Expanded, MOST_EDGES));
            assert_eq!((status.bounds(), status.outcome()), (Bounds { lower, upper }, None));
        }
        for result in [-1, 0, 1] {
            for kind in [TerminalKind::EndOfGame, TerminalKind::Tablebase, TerminalKind::TwoFold] {
                let outcome = Outcome { result, plies: Outcome::MOST_PLIES, kind };
                let ended = status.with_outcome(outcome).with_state(State::Terminal);
                assert_eq!((ended.outcome(), ended.bounds()), (Some(outcome), Bounds::exact(result)));
                assert_eq!(ended.edge_count(), MOST_EDGES);
                let reopened = ended.without_result().with_state(State::Expanded);
                assert_eq!((reopened.bounds(), reopened.edge_count()), (Bounds::UNKNOWN, MOST_EDGES));
                for kept in [ended, reopened] {
                    let set = [Status::IN_USE, Status::SHARED, Status::RECOMPUTING];
                    assert!(set.into_iter().all(|flag| kept.has(flag)) && !kept.has(Status::COLLAPSED));
                }
            }
        }
        let endless =
            status.with_outcome(Outcome { result: 1, plies: u16::MAX, kind: TerminalKind::EndOfGame });
        assert_eq!(endless.with_state(State::Terminal).outcome().map(|o| o.plies), Some(Outcome::MOST_PLIES));
    }
}
