//! The ROCm backend that a tool works on, for the backend that the user has chosen.

use super::error::print_error_line;
use rukh_gpu::GpuPrecision;
use rukh_options::{BackendName, Options};

/// A ROCm backend with its number format and its options.
pub(super) struct RocmChoice {
    pub(super) backend: BackendName,
    pub(super) precision: GpuPrecision,
    /// The text of `BackendOptions`.
    pub(super) options: String,
}

/// The ROCm backend that the options name, or the one that `auto` would take. If they name another backend, its options
/// do not concern this one, and stderr says so for `tool`.
pub(super) fn rocm_choice(tool: &str, options: &Options) -> RocmChoice {
    let chosen = options.backend.name();
    let (backend, precision) = match GpuPrecision::of_backend(chosen) {
        Some(precision) => (chosen, precision),
        None => (BackendName::RocmAuto, GpuPrecision::Auto),
    };
    let options = if backend == chosen || chosen == BackendName::Auto {
        options.backend_opts.clone()
    } else {
        print_error_line(&format!("{tool} examines {backend}, and not the backend {}", options.backend));
        String::new()
    };
    RocmChoice { backend, precision, options }
}
