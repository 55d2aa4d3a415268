//! `doctor`: examines this machine's AMD card, and writes a report for an issue.
//!
//! The owner of a card that the authors do not have runs one command. It writes a text file and a JSON file, which are
//! written again and again, so that an interrupt loses little.
//!
//! | module | what it does |
//! |---|---|
//! | [`child`] | runs a stage in a process that may die |
//! | [`progress`] | shows on stderr what happens |
//! | [`files`] | makes the text and the JSON of a report |
//! | [`advice`] | says what the findings mean, and what to do |
//! | [`report`] | holds what was found |
//! | [`privacy`] | removes names and serial numbers |
//! | [`system`] | describes the machine without the card's libraries |

mod advice;
mod child;
mod files;
mod privacy;
mod progress;
mod report;
mod system;

use super::args::DoctorArgs;
use super::error::{CliError, print_error_line};
use super::gpu_choice::{GpuBackendChoice, gpu_choice};
use super::output_file::write_whole;
use crate::uci::output::Output;
use child::{Event, Limits, Outcome, run_stage};
use privacy::Privacy;
use progress::Progress;
use report::{Death, Report, StageReport, State, shortened};
use rukh_gpu::GivenOptions;
use rukh_gpu::doctor::{Line, Request, Stage};
use rukh_net::find_network;
use rukh_options::{BackendName, Options};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The report is written during a stage, too, so that an interrupt loses little.
const BETWEEN_WRITES: Duration = Duration::from_secs(3);

/// Runs the stages, and writes the report after each.
///
/// # Errors
/// An option is invalid, the network cannot be read, the report cannot be written, or there is no card that can be used.
/// Another stage that fails is no error.
pub(super) fn run(arguments: &DoctorArgs, options: &Options, output: &Output) -> Result<(), CliError> {
    let privacy = Privacy::of_this_machine();
    let GpuBackendChoice { maker, backend, precision, options: backend_options } =
        gpu_choice("doctor", options);
    let patience = GivenOptions::read(maker, &backend_options)?.options.helper_patience;
    let weights = network_name(&options.weights)?;
    let chosen = chosen(arguments);
    let mut report = Report {
        about: about(arguments, &backend_options, backend, &weights, &privacy),
        system: system::facts().into_iter().map(|(name, value)| (name, privacy.clean(&value))).collect(),
        stages: chosen.iter().map(|&stage| StageReport::new(stage)).collect(),
    };
    let files = Files::beside(&arguments.report);
    files.write(&report)?;
    let program = rukh_base::program::file()?;
    let mut progress = Progress::new(chosen.len());
    for index in 0..report.stages.len() {
        let stage = report.stages[index].stage;
        let reason = (stage != Stage::Devices).then(|| without_device(&report)).flatten();
        if let Some(reason) = reason {
            report.stages[index].state = State::PassedOver(reason.to_owned());
        } else {
            progress.begin(stage);
            let time = arguments.time_limit.map_or(stage.time_limit(), Duration::from_secs);
            let mut request = Request {
                stage,
                maker,
                precision,
                options: backend_options.clone(),
                weights: options.weights.clone(),
                is_quick: arguments.quick,
                done: Vec::new(),
                killers: Vec::new(),
            };
            let limits = Limits { time, patience };
            let mut last_write = Instant::now();
            examine(&program, &mut request, limits, &privacy, |event, seconds| {
                let found = &mut report.stages[index];
                found.seconds = seconds;
                match event {
                    Happened::Line(line) => {
                        progress.line(&line);
                        found.take(line, &privacy);
                    }
                    Happened::Death(death) => found.deaths.push(death),
                    Happened::End(state) => found.state = state,
                }
                if last_write.elapsed() >= BETWEEN_WRITES {
                    // The report is written again after the stage, which notices an error.
                    let _ = files.write(&report);
                    last_write = Instant::now();
                }
            });
        }
        progress.end(&report.stages[index]);
        files.write(&report)?;
    }
    let advice: Vec<String> =
        advice::advice(&report).iter().flat_map(|text| text.lines()).map(str::to_owned).collect();
    if arguments.json {
        output.line(files::json(&report).trim_end());
        return without_device(&report).map_or(Ok(()), |reason| Err(reason.into()));
    }
    output.lines(&advice);
    let place = format!("The report is in {} and {}.", files.text.display(), files.json.display());
    if let Some(reason) = without_device(&report) {
        output.line(&place);
        return Err(reason.into());
    }
    output.line(&format!("{place} Please attach both files to an issue."));
    Ok(())
}

/// Something that happened in a stage, without what is private.
enum Happened {
    Line(Line),
    Death(Death),
    End(State),
}

/// Runs one stage, and tells what happens, with the seconds since its start.
fn examine(
    program: &Path,
    request: &mut Request,
    limits: Limits,
    privacy: &Privacy,
    mut tell: impl FnMut(Happened, f64),
) {
    let begin = Instant::now();
    let clean = |text: &str| shortened(&privacy.clean(text));
    let outcome = run_stage(program, request, limits, |event| {
        let happened = match event {
            // The report removes what is private.
            Event::Line(line) => Happened::Line(line),
            Event::Death(Death { item, how, said }) => {
                Happened::Death(Death { item: clean(&item), how: clean(&how), said: clean(&said) })
            }
        };
        tell(happened, begin.elapsed().as_secs_f64());
    });
    let state = match outcome {
        Outcome::Done => State::Done,
        Outcome::Failed(reason) => State::Failed(clean(&reason)),
        Outcome::OutOfTime(item) => {
            State::OutOfTime(item.map_or_else(String::new, |item| format!(", during {}", clean(&item))))
        }
    };
    tell(Happened::End(state), begin.elapsed().as_secs_f64());
}

/// The stages that the user wants, in their order.
fn chosen(arguments: &DoctorArgs) -> Vec<Stage> {
    let is_wanted = |stage: &Stage| arguments.stages.iter().any(|name| name == stage.name());
    Stage::ALL.into_iter().filter(|stage| arguments.stages.is_empty() || is_wanted(stage)).collect()
}

/// The reason why no other stage can run, if the first one has found it.
fn without_device(report: &Report) -> Option<&'static str> {
    let devices = report.stages.iter().find(|stage| stage.stage == Stage::Devices)?;
    matches!(devices.state, State::Failed(_)).then_some("there is no card that can be used")
}

/// The network's file name without its folders, and its size.
fn network_name(location: &str) -> Result<String, CliError> {
    let file = find_network(location, print_error_line)?;
    let name = file.path().file_name().unwrap_or(file.path().as_os_str()).to_string_lossy().into_owned();
    let bytes = std::fs::metadata(file.path()).map(|metadata| format!(", {} bytes", metadata.len()));
    Ok(name + &bytes.unwrap_or_default())
}

fn about(
    arguments: &DoctorArgs,
    backend_options: &str,
    backend: BackendName,
    weights: &str,
    privacy: &Privacy,
) -> Vec<(String, String)> {
    let stages: Vec<&str> = chosen(arguments).iter().map(|stage| stage.name()).collect();
    [
        ("version", format!("Rukh {}", rukh_base::version::version())),
        ("built for", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
        ("backend", backend.name().to_owned()),
        ("backend options", backend_options.to_owned()),
        ("network", weights.to_owned()),
        ("stages", stages.join(", ")),
        ("quick", if arguments.quick { "yes" } else { "no" }.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), privacy.clean(&value)))
    .into()
}

/// The paths of the two files.
struct Files {
    text: PathBuf,
    json: PathBuf,
}

impl Files {
    /// The files whose names begin with `stem`.
    fn beside(stem: &Path) -> Files {
        let with = |extension: &str| {
            let mut name = stem.as_os_str().to_owned();
            name.push(extension);
            PathBuf::from(name)
        };
        Files { text: with(".txt"), json: with(".json") }
    }

    fn write(&self, report: &Report) -> Result<(), CliError> {
        for (path, content) in [(&self.text, files::text(report)), (&self.json, files::json(report))] {
            // An interrupt must not leave half a file.
            write_whole(path, |file| file.write_all(content.as_bytes()))
                .map_err(|error| format!("the report cannot be written to {}: {error}", path.display()))?;
        }
        Ok(())
    }
}
