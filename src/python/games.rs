//! Positions of Python programs, with the moves before them: FENs and boards of python-chess.

use crate::board::{BOARDS, PackedBoard, Parts};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple, PyType};
use rukh_chess::{Color, Position, Square};
use std::collections::HashMap;
use std::ops::Range;

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

/// At most so many positions are read unsorted, so that a card has work while the others are sorted.
const AT_ONCE: usize = 1024;

/// The most boards that a reader remembers.
const REMEMBERED: usize = 1 << 16;

/// Reads positions. It remembers boards of python-chess's stacks, which the positions of a game share.
pub(crate) struct Reader<'py> {
    /// A copy: another thread may change the list meanwhile.
    positions: Bound<'py, PyTuple>,
    /// The numbers of the positions in the order in which they are read: as given for at most the first [`AT_ONCE`], then
    /// by their addresses. The objects of a game are mostly side by side. In another order, reading waits for the memory:
    /// 65,536 shuffled boards took a third longer.
    order: Vec<usize>,
    /// The most boards of a position.
    limit: usize,
    /// The entries of stacks that were read. Those of a stack are mostly side by side, from the newest to the oldest or
    /// the other way round.
    entries: Vec<Entry<'py>>,
    /// The places of the entries, by their addresses.
    places: HashMap<usize, usize>,
    /// The boards of one position, newest first.
    boards: Vec<PackedBoard>,
    /// Python's functions `board_fields` and `entry_fields`: the interpreter reads attributes faster than its C interface.
    of_board: Bound<'py, PyAny>,
    of_entry: Bound<'py, PyAny>,
    /// The type of the last board, whose variant is known.
    known: Option<Bound<'py, PyType>>,
}

/// An entry of a stack.
struct Entry<'py> {
    /// A reference keeps the address from being used again.
    state: Bound<'py, PyAny>,
    board: PackedBoard,
}

impl<'py> Reader<'py> {
    /// A reader that keeps the newest boards only, or also those that a repetition needs.
    pub(crate) fn new(positions: &Bound<'py, PyList>, keeps_all: bool) -> PyResult<Reader<'py>> {
        let package = positions.py().import("rukh.packed")?;
        let positions = positions.to_tuple();
        Ok(Reader {
            order: (0..positions.len()).collect(),
            positions,
            limit: if keeps_all { usize::MAX } else { BOARDS },
            entries: Vec::new(),
            places: HashMap::new(),
            boards: Vec::new(),
            of_board: package.getattr("board_fields")?,
            of_entry: package.getattr("entry_fields")?,
            known: None,
        })
    }

    /// The numbers of the positions in the order in which they are read.
    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// Reads a part of the positions.
    ///
    /// # Errors
    /// `ValueError` or `TypeError`, which name the position.
    pub(crate) fn read(&mut self, range: Range<usize>) -> PyResult<Games> {
        if self.entries.len() > REMEMBERED {
            self.forget();
        }
        if range.start <= AT_ONCE && AT_ONCE < range.end {
            let of = |number: &usize| {
                self.positions.get_borrowed_item(*number).map_or(0, |item| item.as_ptr() as usize)
            };
            self.order[range.start..].sort_by_cached_key(of);
        }
        let mut games = Games::default();
        for at in range {
            let number = self.order[at];
            self.read_one(&self.positions.get_item(number)?, number)?;
            let length = self.boards.len().min(self.limit);
            games.boards.extend_from_slice(&self.boards[..length]);
            games.ends.push(games.boards.len());
        }
        Ok(games)
    }

    /// Drops the boards that it remembers.
    pub(crate) fn forget(&mut self) {
        self.entries.clear();
        self.places.clear();
    }

    fn read_one(&mut self, item: &Bound<'py, PyAny>, number: usize) -> PyResult<()> {
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
        let read = self.of_board.call1((item,))?;
        let read = read.cast::<PyTuple>()?;
        let last = read_board(read)?;
        let is_chess960 = read.get_borrowed_item(11)?.is_truthy()?;
        let stack = read.get_borrowed_item(12)?;
        let stack = stack.cast::<PyList>()?;
        let in_stack = stack.len();
        let last = if in_stack > 0 { last.as_played() } else { last };
        self.boards.push(last.castling_to_rook(is_chess960 || last.needs_king_to_rook()));
        let mut place = 0;
        for index in (0..in_stack).rev() {
            // An older board can be neither shown nor repeated.
            if self.boards.len() >= BOARDS && self.boards.last().is_some_and(|oldest| oldest.rule50 == 0) {
                break;
            }
            place = self.place(&stack.get_item(index)?, place)?;
            let board = self.entries[place].board;
            self.boards.push(if index > 0 { board.as_played() } else { board });
        }
        count_repetitions(&mut self.boards);
        Ok(())
    }

    /// The place of an entry, probably beside `near`.
    fn place(&mut self, state: &Bound<'py, PyAny>, near: usize) -> PyResult<usize> {
        for place in [near + 1, near.wrapping_sub(1)] {
            if self.entries.get(place).is_some_and(|entry| entry.state.is(state)) {
                return Ok(place);
            }
        }
        let address = state.as_ptr() as usize;
        if let Some(&place) = self.places.get(&address) {
            return Ok(place);
        }
        let read = self.of_entry.call1((state,))?;
        let place = self.entries.len();
        self.entries.push(Entry { state: state.clone(), board: read_board(read.cast()?)? });
        self.places.insert(address, place);
        Ok(place)
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

/// Reads the fields of a board or of an entry of its stack.
fn read_board(fields: &Bound<'_, PyTuple>) -> PyResult<PackedBoard> {
    let mask = |at: usize| fields.get_borrowed_item(at)?.extract::<u64>();
    let en_passant: Option<u32> = fields.get_borrowed_item(8)?.extract()?;
    Ok(PackedBoard::new(&Parts {
        roles: [mask(0)?, mask(1)?, mask(2)?, mask(3)?, mask(4)?, mask(5)?],
        black: mask(6)?,
        castling: mask(7)?,
        en_passant: en_passant.and_then(|square| Square::try_from(square).ok()),
        rule50: u16::try_from(mask(9)?).unwrap_or(u16::MAX),
        turn: Color::from_white(fields.get_borrowed_item(10)?.is_truthy()?),
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
