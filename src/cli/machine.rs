//! What a measurement ran on, in words.

use rukh_base::processor;
use rukh_net::discover::find_network;
use rukh_options::{BackendName, Options};

/// The processor's name and the number of its threads that this process may use.
pub(super) fn processor_and_threads() -> String {
    let name = processor::name();
    let name = if name.is_empty() { "unknown" } else { &name };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let plural = if threads == 1 { "" } else { "s" };
    format!("{name}, {threads} thread{plural}, {}", std::env::consts::ARCH)
}

/// The facts for a picture: network, backend, processor and version. `backend` is the name of the backend that was
/// used. There is no network for the backends that need none.
pub(super) fn facts(options: &Options, backend: &str) -> Vec<String> {
    let network = match options.backend.name() {
        BackendName::Trivial | BackendName::Random => String::new(),
        _ => find_network(&options.weights, |_| {}).map_or_else(
            |_| String::new(),
            |file| {
                let name = file.path().file_name().unwrap_or(file.path().as_os_str());
                format!("network {}", name.to_string_lossy())
            },
        ),
    };
    vec![
        network,
        backend.to_owned(),
        processor_and_threads(),
        format!("Rukh {}", rukh_base::version::version()),
    ]
}
