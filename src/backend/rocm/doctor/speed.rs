//! Stage 7: the time of each kind of step, evaluations per second by batch size, and the settings that are fastest.

use super::super::backend::recommended_batch;
use super::super::error::{Result, RocmError};
use super::super::ffi::wait::Waiting;
use super::super::passes::start_positions;
use super::super::slot::{Slot, SlotMaker};
use super::super::timing;
use super::reporter::Reporter;
use super::subject::Subject;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The batch sizes, in positions, for which the speed is measured.
const SIZES: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// A small batch, for which other settings may be the best ones than for a large batch.
const SMALL_BATCH: usize = 16;

/// A setting is worth a line in the configuration file if it is faster by this factor.
const WORTH: f64 = 1.02;

/// It must not make batches of another size slower than this factor.
const TOLERATED: f64 = 0.98;

/// The best settings and the user's are measured in turn so many times, because a card's clock changes.
const ROUNDS: usize = 2;

/// The number of repetitions when a step is timed.
const REPETITIONS: usize = 10;

/// A setting of the backend's options, and what it does.
#[derive(Clone, Copy)]
struct Setting {
    /// The option's name and value.
    text: &'static str,
    change: fn(&mut Load<'_>),
}

/// The settings to try, each instead of the user's own.
const SETTINGS: [Setting; 14] = [
    Setting { text: "streams=1", change: |load| load.streams = 1 },
    Setting { text: "streams=2", change: |load| load.streams = 2 },
    Setting { text: "streams=3", change: |load| load.streams = 3 },
    Setting { text: "streams=4", change: |load| load.streams = 4 },
    Setting { text: "fork=0", change: |load| load.maker.fork = 0 },
    Setting { text: "fork=1024", change: |load| load.maker.fork = 1024 },
    Setting { text: "few_rows=0", change: |load| load.maker.few_rows = 0 },
    Setting { text: "few_rows=64", change: |load| load.maker.few_rows = 64 },
    Setting { text: "fuse=true", change: |load| load.maker.fuse = true },
    Setting { text: "fuse=false", change: |load| load.maker.fuse = false },
    Setting { text: "wait=spin", change: |load| load.maker.waiting = Waiting::Spin },
    Setting { text: "wait=yield", change: |load| load.maker.waiting = Waiting::Yield },
    Setting { text: "wait=block", change: |load| load.maker.waiting = Waiting::Block },
    Setting { text: "graph=false", change: |load| load.maker.has_graphs = false },
];

/// What is measured: batches of one size in several slots at once.
#[derive(Clone, Copy)]
struct Load<'a> {
    maker: SlotMaker<'a>,
    streams: usize,
    /// The time of a measurement after the warm-up, and the fewest batches of each slot.
    time: Duration,
    batches: usize,
}

pub(super) fn run(subject: &Subject, report: &mut Reporter<'_>) -> Result<()> {
    subject.tune()?.into_iter().for_each(|notice| report.note(notice));
    let (time, batches) = if subject.is_quick { (50, 2) } else { (300, 4) };
    let (maker, streams) = (subject.maker()?, subject.options.streams);
    let load = Load { maker, streams, time: Duration::from_millis(time), batches };
    let largest = load.maker.maximum_batch;
    let usual = recommended_batch(subject.gpu.compute_units).min(largest);
    report.item(&format!("steps of a batch of {usual}"), |report| steps(&load.maker, usual, report));
    let sizes = SIZES.into_iter().filter(|&size| size <= largest);
    for size in sizes.filter(|size| !subject.is_quick || size.ilog2() % 2 == 0) {
        report.item(&format!("speed of batches of {size}"), |report| {
            let speed = load.positions_per_second(size)?;
            report.row(
                "speed",
                [
                    ("batch", size.into()),
                    ("in flight", streams.into()),
                    ("positions/s", speed.into()),
                    ("ms", (size as f64 * streams as f64 / speed * 1e3).into()),
                ],
            );
            Ok(())
        });
    }
    let mut sizes = vec![usual];
    if usual > SMALL_BATCH && !subject.is_quick {
        sizes.push(SMALL_BATCH);
    }
    let gains: Vec<Vec<(Setting, f64)>> = sizes.iter().map(|&size| sweep(&load, size, report)).collect();
    let harmless = harmless(&gains);
    report
        .item("the fastest settings together", |report| together(&load, &sizes, &harmless, subject, report));
    Ok(())
}

/// Times the steps of a batch one by one.
fn steps(maker: &SlotMaker<'_>, positions: usize, report: &mut Reporter<'_>) -> Result<()> {
    let (positions, times) = maker.slot()?.step_times(positions, REPETITIONS)?;
    let total: f32 = times.iter().map(|time| time.milliseconds).sum();
    report.note(format!(
        "{positions} positions in {} steps, one after another: {total:.3} ms, {:.0} positions/s",
        times.len(),
        positions as f32 / total * 1e3
    ));
    for timing::Kind { name, steps, milliseconds, operations } in timing::kinds(&times) {
        let tflops = (operations > 0.0).then(|| operations / f64::from(milliseconds) / 1e9);
        report.row(
            "steps",
            [
                ("step", name.into()),
                ("count", steps.into()),
                ("us each", (milliseconds / steps as f32 * 1e3).into()),
                ("% of the time", (milliseconds / total * 100.0).into()),
                ("TFLOP/s", tflops.into()),
            ],
        );
    }
    Ok(())
}

/// Tries each setting alone. Returns those that were measured, with the factor by which each is faster.
fn sweep(load: &Load<'_>, size: usize, report: &mut Reporter<'_>) -> Vec<(Setting, f64)> {
    let mut base = None;
    report.item(&format!("the user's settings with batches of {size}"), |report| {
        let speed = load.positions_per_second(size)?;
        base = Some(speed);
        setting_row(report, size, "the user's", speed, 1.0);
        Ok(())
    });
    let Some(base) = base else { return Vec::new() };
    let mut gains = Vec::new();
    for setting in SETTINGS {
        if load.has(setting) {
            continue;
        }
        report.item(&format!("{} with batches of {size}", setting.text), |report| {
            let mut changed = *load;
            (setting.change)(&mut changed);
            let speed = changed.positions_per_second(size)?;
            setting_row(report, size, setting.text, speed, speed / base);
            gains.push((setting, speed / base));
            Ok(())
        });
    }
    gains
}

fn setting_row(report: &mut Reporter<'_>, size: usize, setting: &str, speed: f64, gain: f64) {
    report.row(
        "sweep",
        [
            ("batch", size.into()),
            ("setting", setting.into()),
            ("positions/s", speed.into()),
            ("gain", format!("{:+.1} %", (gain - 1.0) * 100.0).into()),
        ],
    );
}

/// The gains for the first batch size, of the settings that make no other size slower.
fn harmless(gains: &[Vec<(Setting, f64)>]) -> Vec<(Setting, f64)> {
    let Some((first, others)) = gains.split_first() else { return Vec::new() };
    let is_harmless = |setting: &Setting| {
        others.iter().flatten().all(|(other, gain)| other.text != setting.text || *gain >= TOLERATED)
    };
    first.iter().filter(|(setting, _)| is_harmless(setting)).copied().collect()
}

/// Measures the best value of each option together, and writes them as lines for the configuration file if they are
/// worth it for batches of the first size, and make no other size slower.
fn together(
    load: &Load<'_>,
    sizes: &[usize],
    gains: &[(Setting, f64)],
    subject: &Subject,
    report: &mut Reporter<'_>,
) -> Result<()> {
    let best = best_of_each(gains);
    let mut changed = *load;
    best.iter().for_each(|setting| (setting.change)(&mut changed));
    let names: Vec<&str> = best.iter().map(|setting| setting.text).collect();
    let mut are_worth_it = !best.is_empty();
    for (index, &size) in sizes.iter().enumerate() {
        if !are_worth_it {
            break;
        }
        let (mut before, mut after) = (0.0_f64, 0.0_f64);
        for _ in 0..ROUNDS {
            before = before.max(load.positions_per_second(size)?);
            after = after.max(changed.positions_per_second(size)?);
        }
        setting_row(report, size, &names.join(","), after, after / before);
        are_worth_it = after >= before * if index == 0 { WORTH } else { TOLERATED };
    }
    if !are_worth_it {
        report.note("no settings were faster than the user's or the default ones for all batch sizes");
        return Ok(());
    }
    report.row(
        "settings",
        [("line", format!("backend-opts={}", merged(&subject.options_text, &names)).into())],
    );
    Ok(())
}

/// The fastest value of each option that is worth it.
fn best_of_each(gains: &[(Setting, f64)]) -> Vec<Setting> {
    let mut best: Vec<(Setting, f64)> = Vec::new();
    for &(setting, gain) in gains.iter().filter(|(_, gain)| *gain >= WORTH) {
        match best.iter_mut().find(|(known, _)| key(known.text) == key(setting.text)) {
            Some(known) if known.1 < gain => *known = (setting, gain),
            Some(_) => {}
            None => best.push((setting, gain)),
        }
    }
    best.into_iter().map(|(setting, _)| setting).collect()
}

/// The name of the option in `name=value`.
fn key(text: &str) -> &str {
    text.split('=').next().unwrap_or(text).trim()
}

/// The user's options with `changes` instead of the entries that have the same name.
fn merged(options: &str, changes: &[&str]) -> String {
    // Other texts have children or quotes, which are left to the user.
    let is_flat = !options.contains(['(', '"', '\'']);
    let kept = options.split(',').map(str::trim).filter(|entry| {
        is_flat && !entry.is_empty() && !changes.iter().any(|change| key(change) == key(entry))
    });
    kept.chain(changes.iter().copied()).collect::<Vec<_>>().join(",")
}

impl Load<'_> {
    /// Whether a setting changes nothing.
    fn has(&self, setting: Setting) -> bool {
        let facts = |load: &Load<'_>| {
            let SlotMaker { has_graphs, fork, few_rows, fuse, waiting, .. } = load.maker;
            (load.streams, has_graphs, fork, few_rows, fuse, waiting)
        };
        let mut changed = *self;
        (setting.change)(&mut changed);
        facts(&changed) == facts(self)
    }

    /// Evaluates batches of `size` positions in all slots at once, as `backendbench` does with as many threads.
    fn positions_per_second(&self, size: usize) -> Result<f64> {
        let maker = SlotMaker { maximum_batch: size, ..self.maker };
        let slots = (0..self.streams).map(|_| maker.slot()).collect::<Result<Vec<Slot>>>()?;
        let requests = start_positions(size, &maker);
        let start = Barrier::new(slots.len());
        let (start, requests, fewest, time) = (&start, &requests, self.batches, self.time);
        let evaluated: Vec<Result<(Instant, usize)>> = std::thread::scope(|scope| {
            let threads: Vec<_> = slots
                .into_iter()
                .map(|mut slot| {
                    scope.spawn(move || {
                        // The first batch runs step by step, and the second one captures the graph. A thread that fails
                        // must arrive at the barrier, too.
                        let warm = slot
                            .make_current()
                            .and_then(|()| (0..2).try_for_each(|_| slot.evaluate(requests, |_| {})));
                        start.wait();
                        warm?;
                        let begin = Instant::now();
                        let mut count = 0;
                        while count < fewest || begin.elapsed() < time {
                            slot.evaluate(requests, |_| {})?;
                            count += 1;
                        }
                        Ok((begin, count))
                    })
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<(Instant, usize)>>| {
                let panicked = |_| RocmError::Unsupported("a thread of the measurement panicked".to_owned());
                thread.join().map_err(panicked)?
            };
            threads.into_iter().map(join).collect()
        });
        let end = Instant::now();
        let evaluated = evaluated.into_iter().collect::<Result<Vec<_>>>()?;
        let batches: usize = evaluated.iter().map(|(_, count)| count).sum();
        let begin = evaluated.iter().map(|(begin, _)| *begin).min().unwrap_or(end);
        Ok((batches * size) as f64 / (end - begin).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_value_of_each_option_is_taken_if_it_is_worth_it() {
        let gains: Vec<(Setting, f64)> =
            SETTINGS.into_iter().zip([0.9, 1.1, 1.0, 1.05, 1.0, 1.01, 1.0, 1.3]).collect();
        let best: Vec<&str> = best_of_each(&gains).iter().map(|setting| setting.text).collect();
        assert_eq!(best, ["streams=2", "few_rows=64"]);
    }

    #[test]
    fn a_setting_that_makes_other_batches_slower_is_left_out() {
        let gains = |factors: [f64; 3]| SETTINGS.into_iter().zip(factors).collect::<Vec<_>>();
        let left = harmless(&[gains([1.1, 1.2, 1.3]), gains([1.0, 0.8, 0.99])]);
        assert_eq!(
            left.iter().map(|(setting, _)| setting.text).collect::<Vec<_>>(),
            ["streams=1", "streams=3"]
        );
    }

    #[test]
    fn changes_replace_the_users_options() {
        assert_eq!(merged("", &["streams=2"]), "streams=2");
        assert_eq!(merged("gpu=1, streams=3", &["streams=2", "fork=0"]), "gpu=1,streams=2,fork=0");
        assert_eq!(merged("tuning_file=\"a,b\"", &["fork=0"]), "fork=0");
    }
}
