//! The best move: the ranking of a node's children, and the random choice by temperature.

use crate::info::BestMove;
use crate::policy::{LowerBoundParams, select};
use crate::state::SearchContext;
use rand::RngExt;
use rukh_chess::{PackedMove, Position};
use rukh_tree::{Edge, Link, Node, NodeId, Sample, TerminalKind, Tree};
use std::cmp::Ordering;

/// A child with the figures by which it is ranked, from its parent's point of view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankedChild {
    pub(super) edge: Edge,
    /// `None` if the move has no node yet.
    pub(super) node: Option<NodeId>,
    pub(super) visits: u32,
    /// The mean of the child's visits. It is meaningless without visits. `m` counts the plies after the move.
    pub(super) sample: Sample,
    /// The proven result for the parent's side (-1, 0 or 1), and whether the proof needs a tablebase.
    pub(super) proven: Option<(i8, bool)>,
    /// The lower bound of the value by which the move is ranked. Without one it is negative infinity.
    pub(super) lower_bound: f32,
}

impl RankedChild {
    pub(super) fn packed_move(&self) -> PackedMove {
        self.edge.packed_move()
    }

    fn is_proven_draw(&self) -> bool {
        matches!(self.proven, Some((0, _)))
    }

    /// Proven wins have positive ranks, proven losses negative ones. A proof without tablebases has a larger absolute
    /// rank.
    fn rank(&self) -> i8 {
        match self.proven {
            Some((result, from_tablebase)) if result != 0 => result * if from_tablebase { 1 } else { 2 },
            _ => 0,
        }
    }
}

/// The root moves that may be played, the best first.
pub(crate) fn ranked_root_moves(context: &SearchContext) -> Vec<RankedChild> {
    ranked_children(context, context.root(), context.history.last())
}

/// The first of [`ranked_root_moves`]. Each iteration needs it, so this function sorts only if it must.
pub(super) fn best_root_move(context: &SearchContext) -> Option<PackedMove> {
    let draw_score = context.root_draw_score();
    let children = children(context, context.root(), context.history.last());
    // If moves are equal, the first one is the best.
    let better = |a, b| if compare(&b, &a, draw_score).is_gt() { b } else { a };
    let mut best = children.iter().copied().reduce(better)?;
    if best.is_proven_draw() {
        best = *ranked_root_moves(context).first()?;
    }
    Some(best.packed_move())
}

/// The children that may be played, the best first. `node` is the node of `position`.
pub(super) fn ranked_children(context: &SearchContext, node: &Node, position: &Position) -> Vec<RankedChild> {
    let mut ranked = children(context, node, position);
    rank(&mut ranked, context.params.draw_score_for(position.side_to_move()));
    ranked
}

/// The children of `node` that may be played, in descending order of their priors.
fn children(context: &SearchContext, node: &Node, position: &Position) -> Vec<RankedChild> {
    let is_root = std::ptr::eq(node, context.root());
    let mut children: Vec<_> = (context.tree.edges(node, position).into_iter())
        .map(|(edge, link)| ranked_child(&context.tree, edge, link))
        .filter(|child| !is_root || context.is_searched(child.packed_move()))
        .collect();
    if is_root && context.params.lower_bound.deviation > 0.0 {
        bound(&mut children, context.params.lower_bound, context.root_draw_score());
    }
    children
}

/// Sets the lower bounds of the moves with enough visits.
fn bound(children: &mut [RankedChild], params: LowerBoundParams, draw_score: f32) {
    let most = children.iter().map(|child| child.visits).max().unwrap_or(0);
    let least = (params.least_visits * most as f32).max(1.0);
    for child in children.iter_mut().filter(|child| child.visits as f32 >= least) {
        child.lower_bound =
            select::utility(child.sample, draw_score) - params.deviation / (child.visits as f32).sqrt();
    }
}

fn ranked_child(tree: &Tree, edge: Edge, link: Option<Link<'_>>) -> RankedChild {
    let node = link.and_then(|link| link.child());
    let mut ranked = RankedChild {
        edge,
        node,
        visits: 0,
        sample: Sample::default(),
        proven: None,
        lower_bound: f32::NEG_INFINITY,
    };
    if let (Some(link), Some(child)) = (link, node.map(|id| tree.node(id))) {
        ranked.visits = link.visits();
        if ranked.visits > 0 {
            let sample = child.sample();
            ranked.sample = Sample { wl: -sample.wl, ..sample };
            ranked.proven =
                child.outcome().map(|outcome| (-outcome.result, outcome.kind == TerminalKind::Tablebase));
        }
    }
    ranked
}

/// Chooses the move to play among the root moves in `ranked`, and predicts the answer (`ponder`).
pub(crate) fn best_move(context: &SearchContext, ranked: &[RankedChild]) -> BestMove {
    let temperature = temperature_now(context);
    let best =
        if temperature > 0.0 { choose_by_temperature(context, ranked, temperature) } else { ranked.first() };
    let Some(best) = best else {
        return BestMove { best: context.any_searched_move(), ponder: None };
    };
    let position = context.history.last();
    let m = best.packed_move().unpack(position);
    let next = position.play(m);
    let answers = best.node.map(|id| ranked_children(context, context.tree.node(id), &next));
    let ponder = answers.and_then(|answers| Some(answers.first()?.packed_move().unpack(&next)));
    BestMove { best: Some(m), ponder }
}

/// The temperature for the current move of the game.
fn temperature_now(context: &SearchContext) -> f32 {
    let params = &context.params.temperature;
    let moves = context.history.last().game_ply() / 2;
    if params.cutoff_move > 0 && moves + 1 >= params.cutoff_move {
        return params.endgame;
    }
    if params.temperature == 0.0 || params.decay_moves == 0 {
        return params.temperature;
    }
    let decayed_moves = moves.saturating_sub(params.decay_delay_moves).min(params.decay_moves);
    let share = (params.decay_moves - decayed_moves) as f32 / params.decay_moves as f32;
    (params.temperature * share).max(params.endgame)
}

/// Chooses a move at random, with a probability proportional to `(visits + visit_offset)^(1 / temperature)`. Moves
/// whose value is too low are left out (`value_cutoff`).
fn choose_by_temperature<'a>(
    context: &SearchContext,
    ranked: &'a [RankedChild],
    temperature: f32,
) -> Option<&'a RankedChild> {
    let params = &context.params.temperature;
    let draw_score = context.root_draw_score();
    let fpu = context.root_first_play_urgency();
    let value = |child: &RankedChild| {
        if child.visits > 0 { select::utility(child.sample, draw_score) } else { fpu }
    };
    let weight_base = |child: &RankedChild| child.visits as f32 + params.visit_offset;
    let most = ranked.iter().max_by(|a, b| weight_base(a).total_cmp(&weight_base(b)))?;
    let most_visits = weight_base(most);
    let best_value = value(most);
    let doubt = if params.keeps_wins { 1.0 - best_value.clamp(0.0, 1.0).powi(12) } else { 1.0 };
    // One percent of win probability is 0.02 of q.
    let least_value = best_value - params.value_cutoff / 50.0 * doubt;
    let weights: Vec<f32> = ranked
        .iter()
        .map(|child| {
            if value(child) < least_value {
                return 0.0;
            }
            let share = if most_visits > 0.0 { weight_base(child) / most_visits } else { child.edge.prior() };
            share.max(0.0).powf(1.0 / temperature)
        })
        .collect();
    let mut remaining = rand::rng().random::<f32>() * weights.iter().sum::<f32>();
    let chosen = weights.iter().position(|weight| {
        remaining -= weight;
        remaining < 0.0
    });
    ranked.get(chosen.unwrap_or(0))
}

/// Sorts the children, the best first.
///
/// Proven draws are ordered among themselves by their length, the shortest first; those that need a tablebase come
/// last. Everything else is ordered by [`compare`], which ranks a draw by its visits. A single comparison with both
/// rules would not be transitive: a draw can have more visits than a move that has more visits than a shorter draw, and
/// the shorter draw is better than the first one. Hence all children are sorted by [`compare`], and then the draws are
/// sorted among the places that they hold.
fn rank(children: &mut [RankedChild], draw_score: f32) {
    children.sort_by(|a, b| compare(b, a, draw_score));
    let draw_places: Vec<usize> =
        (0..children.len()).filter(|&index| children[index].is_proven_draw()).collect();
    let mut draws: Vec<RankedChild> = draw_places.iter().map(|&index| children[index]).collect();
    draws.sort_by(|a, b| {
        let from_tablebase = |child: &RankedChild| child.proven.is_some_and(|(_, tablebase)| tablebase);
        let by_source = from_tablebase(a).cmp(&from_tablebase(b));
        by_source.then(a.sample.m.total_cmp(&b.sample.m))
    });
    for (place, draw) in draw_places.into_iter().zip(draws) {
        children[place] = draw;
    }
}

/// Compares two children; the greater one is better. Proven wins come first (the shorter the better), then lower bound,
/// visits, value and prior decide, and proven losses come last (the longer the better). Wins that need a tablebase come
/// after all other wins, and losses that need one come before all other losses. This is a total order, as a sort
/// requires.
fn compare(a: &RankedChild, b: &RankedChild, draw_score: f32) -> Ordering {
    let by_rank = a.rank().cmp(&b.rank());
    if by_rank.is_ne() {
        return by_rank;
    }
    let shorter = b.sample.m.total_cmp(&a.sample.m);
    match a.rank() {
        1.. => shorter,
        ..0 => shorter.reverse(),
        0 => {
            let value = |child: &RankedChild| {
                if child.visits > 0 { select::utility(child.sample, draw_score) } else { 0.0 }
            };
            // The sort is stable, so equal moves stay in the order of their edges.
            (a.lower_bound.total_cmp(&b.lower_bound))
                .then(a.visits.cmp(&b.visits))
                .then(value(a).total_cmp(&value(b)))
                .then(a.edge.prior().total_cmp(&b.edge.prior()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A child without a node; its move does not matter here.
    fn child(visits: u32, wl: f32, m: f32, proven: Option<(i8, bool)>) -> RankedChild {
        let sample = Sample { wl, m, ..Sample::default() };
        let lower_bound = f32::NEG_INFINITY;
        RankedChild { edge: Edge::from_bits(0), node: None, visits, sample, proven, lower_bound }
    }

    #[test]
    fn a_lower_bound_prefers_a_better_move_with_enough_visits() {
        let ranked_with = |deviation| {
            let mut children =
                [child(400, 0.1, 0.0, None), child(100, 0.2, 0.0, None), child(30, 0.9, 0.0, None)];
            bound(&mut children, LowerBoundParams { deviation, least_visits: 0.15 }, 0.0);
            rank(&mut children, 0.0);
            children.map(|child| child.visits)
        };
        // The bounds are 0.1 - 1/20 and 0.2 - 1/10, and at three times the deviation 0.1 - 3/20 and 0.2 - 3/10.
        assert_eq!(ranked_with(1.0), [100, 400, 30]);
        assert_eq!(ranked_with(3.0), [400, 100, 30]);
    }

    #[test]
    fn wins_then_visits_then_losses() {
        let mut children = [
            child(5, -1.0, 3.0, Some((-1, false))),
            child(5, -1.0, 9.0, Some((-1, false))),
            child(100, 0.1, 0.0, None),
            child(200, 0.0, 0.0, None),
            child(100, 0.2, 0.0, None),
            child(1, 1.0, 7.0, Some((1, false))),
            child(1, 1.0, 3.0, Some((1, false))),
            child(9, 1.0, 1.0, Some((1, true))),
        ];
        rank(&mut children, 0.0);
        let order: Vec<_> = children.iter().map(|child| (child.visits, child.sample.m)).collect();
        let expected = [(1, 3.0), (1, 7.0), (9, 1.0), (200, 0.0), (100, 0.0), (100, 0.0), (5, 9.0), (5, 3.0)];
        assert_eq!(order, expected);
        assert!(children[4].sample.wl > children[5].sample.wl);
    }

    /// A draw that needs a tablebase is last even if it is shorter.
    #[test]
    fn the_shorter_draw_takes_the_better_place() {
        let mut children = [
            child(50, 0.0, 9.0, Some((0, false))),
            child(40, 0.0, 0.0, None),
            child(30, 0.0, 1.0, Some((0, true))),
            child(20, 0.0, 4.0, Some((0, false))),
        ];
        rank(&mut children, 0.0);
        assert_eq!(children.map(|child| child.visits), [20, 40, 50, 30]);
    }

    proptest! {
        /// A sort may panic if the comparison is not a total order.
        #[test]
        fn any_children_can_be_ranked(
            figures in prop::collection::vec((0..4_u32, -1..=1_i8, 0..4_u8, 0..6_u8), 0..120),
        ) {
            let mut children: Vec<RankedChild> = figures
                .iter()
                .map(|&(visits, wl, m, kind)| {
                    let proven = (visits > 0 && kind < 3).then_some((wl, kind == 0));
                    child(visits, f32::from(wl), f32::from(m), proven)
                })
                .collect();
            rank(&mut children, 0.0);
            prop_assert!(children.is_sorted_by(|a, b| a.rank() >= b.rank()));
        }
    }
}
