//! The move of a search whose root was never evaluated: the network's first choice, by one evaluation beside the search.
//!
//! If a card hangs or evaluations fail, the search has nothing to choose by. Long before the move is due, a thread of
//! its own then evaluates the root on the processor ([`Fallback`]): first with the embedded network, which takes
//! milliseconds, and then with the user's network, whose answer counts if it comes in time.

use super::state::{Control, FirstChoice, SearchContext};
use rukh_backend::{EvalRequest, Fallback};
use rukh_base::sync::{Arc, Mutex, MutexGuard, PoisonError, start_thread};
use rukh_chess::{Move, PackedMove, PositionHistory};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A search without an evaluation looks for another evaluator after this part of its patience …
const PART_OF_PATIENCE: u32 = 4;
/// … but not before this time, within which a card usually answers, unless its patience is short.
const LEAST_WAIT: Duration = Duration::from_millis(50);
/// The same for a search without a clock.
const WAIT_WITHOUT_CLOCK: Duration = Duration::from_millis(500);

/// The longest wait for the first choice after an error, if no clock runs.
const PATIENCE_AFTER_ERROR: Duration = Duration::from_secs(10);

/// The message if no network could choose.
pub const NO_CHOICE: &str = "nothing could be evaluated in time: the move is any legal one";

/// How long the search waits for its first evaluation before it looks for another evaluator. `None` means that it does
/// not.
pub(super) fn wait_before(patience: Option<Duration>, is_processor: bool) -> Option<Duration> {
    match patience {
        Some(patience) => Some((patience / PART_OF_PATIENCE).max(LEAST_WAIT).min(patience / 2)),
        // A large network on a processor is slow, but it answers.
        None => (!is_processor).then_some(WAIT_WITHOUT_CLOCK),
    }
}

/// Whether the answer should wait for the first choice, which is still being sought.
pub(super) fn is_worth_waiting_for(context: &SearchContext, control: &Control) -> bool {
    let choice = *lock(&control.first_choice);
    if context.fallback.is_none() || choice.is_done {
        return false;
    }
    let stopper = &control.stopper;
    // The answer of the embedded network is good enough to save time for the next moves.
    let until = if choice.best.is_some() { None } else { stopper.last_moment() };
    if let Some(until) = until.or_else(|| stopper.patience()) {
        return control.start.elapsed() < until;
    }
    let stopped = control.stopped_at.unwrap_or(control.start);
    control.failure.is_some() && stopped.elapsed() < PATIENCE_AFTER_ERROR
}

/// Seeks the first choice on a thread that nobody waits for. `control` receives it.
pub(super) fn seek(context: &SearchContext, control: &Control) {
    let Some(seeker) = Seeker::new(context, control) else { return };
    if start_thread("first choice", move || seeker.run()).is_err() {
        lock(&control.first_choice).is_done = true;
    }
}

/// Everything that the thread needs. It shares neither the tree nor the backend of the search, so it may outlive the
/// search.
struct Seeker {
    fallback: Arc<dyn Fallback>,
    root: Root,
    /// Whether the user's network is worth the time and memory that it takes to load.
    loads_chosen_network: bool,
    choice: Arc<Mutex<FirstChoice>>,
}

impl Seeker {
    /// Prepares a thread for this search. `None` if nothing else can evaluate.
    fn new(context: &SearchContext, control: &Control) -> Option<Seeker> {
        let is_pressed = control.failure.is_some() || control.stopper.patience().is_some();
        Some(Seeker {
            fallback: Arc::clone(context.fallback.as_ref()?),
            root: Root::new(context),
            // A processor that the user chose has this network already.
            loads_chosen_network: is_pressed && !context.cpu_is_chosen,
            choice: Arc::clone(&control.first_choice),
        })
    }

    /// Evaluates the root with one network after the other.
    fn run(self) {
        let Seeker { fallback, root, loads_chosen_network, choice } = self;
        let by_embedded = || root.best(&fallback.embedded_priors(root.request())?);
        let by_chosen = || root.best(&fallback.chosen_priors(root.request())?);
        // A panic is reported where it happens. What was found before it counts.
        if let Ok(Some(best)) = catch_unwind(AssertUnwindSafe(by_embedded)) {
            lock(&choice).best = Some((best, "the embedded network"));
        }
        if loads_chosen_network && let Ok(Some(best)) = catch_unwind(AssertUnwindSafe(by_chosen)) {
            lock(&choice).best = Some((best, "the network"));
        }
        lock(&choice).is_done = true;
    }
}

/// The move to play if the root is not evaluated. A message tells the user where it comes from.
pub(super) fn answer(context: &SearchContext, control: &Control) -> Option<Move> {
    let root = Root::new(context);
    let cached = context.backend.cached(root.request());
    if let Some(best) = cached.and_then(|evaluation| root.best(&evaluation.priors)) {
        return Some(best);
    }
    if let Some((best, network)) = lock(&control.first_choice).best {
        context.responder.message(&format!(
            "no evaluation came in time: the move is the first choice of {network} on the processor"
        ));
        return Some(best);
    }
    if root.moves.iter().filter(|&&m| context.is_searched(m)).count() > 1 {
        context.responder.message(NO_CHOICE);
    }
    context.any_searched_move()
}

/// The position to choose a move for.
struct Root {
    history: PositionHistory,
    /// The legal moves.
    moves: Vec<PackedMove>,
    /// The moves to choose from. If it is empty, all legal moves are meant.
    searchmoves: Vec<PackedMove>,
}

impl Root {
    fn new(context: &SearchContext) -> Root {
        let history = context.history.clone();
        let moves = history.last().legal_moves().into_iter().map(PackedMove::new).collect();
        Root { history, moves, searchmoves: context.searchmoves.clone() }
    }

    fn request(&self) -> EvalRequest<'_> {
        EvalRequest { history: &self.history, moves: &self.moves }
    }

    fn best(&self, priors: &[f32]) -> Option<Move> {
        let best = best_by_priors(&self.moves, priors, &self.searchmoves)?;
        Some(best.unpack(self.history.last()))
    }
}

/// The move with the highest prior among `searchmoves`, or among all if there are none.
pub fn best_by_priors(
    moves: &[PackedMove],
    priors: &[f32],
    searchmoves: &[PackedMove],
) -> Option<PackedMove> {
    let searched =
        moves.iter().zip(priors).filter(|(m, _)| searchmoves.is_empty() || searchmoves.contains(m));
    // Of equal moves the first counts.
    searched.reduce(|a, b| if b.1 > a.1 { b } else { a }).map(|(&m, _)| m)
}

fn lock(choice: &Mutex<FirstChoice>) -> MutexGuard<'_, FirstChoice> {
    choice.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_gets_a_part_of_the_patience_and_a_processor_without_a_clock_all_of_it() {
        let ms = Duration::from_millis;
        assert_eq!(wait_before(Some(ms(5000)), false), Some(ms(1250)));
        assert_eq!(wait_before(Some(ms(120)), false), Some(ms(50)));
        assert_eq!(wait_before(Some(ms(20)), true), Some(ms(10)));
        assert_eq!(wait_before(None, false), Some(ms(500)));
        assert_eq!(wait_before(None, true), None);
    }
}
