//! What a measurement ran on, in words.

use crate::net::discover::find_network;
use crate::options::{BackendName, Options};
use sysinfo::{CpuRefreshKind, RefreshKind, System};

/// The processor's name and the number of its threads that this process may use.
pub(super) fn processor() -> String {
    let what = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let brand = System::new_with_specifics(what)
        .ok()
        .and_then(|system| system.cpus().first().map(|cpu| cpu.brand().trim().to_owned()))
        .filter(|brand| !brand.is_empty());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let plural = if threads == 1 { "" } else { "s" };
    format!("{}, {threads} thread{plural}, {}", brand.as_deref().unwrap_or("unknown"), std::env::consts::ARCH)
}

/// The facts for a picture: network, backend, processor and version. `backend` is the name of the backend that was
/// used. There is no network for the backends that need none.
pub(super) fn facts(options: &Options, backend: &str) -> Vec<String> {
    let network = match options.backend.name() {
        BackendName::Trivial | BackendName::Random => String::new(),
        _ => find_network(&options.weights).map_or_else(
            |_| String::new(),
            |file| {
                let name = file.path().file_name().unwrap_or(file.path().as_os_str());
                format!("network {}", name.to_string_lossy())
            },
        ),
    };
    vec![network, backend.to_owned(), processor(), concat!("Rukh ", env!("RUKH_VERSION")).to_owned()]
}
