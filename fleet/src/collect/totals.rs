//! The figures of a job, and the score of its games.

use crate::job::{Job, Kind, PieceResult};
use rukh::selfplay::elo;
use rukh::selfplay::score::Score;
use serde_json::{Value, json};

/// Sums over the results of a job.
#[derive(Default)]
pub(crate) struct Totals {
    positions: u64,
    rejected: u64,
    /// Results of pieces that had one already.
    pub(crate) repeated: u64,
    score: Score,
    nodes: u64,
    moves: u64,
}

impl Totals {
    /// Adds the result of a piece.
    pub(crate) fn add(&mut self, result: &PieceResult) {
        self.positions += result.positions;
        self.rejected += result.rejected.len() as u64;
        let Some(games) = &result.games else { return };
        let number = |value: &Value| u32::try_from(value.as_u64().unwrap_or_default()).unwrap_or(u32::MAX);
        for (color, side) in ["with_white", "with_black"].into_iter().enumerate() {
            for (outcome, name) in ["wins", "draws", "losses"].into_iter().enumerate() {
                self.score.results[outcome][color] += number(&games[side][name]);
            }
        }
        for (points, count) in self.score.pairs.iter_mut().enumerate() {
            *count += number(&games["pairs"][points]);
        }
        self.nodes += games["nodes"].as_u64().unwrap_or_default();
        self.moves += games["moves"].as_u64().unwrap_or_default();
    }

    /// The figures in words.
    pub(crate) fn lines(&self, job: &Job, done: u64) -> Vec<String> {
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
            Kind::Games { .. } => lines.extend(self.score_lines()),
            Kind::Test { .. } => {}
        }
        if self.repeated > 0 {
            lines.push(format!("{} results of pieces that had one already were left out", self.repeated));
        }
        lines
    }

    /// The figures as JSON.
    pub(crate) fn json(&self, job: &Job, done: u64, failed: u64, missing: Option<u64>) -> Value {
        let mut figures = json!({
            "job": job.name,
            "pieces": job.pieces,
            "done": done,
            "failed": failed,
            "missing": missing,
            "repeated": self.repeated,
            "positions": self.positions,
            "rejected": self.rejected,
            "troubles": job.troubles,
        });
        if matches!(job.kind, Kind::Games { .. }) {
            figures["games"] = self.score_json();
        }
        figures
    }

    /// The score of the games in words.
    pub(crate) fn score_lines(&self) -> Vec<String> {
        let score = &self.score;
        let (games, wins, draws, losses) = (score.games(), score.wins(), score.draws(), score.losses());
        let mut lines = vec![format!("{games} games; player 1: {wins} wins, {draws} draws, {losses} losses")];
        let [lost, lost_one, even, won_one, won] = score.pairs;
        if score.pairs.iter().any(|&count| count > 0) {
            lines.push(format!(
                "pairs with 0, 0.5, 1, 1.5 and 2 points: {lost} {lost_one} {even} {won_one} {won}"
            ));
        }
        if let Some([elo, low, high]) = elo::elo(score).filter(|[elo, ..]| elo.is_finite()) {
            lines.push(format!("Elo difference: {elo:.1} (95 %: {low:.1} to {high:.1})"));
        }
        lines
    }

    /// The score of the games as JSON. An Elo difference without a bound is `null`.
    pub(crate) fn score_json(&self) -> Value {
        let score = &self.score;
        let [elo, low, high] = elo::elo(score).unwrap_or([f64::NAN; 3]);
        json!({
            "games": score.games(),
            "wins": score.wins(),
            "draws": score.draws(),
            "losses": score.losses(),
            "pairs": score.pairs,
            "elo": elo,
            "elo_low": low,
            "elo_high": high,
            "nodes": self.nodes,
            "moves": self.moves,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_of_the_pieces_is_added_up() {
        let mut totals = Totals::default();
        for _ in 0..2 {
            let mut result = PieceResult::new(0);
            result.games = Some(json!({
                "with_white": { "wins": 3, "draws": 2, "losses": 0 },
                "with_black": { "wins": 1, "draws": 2, "losses": 2 },
                "pairs": [0, 1, 1, 2, 1],
            }));
            totals.add(&result);
        }
        assert_eq!((totals.score.wins(), totals.score.draws(), totals.score.losses()), (8, 8, 4));
        assert_eq!(totals.score.pairs, [0, 2, 2, 4, 2]);
    }
}
