//! How long each of several devices has waited for batches.

use crate::info::ThinkingInfo;
use crate::state::{Control, Counters, SearchContext};
use rukh_backend::DeviceWork;
use rukh_base::sync::atomic::Ordering;
use std::time::Duration;

/// Notes in the log what the devices have done, which `scripts/matches/many_cards.py` reads.
pub(crate) fn device_lines(
    context: &SearchContext,
    counters: &Counters,
    control: &Control,
) -> Vec<ThinkingInfo> {
    if !context.responder.takes_notes() {
        return Vec::new();
    }
    let done: Vec<DeviceWork> = (context.backend.work().iter().zip(&context.devices_before))
        .map(|(now, before)| now.since(before))
        .collect();
    let elapsed = control.began.elapsed();
    let each = |figure: &dyn Fn(&DeviceWork) -> f64| {
        done.iter().map(|work| format!("{:.1}", figure(work))).collect::<Vec<_>>().join(" ")
    };
    context.responder.note(&format!(
        "devices: visits {}, evaluations {}, of leaves {}, waited {} %, positions a batch {}",
        counters.playouts.load(Ordering::Relaxed),
        counters.network_evaluations.load(Ordering::Relaxed),
        counters.evaluated_leaves.load(Ordering::Relaxed),
        each(&|work| 100.0 * waiting_share(work, elapsed)),
        each(&|work| work.positions as f64 / work.batches.max(1) as f64),
    ));
    Vec::new()
}

/// The share of the time in which the device had no batch.
fn waiting_share(work: &DeviceWork, elapsed: Duration) -> f64 {
    1.0 - (work.busy.as_secs_f64() / elapsed.as_secs_f64()).min(1.0)
}
