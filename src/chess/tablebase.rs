//! Syzygy endgame tablebases: the results of positions with few pieces.
//!
//! `shakmaty-syzygy` probes the tables. This module derives what the search needs: the result of a leaf, and the root
//! moves that keep the best result under the fifty-move rule and the repetitions so far. No table has positions with
//! castling rights, and none has positions in which a king can be taken.
//!
//! A table that is damaged is left out, and [`Tablebases::faults`] has the reason ([`super::table_files`]).

use super::table_files::TableFiles;
use super::{GameResult, Move, PackedMove, Position, PositionHistory};
use shakmaty::Position as _;
use shakmaty_syzygy::Wdl;
use std::fmt;
use std::path::PathBuf;

/// Plies without a capture or pawn move after which a game is drawn.
pub const FIFTY_MOVES: i32 = 100;
/// The rank of a root move that certainly wins. A certain loss has the rank `-CERTAIN`, other moves are in between.
const CERTAIN: i32 = 1000;

/// The reason why the tablebases cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TablebaseError {
    /// No directory has a table, and all can be read.
    #[error("SyzygyPath: found no tables (*.rtbw, *.rtbz) in {paths}")]
    Empty {
        /// The value of the option SyzygyPath.
        paths: String,
    },
    /// No directory has a table that can be used.
    #[error("SyzygyPath: {}", .faults.join("; "))]
    Unusable {
        /// What is wrong with the directories and the files.
        faults: Vec<String>,
    },
}

/// The tables in some directories. Each file is opened when it is first needed.
pub struct Tablebases {
    tables: TableFiles,
}

impl fmt::Debug for Tablebases {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (files, faults) = (self.files(), self.faults(0));
        formatter.debug_struct("Tablebases").field("files", &files).field("faults", &faults).finish()
    }
}

/// The best moves at the root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RootMoves {
    /// The moves that keep the best result.
    pub best: Vec<PackedMove>,
    /// Whether the moves were ranked by distance to zeroing, which takes the fifty-move rule into account. Otherwise a
    /// table was missing, and the moves were ranked by their results alone.
    pub by_distance: bool,
    /// What the best moves reach.
    pub outlook: Outlook,
}

/// What the best moves at the root reach, given earlier repetitions, and with `by_distance` also the fifty-move rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outlook {
    /// They certainly win.
    Win,
    /// They draw.
    Draw,
    /// They lose, or the fifty-move rule may change the result.
    Open,
}

impl Outlook {
    fn of_rank(rank: i32) -> Outlook {
        match rank {
            0 | 1 => Outlook::Draw,
            _ if rank > CERTAIN / 2 => Outlook::Win,
            _ => Outlook::Open,
        }
    }
}

impl Tablebases {
    /// Opens the tables in the directories `paths`, which are separated as in `PATH` (`:`, on Windows `;`). If several have
    /// the same table, that of the first one is used. Directories and files that cannot be used are left out
    /// ([`Tablebases::faults`]).
    ///
    /// # Errors
    /// No directory has a table that can be used.
    pub fn open(paths: &str) -> Result<Tablebases, TablebaseError> {
        let folders: Vec<PathBuf> =
            std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty()).collect();
        let tables = TableFiles::find(&folders);
        match (tables.count(), tables.messages(0)) {
            (0, faults) if faults.is_empty() => Err(TablebaseError::Empty { paths: paths.to_owned() }),
            (0, faults) => Err(TablebaseError::Unusable { faults }),
            _ => Ok(Tablebases { tables }),
        }
    }

    /// The number of tables. One that several directories have counts once.
    pub fn files(&self) -> usize {
        self.tables.count()
    }

    /// The largest number of pieces, kings included, that a table covers.
    pub fn max_pieces(&self) -> usize {
        self.tables.max_pieces()
    }

    /// Whether there may be a table for `position`: it has few enough pieces and no castling rights, and no king can be
    /// taken or has been taken. (A FEN may let the side that just moved be in check.)
    pub fn covers(&self, position: &Position) -> bool {
        let board = position.board();
        board.board().occupied().count() <= self.max_pieces()
            && board.castles().is_empty()
            && !position.is_king_takeable()
    }

    /// What is wrong with directories and files, from the fault `first` on; each was found once.
    pub fn faults(&self, first: usize) -> Vec<String> {
        self.tables.messages(first)
    }

    /// The result of a position with a rule-50 counter of zero: -1, 0 or 1, from the side to move's view. Wins that the
    /// fifty-move rule prevents count as draws. `None` if the tables do not have the position or the counter is not
    /// zero.
    pub fn result_after_zeroing(&self, position: &Position) -> Option<i8> {
        if position.rule50_ply() != 0 || !self.covers(position) {
            return None;
        }
        Some(match self.tables.probe(|tables| tables.probe_wdl_after_zeroing(position.board()))? {
            Wdl::Win => 1,
            Wdl::Loss => -1,
            Wdl::CursedWin | Wdl::Draw | Wdl::BlessedLoss => 0,
        })
    }

    /// The moves that keep the best result for the last position of `history`. If it is a win, these are all moves that
    /// still win in time, or with `shortest` only those with the smallest distance to zeroing. After a repetition the
    /// distance always counts, so that the engine makes progress. A move that ends the game in a draw, or after which a
    /// reply can make a third occurrence, does not count as a win.
    ///
    /// `None` if the tables do not have the position, or a position after a move that does not end the game.
    pub fn root_moves(&self, history: &PositionHistory, shortest: bool) -> Option<RootMoves> {
        let position = history.last();
        let moves = position.legal_moves();
        if moves.is_empty() || !self.covers(position) {
            return None;
        }
        let has_repetition = history.has_repetition_since_zeroing();
        let shortest = shortest || has_repetition;
        let mut line = history.clone();
        let draws: Vec<Draw> = moves.iter().map(|&m| draw_after(&mut line, m, has_repetition)).collect();
        let by_distance = |m: Move| self.rank_by_distance(position, m, shortest);
        let by_result = |m: Move| self.rank_by_result(position, m);
        best_ranked(&moves, &draws, by_distance)
            .map(|(best, rank)| RootMoves { best, by_distance: true, outlook: Outlook::of_rank(rank) })
            .or_else(|| {
                let (best, rank) = best_ranked(&moves, &draws, by_result)?;
                Some(RootMoves { best, by_distance: false, outlook: Outlook::of_rank(rank) })
            })
    }

    /// Plies to the next capture or pawn move under best play, from the side to move's view: positive for a win,
    /// negative for a loss, 0 for a draw. Beyond 100 the fifty-move rule makes it a draw. The tables may be one ply
    /// off.
    pub fn distance_to_zeroing(&self, position: &Position) -> Option<i32> {
        if !self.covers(position) {
            return None;
        }
        Some(self.tables.probe(|tables| tables.probe_dtz(position.board()))?.ignore_rounding().0)
    }

    /// The rank of a move by distance to zeroing: [`CERTAIN`] if it wins before the fifty-move rule applies (less its
    /// distance with `shortest`), a lower rank if that is in doubt, 0 for a draw, and a negative rank by the same rules
    /// for a loss.
    fn rank_by_distance(&self, position: &Position, m: Move, shortest: bool) -> Option<i32> {
        let next = position.play(m);
        if next.legal_moves().is_empty() || next.rule50_ply() == 0 {
            return self.rank_by_result(position, m);
        }
        // The distance including this move, from the view of the side that makes it.
        let dtz = self.tables.probe(|tables| tables.probe_dtz(next.board()))?.ignore_rounding();
        let distance = -(dtz.0 + dtz.signum());
        let counter = i32::from(position.rule50_ply());
        Some(match distance {
            0 => 0,
            // `<` leaves one ply in reserve, because the tables may be one ply off.
            1.. if distance + counter < FIFTY_MOVES => CERTAIN - if shortest { distance } else { 0 },
            1.. => CERTAIN / 2 - (distance + counter).min(CERTAIN / 2 - 1),
            // A loss is certain only if it comes well before the fifty-move rule applies. Otherwise a longer resistance
            // has a higher rank, because the rule may save the game.
            ..0 if counter - 2 * distance < FIFTY_MOVES => -CERTAIN,
            ..0 => -CERTAIN / 2 + (counter - distance).min(CERTAIN / 2 - 1),
        })
    }

    /// The rank of a move by its result alone, as if the rule-50 counter were zero after it.
    fn rank_by_result(&self, position: &Position, m: Move) -> Option<i32> {
        let next = position.play(m);
        if next.legal_moves().is_empty() {
            return Some(if next.is_check() { CERTAIN } else { 0 });
        }
        Some(match -self.tables.probe(|tables| tables.probe_wdl_after_zeroing(next.board()))? {
            Wdl::Win => CERTAIN,
            Wdl::CursedWin => 1,
            Wdl::Draw => 0,
            Wdl::BlessedLoss => -1,
            Wdl::Loss => -CERTAIN,
        })
    }
}

/// Whether a move draws by rule, whatever the tables say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Draw {
    No,
    /// The game ends in a draw.
    Now,
    /// The other side can make a third occurrence.
    ByReply,
}

/// Whether and how `m` draws after `line`, which is left unchanged. No reply makes a third occurrence unless the line
/// `has_repetition`.
fn draw_after(line: &mut PositionHistory, m: Move, has_repetition: bool) -> Draw {
    line.push(m);
    let draw = match line.result() {
        Some(GameResult::Drawn) => Draw::Now,
        None if has_repetition => {
            let replies = line.last().legal_moves();
            let repeats = replies.into_iter().any(|reply| {
                line.push(reply);
                let is_third = line.last().repetitions() >= 2;
                line.pop();
                is_third
            });
            if repeats { Draw::ByReply } else { Draw::No }
        }
        _ => Draw::No,
    };
    line.pop();
    draw
}

/// The moves with the highest rank, and this rank; `None` if a rank that counts is unknown. `draws` has what the rules say
/// of each move.
fn best_ranked(
    moves: &[Move],
    draws: &[Draw],
    rank: impl Fn(Move) -> Option<i32>,
) -> Option<(Vec<PackedMove>, i32)> {
    let ranked = moves.iter().zip(draws).map(|(&m, draw)| {
        Some(match draw {
            Draw::Now => 0,
            // A move that needs the other side's help to win is still better than a draw.
            Draw::ByReply => rank(m)?.min(1),
            Draw::No => rank(m)?,
        })
    });
    let ranks: Vec<i32> = ranked.collect::<Option<_>>()?;
    let highest = ranks.iter().copied().max()?;
    let best = moves.iter().zip(&ranks).filter(|&(_, &rank)| rank == highest);
    Some((best.map(|(&m, _)| PackedMove::new(m)).collect(), highest))
}
