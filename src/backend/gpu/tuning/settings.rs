//! The settings of passes that only a measurement can choose: how many are in flight, what runs in parallel, which kernels
//! share a launch, and how a thread waits. This finds the fastest ones for a network.

use super::load::Load;
use crate::pass::slot::SlotMaker;
use crate::runtime::error::Result;
use crate::runtime::ffi::wait::Waiting;
use crate::runtime::kernels::AttentionKernel;
use crate::runtime::precision::tolerance;
use crate::runtime::shared_launches::SharedLaunches;
use std::fmt;

/// A setting is worth a change if it is faster by this factor.
const WORTH: f64 = 1.02;

/// It must not make batches of another size slower than this factor.
const TOLERATED: f64 = 0.98;

pub(super) const STREAMS: &str = "streams";
pub(crate) const BATCH: &str = "batch";

/// The smaller batches to try, in quarters of the usual size, and the settings to try them with. Batches that fit into a
/// last-level cache may be faster than larger ones: with 64 positions, the attention of one of T82's encoders moves 38 MB,
/// with 32 positions 19 MB, and gfx1151's cache has 32 MB, which all batches in flight share.
const QUARTERS: [usize; 2] = [2, 3];
const LEAST_BATCH: usize = 8;
const IN_FLIGHT: [&str; 3] = ["streams=1", "streams=2", "streams=3"];

/// The best settings and the former ones are measured in turn so many times, because a card's clock changes.
const ROUNDS: usize = 2;

/// The value of an option of the backend, and what it does.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    /// The option's name and value.
    pub(crate) text: &'static str,
    change: fn(&mut SlotMaker<'_>),
}

/// The settings to try, each instead of the present one.
pub(crate) const SETTINGS: [Setting; 18] = [
    Setting { text: "streams=1", change: |maker| maker.streams = 1 },
    Setting { text: "streams=2", change: |maker| maker.streams = 2 },
    Setting { text: "streams=3", change: |maker| maker.streams = 3 },
    Setting { text: "streams=4", change: |maker| maker.streams = 4 },
    Setting { text: "fork=0", change: |maker| maker.fork = 0 },
    Setting { text: "fork=1024", change: |maker| maker.fork = 1024 },
    Setting { text: "few_rows=0", change: |maker| maker.few_rows = 0 },
    Setting { text: "few_rows=64", change: |maker| maker.few_rows = 64 },
    Setting { text: "fuse=false", change: |maker| maker.fuse = SharedLaunches::None },
    Setting { text: "fuse=smolgen", change: |maker| maker.fuse = SharedLaunches::Smolgen },
    Setting { text: "fuse=true", change: |maker| maker.fuse = SharedLaunches::All },
    Setting { text: "wait=spin", change: |maker| maker.waiting = Waiting::Spin },
    Setting { text: "wait=yield", change: |maker| maker.waiting = Waiting::Yield },
    Setting { text: "wait=block", change: |maker| maker.waiting = Waiting::Block },
    Setting { text: "graph=false", change: |maker| maker.has_graphs = false },
    Setting { text: "attention=matrix", change: |maker| maker.attention = AttentionKernel::Matrix },
    Setting { text: "attention=other", change: |maker| maker.attention = AttentionKernel::Other },
    Setting { text: "attention=any", change: |maker| maker.attention = AttentionKernel::Any },
];

impl Setting {
    /// The option's name.
    pub(crate) fn option(self) -> &'static str {
        option_of(self.text)
    }

    /// The maker with this setting.
    pub(crate) fn applied<'a>(self, maker: &SlotMaker<'a>) -> SlotMaker<'a> {
        let mut changed = *maker;
        (self.change)(&mut changed);
        changed
    }

    /// Whether the setting changes nothing.
    pub(crate) fn is_that_of(self, maker: &SlotMaker<'_>) -> bool {
        let facts = |maker: &SlotMaker<'_>| {
            // Every field is named: a setting of a field that is not compared would never be tried.
            let SlotMaker {
                gpu: _,
                network: _,
                kernels: _,
                gemms: _,
                inverse_temperature: _,
                maximum_batch: _,
                streams,
                ladder: _,
                has_graphs,
                fork,
                few_rows,
                fuse: _,
                attention: _,
                waiting,
            } = *maker;
            let kernels = (maker.shared_launches(), maker.attention_kernel());
            (streams, has_graphs, fork, few_rows, kernels, waiting)
        };
        facts(&self.applied(maker)) == facts(maker)
    }
}

/// The name of the option in `name=value`.
pub(crate) fn option_of(text: &str) -> &str {
    text.split('=').next().unwrap_or(text).trim()
}

/// What was measured to be faster than the defaults.
#[derive(Clone, Default)]
pub(crate) struct MeasuredSettings {
    /// Each with another option.
    settings: Vec<Setting>,
    /// The size of batches, in positions, that are faster than those of the card's usual size.
    batch: Option<usize>,
}

impl MeasuredSettings {
    /// The maker with those settings whose options the user did not choose.
    pub(crate) fn applied<'a>(&self, maker: SlotMaker<'a>, is_free: impl Fn(&str) -> bool) -> SlotMaker<'a> {
        let free = self.settings.iter().filter(|setting| is_free(setting.option()));
        free.fold(maker, |maker, setting| setting.applied(&maker))
    }

    /// The settings as in `BackendOptions`.
    pub(crate) fn texts(&self) -> Vec<&'static str> {
        self.settings.iter().map(|setting| setting.text).collect()
    }

    /// The batch size to recommend to the search, in positions, where `usual` is that of the card.
    pub(crate) fn batch_or(&self, usual: usize) -> usize {
        self.batch.unwrap_or(usual)
    }

    /// These settings with `setting` in place of any other value of its option.
    pub(super) fn with(&self, setting: Setting) -> MeasuredSettings {
        let others = self.settings.iter().filter(|other| other.option() != setting.option());
        MeasuredSettings { settings: others.copied().chain([setting]).collect(), ..*self }
    }

    pub(super) fn from_words<'a>(words: impl Iterator<Item = &'a str>) -> Option<MeasuredSettings> {
        let mut read = MeasuredSettings::default();
        for word in words.filter(|word| !word.is_empty()) {
            match word.strip_prefix("batch=") {
                Some(size) => read.batch = Some(size.parse().ok().filter(|&size| size > 0)?),
                None => read.settings.push(SETTINGS.into_iter().find(|setting| setting.text == word)?),
            }
        }
        Some(read)
    }
}

impl fmt::Display for MeasuredSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let batch = self.batch.map(|size| format!("{BATCH}={size}"));
        let words: Vec<&str> = self.texts().into_iter().chain(batch.as_deref()).collect();
        f.write_str(&words.join(","))
    }
}

/// Tries each setting alone with batches of each size, and then the best of each option together. Returns those that are
/// faster with batches of the first size and make no other size slower. A setting whose figures differ is not timed, and
/// `notices` get a line. `tell` gets the number of measurements that are done, and of all; if it returns false, nothing is
/// returned. Smaller batches than those of the first size are tried at last, with several numbers of batches in flight.
///
/// # Errors
/// The memory for the slots is missing, or a pass fails.
pub(crate) fn fastest(
    load: &Load<'_>,
    sizes: &[usize],
    is_free: impl Fn(&str) -> bool,
    notices: &mut Vec<String>,
    tell: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Option<MeasuredSettings>> {
    let is_tried = |setting: &Setting| is_free(setting.option()) && !setting.is_that_of(&load.maker);
    let mut tried: Vec<Setting> = SETTINGS.into_iter().filter(is_tried).collect();
    let usual = sizes.first().copied().unwrap_or(1);
    for wrong in with_other_figures(load, &tried, usual)? {
        tried.retain(|setting| setting.text != wrong.text);
        notices.push(format!("tuning: {} gives other figures, so it is not used", wrong.text));
    }
    // Each size, alone and with each setting; the comparison at the end; and smaller batches.
    let smaller = smaller_batches(load, &MeasuredSettings::default(), usual, &is_free).len();
    let all = sizes.len() * (1 + tried.len()) + 1 + smaller;
    let mut done = 0;
    let mut goes_on = || {
        done += 1;
        tell((done - 1).min(all), all)
    };
    let mut gains = Vec::new();
    for &size in sizes {
        if !goes_on() {
            return Ok(None);
        }
        let base = load.positions_per_second(size)?;
        let mut of_size = Vec::new();
        for &setting in &tried {
            if !goes_on() {
                return Ok(None);
            }
            let changed = Load { maker: setting.applied(&load.maker), ..*load };
            of_size.push((setting, changed.positions_per_second(size)? / base));
        }
        gains.push(of_size);
    }
    if !goes_on() {
        return Ok(None);
    }
    let best = best_of_each(&harmless(&gains));
    let comparison = compare(load, &best, sizes)?;
    let best = if is_worth_it(&comparison) { best } else { MeasuredSettings::default() };
    let chosen = Load { maker: best.applied(load.maker, |_| true), ..*load };
    let mut faster = Vec::new();
    for (size, changed) in smaller_batches(&chosen, &best, usual, &is_free) {
        if !goes_on() {
            return Ok(None);
        }
        let maker = changed.applied(load.maker, |_| true);
        let Comparison { before, after, .. } = in_turn((&chosen, usual), (&Load { maker, ..*load }, size))?;
        if after >= before * WORTH {
            faster.push((after / before, changed));
        }
    }
    faster.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, changed) in faster {
        let has_other_settings = changed.texts() != best.texts();
        let others = if has_other_settings { compare(&chosen, &changed, &sizes[1..])? } else { Vec::new() };
        if others.iter().all(|speeds| speeds.after >= speeds.before * TOLERATED) {
            return Ok(Some(changed));
        }
    }
    Ok(Some(best))
}

/// Smaller batches than usual, each with `chosen` and, if the number of batches in flight is free, with others of that.
pub(super) fn smaller_batches(
    load: &Load<'_>,
    chosen: &MeasuredSettings,
    usual: usize,
    is_free: impl Fn(&str) -> bool,
) -> Vec<(usize, MeasuredSettings)> {
    if !is_free(BATCH) {
        return Vec::new();
    }
    let is_tried = |setting: &Setting| {
        is_free(STREAMS) && IN_FLIGHT.contains(&setting.text) && !setting.is_that_of(&load.maker)
    };
    let in_flight = SETTINGS.into_iter().filter(is_tried).map(|setting| chosen.with(setting));
    let settings: Vec<MeasuredSettings> = std::iter::once(chosen.clone()).chain(in_flight).collect();
    let sizes = QUARTERS.into_iter().map(|quarters| usual * quarters / 4).filter(|&size| size >= LEAST_BATCH);
    let with_size = |size| {
        let settings = settings.iter().cloned();
        settings.map(move |settings| (size, MeasuredSettings { batch: Some(size), ..settings }))
    };
    sizes.flat_map(with_size).collect()
}

/// Those of the settings with which a batch of `size` positions has other figures than without.
fn with_other_figures(load: &Load<'_>, settings: &[Setting], size: usize) -> Result<Vec<Setting>> {
    if settings.is_empty() {
        return Ok(Vec::new());
    }
    let expected = load.figures(size)?;
    let allowed = tolerance(load.maker.network.precision);
    let mut wrong = Vec::new();
    for &setting in settings {
        let found = Load { maker: setting.applied(&load.maker), ..*load }.figures(size)?;
        let is_near = |(found, expected): (&f32, &f32)| (found - expected).abs() <= allowed;
        if found.len() != expected.len() || !found.iter().zip(&expected).all(is_near) {
            wrong.push(setting);
        }
    }
    Ok(wrong)
}

/// The speed with batches of a size before and after a change, in positions per second.
#[derive(Clone, Copy)]
pub(crate) struct Comparison {
    pub(crate) size: usize,
    pub(crate) before: f64,
    pub(crate) after: f64,
}

/// Measures the settings together, with batches of each size.
///
/// # Errors
/// The memory for the slots is missing, or a pass fails.
pub(crate) fn compare(
    load: &Load<'_>,
    settings: &MeasuredSettings,
    sizes: &[usize],
) -> Result<Vec<Comparison>> {
    if settings.settings.is_empty() {
        return Ok(Vec::new());
    }
    let changed = Load { maker: settings.applied(load.maker, |_| true), ..*load };
    sizes.iter().map(|&size| in_turn((load, size), (&changed, size))).collect()
}

/// Measures two loads with batches of so many positions, in turn.
fn in_turn(before: (&Load<'_>, usize), after: (&Load<'_>, usize)) -> Result<Comparison> {
    let mut found = Comparison { size: after.1, before: 0.0, after: 0.0 };
    for _ in 0..ROUNDS {
        found.before = found.before.max(before.0.positions_per_second(before.1)?);
        found.after = found.after.max(after.0.positions_per_second(after.1)?);
    }
    Ok(found)
}

/// Whether a change is faster with batches of the first size, and not noticeably slower with any other.
pub(crate) fn is_worth_it(comparison: &[Comparison]) -> bool {
    let limits = std::iter::once(WORTH).chain(std::iter::repeat(TOLERATED));
    !comparison.is_empty()
        && comparison.iter().zip(limits).all(|(speeds, limit)| speeds.after >= speeds.before * limit)
}

/// The gains for the first batch size, of the settings that make no other size noticeably slower.
pub(crate) fn harmless(gains: &[Vec<(Setting, f64)>]) -> Vec<(Setting, f64)> {
    let Some((first, others)) = gains.split_first() else { return Vec::new() };
    let is_harmless = |setting: &Setting| {
        others.iter().flatten().all(|(other, gain)| other.text != setting.text || *gain >= TOLERATED)
    };
    first.iter().filter(|(setting, _)| is_harmless(setting)).copied().collect()
}

/// The fastest value of each option that is worth it.
pub(crate) fn best_of_each(gains: &[(Setting, f64)]) -> MeasuredSettings {
    let mut best: Vec<(Setting, f64)> = Vec::new();
    for &(setting, gain) in gains.iter().filter(|(_, gain)| *gain >= WORTH) {
        match best.iter_mut().find(|(known, _)| known.option() == setting.option()) {
            Some(known) if known.1 < gain => *known = (setting, gain),
            Some(_) => {}
            None => best.push((setting, gain)),
        }
    }
    MeasuredSettings { settings: best.into_iter().map(|(setting, _)| setting).collect(), batch: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{GivenOptions, GpuOptions};
    use crate::runtime::maker::Maker;

    #[test]
    fn the_best_value_of_each_option_is_taken_if_it_is_worth_it() {
        let gains: Vec<(Setting, f64)> =
            SETTINGS.into_iter().zip([0.9, 1.1, 1.0, 1.05, 1.0, 1.01, 1.0, 1.3]).collect();
        assert_eq!(best_of_each(&gains).texts(), ["streams=2", "few_rows=64"]);
    }

    /// What a measurement chose would never be used if the option counted as the user's.
    #[test]
    fn the_engine_may_choose_every_setting_that_is_measured() {
        for setting in SETTINGS {
            assert!(GpuOptions::default().leaves(setting.option()), "{}", setting.text);
            let GivenOptions { options, .. } = GivenOptions::read(Maker::Amd, setting.text).unwrap();
            assert!(!options.leaves(setting.option()), "{}", setting.text);
        }
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
    fn settings_together_must_be_faster_with_the_first_size_and_slower_with_none() {
        let comparison = |gains: &[f64]| -> Vec<Comparison> {
            gains.iter().map(|&gain| Comparison { size: 8, before: 100.0, after: 100.0 * gain }).collect()
        };
        assert!(is_worth_it(&comparison(&[1.05, 0.99])));
        assert!(!is_worth_it(&comparison(&[1.01, 1.5])));
        assert!(!is_worth_it(&comparison(&[1.5, 0.9])));
        assert!(!is_worth_it(&[]));
    }
}
