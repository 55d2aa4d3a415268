//! Priors in lc0's order.

use crate::share::share;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rukh_net::policy_index::POLICY_SIZE;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

/// The fewest rows for which another thread is worth it.
const FEWEST: usize = 256;

/// The priors of positions as rows of [`POLICY_SIZE`] numbers, one after another. Most of the time goes into the memory of
/// the zeros, which several threads touch first.
#[pyfunction]
pub(crate) fn dense<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArray1<'py, i64>,
    indices: PyReadonlyArray1<'py, u16>,
    priors: PyReadonlyArray1<'py, f32>,
) -> PyResult<Bound<'py, PyArray1<f32>>> {
    let (offsets, indices, priors) = (offsets.as_slice()?, indices.as_slice()?, priors.as_slice()?);
    let count = offsets.len().saturating_sub(1);
    let dense = PyArray1::zeros(py, count * POLICY_SIZE, false);
    let mut numbers = dense.readwrite();
    let numbers = numbers.as_slice_mut()?;
    let is_wrong = AtomicBool::new(false);
    py.detach(|| {
        let part = count.div_ceil(available_parallelism().map_or(1, usize::from)).max(FEWEST);
        let parts = numbers.chunks_mut(part * POLICY_SIZE).zip((0..count).step_by(part));
        share(parts.collect(), |(rows, first): (_, usize)| {
            let offsets = &offsets[first..=count.min(first + part)];
            if fill(rows, offsets, indices, priors).is_none() {
                is_wrong.store(true, Ordering::Relaxed);
            }
        });
    });
    match is_wrong.into_inner() {
        false => Ok(dense),
        true => Err(PyValueError::new_err("the offsets or indices of the priors are wrong")),
    }
}

/// Fills rows with the priors from each offset to the next. `None` if one of the numbers is beyond its array.
fn fill(rows: &mut [f32], offsets: &[i64], indices: &[u16], priors: &[f32]) -> Option<()> {
    for (row, ends) in rows.chunks_exact_mut(POLICY_SIZE).zip(offsets.array_windows::<2>()) {
        let [start, end] = ends.map(|end| usize::try_from(end).unwrap_or(usize::MAX));
        for (&index, &prior) in indices.get(start..end)?.iter().zip(priors.get(start..end)?) {
            *row.get_mut(usize::from(index))? = prior;
        }
    }
    Some(())
}
