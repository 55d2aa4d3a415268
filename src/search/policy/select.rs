//! The score of a move in selection: PUCT, first-play urgency, the moves-left bonus.
//!
//! The functions depend only on parameters and statistics. Values are from the point of view of the side that chooses
//! the move, except that a child's own `Sample` and `Outcome` are from the child's. The formulas are those of lc0's
//! classic search, which extend AlphaZero's.

use super::SearchParams;
use super::math::{natural_log, round_up};
use rukh_options::FpuStrategy;
use rukh_tree::{Edge, Node, Outcome, Sample};

/// `cpuct(N) = init + factor * ln((N + base) / base)` for a node of N visits.
pub(crate) fn cpuct(params: &SearchParams, visits: u32, is_root: bool) -> f32 {
    let growth = if is_root { &params.cpuct_at_root } else { &params.cpuct };
    if growth.factor == 0.0 {
        return growth.init;
    }
    growth.init + growth.factor * natural_log((visits as f32 + growth.base) / growth.base)
}

/// The factor of `prior / (1 + started)` in the scores of a node's children: cpuct times the square root of the number
/// of visits to the children. The children have one visit fewer than the node's own `visits`. The number under the root
/// is at least 1.
pub(crate) fn exploration(params: &SearchParams, visits: u32, is_root: bool) -> f32 {
    cpuct(params, visits, is_root) * (visits.saturating_sub(1).max(1) as f32).sqrt()
}

/// The value of a move without visits. It is either an absolute value, or the parent's value less a reduction that
/// grows with `visited_policy`, the sum of the priors of the visited moves.
pub(crate) fn first_play_urgency(
    params: &SearchParams,
    parent_q: f32,
    visited_policy: f32,
    is_root: bool,
) -> f32 {
    let fpu = if is_root { &params.fpu_at_root } else { &params.fpu };
    match fpu.strategy {
        FpuStrategy::Absolute => fpu.value,
        FpuStrategy::Reduction => parent_q - fpu.value * visited_policy.sqrt(),
    }
}

/// The prior that enters the score of a move. It is 0 once the move is proven to lose, because then there is nothing
/// left to explore.
#[inline]
pub(crate) fn prior_of(edge: Edge, child: Option<Outcome>) -> f32 {
    if child.is_some_and(leaves_nothing_to_explore) { 0.0 } else { edge.prior() }
}

/// Whether the move to a child with this outcome is proven to lose.
#[inline]
pub(crate) fn leaves_nothing_to_explore(child: Outcome) -> bool {
    child.result == 1
}

/// The value of `sample` if a draw is worth `draw_score` to the side that chooses.
pub(crate) fn utility(sample: Sample, draw_score: f32) -> f32 {
    sample.wl + draw_score * sample.d
}

/// The bonus for shorter wins and longer losses. It applies to the children of a node whose `|wl|` is above
/// `moves_left.threshold`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MovesLeftBonus<'a> {
    /// The parameters, and the parent's plies left. `None` if the network has no moves-left head, or if the parent's
    /// `|wl|` is not above the threshold.
    active: Option<(&'a SearchParams, f32)>,
}

impl<'a> MovesLeftBonus<'a> {
    /// The bonus for the children of a node whose value is `parent`.
    pub(crate) fn new(params: &'a SearchParams, parent: Sample) -> MovesLeftBonus<'a> {
        let decided = params.has_moves_left && parent.wl.abs() > params.moves_left.threshold;
        MovesLeftBonus { active: decided.then_some((params, parent.m)) }
    }

    /// The bonus of a visited child that has `m` plies left and the utility `q`.
    pub(crate) fn of(&self, m: f32, q: f32) -> f32 {
        let Some((params, parent_m)) = self.active else {
            return 0.0;
        };
        let moves_left = &params.moves_left;
        let effect = (moves_left.slope * (m - parent_m)).clamp(-moves_left.max_effect, moves_left.max_effect);
        let direction = if q > 0.0 {
            -1.0
        } else if q < 0.0 {
            1.0
        } else {
            0.0
        };
        // `decidedness` grows from 0 at the threshold to 1 for a certain result, so that its two terms do not jump if
        // the child's value crosses the threshold.
        let decidedness = if moves_left.threshold > 0.0 && moves_left.threshold < 1.0 {
            (q.abs() - moves_left.threshold).max(0.0) / (1.0 - moves_left.threshold)
        } else {
            q.abs()
        };
        let weight = moves_left.constant_factor
            + moves_left.scaled_factor * decidedness
            + moves_left.quadratic_factor * decidedness * decidedness;
        effect * direction * weight
    }
}

/// Computes the values of a node's children from the node's point of view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Valuation<'a> {
    draw_score: f32,
    bonus: MovesLeftBonus<'a>,
    /// Whether the value is `wl` alone, because draws are worth 0 and there is no moves-left bonus. This is the usual
    /// case.
    is_plain: bool,
}

impl<'a> Valuation<'a> {
    /// The valuation of the children of a node whose value is `parent`.
    pub(crate) fn new(params: &'a SearchParams, parent: Sample, draw_score: f32) -> Valuation<'a> {
        let bonus = MovesLeftBonus::new(params, parent);
        Valuation { draw_score, bonus, is_plain: draw_score == 0.0 && bonus.active.is_none() }
    }

    /// The value of a visited child. `child` is from the child's point of view.
    pub(crate) fn of(&self, child: Sample) -> f32 {
        let (q, bonus) = self.parts(child);
        q + bonus
    }

    /// The two terms of [`Valuation::of`]: the utility and the moves-left bonus.
    pub(crate) fn parts(&self, child: Sample) -> (f32, f32) {
        let sample = child.for_parent();
        let q = utility(sample, self.draw_score);
        // The bonus compares the child's own plies left with the parent's.
        (q, self.bonus.of(sample.m - 1.0, q))
    }

    /// The value of a visited child, computed from the mean of its visits.
    #[inline]
    pub(crate) fn of_mean(&self, child: &Node) -> f32 {
        if self.is_plain { 0.0 - child.mean_wl() } else { self.of(child.mean()) }
    }
}

/// The number of consecutive visits after which the score of a move,
/// `prior * exploration / (1 + started) + utility`, no longer exceeds `rival_score`. It is at least 1.
pub(crate) fn visits_until_overtaken(
    prior: f32,
    exploration: f32,
    started: u32,
    utility: f32,
    rival_score: f32,
) -> u32 {
    if utility >= rival_score {
        return u32::MAX;
    }
    let crossing = prior * exploration / (rival_score - utility);
    // After v more visits the score is `prior * exploration / (1 + started + v) + utility`. If the crossing is
    // NaN, `round_up` makes it 0.
    round_up(crossing - 1.0 - started as f32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> SearchParams {
        SearchParams { has_moves_left: true, ..SearchParams::default() }
    }

    #[test]
    fn cpuct_grows_with_the_logarithm_of_visits() {
        let params = params();
        assert!((cpuct(&params, 0, false) - 1.745).abs() < 1e-6);
        let expected = 1.745 + 3.894 * ((1_000_000.0_f32 + 38739.0) / 38739.0).ln();
        assert!((cpuct(&params, 1_000_000, false) - expected).abs() < 1e-4);
    }

    #[test]
    fn untried_moves_lose_value_as_the_visited_policy_grows() {
        let params = params();
        assert_eq!(first_play_urgency(&params, 0.2, 0.0, false), 0.2);
        assert!((first_play_urgency(&params, 0.2, 0.25, false) - (0.2 - 0.33 * 0.5)).abs() < 1e-6);
    }

    #[test]
    fn shorter_wins_and_longer_losses_are_preferred() {
        let params = params();
        let winning = MovesLeftBonus::new(&params, Sample { wl: 0.95, d: 0.0, m: 30.0 });
        assert!(winning.of(20.0, 0.95) > winning.of(40.0, 0.95));
        let losing = MovesLeftBonus::new(&params, Sample { wl: -0.95, d: 0.0, m: 30.0 });
        assert!(losing.of(20.0, -0.95) < losing.of(40.0, -0.95));
        let level = MovesLeftBonus::new(&params, Sample { wl: 0.5, d: 0.0, m: 30.0 });
        assert_eq!(level.of(20.0, 0.5), 0.0);
    }

    #[test]
    fn visits_until_overtaken_matches_counting() {
        let (prior, exploration, utility, rival) = (0.4, 3.0, 0.1, 0.25);
        for start in 0..12 {
            let mut started = start;
            let mut counted = 0;
            // The move gets visits while it is ahead. Its first visit is always made.
            loop {
                counted += 1;
                started += 1;
                if prior * exploration / (1.0 + started as f32) + utility <= rival {
                    break;
                }
            }
            assert_eq!(
                visits_until_overtaken(prior, exploration, start, utility, rival),
                counted,
                "from {start}"
            );
        }
        assert_eq!(visits_until_overtaken(0.4, 3.0, 0, 0.5, 0.25), u32::MAX);
    }
}
