//! The backend on a graphics card that a tool works on, for the backend that the user has chosen.

use super::error::print_error_line;
use rukh_gpu::{GpuPrecision, Maker, makers};
use rukh_options::{BackendName, Options};

/// A backend on a graphics card with the card's maker, its number format and its options.
pub(super) struct GpuBackendChoice {
    pub(super) maker: Maker,
    pub(super) backend: BackendName,
    pub(super) precision: GpuPrecision,
    /// The text of `BackendOptions`.
    pub(super) options: String,
}

/// The backend on a card that the options name, or the one that `auto` would take. If they name another backend, its options
/// do not concern this one, and stderr says so for `tool`.
pub(super) fn gpu_choice(tool: &str, options: &Options) -> GpuBackendChoice {
    let chosen = options.backend.name();
    let (maker, backend, precision) = match (Maker::of_backend(chosen), GpuPrecision::of_backend(chosen)) {
        (Some(maker), Some(precision)) => (maker, chosen, precision),
        _ => {
            let maker = makers().0.first().copied().unwrap_or_default();
            (maker, maker.usual_backend(), GpuPrecision::Auto)
        }
    };
    let options = if backend == chosen || chosen == BackendName::Auto {
        options.backend_opts.clone()
    } else {
        print_error_line(&format!("{tool} examines {backend}, and not the backend {}", options.backend));
        String::new()
    };
    GpuBackendChoice { maker, backend, precision, options }
}
