//! The options that steer the search, as plain numbers.

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

/// See [`super::select::first_play_urgency`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FpuStrategy {
    Reduction,
    Absolute,
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

/// See the module. [`Default`] gives lc0's defaults.
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
    /// What a draw is worth to White.
    pub draw_score: f32,
    /// A first repetition within the search counts as a draw.
    pub two_fold_draws: bool,
    /// Proven results go up the tree.
    pub sticky_endgames: bool,
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
    fn default() -> SearchParams {
        let cpuct = CpuctGrowth { init: 1.745, base: 38739.0, factor: 3.894 };
        let fpu = Fpu { strategy: FpuStrategy::Reduction, value: 0.33 };
        SearchParams {
            threads: 1,
            minibatch_size: 64,
            cpuct,
            cpuct_at_root: cpuct,
            fpu,
            fpu_at_root: fpu,
            has_moves_left: false,
            has_wdl: true,
            moves_left: MovesLeftParams {
                max_effect: 0.0345,
                threshold: 0.8,
                slope: 0.0027,
                constant_factor: 0.0,
                scaled_factor: 1.6521,
                quadratic_factor: -0.6521,
            },
            draw_score: 0.0,
            two_fold_draws: true,
            sticky_endgames: true,
            out_of_order_eval: true,
            max_out_of_order_factor: 2.4,
            collisions: CollisionParams {
                max_visits: 80_000,
                scaling_start: 28,
                scaling_end: 145_000,
                scaling_power: 1.25,
                max_events: 917,
            },
            max_prefetch: 32,
            noise_epsilon: 0.0,
            noise_alpha: 0.3,
            temperature: TemperatureParams {
                temperature: 0.0,
                decay_moves: 0,
                decay_delay_moves: 0,
                cutoff_move: 0,
                endgame: 0.0,
                value_cutoff: 100.0,
                visit_offset: 0.0,
            },
            multi_pv: 1,
            per_pv_counters: false,
            verbose_move_stats: false,
            log_live_stats: false,
            nodes_per_second_limit: 0.0,
        }
    }
}

impl SearchParams {
    /// What a draw is worth to the side to move.
    pub fn draw_score_for(&self, side: crate::chess::Color) -> f32 {
        if side.is_white() { self.draw_score } else { -self.draw_score }
    }
}
