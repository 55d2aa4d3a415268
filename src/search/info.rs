//! Info lines and the best move as plain data.
//!
//! The search fills [`ThinkingInfo`]s and hands them to a [`Responder`]. The UCI front end writes them down, and the
//! benchmarks count them. All values are from the view of the side to move at the root.

use crate::chess::Move;

/// A score in one of UCI's two forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Score {
    /// `score cp`: the unit depends on `ScoreType`.
    Cp(i32),
    /// `score mate`: full moves to mate, negative if the side to move at the root is mated.
    Mate(i32),
}

/// One info line. Fields that are `None` or empty are not shown.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ThinkingInfo {
    /// Average depth of the visits, in plies.
    pub depth: Option<u32>,
    /// Deepest visit, in plies.
    pub seldepth: Option<u32>,
    /// Time since the search began, in milliseconds.
    pub time_ms: Option<u64>,
    /// Visits of the root (or of this line's move, with `PerPVCounters`).
    pub nodes: Option<u64>,
    /// The score of the line's first move.
    pub score: Option<Score>,
    /// Win, draw and loss in thousandths; they sum to 1000. Shown with `UCI_ShowWDL`.
    pub wdl: Option<[u16; 3]>,
    /// Expected number of full moves to the end of the game. Shown with `UCI_ShowMovesLeft`.
    pub moves_left: Option<u32>,
    /// How full the tree's memory is, in thousandths.
    pub hashfull: Option<u32>,
    /// Nodes per second.
    pub nps: Option<u64>,
    /// Network evaluations per second. Shown with `UCI_ShowEPS`.
    pub eps: Option<u64>,
    /// Positions found in the tablebases.
    pub tb_hits: Option<u64>,
    /// The line's rank, from 1. `None` if only one line is shown.
    pub multipv: Option<u32>,
    /// The principal variation, from the root on.
    pub pv: Vec<Move>,
    /// Free text, shown at the end of the line as `string`.
    pub comment: String,
}

/// The result of a search, for the line `bestmove`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BestMove {
    /// The move to play; `None` if there is no legal move.
    pub best: Option<Move>,
    /// The expected reply to `best`.
    pub ponder: Option<Move>,
}

/// Receives the output of a search. Its functions are called from search threads.
pub trait Responder: Send + Sync {
    /// Receives info lines, the best line first.
    fn thinking(&self, infos: &[ThinkingInfo]);

    /// Receives the result, once per search and after the last info line.
    fn best_move(&self, best: &BestMove);

    /// Receives a message for the user (`info string`).
    fn message(&self, text: &str);

    /// Whether [`Responder::note`] writes to a log. Otherwise the search does not prepare notes.
    fn takes_notes(&self) -> bool {
        false
    }

    /// Receives a line that goes only to the log.
    fn note(&self, _text: &str) {}
}
