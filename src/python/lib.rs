//! The native module of the Python package `rukh`. The package's own files (`rukh/*.py`) are what programs use; they give
//! this module lists and flat arrays.
//!
//! | module | what it holds |
//! |---|---|
//! | `engine` | searches |
//! | `evaluator` | evaluations by the network alone |
//! | `network` | network files, and positions as arrays |
//! | `errors` | Python's exceptions |
//! | `evaluate` | chunks of positions, each as a batch |
//! | `call` | the threads of a call |
//! | `games` | positions of Python programs |
//! | `planes` | input planes as arrays |
//! | `sorted` | evaluations in the order of a program's list |
//! | `dense` | priors in lc0's order |
//! | `board` | boards in 40 bytes |
//! | `share` | work that threads share |
//! | `process` | what belongs to one process |

mod board;
mod call;
mod dense;
mod engine;
mod errors;
mod evaluate;
mod evaluator;
mod games;
mod network;
mod planes;
mod process;
mod share;
mod sorted;

use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs the command line with these arguments, of which the first is the program's name, and returns the exit code.
/// `program` is the executable with which Rukh starts helper processes of itself.
#[pyfunction]
fn run(py: Python<'_>, arguments: Vec<OsString>, program: Option<PathBuf>) -> u8 {
    rukh_base::program::set(program);
    py.detach(|| rukh::cli::run_with(&arguments))
}

#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::dense::dense;
    #[pymodule_export]
    use super::engine::{Analysis, Engine};
    #[pymodule_export]
    use super::evaluator::Evaluator;
    #[pymodule_export]
    use super::network::{Network, fens, pack};
    #[pymodule_export]
    use super::run;

    /// Sets the version under which measurements are kept, so that the package and the command share them.
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        rukh_base::version::set_version(rukh::VERSION);
        Ok(())
    }

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
