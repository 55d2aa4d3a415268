//! The memory that the limits of the process itself leave it. `ulimit -v` limits its address space and `ulimit -d` its
//! writable memory; both count memory that is reserved, whether or not it is used.

/// The bytes that are kept back for what is reserved in large pieces: the first pieces of a tree, the stacks of some
/// threads, and the arena of 64 MiB that glibc reserves for a thread when it first allocates.
#[cfg(target_os = "linux")]
const PIECES_BYTES: u64 = 256 << 20;

/// The bytes that the process can still reserve and use; `None` without a limit.
#[cfg(target_os = "linux")]
pub(super) fn left_bytes() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let left = |resource, name| {
        let limit = getrlimit(resource).current?;
        Some(limit.saturating_sub(field_bytes(&status, name)? + PIECES_BYTES))
    };
    [left(Resource::As, "VmSize:"), left(Resource::Data, "VmData:")].into_iter().flatten().min()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn left_bytes() -> Option<u64> {
    None
}

/// A figure of `/proc/self/status`, whose lines are like `VmSize:   123 kB`.
#[cfg(target_os = "linux")]
fn field_bytes(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn figures_of_the_kernel_are_in_kilobytes() {
        let status = "Name:\trukh\nVmPeak:\t  300 kB\nVmSize:\t  200 kB\nVmData:\tmany\n";
        assert_eq!(field_bytes(status, "VmSize:"), Some(200 << 10));
        assert_eq!(field_bytes(status, "VmData:"), None);
        let own = std::fs::read_to_string("/proc/self/status").unwrap();
        assert!(field_bytes(&own, "VmSize:").unwrap() > 1 << 20);
    }
}
