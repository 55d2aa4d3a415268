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
use crate::backend::profile::{ProfileRequest, Profiler};
use crate::backend::registry::{self, BackendConfig};
use crate::chess::{PackedMove, Position, PositionHistory};
use crate::options::Options;
use crate::uci::output::Output;
use report::Measured;

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

/// Makes the backend and measures it.
fn measure(arguments: &ProfileArgs, options: &Options) -> Result<Measured, CliError> {
    let position = Position::from_fen(&arguments.fen)?;
    let moves: Vec<PackedMove> = position.legal_moves().iter().map(|&m| PackedMove::new(m)).collect();
    let history = PositionHistory::new(position);
    let created = registry::create_alone(&BackendConfig::from_options(options))?;
    created.notices.iter().for_each(|notice| print_error_line(notice));
    let attributes = created.backend.attributes();
    let mut profiler = created.backend.profiler().ok_or_else(|| {
        format!("the backend {} evaluates no network itself; use cpu or rocm, for example", attributes.name)
    })?;
    let positions = arguments.batch.map_or(attributes.recommended_batch_size, |batch| batch as usize);
    let request =
        ProfileRequest { history: &history, moves: &moves, positions, passes: arguments.passes as usize };
    let ceilings = profiler.ceilings()?;
    let profile = profiler.profile(&request)?;
    let other = other_size(&*profiler, profile.positions, attributes.maximum_batch_size);
    let other =
        other.map(|positions| profiler.profile(&ProfileRequest { positions, ..request })).transpose()?;
    Ok(Measured { backend: attributes.name.clone(), ceilings, profile, other })
}

/// A second batch size, which shows how times grow: twice the first, or half of it if that is too large.
fn other_size(profiler: &dyn Profiler, positions: usize, most: usize) -> Option<usize> {
    let is_program = |size: &usize| {
        let ladder = profiler.ladder();
        ladder.is_empty() || ladder.contains(size)
    };
    [2 * positions, positions / 2].into_iter().filter(|size| (1..=most).contains(size)).find(is_program)
}
