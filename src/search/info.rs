//! Info lines and the best move as plain data.
//!
//! The search fills [`ThinkingInfo`]s and hands them to a [`Responder`]. The UCI front end writes them down, and the
//! benchmarks count them. All values are from the view of the side to move at the root.

use crate::chess::Move;

/// A score as UCI has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Score {
    /// `score cp`: the unit depends on `ScoreType`.
    Cp(i32),
    /// `score mate`: full moves to mate, negative when we are mated.
    Mate(i32),
}

/// One info line. Fields that are `None` or empty are not shown.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ThinkingInfo {
    /// Average depth of the visits, in plies.
    pub depth: Option<u32>,
    /// Deepest visit, in plies.
    pub seldepth: Option<u32>,
    /// Since the search began, in milliseconds.
    pub time_ms: Option<u64>,
    /// Visits of the root (or of this line's move, with `PerPVCounters`).
    pub nodes: Option<u64>,
    /// The line's score.
    pub score: Option<Score>,
    /// Win, draw and loss in thousandths; they sum to 1000. Shown with `UCI_ShowWDL`.
    pub wdl: Option<[u16; 3]>,
    /// Full moves that the game will last. Shown with `UCI_ShowMovesLeft`.
    pub moves_left: Option<u32>,
    /// How full the tree's memory is, in thousandths.
    pub hashfull: Option<u32>,
    /// Nodes per second.
    pub nps: Option<u64>,
    /// Network evaluations per second. Shown with `UCI_ShowEPS`.
    pub eps: Option<u64>,
    /// Positions found in the tablebases.
    pub tb_hits: Option<u64>,
    /// The line's rank, from 1; only where several lines are shown.
    pub multipv: Option<u32>,
    /// The line's moves.
    pub pv: Vec<Move>,
    /// Free text, to the end of the line.
    pub comment: String,
}

/// The end of a search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BestMove {
    /// The move to play; `None` where there is no legal one.
    pub best: Option<Move>,
    /// The answer expected.
    pub ponder: Option<Move>,
}

/// Where a search sends what it has to say. Called from search threads.
pub trait Responder: Send + Sync {
    /// Info lines, the best first.
    fn thinking(&self, infos: &[ThinkingInfo]);

    /// Once per search, after the last info line.
    fn best_move(&self, best: &BestMove);

    /// A message for the user (`info string`).
    fn message(&self, text: &str);

    /// Whether anyone reads what is noted.
    fn takes_notes(&self) -> bool {
        false
    }

    /// Something for the log alone.
    fn note(&self, _text: &str) {}
}
