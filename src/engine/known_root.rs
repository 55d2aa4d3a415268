//! A root that the tablebases know: its score is theirs, whatever the network thinks of it.
//!
//! Where the root's moves are chosen by distance, the search below them runs without tables (see
//! [`super::Engine`]), and its values are the network's, which takes many a won endgame for a draw. So the scores
//! are replaced on their way out.

use crate::chess::tablebase::Tablebases;
use crate::chess::{PackedMove, PositionHistory};
use crate::options::ScoreType;
use crate::search::report::score::{ScoreInputs, mate_in, score, wdl_permille};
use crate::search::{BestMove, Responder, Score, ThinkingInfo};
use std::sync::Arc;

/// Plies without a zeroing move after which a game is drawn.
const FIFTY_MOVES: i32 = 100;

/// What is certain of a root, side to move's view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KnownRoot {
    /// Mate at the next move.
    Mate,
    /// Won, with so many plies to the next capture or pawn move.
    Won(i32),
    /// Drawn, perhaps by the fifty-move rule.
    Drawn,
    /// Lost, with so many plies to the next capture or pawn move.
    Lost(i32),
}

impl KnownRoot {
    /// What `tables` say of the last position of `history`. `None`: unknown, or so close to the fifty-move rule that
    /// the tables, which may be a ply off, cannot tell.
    pub(super) fn look_up(tables: &Tablebases, history: &PositionHistory) -> Option<KnownRoot> {
        let distance = tables.distance_to_zeroing(history.last())?;
        let end = distance.abs() + history.last().rule50_ply() as i32;
        match distance {
            0 => Some(KnownRoot::Drawn),
            _ if end > FIFTY_MOVES + 1 => Some(KnownRoot::Drawn),
            _ if end >= FIFTY_MOVES => None,
            1.. => Some(KnownRoot::Won(distance)),
            ..0 => Some(KnownRoot::Lost(-distance)),
        }
    }

    /// The score of every move that keeps this result.
    fn score(self, score_type: ScoreType, draw_score: f32) -> Score {
        match self {
            KnownRoot::Mate => Score::Mate(1),
            KnownRoot::Won(plies) => Score::Mate(mate_in(1.0, (plies - 1) as f32, true)),
            KnownRoot::Lost(plies) => Score::Mate(mate_in(-1.0, (plies - 1) as f32, true)),
            KnownRoot::Drawn => {
                let drawn = ScoreInputs { d: 1.0, q: draw_score, ..ScoreInputs::default() };
                Score::Cp(score(score_type, drawn))
            }
        }
    }

    fn win_minus_loss(self) -> f32 {
        match self {
            KnownRoot::Mate | KnownRoot::Won(_) => 1.0,
            KnownRoot::Drawn => 0.0,
            KnownRoot::Lost(_) => -1.0,
        }
    }
}

/// The moves of `best` that mate at once. The tables rank them like every other win.
pub(super) fn mating_moves(history: &PositionHistory, best: &[PackedMove]) -> Vec<PackedMove> {
    let position = history.last();
    best.iter().filter(|m| position.play(m.unpack(position)).is_checkmate()).copied().collect()
}

/// Passes on what a search says, with the known root's score; a mate that the search has proven is a better one.
pub(super) struct KnownScores {
    pub(super) responder: Arc<dyn Responder>,
    pub(super) root: KnownRoot,
    pub(super) score_type: ScoreType,
    /// Of the side to move.
    pub(super) draw_score: f32,
}

impl Responder for KnownScores {
    fn thinking(&self, infos: &[ThinkingInfo]) {
        let known = self.root.score(self.score_type, self.draw_score);
        let wl = self.root.win_minus_loss();
        let replaced = |info: &ThinkingInfo| {
            let mut info = info.clone();
            info.score = info.score.map(|found| match (found, known) {
                (Score::Mate(found), Score::Mate(known)) if known.signum() == found.signum() => {
                    Score::Mate(found.abs().min(known.abs()) * known.signum())
                }
                _ => known,
            });
            info.wdl = info.wdl.map(|_| wdl_permille(wl, 1.0 - wl.abs()));
            info
        };
        self.responder.thinking(&infos.iter().map(replaced).collect::<Vec<_>>());
    }

    fn best_move(&self, best: &BestMove) {
        self.responder.best_move(best);
    }

    fn message(&self, text: &str) {
        self.responder.message(text);
    }

    fn takes_notes(&self) -> bool {
        self.responder.takes_notes()
    }

    fn note(&self, text: &str) {
        self.responder.note(text);
    }
}
