//! `backendbench`: measures the speed of the backend for each batch size, without a search or a cache.
//!
//! The same position fills every batch. Each thread submits a batch, waits for it, and records the time. The statistics
//! use the time from the end of one batch to the end of the next, so the first batch of each thread appears only in the
//! columns "first". Columns, units and statistics are lc0's, so that tables can be compared line by line.
//!
//! lc0 measures every size up to 256, which takes an hour on a processor. There, unless a flag names sizes, only powers
//! of two are measured, each for a limited time.

use super::args::BackendbenchArgs;
use super::chart::{Chart, Mark, Panel, Places, Shape};
use super::clippy::Recommendation;
use super::error::{CliError, WrongArguments, print_error_line};
use super::machine;
use super::output_file::{check_outputs, open_log};
use crate::uci::output::Output;
use rukh_backend::{Added, Backend, BackendError, EvalRequest};
use rukh_chess::{Position, PositionHistory};
use rukh_options::Options;
use rukh_registry::{self, BackendConfig};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The header is repeated after this number of lines, unless `--header-only-once` is given.
const LINES_PER_HEADER: u32 = 32;

const HEADER: &str =
    "size, mean nps, mean ms,   sdev,     cv, max nps,  median, min nps, first max, first mean";

/// Batches of the largest size that each thread evaluates before the measurement, to raise the processor's clock speed.
const WARM_UP_BATCHES: u32 = 2;

/// Time between the discovery of a better size and its intermediate recommendation.
const CLIPPY_PATIENCE: Duration = Duration::from_secs(10);

/// The largest batch size of lc0's list, which begins with 1.
const LARGEST_SIZE: u32 = 256;
/// The sizes that are measured on a processor.
const LADDER: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, LARGEST_SIZE];
/// The time for each of these sizes.
const TIME_PER_SIZE: Duration = Duration::from_secs(10);
/// The time for all of them.
const TIME_FOR_LADDER: Duration = Duration::from_secs(110);
/// The size of the warm-up batches before these sizes are measured.
const LADDER_WARM_UP: u32 = 8;

/// The times of the batches of one size.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(super) struct Measurement {
    /// Positions in a batch.
    pub size: u32,
    /// Positions per second.
    pub mean_nps: f64,
    /// Milliseconds per batch, divided by the number of threads.
    pub mean_ms: f64,
    /// Standard deviation of these milliseconds.
    pub sdev_ms: f64,
    /// Coefficient of variation: standard deviation divided by mean.
    pub cv: f64,
    /// Positions per second of the fastest batch.
    pub max_nps: f64,
    /// Positions per second of the median batch.
    pub median_nps: f64,
    /// Positions per second of the slowest batch.
    pub min_nps: f64,
    /// The longest time between the ends of two consecutive first batches of the threads, in milliseconds.
    pub first_max_ms: f64,
    /// The mean time between the ends of two consecutive first batches of the threads, in milliseconds.
    pub first_mean_ms: f64,
}

/// Runs the benchmark.
///
/// # Errors
/// The position is invalid, the backend fails, or there are too few batches.
pub(super) fn run(arguments: &BackendbenchArgs, options: &Options, output: &Output) -> Result<(), CliError> {
    let start = arguments.start_batch_size.unwrap_or(1);
    let max = arguments.max_batch_size.unwrap_or(LARGEST_SIZE);
    if start > max {
        let reason = format!("--start-batch-size={start} is more than --max-batch-size={max}");
        return Err(WrongArguments(reason).into());
    }
    check_outputs(&[("--svg", arguments.svg.as_deref())], &[], options)?;
    open_log(options, output)?;
    let position = Position::from_fen(&arguments.fen).map_err(WrongArguments::because_of)?;
    let mut moves = Vec::new();
    position.packed_moves(&mut moves);
    let history = PositionHistory::new(position);
    // Without a cache, every evaluation has to be computed.
    let config = BackendConfig { cache_entries: 0, ..BackendConfig::from_options(options) };
    let created = rukh_registry::create(&config)?;
    created.notices.iter().for_each(|notice| print_error_line(notice));
    let backend = created.backend;
    let names_sizes = [arguments.start_batch_size, arguments.max_batch_size, arguments.batch_step];
    let is_ladder = backend.attributes().runs_on_cpu && names_sizes.iter().all(Option::is_none);
    let begin = Instant::now();
    let bench = Bench {
        backend: &*backend,
        request: EvalRequest { history: &history, moves: &moves },
        threads: options.threads.max(1),
        batches: arguments.batches,
        time_per_size: is_ladder.then_some(TIME_PER_SIZE),
    };
    bench.warm_up(if is_ladder { LADDER_WARM_UP } else { max })?;

    let mut measurements: Vec<Measurement> = Vec::new();
    let mut recommendation = Recommendation::default();
    let mut better_since: Option<Instant> = None;
    let sizes: Vec<u32> = match is_ladder {
        true => LADDER.to_vec(),
        false => (start..=max).step_by(arguments.batch_step.unwrap_or(1) as usize).collect(),
    };
    for (index, &size) in (0..).zip(&sizes) {
        if let Some(last) = measurements.last().filter(|_| is_ladder)
            && begin.elapsed() + bench.shortest_time(size, last.mean_nps) > TIME_FOR_LADDER
        {
            print_error_line(&format!(
                "batches of {size} and more positions would take too long; --max-batch-size={LARGEST_SIZE} measures all"
            ));
            break;
        }
        let measurement = bench.measure(size)?;
        measurements.push(measurement.clone());
        if arguments.json {
            continue;
        }
        if index == 0 || (!arguments.header_only_once && index % LINES_PER_HEADER == 0) {
            output.line(HEADER);
        }
        output.line(&table_line(&measurement));
        if arguments.clippy {
            if recommendation.consider(size, measurement.mean_nps) {
                better_since.get_or_insert_with(Instant::now);
            }
            if better_since.is_some_and(|since| since.elapsed() > CLIPPY_PATIENCE) {
                better_since = None;
                output.lines(&recommendation.lines("Recommended minibatch-size for this net (so far):"));
            }
        }
    }
    if let Some(path) = &arguments.svg {
        let threads = match bench.threads {
            1 => String::new(),
            threads => format!("{threads} batches at a time"),
        };
        let mut facts = machine::facts(options, &backend.attributes().name);
        facts.insert(2, threads);
        chart(&measurements, bench.threads, facts).write(path)?;
    }
    if arguments.json {
        let result = serde_json::json!({
            "backend": backend.attributes().name,
            "threads": bench.threads,
            "sizes": measurements,
        });
        output.line(&result.to_string());
    } else if arguments.clippy {
        output.lines(&recommendation.lines("Recommended minibatch-size for this net:"));
    }
    Ok(())
}

/// The settings that all batch sizes share.
struct Bench<'a> {
    backend: &'a dyn Backend,
    request: EvalRequest<'a>,
    threads: u32,
    batches: u32,
    /// The time after which a size has had enough batches.
    time_per_size: Option<Duration>,
}

/// The times at which the batches of one thread ended.
type Ends = Vec<Instant>;

impl Bench<'_> {
    /// Evaluates a few batches of `size` positions on every thread.
    fn warm_up(&self, size: u32) -> Result<(), CliError> {
        self.on_all_threads(|| {
            (0..WARM_UP_BATCHES).try_for_each(|_| self.evaluate(size)).map(|()| Ends::new())
        })?;
        Ok(())
    }

    /// Evaluates the batches of one size. Each thread takes the next batch when it is free.
    fn measure(&self, size: u32) -> Result<Measurement, CliError> {
        let next_batch = AtomicU32::new(0);
        let begin = Instant::now();
        let is_enough = |batch: u32| {
            let is_late = self.time_per_size.is_some_and(|limit| begin.elapsed() > limit);
            batch >= self.batches || (is_late && batch >= self.fewest_batches())
        };
        let ends = self.on_all_threads(|| {
            let mut ends = Ends::new();
            while !is_enough(next_batch.fetch_add(1, Ordering::Relaxed)) {
                self.evaluate(size)?;
                ends.push(Instant::now());
            }
            Ok(ends)
        })?;
        summarise(size, self.threads, begin, &ends)
            .ok_or_else(|| WrongArguments("--batches must be more than twice --threads".to_owned()).into())
    }

    /// The number of batches of a size that its statistics need.
    fn fewest_batches(&self) -> u32 {
        2 * self.threads + 1
    }

    /// How long a size takes at least, at a speed in positions per second.
    fn shortest_time(&self, size: u32, speed: f64) -> Duration {
        let positions = f64::from(size) * f64::from(self.fewest_batches().min(self.batches));
        Duration::try_from_secs_f64(positions / speed).unwrap_or(Duration::MAX / 2)
    }

    /// Runs `work` on every thread at once. Returns the first error, if there is one.
    fn on_all_threads(
        &self,
        work: impl Fn() -> Result<Ends, BackendError> + Sync,
    ) -> Result<Vec<Ends>, CliError> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(&work)).collect();
            let ends = threads.into_iter().map(|thread| match thread.join() {
                Ok(ends) => ends.map_err(CliError::from),
                Err(_) => Err("a benchmark thread panicked".into()),
            });
            ends.collect()
        })
    }

    /// Evaluates a batch of `size` positions. If the backend's batches are smaller, several are in flight together.
    fn evaluate(&self, size: u32) -> Result<(), BackendError> {
        let largest = self.backend.attributes().maximum_batch_size.max(1);
        let mut left = size as usize;
        let mut tickets = Vec::new();
        while left > 0 {
            let mut batch = self.backend.new_batch();
            for _ in 0..left.min(largest) {
                // There is no cache, so an immediate answer is an evaluation, too.
                let _: Added = batch.add(self.request);
            }
            left -= left.min(largest);
            tickets.push(batch.submit());
        }
        tickets.into_iter().try_for_each(|ticket| ticket.wait().map(drop))
    }
}

/// The statistics of one size. `None` if there are fewer than two times.
fn summarise(size: u32, threads: u32, begin: Instant, ends: &[Ends]) -> Option<Measurement> {
    let threads = f64::from(threads);
    let mut seconds: Vec<f64> = ends
        .iter()
        .flat_map(|ends| ends.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() / threads))
        .collect();
    if seconds.len() < 2 {
        return None;
    }
    seconds.sort_by(f64::total_cmp);
    let (count, size_f) = (seconds.len(), f64::from(size));
    let mean = seconds.iter().sum::<f64>() / count as f64;
    let squares: f64 = seconds.iter().map(|time| (time - mean).powi(2)).sum();
    let sdev = (squares / (count - 1) as f64).sqrt();
    let median = (seconds[(count - 1) / 2] + seconds[count / 2]) / 2.0;

    let mut firsts: Vec<Instant> = ends.iter().filter_map(|ends| ends.first().copied()).collect();
    firsts.sort();
    let waits = std::iter::once(begin).chain(firsts.iter().copied()).zip(&firsts);
    let first_max = waits.map(|(before, &after)| after - before).max().unwrap_or_default();
    let first_total = firsts.last().map_or(Duration::ZERO, |&last| last - begin);
    Some(Measurement {
        size,
        mean_nps: size_f / mean,
        mean_ms: mean * 1e3,
        sdev_ms: sdev * 1e3,
        cv: sdev / mean,
        max_nps: size_f / seconds[0],
        median_nps: size_f / median,
        min_nps: size_f / seconds[count - 1],
        first_max_ms: first_max.as_secs_f64() * 1e3,
        first_mean_ms: first_total.as_secs_f64() * 1e3 / threads,
    })
}

/// A picture of the speed and the latency by batch size.
fn chart(measurements: &[Measurement], threads: u32, facts: Vec<String>) -> Chart {
    let threads = f64::from(threads);
    let of_each = |value: &dyn Fn(&Measurement) -> f64| measurements.iter().map(value).collect::<Vec<f64>>();
    // The times of the batches, one standard deviation below and above the mean, but not below the fastest.
    let times = |m: &Measurement| {
        let fastest_ms = f64::from(m.size) / m.max_nps * 1e3;
        ((m.mean_ms - m.sdev_ms).max(fastest_ms), m.mean_ms + m.sdev_ms)
    };
    let speeds = |m: &Measurement| {
        let (low_ms, high_ms) = times(m);
        (f64::from(m.size) / high_ms * 1e3, f64::from(m.size) / low_ms * 1e3)
    };
    let latencies = |m: &Measurement| (times(m).0 * threads, times(m).1 * threads);
    let panel = |heading: &str, band: Vec<(f64, f64)>, mean: Vec<f64>| Panel {
        heading: heading.to_owned(),
        least_top: 0.0,
        marks: vec![
            Mark { name: "± one standard deviation".to_owned(), shape: Shape::Band(band) },
            Mark { name: "mean".to_owned(), shape: Shape::Line(mean) },
        ],
    };
    Chart {
        title: "Speed of the evaluation".to_owned(),
        facts,
        x_label: "Batch size".to_owned(),
        places: Places::Numbers(of_each(&|m| f64::from(m.size))),
        panels: vec![
            panel(
                "Positions per second",
                measurements.iter().map(speeds).collect(),
                of_each(&|m| m.mean_nps),
            ),
            panel(
                "Milliseconds per batch",
                measurements.iter().map(latencies).collect(),
                of_each(&|m| m.mean_ms * threads),
            ),
        ],
    }
}

/// A line of lc0's table.
fn table_line(m: &Measurement) -> String {
    format!(
        "{:4},{:9.0},{:>8},{:7.4},{:7.4},{:8.0},{:8.0},{:8.0},{:10.4},{:11.4}",
        m.size,
        m.mean_nps,
        four_digits(m.mean_ms),
        m.sdev_ms,
        m.cv,
        m.max_nps,
        m.median_nps,
        m.min_nps,
        m.first_max_ms,
        m.first_mean_ms
    )
}

/// Formats like C's `%.4g`: four significant digits without trailing zeros, in scientific notation if that is shorter.
fn four_digits(value: f64) -> String {
    // The exponent in a text such as "1.234e2" is that of the rounded value.
    let scientific = format!("{value:.3e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    if (-4..4).contains(&exponent) {
        return trimmed(&format!("{value:.*}", (3 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_backend::synthetic::{DeviceOptions, SimulatedDevice, TrivialBackend};
    use std::sync::Arc;

    /// The expected texts are the output of C's printf.
    #[test]
    fn four_digits_are_those_of_c() {
        for (value, text) in [
            (0.4322, "0.4322"),
            (0.44, "0.44"),
            (2.78, "2.78"),
            (13.0944, "13.09"),
            (1234.4, "1234"),
            (9999.6, "1e+04"),
            (12345.6, "1.235e+04"),
            (0.00012344, "0.0001234"),
            (0.000012344, "1.234e-05"),
            (0.0, "0"),
        ] {
            assert_eq!(four_digits(value), text);
        }
    }

    /// A line that lc0 printed.
    #[test]
    fn lines_are_lc0s() {
        let measurement = Measurement {
            size: 25,
            mean_nps: 1910.3,
            mean_ms: 13.0871,
            sdev_ms: 1.91752,
            cv: 0.14652,
            max_nps: 2635.2,
            median_nps: 1845.1,
            min_nps: 1417.4,
            first_max_ms: 13.6518,
            first_mean_ms: 13.6518,
        };
        assert_eq!(
            table_line(&measurement),
            "  25,     1910,   13.09, 1.9175, 0.1465,    2635,    1845,    1417,   13.6518,    13.6518"
        );
        assert_eq!(HEADER.len(), table_line(&measurement).len());
    }

    #[test]
    fn a_slow_size_ends_after_its_time_with_enough_batches() {
        let options = DeviceOptions { delay: Duration::from_millis(5), ..DeviceOptions::default() };
        let backend = SimulatedDevice::new(Arc::new(TrivialBackend::new()), options);
        let history = PositionHistory::new(Position::startpos());
        let request = EvalRequest { history: &history, moves: &[] };
        let bench = Bench {
            backend: &backend,
            request,
            threads: 1,
            batches: 1_000_000,
            time_per_size: Some(Duration::from_millis(20)),
        };
        let begin = Instant::now();
        bench.measure(1).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(5));
        assert_eq!(bench.shortest_time(100, 50.0), Duration::from_secs(6));
    }

    #[test]
    fn statistics_of_known_times() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        // One thread: 10 ms to the first batch, then 2, 4 and 6 ms.
        let m = summarise(8, 1, begin, &[vec![at(10), at(12), at(16), at(22)]]).unwrap();
        assert!(
            (m.mean_ms - 4.0).abs() < 1e-9 && (m.sdev_ms - 2.0).abs() < 1e-9 && (m.cv - 0.5).abs() < 1e-9
        );
        assert_eq!(
            [m.mean_nps, m.max_nps, m.median_nps, m.min_nps].map(f64::round),
            [2000.0, 4000.0, 2000.0, 1333.0]
        );
        assert!((m.first_max_ms - 10.0).abs() < 1e-9 && (m.first_mean_ms - 10.0).abs() < 1e-9);

        // Two threads take turns. A batch takes 4 ms, so a batch ends every 2 ms.
        let m = summarise(8, 2, begin, &[vec![at(4), at(8)], vec![at(6), at(10)]]).unwrap();
        assert!((m.mean_ms - 2.0).abs() < 1e-9);
        assert!((m.first_max_ms - 4.0).abs() < 1e-9 && (m.first_mean_ms - 3.0).abs() < 1e-9);

        assert_eq!(summarise(8, 2, begin, &[vec![at(4), at(8)], vec![at(6)]]), None);
    }
}
