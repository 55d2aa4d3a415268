//! Positions of Python programs, with the moves before them: FENs and boards of python-chess.

use crate::board::{BOARDS, PackedBoard, Parts};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple, PyType};
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
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[PackedBoard]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.boards[std::mem::replace(&mut start, end)..end])
    }
}

/// The most boards that a reader remembers.
const REMEMBERED: usize = 1 << 16;

/// What is read of a board and of an entry of its stack. Reading many attributes at once takes half the time.
const OF_BOTH: [&str; 10] = [
    "pawns",
    "knights",
    "bishops",
    "rooks",
    "queens",
    "kings",
    "castling_rights",
    "ep_square",
    "halfmove_clock",
    "turn",
];
/// What follows of a board and of an entry.
const OF_BOARD: [&str; 2] = ["occupied_co", "chess960"];
const OF_ENTRY: [&str; 1] = ["occupied_b"];

/// Reads positions. It remembers boards of python-chess's stacks, which the positions of a game share.
pub(crate) struct Reader<'py> {
    /// The most boards of a position.
    limit: usize,
    /// By their addresses, which a reference keeps from being used again.
    seen: HashMap<usize, (Bound<'py, PyAny>, PackedBoard)>,
    /// The boards of one position, newest first.
    boards: Vec<PackedBoard>,
    /// Functions that read the attributes.
    of_board: Bound<'py, PyAny>,
    of_entry: Bound<'py, PyAny>,
    /// The type of the last board, whose variant is known.
    known: Option<Bound<'py, PyType>>,
}

impl<'py> Reader<'py> {
    /// A reader that keeps the newest boards only, or also those that a repetition needs.
    pub(crate) fn new(py: Python<'py>, keeps_all: bool) -> PyResult<Reader<'py>> {
        let getter = py.import("operator")?.getattr("attrgetter")?;
        Ok(Reader {
            limit: if keeps_all { usize::MAX } else { BOARDS },
            seen: HashMap::new(),
            boards: Vec::new(),
            of_board: getter.call1(PyTuple::new(py, [&OF_BOTH[..], &OF_BOARD].concat())?)?,
            of_entry: getter.call1(PyTuple::new(py, [&OF_BOTH[..], &OF_ENTRY].concat())?)?,
            known: None,
        })
    }

    /// Reads positions; `first` is the number of the first one, for messages.
    ///
    /// # Errors
    /// `ValueError` or `TypeError`, which name the position.
    pub(crate) fn read(
        &mut self,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        first: usize,
    ) -> PyResult<Games> {
        if self.seen.len() > REMEMBERED {
            self.seen.clear();
        }
        let mut games = Games::default();
        for (number, item) in (first..).zip(items) {
            self.read_one(&item, number)?;
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
        let kind = item.get_type();
        if self.known.as_ref().is_none_or(|known| !known.is(&kind)) {
            check_kind(item, number)?;
            self.known = Some(kind);
        }
        let stack = item.getattr(intern!(py, "_stack"))?;
        let stack = stack.cast::<PyList>()?;
        let read = self.of_board.call1((item,))?;
        let read = read.cast::<PyTuple>()?;
        let black = read.get_borrowed_item(10)?.get_item(false)?;
        let last = read_board(read, black.as_borrowed())?;
        let in_stack = stack.len();
        let last = if in_stack > 0 { last.as_played() } else { last };
        let is_chess960 = read.get_borrowed_item(11)?.is_truthy()?;
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
                let read = self.of_entry.call1((state,))?;
                let read = read.cast::<PyTuple>()?;
                let board = read_board(read, read.get_borrowed_item(10)?)?;
                self.seen.insert(address, (state.clone(), board));
                board
            }
        };
        Ok(if is_played { board.as_played() } else { board })
    }
}

/// Checks that an object is a board of standard chess.
fn check_kind(item: &Bound<'_, PyAny>, number: usize) -> PyResult<()> {
    let py = item.py();
    if !item.getattr(intern!(py, "_stack")).is_ok_and(|stack| stack.is_instance_of::<PyList>()) {
        let kind = item.get_type();
        let text = format!("position {number}: expected a FEN or a chess.Board, not {}", kind.name()?);
        return Err(PyTypeError::new_err(text));
    }
    let variant = item.getattr(intern!(py, "uci_variant"))?;
    if variant.extract::<String>().ok().is_none_or(|name| name != "chess") {
        let text =
            format!("position {number}: networks know standard chess and Chess960 only, not {variant}");
        return Err(PyValueError::new_err(text));
    }
    Ok(())
}

/// Reads the attributes [`OF_BOTH`] of a board or of an entry of its stack, and Black's squares.
fn read_board(read: &Bound<'_, PyTuple>, black: Borrowed<'_, '_, PyAny>) -> PyResult<PackedBoard> {
    let mask = |at: usize| read.get_borrowed_item(at)?.extract::<u64>();
    let en_passant: Option<u32> = read.get_borrowed_item(7)?.extract()?;
    Ok(PackedBoard::new(&Parts {
        roles: [mask(0)?, mask(1)?, mask(2)?, mask(3)?, mask(4)?, mask(5)?],
        black: black.extract()?,
        castling: mask(6)?,
        en_passant: en_passant.and_then(|square| Square::try_from(square).ok()),
        rule50: u16::try_from(mask(8)?).unwrap_or(u16::MAX),
        turn: Color::from_white(read.get_borrowed_item(9)?.is_truthy()?),
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
