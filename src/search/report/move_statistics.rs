//! `VerboseMoveStats`: the statistics of the searched root moves, in lc0's format.

use super::info_lines::wdl_view;
use crate::info::ThinkingInfo;
use crate::policy::select;
use crate::state::{Counters, SearchContext};
use rukh_backend::EvalRequest;
use rukh_base::sync::atomic::Ordering;
use rukh_chess::{PositionHistory, uci_move};
use rukh_net::policy_index;
use rukh_tree::{Bounds, Link, Node};
use std::fmt::Write;

/// Sends a line for each searched root move, the best last, and then a line for the root. With `VerboseMoveStats` the lines go
/// to the GUI. Otherwise they go to the log if there is one, as in lc0.
pub(crate) fn move_statistics_lines(context: &SearchContext, counters: &Counters) -> Vec<ThinkingInfo> {
    if !context.params.verbose_move_stats {
        if context.responder.takes_notes() {
            move_statistics(context, counters).iter().for_each(|line| context.responder.note(line));
        }
        return Vec::new();
    }
    (move_statistics(context, counters).into_iter())
        .map(|comment| ThinkingInfo { comment, ..ThinkingInfo::default() })
        .collect()
}

fn move_statistics(context: &SearchContext, counters: &Counters) -> Vec<String> {
    let root = context.root();
    let position = context.history.last();
    let side = position.side_to_move();
    let draw_score = context.root_draw_score();
    let fpu = context.root_first_play_urgency();
    let exploration = context.exploration(context.tree.root(), true);
    let valuation = select::Valuation::new(&context.params, context.root_sample(), draw_score);
    let mut rows: Vec<(u32, f32, String)> = Vec::new();
    let mut history = context.history.clone();
    let searched = |link: &Link<'_>| context.is_searched(link.edge().packed_move());
    for (_, link) in context.tree.links(root).filter(|(_, link)| searched(link)) {
        let child = link.child().map(|id| context.tree.node(id));
        let (visits, in_flight) = (link.visits(), link.in_flight());
        let prior = select::prior_of(link.edge(), child.and_then(Node::outcome));
        let u = prior * exploration / (1.0 + (visits + in_flight) as f32);
        let visited = child.filter(|_| visits > 0).map(|child| child.sample());
        let (q, m_bonus) = visited.map_or((fpu, 0.0), |sample| valuation.parts(sample));
        let m = link.edge().packed_move();
        let mut line = format!(
            "{:<5} ({:<4}) ",
            uci_move::text(m.unpack(position), true),
            policy_index::index_of(m, side, 0)
        );
        write_counts(&mut line, visits, in_flight, prior);
        match visited {
            Some(sample) => write_value(context, &mut line, -sample.wl, sample.d, sample.m, draw_score),
            None => {
                let _ = write!(line, "(WL:  -.-----) (D: -.---) (M:  -.-) (Q: {fpu:>8.5}) ");
            }
        }
        let _ = write!(line, "(U: {u:>6.5}) (S: {:>8.5}) ", q + u + m_bonus);
        let own_value = child.and_then(|child| {
            history.push(m.unpack(position));
            let value = own_value(context, child, &history);
            history.pop();
            value.map(|value| -value)
        });
        write_own_value(&mut line, own_value);
        if let Some(child) = child {
            line.push_str(bounds_mark(child.bounds().flipped()));
        }
        rows.push((visits, q + u, line));
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut lines: Vec<String> = rows.into_iter().map(|(_, _, line)| line).collect();
    lines.push(root_statistics(context, counters, draw_score));
    lines
}

/// Writes a value in the view of the root's side, after removing the effect of contempt and calibration.
fn write_value(context: &SearchContext, line: &mut String, wl: f32, d: f32, m: f32, draw_score: f32) {
    let (wl, d) = match context.params.wdl_rescale.is_active() {
        true => {
            let (wl, d, _) = wdl_view(context).convert(wl, d);
            (wl, d)
        }
        false => (wl, d),
    };
    let q = wl + draw_score * d;
    let _ = write!(line, "(WL: {wl:>8.5}) (D: {d:>5.3}) (M: {m:>4.1}) (Q: {q:>8.5}) ");
}

fn root_statistics(context: &SearchContext, counters: &Counters, draw_score: f32) -> String {
    let root = context.root();
    let edge_count = root.edge_count();
    let in_flight = counters.root_in_flight.load(Ordering::Relaxed);
    let mut line = format!("node  ({edge_count:>4}) ");
    write_counts(&mut line, context.root_visits(), in_flight, context.root_visited_policy());
    let sample = context.root_sample();
    write_value(context, &mut line, sample.wl, sample.d, sample.m, draw_score);
    write_own_value(&mut line, own_value(context, root, &context.history));
    line.push_str(bounds_mark(root.bounds()));
    line
}

/// The result of `node` if it is terminal, and otherwise the network's value, both in the node's view. The node belongs
/// to the last position of `history`. `None` if the network's value is not in the cache.
fn own_value(context: &SearchContext, node: &Node, history: &PositionHistory) -> Option<f32> {
    if let Some(outcome) = node.outcome() {
        return Some(f32::from(outcome.result));
    }
    let mut moves = Vec::new();
    history.last().packed_moves(&mut moves);
    context.backend.cached(EvalRequest { history, moves: &moves }).map(|found| found.value.q)
}

fn write_counts(line: &mut String, visits: u32, in_flight: u32, prior: f32) {
    let decimals = if prior >= 0.999_95 { 1 } else { 2 };
    let percent = prior * 100.0;
    // Writing to a string cannot fail.
    let _ = write!(line, "N: {visits:>7} (+{in_flight:>2}) (P: {percent:>5.decimals$}%) ");
}

fn write_own_value(line: &mut String, value: Option<f32>) {
    let _ = match value {
        Some(value) => write!(line, "(V: {value:>7.4}) "),
        None => write!(line, "(V:  -.----) "),
    };
}

/// The mark for proven bounds in the view of the root's side: T is exact, W cannot lose, L cannot win.
fn bounds_mark(bounds: Bounds) -> &'static str {
    match (bounds.lower, bounds.upper) {
        (lower, upper) if lower == upper => "(T) ",
        (0, 1) => "(W) ",
        (-1, 0) => "(L) ",
        _ => "",
    }
}
