//! The score of a root that the tablebases know.
//!
//! If the tablebases rank the root's moves by distance, the search below them runs without tables (see
//! [`super::root_tablebases`]). Its values then come from the network, which considers many won endgames drawn. So the
//! reported scores are replaced by those of the tablebases.

use rukh_chess::tablebase::{FIFTY_MOVES, Tablebases};
use rukh_chess::{PackedMove, PositionHistory};
use rukh_options::ScoreType;
use rukh_search::report::score::{ScoreInputs, mate_in, score, wdl_permille};
use rukh_search::{BestMove, Responder, Score, ThinkingInfo};
use std::sync::Arc;

/// The certain result of a root, from the side to move's view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KnownRoot {
    /// Won, because the next move mates.
    Mate,
    /// Won, with this number of plies to the next capture or pawn move.
    Won(i32),
    /// Drawn, possibly by the fifty-move rule.
    Drawn,
    /// Lost, with this number of plies to the next capture or pawn move.
    Lost(i32),
}

impl KnownRoot {
    /// The result of the last position of `history` according to `tables`. `None` if it is unknown, or so close to the
    /// fifty-move rule that the tables, which may be one ply off, cannot decide it.
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

/// The moves of `best` that mate at once. (The tables do not rank them above other wins.)
pub(super) fn mating_moves(history: &PositionHistory, best: &[PackedMove]) -> Vec<PackedMove> {
    let position = history.last();
    best.iter().filter(|m| position.play(m.unpack(position)).is_checkmate()).copied().collect()
}

/// Passes a search's reports on to `responder`, with the score of the known root. If the search has proven a shorter
/// mate, that mate is reported.
pub(super) struct KnownScores {
    pub(super) responder: Arc<dyn Responder>,
    pub(super) root: KnownRoot,
    pub(super) score_type: ScoreType,
    /// The value of a draw for the side to move.
    pub(super) draw_score: f32,
}

impl KnownScores {
    fn with_known_scores(&self, infos: &[ThinkingInfo]) -> Vec<ThinkingInfo> {
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
        infos.iter().map(replaced).collect()
    }
}

impl Responder for KnownScores {
    fn thinking(&self, infos: &[ThinkingInfo]) {
        self.responder.thinking(&self.with_known_scores(infos));
    }

    fn answer(&self, infos: &[ThinkingInfo], best: &BestMove) {
        self.responder.answer(&self.with_known_scores(infos), best);
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
