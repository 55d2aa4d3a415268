//! Foresees whether another move will overtake the best one.
//!
//! From two looks at the root's visits, some seconds apart, follows the rate of each move. The best move is
//! expected to slow down and its rivals to speed up; if on these terms a rival has more visits at the deadline,
//! the move is worth more time.

use super::plan::Parameters;
use std::time::Duration;

/// The visits of root moves at one moment.
#[derive(Clone, Debug)]
struct Look {
    at: Duration,
    visits: Vec<u32>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct VisitsTrend {
    period: Duration,
    best_move_optimism: f64,
    rival_optimism: f64,
    /// Rates are measured from here: between one and two periods old, less at first.
    baseline: Option<Look>,
    /// The next baseline.
    candidate: Option<Look>,
    latest: Option<Look>,
}

impl VisitsTrend {
    /// Nothing seen yet.
    pub(crate) fn new(parameters: &Parameters) -> VisitsTrend {
        VisitsTrend {
            period: Duration::from_secs_f64(parameters.trend_period_ms / 1000.0),
            best_move_optimism: parameters.best_move_optimism,
            rival_optimism: parameters.rival_optimism,
            baseline: None,
            candidate: None,
            latest: None,
        }
    }

    /// Takes a look. Those that are not later than the last one are ignored.
    pub(crate) fn update(&mut self, now: Duration, visits: &[u32]) {
        if visits.is_empty() || self.latest.as_ref().is_some_and(|latest| now <= latest.at) {
            return;
        }
        let look = Look { at: now, visits: visits.to_vec() };
        let candidate = self.candidate.get_or_insert_with(|| look.clone());
        self.baseline.get_or_insert_with(|| look.clone());
        if now.saturating_sub(candidate.at) >= self.period {
            self.baseline = self.candidate.replace(look.clone());
        }
        self.latest = Some(look);
    }

    /// Whether the most visited move will have fewer visits than another at a later moment.
    pub(crate) fn is_overtaken_by(&self, moment: Duration) -> bool {
        let (Some(baseline), Some(latest)) = (&self.baseline, &self.latest) else {
            return false;
        };
        if baseline.at >= latest.at || moment <= latest.at {
            return false;
        }
        // How often the time since the baseline fits into what is left.
        let factor = (moment - latest.at).as_secs_f64() / (latest.at - baseline.at).as_secs_f64();
        let expected = |index: usize, optimism: f64| {
            let visits = latest.visits[index];
            let gained = visits.saturating_sub(baseline.visits.get(index).copied().unwrap_or(visits));
            f64::from(visits) + f64::from(gained) * factor * optimism
        };
        // The first of equals; `update` lets no empty look in.
        let most = latest.visits.iter().copied().max().unwrap_or(0);
        let best = latest.visits.iter().position(|&visits| visits == most).unwrap_or(0);
        let mark = expected(best, self.best_move_optimism);
        (0..latest.visits.len()).any(|index| index != best && expected(index, self.rival_optimism) > mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::time::arguments::Arguments;

    fn trend() -> VisitsTrend {
        let (_, mut arguments) = Arguments::parse("smooth").expect("well formed");
        VisitsTrend::new(&Parameters::read(&mut arguments).expect("in range"))
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_fast_rival_overtakes_if_there_is_time() {
        let mut trend = trend();
        trend.update(ms(1000), &[500, 100]);
        trend.update(ms(2000), &[1000, 200]);
        // In t seconds: 1000 + 0.2 · 500 t against 200 + 4 · 100 t, equal at 2.667 s.
        assert!(!trend.is_overtaken_by(ms(4600)));
        assert!(trend.is_overtaken_by(ms(4700)));
    }

    #[test]
    fn a_rival_that_gets_no_visits_never_does() {
        let mut trend = trend();
        trend.update(ms(1000), &[500, 499]);
        trend.update(ms(2000), &[1000, 499]);
        assert!(!trend.is_overtaken_by(ms(1_000_000)));
    }

    #[test]
    fn one_look_is_no_trend() {
        let mut trend = trend();
        assert!(!trend.is_overtaken_by(ms(1000)));
        trend.update(ms(1000), &[1, 1]);
        trend.update(ms(1000), &[1, 100]);
        trend.update(ms(900), &[1, 100]);
        assert!(!trend.is_overtaken_by(ms(9000)));
    }

    #[test]
    fn old_looks_are_forgotten() {
        let mut trend = trend();
        // The rival gained much at first, and nothing after three seconds.
        for second in 0..12 {
            let rival = 1000 * second.min(3) as u32;
            trend.update(ms(second * 1000), &[3100 + 100 * second as u32, rival]);
        }
        assert!(!trend.is_overtaken_by(ms(60_000)));
        // And while its gain is younger than a period, it counts.
        let mut young = super::tests::trend();
        young.update(ms(0), &[3100, 0]);
        young.update(ms(3000), &[3400, 3000]);
        assert!(young.is_overtaken_by(ms(60_000)));
    }

    #[test]
    fn root_moves_that_appear_late_have_no_rate_yet() {
        let mut trend = trend();
        trend.update(ms(0), &[10]);
        trend.update(ms(1000), &[100, 90]);
        assert!(!trend.is_overtaken_by(ms(2000)));
    }
}
