//! The settings that one start keeps for the next, and what first starts have not measured yet.

use super::load::Load;
use super::passes::WORTH_AT_FIRST;
use super::settings::{BATCH, MeasuredSettings, SETTINGS, STREAMS, smaller_batches};
use crate::runtime::error::Result;
use rukh_base::cache_folder;
use rukh_base::quote::quoted;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

/// The first part of the names of the files that keep the settings.
const NAME: &str = "settings";

/// What first starts measure, the largest expected differences first: options whose defaults are unmeasured on AMD's
/// cards, smaller batches than usual, and the ladder of batch sizes, which [`super::passes`] times.
const AT_FIRST: [&str; 7] = ["fuse", "graph", "fork", "few_rows", STREAMS, BATCH, LADDER];
pub(crate) const LADDER: &str = "ladder";

/// What is kept from one start to the next.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) settings: MeasuredSettings,
    /// The items of [`AT_FIRST`] that later starts have still to measure. `None` after `rukh tune`.
    pub(crate) left: Option<Vec<&'static str>>,
}

impl Kept {
    /// What is kept before the first start.
    pub(crate) fn nothing() -> Kept {
        Kept { settings: MeasuredSettings::default(), left: Some(AT_FIRST.to_vec()) }
    }

    /// What `rukh tune` keeps.
    pub(crate) fn tuned(settings: MeasuredSettings) -> Kept {
        Kept { settings, left: None }
    }

    /// What `rukh tune` has measured; `None` if only first starts have measured something.
    pub(crate) fn of_tuning(self) -> Option<MeasuredSettings> {
        self.left.is_none().then_some(self.settings)
    }

    /// Notes that a first start has measured something.
    pub(crate) fn has_measured(&mut self, what: &str) {
        self.left.iter_mut().for_each(|left| left.retain(|other| *other != what));
    }

    /// What a start may still measure: of what is left, the ladder and all that the user has not chosen.
    pub(crate) fn open(&self, is_free: impl Fn(&str) -> bool) -> Vec<&'static str> {
        let left = self.left.iter().flatten().copied();
        left.filter(|&what| what == LADDER || is_free(what)).collect()
    }

    fn from_text(text: &str) -> Option<Kept> {
        let (settings, left) = match text.split_once(LEFT) {
            Some((settings, left)) => (settings, Some(left)),
            None => (text, None),
        };
        let named = |word: &str| AT_FIRST.into_iter().find(|known| *known == word);
        let words = |left: &str| -> Option<Vec<&'static str>> {
            left.split(',').filter(|word| !word.is_empty()).map(named).collect()
        };
        let left = match left {
            Some(left) => Some(words(left)?),
            None => None,
        };
        Some(Kept { settings: MeasuredSettings::from_words(settings.split(','))?, left })
    }
}

/// What stands between the settings and what is left, in the file.
const LEFT: &str = ";left=";

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kept { settings, left } = self;
        write!(f, "{settings}")?;
        left.as_ref().map_or(Ok(()), |left| write!(f, "{LEFT}{}", left.join(",")))
    }
}

/// What was kept under `key`; `None` if nothing was.
///
/// # Errors
/// A message about a damaged file.
pub(crate) fn kept(key: &str) -> std::result::Result<Option<Kept>, String> {
    let Some(line) = cache_folder::kept_line(NAME, key) else { return Ok(None) };
    let kept = Kept::from_text(&line);
    kept.map(Some).ok_or_else(|| format!("the kept settings {} are ignored", quoted(&line)))
}

/// Keeps what was measured for the next start.
///
/// # Errors
/// There is no cache folder, or it cannot be written.
pub(crate) fn keep(key: &str, kept: &Kept) -> io::Result<()> {
    cache_folder::keep_line(NAME, key, &kept.to_string())
}

/// Measures each open item of `known` once, on top of the better values found so far, beside batches of `usual` positions.
/// `goes_on` gets the time that the next measurement may take, at first `expected`; when it returns false, the remaining
/// items stay open, also one of which some values were measured: a better value among these is kept. The caller compares
/// the figures, and measures the ladder.
///
/// # Errors
/// The memory for the slots is missing, or a pass fails.
pub(crate) fn at_first_start(
    load: &Load<'_>,
    usual: usize,
    known: &mut Kept,
    is_free: impl Fn(&str) -> bool,
    (expected, goes_on): (Duration, impl Fn(Duration) -> bool),
) -> Result<()> {
    let mut last = expected;
    for what in known.open(&is_free).into_iter().filter(|&what| what != LADDER) {
        let chosen = &known.settings;
        let base = Load { maker: chosen.applied(load.maker, &is_free), ..*load };
        let others: Vec<(usize, MeasuredSettings)> = match what {
            BATCH => smaller_batches(&base, chosen, usual, &is_free),
            option => SETTINGS
                .into_iter()
                .filter(|setting| setting.option() == option && !setting.is_that_of(&base.maker))
                .map(|setting| (usual, chosen.with(setting)))
                .collect(),
        };
        let gain = |(size, changed): &(usize, MeasuredSettings)| {
            if !goes_on(last) {
                return Ok(None);
            }
            let begin = Instant::now();
            let before = base.positions_per_second(usual)?;
            let maker = changed.applied(load.maker, &is_free);
            let gain = Load { maker, ..*load }.positions_per_second(*size)? / before;
            last = begin.elapsed();
            Ok(Some(gain))
        };
        let (fastest, are_all) = fastest_in_time(others, gain)?;
        if let Some((_, better)) = fastest {
            known.settings = better;
        }
        if !are_all {
            break;
        }
        known.has_measured(what);
    }
    Ok(())
}

/// The fastest of `others`, if it is worth a change, and whether there was time for all: `gain` returns `None` when there is
/// no more.
fn fastest_in_time<T>(
    others: Vec<T>,
    mut gain: impl FnMut(&T) -> Result<Option<f64>>,
) -> Result<(Option<T>, bool)> {
    let mut fastest: Option<(f64, T)> = None;
    let mut are_all = true;
    for other in others {
        let Some(gain) = gain(&other)? else {
            are_all = false;
            break;
        };
        if gain >= fastest.as_ref().map_or(WORTH_AT_FIRST, |(most, _)| *most) {
            fastest = Some((gain, other));
        }
    }
    Ok((fastest.map(|(_, fastest)| fastest), are_all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_are_written() {
        for text in [
            "",
            "streams=2",
            "streams=4,few_rows=64,wait=yield,batch=48",
            "batch=32;left=",
            "fuse=false;left=streams,batch,ladder",
            "fuse=smolgen;left=graph",
        ] {
            assert_eq!(Kept::from_text(text).map(|kept| kept.to_string()).as_deref(), Some(text));
        }
        for damaged in ["streams=99", "streams", "fork=0;fuse=true", "batch=0", ";left=wait", "\u{0}"] {
            assert!(Kept::from_text(damaged).is_none(), "{damaged}");
        }
    }

    /// On a slow card a start may have time for the first value only.
    #[test]
    fn a_better_value_is_kept_although_the_time_ends_before_the_others() {
        let fastest = |gains: [Option<f64>; 3]| {
            fastest_in_time(vec![0, 1, 2], |&index: &usize| Ok(gains[index])).unwrap()
        };
        assert_eq!(fastest([Some(1.2), Some(1.5), Some(1.3)]), (Some(1), true));
        assert_eq!(fastest([Some(1.1), Some(0.5), Some(1.0)]), (None, true));
        assert_eq!(fastest([Some(1.2), None, Some(1.3)]), (Some(0), false));
        assert_eq!(fastest([None, Some(1.3), Some(1.3)]), (None, false));
    }

    #[test]
    fn a_start_measures_what_is_left_and_free() {
        let mut kept = Kept::from_text("fuse=false;left=streams,batch,ladder").unwrap();
        assert_eq!(kept.open(|_| true), ["streams", "batch", "ladder"]);
        assert_eq!(kept.open(|_| false), ["ladder"]);
        kept.has_measured("batch");
        assert_eq!(kept.to_string(), "fuse=false;left=streams,ladder");
        assert!(kept.of_tuning().is_none());
        let tuned = Kept::from_text("fuse=false").unwrap();
        assert!(tuned.open(|_| true).is_empty() && tuned.of_tuning().is_some());
    }
}
