//! The arguments of `position` and `go` as plain data.

use rukh_chess::Color;

/// The game so far, as text from the GUI. It is not yet checked against the rules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PositionCommand {
    /// The first position of the game.
    pub start: StartPosition,
    /// The moves played from `start`, in UCI notation.
    pub moves: Vec<String>,
}

/// The first position of a game, standard or given as a FEN.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum StartPosition {
    /// The standard first position of chess.
    #[default]
    Standard,
    /// A position given as a FEN.
    Fen(String),
}

/// The arguments of `go`. Arguments that were not given are `None`. Of several limits, the one that is reached first
/// ends the search.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GoParams {
    /// Search until `stop`.
    pub infinite: bool,
    /// Search on the opponent's time, until `ponderhit` or `stop`.
    pub ponder: bool,
    /// The time on White's clock, in milliseconds. A negative time becomes 0.
    pub wtime: Option<u64>,
    /// The time on Black's clock, in milliseconds.
    pub btime: Option<u64>,
    /// White's increment per move, in milliseconds.
    pub winc: Option<u64>,
    /// Black's increment per move, in milliseconds.
    pub binc: Option<u64>,
    /// The number of moves to the next time control.
    pub movestogo: Option<u32>,
    /// Stop at this average depth of the visits. The root has the depth 1.
    pub depth: Option<u32>,
    /// Stop when a mate in at most this number of moves is found.
    pub mate: Option<u32>,
    /// Stop at this number of visits of the root. With `searchmoves`, only the visits below these moves count; with the
    /// option `NodesAsPlayouts`, only the visits of this search.
    pub nodes: Option<u64>,
    /// The time for this move, in milliseconds.
    pub movetime: Option<u64>,
    /// The root moves to search, in UCI notation. An empty list means all legal moves.
    pub searchmoves: Vec<String>,
}

impl GoParams {
    /// Whether a search of a position with this `side` to move may go on until a command ends it, so that the command
    /// `wait` could wait for ever.
    pub fn is_open_ended(&self, side: Color) -> bool {
        let clock = match side {
            Color::White => self.wtime,
            Color::Black => self.btime,
        };
        let limits = [self.nodes, self.movetime, clock];
        // There may be no mate, and `movestogo` limits nothing without a clock.
        self.infinite || self.ponder || (limits.iter().all(Option::is_none) && self.depth.is_none())
    }
}
