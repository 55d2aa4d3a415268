//! Evaluations by the network alone, as arrays.

use crate::errors::exception;
use crate::evaluate::{Chunk, Evaluations, On, evaluate};
use crate::games::Reader;
use crate::network::{Network, rows};
use crate::planes;
use crate::process::OfProcess;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use rukh_backend::{Attributes, Backend};
use rukh_net::InputFormat;
use rukh_net::input::encodes_only_repetitions;
use rukh_registry::{BackendConfig, create_for_file};
use std::sync::Arc;

/// The positions of a batch on a card.
const BATCH: usize = 256;
/// The positions of a batch on the processor, where larger ones gain nothing, and a call can be interrupted only between
/// batches.
const BATCH_OF_PROCESSOR: usize = 64;
/// The fewest positions for which another thread is worth it.
const FEWEST: usize = 8;

/// Evaluates positions with a network.
#[pyclass(frozen, module = "rukh._native")]
pub(crate) struct Evaluator {
    backend: OfProcess<Arc<dyn Backend>>,
    format: InputFormat,
    threads: Option<usize>,
}

/// The arrays of `rukh.Evaluations`: win, draw and loss; moves left, if the network tells; the ends of each position's
/// moves; moves; indices; priors.
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
            format: network.format,
            threads,
        })
    }

    #[getter]
    fn name(&self) -> PyResult<String> {
        Ok(self.backend.get()?.attributes().name.clone())
    }

    /// Evaluates FENs and boards of python-chess.
    fn evaluate<'py>(&self, py: Python<'py>, positions: &Bound<'py, PyList>) -> PyResult<Arrays<'py>> {
        let on = self.on()?;
        let mut reader = Reader::new(py, encodes_only_repetitions(self.format))?;
        let size = on.chunk(positions.len());
        let mut first = 0;
        let next = |_: Python<'_>| {
            // Another thread may change the list meanwhile.
            let items: Vec<_> = (first..positions.len().min(first + size))
                .map_while(|at| positions.get_item(at).ok())
                .collect();
            let at = first;
            first += items.len();
            match items.is_empty() {
                true => Ok(None),
                false => Ok(Some((at, Chunk::Games(reader.read(&items, at)?)))),
            }
        };
        let found = evaluate(py, on, next)?;
        Ok(arrays(py, on.backend.attributes(), &found))
    }

    /// Evaluates the bytes of packed positions.
    fn evaluate_packed<'py>(
        &self,
        py: Python<'py>,
        packed: PyReadonlyArray1<'py, u8>,
    ) -> PyResult<Arrays<'py>> {
        let on = self.on()?;
        let rows = rows(packed.as_slice()?)?;
        let size = on.chunk(rows.len());
        let mut chunks = (0..).step_by(size).zip(rows.chunks(size));
        let found =
            evaluate(py, on, |_| Ok(chunks.next().map(|(first, rows)| (first, Chunk::Packed(rows)))))?;
        Ok(arrays(py, on.backend.attributes(), &found))
    }

    /// Evaluates the numbers of planes.
    fn evaluate_planes<'py>(
        &self,
        py: Python<'py>,
        numbers: PyReadonlyArray1<'py, f32>,
    ) -> PyResult<Arrays<'py>> {
        let on = self.on()?;
        let numbers = numbers.as_slice()?;
        let size = on.chunk(numbers.len() / planes::NUMBERS);
        let mut chunks = (0..).step_by(size).zip(numbers.chunks(size * planes::NUMBERS));
        let next = |_: Python<'_>| Ok(chunks.next().map(|(first, numbers)| (first, Chunk::Planes(numbers))));
        let found = evaluate(py, on, next)?;
        Ok(arrays(py, on.backend.attributes(), &found))
    }
}

impl Evaluator {
    fn on(&self) -> PyResult<On<'_>> {
        let backend = &**self.backend.get()?;
        let attributes = backend.attributes();
        // While a card computes, another thread prepares its next batch.
        let others = usize::from(!attributes.runs_on_cpu);
        let threads = self.threads.unwrap_or(attributes.suggested_threads.max(1) + others);
        Ok(On { backend, format: self.format, threads })
    }
}

impl On<'_> {
    /// The positions in a chunk when there are `count` in all.
    fn chunk(&self, count: usize) -> usize {
        let attributes = self.backend.attributes();
        let largest = match attributes.runs_on_cpu {
            true => count.div_ceil(self.threads).clamp(FEWEST, BATCH_OF_PROCESSOR),
            false => BATCH,
        };
        largest.min(attributes.maximum_batch_size.max(1))
    }
}

/// The arrays of all evaluations.
fn arrays<'py>(py: Python<'py>, attributes: &Attributes, all: &[Evaluations]) -> Arrays<'py> {
    let (wdl, moves_left, ends, moves, indices, priors) = py.detach(|| {
        let mut end = 0;
        let counts = all.iter().flat_map(|part| &part.counts);
        let ends = counts.map(|&count| {
            end += i64::from(count);
            end
        });
        (
            joined(all, |part| &part.wdl),
            attributes.has_mlh.then(|| joined(all, |part| &part.moves_left)),
            ends.collect(),
            joined(all, |part| &part.moves),
            joined(all, |part| &part.indices),
            joined(all, |part| &part.priors),
        )
    });
    (
        PyArray1::from_vec(py, wdl),
        moves_left.map(|moves_left| PyArray1::from_vec(py, moves_left)),
        PyArray1::from_vec(py, ends),
        PyArray1::from_vec(py, moves),
        PyArray1::from_vec(py, indices),
        PyArray1::from_vec(py, priors),
    )
}

fn joined<T: Copy>(all: &[Evaluations], part: fn(&Evaluations) -> &Vec<T>) -> Vec<T> {
    all.iter().map(|evaluations| &part(evaluations)[..]).collect::<Vec<_>>().concat()
}
