//! Info lines and the best move as plain data.
//!
//! The search fills [`ThinkingInfo`]s and hands them to a [`Responder`]. The UCI front end prints them, and so does the
//! benchmark, in its own form. All values are in the view of the side to move at the root.

use rukh_chess::Move;

/// A score in one of UCI's two forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Score {
    /// `score cp`. The unit depends on the option `ScoreType`.
    Cp(i32),
    /// `score mate`: the number of moves to mate. It is negative if the side to move is mated.
    Mate(i32),
}

/// One info line. Fields that are `None` or empty are not shown.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ThinkingInfo {
    /// The average depth of the visits. The root has the depth 1.
    pub depth: Option<u32>,
    /// The depth of the deepest visit. The root has the depth 1.
    pub seldepth: Option<u32>,
    /// The time since the move's clock started, in milliseconds.
    pub time_ms: Option<u64>,
    /// Visits of the root or, if only some of its moves are searched, visits below those. With `PerPVCounters`, visits of
    /// this line's move.
    pub nodes: Option<u64>,
    /// The score of the line's first move.
    pub score: Option<Score>,
    /// The probabilities of win, draw and loss in thousandths. They sum to 1000, and are shown with `UCI_ShowWDL`.
    pub wdl: Option<[u16; 3]>,
    /// The expected number of moves until the end of the game. It is shown with `UCI_ShowMovesLeft`.
    pub moves_left: Option<u32>,
    /// How full the tree's memory is, in thousandths.
    pub hashfull: Option<u32>,
    /// Visits per second since the first batch.
    pub nps: Option<u64>,
    /// Network evaluations per second. They are shown with `UCI_ShowEPS`.
    pub eps: Option<u64>,
    /// The number of positions found in the tablebases.
    pub tb_hits: Option<u64>,
    /// The line's rank, counted from 1, if several lines are shown.
    pub multipv: Option<u32>,
    /// The principal variation.
    pub pv: Vec<Move>,
    /// Free text for `info string`, to the end of the line.
    pub comment: String,
}

/// The result of a search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BestMove {
    /// The move to play. `None` if there is no legal move.
    pub best: Option<Move>,
    /// The expected answer, on which a GUI may ponder.
    pub ponder: Option<Move>,
}

/// The receiver of a search's reports. Search threads call it.
pub trait Responder: Send + Sync {
    /// Receives info lines, the best line first.
    fn thinking(&self, infos: &[ThinkingInfo]);

    /// Receives the best move, once per search and after the last info line.
    fn best_move(&self, best: &BestMove);

    /// Receives the last info lines of a search together with its best move.
    fn answer(&self, infos: &[ThinkingInfo], best: &BestMove) {
        self.thinking(infos);
        self.best_move(best);
    }

    /// Receives a message for the user (`info string`).
    fn message(&self, text: &str);

    /// Whether [`Responder::note`] has an effect. If not, a search need not write notes.
    fn takes_notes(&self) -> bool {
        false
    }

    /// Receives a text for the log only.
    fn note(&self, _text: &str) {}
}
