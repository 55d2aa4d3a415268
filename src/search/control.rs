//! The controller: keeps the clock of one search and tells its end.

use super::shared::Control;
use super::stopper::{IterationStats, StopperHints, TimeUsageHint};
use super::worker::Worker;
use super::{BestMove, Shared, select};
use crate::sync::atomic::Ordering;
use crate::tree::{State, TerminalKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The controller sleeps no longer than this, so that news comes in time.
const LONGEST_NAP: Duration = Duration::from_millis(100);
const SHORTEST_NAP: Duration = Duration::from_millis(1);
/// How long a stopped search waits for its root to be evaluated before it answers with any move.
/// It and that of a search that the next command ended before are less than the 50 ms of a GUI's patience.
const ROOT_PATIENCE: Duration = Duration::from_millis(20);

/// A move of this value is as good as lost; lc0 takes the same.
const HOPELESS: f32 = -0.98;

impl Shared {
    /// The controller thread. A panic in it ends the search like an error, and some move is told: nobody waits
    /// for ever.
    pub(super) fn run_controller(&self) {
        if catch_unwind(AssertUnwindSafe(|| self.keep_clock())).is_ok() {
            return;
        }
        self.fail(&crate::backend::BackendError::Evaluate {
            name: self.backend.attributes().name.clone(),
            reason: "the thread that keeps the clock panicked".to_owned(),
        });
        let mut control = self.control();
        while !control.may_respond && !control.has_responded {
            control = self.wait_for_control(control, LONGEST_NAP);
        }
        if !control.has_responded {
            control.has_responded = true;
            self.responder.best_move(&BestMove { best: self.any_legal_move(), ponder: None });
            self.notify_control();
        }
    }

    /// Runs until the best move was told or is not wanted.
    fn keep_clock(&self) {
        let mut control = self.control();
        let mut warned = false;
        loop {
            // Only time passes without the workers' knowing; everything else they check themselves, after a whole
            // iteration, so that a search without a clock ends at the same node every time.
            if control.hints.remaining_time.is_some() || self.counters.batches.load(Ordering::Relaxed) == 0 {
                self.consult_stoppers(&mut control);
            }
            self.respond_if_stopped(&mut control);
            if control.has_responded {
                return;
            }
            if self.is_stopping() && !control.may_respond && !warned {
                warned = true;
                self.responder.message("the search has reached a limit and waits for stop or ponderhit");
            }
            self.report_if_changed(&mut control);
            let nap = if self.is_stopping() {
                SHORTEST_NAP
            } else {
                control.hints.remaining_time.unwrap_or(LONGEST_NAP).clamp(SHORTEST_NAP, LONGEST_NAP)
            };
            let nap = if control.may_respond { nap } else { LONGEST_NAP };
            control = self.wait_for_control(control, nap);
        }
    }

    /// A worker thread. A panic in it ends the search like an error, with an answer.
    pub(super) fn run_worker(&self, index: usize) {
        let ended = catch_unwind(AssertUnwindSafe(|| {
            self.wait_for_predecessors();
            Worker::new(self, index).run();
        }));
        if ended.is_err() && self.desks.leave_in_panic(index, |gathered| self.cancel(gathered)) {
            self.fail(&crate::backend::BackendError::Evaluate {
                name: self.backend.attributes().name.clone(),
                reason: "a search thread panicked".to_owned(),
            });
        }
    }

    /// Asks the stoppers, stops if they say so, and answers if the answer is due.
    pub(super) fn consult_stoppers(&self, control: &mut Control) -> StopperHints {
        let mut hints = StopperHints::default();
        // Before the root is evaluated there is nothing to stop for: there would be no move to play.
        if !control.has_responded && !self.is_stopping() {
            let stats = self.iteration_stats(control);
            if control.stopper.should_stop(&stats, &mut hints) && stats.total_nodes > 0 {
                self.stop_workers_locked(control);
            }
            control.hints = hints.clone();
        }
        self.respond_if_stopped(control);
        hints
    }

    fn respond_if_stopped(&self, control: &mut Control) {
        if control.has_responded || !control.may_respond || !self.is_stopping() {
            return;
        }
        let stopped_at = *control.stopped_at.get_or_insert_with(Instant::now);
        let root_is_known = self.root().state() != State::Unevaluated && self.root().visits() > 0;
        if root_is_known || stopped_at.elapsed() >= ROOT_PATIENCE || self.failure().is_some() {
            self.respond(control);
        }
    }

    /// The figures that stoppers decide by.
    pub(super) fn iteration_stats(&self, control: &Control) -> IterationStats {
        let now = Instant::now();
        let since = |start: Option<Instant>| start.map_or(Duration::ZERO, |start| now.duration_since(start));
        let playouts = self.counters.playouts.load(Ordering::Relaxed);
        let mut stats = IterationStats {
            time_since_move_start: since(Some(control.start)),
            time_since_first_batch: since(control.first_batch),
            total_nodes: playouts + self.initial_visits,
            nodes_since_move_start: playouts,
            batches_since_move_start: self.counters.batches.load(Ordering::Relaxed),
            average_depth: self.counters.average_depth(),
            ..IterationStats::default()
        };
        self.add_root_moves(&mut stats);
        stats
    }

    fn add_root_moves(&self, stats: &mut IterationStats) {
        let root = self.root();
        if root.visits() == 0 {
            return;
        }
        let side = self.history.last().side_to_move();
        let draw_score = self.params.draw_score_for(side);
        let fpu = self.root_first_play_urgency();
        let valuation = select::Valuation::new(&self.params, root.sample(), draw_score);
        stats.is_hopeless = true;
        let mut proven_edges = 0;
        let (mut most_visits, mut most_visits_value) = (0, f32::NEG_INFINITY);
        let mut best_value = f32::NEG_INFINITY;
        for (_, link) in self.tree.links(root) {
            if !self.is_searched(link.edge().packed_move()) {
                continue;
            }
            let child = link.child().map(|id| self.tree.node(id));
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
}
