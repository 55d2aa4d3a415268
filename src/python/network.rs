//! `Network`, and positions as arrays.

use crate::board::{self, BOARDS, PackedBoard};
use crate::errors::exception;
use crate::games::Reader;
use crate::planes;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use rukh_net::discover::OWN_NETWORK;
use rukh_net::input::encode_shown;
use rukh_net::{HistoryFill, InputFormat};
use std::path::{Path, PathBuf};
use zerocopy::{FromBytes, IntoBytes};

/// A network of lc0 whose file was read.
#[pyclass(frozen, module = "rukh._native")]
pub(crate) struct Network {
    pub(crate) library: librukh::Network,
    pub(crate) format: InputFormat,
}

impl Network {
    fn new(library: librukh::Network) -> PyResult<Network> {
        let layers = library.file().with_layers();
        let number =
            layers.map_err(|error| PyValueError::new_err(error.to_string()))?.format().input() as u32;
        let format = InputFormat::from_number(number);
        let format = format.ok_or_else(|| PyValueError::new_err(format!("unknown input format {number}")))?;
        Ok(Network { library, format })
    }
}

#[pymethods]
impl Network {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Network> {
        Network::new(py.detach(|| librukh::Network::open(path)).map_err(exception)?)
    }

    #[staticmethod]
    fn embedded(py: Python<'_>) -> PyResult<Network> {
        Network::new(py.detach(librukh::Network::embedded).map_err(exception)?)
    }

    #[getter]
    fn path(&self) -> String {
        self.library.path().display().to_string()
    }

    #[getter]
    fn is_embedded(&self) -> bool {
        self.library.path() == Path::new(OWN_NETWORK)
    }

    #[getter]
    fn input_format(&self) -> u32 {
        self.format as u32
    }

    fn describe(&self) -> String {
        self.library.describe()
    }

    /// The planes of packed positions, all numbers in one list.
    fn planes<'py>(
        &self,
        py: Python<'py>,
        packed: PyReadonlyArray1<'py, u8>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let rows = rows(packed.as_slice()?)?;
        let numbers = py.detach(|| {
            let (mut numbers, mut ordered) = (Vec::with_capacity(rows.len() * planes::NUMBERS), Vec::new());
            for (number, row) in rows.iter().enumerate() {
                let failed = |reason| format!("position {number}: {reason}");
                let boards = board::oldest_first(row, &mut ordered).map_err(failed)?;
                let last = row[0].position().map_err(failed)?;
                let (planes, _) = encode_shown(&last, boards, self.format, HistoryFill::FenOnly);
                planes::expand(&planes, &mut numbers);
            }
            Ok(numbers)
        });
        numbers
            .map(|numbers| PyArray1::from_vec(py, numbers))
            .map_err(|error: String| PyValueError::new_err(error))
    }
}

/// The bytes of packed positions as boards.
///
/// # Errors
/// `ValueError`: the bytes are unaligned, or not whole positions.
pub(crate) fn rows(bytes: &[u8]) -> PyResult<&[[PackedBoard; BOARDS]]> {
    // An empty array may be unaligned.
    if bytes.is_empty() {
        return Ok(&[]);
    }
    <[[PackedBoard; BOARDS]]>::ref_from_bytes(bytes)
        .map_err(|_| PyValueError::new_err("packed positions must be aligned in memory, and whole"))
}

/// Packs FENs and boards; the bytes of an array of `rukh.BOARD`.
#[pyfunction]
pub(crate) fn pack<'py>(
    py: Python<'py>,
    positions: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let mut reader = Reader::new(positions, false)?;
    let (count, size) = (reader.order().len(), size_of::<[PackedBoard; BOARDS]>());
    let mut bytes = vec![0; count * size];
    for first in (0..count).step_by(CHUNK) {
        let games = reader.read(first..count.min(first + CHUNK))?;
        for (boards, &number) in games.iter().zip(&reader.order()[first..]) {
            let mut row = [PackedBoard::NONE; BOARDS];
            row[..boards.len()].copy_from_slice(boards);
            bytes[number * size..][..size].copy_from_slice(row.as_bytes());
        }
        py.check_signals()?;
    }
    Ok(PyArray1::from_vec(py, bytes))
}

/// The positions that are read at a time.
const CHUNK: usize = 256;

/// The FENs of packed positions.
#[pyfunction]
pub(crate) fn fens(packed: PyReadonlyArray1<'_, u8>) -> PyResult<Vec<String>> {
    let fen = |(number, row): (usize, &[PackedBoard; BOARDS])| match row[0].position() {
        Ok(position) => Ok(position.to_fen()),
        Err(reason) => Err(PyValueError::new_err(format!("position {number}: {reason}"))),
    };
    rows(packed.as_slice()?)?.iter().enumerate().map(fen).collect()
}
