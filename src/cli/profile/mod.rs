//! `profile`: measures each operation and each encoder of a backend's forward pass, and says what limits it.
//!
//! | module | what it does |
//! |---|---|
//! | [`report`] | makes the tables and the JSON |
//! | [`limit`] | finds which limit binds an operation |
//! | [`group`] | adds up the steps of an operation or of an encoder |

mod group;
mod limit;
mod report;

use super::error::{CliError, print_error_line};
use super::profile_args::ProfileArgs;
use crate::backend::profile::{ProfileRequest, Profiler, Subject};
use crate::backend::registry::{self, BackendConfig};
use crate::backend::rocm::{RocmPrecision, RocmProfiler};
use crate::backend::{Backend, BackendError};
use crate::chess::{PackedMove, Position, PositionHistory};
use crate::options::{BackendName, Options};
use crate::uci::output::Output;
use report::Measured;
use std::sync::Arc;

/// Measures and prints.
///
/// # Errors
/// The position is invalid, the backend cannot be made or has no profile, or an evaluation fails.
pub(super) fn run(arguments: &ProfileArgs, options: &Options, output: &Output) -> Result<(), CliError> {
    let measured = measure(arguments, options)?;
    if arguments.json {
        output.line(&measured.json().to_string());
    } else {
        output.lines(&measured.text());
    }
    Ok(())
}

/// What can be profiled.
enum Made {
    Device(Box<RocmProfiler>),
    Backend(Arc<dyn Backend>),
}

impl Made {
    /// Makes the backend that the user has chosen. `auto` takes a device if there is one.
    fn new(name: BackendName, config: &BackendConfig) -> Result<Made, CliError> {
        let precision = match name {
            BackendName::Rocm => Some(RocmPrecision::Fp32),
            BackendName::RocmFp16 => Some(RocmPrecision::Fp16),
            BackendName::RocmBf16 => Some(RocmPrecision::Bf16),
            BackendName::RocmAuto | BackendName::Auto => Some(RocmPrecision::Auto),
            _ => None,
        };
        if let Some(precision) = precision {
            let opened = RocmProfiler::open(precision, &config.options, &config.network);
            match opened {
                Ok(profiler) => {
                    profiler.notices().iter().for_each(|notice| print_error_line(notice));
                    return Ok(Made::Device(Box::new(profiler)));
                }
                // The registry finds the processor, and says why it passes over devices.
                Err(BackendError::Create { .. }) if name == BackendName::Auto => {}
                Err(error) => return Err(error.into()),
            }
        }
        let created = registry::create_alone(config)?;
        created.notices.iter().for_each(|notice| print_error_line(notice));
        Ok(Made::Backend(created.backend))
    }

    fn profiler(&mut self) -> Result<Box<dyn Profiler + '_>, CliError> {
        match self {
            Made::Device(profiler) => Ok(Box::new(&mut **profiler)),
            Made::Backend(backend) => backend.profiler().ok_or_else(|| {
                let name = &backend.attributes().name;
                format!("the backend {name} evaluates no network itself; use cpu or rocm, for example").into()
            }),
        }
    }
}

/// Makes the backend and measures it.
fn measure(arguments: &ProfileArgs, options: &Options) -> Result<Measured, CliError> {
    let position = Position::from_fen(&arguments.fen)?;
    let moves: Vec<PackedMove> = position.legal_moves().iter().map(|&m| PackedMove::new(m)).collect();
    let history = PositionHistory::new(position);
    let config = BackendConfig::from_options(options);
    let mut made = Made::new(options.backend.name(), &config)?;
    let mut profiler = made.profiler()?;
    let subject = profiler.subject();
    let positions = arguments.batch.map_or(subject.recommended_batch, |batch| batch as usize);
    let request =
        ProfileRequest { history: &history, moves: &moves, positions, passes: arguments.passes as usize };
    let ceilings = profiler.ceilings()?;
    let profile = profiler.profile(&request)?;
    let other = other_size(&subject, profile.positions);
    let other =
        other.map(|positions| profiler.profile(&ProfileRequest { positions, ..request })).transpose()?;
    Ok(Measured { backend: subject.name, ceilings, profile, other })
}

/// A second batch size, which shows how times grow: twice the first, or half of it if that is too large.
fn other_size(subject: &Subject, positions: usize) -> Option<usize> {
    let Subject { maximum_batch, ladder, .. } = subject;
    let is_program = |size: &usize| ladder.is_empty() || ladder.contains(size);
    let sizes = [2 * positions, positions / 2].into_iter();
    sizes.filter(|size| (1..=*maximum_batch).contains(size)).find(is_program)
}
