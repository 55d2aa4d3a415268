//! Info lines: the best moves with their scores and lines of play.

use super::best_move::{RankedChild, best_root_move, ranked_children};
use super::score::{ScoreInputs, WdlView, mate_in, score, tablebase_score, wdl_permille};
use crate::info::{Score, ThinkingInfo};
use crate::state::{Control, Counters, LastReport, SearchContext};
use rukh_base::sync::atomic::Ordering;
use rukh_chess::{Move, PackedMove, Position};
use rukh_tree::{NodeId, Outcome, TerminalKind};
use std::time::{Duration, Instant};

/// The longest time between two reports. The watchdog looks ten times a second, so that a line comes every second.
const MAX_REPORT_INTERVAL: Duration = Duration::from_millis(900);
/// The maximum number of moves in a reported line of play.
const MAX_PV_MOVES: usize = 200;

/// Whether a new report is due: the depth or the best move has changed since the last info lines, or these were sent
/// long ago.
pub(crate) fn is_news(context: &SearchContext, counters: &Counters, last: &LastReport) -> bool {
    counters.average_depth() != last.depth
        || counters.seldepth.load(Ordering::Relaxed) != last.seldepth
        || last.at.is_none_or(|at| at.elapsed() >= MAX_REPORT_INTERVAL)
        || best_root_move(context) != last.best
}

/// The info lines of the best `MultiPV` root moves, one line each, which are to be sent now.
pub(crate) fn info_lines(
    context: &SearchContext,
    counters: &Counters,
    control: &mut Control,
    ranked: &[RankedChild],
) -> Vec<ThinkingInfo> {
    let now = Instant::now();
    let playouts = counters.playouts.load(Ordering::Relaxed);
    let searching = control.first_batch.map_or(0, |first| now.duration_since(first).as_millis() as u64);
    let rate = |count: u64| (searching > 0).then(|| count * 1000 / searching);
    let common = ThinkingInfo {
        depth: Some(counters.average_depth()),
        seldepth: Some(counters.seldepth.load(Ordering::Relaxed)),
        time_ms: Some(now.duration_since(control.start).as_millis() as u64),
        nodes: Some(context.nodes(playouts)),
        nps: rate(playouts),
        eps: rate(counters.network_evaluations.load(Ordering::Relaxed)),
        tb_hits: Some(counters.tablebase_hits.load(Ordering::Relaxed)),
        ..ThinkingInfo::default()
    };
    let lines: Vec<ThinkingInfo> = (ranked.iter().take(context.params.multi_pv).enumerate())
        .map(|(rank, child)| info_line(context, common.clone(), rank, child))
        .collect();
    control.last_report = LastReport {
        best: ranked.first().map(RankedChild::packed_move),
        depth: common.depth.unwrap_or_default(),
        seldepth: common.seldepth.unwrap_or_default(),
        at: Some(now),
    };
    lines
}

/// The info line of the root move `child`. `rank` counts from 0, and `common` has the figures that all lines share.
fn info_line(
    context: &SearchContext,
    common: ThinkingInfo,
    rank: usize,
    child: &RankedChild,
) -> ThinkingInfo {
    let root = context.root_sample();
    let draw_score = context.root_draw_score();
    // A move without visits shows the root's own value, with the end of the game one ply later.
    let (wl, d, m) = if child.visits > 0 {
        (child.sample.wl, child.sample.d, child.sample.m)
    } else {
        (root.wl, root.d, root.m + 1.0)
    };
    let (shown_wl, shown_d, mu) = wdl_view(context).convert(wl, d);
    let score = match child.proven {
        Some((result, true)) if result != 0 => {
            Score::Cp(tablebase_score(context.score_type, result, draw_score))
        }
        Some((result, false)) if result != 0 => Score::Mate(mate_in(f32::from(result), m)),
        _ => Score::Cp(score(
            context.score_type,
            ScoreInputs {
                wl: shown_wl,
                d: shown_d,
                q: wl + draw_score * d,
                mu,
                has_wdl: context.params.has_wdl,
            },
        )),
    };
    ThinkingInfo {
        nodes: if context.params.per_pv_counters { Some(u64::from(child.visits)) } else { common.nodes },
        score: Some(score),
        wdl: Some(wdl_permille(shown_wl, shown_d)),
        moves_left: context.params.has_moves_left.then_some(((1.0 + m) / 2.0) as u32),
        multipv: (context.params.multi_pv > 1).then_some(rank as u32 + 1),
        pv: principal_variation(context, child),
        ..common
    }
}

/// The conversion from searched to reported values at the root. It removes as much of the effect of contempt as
/// `WDLEvalObjectivity` says. The effect of calibration stays.
pub(super) fn wdl_view(context: &SearchContext) -> WdlView {
    let rescale = &context.params.wdl_rescale;
    WdlView {
        ratio: rescale.ratio,
        diff: rescale.diff * context.params.wdl_eval_objectivity,
        for_side_to_move: rescale.side == Some(context.history.last().side_to_move()),
        max_s: rescale.max_s,
    }
}

/// The best line of play that starts with `child`.
fn principal_variation(context: &SearchContext, child: &RankedChild) -> Vec<Move> {
    let mut position = context.history.last().clone();
    let mut moves = Vec::new();
    let mut next = Some((child.packed_move(), child.node));
    while let Some((packed, node)) = next
        && moves.len() < MAX_PV_MOVES
    {
        let m = packed.unpack(&position);
        position = position.play(m);
        moves.push(m);
        next = node.and_then(|id| best_child(context, id, &position));
        if next.is_none() && node.is_some_and(|id| mates_at_once(context, id)) {
            moves.extend(position.mating_move());
        }
    }
    moves
}

/// Whether the node is a proven mate in one. Such a node may have no child for the mating move.
fn mates_at_once(context: &SearchContext, id: NodeId) -> bool {
    let mate = Outcome { result: 1, plies: 1, kind: TerminalKind::EndOfGame };
    context.tree.node(id).outcome() == Some(mate)
}

fn best_child(
    context: &SearchContext,
    id: NodeId,
    position: &Position,
) -> Option<(PackedMove, Option<NodeId>)> {
    let node = context.tree.node(id);
    if node.visits() == 0 {
        return None;
    }
    ranked_children(context, node, position).first().map(|best| (best.packed_move(), best.node))
}
