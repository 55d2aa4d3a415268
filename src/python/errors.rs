//! Errors as Python's exceptions.

use crate::call::Ended;
use crate::evaluate::Failure;
use librukh::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyFileNotFoundError, PyRuntimeError, PyTypeError, PyValueError};

/// The exception of an error: `ValueError` if what the caller asked for is wrong, `FileNotFoundError`, or else
/// `RuntimeError`.
pub(crate) fn exception(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Network { path, .. } if !path.exists() => PyFileNotFoundError::new_err(text),
        Error::Network { .. }
        | Error::Fen(_)
        | Error::Move(_)
        | Error::UnknownBackend { .. }
        | Error::Option(_)
        | Error::Unsuitable(_) => PyValueError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

impl From<Ended> for PyErr {
    fn from(ended: Ended) -> PyErr {
        match ended {
            Ended::Python(error) => error,
            Ended::Failed(Failure::Position(number, reason)) => {
                PyValueError::new_err(format!("position {number}: {reason}"))
            }
            Ended::Failed(Failure::Backend(error)) => exception(error.into()),
            Ended::Failed(Failure::NoPlanes(name)) => {
                PyTypeError::new_err(format!("the backend {name} evaluates positions, not planes"))
            }
            Ended::Failed(Failure::Panicked) => {
                PyRuntimeError::new_err("the evaluation ended without an answer")
            }
        }
    }
}
