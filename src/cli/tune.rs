//! `tune`: finds the fastest algorithm for each of a network's GEMMs on a card.

use super::args::TuneArgs;
use super::error::{CliError, print_error_line};
use super::gpu_choice::{GpuBackendChoice, gpu_choice};
use super::interrupt::catch_interrupt;
use crate::uci::output::Output;
use indicatif::{ProgressBar, ProgressStyle};
use rukh_gpu::{GivenOptions, TuneOutcome, TuneStage, tune};
use rukh_net::find_network;
use rukh_options::Options;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The line that shows the progress on a terminal.
const PROGRESS: &str = "[{elapsed}] {bar:40} {pos} of {len} {prefix}, {msg} left";

/// Without a terminal, a line of progress is written so often.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// Measures the GEMMs, and says where the result is kept.
///
/// # Errors
/// An option is invalid, the network cannot be read, or there is no card that can be used.
pub(super) fn run(arguments: &TuneArgs, options: &Options, output: &Output) -> Result<(), CliError> {
    let GpuBackendChoice { maker, backend, precision, options: text } = gpu_choice("tune", options);
    let GivenOptions { options: backend_options, heads } = GivenOptions::read(maker, &text)?;
    let file = find_network(&options.weights, print_error_line)?;
    print_error_line(&format!("network {}", file.path().display()));
    let network = file.network(&heads)?;
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let interrupter = Arc::clone(&is_interrupted);
    catch_interrupt(move || interrupter.store(true, Ordering::Relaxed))?;
    let budget = Duration::from_secs(arguments.seconds);
    let mut progress = Progress::new(budget);
    let begin = Instant::now();
    let mut tell = |stage, done, all| {
        progress.show(stage, done, all);
        !is_interrupted.load(Ordering::Relaxed)
    };
    let outcome = tune(backend.name(), &backend_options, (network, precision), budget, &mut tell);
    progress.end();
    let outcome = outcome?;
    let seconds = begin.elapsed().as_secs_f64();
    let is_interrupted = is_interrupted.load(Ordering::Relaxed);
    outcome.notices.iter().for_each(|notice| print_error_line(notice));
    if arguments.json {
        output.line(&json_text(&outcome, seconds, is_interrupted));
    } else {
        output.lines(&lines(&outcome, seconds, is_interrupted));
    }
    Ok(())
}

/// The result for people.
fn lines(outcome: &TuneOutcome, seconds: f64, is_interrupted: bool) -> Vec<String> {
    let TuneOutcome { device, table, gemms, measured, left, by_library, settings, ladder, passes, .. } =
        outcome;
    let [faster, used] = outcome.preshuffled;
    let by_library: Vec<String> =
        by_library.iter().map(|(library, count)| format!("{library} {count}")).collect();
    let mut lines = vec![
        format!("{device}: {measured} GEMMs measured in {seconds:.1} s"),
        format!("the fastest of {gemms} GEMMs: {}", by_library.join(", ")),
        format!("preshuffled weights: faster for {faster} GEMMs, used for {used}"),
        format!("transposed weights: used for {} GEMMs", outcome.transposed),
        format!("weights of 8 bits: used for {} GEMMs", outcome.byte_weights),
    ];
    if *left > 0 {
        let why = if is_interrupted { "interrupted" } else { "out of time" };
        lines.push(format!("{why}: {left} GEMMs are left; run `rukh tune` again to go on"));
    }
    match settings.as_deref() {
        Some("") => lines.push("no settings are faster than the defaults".to_owned()),
        Some(settings) => lines.push(format!("the fastest settings: {settings}")),
        None => {}
    }
    lines.push(format!("recommended batch size: {}", outcome.batch));
    if !ladder.is_empty() {
        let sizes: Vec<String> = ladder.iter().map(ToString::to_string).collect();
        lines.push(format!("batch sizes: {}", sizes.join(" ")));
    }
    if !passes.is_empty() {
        lines.push(format!("padding takes {:.1} % of the time at most", 100.0 * outcome.padding));
    }
    match outcome.defaults.as_deref() {
        Some([]) => lines.push("no batch size keeps the default's GEMMs".to_owned()),
        Some(sizes) => {
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            lines.push(format!(
                "these batch sizes keep the default's GEMMs, because the tuned ones are not measurably faster: {}",
                sizes.join(" ")
            ));
        }
        None if *left == 0 => lines.push(
            "the comparison with the default's GEMMs is left; run `rukh tune` again to make it".to_owned(),
        ),
        None => {}
    }
    lines.push(match table {
        Some(path) => format!("the table is in {}; the next start uses it", path.display()),
        None => "there is no cache folder, so nothing is kept".to_owned(),
    });
    lines
}

/// The result for programs.
fn json_text(outcome: &TuneOutcome, seconds: f64, is_interrupted: bool) -> String {
    let TuneOutcome { device, table, gemms, measured, left, by_library, .. } = outcome;
    let TuneOutcome { settings, ladder, passes, padding, notices, .. } = outcome;
    let [faster, used] = outcome.preshuffled;
    let passes: Vec<_> =
        passes.iter().map(|pass| json!({"batch": pass.positions, "ms": pass.milliseconds})).collect();
    let fastest: serde_json::Map<_, _> =
        by_library.iter().map(|(library, count)| ((*library).to_owned(), (*count).into())).collect();
    json!({
        "device": device,
        "table": table,
        "gemms": gemms,
        "measured": measured,
        "left": left,
        "interrupted": is_interrupted,
        "seconds": seconds,
        "fastest": fastest,
        "preshuffled": {"faster": faster, "used": used},
        "transposed": outcome.transposed,
        "byte_weights": outcome.byte_weights,
        "settings": settings,
        "batch": outcome.batch,
        "ladder": ladder,
        "passes": passes,
        "padding": padding,
        "kept_default": outcome.defaults,
        "notices": notices,
    })
    .to_string()
}

/// Shows on stderr how far the measurements are.
struct Progress {
    bar: ProgressBar,
    stage: TuneStage,
    /// The start of the stage, and the time that was left then.
    begin: Instant,
    budget: Duration,
    last_line: Instant,
}

impl Progress {
    fn new(budget: Duration) -> Progress {
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template(PROGRESS) {
            bar.set_style(style);
        }
        let now = Instant::now();
        Progress { bar, stage: TuneStage::Gemms, begin: now, budget, last_line: now }
    }

    fn show(&mut self, stage: TuneStage, done: usize, all: usize) {
        if stage != self.stage {
            self.budget = self.budget.saturating_sub(self.begin.elapsed());
            (self.stage, self.begin) = (stage, Instant::now());
        }
        let what = match stage {
            TuneStage::Gemms => "GEMMs",
            TuneStage::Settings => "settings",
            TuneStage::Passes => "rounds of whole passes",
            TuneStage::Defaults => "steps of the comparison with the default",
        };
        let left = time_left(self.begin.elapsed(), self.budget, done, all);
        let left = left.map_or_else(|| "some time".to_owned(), |left| format!("{:.0} s", left.as_secs_f64()));
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        self.bar.set_prefix(what);
        self.bar.set_message(left.clone());
        if self.bar.is_hidden() && self.last_line.elapsed() >= BETWEEN_LINES {
            print_error_line(&format!("{done} of {all} {what}, {left} left"));
            self.last_line = Instant::now();
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// The time left, if the other GEMMs take as long as those that are done; `None` while none is done.
fn time_left(elapsed: Duration, budget: Duration, done: usize, all: usize) -> Option<Duration> {
    let each = elapsed.checked_div(u32::try_from(done).ok()?)?;
    let left = each * u32::try_from(all.saturating_sub(done)).ok()?;
    Some(left.min(budget.saturating_sub(elapsed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_time_so_far() {
        let [two, six, ten, hour] = [2, 6, 10, 3600].map(Duration::from_secs);
        assert_eq!(time_left(two, hour, 0, 40), None);
        assert_eq!(time_left(two, hour, 10, 40), Some(six));
        assert_eq!(time_left(two, ten, 1, 40), Some(Duration::from_secs(8)));
        assert_eq!(time_left(ten, six, 1, 40), Some(Duration::ZERO));
    }
}
