//! The name of the processor, and the time that it has given to this process.

use std::time::Duration;
use sysinfo::{CpuRefreshKind, RefreshKind, System};

/// The name that the processor gives itself; empty if it gives none, as on most ARM processors.
pub fn name() -> String {
    let what = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let brand = System::new_with_specifics(what)
        .ok()
        .and_then(|system| system.cpus().first().map(|cpu| cpu.brand().trim().to_owned()));
    brand.unwrap_or_default()
}

/// The time that the threads of this process have run so far, together. It does not grow while other processes have the
/// processor. `None` on Windows, which counts in steps of 16 ms.
pub fn time_used() -> Option<Duration> {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::try_from(time).ok()
    }
    #[cfg(not(unix))]
    None
}
