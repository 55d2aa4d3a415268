//! `profile`: measures each operation and each encoder of a backend's forward pass, and says what limits it.
//!
//! | module | what it does |
//! |---|---|
//! | [`fuzzing`] | reads any files for the fuzz target |
//! | [`baseline`] | compares with an earlier profile |
//! | [`pictures`] | draws |
//! | [`rocprof`] | reads the files of AMD's profiler |
//! | [`report`] | makes the tables and the JSON |
//! | [`limit`] | finds which limit binds an operation |
//! | [`group`] | adds up the steps of an operation or of an encoder |

mod baseline;
pub(crate) mod fuzzing;
mod group;
mod limit;
mod pictures;
mod report;
mod rocprof;

use super::error::{CliError, print_error_line};
use super::machine;
use super::profile_args::ProfileArgs;
use crate::cli::output_file::{check_outputs, open_log};
use crate::uci::output::Output;
use baseline::{Outcome, use_baseline};
use report::Measured;
use rukh_backend::profile::{ProfileRequest, Profiler, Subject};
use rukh_backend::{Backend, BackendError};
use rukh_chess::{Position, PositionHistory};
use rukh_gpu::{self, GpuPrecision, GpuProfiler, KernelOccupancy, Maker};
use rukh_net::find_network;
use rukh_options::{BackendName, Options};
use rukh_registry::{self, BackendConfig};
use std::path::Path;
use std::sync::Arc;

/// Measures and prints.
///
/// # Errors
/// The position is invalid, the backend cannot be made or has no profile, or an evaluation fails.
pub(super) fn run(arguments: &ProfileArgs, options: &Options, output: &Output) -> Result<(), CliError> {
    if let Some(architecture) = &arguments.occupancy {
        return print_occupancy(architecture, arguments.json, output);
    }
    if let Some(folder) = &arguments.rocprof {
        return print_trace(folder, arguments.json, output);
    }
    if arguments.rocprof_command {
        let positions = arguments.batch.map_or(TRACED_BATCH, |batch| batch as usize);
        let program = rukh_base::program::file()?;
        let backend = options.backend.given();
        let (settings, weights) = (&options.backend_opts, &options.weights);
        output.lines(&rocprof::commands(&program, backend, settings, weights, positions));
        return Ok(());
    }
    let written = [("--svg", arguments.svg.as_deref()), ("--baseline", arguments.baseline.as_deref())];
    check_outputs(&written, &[], options)?;
    open_log(options, output)?;
    let (measured, ladder) = measure(arguments, options)?;
    if let Some(path) = &arguments.svg {
        let facts = machine::facts(options, &measured.backend);
        let paths = pictures::write(path, &measured, &ladder, &facts)?;
        paths.iter().for_each(|path| print_error_line(&format!("drawn: {}", path.display())));
    }
    let tolerance = arguments.tolerance / 100.0;
    let compared =
        arguments.baseline.as_ref().map(|path| use_baseline(path, &measured, tolerance)).transpose()?;
    let changes = match compared {
        Some(Outcome::Compared(changes)) => changes,
        Some(Outcome::Written) | None => Vec::new(),
    };
    if arguments.json {
        let mut json = measured.json();
        if let Some(fields) = json.as_object_mut() {
            fields.insert("changes".to_owned(), serde_json::json!(changes));
        }
        output.line(&json.to_string());
    } else {
        output.lines(&measured.text());
        if !changes.is_empty() {
            output.line("");
            output.lines(&baseline::table(&changes));
        }
    }
    let slower: Vec<&str> = changes
        .iter()
        .filter(|change| change.is_regression)
        .map(|change| change.operation.as_str())
        .collect();
    match slower.is_empty() {
        true => Ok(()),
        false => Err(format!("slower than the baseline: {}", slower.join(", ")).into()),
    }
}

/// The batch size of the command for rocprofv3, if the user gives none: few positions more make a large card faster.
const TRACED_BATCH: usize = 256;

/// Prints the occupancy of the kernels of one architecture, or of all.
fn print_occupancy(architecture: &str, json: bool, output: &Output) -> Result<(), CliError> {
    let names = if architecture == "all" { rukh_gpu::architectures() } else { vec![architecture] };
    let found = names.into_iter().map(|name| Ok((name, rukh_gpu::occupancy(name)?)));
    let found: Vec<(&str, Vec<KernelOccupancy>)> = found.collect::<Result<_, String>>()?;
    if json {
        let kernels: serde_json::Map<String, serde_json::Value> =
            found.into_iter().map(|(name, kernels)| (name.to_owned(), serde_json::json!(kernels))).collect();
        output.line(&serde_json::Value::from(kernels).to_string());
        return Ok(());
    }
    for (name, kernels) in found {
        output.line(&format!("{name:<32}threads  vector  scalar  shared  waves of    limited by"));
        for kernel in kernels {
            output.line(&format!(
                "  {:<30}{:7}{:8}{:8}{:8}{:7} {:2}    {}",
                kernel.kernel,
                kernel.threads,
                kernel.vector_registers,
                kernel.scalar_registers,
                kernel.shared_bytes,
                kernel.waves,
                kernel.most_waves,
                kernel.limit.name()
            ));
        }
    }
    Ok(())
}

/// Prints what rocprofv3 has traced.
fn print_trace(folder: &Path, json: bool, output: &Output) -> Result<(), CliError> {
    let trace = rocprof::read(folder)?;
    let measured = trace.measured(folder);
    if json {
        let mut value = measured.json();
        if let Some(fields) = value.as_object_mut() {
            fields.insert("notes".to_owned(), serde_json::json!(trace.notes()));
        }
        output.line(&value.to_string());
        return Ok(());
    }
    output.line(&format!("{}: {:.1} us in kernels", measured.backend, measured.profile.sum()));
    output.lines(&report::table("kernel", &measured.operations()));
    output.lines(&trace.notes());
    Ok(())
}

/// What can be profiled.
enum Made {
    Device(Box<GpuProfiler>),
    Backend(Arc<dyn Backend>),
}

impl Made {
    /// Makes the backend that the user has chosen. `auto` takes a device if there is one.
    fn new(name: BackendName, config: &BackendConfig) -> Result<Made, CliError> {
        let backend = match name {
            BackendName::Auto => rukh_gpu::makers().0.first().map_or(name, |maker| maker.usual_backend()),
            name => name,
        };
        if let (Some(maker), Some(precision)) =
            (Maker::of_backend(backend), GpuPrecision::of_backend(backend))
        {
            let opened = GpuProfiler::open(maker, precision, &config.options, &config.network);
            match opened {
                Ok(profiler) => {
                    if let Ok(file) = find_network(&config.network, |_| {}) {
                        print_error_line(&format!("network {}", file.path().display()));
                    }
                    profiler.notices().iter().for_each(|notice| print_error_line(notice));
                    return Ok(Made::Device(Box::new(profiler)));
                }
                // The registry finds the processor, and says why it passes over devices.
                Err(BackendError::Create { .. }) if name == BackendName::Auto => {}
                Err(error) => return Err(error.into()),
            }
        }
        let created = rukh_registry::create_alone(config)?;
        created.notices.iter().for_each(|notice| print_error_line(notice));
        Ok(Made::Backend(created.backend))
    }

    fn profiler(&mut self) -> Result<Box<dyn Profiler + '_>, CliError> {
        match self {
            Made::Device(profiler) => Ok(Box::new(&mut **profiler)),
            Made::Backend(backend) => backend.profiler().ok_or_else(|| {
                let name = &backend.attributes().name;
                format!("the backend {name} evaluates no network itself; use cpu, rocm or cuda, for example")
                    .into()
            }),
        }
    }
}

/// Makes the backend and measures it. Returns the batch sizes that it has programs for, too.
fn measure(arguments: &ProfileArgs, options: &Options) -> Result<(Measured, Vec<usize>), CliError> {
    let position = Position::from_fen(&arguments.fen)?;
    let mut moves = Vec::new();
    position.packed_moves(&mut moves);
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
    let passes = match arguments.svg {
        Some(_) => profiler.passes(&request, &sizes(&subject, positions))?,
        None => Vec::new(),
    };
    Ok((Measured { backend: subject.name, ceilings, profile, other, passes }, subject.ladder))
}

/// The batch sizes whose throughput is drawn: up to twice `positions`. With a ladder, the throughput falls after each of
/// its sizes, because larger batches are padded to the next.
fn sizes(subject: &Subject, positions: usize) -> Vec<usize> {
    const SIZES: [usize; 16] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];
    let most = (2 * positions).min(subject.maximum_batch);
    let mut sizes: Vec<usize> = match subject.ladder.is_empty() {
        true => SIZES.to_vec(),
        false => subject.ladder.iter().flat_map(|&size| [size, size + 1]).chain([1]).collect(),
    };
    sizes.retain(|&size| size <= most);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// A second batch size, which shows how times grow: twice the first, or half of it if that is too large.
fn other_size(subject: &Subject, positions: usize) -> Option<usize> {
    let Subject { maximum_batch, ladder, .. } = subject;
    let is_program = |size: &usize| ladder.is_empty() || ladder.contains(size);
    let sizes = [2 * positions, positions / 2].into_iter();
    sizes.filter(|size| (1..=*maximum_batch).contains(size)).find(is_program)
}
