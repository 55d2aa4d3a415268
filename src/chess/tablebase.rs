//! Syzygy endgame tablebases: what is known of positions with few pieces.
//!
//! Probing is `shakmaty-syzygy`'s. Here stands what a search makes of it: the result of a leaf, and which root
//! moves keep the best result, counting the fifty-move rule and the repetitions so far. Positions with castling
//! rights are in no table.

use super::{Move, PackedMove, Position, PositionHistory};
use shakmaty::{Chess, Position as _};
use shakmaty_syzygy::{Tablebase, Wdl};
use std::path::PathBuf;

/// Plies without a zeroing move after which a game is drawn.
const FIFTY_MOVES: i32 = 100;
/// Ranks of root moves lie between these: a certain win and a certain loss.
const CERTAIN: i32 = 1000;

/// Why tablebases were refused.
#[derive(Debug, thiserror::Error)]
pub enum TablebaseError {
    /// A directory cannot be read.
    #[error("SyzygyPath: cannot read {}: {reason}", path.display())]
    Directory {
        /// As given.
        path: PathBuf,
        /// The system's words.
        reason: std::io::Error,
    },
    /// No directory holds a table.
    #[error("SyzygyPath: no tables (*.rtbw, *.rtbz) in {paths}")]
    Empty {
        /// As given.
        paths: String,
    },
}

/// The tables of some directories. Files are opened when first needed.
#[derive(Debug)]
pub struct Tablebases {
    tables: Tablebase<Chess>,
    files: usize,
}

/// What the tables know of the root's moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RootMoves {
    /// The moves that keep the best result.
    pub best: Vec<PackedMove>,
    /// Whether distances were known, so that every one of them makes progress or can still.
    pub by_distance: bool,
}

impl Tablebases {
    /// Opens the tables in `paths`, directories separated as in `PATH` (`:`, on Windows `;`).
    ///
    /// # Errors
    /// A directory that cannot be read, or no table in any of them.
    pub fn open(paths: &str) -> Result<Tablebases, TablebaseError> {
        let mut tables = Tablebase::new();
        let mut files = 0;
        for path in std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty()) {
            files += tables
                .add_directory(&path)
                .map_err(|reason| TablebaseError::Directory { path: path.clone(), reason })?;
        }
        if files == 0 {
            return Err(TablebaseError::Empty { paths: paths.to_owned() });
        }
        Ok(Tablebases { tables, files })
    }

    /// How many table files there are.
    pub fn files(&self) -> usize {
        self.files
    }

    /// The most pieces, kings included, that any table covers.
    pub fn max_pieces(&self) -> usize {
        self.tables.max_pieces()
    }

    /// Whether a table may know `position`.
    pub fn covers(&self, position: &Position) -> bool {
        let board = position.board();
        board.board().occupied().count() <= self.max_pieces() && board.castles().is_empty()
    }

    /// The result of a position whose fifty-move counter stands at zero, side to move's view: -1, 0 or 1. Wins that
    /// the fifty-move rule takes away count as draws. `None`: unknown, or the counter does not stand at zero.
    pub fn result_after_zeroing(&self, position: &Position) -> Option<i8> {
        if position.rule50_ply() != 0 || !self.covers(position) {
            return None;
        }
        Some(match self.tables.probe_wdl_after_zeroing(position.board()).ok()? {
            Wdl::Win => 1,
            Wdl::Loss => -1,
            Wdl::CursedWin | Wdl::Draw | Wdl::BlessedLoss => 0,
        })
    }

    /// The root moves that keep the best result for the last position of `history`. With `shortest`, of winning
    /// moves only those of the least distance; without it all that still win in time, unless a position was
    /// repeated already: then the distance counts as well, so that the win is not shuffled away.
    ///
    /// `None` where the tables do not know the position or one of its moves.
    pub fn root_moves(&self, history: &PositionHistory, shortest: bool) -> Option<RootMoves> {
        let position = history.last();
        let moves = position.legal_moves();
        if moves.is_empty() || !self.covers(position) {
            return None;
        }
        let shortest = shortest || history.has_repetition_since_zeroing();
        let by_distance = |m: &Move| self.rank_by_distance(position, *m, shortest);
        if let Some(best) = best_ranked(&moves, by_distance) {
            return Some(RootMoves { best, by_distance: true });
        }
        let best = best_ranked(&moves, |m| self.rank_by_result(position, *m))?;
        Some(RootMoves { best, by_distance: false })
    }

    /// Plies to the next capture or pawn move under best play, side to move's view: positive where it wins, negative
    /// where it loses, beyond 100 where the fifty-move rule draws; 0 for a draw. The tables may be one ply off.
    pub fn distance_to_zeroing(&self, position: &Position) -> Option<i32> {
        if !self.covers(position) {
            return None;
        }
        Some(self.tables.probe_dtz(position.board()).ok()?.ignore_rounding().0)
    }

    /// The rank of a move by distance to zeroing: [`CERTAIN`] where the win comes before the fifty-move rule, less
    /// where that is in doubt, 0 for a draw, and the same below zero.
    fn rank_by_distance(&self, position: &Position, m: Move, shortest: bool) -> Option<i32> {
        let next = position.play(m);
        if next.legal_moves().is_empty() || next.rule50_ply() == 0 {
            return self.rank_by_result(position, m);
        }
        // The mover's distance, this move included.
        let dtz = self.tables.probe_dtz(next.board()).ok()?.ignore_rounding();
        let distance = -(dtz.0 + dtz.signum());
        let counter = i32::from(position.rule50_ply());
        Some(match distance {
            0 => 0,
            // A ply stays in reserve, for the tables may be one off.
            1.. if distance + counter < FIFTY_MOVES => CERTAIN - if shortest { distance } else { 0 },
            1.. => CERTAIN / 2 - (distance + counter).min(CERTAIN / 2 - 1),
            // Losing for certain only with time to spare; else the longer the better: the rule may save the game.
            ..0 if counter - 2 * distance < FIFTY_MOVES => -CERTAIN,
            ..0 => -CERTAIN / 2 + (counter - distance).min(CERTAIN / 2 - 1),
        })
    }

    /// The rank of a move by its result alone, the fifty-move counter at zero after it.
    fn rank_by_result(&self, position: &Position, m: Move) -> Option<i32> {
        let next = position.play(m);
        if next.legal_moves().is_empty() {
            return Some(if next.is_check() { CERTAIN } else { 0 });
        }
        Some(match -self.tables.probe_wdl_after_zeroing(next.board()).ok()? {
            Wdl::Win => CERTAIN,
            Wdl::CursedWin => 1,
            Wdl::Draw => 0,
            Wdl::BlessedLoss => -1,
            Wdl::Loss => -CERTAIN,
        })
    }
}

/// The moves of the highest rank; `None` as soon as one is unknown.
fn best_ranked(moves: &[Move], rank: impl Fn(&Move) -> Option<i32>) -> Option<Vec<PackedMove>> {
    let ranks: Vec<i32> = moves.iter().map(rank).collect::<Option<_>>()?;
    let highest = ranks.iter().copied().max()?;
    Some(
        (moves.iter().zip(&ranks))
            .filter(|&(_, &rank)| rank == highest)
            .map(|(&m, _)| PackedMove::new(m))
            .collect(),
    )
}
