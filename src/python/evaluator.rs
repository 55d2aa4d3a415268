//! Evaluations by the network alone, as arrays.

use crate::call::{evaluate_array, evaluate_read};
use crate::errors::exception;
use crate::evaluate::{Chunk, Evaluations, On};
use crate::games::Reader;
use crate::network::{Network, rows};
use crate::planes;
use crate::process::OfProcess;
use crate::sorted::sorted;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use rukh_backend::{Attributes, Backend};
use rukh_net::InputFormat;
use rukh_net::input::encodes_only_repetitions;
use rukh_registry::{BackendConfig, create_for_file};
use std::ops::Range;
use std::sync::Arc;

/// The positions of a batch on a card.
const BATCH: usize = 256;
/// The positions of a batch on the processor, where larger ones gain nothing, and a call can be interrupted only between
/// batches.
const BATCH_OF_PROCESSOR: usize = 64;
/// The most threads for each batch that a card evaluates at once. A card that evaluates 1.4 million positions a second in
/// three batches at a time needs several threads for each.
const THREADS_OF_STREAM: usize = 4;
/// The lower limit of the smallest batch on the processor, apart from the last one of a call.
const FEWEST: usize = 8;

/// Evaluates positions with a network.
#[pyclass(frozen, module = "rukh._native")]
pub(crate) struct Evaluator {
    backend: OfProcess<Arc<dyn Backend>>,
    notices: Vec<String>,
    format: InputFormat,
    threads: Option<usize>,
}

/// The arrays of `rukh.Evaluations`: win, draw and loss; moves left, if the network tells; offsets; moves;
/// indices; priors.
type Arrays<'py> = (
    Bound<'py, PyArray1<f32>>,
    Option<Bound<'py, PyArray1<f32>>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<u16>>,
    Bound<'py, PyArray1<u16>>,
    Bound<'py, PyArray1<f32>>,
);

#[pymethods]
impl Evaluator {
    #[new]
    fn new(
        py: Python<'_>,
        network: &Network,
        backend: String,
        options: String,
        policy_temperature: f32,
        threads: Option<usize>,
    ) -> PyResult<Evaluator> {
        if threads.is_some_and(|threads| !(1..=512).contains(&threads)) {
            return Err(PyValueError::new_err("threads must be 1 to 512"));
        }
        let config = BackendConfig {
            backend,
            options,
            network: network.library.path().display().to_string(),
            policy_softmax_temperature: policy_temperature,
            ..BackendConfig::default()
        };
        let file = network.library.file().clone();
        let created =
            py.detach(|| create_for_file(&config, file)).map_err(|error| exception(error.into()))?;
        Ok(Evaluator {
            backend: OfProcess::new("Evaluator", created.backend),
            notices: created.notices,
            format: network.format,
            threads,
        })
    }

    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.backend.get()?.attributes().name.clone())
    }

    #[getter]
    fn notices(&self) -> Vec<String> {
        self.notices.clone()
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(self.backend.cannot_be_pickled())
    }

    /// Evaluates FENs and boards of python-chess.
    fn evaluate<'py>(&self, py: Python<'py>, positions: &Bound<'py, PyList>) -> PyResult<Arrays<'py>> {
        let on = self.on()?;
        let mut reader = Reader::new(positions, encodes_only_repetitions(self.format))?;
        let found = evaluate_read(py, on, &mut reader);
        let order = reader.order();
        let found = found.map_err(|ended| ended.of_position(order))?;
        let found = py.detach(|| sorted(found, order, on.threads));
        Ok(arrays(py, on.backend.attributes(), found))
    }

    /// Evaluates the bytes of packed positions.
    fn evaluate_packed<'py>(
        &self,
        py: Python<'py>,
        packed: PyReadonlyArray1<'py, u8>,
    ) -> PyResult<Arrays<'py>> {
        let on = self.on()?;
        let rows = rows(packed.as_slice()?)?;
        let found = evaluate_array(py, on, rows.len(), |range| Chunk::Packed(&rows[range]))?;
        Ok(arrays(py, on.backend.attributes(), found))
    }

    /// Evaluates the numbers of planes.
    fn evaluate_planes<'py>(
        &self,
        py: Python<'py>,
        numbers: PyReadonlyArray1<'py, f32>,
    ) -> PyResult<Arrays<'py>> {
        let on = self.on()?;
        let (numbers, of) = (numbers.as_slice()?, planes::NUMBERS);
        let chunk = |range: Range<usize>| Chunk::Planes(&numbers[range.start * of..range.end * of]);
        let found = evaluate_array(py, on, numbers.len() / of, chunk)?;
        Ok(arrays(py, on.backend.attributes(), found))
    }
}

impl Evaluator {
    fn on(&self) -> PyResult<On<'_>> {
        let backend = &**self.backend.get()?;
        let mut on = On { backend, format: self.format, threads: 1 };
        on.threads = self.threads.unwrap_or_else(|| on.usual_threads());
        Ok(on)
    }
}

impl On<'_> {
    /// The batches that the device evaluates at once.
    pub(crate) fn streams(&self) -> usize {
        self.backend.attributes().suggested_threads.max(1)
    }

    /// The batches that a thread has under way while it encodes another one.
    pub(crate) fn ahead(&self) -> usize {
        usize::from(!self.backend.attributes().runs_on_cpu && self.threads <= 2 * self.streams())
    }

    /// On a card, several threads encode for each batch that it evaluates at once, at most as many as there are cores, but
    /// at least one more than the batches.
    fn usual_threads(&self) -> usize {
        let streams = self.streams();
        if self.backend.attributes().runs_on_cpu {
            return streams;
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        cores.min(THREADS_OF_STREAM * streams).max(streams + 1)
    }

    /// The most positions in the next chunk of a call of `count` positions, of which `left` are in no chunk yet. On several
    /// threads of a processor, chunks become smaller towards the end of a call, so that no core waits long for a slower
    /// one. A small call has equal chunks, except the last.
    pub(crate) fn chunk(&self, count: usize, left: usize) -> usize {
        let attributes = self.backend.attributes();
        // Where several cores share a batch, the recommended size is larger.
        let fewest = (attributes.recommended_batch_size / 2).clamp(FEWEST, BATCH_OF_PROCESSOR);
        let share = match self.threads == 1 || count < 4 * fewest * self.threads {
            true => count.div_ceil(self.threads),
            false => left.div_ceil(2 * self.threads),
        };
        let largest = if attributes.runs_on_cpu { share.clamp(fewest, BATCH_OF_PROCESSOR) } else { BATCH };
        largest.min(attributes.maximum_batch_size.max(1))
    }

    /// The positions in the first chunk of a call that reads boards. It is small on a card, so that the card starts soon.
    pub(crate) fn first_chunk(&self, size: usize) -> usize {
        if self.backend.attributes().runs_on_cpu { size } else { size.div_ceil(4) }
    }
}

/// The arrays of all evaluations.
fn arrays<'py>(py: Python<'py>, attributes: &Attributes, found: Evaluations) -> Arrays<'py> {
    (
        PyArray1::from_vec(py, found.wdl),
        attributes.has_mlh.then(|| PyArray1::from_vec(py, found.moves_left)),
        PyArray1::from_vec(py, found.offsets),
        PyArray1::from_vec(py, shrunk(found.moves)),
        PyArray1::from_vec(py, shrunk(found.indices)),
        PyArray1::from_vec(py, shrunk(found.priors)),
    )
}

/// The list without its spare memory.
fn shrunk<T>(mut list: Vec<T>) -> Vec<T> {
    list.shrink_to_fit();
    list
}
