//! The name of the processor.

use sysinfo::{CpuRefreshKind, RefreshKind, System};

/// The name that the processor gives itself; empty if it gives none, as on most ARM processors.
pub fn name() -> String {
    let what = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let brand = System::new_with_specifics(what)
        .ok()
        .and_then(|system| system.cpus().first().map(|cpu| cpu.brand().trim().to_owned()));
    brand.unwrap_or_default()
}
