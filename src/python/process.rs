//! What belongs to the process that made it.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use std::mem::ManuallyDrop;
use std::time::Duration;

/// How long a signal, such as that of Ctrl+C, may wait for the thread that waits for Rukh.
pub(crate) const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Something with threads or a device, which a process that was forked does not have.
pub(crate) struct OfProcess<T> {
    what: &'static str,
    process: u32,
    /// A forked process leaves it alone: its end would wait for threads that are not there.
    inner: ManuallyDrop<T>,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(what: &'static str, inner: T) -> OfProcess<T> {
        OfProcess { what, process: std::process::id(), inner: ManuallyDrop::new(inner) }
    }

    fn check(&self) -> PyResult<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(format!(
            "this {} belongs to process {}, from which this one was forked, and its threads and device stayed there: {}",
            self.what,
            self.process,
            self.advice()
        )))
    }

    /// The answer to a program that wants to send it to another process.
    pub(crate) fn cannot_be_pickled(&self) -> PyErr {
        PyTypeError::new_err(format!("no {} can be pickled: {}", self.what, self.advice()))
    }

    fn advice(&self) -> String {
        let what = self.what;
        format!(
            "make the {what} in the process that uses it (with torch's DataLoader, when the worker first needs it)"
        )
    }

    /// # Errors
    /// `RuntimeError` in another process.
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.check().map(|()| &*self.inner)
    }

    /// # Errors
    /// `RuntimeError` in another process.
    pub(crate) fn get_mut(&mut self) -> PyResult<&mut T> {
        self.check()?;
        Ok(&mut self.inner)
    }
}

impl<T> Drop for OfProcess<T> {
    #[expect(unsafe_code, reason = "a value that is dropped or not")]
    fn drop(&mut self) {
        if self.check().is_ok() {
            // SAFETY: this is the only place that drops the value, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.inner) }
        }
    }
}
