//! The options that a mode starts from. As in lc0, the benchmarks have defaults of their own.

use crate::options::Options;

/// The defaults of the option table, replaced by the mode's own defaults where it has them.
pub(super) fn default_options(mode: Option<&str>) -> Options {
    let options = Options::default();
    match mode {
        // OpenBench measures the speed of one thread.
        Some("bench") => Options { threads: 1, ..default_options(Some("benchmark")) },
        Some("benchmark") => {
            Options { threads: 2, nncache: 200_000, smart_pruning_factor: 0.0, move_overhead: 0, ..options }
        }
        // Hundreds of small searches fill the batches together. As in lc0, nothing but the limits ends a search.
        Some("selfplay" | "analyze") => Options {
            threads: 1,
            minibatch_size: 32,
            max_prefetch: 0,
            smart_pruning_factor: 0.0,
            move_overhead: 0,
            ..options
        },
        Some("backendbench") => Options { threads: 1, ..options },
        _ => options,
    }
}
