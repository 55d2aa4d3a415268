//! What a search has found out about a position.

use rukh_chess::{GameResult, Position, PositionHistory, uci_move};
use rukh_search::{Score, ThinkingInfo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The score of a line, in the view of the side to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineScore {
    /// Hundredths of a pawn, or the unit of the option `ScoreType`.
    Cp(i32),
    /// Moves to mate; negative if the side to move is mated.
    Mate(i32),
}

impl LineScore {
    /// The same score in the view of the other side.
    pub fn reversed(self) -> LineScore {
        match self {
            LineScore::Cp(score) => LineScore::Cp(-score),
            LineScore::Mate(moves) => LineScore::Mate(-moves),
        }
    }
}

/// One of the best lines of a position.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// The score.
    pub score: LineScore,
    /// The probabilities of a win, a draw and a loss of the side to move, in thousandths.
    pub wdl: [u16; 3],
    /// The visits of the line's first move.
    pub visits: u64,
    /// The expected number of moves until the end of the game, if the network estimates it.
    pub moves_left: Option<u32>,
    /// The moves, in UCI notation.
    pub pv: Vec<String>,
    /// The network's probability of the first move, 0 … 1; `None` if its evaluation of the position is not known.
    #[serde(default)]
    pub prior: Option<f32>,
}

/// The result of the search of a position.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Analysis {
    /// The visits of the root; 0 if `end` is set.
    pub nodes: u64,
    /// The average depth of the visits.
    pub depth: u32,
    /// The best lines, the best one first. There is none if `end` is set.
    pub lines: Vec<Line>,
    /// The result of the position, if it is the end of the game.
    pub end: Option<End>,
    /// The legal moves in UCI notation with the network's probabilities, the highest first. Empty if nobody asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy: Vec<(String, f32)>,
}

/// The results of a document's positions, by their index.
pub(super) type Results = BTreeMap<usize, Analysis>;

/// Why a position is the end of its game.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The side to move is mated.
    Checkmate,
    /// There is no legal move, and no check.
    Stalemate,
    /// There are legal moves, but the game ended here in a draw: by a third occurrence, fifty moves or insufficient
    /// material.
    Draw,
}

impl Analysis {
    /// The result of the last position of `history`, if it has no legal move, or if the game ended there and the rules
    /// make it a draw. `None` if it can be searched.
    pub(super) fn of_end(history: &PositionHistory, ends_game: bool) -> Option<Analysis> {
        let has_moves = !history.last().legal_moves().is_empty();
        let end = match history.result()? {
            GameResult::Won(_) => End::Checkmate,
            GameResult::Drawn if !has_moves => End::Stalemate,
            GameResult::Drawn if ends_game => End::Draw,
            GameResult::Drawn => return None,
        };
        Some(Analysis { end: Some(end), ..Analysis::default() })
    }

    /// The result that the info lines of a search describe. They count the visits of each line, and `nodes` are those of
    /// the root. Lines whose move was never visited are left out, except the first.
    pub(super) fn of_infos(infos: &[ThinkingInfo], nodes: u64, chess960: bool) -> Analysis {
        let scored = infos.iter().filter_map(|info| Some((info, info.score?)));
        let visited = scored
            .enumerate()
            .filter(|(index, (info, _))| *index == 0 || info.nodes.is_some_and(|visits| visits > 0));
        let lines = visited.map(|(_, (info, score))| Line {
            score: match score {
                Score::Cp(score) => LineScore::Cp(score),
                Score::Mate(moves) => LineScore::Mate(moves),
            },
            wdl: info.wdl.unwrap_or_default(),
            visits: info.nodes.unwrap_or_default(),
            moves_left: info.moves_left,
            pv: info.pv.iter().map(|&m| uci_move::text(m, chess960)).collect(),
            prior: None,
        });
        let depth = infos.iter().find_map(|info| info.depth).unwrap_or_default();
        Analysis { nodes, depth, lines: lines.collect(), ..Analysis::default() }
    }

    /// Adds the network's probabilities of the legal moves. All of them become the policy if it `is_wanted`.
    pub(super) fn add_priors(&mut self, mut priors: Vec<(String, f32)>, is_wanted: bool) {
        for line in &mut self.lines {
            let of_line = priors.iter().find(|(m, _)| line.pv.first() == Some(m));
            line.prior = of_line.map(|&(_, prior)| prior);
        }
        if is_wanted {
            priors.sort_by(|a, b| b.1.total_cmp(&a.1));
            self.policy = priors;
        }
    }

    /// Whether nothing is known about the position.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.end.is_none()
    }

    /// The score in the view of the side to move. `None` if nothing is known. A mated side has `Mate(0)`.
    pub fn score(&self) -> Option<LineScore> {
        match self.end {
            Some(End::Checkmate) => Some(LineScore::Mate(0)),
            Some(End::Stalemate | End::Draw) => Some(LineScore::Cp(0)),
            None => self.lines.first().map(|line| line.score),
        }
    }

    /// The probabilities of a win, a draw and a loss of the side to move, in thousandths. `None` if nothing is known.
    pub fn wdl(&self) -> Option<[u16; 3]> {
        match self.end {
            Some(End::Checkmate) => Some([0, 0, 1000]),
            Some(End::Stalemate | End::Draw) => Some([0, 1000, 0]),
            None => self.lines.first().map(|line| line.wdl),
        }
    }

    /// The expected score of the side to move, 0 … 1. `None` if nothing is known.
    pub fn expected_score(&self) -> Option<f64> {
        self.wdl().map(expected_score)
    }
}

/// The expected score, 0 … 1, for probabilities of a win, a draw and a loss in thousandths.
pub fn expected_score([win, draw, _]: [u16; 3]) -> f64 {
    (f64::from(win) + f64::from(draw) / 2.0) / 1000.0
}

/// The moves of `line` from the last position of `history` in standard algebraic notation, at most `most`. It ends
/// before a move that is not legal.
pub(super) fn san_of(line: &[String], position: &Position, most: usize) -> Vec<String> {
    let mut history = PositionHistory::new(position.clone());
    let mut moves = Vec::new();
    for text in line.iter().take(most) {
        let Ok(m) = uci_move::parse(history.last(), text) else { break };
        moves.push(history.last().san(m).to_string());
        history.push(m);
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(score: Score, visits: u64) -> ThinkingInfo {
        ThinkingInfo {
            score: Some(score),
            nodes: Some(visits),
            wdl: Some([400, 500, 100]),
            ..ThinkingInfo::default()
        }
    }

    #[test]
    fn lines_that_were_never_visited_are_left_out() {
        let infos = [info(Score::Cp(30), 9), info(Score::Mate(-2), 1), info(Score::Cp(0), 0)];
        let analysis = Analysis::of_infos(&infos, 11, false);
        let visits: Vec<u64> = analysis.lines.iter().map(|line| line.visits).collect();
        assert_eq!((analysis.nodes, visits), (11, vec![9, 1]));
        assert_eq!(analysis.expected_score(), Some(0.65));
        assert_eq!(analysis.lines[1].score.reversed(), LineScore::Mate(2));
        assert_eq!(Analysis::of_infos(&[info(Score::Cp(30), 0)], 1, false).lines.len(), 1);
    }

    #[test]
    fn a_position_without_a_move_needs_no_search() {
        let end = |fen| {
            let history = PositionHistory::new(Position::from_fen(fen).unwrap());
            Analysis::of_end(&history, false).map(|end| end.expected_score())
        };
        assert_eq!(end("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"), Some(Some(0.5)));
        assert_eq!(end("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1"), Some(Some(0.0)));
        assert_eq!(end("7k/8/6K1/8/8/8/8/8 b - - 0 1"), None);
    }
}
