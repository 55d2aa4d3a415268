//! The watchdog: asks the stoppers whether to stop, sends info lines, and sends the best move.
//!
//! The watchdog thread watches the clock. The workers ask the stoppers too, after each iteration. The best move is sent
//! as soon as the search stops, without waiting for workers that are still evaluating.

use super::first_choice;
use super::info::BestMove;
use super::policy::select;
use super::report;
use super::state::{Control, Counters, SearchContext, SearchState, SharedControl};
use super::stop::{IterationStats, StopperHints, TimeUsageHint};
use rukh_backend::BackendError;
use rukh_base::sync::atomic::Ordering;
use rukh_tree::{State, TerminalKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The longest sleep of the watchdog. It bounds the delay of info lines.
const MAX_SLEEP: Duration = Duration::from_millis(100);
const MIN_SLEEP: Duration = Duration::from_millis(1);
/// The maximum time that a stopped search waits for the evaluation of its root before it answers without one. If a
/// command ends one search and the next search is stopped at once, each of them may wait this long. Together that is
/// less than the 50 ms that a GUI waits.
const ROOT_TIMEOUT: Duration = Duration::from_millis(20);

/// The time that a search without a first evaluation gets in any case, even if less is left until it must answer.
const LEAST_PATIENCE: Duration = Duration::from_millis(500);

/// The same for a processor, which begins to evaluate at once.
const LEAST_PATIENCE_WITH_PROCESSOR: Duration = Duration::from_millis(20);

/// A move with at most this value is as good as lost (lc0's limit).
const HOPELESS_Q: f32 = -0.98;

/// A search that its clock allows no longer than this is answered at once, if an earlier search has evaluated its root. On a busy
/// machine a new thread waits for a core for many times as long, and then a game with a small increment is lost on time.
const SHORTEST_SEARCH: Duration = Duration::from_millis(1);

/// Sends the best move without a search if there is no time for one, or if a limit is reached already. Returns whether
/// the move was sent. No thread of the search may have been started.
pub(crate) fn answers_at_once(state: &SearchState) -> bool {
    let SearchState { context, counters, control: shared, .. } = state;
    let mut control = shared.lock();
    if !control.may_respond || context.root().state() != State::Expanded || context.root_visits() < 2 {
        return false;
    }
    consult_stoppers(context, counters, shared, &mut control);
    let clock_is_running = control.stopper.last_moment().is_some();
    if clock_is_running && control.hints.remaining_time.is_some_and(|left| left <= SHORTEST_SEARCH) {
        shared.stop_locked(&mut control);
    }
    respond_if_stopped(context, counters, shared, &mut control);
    control.has_responded
}

/// Sends the best move of a search whose only worker has ended, if it was not sent. A search that failed has none.
pub(crate) fn answer(state: &SearchState) {
    let SearchState { context, counters, control: shared, .. } = state;
    let mut control = shared.lock();
    shared.stop_locked(&mut control);
    respond_if_stopped(context, counters, shared, &mut control);
}

/// The body of the watchdog thread. If it panics, the search ends with an error, but some legal move is still sent,
/// so that the GUI does not wait for ever.
pub(crate) fn run_watchdog(state: &SearchState) {
    let SearchState { context, counters, control: shared, .. } = state;
    if catch_unwind(AssertUnwindSafe(|| watch(context, counters, shared))).is_ok() {
        return;
    }
    let error = BackendError::Evaluate {
        name: context.backend.attributes().name.clone(),
        reason: "the watchdog thread panicked".to_owned(),
    };
    shared.fail(&*context.responder, format!("error: {error}"));
    let mut control = shared.lock();
    while !control.may_respond && !control.has_responded {
        control = shared.wait(control, MAX_SLEEP);
    }
    if !control.has_responded {
        control.has_responded = true;
        let best = first_choice::answer(context, &control);
        context.responder.best_move(&BestMove { best, ponder: None });
        shared.notify();
    }
}

/// Runs until the best move has been sent, or until the search is aborted.
fn watch(context: &SearchContext, counters: &Counters, shared: &SharedControl) {
    let mut control = shared.lock();
    let mut warned = false;
    loop {
        // The watchdog need only check the time. The workers check everything else after a whole iteration, so that a
        // search without a clock ends at the same node every time.
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
        seek_first_choice_if_due(context, &mut control);
        let sleep = if shared.is_stopping() {
            MIN_SLEEP
        } else {
            control.hints.remaining_time.unwrap_or(MAX_SLEEP).clamp(MIN_SLEEP, MAX_SLEEP)
        };
        let sleep = if control.may_respond { sleep } else { MAX_SLEEP };
        control = shared.wait(control, sleep);
    }
}

/// The end of a worker's iteration: asks the stoppers, and sends the best move or info lines if they are due.
///
/// If a clock runs, the watchdog sends them. A worker is always busy. When it writes, and the GUI wakes up on its core, a
/// busy system lets other threads go first for tens of milliseconds. The watchdog nearly always sleeps, and comes back
/// at once. Without a clock nobody is in a hurry, and the same search sends the same lines every time.
pub(crate) fn finish_iteration(
    context: &SearchContext,
    counters: &Counters,
    shared: &SharedControl,
    control: &mut Control,
) -> StopperHints {
    let hints = consult_stoppers(context, counters, shared, control);
    if control.planned_end.is_none() {
        respond_if_stopped(context, counters, shared, control);
        report_if_changed(context, counters, control);
    } else if !control.has_responded
        && (shared.is_stopping() || report::is_news(context, counters, &control.last_report))
    {
        shared.notify();
    }
    hints
}

/// Asks the stoppers, and stops the search if one of them says so.
pub(crate) fn consult_stoppers(
    context: &SearchContext,
    counters: &Counters,
    shared: &SharedControl,
    control: &mut Control,
) -> StopperHints {
    let mut hints = StopperHints::default();
    // Before the root is evaluated there is no good move to play, so the search does not stop before it has to.
    if !control.has_responded && !shared.is_stopping() {
        let stats = iteration_stats(context, counters, control);
        let should_stop = match context.root().visits() {
            0 => {
                control.is_out_of_patience = is_out_of_patience(context, &stats, control, &mut hints);
                control.is_out_of_patience
            }
            _ => control.stopper.should_stop(&stats, &mut hints),
        };
        if should_stop {
            shared.stop_locked(control);
        }
        control.planned_end = hints.planned_end.or(control.planned_end);
        control.hints = hints.clone();
    }
    hints
}

/// Whether the wait for the first evaluation has become too long. A processor never hangs, so the search waits for it
/// until the last moment before the game is lost on time, unless it stands in for a lost device.
fn is_out_of_patience(
    context: &SearchContext,
    stats: &IterationStats,
    control: &Control,
    hints: &mut StopperHints,
) -> bool {
    let (Some(patience), is_processor) = patience(context, control) else { return false };
    // The clock may have run while the backend was made, so the search gets a little time in any case. A GUI that sends a
    // clock of zero does not mean it.
    let least = match is_processor {
        true if patience < MIN_SLEEP => LEAST_PATIENCE_WITH_PROCESSOR,
        true => patience.min(LEAST_PATIENCE_WITH_PROCESSOR),
        false => patience.min(LEAST_PATIENCE),
    };
    let left = patience
        .saturating_sub(stats.time_since_move_start)
        .max(least.saturating_sub(control.began.elapsed()));
    hints.limit_time(left);
    if let Some(wait) = first_choice::wait_before(Some(patience), is_processor)
        && !control.has_sought_first_choice
    {
        hints.limit_time(wait.saturating_sub(control.began.elapsed()));
    }
    left.is_zero()
}

/// Looks for another evaluator of the root if the first evaluation is late or has failed.
fn seek_first_choice_if_due(context: &SearchContext, control: &mut Control) {
    if control.has_sought_first_choice || control.has_responded || context.root().visits() > 0 {
        return;
    }
    let (patience, is_processor) = patience(context, control);
    let wait = first_choice::wait_before(patience, is_processor);
    if control.failure.is_none() && wait.is_none_or(|wait| control.began.elapsed() < wait) {
        return;
    }
    control.has_sought_first_choice = true;
    first_choice::seek(context, control);
}

/// The time after which the search answers without an evaluation, and whether a processor evaluates that was not put in
/// the place of a lost device.
fn patience(context: &SearchContext, control: &Control) -> (Option<Duration>, bool) {
    let is_processor = context.backend.attributes().runs_on_cpu && context.backend.devices().lost == 0;
    let stopper = &control.stopper;
    (if is_processor { stopper.last_moment() } else { stopper.patience() }, is_processor)
}

/// Sends info lines if they are due ([`report::is_news`]).
fn report_if_changed(context: &SearchContext, counters: &Counters, control: &mut Control) {
    // Before the first visit below a chosen root move, nothing is known about it.
    let is_known = context.root().visits() > 0 && (!context.is_restricted() || context.root_visits() > 1);
    if control.has_responded || !is_known {
        return;
    }
    if report::is_news(context, counters, &control.last_report) {
        let mut lines = report::info_lines(context, counters, control, &report::ranked_root_moves(context));
        if context.params.log_live_stats {
            lines.append(&mut report::move_statistics_lines(context, counters));
        }
        context.responder.thinking(&lines);
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
    let waits_no_longer = match control.is_out_of_patience || control.failure.is_some() {
        true => !first_choice::is_worth_waiting_for(context, control),
        false => stopped_at.elapsed() >= ROOT_TIMEOUT,
    };
    if root_is_known || waits_no_longer {
        respond(context, counters, shared, control);
    }
}

/// Sends the last info lines, the statistics and the best move. The workers may still be running.
fn respond(context: &SearchContext, counters: &Counters, shared: &SharedControl, control: &mut Control) {
    let ranked = report::ranked_root_moves(context);
    let (lines, best) = if ranked.is_empty() {
        let best = first_choice::answer(context, control);
        (Vec::new(), BestMove { best, ponder: None })
    } else {
        let mut lines = report::info_lines(context, counters, control, &ranked);
        lines.append(&mut report::move_statistics_lines(context, counters));
        lines.extend(report::device_notice(context, counters, control));
        // The ranking is that of the info lines, because the workers may have changed the tree in the meantime.
        (lines, report::best_move(context, &ranked))
    };
    let stats = iteration_stats(context, counters, control);
    control.stopper.on_search_done(&stats);
    control.has_responded = true;
    // All goes out in one piece. A line that is written alone wakes the GUI, which may take this thread's core before the
    // best move is written.
    context.responder.answer(&lines, &best);
    shared.notify();
    note_times(context, control);
}

/// Notes in the log when the move was due, and when it came. `scripts/matches/clock_games.py` reads this line.
fn note_times(context: &SearchContext, control: &Control) {
    let Some(planned) = control.planned_end.filter(|_| context.responder.takes_notes()) else { return };
    let stopped = control.stopped_at.map_or(Duration::ZERO, |at| at.duration_since(control.start));
    let evaluated = control.first_batch.map_or(Duration::ZERO, |at| at.duration_since(control.start));
    let [planned, stopped, answered, evaluated] =
        [planned, stopped, control.start.elapsed(), evaluated].map(|time| 1000.0 * time.as_secs_f64());
    context.responder.note(&format!(
        "time: planned {planned:.2} ms, stopped after {stopped:.2} ms, answered after {answered:.2} ms, \
         first batch after {evaluated:.2} ms"
    ));
}

/// The statistics by which stoppers decide.
fn iteration_stats(context: &SearchContext, counters: &Counters, control: &Control) -> IterationStats {
    let now = Instant::now();
    let since = |start: Option<Instant>| start.map_or(Duration::ZERO, |start| now.duration_since(start));
    let playouts = counters.playouts.load(Ordering::Relaxed);
    let mut stats = IterationStats {
        time_since_move_start: since(Some(control.start)),
        time_since_first_batch: since(control.first_batch),
        total_nodes: context.nodes(playouts),
        nodes_since_move_start: context.new_nodes(playouts),
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
    let valuation = select::Valuation::new(&context.params, context.root_sample(), context.root_draw_score());
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
            stats.is_hopeless &= q <= HOPELESS_Q;
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
        }
        best_value = best_value.max(value);
        stats.edge_visits.push(visits);
    }
    stats.is_solved = proven_edges > 0 && proven_edges == stats.edge_visits.len();
    if most_visits > 0 && best_value > most_visits_value {
        stats.time_usage_hint = TimeUsageHint::NeedMoreTime;
    }
}
