//! Plays a game. Every position is searched, and the search gives the position's label and usually the next move.
//!
//! Sometimes another move is played ([`Deviation`]), so that the data has positions after mistakes. A random move
//! usually begins a side line: a few positions are labelled, without a result, and the game continues from before the
//! mistake. If the mistake stays in the game and costs much, the result of the game no longer fits the positions before
//! the mistake. Those positions keep their labels and lose their result.
//!
//! With an [`Explorer`], other side lines begin at positions of the game, and its network chooses all of their moves.

use crate::adjudication::Adjudicator;
use crate::deviation::{Deviation, remaining_share};
use crate::explorer::Explorer;
use crate::openings::{Kind, Shares, random_start};
use crate::progress::Progress;
use crate::seen::Seen;
use crate::stockfish::{Findings, ScoredMove, Stockfish};
use anyhow::Result;
use labeler::layout::MAX_MOVES;
use labeler::record::{Label, Outcome, Record};
use rand::RngExt as _;
use rand::rngs::StdRng;
use rukh_chess::{Color, GameResult, Move, PackedMove, PositionHistory};
use rukh_net::policy_index::index_of;

/// Plies after which a game is broken off.
const MAX_PLIES: usize = 400;
/// A start with at most this absolute score, in centipawns, is always played.
const LEVEL_START: f64 = 100.0;
/// Centipawns beyond `LEVEL_START` over which the probability that a start is played falls by a factor of e.
const LOPSIDED_START: f64 = 150.0;
/// Least probability that an endgame is played, because won endgames teach the network how to win.
const LOPSIDED_ENDGAME_SHARE: f64 = 0.4;
/// The nodes of a search are divided by this if the position is labelled already, because the search then only has to
/// find a move.
const KNOWN_FRACTION: u64 = 8;
/// Share of random moves that stay in the game; the others begin a side line.
const STANDING_SHARE: f64 = 0.2;
/// The largest number of positions in a side line after a random move.
const MAX_SIDE_LINE: usize = 4;
/// The largest number of positions in an exploring line, which is about the depth of a small search tree.
const MAX_EXPLORING_LINE: usize = 6;
/// If a deviation costs more expected score than this, the positions before it lose their result.
const BLUNDER: f64 = 0.15;

/// The settings that all games share.
pub(crate) struct Plan {
    /// Nodes of a search.
    pub(crate) nodes: u64,
    /// Nodes of the second search, which scores several moves.
    pub(crate) multipv_nodes: u64,
    /// Share of positions with several labelled moves.
    pub(crate) multipv_share: f64,
    /// Shares of the kinds of games.
    pub(crate) shares: Shares,
    /// Chooses the moves of exploring lines; `None` if there are no such lines.
    pub(crate) explorer: Option<Explorer>,
}

/// A finished game.
pub(crate) struct Game {
    /// The labelled positions with their results.
    pub(crate) records: Vec<Record>,
    /// `None` if the game was broken off or not worth playing.
    pub(crate) result: Option<GameResult>,
    /// The failure of Stockfish that ended the game, if any.
    pub(crate) failure: Option<anyhow::Error>,
}

/// Plays a game until it ends or `progress` is over.
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
    let mut player = Player {
        plan,
        kind,
        history,
        adjudicator,
        labelled: Vec::new(),
        side_line: None,
        score: 0,
        known_from: 0,
        expected: None,
    };
    let ended =
        engine.new_game(kind == Kind::Chess960).and_then(|()| player.play_on(engine, rng, seen, progress));
    player.finish(number, ended)
}

/// The ways in which a game ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Played(GameResult),
    Adjudicated(GameResult),
    BrokenOff,
}

/// A record that waits for the game's result.
struct Labelled {
    record: Record,
    side: Color,
    ply: usize,
    in_side_line: bool,
}

/// A line of play that will be undone.
struct SideLine<'a> {
    /// Length of the history before the line.
    back_to: usize,
    /// The move that the game continues with.
    best: Move,
    /// Positions that are still to be searched.
    left: usize,
    /// Chooses the moves; without an explorer the best moves are played.
    explorer: Option<&'a Explorer>,
}

struct Player<'a> {
    plan: &'a Plan,
    kind: Kind,
    history: PositionHistory,
    adjudicator: Adjudicator,
    labelled: Vec<Labelled>,
    side_line: Option<SideLine<'a>>,
    /// The score of the last search, for its side to move.
    score: i16,
    /// The records in `labelled` before this index do not get the game's result.
    known_from: usize,
    /// After a deviation: the side that deviated, and its expected score before the deviation, 0…1.
    expected: Option<(Color, f64)>,
}

impl<'a> Player<'a> {
    fn play_on(
        &mut self,
        engine: &mut Stockfish,
        rng: &mut StdRng,
        seen: &Seen,
        progress: &Progress,
    ) -> Result<End> {
        loop {
            let result = self.history.result();
            if self.side_line.is_some() && result.is_some() {
                self.leave_side_line();
                continue;
            }
            if let Some(result) = result {
                self.judge_deviation(|side| points(result, side));
                return Ok(End::Played(result));
            }
            let ply = self.history.positions().len() - 1;
            if progress.is_over() || ply >= MAX_PLIES {
                self.leave_side_line();
                return Ok(End::BrokenOff);
            }
            let (findings, deviation) = self.label(engine, rng, seen, progress)?;
            let best = findings.moves[0];
            self.score = best.score;
            if let Some(line) = &mut self.side_line {
                line.left -= 1;
                if line.left == 0 {
                    self.leave_side_line();
                } else {
                    let explored = line.explorer.and_then(|explorer| explorer.choose(rng, &self.history));
                    self.history.push(explored.unwrap_or(best.m));
                }
                continue;
            }
            let side = self.history.last().side_to_move();
            let expected = f64::from(1000 + findings.win - findings.loss) / 2000.0;
            self.judge_deviation(|who| if who == side { expected } else { 1.0 - expected });
            if ply == 0 && !self.is_worth_playing(best.score, rng) {
                return Ok(End::BrokenOff);
            }
            if let Some(result) = self.adjudicator.call(side, best.score, ply) {
                return Ok(End::Adjudicated(result));
            }
            if let Some(explorer) = &self.plan.explorer
                && deviation == Deviation::None
                && explorer.begins_line(rng)
                && let Some(m) = explorer.choose(rng, &self.history)
            {
                let left = rng.random_range(1..=MAX_EXPLORING_LINE);
                self.begin_side_line(best.m, left, Some(explorer));
                self.history.push(m);
                continue;
            }
            let m = deviation.choose(rng, self.history.last(), &findings.moves);
            if m != best.m {
                if deviation == Deviation::Anything && !rng.random_bool(STANDING_SHARE) {
                    let left = rng.random_range(1..=MAX_SIDE_LINE);
                    self.begin_side_line(best.m, left, None);
                } else {
                    self.expected = Some((side, expected));
                }
            }
            self.history.push(m);
        }
    }

    /// Searches the last position, and keeps a record of it if it is new.
    fn label(
        &mut self,
        engine: &mut Stockfish,
        rng: &mut StdRng,
        seen: &Seen,
        progress: &Progress,
    ) -> Result<(Findings, Deviation)> {
        let position = self.history.last();
        let (side, ply) = (position.side_to_move(), self.history.positions().len() - 1);
        let in_side_line = self.side_line.is_some();
        let mut record = Record::of_position(position, self.kind == Kind::Chess960);
        let fresh = position.repetitions() == 0 && seen.insert(record.position_hash());
        let deviation =
            if in_side_line { Deviation::None } else { Deviation::toss(rng, ply, fresh, self.score) };
        let several = deviation == Deviation::AmongBest
            || fresh && rng.random_bool(remaining_share(self.plan.multipv_share, ply));
        let findings = self.search(engine, fresh, several)?;
        progress.searched(fresh);
        if fresh {
            record.set_label(&label(&findings, side));
            self.labelled.push(Labelled { record, side, ply, in_side_line });
        }
        Ok((findings, deviation))
    }

    /// Begins a side line of `left` positions, after which the game continues with `best`.
    fn begin_side_line(&mut self, best: Move, left: usize, explorer: Option<&'a Explorer>) {
        let back_to = self.history.positions().len();
        self.side_line = Some(SideLine { back_to, best, left, explorer });
    }

    /// Ends the side line, if there is one, and continues the game from where the line began.
    fn leave_side_line(&mut self) {
        if let Some(line) = self.side_line.take() {
            self.history.truncate(line.back_to);
            self.history.push(line.best);
        }
    }

    /// Searches the last position. To score several moves, it first searches for one move, which fills the hash table.
    /// The two searches find the best move more often than a single search with as many nodes in all.
    fn search(&self, engine: &mut Stockfish, fresh: bool, several: bool) -> Result<Findings> {
        let moves = if several { MAX_MOVES } else { 1 };
        if !fresh {
            return engine.search(&self.history, (self.plan.nodes / KNOWN_FRACTION).max(1), moves);
        }
        let findings = engine.search(&self.history, self.plan.nodes, 1)?;
        if several { engine.search(&self.history, self.plan.multipv_nodes, moves) } else { Ok(findings) }
    }

    fn is_worth_playing(&self, score: i16, rng: &mut StdRng) -> bool {
        let excess = (f64::from(score).abs() - LEVEL_START).max(0.0);
        let share = (-excess / LOPSIDED_START).exp();
        rng.random_bool(if self.kind == Kind::Endgame { share.max(LOPSIDED_ENDGAME_SHARE) } else { share })
    }

    /// Compares the outcome of a deviation, for the side that deviated, with the expected score before it. After a
    /// blunder, all records so far lose the game's result.
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
        let finish = |(index, labelled): (usize, Labelled)| {
            let Labelled { mut record, side, ply, in_side_line } = labelled;
            let outcome = match result.filter(|_| index >= self.known_from && !in_side_line) {
                Some(GameResult::Drawn) => Outcome::Draw,
                Some(GameResult::Won(winner)) if winner == side => Outcome::Win,
                Some(GameResult::Won(_)) => Outcome::Loss,
                None => Outcome::Unknown,
            };
            let is_played = matches!(end, End::Played(_)) && !in_side_line;
            // A side line may be longer than the game, so only a position of the game has plies left.
            record.set_end(outcome, is_played.then(|| last_ply - ply));
            record.set_game(number);
            record
        };
        let records = self.labelled.into_iter().enumerate().map(finish).collect();
        Game { records, result, failure }
    }
}

/// The points of a side for a result: 0, 0.5 or 1.
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
