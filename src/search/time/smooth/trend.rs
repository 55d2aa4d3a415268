//! Predicts whether another move will overtake the best move.
//!
//! The rate of visits of each move is measured between two snapshots of the root's visits, some seconds apart. The best
//! move is expected to slow down and its rivals to speed up. If a rival then has more visits at the deadline, the move
//! deserves more time.

use super::plan::Parameters;
use std::time::Duration;

/// The visits of root moves at one moment.
#[derive(Clone, Debug)]
struct Snapshot {
    at: Duration,
    visits: Vec<u32>,
}

/// The visits of the root moves in recent snapshots.
#[derive(Debug)]
pub(crate) struct VisitsTrend {
    period: Duration,
    best_move_optimism: f64,
    rival_optimism: f64,
    /// The snapshot from which rates are measured. It is between one and two periods old, and younger at first.
    baseline: Option<Snapshot>,
    /// The snapshot that becomes the next baseline.
    candidate: Option<Snapshot>,
    latest: Option<Snapshot>,
}

impl VisitsTrend {
    /// A trend without snapshots.
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

    /// Takes a snapshot. A snapshot that is not later than the last one is ignored.
    pub(crate) fn update(&mut self, now: Duration, visits: &[u32]) {
        if visits.is_empty() || self.latest.as_ref().is_some_and(|latest| now <= latest.at) {
            return;
        }
        let snapshot = Snapshot { at: now, visits: visits.to_vec() };
        let candidate = self.candidate.get_or_insert_with(|| snapshot.clone());
        self.baseline.get_or_insert_with(|| snapshot.clone());
        if now.saturating_sub(candidate.at) >= self.period {
            self.baseline = self.candidate.replace(snapshot.clone());
        }
        self.latest = Some(snapshot);
    }

    /// Whether another move is expected to have more visits than the current best move at the time `moment`.
    pub(crate) fn is_overtaken_by(&self, moment: Duration) -> bool {
        let (Some(baseline), Some(latest)) = (&self.baseline, &self.latest) else {
            return false;
        };
        if baseline.at >= latest.at || moment <= latest.at {
            return false;
        }
        // The remaining time as a multiple of the time since the baseline.
        let factor = (moment - latest.at).as_secs_f64() / (latest.at - baseline.at).as_secs_f64();
        let expected = |index: usize, optimism: f64| {
            let visits = latest.visits[index];
            let gained = visits.saturating_sub(baseline.visits.get(index).copied().unwrap_or(visits));
            f64::from(visits) + f64::from(gained) * factor * optimism
        };
        // If moves have equal visits, the first one is the best. `update` ignores empty snapshots.
        let most = latest.visits.iter().copied().max().unwrap_or(0);
        let best = latest.visits.iter().position(|&visits| visits == most).unwrap_or(0);
        let mark = expected(best, self.best_move_optimism);
        (0..latest.visits.len()).any(|index| index != best && expected(index, self.rival_optimism) > mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::arguments::Arguments;

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
    fn a_rival_that_gets_no_visits_never_overtakes() {
        let mut trend = trend();
        trend.update(ms(1000), &[500, 499]);
        trend.update(ms(2000), &[1000, 499]);
        assert!(!trend.is_overtaken_by(ms(1_000_000)));
    }

    #[test]
    fn one_snapshot_gives_no_trend() {
        let mut trend = trend();
        assert!(!trend.is_overtaken_by(ms(1000)));
        trend.update(ms(1000), &[1, 1]);
        trend.update(ms(1000), &[1, 100]);
        trend.update(ms(900), &[1, 100]);
        assert!(!trend.is_overtaken_by(ms(9000)));
    }

    #[test]
    fn old_snapshots_do_not_count() {
        let mut trend = trend();
        // The rival gained much during the first three seconds, and nothing later.
        for second in 0..12 {
            let rival = 1000 * second.min(3) as u32;
            trend.update(ms(second * 1000), &[3100 + 100 * second as u32, rival]);
        }
        assert!(!trend.is_overtaken_by(ms(60_000)));
        // The gain counts as long as the baseline is from before it.
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
