//! `check`: evaluates on two backends and reports their differences. The search gets the evaluations of the first.
//!
//! It tests a new kernel, number format or card in real play. Reports go to stderr or to a [`ReportSink`], never to
//! stdout, which belongs to UCI. There is a report on each compared batch. With the mode `check` it is one line that
//! says whether the batch passed; with `display` it has the largest errors, and with `histo` a histogram of all errors.
//! A summary follows when the backend is dropped.

use crate::ticket::{OrderedBatch, OrderedTicket};
use crate::{
    Added, Attributes, Backend, BackendError, Batch, Comparison, DeviceWork, Devices, EvalRequest,
    Evaluation, Evaluations, Figure, Ticket,
};
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The contents of the report on each compared batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckMode {
    /// Whether all values and priors are within the tolerances.
    Check,
    /// The largest absolute and relative errors.
    Display,
    /// The number of errors of each order of magnitude.
    Histogram,
}

/// The choice of the batches to compare, the tolerances, and the form of the reports.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// The contents of the reports.
    pub mode: CheckMode,
    /// The largest absolute error that passes.
    pub absolute_tolerance: f64,
    /// The largest relative error that passes: the difference divided by the larger of the two figures. A figure within
    /// either tolerance passes.
    pub relative_tolerance: f64,
    /// The share of batches that are compared, 0 … 1.
    pub frequency: f64,
}

/// The defaults of lc0's `check`.
impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions {
            mode: CheckMode::Check,
            absolute_tolerance: 1e-5,
            relative_tolerance: 1e-4,
            frequency: 0.2,
        }
    }
}

/// Receives each report, which may have several lines.
pub type ReportSink = Box<dyn Fn(&str) + Send + Sync>;

/// Two backends, compared with each other.
pub struct CheckBackend {
    attributes: Attributes,
    work: Arc<dyn Backend>,
    reference: Arc<dyn Backend>,
    shared: Arc<Shared>,
    /// The number of batches made so far. Accesses are relaxed, because no other memory depends on the count.
    batches: AtomicU64,
}

/// The settings and results that all batches share.
struct Shared {
    options: CheckOptions,
    /// Whether both backends evaluate [`Value::e`](crate::Value::e).
    has_value_error: bool,
    sink: ReportSink,
    totals: Mutex<Totals>,
}

#[derive(Default)]
struct Totals {
    batches: u64,
    failed: u64,
    values: Errors,
    priors: Errors,
}

impl CheckBackend {
    /// Compares `work` with `reference` and reports to stderr.
    pub fn new(work: Arc<dyn Backend>, reference: Arc<dyn Backend>, options: CheckOptions) -> CheckBackend {
        // `eprintln!` panics if stderr is closed.
        let to_stderr = |line: &str| drop(writeln!(std::io::stderr(), "{line}"));
        CheckBackend::with_sink(work, reference, options, Box::new(to_stderr))
    }

    /// Compares `work` with `reference` and reports to `sink`.
    pub fn with_sink(
        work: Arc<dyn Backend>,
        reference: Arc<dyn Backend>,
        options: CheckOptions,
        sink: ReportSink,
    ) -> CheckBackend {
        let (ours, theirs) = (work.attributes(), reference.attributes());
        let attributes = Attributes {
            name: format!("check({}, {})", ours.name, theirs.name),
            has_wdl: ours.has_wdl && theirs.has_wdl,
            has_mlh: ours.has_mlh && theirs.has_mlh,
            has_value_error: ours.has_value_error && theirs.has_value_error,
            runs_on_cpu: ours.runs_on_cpu || theirs.runs_on_cpu,
            suggested_threads: ours.suggested_threads,
            recommended_batch_size: ours.recommended_batch_size,
            maximum_batch_size: ours.maximum_batch_size.min(theirs.maximum_batch_size),
            batch_sizes: ours.batch_sizes.clone(),
        };
        sink(&format!(
            "check: comparing {} with {} in {:.0} % of batches; tolerances: {:.1e} absolute, {:.1e} relative",
            ours.name,
            theirs.name,
            100.0 * options.frequency,
            options.absolute_tolerance,
            options.relative_tolerance
        ));
        let has_value_error = attributes.has_value_error;
        let shared = Arc::new(Shared { options, has_value_error, sink, totals: Mutex::default() });
        CheckBackend { attributes, work, reference, shared, batches: AtomicU64::new(0) }
    }

    /// The number of batches compared, and how many of them were out of tolerance.
    pub fn totals(&self) -> (u64, u64) {
        let totals = self.shared.totals.lock().unwrap_or_else(PoisonError::into_inner);
        (totals.batches, totals.failed)
    }
}

impl Backend for CheckBackend {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    fn new_batch(&self) -> Box<dyn Batch> {
        // Spreads the comparisons evenly and repeatably: batch n is compared if n * frequency and (n + 1) * frequency
        // have different integer parts.
        let batch = self.batches.fetch_add(1, Ordering::Relaxed) as f64;
        let frequency = self.shared.options.frequency;
        if ((batch + 1.0) * frequency).floor() <= (batch * frequency).floor() {
            return self.work.new_batch();
        }
        let ordered =
            |backend: &Arc<dyn Backend>| OrderedBatch::new(&backend.attributes().name, backend.new_batch());
        Box::new(CheckBatch {
            work: ordered(&self.work),
            reference: ordered(&self.reference),
            shared: Arc::clone(&self.shared),
        })
    }

    fn cached(&self, request: EvalRequest<'_>) -> Option<Evaluation> {
        self.work.cached(request)
    }

    fn clear_cache(&self) {
        self.work.clear_cache();
        self.reference.clear_cache();
    }

    fn devices(&self) -> Devices {
        self.work.devices()
    }

    fn work(&self) -> Vec<DeviceWork> {
        self.work.work()
    }
}

impl Drop for CheckBackend {
    fn drop(&mut self) {
        let totals = self.shared.totals.lock().unwrap_or_else(PoisonError::into_inner);
        (self.shared.sink)(&format!(
            "check: {} batches compared, {} failed; values {}; priors {}",
            totals.batches, totals.failed, totals.values, totals.priors
        ));
    }
}

struct CheckBatch {
    work: OrderedBatch,
    reference: OrderedBatch,
    shared: Arc<Shared>,
}

impl Batch for CheckBatch {
    fn len(&self) -> usize {
        self.work.len()
    }

    fn add(&mut self, request: EvalRequest<'_>) -> Added {
        self.work.add(request);
        self.reference.add(request);
        Added::Queued
    }

    fn submit(self: Box<Self>) -> Box<dyn Ticket> {
        Box::new(CheckTicket {
            work: self.work.submit(),
            reference: self.reference.submit(),
            shared: self.shared,
        })
    }
}

struct CheckTicket {
    work: OrderedTicket,
    reference: OrderedTicket,
    shared: Arc<Shared>,
}

impl Ticket for CheckTicket {
    /// Fails if either backend fails, because a check must not stop silently.
    fn wait(self: Box<Self>) -> Result<Evaluations, BackendError> {
        let (work, reference) = (self.work.finish(), self.reference.finish());
        let work = work?;
        self.shared.compare(&work, &reference?);
        Ok(work)
    }
}

impl Shared {
    fn compare(&self, work: &Evaluations, reference: &Evaluations) {
        let (mut values, mut priors) = (Errors::default(), Errors::default());
        for (work, reference) in work.iter().zip(reference.iter()) {
            let comparison = Comparison::new(work, reference);
            values.add(&self.options, comparison.q());
            values.add(&self.options, comparison.d());
            if self.has_value_error {
                values.add(&self.options, comparison.e());
            }
            priors.failed += u64::from(!comparison.has_same_moves());
            comparison.priors().for_each(|prior| priors.add(&self.options, prior));
        }
        self.report(work.len(), &values, &priors);
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.batches += 1;
        totals.failed += u64::from(values.failed + priors.failed > 0);
        totals.values.merge(&values);
        totals.priors.merge(&priors);
    }

    fn report(&self, length: usize, values: &Errors, priors: &Errors) {
        let report = match self.options.mode {
            CheckMode::Check if values.failed + priors.failed == 0 => {
                format!("check: passed for a batch of {length}")
            }
            CheckMode::Check => format!(
                "check: *** FAILED *** for a batch of {length}: {} of {} values and {} of {} priors differ",
                values.failed, values.count, priors.failed, priors.count
            ),
            CheckMode::Display => {
                format!("check: largest errors in a batch of {length}: values {values}; priors {priors}")
            }
            CheckMode::Histogram => {
                let mut both = values.clone();
                both.merge(priors);
                format!("check: absolute errors in a batch of {length}:{}", both.histogram_text())
            }
        };
        (self.sink)(&report);
    }
}

/// The number of bars in the histogram: one for errors below 10^-12, and one for each power of ten up to 10^0.
const DECADES: usize = 14;

/// The differences between two sets of figures.
#[derive(Clone, Default)]
struct Errors {
    count: u64,
    /// The number of figures out of tolerance.
    failed: u64,
    largest_absolute: f64,
    largest_relative: f64,
    /// `[0]` counts errors below 10^-12; `[1 + k]` counts errors from 10^(k - 12) to the next power of ten.
    decades: [u64; DECADES],
}

impl Errors {
    fn add(&mut self, options: &CheckOptions, figure: Figure) {
        let (absolute, scale) = (figure.absolute(), figure.scale());
        self.count += 1;
        let passes = absolute <= (options.relative_tolerance * scale).max(options.absolute_tolerance);
        self.failed += u64::from(!passes);
        self.largest_absolute = self.largest_absolute.max(absolute);
        if scale > 0.0 {
            self.largest_relative = self.largest_relative.max(absolute / scale);
        }
        let decade = (absolute.log10().floor() + 13.0).clamp(0.0, (DECADES - 1) as f64);
        self.decades[decade as usize] += 1;
    }

    fn merge(&mut self, other: &Errors) {
        self.count += other.count;
        self.failed += other.failed;
        self.largest_absolute = self.largest_absolute.max(other.largest_absolute);
        self.largest_relative = self.largest_relative.max(other.largest_relative);
        for (ours, theirs) in self.decades.iter_mut().zip(other.decades) {
            *ours += theirs;
        }
    }

    fn histogram_text(&self) -> String {
        let mut text = String::new();
        for (decade, &count) in self.decades.iter().enumerate().filter(|(_, count)| **count > 0) {
            let part = 100.0 * count as f64 / self.count as f64;
            let label = match decade {
                0 => "     < 1e-12".to_owned(),
                _ => format!(">= 1e{:<+4}   ", decade as i32 - 13),
            };
            let bar = "#".repeat((part / 2.0).ceil() as usize);
            text.push_str(&format!("\n  {label} {count:>8} {part:>5.1} % {bar}"));
        }
        text
    }
}

impl std::fmt::Display for Errors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1e} absolute, {:.1e} relative", self.largest_absolute, self.largest_relative)
    }
}
