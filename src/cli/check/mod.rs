//! `check`: compares the evaluations of a backend with those of another on many positions.
//!
//! | module | what it does |
//! |---|---|
//! | [`positions`] | reads positions from files, or plays games |
//! | [`differences`] | collects the differences |

mod differences;
mod positions;

use super::check_args::CheckArgs;
use super::error::{CliError, print_error_line};
use super::output_file::open_log;
use crate::uci::output::Output;
use differences::{Differences, Summary};
use indicatif::{ProgressBar, ProgressStyle};
use positions::Positions;
use rukh_backend::owned_request::{OwnedRequest, evaluate};
use rukh_backend::{Backend, BackendError, Comparison, Evaluations};
use rukh_options::Options;
use rukh_registry::{self, BackendConfig, CreatedBackend};
use serde_json::json;
use std::panic::resume_unwind;

/// The line that shows the progress on a terminal.
const PROGRESS: &str = "[{elapsed}] {bar:40} {pos} of {len} positions, {eta} left";

/// Evaluates the positions on both backends, and prints the differences.
///
/// # Errors
/// A backend cannot be made or fails, or a file cannot be read.
pub(super) fn run(arguments: &CheckArgs, options: &Options, output: &Output) -> Result<(), CliError> {
    open_log(options, output)?;
    let mut positions = Positions::new(&arguments.files, arguments.seed)?;
    // The policy is compared as the network gives it.
    let config = BackendConfig {
        cache_entries: 0,
        policy_softmax_temperature: 1.0,
        ..BackendConfig::from_options(options)
    };
    let mut said = Vec::new();
    let tested = made(&config, &mut said)?;
    let network = tested.network.clone();
    let config = BackendConfig {
        backend: arguments.reference.clone(),
        options: arguments.reference_opts.clone(),
        ..config
    };
    let reference = made(&config, &mut said)?;
    let is_same = tested.backend.attributes().name == reference.backend.attributes().name;
    if is_same && reference.backend.attributes().runs_on_cpu {
        let name = &reference.backend.attributes().name;
        print_error_line(&format!(
            "both backends are {name}, so this does not test a card: see --backend and --reference"
        ));
    }
    let tested = tested.backend;
    let reference = reference.backend;
    let both = [&tested, &reference];
    let batch = both.iter().map(|backend| backend.attributes().maximum_batch_size).min().unwrap_or(1);
    let batch = batch.min(arguments.batch as usize).max(1);
    let wanted = arguments.positions as usize;
    let mut differences = Differences::default();
    // The bar is drawn on stderr, and only if that is a terminal.
    let bar = ProgressBar::new(u64::from(arguments.positions));
    if let Ok(style) = ProgressStyle::with_template(PROGRESS) {
        bar.set_style(style);
    }
    while differences.count() < wanted {
        let requests = positions.next(batch.min(wanted - differences.count()));
        if requests.is_empty() {
            break;
        }
        let [said, right] = [&tested, &reference]
            .map(|backend| evaluate_all(&**backend, &requests, options.threads as usize));
        let (said, right) = (said?, right?);
        let pairs = said.iter().zip(right.iter());
        pairs.for_each(|(said, right)| differences.add(Comparison::new(said, right)));
        positions.play(&right);
        bar.set_position(differences.count() as u64);
    }
    bar.finish_and_clear();
    if differences.count() == 0 {
        return Err("the files have no position with a legal move".into());
    }
    let names = [&tested, &reference].map(|backend| backend.attributes().name.clone());
    let summary = differences.summary();
    if arguments.json {
        output.line(&json_text(&names, network.as_deref(), &summary));
    } else {
        output.lines(&lines(&names, &summary));
    }
    Ok(())
}

/// Evaluates the requests. A backend on the processor evaluates a batch on the thread that submits it, so that each of
/// `threads` submits a part (with 0, as many as suit the backend). The evaluations do not depend on their number.
fn evaluate_all(
    backend: &dyn Backend,
    requests: &[OwnedRequest],
    threads: usize,
) -> Result<Evaluations, BackendError> {
    let threads = match (backend.attributes().runs_on_cpu, threads) {
        (false, _) => 1,
        (true, 0) => backend.attributes().suggested_threads,
        (true, threads) => threads,
    };
    let part = requests.len().div_ceil(threads.max(1)).max(1);
    let parts: Vec<Result<Evaluations, BackendError>> = std::thread::scope(|scope| {
        let started: Vec<_> =
            requests.chunks(part).map(|some| scope.spawn(move || evaluate(backend, some))).collect();
        started.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut all = Evaluations::with_capacity(requests.len());
    for evaluations in parts {
        all.append(&evaluations?);
    }
    Ok(all)
}

/// Makes a backend. Prints its notices and adds them to `said`, but for those that are there already.
fn made(config: &BackendConfig, said: &mut Vec<String>) -> Result<CreatedBackend, CliError> {
    let created = rukh_registry::create_alone(config)?;
    for notice in &created.notices {
        if !said.contains(notice) {
            print_error_line(notice);
            said.push(notice.clone());
        }
    }
    Ok(created)
}

/// The table for people.
fn lines(names: &[String; 2], summary: &Summary) -> Vec<String> {
    let mut lines = vec![
        format!("{} compared with {}, {} positions", names[0], names[1], summary.positions),
        format!("{:24} {:>10} {:>10} {:>10}", "difference", "mean", "99 %", "largest"),
    ];
    for (name, figure) in summary.figures() {
        let [mean, percentile, largest] =
            [figure.mean, figure.percentile_99, figure.largest].map(|value| format!("{value:.5}"));
        lines.push(format!("{name:24} {mean:>10} {percentile:>10} {largest:>10}"));
    }
    lines.push(format!("with signs, q differs by {:+.5} on average", summary.signed_q));
    lines.push(format!("the same move has the highest prior in {:.2} %", 100.0 * summary.same_best_move));
    lines
}

fn json_text(names: &[String; 2], network: Option<&str>, summary: &Summary) -> String {
    json!({ "network": network, "backend": names[0], "reference": names[1], "summary": summary }).to_string()
}
