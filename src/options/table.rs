//! The table: every option, one row each, by section; UCI and the help list them in this order.
//!
//! A row is its help text (as the field's documentation), the field of [`Options`] with type and default, and
//! how the world sees it: kind and range, UCI name, short flag. The long flag is the field's name. Names,
//! defaults and ranges are lc0's, so that its users' configurations, scripts and habits work here.

use super::choices::{BackendName, ContemptMode, FpuStrategy, FpuStrategyAtRoot, HistoryFill, ScoreType};
use super::spec::{Field, Presses, Row, button, check, choice, float, spin, text};

/// The value of `weights` that asks for the newest network in the usual places, as in lc0.
pub const AUTODISCOVER: &str = "<autodiscover>";

/// A row of [`TABLE`].
pub type Spec = Row<Options>;

/// Makes the struct, its defaults and [`TABLE`] from the rows.
macro_rules! options {
    ($( [$section:literal] $(
        $(#[doc = $doc:literal])+
        $field:ident: $type:ty = $default:expr, $spec:expr;
    )+ )+) => {
        /// Every option's value. Cheap to clone: a search takes a copy, so that a change waits for the next
        /// one.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Options {
            $($( $(#[doc = $doc])+ pub $field: $type, )+)+
        }

        impl Default for Options {
            fn default() -> Options {
                Options { $($( $field: $default.into(), )+)+ }
            }
        }

        /// Every row.
        pub const TABLE: &[Spec] = &[$($(
            Row {
                field: stringify!($field),
                section: $section,
                doc: concat!($($doc),+),
                get: |options| options.$field.setting(),
                put: |options, setting| options.$field.put(setting),
                ..$spec
            },
        )+)+];
    };
}

const ONE_WORKER_PER_THREAD: &str = "each search thread does its own picking and processing";
const SIDE_BY_SIDE: &str = "all threads gather side by side, each until its batch is full";

options! {
    ["General"]
    /// Writes everything read and written, with times, to this file; `<stderr>` is the terminal.
    logfile: String = "", text().uci("LogFile").short('l');
    /// File of further options, one flag a line. Without this, `rukh.config` beside the binary or in the
    /// user's configuration directory is read if it is there.
    config: String = "rukh.config", text().uci("ConfigFile").short('c');
    /// Says that `go ponder` will come: the tree of the last search is kept until `go`.
    ponder: bool = false,
        check().uci("Ponder").uci_only().no_effect("the tree is kept, and `go ponder` understood, always");
    /// Directories with Syzygy tablebases, separated by `:` (`;` on Windows).
    syzygy_paths: String = "", text().uci("SyzygyPath").short('s');
    /// Starts the clock at `go` if `isready` was answered since the position came: for hosts that make up for
    /// lag.
    strict_uci_timing: bool = false, check().uci("StrictTiming").hidden();
    /// Loads the network at start instead of at the first position.
    preload: bool = false, check();

    ["Threads and batches"]
    /// Search threads; 0 takes as many as the backend asks for.
    threads: u32 = 0u32, spin(0, 128).uci("Threads").short('t');
    /// Positions to gather before the network is asked; 0 takes the backend's wish. Larger is faster on a
    /// graphics card, and a little weaker in short searches.
    minibatch_size: u32 = 0u32, spin(0, 1024).uci("MinibatchSize");

    ["Exploration"]
    /// How much the policy counts against the values found: higher is wider, lower is deeper.
    cpuct: f32 = 1.745, float(0.0, 100.0).uci("CPuct");
    /// `CPuct` for the root's moves.
    cpuct_at_root: f32 = 1.745, float(0.0, 100.0).uci("CPuctAtRoot").hidden();
    /// Visits over which the growth of cpuct sets in: lower grows sooner.
    cpuct_base: f32 = 38739.0, float(1.0, 1e9).uci("CPuctBase");
    /// `CPuctBase` for the root's moves.
    cpuct_base_at_root: f32 = 38739.0, float(1.0, 1e9).uci("CPuctBaseAtRoot").hidden();
    /// How strongly cpuct grows with the visits.
    cpuct_factor: f32 = 3.894, float(0.0, 1000.0).uci("CPuctFactor");
    /// `CPuctFactor` for the root's moves.
    cpuct_factor_at_root: f32 = 3.894, float(0.0, 1000.0).uci("CPuctFactorAtRoot").hidden();
    /// Uses the three options ending in `AtRoot`; else the root is like every other node.
    root_has_own_cpuct_params: bool = false, check().uci("RootHasOwnCpuctParams").hidden();
    /// Takes a position that came up before within the search for a draw already at its second occurrence.
    two_fold_draws: bool = true, check().uci("TwoFoldDraws");
    /// Searches a position that several orders of moves lead to once for all of them, where repetitions and the
    /// fifty-move rule allow. Off: once for each.
    graph_search: bool = true, check().uci("GraphSearch").hidden();

    ["Uncertainty"]
    /// Lets a visit count by how sure its value is: it weighs the least of `UncertaintyWeightingCap` and
    /// `UncertaintyWeightingCoefficient` times the value's error, as the network tells it, to the power of
    /// `UncertaintyWeightingExponent`. For networks that have a head for that.
    use_uncertainty_weighting: bool = false, check().uci("UseUncertaintyWeighting").hidden();
    /// The most that a visit weighs, and the weight of one that ends in a certain result.
    uncertainty_weighting_cap: f32 = 1.03, float(0.0, 10000.0).uci("UncertaintyWeightingCap").hidden();
    /// Weight of a visit at an error of 1.
    uncertainty_weighting_coefficient: f32 = 0.13,
        float(0.0, 100.0).uci("UncertaintyWeightingCoefficient").hidden();
    /// How fast the weight falls as the error grows.
    uncertainty_weighting_exponent: f32 = -1.76,
        float(-10.0, 0.0).uci("UncertaintyWeightingExponent").hidden();
    /// Multiplies cpuct by a factor that grows with the error of the node's value, as the network tells it. For networks
    /// that have a head for that.
    use_cpuct_uncertainty: bool = false, check().uci("UseCpuctUncertainty").hidden();
    /// The factor where the value is sure.
    cpuct_uncertainty_min_factor: f32 = 0.87, float(0.0, 100.0).uci("CpuctUncertaintyMinFactor").hidden();
    /// The factor where it is not.
    cpuct_uncertainty_max_factor: f32 = 1.72, float(0.0, 100.0).uci("CpuctUncertaintyMaxFactor").hidden();
    /// The square of the error up to which a value is sure.
    cpuct_uncertainty_min_uncertainty: f32 = 0.0,
        float(0.0, 1.0).uci("CpuctUncertaintyMinUncertainty").hidden();
    /// The square of the error from which it is not.
    cpuct_uncertainty_max_uncertainty: f32 = 0.347,
        float(0.0, 1.0).uci("CpuctUncertaintyMaxUncertainty").hidden();
    /// Multiplies cpuct by a factor that grows with the standard deviation of the values that a node's visits had.
    use_variance_scaling: bool = false, check().uci("UseVarianceScaling").hidden();
    /// The deviation at which the factor is 1.
    cpuct_utility_stdev_prior: f32 = 0.2289, float(0.0, 2.0).uci("CpuctUtilityStdevPrior").hidden();
    /// How many visits that deviation stands for in the beginning.
    cpuct_utility_stdev_prior_weight: f32 = 10.0,
        float(0.0, 10000.0).uci("CpuctUtilityStdevPriorWeight").hidden();
    /// How much the factor follows the deviation: 0 not at all, 1 in proportion.
    cpuct_utility_stdev_scale: f32 = 0.3437, float(0.0, 1.0).uci("CpuctUtilityStdevScale").hidden();
    /// Corrects new evaluations by how far the search has found the network to be off in positions with the same pawns,
    /// kings and numbers of pieces.
    use_correction_history: bool = false, check().uci("UseCorrectionHistory").hidden();
    /// Share of that which is applied.
    correction_history_lambda: f32 = 0.3, float(0.0, 1.0).uci("CorrectionHistoryLambda").hidden();

    ["Temperature and noise"]
    /// Randomness of the move played: 0 plays the best, 1 plays in proportion to visits.
    temperature: f32 = 0.0, float(0.0, 100.0).uci("Temperature").hidden();
    /// Lowers the temperature to 0 over this many moves; 0 keeps it.
    tempdecay_moves: u32 = 0u32, spin(0, 640).uci("TempDecayMoves").hidden();
    /// Moves before that lowering starts.
    tempdecay_delay_moves: u32 = 0u32, spin(0, 100).uci("TempDecayDelayMoves").hidden();
    /// From this move on `TempEndgame` is the temperature; 0 means never.
    temp_cutoff_move: u32 = 0u32, spin(0, 1000).uci("TempCutoffMove").hidden();
    /// Temperature from `TempCutoffMove` on; it is not lowered further.
    temp_endgame: f32 = 0.0, float(0.0, 100.0).uci("TempEndgame").hidden();
    /// Moves worse than the best by more than this many per cent of a win are never picked at random.
    temp_value_cutoff: f32 = 100.0, float(0.0, 100.0).uci("TempValueCutoff").hidden();
    /// Added to every move's visits before picking at random; moves that fall below zero drop out.
    temp_visit_offset: f32 = 0.0, float(-1000.0, 1000.0).uci("TempVisitOffset").hidden();
    /// Share of Dirichlet noise in the root's policy. For training games.
    noise_epsilon: f32 = 0.0, float(0.0, 1.0).uci("DirichletNoiseEpsilon").hidden();
    /// Alpha of that noise: higher is flatter.
    noise_alpha: f32 = 0.3, float(0.0, 1e7).uci("DirichletNoiseAlpha").hidden();

    ["Reports"]
    /// Prints the visits, policy, value and score of every root move when the search ends; else the log file has them.
    verbose_move_stats: bool = false, check().uci("VerboseMoveStats").short('v');
    /// Tells them with every info line: prints them with `VerboseMoveStats`, else writes them into the log file.
    log_live_stats: bool = false, check().uci("LogLiveStats").hidden();

    ["First play urgency"]
    /// What an unvisited move's value is taken for: `reduction` subtracts from the parent's, `absolute` sets
    /// it.
    fpu_strategy: FpuStrategy = FpuStrategy::Reduction, choice(FpuStrategy::NAMES).uci("FpuStrategy");
    /// How much is subtracted, or what is set.
    fpu_value: f32 = 0.33, float(-100.0, 100.0).uci("FpuValue");
    /// `FpuStrategy` for the root's moves; `same` treats them as all others.
    fpu_strategy_at_root: FpuStrategyAtRoot = FpuStrategyAtRoot::Same,
        choice(FpuStrategyAtRoot::NAMES).uci("FpuStrategyAtRoot").hidden();
    /// `FpuValue` for the root's moves, unless their strategy is `same`.
    fpu_value_at_root: f32 = 1.0, float(-100.0, 100.0).uci("FpuValueAtRoot").hidden();

    ["Gathering"]
    /// Earlier positions that the evaluation cache's key takes in. With fewer than the network sees, a
    /// position may get the evaluation that it had with another past.
    cache_history_length: u32 = 0u32, spin(0, 7).uci("CacheHistoryLength");
    /// Plies without capture or pawn move that make no difference to the evaluation cache: positions whose counters lie
    /// in the same bucket of so many share an evaluation. From 64 on at most 8, and from 92 on each stands for itself.
    move_rule_bucket_size: u32 = 64u32, spin(1, 64).uci("MoveRuleBucketSize").hidden();
    /// Collisions (descents that end where another is waiting) allowed in a batch.
    max_collision_events: u32 = 917u32, spin(1, 65536).uci("MaxCollisionEvents");
    /// Visits that all of a batch's collisions together may stand for.
    max_collision_visits: u32 = 80_000u32, spin(1, 100_000_000).uci("MaxCollisionVisits");
    /// Tree size at which the visits allowed in collisions start to grow from 1.
    max_collision_visits_scaling_start: u32 = 28u32, spin(1, 100_000).uci("MaxCollisionVisitsScalingStart");
    /// Tree size at which they reach `MaxCollisionVisits`; 0 allows that from the start.
    max_collision_visits_scaling_end: u32 = 145_000u32,
        spin(0, 100_000_000).uci("MaxCollisionVisitsScalingEnd");
    /// Exponent of the growth between the two.
    max_collision_visits_scaling_power: f32 = 1.25, float(0.01, 100.0).uci("MaxCollisionVisitsScalingPower");
    /// Values cached and finished positions at once, whenever gathering meets them; else only at a batch's
    /// start.
    out_of_order_eval: bool = true, check().uci("OutOfOrderEval");
    /// At most this many times the batch size are valued so while a batch is gathered.
    max_out_of_order_evals_factor: f32 = 2.4, float(0.0, 100.0).uci("MaxOutOfOrderEvalsFactor");

    ["Endgames"]
    /// Carries finished games up the tree: a move that mates makes the position before it a win, for certain.
    sticky_endgames: bool = true, check().uci("StickyEndgames");
    /// Where the tablebases know the distance, keeps only the winning moves that shorten it most.
    syzygy_fast_play: bool = false, check().uci("SyzygyFastPlay");

    ["Info lines"]
    /// How many lines of play to show.
    multipv: u32 = 1u32, spin(1, 500).uci("MultiPV");
    /// Shows each line's own nodes instead of the search's.
    per_pv_counters: bool = false, check().uci("PerPVCounters");
    /// What the score shown is: centipawns on one of several scales, the share of points, or the search's own
    /// q.
    score_type: ScoreType = ScoreType::WdlMu, choice(ScoreType::NAMES).uci("ScoreType");

    ["Moves left"]
    /// The most that a shorter win or a longer loss adds to a move's score.
    moves_left_max_effect: f32 = 0.0345, float(0.0, 1.0).uci("MovesLeftMaxEffect");
    /// How sure of the outcome (absolute q) the search must be before game length counts.
    moves_left_threshold: f32 = 0.8, float(0.0, 1.0).uci("MovesLeftThreshold");
    /// Score for each ply of difference, up to `MovesLeftMaxEffect`.
    moves_left_slope: f32 = 0.0027, float(0.0, 1.0).uci("MovesLeftSlope");
    /// Constant part of the factor on that score.
    moves_left_constant_factor: f32 = 0.0, float(-1.0, 1.0).uci("MovesLeftConstantFactor");
    /// Part of the factor that grows with absolute q.
    moves_left_scaled_factor: f32 = 1.6521, float(-2.0, 2.0).uci("MovesLeftScaledFactor");
    /// Part of the factor that grows with the square of q.
    moves_left_quadratic_factor: f32 = -0.6521, float(-1.0, 1.0).uci("MovesLeftQuadraticFactor");

    ["Draws and contempt"]
    /// What a draw is worth to White: 0 is usual, -1 makes it a loss.
    draw_score: f32 = 0.0, float(-1.0, 1.0).uci("DrawScore");
    /// Whose side contempt takes: the player's (`play`), one colour's for analysis, or nobody's.
    contempt_mode: ContemptMode = ContemptMode::Play,
        choice(ContemptMode::NAMES).uci("ContemptMode");
    /// Elo advantage to assume: comma-separated `name=value`, the name looked for in `UCI_Opponent`; a value
    /// without a name is for everybody else. Without one, `UCI_RatingAdv` counts.
    contempt: String = "", text().uci("Contempt");
    /// The opponent, as the GUI describes it; see `Contempt`.
    uci_opponent: String = "", text().uci("UCI_Opponent").uci_only();
    /// Our Elo advantage, as the GUI knows it; see `Contempt`.
    uci_rating_adv: f32 = 0.0, float(-10000.0, 10000.0).uci("UCI_RatingAdv").uci_only();
    /// Larger advantages are cut to this.
    contempt_max_value: f32 = 420.0, float(0.0, 10000.0).uci("ContemptMaxValue").hidden();
    /// Elo of the side that contempt takes, on the rapid scale; 0 leaves win, draw and loss as the network
    /// has them.
    wdl_calibration_elo: f32 = 0.0, float(0.0, 10000.0).uci("WDLCalibrationElo");
    /// How much of the Elo advantage is applied: 1 for analysis, 0.5 to 0.6 for playing.
    wdl_contempt_attenuation: f32 = 1.0,
        float(-10.0, 10.0).uci("WDLContemptAttenuation").hidden();
    /// Widest spread of win, draw and loss taken at its word; more for odds games and the like.
    wdl_max_s: f32 = 1.4, float(0.0, 10.0).uci("WDLMaxS").hidden();
    /// Score shown: 0 as the search sees it with contempt, 1 as if there were none.
    wdl_eval_objectivity: f32 = 1.0, float(0.0, 1.0).uci("WDLEvalObjectivity");
    /// Draw rate of equal positions to aim at, in place of `WDLCalibrationElo`; 0 leaves it.
    wdl_draw_rate_target: f32 = 0.0, float(0.0, 0.999).uci("WDLDrawRateTarget").hidden();
    /// Draw rate that the network has in equal positions.
    wdl_draw_rate_reference: f32 = 0.5, float(0.001, 0.999).uci("WDLDrawRateReference");
    /// Advantage with which games leave the opening book where Elo is measured; counts only with a draw rate
    /// target.
    wdl_book_exit_bias: f32 = 0.65, float(-2.0, 2.0).uci("WDLBookExitBias").hidden();

    ["Search threads in detail"]
    /// How many threads may gather at the same time; 0 means all.
    max_concurrent_searchers: u32 = 1u32, spin(0, 128).uci("MaxConcurrentSearchers").no_effect(SIDE_BY_SIDE);
    /// Helpers of each search thread.
    task_workers: i32 = -1, spin(-1, 128).uci("TaskWorkers").no_effect(ONE_WORKER_PER_THREAD);
    /// Positions from which helpers take part in processing.
    minimum_processing_work: u32 = 20u32,
        spin(2, 100_000).uci("MinimumProcessingWork").no_effect(ONE_WORKER_PER_THREAD);
    /// Visits from which a branch may go to a helper.
    minimum_picking_work: u32 = 1u32,
        spin(1, 100_000).uci("MinimumPickingWork").no_effect(ONE_WORKER_PER_THREAD);
    /// Visits that must remain for a branch to go to a helper.
    minimum_remaining_picking_work: u32 = 20u32,
        spin(0, 100_000).uci("MinimumRemainingPickingWork").no_effect(ONE_WORKER_PER_THREAD);
    /// Fewest positions a helper processes.
    minimum_per_task_processing: u32 = 8u32,
        spin(1, 100_000).uci("MinimumPerTaskProcessing").no_effect(ONE_WORKER_PER_THREAD);
    /// Ends gathering early for an idle backend only above this many positions.
    idling_minimum_work: u32 = 0u32, spin(0, 10_000).uci("IdlingMinimumWork").no_effect(SIDE_BY_SIDE);
    /// The backend counts as idle when more threads than this are neither feeding it nor waiting for it.
    thread_idling_threshold: u32 = 1u32, spin(0, 128).uci("ThreadIdlingThreshold").no_effect(SIDE_BY_SIDE);
    /// Yields while waiting for a turn to gather.
    search_spin_backoff: bool = false,
        check().uci("SearchSpinBackoff").no_effect("nothing spins");
    /// Per cent of the move's time to wait before old branches are freed.
    garbage_collection_delay: f32 = 10.0,
        float(0.0, 100.0).uci("GarbageCollectionDelay").no_effect("memory is freed when it is wanted");
    /// When a batch does not fill, up to this many positions that will probably be needed soon go with it.
    max_prefetch: u32 = 32u32, spin(0, 1024).uci("MaxPrefetch");
    /// Visits from which a node's children are stored together.
    solid_tree_threshold: u32 = 100u32,
        spin(1, 2_000_000_000).uci("SolidTreeThreshold").no_effect("children are always stored together");

    ["When to stop"]
    /// Visits between two looks at how much the visit distribution still changes.
    kldgain_average_interval: u32 = 100u32, spin(1, 10_000_000).uci("KLDGainAverageInterval").hidden();
    /// Stops when it changes by less than this a visit; 0 never does.
    minimum_kldgain_per_node: f32 = 0.0, float(0.0, 1.0).uci("MinimumKLDGainPerNode").hidden();
    /// Leaves out root moves that cannot overtake the best in what is left, and stops when that is all but
    /// one. Above 1 gives up on them sooner, below 1 later; 0 never does.
    smart_pruning_factor: f32 = 1.33, float(0.0, 10.0).uci("SmartPruningFactor");
    /// Batches to evaluate before smart pruning may stop the search.
    smart_pruning_minimum_batches: u32 = 0u32, spin(0, 10_000).uci("SmartPruningMinimumBatches");
    /// `go nodes` counts this search's visits, and not those that the tree had before.
    nodes_as_playouts: bool = false, check().uci("NodesAsPlayouts").hidden();
    /// Memory for the tree and the cache, in megabytes; 0 takes what fits the machine. When it is used up the search
    /// goes on: it forgets what it has visited least.
    ramlimit_mb: u32 = 0u32, spin(0, 100_000_000).uci("RamLimitMb");
    /// Holds the search to this many nodes a second; 0 lets it run.
    nps_limit: f32 = 0.0, float(0.0, 1e6).uci("NodesPerSecondLimit");
    /// Milliseconds kept back on every move, for the way between GUI and engine.
    move_overhead: u32 = 200u32, spin(0, 100_000_000).uci("MoveOverheadMs");
    /// How time is shared out: `legacy`, `smooth`, `alphazero` or `simple`, with settings in brackets as
    /// in `legacy(slowmover=1.2)`.
    time_manager: String = "legacy", text().uci("TimeManager");
    /// Forgets the tree before the next search.
    clear_tree: Presses = Presses(0), button().uci("ClearTree").uci_only().hidden();

    ["Protocol"]
    /// Castling is written as the king taking its rook. Both ways are always understood.
    chess960: bool = false, check().uci("UCI_Chess960");
    /// Shows win, draw and loss in thousandths.
    show_wdl: bool = false, check().uci("UCI_ShowWDL");
    /// Shows network evaluations per second.
    show_eps: bool = false, check().uci("UCI_ShowEPS");
    /// Shows how many moves the game will probably last.
    show_movesleft: bool = false, check().uci("UCI_ShowMovesLeft");

    ["Network and backend"]
    /// Temperature of the policy: higher brings the moves' priors closer together, and widens the search.
    policy_softmax_temp: f32 = 1.359, float(0.1, 10.0).uci("PolicyTemperature");
    /// Share of the network's optimistic policy head in the policy: 0 leaves it out, 1 takes it alone, as
    /// `policy_head=optimistic` among the backend's options does.
    policy_optimism: f32 = 0.0, float(0.0, 1.0).uci("PolicyOptimism").hidden();
    /// When the network's history planes are filled where there is no history: never (`no`), unless the game
    /// began at the usual start (`fen_only`), or always.
    history_fill: HistoryFill = HistoryFill::FenOnly, choice(HistoryFill::NAMES).uci("HistoryFill");
    /// The network file. `<autodiscover>` takes the newest in `./`, `./weights/`, beside the binary and in
    /// the user's data directory, and where there is none the network inside the binary: `<embedded>`.
    weights: String = AUTODISCOVER, text().uci("WeightsFile").short('w');
    /// What evaluates positions; `auto` takes the fastest that works here.
    backend: BackendName = BackendName::Auto, choice(BackendName::NAMES).uci("Backend").short('b');
    /// The backend's own options, as in `threads=2` or `backend=cpu,(gpu=0),(gpu=1)`.
    backend_opts: String = "", text().uci("BackendOptions").short('o');
    /// Evaluations to remember. Each takes some 100 bytes.
    nncache: u32 = 2_000_000u32, spin(0, 999_999_999).uci("NNCacheSize");
}
