//! One game: every position is searched, and the search is both its label and, mostly, the next move.
//!
//! Now and then another move is played, so that positions after mistakes are in the data. Where such a
//! move throws much away, the result that follows is no longer that of the positions before it: they keep
//! their labels and lose their result.

use crate::adjudication::Adjudicator;
use crate::openings::{Kind, Shares, random_start};
use crate::progress::Progress;
use crate::record::{Label, MAX_MOVES, Outcome, Record};
use crate::seen::Seen;
use crate::stockfish::{Findings, ScoredMove, Stockfish};
use anyhow::Result;
use rand::RngExt as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rukh::chess::{Color, GameResult, Move, PackedMove, Position, PositionHistory};
use rukh::net::policy_index::index_of;

/// A game is broken off after so many plies.
const MAX_PLIES: usize = 400;
/// A start further from level than this many centipawns …
const LOPSIDED_SCORE: i16 = 400;
/// … is played on only so often (an endgame more often: it is about winning what is won).
const LOPSIDED_SHARE: f64 = 0.08;
/// See above.
const LOPSIDED_ENDGAME_SHARE: f64 = 0.4;
/// A position that was labelled before is searched by this fraction of the nodes, only to go on.
const KNOWN_FRACTION: u64 = 8;
/// A deviation that costs more than this much of a point takes the result from the positions before it.
const BLUNDER: f64 = 0.15;
/// How many deviations choose among the best moves; the others among all.
const AMONG_BEST_SHARE: f64 = 0.65;
/// Centipawns by which a move must be worse to be chosen e times more seldom.
const TEMPERATURE: f64 = 50.0;
/// In a game decided by this many centipawns the moves seldom deviate, so that it ends.
const DECIDED_SCORE: i16 = 800;

/// What is the same for all games.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Nodes of a search.
    pub(crate) nodes: u64,
    /// Nodes of a search of several moves.
    pub(crate) multipv_nodes: u64,
    /// Share of the positions that have several moves labelled.
    pub(crate) multipv_share: f64,
    /// Kinds of games.
    pub(crate) shares: Shares,
}

/// A finished game.
pub(crate) struct Game {
    /// Its labelled positions, results and all.
    pub(crate) records: Vec<Record>,
    /// `None` where it was broken off or not worth playing.
    pub(crate) result: Option<GameResult>,
    /// What ended it early, if Stockfish did.
    pub(crate) failure: Option<anyhow::Error>,
}

/// Plays a game, until it ends or `progress` says stop.
pub(crate) fn play(
    engine: &mut Stockfish,
    plan: &Plan,
    number: u32,
    rng: &mut StdRng,
    seen: &Seen,
    progress: &Progress,
) -> Game {
    let (kind, history) = random_start(rng, plan.shares);
    let adjudicator = Adjudicator::new(rng);
    let mut player =
        Player { plan, kind, history, adjudicator, labelled: Vec::new(), known_from: 0, expected: None };
    let ended =
        engine.new_game(kind == Kind::Chess960).and_then(|()| player.play_on(engine, rng, seen, progress));
    player.finish(number, ended)
}

/// How a game came to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Played(GameResult),
    Adjudicated(GameResult),
    BrokenOff,
}

struct Player<'a> {
    plan: &'a Plan,
    kind: Kind,
    history: PositionHistory,
    adjudicator: Adjudicator,
    /// Records, with the side to move and the ply.
    labelled: Vec<(Record, Color, usize)>,
    /// Records before this index have no part in the game's result.
    known_from: usize,
    /// After a deviation: who deviated, and what he could have expected, 0…1.
    expected: Option<(Color, f64)>,
}

impl Player<'_> {
    fn play_on(
        &mut self,
        engine: &mut Stockfish,
        rng: &mut StdRng,
        seen: &Seen,
        progress: &Progress,
    ) -> Result<End> {
        loop {
            let ply = self.history.positions().len() - 1;
            if let Some(result) = self.history.result() {
                self.judge_deviation(|side| points(result, side));
                return Ok(End::Played(result));
            }
            if progress.is_over() || ply >= MAX_PLIES {
                return Ok(End::BrokenOff);
            }
            let position = self.history.last().clone();
            let side = position.side_to_move();
            let mut record = Record::of_position(&position, self.kind == Kind::Chess960);
            let fresh = position.repetitions() == 0 && seen.insert(record.position_hash());
            let deviation = Deviation::toss(rng, ply, fresh, self.labelled.last().map(|last| &last.0));
            let several = deviation == Deviation::AmongBest
                || fresh && rng.random_bool(remaining_share(self.plan.multipv_share, ply));
            let findings = self.search(engine, fresh, several)?;
            let score = findings.moves[0].score;
            progress.searched(fresh);
            let points_expected = f64::from(1000 + findings.win - findings.loss) / 2000.0;
            self.judge_deviation(|who| if who == side { points_expected } else { 1.0 - points_expected });
            if fresh {
                record.set_label(&label(&findings, side));
                self.labelled.push((record, side, ply));
            }
            if ply == 0 && self.is_lopsided(score, rng) {
                return Ok(End::BrokenOff);
            }
            if let Some(result) = self.adjudicator.call(side, score, ply) {
                return Ok(End::Adjudicated(result));
            }
            let m = deviation.choose(rng, &position, &findings.moves);
            if m != findings.moves[0].m {
                self.expected = Some((side, points_expected));
            }
            self.history.push(m);
        }
    }

    fn search(&self, engine: &mut Stockfish, fresh: bool, several: bool) -> Result<Findings> {
        let nodes = match (fresh, several) {
            (true, true) => self.plan.multipv_nodes,
            (true, false) => self.plan.nodes,
            (false, _) => (self.plan.nodes / KNOWN_FRACTION).max(1),
        };
        engine.search(&self.history, nodes, if several { MAX_MOVES } else { 1 })
    }

    fn is_lopsided(&self, score: i16, rng: &mut StdRng) -> bool {
        let share = if self.kind == Kind::Endgame { LOPSIDED_ENDGAME_SHARE } else { LOPSIDED_SHARE };
        score.abs() >= LOPSIDED_SCORE && !rng.random_bool(share)
    }

    /// Compares what a deviation has led to, for its side, with what was to be had.
    fn judge_deviation(&mut self, points: impl Fn(Color) -> f64) {
        if let Some((side, expected)) = self.expected.take()
            && expected - points(side) > BLUNDER
        {
            self.known_from = self.labelled.len();
        }
    }

    fn finish(self, number: u32, ended: Result<End>) -> Game {
        let (end, failure) = match ended {
            Ok(end) => (end, None),
            Err(error) => (End::BrokenOff, Some(error)),
        };
        let result = match end {
            End::Played(result) | End::Adjudicated(result) => Some(result),
            End::BrokenOff => None,
        };
        let last_ply = self.history.positions().len() - 1;
        let finish = |(index, (mut record, side, ply)): (usize, (Record, Color, usize))| {
            let outcome = match result.filter(|_| index >= self.known_from) {
                Some(GameResult::Drawn) => Outcome::Draw,
                Some(GameResult::Won(winner)) if winner == side => Outcome::Win,
                Some(GameResult::Won(_)) => Outcome::Loss,
                None => Outcome::Unknown,
            };
            let plies_to_end = matches!(end, End::Played(_)).then_some(last_ply - ply);
            record.set_end(outcome, plies_to_end);
            record.set_game(number);
            record
        };
        let records = self.labelled.into_iter().enumerate().map(finish).collect();
        Game { records, result, failure }
    }
}

/// The way the next move is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deviation {
    /// Not at all: the best move.
    None,
    /// Among the best few, the better the likelier.
    AmongBest,
    /// Any legal move.
    Anything,
}

impl Deviation {
    /// Casts lots before the search, which has to know how many moves to score. `last` is the record before.
    fn toss(rng: &mut StdRng, ply: usize, fresh: bool, last: Option<&Record>) -> Deviation {
        let decided =
            last.and_then(|last| last.label().ok()).is_some_and(|label| label.score.abs() > DECIDED_SCORE);
        let probability = match (fresh, decided) {
            // Off the trodden path soon.
            (false, false) => 0.5,
            (_, true) => 0.03,
            (true, false) => deviation_probability(ply),
        };
        match rng.random_bool(probability) {
            true if rng.random_bool(AMONG_BEST_SHARE) => Deviation::AmongBest,
            true => Deviation::Anything,
            false => Deviation::None,
        }
    }

    fn choose(self, rng: &mut StdRng, position: &Position, best_first: &[ScoredMove]) -> Move {
        let best = best_first[0];
        match self {
            Deviation::None => best.m,
            Deviation::AmongBest => {
                let weight = |scored: &ScoredMove| {
                    (f64::from(i32::from(scored.score) - i32::from(best.score)) / TEMPERATURE).exp()
                };
                best_first.choose_weighted(rng, weight).map_or(best.m, |scored| scored.m)
            }
            Deviation::Anything => position.legal_moves().choose(rng).copied().unwrap_or(best.m),
        }
    }
}

/// How often a move is not simply the best one.
fn deviation_probability(ply: usize) -> f64 {
    match ply {
        0..16 => 0.25,
        16..60 => 0.13,
        _ => 0.07,
    }
}

/// How often to label several moves where no deviation asks for it, so that `share` of all positions have
/// them.
fn remaining_share(share: f64, ply: usize) -> f64 {
    let asked_for = deviation_probability(ply) * AMONG_BEST_SHARE;
    ((share - asked_for) / (1.0 - asked_for)).clamp(0.0, 1.0)
}

/// What a result is worth to a side, 0…1.
fn points(result: GameResult, side: Color) -> f64 {
    match result {
        GameResult::Won(winner) if winner == side => 1.0,
        GameResult::Won(_) => 0.0,
        GameResult::Drawn => 0.5,
    }
}

fn label(findings: &Findings, side: Color) -> Label {
    let index = |scored: &ScoredMove| (index_of(PackedMove::new(scored.m), side, 0), scored.score);
    Label {
        score: findings.moves[0].score,
        win: findings.win,
        loss: findings.loss,
        moves: findings.moves.iter().map(index).collect(),
    }
}
