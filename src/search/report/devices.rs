//! How long each of several devices has waited for batches: a note in the log, and a notice for the user.

use crate::info::ThinkingInfo;
use crate::policy::automatic_threads;
use crate::state::{Control, Counters, SearchContext};
use rukh_backend::DeviceWork;
use rukh_base::sync::atomic::Ordering;
use std::thread::available_parallelism;
use std::time::Duration;

/// A device that waited for more than this share of a search is worth a notice.
const MOST_WAITING: f64 = 0.2;
/// A shorter search begins and ends with few positions to evaluate, whatever the options are.
const SHORTEST_SEARCH: Duration = Duration::from_secs(3);
/// If more than one part in this many of a search's time passed after it stopped, the search was waiting for the user (as
/// `go infinite` does), and the idle time of its devices says nothing.
const PARTS_OF_SILENCE: u32 = 10;

/// The notice that one of several devices has waited, if it is due. Notes in the log what the devices have done, which
/// `scripts/matches/many_cards.py` reads.
pub(crate) fn device_notice(
    context: &SearchContext,
    counters: &Counters,
    control: &Control,
) -> Option<ThinkingInfo> {
    let done: Vec<DeviceWork> = (context.backend.work().iter().zip(&context.devices_before))
        .map(|(now, before)| now.since(before))
        .collect();
    let elapsed = control.began.elapsed();
    let waited: Vec<f64> = done.iter().map(|work| waiting_share(work, elapsed)).collect();
    let visits = counters.playouts.load(Ordering::Relaxed);
    let evaluations = counters.network_evaluations.load(Ordering::Relaxed);
    if context.responder.takes_notes() {
        let leaves = counters.evaluated_leaves.load(Ordering::Relaxed);
        let batches = done.iter().map(|work| work.positions as f64 / work.batches.max(1) as f64);
        context.responder.note(&format!(
            "devices: visits {visits}, evaluations {evaluations}, of leaves {leaves}, waited {} %, positions a batch {}",
            listed(waited.iter().map(|share| 100.0 * share)),
            listed(batches),
        ));
    }
    // Where most visits end at known results, there is little to evaluate.
    let needs_evaluations = 2 * evaluations >= visits;
    let waited_for_user = control.stopped_at.is_none_or(|at| at.elapsed() > elapsed / PARTS_OF_SILENCE);
    let most = waited.into_iter().fold(0.0, f64::max);
    if most <= MOST_WAITING || elapsed < SHORTEST_SEARCH || waited_for_user || !needs_evaluations {
        return None;
    }
    // No option helps a single device, or one that is lost.
    if context.devices_before.len() < 2 || context.backend.devices().lost > 0 {
        return None;
    }
    let may_tell = context.waiting_notice.as_ref().is_some_and(|told| !told.swap(true, Ordering::Relaxed));
    may_tell.then(|| ThinkingInfo {
        comment: format!("a card waited for {:.0} % of this search: {}", 100.0 * most, advice(context)),
        ..ThinkingInfo::default()
    })
}

/// The share of the time in which the device had no batch.
fn waiting_share(work: &DeviceWork, elapsed: Duration) -> f64 {
    1.0 - (work.busy.as_secs_f64() / elapsed.as_secs_f64()).min(1.0)
}

fn listed(figures: impl Iterator<Item = f64>) -> String {
    figures.map(|figure| format!("{figure:.1}")).collect::<Vec<_>>().join(" ")
}

/// What the user can change.
fn advice(context: &SearchContext) -> String {
    let (params, attributes) = (&context.params, context.backend.attributes());
    let (threads, batch) = (params.threads, params.minibatch_size);
    let cards = context.devices_before.len();
    let processors = available_parallelism().map_or(usize::MAX, usize::from);
    let automatic = automatic_threads(attributes);
    if threads < automatic {
        format!("Threads {threads} is too few for {cards} cards; 0 means {automatic}")
    } else if batch < attributes.recommended_batch_size {
        format!("MinibatchSize {batch} is small; 0 means {}", attributes.recommended_batch_size)
    } else if processors < attributes.suggested_threads {
        format!("this machine's {processors} processors are too few for {cards} cards; try fewer cards")
    } else {
        format!("try more Threads than {threads}, or a smaller MinibatchSize than {batch}")
    }
}
