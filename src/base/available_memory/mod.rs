//! How much memory this process can still get: what the machine has free, and what the limits of the process leave it.
//!
//! | module | what it reads |
//! |---|---|
//! | [`control_group`] | the limits of the process's control groups, which containers and batch systems set |
//! | [`resource_limits`] | the process's own limits, as `ulimit -v` sets them |

mod control_group;
mod resource_limits;

use std::path::Path;
use sysinfo::{MemoryRefreshKind, System};

/// The number of bytes that this process could still allocate and use; `None` if it is unknown.
pub fn available_bytes() -> Option<u64> {
    let mut system = System::new().ok()?;
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let of_machine = Some(system.available_memory()).filter(|&bytes| bytes > 0)?;
    Some(limited_bytes().map_or(of_machine, |limited| limited.min(of_machine)))
}

/// The number of bytes that the limits of the process's control groups and its own limits leave it; `None` without
/// limits, and where the system has none that can be read.
pub fn limited_bytes() -> Option<u64> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let root = Path::new("/");
    [control_group::left_bytes(root), resource_limits::left_bytes()].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_get_some_memory_but_no_more_than_the_machine_has() {
        let mut system = System::new().unwrap();
        system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
        let bytes = available_bytes().unwrap();
        assert!((10_000_000..=system.total_memory()).contains(&bytes), "{bytes}");
    }
}
