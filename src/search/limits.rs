//! What a search is asked to do: the terms of `position` and `go`, as plain data.

/// The game so far, as the GUI gives it: text, not yet checked against the rules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PositionCommand {
    /// Where the game began.
    pub start: StartPosition,
    /// The moves played since, in UCI notation.
    pub moves: Vec<String>,
}

/// The first position of a game.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StartPosition {
    /// The usual one.
    #[default]
    Standard,
    /// A FEN.
    Fen(String),
}

/// The terms of `go`. Those not given are `None`; several may be given, and the first one met ends the
/// search.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GoParams {
    /// Search until `stop`.
    pub infinite: bool,
    /// Search on the opponent's time, until `ponderhit` or `stop`.
    pub ponder: bool,
    /// White's clock, in milliseconds; never negative (a clock below zero is given as 0).
    pub wtime: Option<u64>,
    /// Black's clock, in milliseconds.
    pub btime: Option<u64>,
    /// White's increment per move, in milliseconds.
    pub winc: Option<u64>,
    /// Black's increment per move, in milliseconds.
    pub binc: Option<u64>,
    /// Moves to the next time control.
    pub movestogo: Option<u32>,
    /// Average depth to reach, in plies.
    pub depth: Option<u32>,
    /// Stop when a mate in so many moves is found.
    pub mate: Option<u32>,
    /// Visits of the root.
    pub nodes: Option<u64>,
    /// Time for this move, in milliseconds.
    pub movetime: Option<u64>,
    /// Only these root moves, in UCI notation; empty: all.
    pub searchmoves: Vec<String>,
}

impl GoParams {
    /// Whether the search ends only when told to: `wait` would wait for ever.
    pub fn is_open_ended(&self) -> bool {
        let limits = [self.nodes, self.movetime, self.wtime, self.btime];
        // A mate need not be there, and moves to go limit nothing without a clock.
        self.infinite || self.ponder || (limits.iter().all(Option::is_none) && self.depth.is_none())
    }
}
