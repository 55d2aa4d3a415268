//! The watchdog: asks the stoppers whether to stop, reports news, and sends the best move.
//!
//! The watchdog thread watches the clock. The workers ask the stoppers too, after each iteration. The best move is sent
//! as soon as the search stops, without waiting for workers that are still evaluating.

use super::info::BestMove;
use super::policy::select;
use super::report;
use super::state::{Control, Counters, SearchContext, SearchState, SharedControl};
use super::stop::{IterationStats, StopperHints, TimeUsageHint};
use crate::backend::BackendError;
use crate::sync::atomic::Ordering;
use crate::tree::{State, TerminalKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The watchdog sleeps no longer than this, so that news comes in time.
const LONGEST_NAP: Duration = Duration::from_millis(100);
const SHORTEST_NAP: Duration = Duration::from_millis(1);
/// How long a stopped search waits for its root to be evaluated before it sends any legal move. A search that the next
/// command has ended waits as long before. Together that is less than the 50 ms that a GUI waits.
const ROOT_PATIENCE: Duration = Duration::from_millis(20);

/// A move of this value is as good as lost; lc0 uses the same limit.
const HOPELESS: f32 = -0.98;

/// The body of the watchdog thread. A panic in it ends the search like an error, and some move is still sent, so that
/// nobody waits for ever.
pub(crate) fn run_watchdog(state: &SearchState) {
    let SearchState { context, counters, control: shared, .. } = state;
    if catch_unwind(AssertUnwindSafe(|| watch(context, counters, shared))).is_ok() {
        return;
    }
    let error = BackendError::Evaluate {
        name: context.backend.attributes().name.clone(),
        reason: "the thread that keeps the clock panicked".to_owned(),
    };
    shared.fail(&*context.responder, format!("error: {error}"));
    let mut control = shared.lock();
    while !control.may_respond && !control.has_responded {
        control = shared.wait(control, LONGEST_NAP);
    }
    if !control.has_responded {
        control.has_responded = true;
        context.responder.best_move(&BestMove { best: context.any_searched_move(), ponder: None });
        shared.notify();
    }
}

/// Runs until the best move was sent or is no longer wanted.
fn watch(context: &SearchContext, counters: &Counters, shared: &SharedControl) {
    let mut control = shared.lock();
    let mut warned = false;
    loop {
        // Only time passes without the workers' knowledge. They check everything else themselves, after a whole
        // iteration, so that a search without a clock ends at the same node every time.
        if control.hints.remaining_time.is_some() || counters.batches.load(Ordering::Relaxed) == 0 {
            consult_stoppers(context, counters, shared, &mut control);
        }
        respond_if_stopped(context, counters, shared, &mut control);
        if control.has_responded {
            return;
        }
        if shared.is_stopping() && !control.may_respond && !warned {
            warned = true;
            context.responder.message("the search has reached a limit and waits for stop or ponderhit");
        }
        report_if_changed(context, counters, &mut control);
        let nap = if shared.is_stopping() {
            SHORTEST_NAP
        } else {
            control.hints.remaining_time.unwrap_or(LONGEST_NAP).clamp(SHORTEST_NAP, LONGEST_NAP)
        };
        let nap = if control.may_respond { nap } else { LONGEST_NAP };
        control = shared.wait(control, nap);
    }
}

/// Asks the stoppers, stops the search if one says so, and sends the best move if it is due.
pub(crate) fn consult_stoppers(
    context: &SearchContext,
    counters: &Counters,
    shared: &SharedControl,
    control: &mut Control,
) -> StopperHints {
    let mut hints = StopperHints::default();
    // Before the root is evaluated there is nothing to stop for: there would be no move to play.
    if !control.has_responded && !shared.is_stopping() {
        let stats = iteration_stats(context, counters, control);
        if control.stopper.should_stop(&stats, &mut hints) && stats.total_nodes > 0 {
            shared.stop_locked(control);
        }
        control.hints = hints.clone();
    }
    respond_if_stopped(context, counters, shared, control);
    hints
}

/// Sends info lines if something important has changed since the last ones.
pub(crate) fn report_if_changed(context: &SearchContext, counters: &Counters, control: &mut Control) {
    if control.has_responded || context.root().visits() == 0 {
        return;
    }
    if report::is_news(context, counters, &control.last_report) {
        report::send_info_lines(context, counters, control, &report::ranked_root_moves(context));
        if context.params.log_live_stats {
            report::send_move_statistics(context, counters);
        }
    }
}

fn respond_if_stopped(
    context: &SearchContext,
    counters: &Counters,
    shared: &SharedControl,
    control: &mut Control,
) {
    if control.has_responded || !control.may_respond || !shared.is_stopping() {
        return;
    }
    let stopped_at = *control.stopped_at.get_or_insert_with(Instant::now);
    let root = context.root();
    let root_is_known = root.state() != State::Unevaluated && root.visits() > 0;
    if root_is_known || stopped_at.elapsed() >= ROOT_PATIENCE || control.failure.is_some() {
        respond(context, counters, shared, control);
    }
}

/// Sends the last info lines, the statistics and the best move. The workers may still be busy.
fn respond(context: &SearchContext, counters: &Counters, shared: &SharedControl, control: &mut Control) {
    let ranked = report::ranked_root_moves(context);
    let best = if ranked.is_empty() {
        // Nothing was evaluated in time: any legal move is better than none.
        BestMove { best: context.any_searched_move(), ponder: None }
    } else {
        report::send_info_lines(context, counters, control, &ranked);
        report::send_move_statistics(context, counters);
        // From the same ranking as the line above: the workers may be changing the tree.
        report::best_move(context, &ranked, control.is_recycling)
    };
    let stats = iteration_stats(context, counters, control);
    control.stopper.on_search_done(&stats);
    control.has_responded = true;
    context.responder.best_move(&best);
    shared.notify();
}

/// The figures by which stoppers decide.
fn iteration_stats(context: &SearchContext, counters: &Counters, control: &Control) -> IterationStats {
    let now = Instant::now();
    let since = |start: Option<Instant>| start.map_or(Duration::ZERO, |start| now.duration_since(start));
    let playouts = counters.playouts.load(Ordering::Relaxed);
    let mut stats = IterationStats {
        time_since_move_start: since(Some(control.start)),
        time_since_first_batch: since(control.first_batch),
        total_nodes: playouts + context.initial_visits,
        nodes_since_move_start: playouts,
        batches_since_move_start: counters.batches.load(Ordering::Relaxed),
        average_depth: counters.average_depth(),
        ..IterationStats::default()
    };
    add_root_moves(context, &mut stats);
    stats
}

fn add_root_moves(context: &SearchContext, stats: &mut IterationStats) {
    let root = context.root();
    if root.visits() == 0 {
        return;
    }
    let fpu = context.root_first_play_urgency();
    let valuation = select::Valuation::new(&context.params, root.sample(), context.root_draw_score());
    stats.is_hopeless = true;
    let mut proven_edges = 0;
    let (mut most_visits, mut most_visits_value) = (0, f32::NEG_INFINITY);
    let mut best_value = f32::NEG_INFINITY;
    for (_, link) in context.tree.links(root) {
        if !context.is_searched(link.edge().packed_move()) {
            continue;
        }
        let child = link.child().map(|id| context.tree.node(id));
        let visits = link.visits();
        let mut value = fpu;
        if let Some(child) = child.filter(|_| visits > 0) {
            let (q, bonus) = valuation.parts(child.sample());
            value = q + bonus;
            stats.is_hopeless &= q <= HOPELESS;
            if let Some(outcome) = child.outcome() {
                proven_edges += 1;
                let is_mate = outcome.result == -1 && outcome.kind == TerminalKind::EndOfGame;
                stats.win_found |= outcome.result == -1;
                stats.losing_edges += usize::from(outcome.result == 1);
                if is_mate {
                    let moves = u32::from(outcome.plies) / 2 + 1;
                    stats.mate_depth = Some(stats.mate_depth.map_or(moves, |least| least.min(moves)));
                }
            }
        }
        if visits > most_visits {
            (most_visits, most_visits_value) = (visits, value);
            stats.best_edge = stats.edge_visits.len();
        }
        best_value = best_value.max(value);
        stats.edge_visits.push(visits);
    }
    stats.is_solved = proven_edges > 0 && proven_edges == stats.edge_visits.len();
    if most_visits > 0 && best_value > most_visits_value {
        stats.time_usage_hint = TimeUsageHint::NeedMoreTime;
    }
}
