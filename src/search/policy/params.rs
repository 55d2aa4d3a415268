//! The options that steer the search, as plain numbers.

use super::contempt::WdlRescale;
use super::uncertainty::UncertaintyParams;
use crate::backend::Attributes;
use crate::chess::Color;
use crate::options::{FpuStrategy, FpuStrategyAtRoot, Options};

/// How cpuct grows with a node's visits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CpuctGrowth {
    /// At no visits.
    pub init: f32,
    /// Visits at which it starts to grow.
    pub base: f32,
    /// How fast.
    pub factor: f32,
}

/// First-play urgency.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Fpu {
    pub strategy: FpuStrategy,
    pub value: f32,
}

/// See [`super::select::MovesLeftBonus`].
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct MovesLeftParams {
    pub max_effect: f32,
    pub threshold: f32,
    pub slope: f32,
    pub constant_factor: f32,
    pub scaled_factor: f32,
    pub quadratic_factor: f32,
}

/// How many collisions a batch may meet, by the size of the tree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CollisionParams {
    /// Once the tree is large.
    pub max_visits: u32,
    /// Visits up to which one collision ends the batch.
    pub scaling_start: u64,
    /// Visits from which `max_visits` are allowed.
    pub scaling_end: u64,
    /// Shape of the growth between.
    pub scaling_power: f32,
    /// How many separate collisions a batch may meet.
    pub max_events: u32,
}

/// When the played move is drawn by lot.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TemperatureParams {
    /// 0: the best move is played.
    pub temperature: f32,
    /// Moves over which it falls to zero (0: it does not).
    pub decay_moves: u32,
    /// Moves before it starts to fall.
    pub decay_delay_moves: u32,
    /// The move from which `endgame` counts (0: never).
    pub cutoff_move: u32,
    /// What it does not fall below, and what counts from the cutoff on.
    pub endgame: f32,
    /// Moves worse than the best by more than this many percent (win probability) are not drawn.
    pub value_cutoff: f32,
    /// Added to each move's visits.
    pub visit_offset: f32,
}

/// The parameters of one search. [`Default`] gives lc0's defaults, which are those of the option table.
#[derive(Clone, PartialEq, Debug)]
pub struct SearchParams {
    /// Search threads; at least 1.
    pub threads: usize,
    /// Leaves to gather into a batch; at least 1.
    pub minibatch_size: usize,
    /// Away from the root.
    pub cpuct: CpuctGrowth,
    /// At the root.
    pub cpuct_at_root: CpuctGrowth,
    /// Away from the root.
    pub fpu: Fpu,
    /// At the root.
    pub fpu_at_root: Fpu,
    /// Whether the network tells moves left.
    pub has_moves_left: bool,
    /// Whether its draw probability means anything.
    pub has_wdl: bool,
    /// Bonus for short wins.
    pub moves_left: MovesLeftParams,
    /// Visits and cpuct by how sure values are.
    pub uncertainty: UncertaintyParams,
    /// Share of the correction history in new evaluations; 0 without one.
    pub correction_lambda: f32,
    /// Contempt and calibration.
    pub wdl_rescale: WdlRescale,
    /// How much of the contempt a score leaves out, 0 to 1.
    pub wdl_eval_objectivity: f32,
    /// What a draw is worth to White.
    pub draw_score: f32,
    /// Transpositions share a node.
    pub graph_search: bool,
    /// A first repetition within the search counts as a draw.
    pub two_fold_draws: bool,
    /// Proven results go up the tree.
    pub sticky_endgames: bool,
    /// Plies to the latest mate that a search for one looks for; `None`: an ordinary search.
    pub mate_plies: Option<usize>,
    /// Known results are backed up before the batch is evaluated.
    pub out_of_order_eval: bool,
    /// How many of those a batch may meet, in batches.
    pub max_out_of_order_factor: f32,
    /// See the type.
    pub collisions: CollisionParams,
    /// Fill batches up to this size with positions for the cache.
    pub max_prefetch: usize,
    /// Share of Dirichlet noise in the root's policy.
    pub noise_epsilon: f32,
    /// Its concentration.
    pub noise_alpha: f32,
    /// See the type.
    pub temperature: TemperatureParams,
    /// How many lines to report.
    pub multi_pv: usize,
    /// Report each line's own visits.
    pub per_pv_counters: bool,
    /// Report the statistics of all root moves at the end.
    pub verbose_move_stats: bool,
    /// Report them with every info line.
    pub log_live_stats: bool,
    /// 0: no limit.
    pub nodes_per_second_limit: f32,
}

impl Default for SearchParams {
    /// The parameters of the options' defaults, for a backend with a draw probability and without a moves-left head: one
    /// thread, and batches of 64.
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
        };
        SearchParams::from_options(&Options::default(), &attributes, None)
    }
}

impl SearchParams {
    /// The parameters that `options` give for a backend; `player` is the engine's side, `None` in analysis.
    pub fn from_options(options: &Options, attributes: &Attributes, player: Option<Color>) -> SearchParams {
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
            correction_lambda: match options.use_correction_history {
                true => options.correction_history_lambda,
                false => 0.0,
            },
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
            max_prefetch: options.max_prefetch as usize,
            noise_epsilon: options.noise_epsilon,
            noise_alpha: options.noise_alpha,
            temperature: TemperatureParams {
                temperature: options.temperature,
                decay_moves: options.tempdecay_moves,
                decay_delay_moves: options.tempdecay_delay_moves,
                cutoff_move: options.temp_cutoff_move,
                endgame: options.temp_endgame,
                value_cutoff: options.temp_value_cutoff,
                visit_offset: options.temp_visit_offset,
            },
            multi_pv: options.multipv as usize,
            per_pv_counters: options.per_pv_counters,
            verbose_move_stats: options.verbose_move_stats,
            log_live_stats: options.log_live_stats,
            nodes_per_second_limit: options.nps_limit,
        }
    }

    /// The same for a search for a mate in `moves` moves of the side to move. It shares no nodes.
    pub fn for_mate_in(self, moves: u32) -> SearchParams {
        let mate_plies = Some((moves as usize).saturating_mul(2).saturating_sub(1));
        SearchParams { mate_plies, graph_search: false, ..self }
    }

    /// What a draw is worth to the side to move.
    pub fn draw_score_for(&self, side: Color) -> f32 {
        if side.is_white() { self.draw_score } else { -self.draw_score }
    }
}

fn thread_count(options: &Options, attributes: &Attributes) -> usize {
    match options.threads {
        // A thread that evaluates on a device only waits there: one more keeps it busy.
        0 => attributes.suggested_threads + usize::from(!attributes.runs_on_cpu),
        given => given as usize,
    }
}

fn minibatch_size(options: &Options, attributes: &Attributes) -> usize {
    let wanted = match options.minibatch_size {
        0 => attributes.recommended_batch_size,
        given => given as usize,
    };
    wanted.clamp(1, attributes.maximum_batch_size.max(1))
}
