//! Stage 7: the time of each kind of step, evaluations per second by batch size, and the settings that are fastest.

use super::reporter::Reporter;
use super::subject::Subject;
use crate::options::Tuning;
use crate::pass::buckets::recommended_batch;
use crate::pass::slot::SlotMaker;
use crate::pass::timing;
use crate::runtime::error::Result;
use crate::tuning::kept_settings::Kept;
use crate::tuning::load::Load;
use crate::tuning::settings::{
    Comparison, SETTINGS, Setting, best_of_each, compare, harmless, is_worth_it, option_of,
};
use std::time::Duration;

/// The batch sizes, in positions, for which the speed is measured.
const SIZES: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// A small batch, for which other settings may be the best ones than for a large batch.
const SMALL_BATCH: usize = 16;

/// The number of repetitions when a step is timed.
const REPETITIONS: usize = 10;

pub(super) fn run(subject: &Subject, report: &mut Reporter<'_>) -> Result<()> {
    subject.tune()?.into_iter().for_each(|notice| report.note(notice));
    let (time, batches) = if subject.is_quick { (50, 2) } else { (300, 4) };
    if subject.options.tuning != Tuning::Off {
        report.note(kept(&subject.kept_settings()?, &subject.ladder()?));
    }
    let maker = subject.maker()?;
    let streams = maker.streams;
    let load = Load { maker, time: Duration::from_millis(time), batches };
    let largest = load.maker.maximum_batch;
    let usual = recommended_batch(subject.gpu.multiprocessors).min(largest);
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

/// What earlier starts or `rukh tune` have measured, and every start uses.
fn kept(kept: &Kept, ladder: &[usize]) -> String {
    let settings = kept.settings.to_string();
    let settings = if settings.is_empty() { "none but the defaults" } else { &settings };
    let sizes: Vec<String> = ladder.iter().map(ToString::to_string).collect();
    let sizes = if sizes.is_empty() { "the usual ones".to_owned() } else { sizes.join(" ") };
    let left = match &kept.left {
        Some(left) if !left.is_empty() => format!("; not measured yet: {}", left.join(", ")),
        _ => String::new(),
    };
    format!("kept settings: {settings}; batch sizes: {sizes}{left}")
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
        if setting.is_that_of(&load.maker) {
            continue;
        }
        report.item(&format!("{} with batches of {size}", setting.text), |report| {
            let changed = Load { maker: setting.applied(&load.maker), ..*load };
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

/// Measures the best value of each option together, and writes them as lines for the configuration file if they are
/// worth it for batches of the first size, and make no other size noticeably slower.
fn together(
    load: &Load<'_>,
    sizes: &[usize],
    gains: &[(Setting, f64)],
    subject: &Subject,
    report: &mut Reporter<'_>,
) -> Result<()> {
    let best = best_of_each(gains);
    let names = best.texts();
    let comparison = compare(load, &best, sizes)?;
    for &Comparison { size, before, after } in &comparison {
        setting_row(report, size, &names.join(","), after, after / before);
    }
    if !is_worth_it(&comparison) {
        report.note("no settings were faster than the user's or the default ones for all batch sizes");
        return Ok(());
    }
    report.row(
        "settings",
        [("line", format!("backend-opts={}", merged(&subject.options_text, &names)).into())],
    );
    Ok(())
}

/// The user's options with `changes` instead of the entries that have the same name.
fn merged(options: &str, changes: &[&str]) -> String {
    // Other texts have children or quotes, which are left to the user.
    let is_flat = !options.contains(['(', '"', '\'']);
    let kept = options.split(',').map(str::trim).filter(|entry| {
        is_flat && !entry.is_empty() && !changes.iter().any(|change| option_of(change) == option_of(entry))
    });
    kept.chain(changes.iter().copied()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_said_in_a_line() {
        let said = kept(&Kept::nothing(), &[]);
        assert!(
            said.starts_with(
                "kept settings: none but the defaults; batch sizes: the usual ones; not measured yet: fuse,"
            ),
            "{said}"
        );
        let tuned = Kept { left: None, ..Kept::nothing() };
        assert_eq!(kept(&tuned, &[1, 2, 8]), "kept settings: none but the defaults; batch sizes: 1 2 8");
    }

    #[test]
    fn changes_replace_the_users_options() {
        assert_eq!(merged("", &["streams=2"]), "streams=2");
        assert_eq!(merged("gpu=1, streams=3", &["streams=2", "fork=0"]), "gpu=1,streams=2,fork=0");
        assert_eq!(merged("tuning_file=\"a,b\"", &["fork=0"]), "fork=0");
    }
}
