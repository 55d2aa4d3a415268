//! Positions of Python programs, with the moves before them: FENs and boards of python-chess.

use crate::board::{BOARDS, PackedBoard, Parts};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use rukh_chess::{Color, Position, Square};
use std::collections::HashMap;

/// Positions, each with its boards.
#[derive(Default)]
pub(crate) struct Games {
    /// Newest first.
    boards: Vec<PackedBoard>,
    /// The end of each position's boards.
    ends: Vec<usize>,
}

impl Games {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[PackedBoard]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.boards[std::mem::replace(&mut start, end)..end])
    }
}

/// Reads positions. It remembers boards of python-chess's stacks, which the positions of a game share.
pub(crate) struct Reader<'py> {
    /// The most boards of a position.
    limit: usize,
    /// By their addresses, which a reference keeps from being used again.
    seen: HashMap<usize, (Bound<'py, PyAny>, PackedBoard)>,
    /// The boards of one position, newest first.
    boards: Vec<PackedBoard>,
}

impl<'py> Reader<'py> {
    /// A reader that keeps the newest boards only, or also those that a repetition needs.
    pub(crate) fn new(keeps_all: bool) -> Reader<'py> {
        Reader {
            limit: if keeps_all { usize::MAX } else { BOARDS },
            seen: HashMap::new(),
            boards: Vec::new(),
        }
    }

    /// Reads positions; `first` is the number of the first one, for messages.
    ///
    /// # Errors
    /// `ValueError` or `TypeError`, which name the position.
    pub(crate) fn read(&mut self, items: &[Bound<'py, PyAny>], first: usize) -> PyResult<Games> {
        // Boards of other chunks are seldom those of this one.
        self.seen.clear();
        let mut games = Games::default();
        for (number, item) in (first..).zip(items) {
            self.read_one(item, number)?;
            let length = self.boards.len().min(self.limit);
            games.boards.extend_from_slice(&self.boards[..length]);
            games.ends.push(games.boards.len());
        }
        Ok(games)
    }

    fn read_one(&mut self, item: &Bound<'py, PyAny>, number: usize) -> PyResult<()> {
        let py = item.py();
        self.boards.clear();
        if let Ok(fen) = item.cast::<PyString>() {
            let position = Position::from_fen(&fen.to_cow()?)
                .map_err(|error| PyValueError::new_err(format!("position {number}: {error}")))?;
            let board = PackedBoard::of(&position);
            self.boards.push(board.castling_to_rook(board.needs_king_to_rook()));
            return Ok(());
        }
        let stack = item.getattr(intern!(py, "_stack")).ok();
        let Some(stack) = stack.as_ref().and_then(|stack| stack.cast::<PyList>().ok()) else {
            let kind = item.get_type();
            let text = format!("position {number}: expected a FEN or a chess.Board, not {}", kind.name()?);
            return Err(PyTypeError::new_err(text));
        };
        let variant = item.getattr(intern!(py, "uci_variant"))?;
        if variant.extract::<String>().ok().is_none_or(|name| name != "chess") {
            let text =
                format!("position {number}: networks know standard chess and Chess960 only, not {variant}");
            return Err(PyValueError::new_err(text));
        }
        let sides = item.getattr(intern!(py, "occupied_co"))?;
        let last = read_board(item, &sides.get_item(false)?)?;
        let in_stack = stack.len();
        let last = if in_stack > 0 { last.as_played() } else { last };
        let is_chess960 = item.getattr(intern!(py, "chess960"))?.is_truthy()?;
        self.boards.push(last.castling_to_rook(is_chess960 || last.needs_king_to_rook()));
        for index in (0..in_stack).rev() {
            // An older board can be neither shown nor repeated.
            if self.boards.len() >= BOARDS && self.boards.last().is_some_and(|oldest| oldest.rule50 == 0) {
                break;
            }
            let board = self.in_stack(&stack.get_item(index)?, index > 0)?;
            self.boards.push(board);
        }
        count_repetitions(&mut self.boards);
        Ok(())
    }

    fn in_stack(&mut self, state: &Bound<'py, PyAny>, is_played: bool) -> PyResult<PackedBoard> {
        let address = state.as_ptr() as usize;
        let board = match self.seen.get(&address) {
            Some((_, board)) => *board,
            None => {
                let black = state.getattr(intern!(state.py(), "occupied_b"))?;
                let board = read_board(state, &black)?;
                self.seen.insert(address, (state.clone(), board));
                board
            }
        };
        Ok(if is_played { board.as_played() } else { board })
    }
}

/// Reads a `chess.Board` or an entry of its stack.
fn read_board(board: &Bound<'_, PyAny>, black: &Bound<'_, PyAny>) -> PyResult<PackedBoard> {
    let py = board.py();
    let mask = |name| board.getattr(name)?.extract::<u64>();
    let en_passant: Option<u32> = board.getattr(intern!(py, "ep_square"))?.extract()?;
    let rule50: u64 = board.getattr(intern!(py, "halfmove_clock"))?.extract()?;
    Ok(PackedBoard::new(&Parts {
        roles: [
            mask(intern!(py, "pawns"))?,
            mask(intern!(py, "knights"))?,
            mask(intern!(py, "bishops"))?,
            mask(intern!(py, "rooks"))?,
            mask(intern!(py, "queens"))?,
            mask(intern!(py, "kings"))?,
        ],
        black: black.extract()?,
        castling: mask(intern!(py, "castling_rights"))?,
        en_passant: en_passant.and_then(|square| Square::try_from(square).ok()),
        rule50: u16::try_from(rule50).unwrap_or(u16::MAX),
        turn: Color::from_white(board.getattr(intern!(py, "turn"))?.is_truthy()?),
    }))
}

/// Counts repetitions as `rukh_chess::PositionHistory` does. The boards are newest first; the oldest counts as new.
fn count_repetitions(boards: &mut [PackedBoard]) {
    for at in (0..boards.len()).rev() {
        let (newer, older) = boards.split_at_mut(at + 1);
        let board = &mut newer[at];
        // The same side is to move every other ply, and two moves of each side repeat a position at the earliest.
        let reach = usize::from(board.rule50).min(older.len());
        let same =
            (4..=reach).step_by(2).map(|plies| &older[plies - 1]).find(|earlier| board.repeats(earlier));
        board.repetitions = same.map_or(0, |earlier| earlier.repetitions.saturating_add(1));
    }
}
