//! The parameters of the commands `position` and `go`, as plain data.

/// The game so far, as the GUI sent it. The moves and the FEN are text that is not yet checked against the rules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PositionCommand {
    /// The position in which the game began.
    pub start: StartPosition,
    /// The moves played from `start`, in UCI notation.
    pub moves: Vec<String>,
}

/// The first position of a game.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StartPosition {
    /// The usual starting position of chess.
    #[default]
    Standard,
    /// A position given as FEN.
    Fen(String),
}

/// The parameters of `go`. A parameter that is not given is `None`. If several limits are given, the search ends when
/// the first of them is reached.
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
    /// The number of moves to the next time control.
    pub movestogo: Option<u32>,
    /// Stop when the average depth of the visits, in plies, reaches this number.
    pub depth: Option<u32>,
    /// Stop when a mate in this many moves is found.
    pub mate: Option<u32>,
    /// Stop when the root has this many visits.
    pub nodes: Option<u64>,
    /// Time for this move, in milliseconds.
    pub movetime: Option<u64>,
    /// The root moves to search, in UCI notation. An empty list means all moves.
    pub searchmoves: Vec<String>,
}

impl GoParams {
    /// Whether only a command ends the search, so that `wait` would block for ever.
    pub fn is_open_ended(&self) -> bool {
        let limits = [self.nodes, self.movetime, self.wtime, self.btime];
        // `mate` is no limit, because there may be no such mate. `movestogo` means nothing without a clock.
        self.infinite || self.ponder || (limits.iter().all(Option::is_none) && self.depth.is_none())
    }
}
