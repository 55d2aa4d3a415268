//! `label --check`: reads shards, verifies every record and prints statistics.

use anyhow::{Result, ensure};
use labeler::layout::{FLAG_CHESS960, FLAG_SOFT};
use labeler::record::{Outcome, Record};
use labeler::shards::read_shard;
use shakmaty::{Chess, Position as _};
use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;

/// Upper ends of the bins of the absolute score, in centipawns. The last bin holds mates.
const SCORE_BINS: [i16; 9] = [10, 50, 100, 200, 400, 800, 1500, 30000, i16::MAX];
/// Upper ends of the bins of the number of pieces.
const PIECE_BINS: [usize; 5] = [5, 10, 16, 24, 32];
/// The number of bad records that are described.
const SHOWN_ERRORS: u64 = 10;

#[derive(Default)]
struct Statistics {
    records: u64,
    bad: u64,
    hashes: HashSet<u64>,
    games: HashSet<u32>,
    /// Loss, draw, win, unknown.
    outcomes: [u64; 4],
    scores: [u64; SCORE_BINS.len()],
    pieces: [u64; PIECE_BINS.len()],
    chess960: u64,
    soft: u64,
    in_check: u64,
    one_move: u64,
    castling: u64,
    en_passant: u64,
    late_rule50: u64,
    legal_moves: u64,
    ends: u64,
    plies_to_end: u64,
    /// Sums over the records with a result: the expected score by label, the score by result, and the square of their
    /// difference.
    label_points: f64,
    result_points: f64,
    squared_difference: f64,
    /// The sum of the centipawns between the best and the last labelled move, at most 1000 for each record, over the
    /// records with several labelled moves.
    spread: f64,
}

/// Reads the shards and prints their statistics to stdout.
///
/// # Errors
/// If a file cannot be read, or any record is bad.
pub(crate) fn check(shards: &[PathBuf]) -> Result<()> {
    let mut statistics = Statistics::default();
    for shard in shards {
        let mut nth = 0_u64;
        read_shard(shard, |record| {
            if let Err(error) = statistics.add(record) {
                statistics.bad += 1;
                if statistics.bad <= SHOWN_ERRORS {
                    eprintln!("label: record {nth} of {}: {error}", shard.display());
                }
            }
            nth += 1;
        })?;
    }
    print!("{statistics}");
    ensure!(statistics.bad == 0, "{} of {} records are bad", statistics.bad, statistics.records);
    Ok(())
}

impl Statistics {
    fn add(&mut self, record: &Record) -> Result<(), String> {
        self.records += 1;
        let chess = record.board()?;
        let label = record.label()?;
        let outcome = record.outcome()?;
        self.count_position(record, &chess);
        let score = label.score.saturating_abs();
        self.scores[SCORE_BINS.iter().position(|&end| score <= end).unwrap_or(0)] += 1;
        if record.flags() & FLAG_SOFT != 0 {
            self.soft += 1;
            let last = label.moves.last().map_or(label.score, |last| last.1);
            self.spread += f64::from((i32::from(label.score) - i32::from(last)).min(1000));
        }
        let slot = match outcome {
            Outcome::Loss => 0,
            Outcome::Draw => 1,
            Outcome::Win => 2,
            Outcome::Unknown => 3,
        };
        self.outcomes[slot] += 1;
        if outcome != Outcome::Unknown {
            let labelled = f64::from(1000 + label.win - label.loss) / 2000.0;
            let result = slot as f64 / 2.0;
            self.label_points += labelled;
            self.result_points += result;
            self.squared_difference += (labelled - result) * (labelled - result);
        }
        Ok(())
    }

    fn count_position(&mut self, record: &Record, chess: &Chess) {
        self.hashes.insert(record.position_hash());
        self.games.insert(record.game());
        let count = chess.board().occupied().count();
        self.pieces[PIECE_BINS.iter().position(|&end| count <= end).unwrap_or(0)] += 1;
        let moves = chess.legal_moves().len();
        self.legal_moves += moves as u64;
        for (counter, holds) in [
            (&mut self.chess960, record.flags() & FLAG_CHESS960 != 0),
            (&mut self.in_check, chess.is_check()),
            (&mut self.one_move, moves == 1),
            (&mut self.castling, !chess.castles().is_empty()),
            (&mut self.en_passant, chess.legal_moves().iter().any(|m| m.is_en_passant())),
            (&mut self.late_rule50, chess.halfmoves() >= 40),
        ] {
            *counter += u64::from(holds);
        }
        if let Some(plies) = record.plies_to_end() {
            self.ends += 1;
            self.plies_to_end += u64::from(plies);
        }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let good = (self.records - self.bad).max(1) as f64;
        let share = |count: u64| format!("{:.1} %", 100.0 * count as f64 / good);
        let per_game = good / self.games.len().max(1) as f64;
        writeln!(f, "records      {} ({} bad)", self.records, self.bad)?;
        writeln!(f, "positions    {} distinct", self.hashes.len())?;
        writeln!(f, "games        {}, {per_game:.1} positions each", self.games.len())?;
        let [loss, draw, win, unknown] = self.outcomes.map(share);
        writeln!(f, "results      win {win}, draw {draw}, loss {loss}, unknown {unknown}")?;
        let known = (self.outcomes[0] + self.outcomes[1] + self.outcomes[2]).max(1) as f64;
        writeln!(
            f,
            "points       labels {:.3}, results {:.3}, mean squared difference {:.4}",
            self.label_points / known,
            self.result_points / known,
            self.squared_difference / known
        )?;
        writeln!(
            f,
            "to the end   {} known, mean {:.1} plies",
            share(self.ends),
            self.plies_to_end as f64 / self.ends.max(1) as f64
        )?;
        write!(f, "score        ")?;
        for (count, end) in self.scores.iter().zip(SCORE_BINS) {
            match end {
                i16::MAX => writeln!(f, "mate {}", share(*count))?,
                30000 => write!(f, "more {}, ", share(*count))?,
                end => write!(f, "≤{end} {}, ", share(*count))?,
            }
        }
        write!(f, "pieces      ")?;
        for (count, end) in self.pieces.iter().zip(PIECE_BINS) {
            write!(f, " ≤{end} {}", share(*count))?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "moves        {:.1} legal on average, a single one in {}",
            self.legal_moves as f64 / good,
            share(self.one_move)
        )?;
        writeln!(
            f,
            "several      {} have more than one labelled move, the last {:.0} centipawns below the best",
            share(self.soft),
            self.spread / self.soft.max(1) as f64
        )?;
        writeln!(
            f,
            "features     Chess960 {}, in check {}, castling rights {}, en passant {}, rule50 of 40 plies or more {}",
            share(self.chess960),
            share(self.in_check),
            share(self.castling),
            share(self.en_passant),
            share(self.late_rule50)
        )
    }
}
