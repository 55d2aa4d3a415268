//! The figures of a job, and the score of its games.

use crate::job::{Job, Kind, PieceResult};
use crate::results::Pieces;
use rukh::selfplay::Finish;
use rukh::selfplay::elo::{Sprt, Verdict};
use rukh::selfplay::score::Score;
use rukh::selfplay::summary::{figures, finish_word, games_in_words, score_in_words, sprt_figures};
use serde_json::{Value, json};

/// Sums over the results of a job, which are added in the order in which they came. The first result of a piece counts.
/// The results that come after the test is decided do not, as in a tournament of one process, which then ends.
#[derive(Default)]
pub(crate) struct Totals {
    /// The pieces that have a result.
    pub(crate) seen: Pieces,
    /// The test that may end the job, and whether it is decided.
    sprt: Option<Sprt>,
    pub(crate) is_decided: bool,
    positions: u64,
    rejected: u64,
    /// Results of pieces that had one already.
    repeated: u64,
    /// Results that came after the test was decided.
    late: u64,
    /// Messages that are no results of the job.
    pub(crate) unreadable: u64,
    score: Score,
    nodes: u64,
    moves: u64,
    /// The games that have training data.
    training_games: u64,
}

impl Totals {
    /// Sums for a job.
    pub(crate) fn new(job: &Job) -> Totals {
        Totals { sprt: job.sprt(), ..Totals::default() }
    }

    /// Adds the result of a finished piece. Returns whether it counts.
    pub(crate) fn add(&mut self, result: &PieceResult) -> bool {
        if self.is_decided {
            self.late += 1;
            return false;
        }
        if !self.seen.insert(result.piece) {
            self.repeated += 1;
            return false;
        }
        self.add_figures(result);
        self.is_decided = self.sprt.is_some_and(|sprt| sprt.verdict(&self.score) != Verdict::Open);
        true
    }

    fn add_figures(&mut self, result: &PieceResult) {
        self.positions = self.positions.saturating_add(result.positions);
        self.rejected += result.rejected.len() as u64;
        self.training_games += result.chunks.len() as u64;
        let Some(games) = &result.games else { return };
        let number = |value: &Value| u32::try_from(value.as_u64().unwrap_or_default()).unwrap_or(u32::MAX);
        for (color, side) in ["with_white", "with_black"].into_iter().enumerate() {
            for (outcome, name) in ["wins", "draws", "losses"].into_iter().enumerate() {
                let count = &mut self.score.results[outcome][color];
                *count = count.saturating_add(number(&games[side][name]));
            }
        }
        for (points, count) in self.score.pairs.iter_mut().enumerate() {
            *count = count.saturating_add(number(&games["pairs"][points]));
        }
        self.nodes = self.nodes.saturating_add(games["nodes"].as_u64().unwrap_or_default());
        self.moves = self.moves.saturating_add(games["moves"].as_u64().unwrap_or_default());
    }

    /// The figures in words.
    pub(crate) fn lines(&self, job: &Job) -> Vec<String> {
        let done = self.seen.count();
        let of = job.pieces.map_or_else(String::new, |pieces| format!(" of {pieces}"));
        let mut lines = vec![format!("{done}{of} pieces")];
        match job.kind {
            Kind::Analysis { .. } => {
                let rejected = match self.rejected {
                    0 => String::new(),
                    number => format!("; {number} games or lines could not be read"),
                };
                lines.push(format!("{} positions{rejected}", self.positions));
            }
            Kind::Games { training, games, .. } => {
                lines.extend(self.score_lines(Some(games)));
                if training {
                    lines.push(format!("{} games with training data", self.training_games));
                }
            }
            Kind::Test { .. } => {}
        }
        if self.repeated > 0 {
            lines.push(format!("{} results of pieces that had one already were left out", self.repeated));
        }
        if self.late > 0 {
            lines.push(format!("{} results that came after the decision were left out", self.late));
        }
        if self.unreadable > 0 {
            lines.push(format!("{} messages that are no results of the job were left out", self.unreadable));
        }
        lines
    }

    /// The figures as JSON.
    pub(crate) fn json(&self, job: &Job, failed: u64, missing: Option<u64>) -> Value {
        let mut figures = json!({
            "job": job.name,
            "pieces": job.pieces,
            "done": self.seen.count(),
            "failed": failed,
            "missing": missing,
            "repeated": self.repeated,
            "late": self.late,
            "unreadable": self.unreadable,
            "positions": self.positions,
            "rejected": self.rejected,
            "troubles": job.troubles,
        });
        if let Kind::Games { training, .. } = job.kind {
            figures["games"] = self.score_json();
            if training {
                figures["training_games"] = self.training_games.into();
            }
        }
        figures
    }

    /// The score of the games in words.
    pub(crate) fn score_lines(&self, total: Option<u64>) -> Vec<String> {
        let mut lines = vec![games_in_words(self.score.games(), total, self.finish())];
        lines.extend(score_in_words(&self.score, self.sprt));
        lines
    }

    fn finish(&self) -> Finish {
        if self.is_decided { Finish::TestEnded } else { Finish::AllGames }
    }

    /// The score of the games as JSON: the [`figures`], what the searches took, and what the test says.
    pub(crate) fn score_json(&self) -> Value {
        let mut score = figures(&self.score);
        score["nodes"] = self.nodes.into();
        score["moves"] = self.moves.into();
        if let Some(sprt) = self.sprt {
            score["finish"] = finish_word(self.finish()).into();
            score["sprt"] = sprt_figures(sprt, &self.score);
        }
        score
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result of ten games.
    fn won(piece: u64) -> PieceResult {
        let mut result = PieceResult::new("id", piece);
        result.games = Some(json!({
            "with_white": { "wins": 3, "draws": 2, "losses": 0 },
            "with_black": { "wins": 1, "draws": 2, "losses": 2 },
            "pairs": [0, 1, 1, 2, 1],
        }));
        result
    }

    #[test]
    fn the_score_of_the_pieces_is_added_up() {
        let mut totals = Totals::default();
        for piece in [0, 1, 0] {
            assert_eq!(totals.add(&won(piece)), totals.seen.count() == piece + 1);
        }
        assert_eq!((totals.score.wins(), totals.score.draws(), totals.score.losses()), (8, 8, 4));
        assert_eq!((totals.score.pairs, totals.repeated), ([0, 2, 2, 4, 2], 1));
    }

    #[test]
    fn results_after_the_decision_do_not_count() {
        let mut totals = Totals { sprt: Some(Sprt { elo0: -300.0, elo1: 0.0 }), ..Totals::default() };
        let counted = (0..9).filter(|&piece| totals.add(&won(piece))).count() as u64;
        assert!((1..9).contains(&counted) && totals.is_decided, "{counted}");
        assert_eq!((totals.late, totals.seen.count()), (9 - counted, counted));
        let words = totals.score_lines(Some(90));
        assert_eq!(words[0], format!("{} games of 90, until the test was decided", 10 * counted));
        assert!(words.iter().any(|line| line.starts_with("SPRT of -300 and 0 Elo: LLR ")), "{words:?}");
        assert_eq!(totals.score_json()["sprt"]["verdict"], "elo1");
    }
}
