//! One game between two players, from its opening to its result.

use super::adjudication::{Extremes, agreed, won_by};
use super::openings::Opening;
use super::player::{NoMove, Player};
use super::schedule::Assignment;
use super::score::GameScore;
use super::training::chunk::write_chunk;
use super::training::decision::{Decision, Outcome, records};
use rukh_chess::tablebase::Tablebases;
use rukh_chess::{Color, GameResult, Move, PackedMove, PositionHistory};
use rukh_net::InputFormat;
use rukh_search::Score;
use rukh_tree::Tree;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// A game with this many plies, counted from the start position, is drawn. lc0 ends games at the same length.
const MOST_PLIES: usize = 450;

/// Why a game ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Checkmate.
    Checkmate,
    /// The side to move has no legal move and is not in check.
    Stalemate,
    /// Neither side can mate.
    InsufficientMaterial,
    /// A hundred plies without a capture or a pawn move.
    FiftyMoves,
    /// The third occurrence of a position.
    Repetition,
    /// The tablebases know the result.
    Tablebases,
    /// A player was sure of the result.
    Agreement,
    /// The game was too long.
    Length,
}

impl Ending {
    /// The ending in words.
    pub fn text(self) -> &'static str {
        match self {
            Ending::Checkmate => "checkmate",
            Ending::Stalemate => "stalemate",
            Ending::InsufficientMaterial => "insufficient material",
            Ending::FiftyMoves => "fifty moves",
            Ending::Repetition => "repetition",
            Ending::Tablebases => "tablebases",
            Ending::Agreement => "a player was sure of the result",
            Ending::Length => "too many moves",
        }
    }

    /// Whether the game could have gone on.
    fn is_adjudication(self) -> bool {
        matches!(self, Ending::Tablebases | Ending::Agreement | Ending::Length)
    }
}

/// What a game notes of a move that a player has chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Thought {
    /// The score of the best line from the player's view, and the average depth of the search; `None` without a search.
    pub report: Option<(Score, u32)>,
    /// How long the player took.
    pub time: Duration,
}

/// A finished game.
#[derive(Clone, Debug)]
pub struct FinishedGame {
    /// The number of the game, counted from 0.
    pub number: u64,
    /// The number of the pair of games with this opening, if the openings are mirrored.
    pub pair: Option<u64>,
    /// Whether player 1 had black.
    pub player1_is_black: bool,
    /// The start position; `None` means the standard one.
    pub fen: Option<String>,
    /// All positions of the game.
    pub history: PositionHistory,
    /// All moves of the game.
    pub moves: Vec<Move>,
    /// How many of the moves are the opening.
    pub opening_plies: usize,
    /// What the players thought of each move after the opening.
    pub thoughts: Vec<Thought>,
    /// When the game began.
    pub began: SystemTime,
    /// The result.
    pub score: GameScore,
    /// The reason for the result.
    pub ending: Ending,
    /// The visits that the players' searches have made.
    pub playouts: u64,
    /// The threshold at which the game would have ended with another result, if it was played to its end for that
    /// measurement.
    pub false_positive_threshold: Option<f32>,
    /// The training data of the game as a gzip file of [records](super::training), if they were asked for and a position
    /// was searched.
    pub training_chunk: Option<Vec<u8>>,
    /// The beginnings of games that end with a move that was refused for its few visits.
    pub(super) discarded: Vec<Opening>,
}

/// The trees of player 1 and player 2, which may be one.
pub(super) struct Trees([Arc<Tree>; 2]);

impl Trees {
    pub(super) fn new(are_shared: bool) -> Trees {
        let first = Arc::new(Tree::new());
        let second = if are_shared { Arc::clone(&first) } else { Arc::new(Tree::new()) };
        Trees([first, second])
    }

    fn are_shared(&self) -> bool {
        Arc::ptr_eq(&self.0[0], &self.0[1])
    }

    /// Calls `change` for each tree. A tree that it cannot change as wanted is replaced.
    fn for_each(&mut self, change: impl Fn(&Tree) -> bool) {
        let are_shared = self.are_shared();
        for index in 0..if are_shared { 1 } else { 2 } {
            if !change(&self.0[index]) && !self.0[index].clear() {
                self.0[index] = Arc::new(Tree::new());
            }
        }
        if are_shared {
            self.0[1] = Arc::clone(&self.0[0]);
        }
    }

    fn clear(&mut self) {
        self.for_each(|_| false);
    }

    fn advance(&mut self, m: PackedMove) {
        self.for_each(|tree| tree.reroot(&[m]));
    }
}

/// Plays a game. `players` are player 1 and player 2.
pub(super) fn play(
    assignment: &Assignment,
    players: &mut [Player; 2],
    trees: &mut Trees,
    tablebases: Option<&Tablebases>,
    training: Option<InputFormat>,
) -> Result<FinishedGame, NoMove> {
    trees.clear();
    players.iter_mut().for_each(Player::new_game);
    let mut history = assignment.opening.history.clone();
    let mut moves = assignment.opening.moves.clone();
    let (mut playouts, mut extremes) = (0, Extremes::default());
    let (mut decisions, mut discarded) = (Vec::new(), Vec::new());
    let (mut thoughts, began) = (Vec::new(), SystemTime::now());
    let (score, ending) = loop {
        if let Some(end) = end_of_game(&history, tablebases) {
            break end;
        }
        let side = history.last().side_to_move();
        let index = usize::from((side == Color::Black) != assignment.player1_is_black);
        let player = &mut players[index];
        if !player.config().reuse_tree && !trees.are_shared() {
            trees.clear();
        }
        let search_began = Instant::now();
        let searched = player.search(&trees.0[index], &history)?;
        let time = search_began.elapsed();
        playouts += searched.playouts;
        let value = searched.value();
        extremes.add(value, side);
        if !assignment.plays_through {
            let move_number = (history.positions().len() / 2 + 1) as u32;
            let rule = &player.config().resignation;
            if let Some(score) = agreed(rule, value, side, move_number) {
                break (score, Ending::Agreement);
            }
        }
        let chosen = searched.chosen;
        if assignment.keeps_refused {
            let refused = searched.refused.iter().map(|&m| assignment.opening.continued(&history, &moves, m));
            discarded.extend(refused.filter(|opening| opening.history.result().is_none()));
        }
        if training.is_some() {
            let options = &player.config().options;
            decisions.push(Decision {
                played: PackedMove::new(chosen),
                root: searched.root,
                evaluation: searched.evaluation,
                policy_temperature: options.policy_softmax_temp,
                fill: options.history_fill,
            });
        }
        thoughts.push(Thought { report: searched.report, time });
        history.push(chosen);
        moves.push(chosen);
        trees.advance(PackedMove::new(chosen));
    };
    let outcome =
        Outcome { score, is_adjudicated: ending.is_adjudication(), is_too_long: ending == Ending::Length };
    let training_chunk = match training {
        Some(format) => chunk(&assignment.opening, &moves, &decisions, format, outcome)?,
        None => None,
    };
    let wdl_style = players[0].config().resignation.wdl_style;
    Ok(FinishedGame {
        number: assignment.number,
        pair: assignment.pair,
        player1_is_black: assignment.player1_is_black,
        fen: assignment.opening.fen.clone(),
        opening_plies: assignment.opening.moves.len(),
        thoughts,
        began,
        false_positive_threshold: assignment
            .plays_through
            .then(|| extremes.false_positive_threshold(score, wdl_style)),
        history,
        moves,
        score,
        ending,
        playouts,
        training_chunk,
        discarded,
    })
}

/// The training data of a game; `None` if no position was searched.
fn chunk(
    opening: &Opening,
    moves: &[Move],
    decisions: &[Decision],
    format: InputFormat,
    outcome: Outcome,
) -> Result<Option<Vec<u8>>, NoMove> {
    let searched = moves.get(opening.moves.len()..).unwrap_or_default();
    let records = records(opening.history.clone(), searched, decisions, format, outcome);
    let failed = |error| NoMove::Failed(format!("cannot compress the training data: {error}"));
    (!records.is_empty()).then(|| write_chunk(&records).map_err(failed)).transpose()
}

/// The result of the game, if its last position ends it.
fn end_of_game(history: &PositionHistory, tablebases: Option<&Tablebases>) -> Option<(GameScore, Ending)> {
    let position = history.last();
    match history.result() {
        Some(GameResult::Won(winner)) => return Some((won_by(winner), Ending::Checkmate)),
        Some(GameResult::Drawn) => {
            let ending = if position.legal_moves().is_empty() {
                Ending::Stalemate
            } else if position.has_insufficient_material() {
                Ending::InsufficientMaterial
            } else if position.rule50_ply() >= 100 {
                Ending::FiftyMoves
            } else {
                Ending::Repetition
            };
            return Some((GameScore::Draw, ending));
        }
        None => {}
    }
    if let Some(result) = tablebases.and_then(|tables| tables.result_after_zeroing(position)) {
        let side = position.side_to_move();
        let score = match result {
            1 => won_by(side),
            -1 => won_by(!side),
            _ => GameScore::Draw,
        };
        return Some((score, Ending::Tablebases));
    }
    (history.positions().len() > MOST_PLIES).then_some((GameScore::Draw, Ending::Length))
}
