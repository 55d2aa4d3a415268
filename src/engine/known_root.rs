//! The score of a root that the tablebases know.
//!
//! If the tablebases rank the root's moves by distance, the search below them runs without tables (see
//! [`super::root_tablebases`]). Its values then come from the network, which considers many won endgames drawn. So the
//! reported scores are replaced by those of the tablebases.

use rukh_chess::tablebase::{FIFTY_MOVES, Tablebases};
use rukh_chess::{PackedMove, PositionHistory};
use rukh_options::ScoreType;
use rukh_search::report::score::{tablebase_score, wdl_permille};
use rukh_search::{BestMove, Responder, Score, ThinkingInfo};
use std::sync::Arc;

/// The certain result of a root, from the side to move's view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KnownRoot {
    /// Won, because the next move mates.
    Mate,
    /// The side to move wins, and by no mate in one.
    Won,
    /// Drawn, possibly by the fifty-move rule or a third occurrence.
    Drawn,
    /// The side to move loses.
    Lost,
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
            1.. => Some(KnownRoot::Won),
            ..0 => Some(KnownRoot::Lost),
        }
    }

    /// Passes a search's reports on to `responder`, scored by this result unless a mate is proven. `draw_score` is the value
    /// of a draw for the side to move.
    pub fn report_to(
        self,
        responder: Arc<dyn Responder>,
        score_type: ScoreType,
        draw_score: f32,
    ) -> Arc<dyn Responder> {
        Arc::new(KnownScores { responder, root: self, score_type, draw_score })
    }

    /// The score of every move that keeps this result.
    fn score(self, score_type: ScoreType, draw_score: f32) -> Score {
        match self {
            KnownRoot::Mate => Score::Mate(1),
            _ => Score::Cp(tablebase_score(score_type, self.result(), draw_score)),
        }
    }

    /// 1 for a win, 0 for a draw, and -1 for a loss.
    fn result(self) -> i8 {
        match self {
            KnownRoot::Mate | KnownRoot::Won => 1,
            KnownRoot::Drawn => 0,
            KnownRoot::Lost => -1,
        }
    }
}

/// The moves of `best` that mate at once. (The tables do not rank them above other wins.)
pub(super) fn mating_moves(history: &PositionHistory, best: &[PackedMove]) -> Vec<PackedMove> {
    let position = history.last();
    best.iter().filter(|m| position.play(m.unpack(position)).is_checkmate()).copied().collect()
}

/// Passes a search's reports on to `responder`, with the score of the known root. If the search has proven a mate
/// with the same result, that mate is reported.
struct KnownScores {
    responder: Arc<dyn Responder>,
    root: KnownRoot,
    score_type: ScoreType,
    draw_score: f32,
}

impl KnownScores {
    fn with_known_scores(&self, infos: &[ThinkingInfo]) -> Vec<ThinkingInfo> {
        let known = self.root.score(self.score_type, self.draw_score);
        let result = self.root.result();
        let wl = f32::from(result);
        let replaced = |info: &ThinkingInfo| {
            let mut info = info.clone();
            info.score = info.score.map(|found| match (found, known) {
                (Score::Mate(moves), Score::Cp(_)) if moves.signum() == i32::from(result) => found,
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
