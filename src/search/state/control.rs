//! The control that the threads of a search share: the stop flag, the state behind a lock, and the signals on which
//! threads sleep. The module [`watchdog`](crate::watchdog) makes the decisions.

use crate::info::Responder;
use crate::stop::{Stopper, StopperHints};
use rukh_base::cache_line::OwnLines;
use rukh_base::sync::atomic::{AtomicBool, Ordering};
use rukh_base::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, try_lock, wait_timeout};
use rukh_chess::{Move, PackedMove};
use std::time::{Duration, Instant};

/// The longest sleep of a worker that found only collisions. Then it gathers again.
const LONGEST_WAIT_FOR_PROGRESS: Duration = Duration::from_millis(10);

/// The clock of a search, its stoppers, and the state of its reports.
pub(crate) struct Control {
    pub(crate) stopper: Box<dyn Stopper>,
    /// The stoppers' last hints.
    pub(crate) hints: StopperHints,
    /// When the move's clock started.
    pub(crate) start: Instant,
    /// When the search began. That may be long after `start`, because the first search makes the backend.
    pub(crate) began: Instant,
    /// When the first batch was done.
    pub(crate) first_batch: Option<Instant>,
    /// Whether the best move may be sent. It may not while the search is infinite or ponders.
    pub(crate) may_respond: bool,
    /// Whether the best move has been sent, or is no longer wanted.
    pub(crate) has_responded: bool,
    /// When the search should stop by its clock, counted from `start`. `None` without a clock.
    pub(crate) planned_end: Option<Duration>,
    /// When the stop flag was set.
    pub(crate) stopped_at: Option<Instant>,
    /// Whether the search has stopped because its first evaluation did not come in time.
    pub(crate) is_out_of_patience: bool,
    /// The move for the case that the root is never evaluated.
    pub(crate) first_choice: Arc<Mutex<FirstChoice>>,
    /// Whether that move is being sought, or was.
    pub(crate) has_sought_first_choice: bool,
    /// The message of the error that has ended the search.
    pub(crate) failure: Option<String>,
    pub(crate) last_report: LastReport,
}

/// What one evaluation beside the search has found out about the root.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FirstChoice {
    /// Whether nothing more is to come.
    pub(crate) is_done: bool,
    /// The best move so far, and the network that chose it.
    pub(crate) best: Option<(Move, &'static str)>,
}

/// The figures of the last info line, so that only news is reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastReport {
    pub(crate) best: Option<PackedMove>,
    pub(crate) depth: u32,
    pub(crate) seldepth: u32,
    pub(crate) at: Option<Instant>,
}

impl Control {
    pub(super) fn new(stopper: Box<dyn Stopper>, start: Instant, may_respond: bool) -> Control {
        Control {
            stopper,
            hints: StopperHints::default(),
            start,
            began: Instant::now(),
            first_batch: None,
            may_respond,
            has_responded: false,
            planned_end: None,
            stopped_at: None,
            is_out_of_patience: false,
            first_choice: Arc::default(),
            has_sought_first_choice: false,
            failure: None,
            last_report: LastReport::default(),
        }
    }
}

/// The [`Control`] behind its lock, the stop flag, and the two conditions on which threads sleep.
pub(crate) struct SharedControl {
    /// All workers read it after each descent.
    stop: OwnLines<AtomicBool>,
    control: Mutex<Control>,
    control_changed: Condvar,
    /// The number of iterations of all workers that finished any visits. A worker that found only collisions sleeps
    /// until this number grows. A stop counts as well, so that it wakes these workers.
    progress: Mutex<u64>,
    progress_changed: Condvar,
}

impl SharedControl {
    pub(super) fn new(control: Control) -> SharedControl {
        SharedControl {
            stop: OwnLines(AtomicBool::new(false)),
            control: Mutex::new(control),
            control_changed: Condvar::new(),
            progress: Mutex::new(0),
            progress_changed: Condvar::new(),
        }
    }

    /// Whether the workers should end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Sets the stop flag and wakes all threads of the search.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.stop_locked(&mut self.lock());
    }

    /// The same as [`SharedControl::stop`] for a thread that has locked the control.
    pub(crate) fn stop_locked(&self, control: &mut Control) {
        self.stop.store(true, Ordering::Release);
        control.stopped_at.get_or_insert_with(Instant::now);
        self.control_changed.notify_all();
        // This also wakes the workers that wait for progress.
        self.count_progress();
    }

    /// Ends the search because of an error. The best move so far is still sent.
    pub(crate) fn fail(&self, responder: &dyn Responder, message: String) {
        self.stop.store(true, Ordering::Release);
        let mut control = self.lock();
        if control.failure.is_none() {
            responder.message(&message);
            control.failure = Some(message);
        }
        self.stop_locked(&mut control);
    }

    /// Whether no thread has locked the control at this moment.
    pub(crate) fn is_unlocked(&self) -> bool {
        self.try_lock().is_some()
    }

    /// Locks the control. It stays usable after the panic of another thread, because it holds plain figures.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the control if no other thread has locked it at this moment.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Control>> {
        try_lock(&self.control)
    }

    /// Sleeps until the control changes, at most for `limit`.
    pub(crate) fn wait<'a>(
        &'a self,
        control: MutexGuard<'a, Control>,
        limit: Duration,
    ) -> MutexGuard<'a, Control> {
        wait_timeout(&self.control_changed, &self.control, control, limit)
    }

    /// Wakes the threads that wait for a change of the control.
    pub(crate) fn notify(&self) {
        self.control_changed.notify_all();
    }

    /// The number of iterations of all workers that finished any visits.
    pub(crate) fn progress(&self) -> u64 {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a finished iteration, and wakes the workers that sleep in [`SharedControl::wait_for_progress`].
    pub(crate) fn count_progress(&self) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.progress_changed.notify_all();
    }

    /// Sleeps until more than `seen` iterations are finished or the search stops, at most for 10 ms.
    pub(crate) fn wait_for_progress(&self, seen: u64) {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if *progress == seen && !self.is_stopping() {
            let limit = LONGEST_WAIT_FOR_PROGRESS;
            drop(wait_timeout(&self.progress_changed, &self.progress, progress, limit));
        }
    }
}
