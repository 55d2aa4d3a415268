//! The options that steer the search, as plain numbers.

use super::children_value::BackupParams;
use super::contempt::WdlRescale;
use super::uncertainty::UncertaintyParams;
use rukh_backend::{Attributes, BatchSizes};
use rukh_chess::Color;
use rukh_options::{FpuStrategy, FpuStrategyAtRoot, Options, SearchName};

/// The growth of cpuct with a node's visits ([`cpuct`](super::select::cpuct)).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CpuctGrowth {
    /// The value without visits.
    pub init: f32,
    /// The number of visits at which the growth sets in.
    pub base: f32,
    /// The factor of the logarithm.
    pub factor: f32,
}

/// First-play urgency, the value of a move without visits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fpu {
    pub strategy: FpuStrategy,
    pub value: f32,
}

/// The parameters of [`MovesLeftBonus`](super::select::MovesLeftBonus).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MovesLeftParams {
    pub max_effect: f32,
    pub threshold: f32,
    pub slope: f32,
    pub constant_factor: f32,
    pub scaled_factor: f32,
    pub quadratic_factor: f32,
}

/// The limits on collisions in one batch. The limit on visits grows with the tree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CollisionParams {
    /// The limit on colliding visits in a tree of `scaling_end` visits or more.
    pub max_visits: u32,
    /// In a tree of at most this number of visits, one colliding visit ends the gathering.
    pub scaling_start: u64,
    /// The number of visits of a tree at which the limit reaches `max_visits`.
    pub scaling_end: u64,
    /// The exponent of the growth between `scaling_start` and `scaling_end`.
    pub scaling_power: f32,
    /// The limit on collision events. One event may have many colliding visits.
    pub max_events: u32,
}

/// The choice of the played move by a lower bound of its value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LowerBoundParams {
    /// The bound of a move with one visit is so far below its value. 0 chooses by visits.
    pub deviation: f32,
    /// The least visits of a move that may be chosen, as a share of the most visits.
    pub least_visits: f32,
}

/// The random choice of the played move.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TemperatureParams {
    /// 0 plays the best move.
    pub temperature: f32,
    /// The number of moves over which the temperature falls to zero. 0 keeps it constant.
    pub decay_moves: u32,
    /// The number of moves before the temperature starts to fall.
    pub decay_delay_moves: u32,
    /// The number of the move at which `endgame` becomes the temperature. 0 means never.
    pub cutoff_move: u32,
    /// The temperature from `cutoff_move` on. Before that move it is the lower bound of the falling temperature.
    pub endgame: f32,
    /// A move is not chosen if its win probability is lower than that of the most visited move by more than this many
    /// percent.
    pub value_cutoff: f32,
    /// Whether `value_cutoff` is multiplied by 1 - q^12, where q is that of the most visited move if it is positive, so that
    /// a nearly certain win is seldom given away by chance.
    pub keeps_wins: bool,
    /// The number added to each move's visits before they become probabilities.
    pub visit_offset: f32,
}

/// The parameters of one search. [`Default`] gives the defaults of the option table, which are lc0's.
#[derive(Clone, PartialEq, Debug)]
pub struct SearchParams {
    /// The number of search threads, at least 1.
    pub threads: usize,
    /// The number of leaves to gather into a batch, at least 1.
    pub minibatch_size: usize,
    /// cpuct at all nodes but the root.
    pub cpuct: CpuctGrowth,
    /// cpuct at the root.
    pub cpuct_at_root: CpuctGrowth,
    /// First-play urgency at all nodes but the root.
    pub fpu: Fpu,
    /// First-play urgency at the root.
    pub fpu_at_root: Fpu,
    /// Whether the network has a moves-left head.
    pub has_moves_left: bool,
    /// Whether the network predicts the probability of a draw.
    pub has_wdl: bool,
    /// The bonus for shorter wins and longer losses.
    pub moves_left: MovesLeftParams,
    /// Weights of visits and factors of cpuct that depend on the uncertainty of values.
    pub uncertainty: UncertaintyParams,
    /// How a node's value follows from its children's, if it is not the mean of its visits.
    pub backup: BackupParams,
    /// A factor of the policy's temperature at the root.
    pub root_policy_temperature: f32,
    /// The adjustment of the network's values by contempt and calibration.
    pub wdl_rescale: WdlRescale,
    /// The share of contempt that is removed from reported scores, 0 to 1.
    pub wdl_eval_objectivity: f32,
    /// The value of a draw for White, -1 to 1.
    pub draw_score: f32,
    /// Whether transpositions share a node.
    pub graph_search: bool,
    /// Whether the first repetition within the search counts as a draw.
    pub two_fold_draws: bool,
    /// Whether proven results are backed up to the parents.
    pub sticky_endgames: bool,
    /// The longest mate that a mate search looks for, in plies. `None` means an ordinary search.
    pub mate_plies: Option<usize>,
    /// Whether a batch is filled in addition to the leaves that are backed up while gathering. If not, these leaves
    /// count towards the batch size.
    pub out_of_order_eval: bool,
    /// The maximum number of visits that are backed up while one batch is gathered, as a multiple of the batch size.
    pub max_out_of_order_factor: f32,
    /// The limits on collisions in one batch.
    pub collisions: CollisionParams,
    /// The largest share of the root's visits that may be in flight. 0 means no limit.
    pub in_flight_share: f32,
    /// The batch size up to which a batch is filled with positions for the cache (lc0's MaxPrefetch).
    pub max_prefetch: usize,
    /// Whether these positions are chosen by the visits that would come next, and as many as are free.
    pub prefetch_by_visits: bool,
    /// The choice of the played move by a lower bound of its value.
    pub lower_bound: LowerBoundParams,
    /// The share of Dirichlet noise in the root's policy.
    pub noise_epsilon: f32,
    /// The concentration parameter of the Dirichlet noise.
    pub noise_alpha: f32,
    /// The random choice of the played move.
    pub temperature: TemperatureParams,
    /// The number of lines to report.
    pub multi_pv: usize,
    /// Whether each reported line shows the visits of its own move.
    pub per_pv_counters: bool,
    /// Whether the statistics of all root moves are sent to the GUI. If not, they go only to the log.
    pub verbose_move_stats: bool,
    /// Whether these statistics are written with every info line, and not only at the end.
    pub log_live_stats: bool,
    /// The limit on the speed, in visits per second. 0 means no limit.
    pub nodes_per_second_limit: f32,
}

impl Default for SearchParams {
    /// The parameters of the default options, for a backend that predicts draws and has no moves-left head: one thread
    /// and batches of 64.
    fn default() -> SearchParams {
        let attributes = Attributes {
            name: String::new(),
            has_wdl: true,
            has_mlh: false,
            has_value_error: false,
            runs_on_cpu: true,
            suggested_threads: 1,
            recommended_batch_size: 64,
            maximum_batch_size: 64,
            batch_sizes: BatchSizes::default(),
        };
        SearchParams::from_options(&Options::default(), &attributes, None)
    }
}

impl SearchParams {
    /// The parameters for `options` and a backend. `player` is the engine's colour, `None` in analysis.
    pub fn from_options(options: &Options, attributes: &Attributes, player: Option<Color>) -> SearchParams {
        match options.search {
            SearchName::Default => SearchParams::from_all(options, attributes, player),
            SearchName::Classic => SearchParams::from_all(&classic(options), attributes, player),
        }
    }

    fn from_all(options: &Options, attributes: &Attributes, player: Option<Color>) -> SearchParams {
        let cpuct =
            CpuctGrowth { init: options.cpuct, base: options.cpuct_base, factor: options.cpuct_factor };
        let cpuct_at_root = CpuctGrowth {
            init: options.cpuct_at_root,
            base: options.cpuct_base_at_root,
            factor: options.cpuct_factor_at_root,
        };
        let fpu = Fpu { strategy: options.fpu_strategy, value: options.fpu_value };
        let fpu_at_root = match options.fpu_strategy_at_root {
            FpuStrategyAtRoot::Same => fpu,
            FpuStrategyAtRoot::Reduction => {
                Fpu { strategy: FpuStrategy::Reduction, value: options.fpu_value_at_root }
            }
            FpuStrategyAtRoot::Absolute => {
                Fpu { strategy: FpuStrategy::Absolute, value: options.fpu_value_at_root }
            }
        };
        SearchParams {
            threads: thread_count(options, attributes),
            minibatch_size: minibatch_size(options, attributes),
            cpuct,
            cpuct_at_root: if options.root_has_own_cpuct_params { cpuct_at_root } else { cpuct },
            fpu,
            fpu_at_root,
            has_moves_left: attributes.has_mlh,
            has_wdl: attributes.has_wdl,
            moves_left: MovesLeftParams {
                max_effect: options.moves_left_max_effect,
                threshold: options.moves_left_threshold,
                slope: options.moves_left_slope,
                constant_factor: options.moves_left_constant_factor,
                scaled_factor: options.moves_left_scaled_factor,
                quadratic_factor: options.moves_left_quadratic_factor,
            },
            uncertainty: UncertaintyParams::from_options(options, attributes),
            backup: BackupParams::from_options(options),
            root_policy_temperature: options.root_policy_temperature,
            wdl_rescale: WdlRescale::from_options(options, player),
            wdl_eval_objectivity: options.wdl_eval_objectivity,
            draw_score: options.draw_score,
            graph_search: options.graph_search,
            two_fold_draws: options.two_fold_draws,
            sticky_endgames: options.sticky_endgames,
            mate_plies: None,
            out_of_order_eval: options.out_of_order_eval,
            max_out_of_order_factor: options.max_out_of_order_evals_factor,
            collisions: CollisionParams {
                max_visits: options.max_collision_visits,
                scaling_start: options.max_collision_visits_scaling_start.into(),
                scaling_end: options.max_collision_visits_scaling_end.into(),
                scaling_power: options.max_collision_visits_scaling_power,
                max_events: options.max_collision_events,
            },
            in_flight_share: options.in_flight_share,
            max_prefetch: options.max_prefetch as usize,
            prefetch_by_visits: options.prefetch_by_visits,
            lower_bound: LowerBoundParams {
                deviation: options.lower_bound_deviation,
                least_visits: options.lower_bound_least_visits,
            },
            noise_epsilon: options.noise_epsilon,
            noise_alpha: options.noise_alpha,
            temperature: TemperatureParams {
                temperature: options.temperature,
                decay_moves: options.tempdecay_moves,
                decay_delay_moves: options.tempdecay_delay_moves,
                cutoff_move: options.temp_cutoff_move,
                endgame: options.temp_endgame,
                value_cutoff: options.temp_value_cutoff,
                keeps_wins: false,
                visit_offset: options.temp_visit_offset,
            },
            multi_pv: options.multipv as usize,
            per_pv_counters: options.per_pv_counters,
            verbose_move_stats: options.verbose_move_stats,
            log_live_stats: options.log_live_stats,
            nodes_per_second_limit: options.nps_limit,
        }
    }

    /// The same parameters for a search for a mate in `moves` moves of the side to move. In such a search
    /// transpositions do not share nodes.
    pub fn for_mate_in(self, moves: u32) -> SearchParams {
        let mate_plies = Some((moves as usize).saturating_mul(2).saturating_sub(1));
        SearchParams { mate_plies, graph_search: false, ..self }
    }

    /// The value of a draw for `side`.
    pub fn draw_score_for(&self, side: Color) -> f32 {
        if side.is_white() { self.draw_score } else { -self.draw_score }
    }
}

/// The options without the features that lc0's classic search lacks.
fn classic(options: &Options) -> Options {
    Options {
        use_uncertainty_weighting: false,
        use_cpuct_uncertainty: false,
        use_variance_scaling: false,
        root_policy_temperature: 1.0,
        use_graph_backup: false,
        value_weight_exponent: 0.0,
        lower_bound_deviation: 0.0,
        in_flight_share: 0.0,
        prefetch_by_visits: false,
        ..options.clone()
    }
}

fn thread_count(options: &Options, attributes: &Attributes) -> usize {
    match options.threads {
        0 => automatic_threads(attributes),
        given => given as usize,
    }
}

/// What `Threads` 0 means.
pub(crate) fn automatic_threads(attributes: &Attributes) -> usize {
    // As many as batches in flight, and for devices half as many more (rounded down, but at least one): a thread that
    // waits for a device gathers nothing. Three batches for each H200 want four threads with one card and nine with two.
    let spare = if attributes.runs_on_cpu { 0 } else { (attributes.suggested_threads / 2).max(1) };
    attributes.suggested_threads + spare
}

fn minibatch_size(options: &Options, attributes: &Attributes) -> usize {
    let wanted = match options.minibatch_size {
        0 => attributes.recommended_batch_size,
        given => given as usize,
    };
    wanted.clamp(1, attributes.maximum_batch_size.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_backend::Backend;
    use rukh_backend::synthetic::RandomBackend;

    #[test]
    fn devices_get_more_threads_than_batches_in_flight() {
        let random = RandomBackend::default();
        let threads = |runs_on_cpu, suggested_threads| {
            automatic_threads(&Attributes { runs_on_cpu, suggested_threads, ..random.attributes().clone() })
        };
        assert_eq!([1, 2, 3, 6, 12].map(|batches| threads(false, batches)), [2, 3, 4, 9, 18]);
        assert_eq!([1, 2, 64].map(|batches| threads(true, batches)), [1, 2, 64]);
    }
}
