//! The options that a mode starts from. As in lc0, the benchmarks have defaults of their own.

use rukh_options::{HistoryFill, Options, SearchName};

/// The defaults of the option table, replaced by the mode's own defaults where it has them.
pub(super) fn default_options(mode: Option<&str>) -> Options {
    let options = Options::default();
    match mode {
        // OpenBench measures the speed of one thread.
        Some("bench") => Options { threads: 1, ..default_options(Some("benchmark")) },
        Some("benchmark") => {
            // lc0 uses two threads here, which leave every second card idle. As many as suit the backend show the speed
            // of a game.
            with_defaults_of_bench(options)
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

/// The defaults of the benchmarks of the search: nothing but nodes and time ends a search.
pub(super) fn with_defaults_of_bench(options: Options) -> Options {
    Options { nncache: 200_000, smart_pruning_factor: 0.0, move_overhead: 0, ..options }
}

/// The defaults of lc0's training games, in place of those of play: lc0's search without its shortcuts, noise at the root,
/// and moves by their visits.
pub(super) fn for_training(options: Options) -> Options {
    Options {
        search: SearchName::Classic,
        graph_search: false,
        cpuct: 1.2,
        cpuct_factor: 0.0,
        fpu_value: 0.0,
        policy_softmax_temp: 1.0,
        max_collision_events: 1,
        max_collision_visits: 1,
        out_of_order_eval: false,
        cache_history_length: 7,
        history_fill: HistoryFill::No,
        temperature: 1.0,
        noise_epsilon: 0.25,
        sticky_endgames: false,
        two_fold_draws: false,
        ..options
    }
}
