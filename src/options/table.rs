//! The table of all options, by section. The help lists them in this order, and so does UCI after those that most
//! people set.
//!
//! A row has the help text (which is also the field's documentation), the field of [`Options`] with its type and
//! default, the kind and range of the values, the UCI name and the short flag. The long flag is the field's name with
//! `-` in place of `_`. Names, defaults and ranges are lc0's, so that configurations and scripts made for lc0 work
//! here.

use super::choices::{
    BackendName, ContemptMode, FpuStrategy, FpuStrategyAtRoot, HistoryFill, ScoreType, SearchName,
};
use super::lc0::{BackendChoice, backend_in_place_of};
use super::spec::{Field, Presses, Row, button, check, choice, float, spin, text};

/// The value of `weights` that asks for the newest network in the usual places, as in lc0.
pub const AUTODISCOVER: &str = "<autodiscover>";

/// The lowest and the highest `UCI_Elo`: those between which the strength was measured.
pub const ELO_RANGE: (i64, i64) = (1500, 2550);

/// A row of [`TABLE`].
pub type Spec = Row<Options>;

/// Makes a field of the default in its row. `From` has too many conversions to `f32` to tell the type of `1.5`, which
/// newer compilers refuse.
trait FromDefault<T> {
    fn from_default(default: T) -> Self;
}

impl<T> FromDefault<T> for T {
    fn from_default(default: T) -> T {
        default
    }
}

impl FromDefault<BackendName> for BackendChoice {
    fn from_default(default: BackendName) -> BackendChoice {
        default.into()
    }
}

impl FromDefault<&str> for String {
    fn from_default(default: &str) -> String {
        default.to_owned()
    }
}

/// Makes the struct [`Options`], its defaults and [`TABLE`] from the rows.
macro_rules! options {
    ($( [$section:literal] $(
        $(#[doc = $doc:literal])+
        $field:ident: $type:ty = $default:expr, $spec:expr;
    )+ )+) => {
        /// The value of every option. A search keeps a copy, so a change takes effect with the next search.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Options {
            $($( $(#[doc = $doc])+ pub $field: $type, )+)+
        }

        impl Default for Options {
            fn default() -> Options {
                Options { $($( $field: FromDefault::from_default($default), )+)+ }
            }
        }

        /// The table of options, in the order of the help.
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

/// The section of the options that decide which backend is made.
pub const BACKEND_SECTION: &str = "Network and backend";

const ONE_WORKER_PER_THREAD: &str = "each search thread gathers and processes its own batch";
const SIDE_BY_SIDE: &str = "all threads gather at the same time, each until its batch is full";

options! {
    ["General"]
    /// Writes all input and output, with timestamps, to this file; `<stderr>` means standard error.
    logfile: String = "", text().uci("LogFile").short('l');
    /// Configuration file with one flag on each line. If this is not given, the first of these is read that exists:
    /// `rukh.config` beside the binary, `rukh.config` in the user's configuration directory, `lc0.config` beside the
    /// binary, `lc0.config` in lc0's folders for configuration.
    config: String = "rukh.config", text().uci("ConfigFile").short('c');
    /// Tells the engine that `go ponder` may follow, so that it keeps the tree of the last search.
    ponder: bool = false,
        check().uci("Ponder").uci_only().no_effect("the tree is always kept, and `go ponder` always works");
    /// Directories with Syzygy tablebases, separated by `:` (`;` on Windows). If several have the same table, the first
    /// one counts, and another one if that is damaged.
    syzygy_paths: String = "", text().uci("SyzygyPath").short('s');
    /// Starts the clock when `go` arrives, for GUIs that compensate for lag and wait for `readyok` before they send
    /// `go`. Otherwise, if `go` follows `position` at once, the clock starts when `position` arrives.
    strict_uci_timing: bool = false, check().uci("StrictTiming").hidden();
    /// Loads the network at startup instead of at the first `isready` or `go`.
    preload: bool = false, check();

    ["Threads and batches"]
    /// Number of search threads; 0 uses as many as suit the backend.
    threads: u32 = 0u32, spin(0, 128).uci("Threads").short('t');
    /// Number of positions in a batch; 0 uses the backend's recommendation. Larger batches are faster on a graphics
    /// card and slightly weaker in short searches.
    minibatch_size: u32 = 0u32, spin(0, 1024).uci("MinibatchSize");
    /// Largest share of the visits of the tree that may be in flight when a search thread begins a batch; above it, the
    /// thread gathers one leaf. Leaves that are chosen before the last results are known are chosen worse, above all in
    /// a small tree, so a small share makes a search of few nodes stronger, and slower. 0 means no limit.
    in_flight_share: f32 = 0.0, float(0.0, 1.0).uci("InFlightShare").hidden();

    ["Search"]
    /// The search: `default` is Rukh's own, and `classic` is lc0's classic search. With `classic`, the
    /// options under Uncertainty and Backup have no effect, nor have `PrefetchByVisits`, `RootPolicyTemperature`,
    /// `LowerBoundDeviation` and `InFlightShare`.
    search: SearchName = SearchName::Default, choice(SearchName::NAMES).uci("Search");

    ["Strength"]
    /// Plays as weakly as `UCI_Elo` says, except in `go infinite`, `go mate`, with several lines or too
    /// low a `NodesPerMove`.
    limit_strength: bool = false, check().uci("UCI_LimitStrength");
    /// Strength for `UCI_LimitStrength`, on the scale of Stockfish 16 and later, with the embedded network.
    elo: u32 = 1500u32, spin(ELO_RANGE.0, ELO_RANGE.1).uci("UCI_Elo");
    /// Most nodes of a move, whatever the chess program asks for; 0 means no limit. Maia networks
    /// imitate people only with 1.
    nodes_per_move: u32 = 0u32, spin(0, 1_000_000_000).uci("NodesPerMove");

    ["Exploration"]
    /// Weight of the policy against the values found so far: higher values make the search wider, lower values make it
    /// deeper.
    cpuct: f32 = 1.745, float(0.0, 100.0).uci("CPuct");
    /// `CPuct` at the root.
    cpuct_at_root: f32 = 1.745, float(0.0, 100.0).uci("CPuctAtRoot").hidden();
    /// Number of visits at which cpuct starts to grow; with a lower base it grows sooner.
    cpuct_base: f32 = 38739.0, float(1.0, 1e9).uci("CPuctBase");
    /// `CPuctBase` at the root.
    cpuct_base_at_root: f32 = 38739.0, float(1.0, 1e9).uci("CPuctBaseAtRoot").hidden();
    /// How fast cpuct grows with the number of visits.
    cpuct_factor: f32 = 3.894, float(0.0, 1000.0).uci("CPuctFactor");
    /// `CPuctFactor` at the root.
    cpuct_factor_at_root: f32 = 3.894, float(0.0, 1000.0).uci("CPuctFactorAtRoot").hidden();
    /// Uses the three `AtRoot` options at the root. If off, the root uses the same values as every other node.
    root_has_own_cpuct_params: bool = false, check().uci("RootHasOwnCpuctParams").hidden();
    /// Treats a repetition within the search as a draw at the second occurrence of the position.
    two_fold_draws: bool = true, check().uci("TwoFoldDraws");
    /// Searches a position only once even if several move orders reach it, unless repetitions or the fifty-move rule
    /// make a difference. If off, the position is searched once for each move order.
    graph_search: bool = true, check().uci("GraphSearch").hidden();

    ["Uncertainty"]
    /// Weights each visit by the certainty of its value. The weight is the smaller of `UncertaintyWeightingCap` and
    /// `UncertaintyWeightingCoefficient` times the value's error to the power of `UncertaintyWeightingExponent`. The
    /// network must have a value-error head.
    use_uncertainty_weighting: bool = false, check().uci("UseUncertaintyWeighting").hidden();
    /// Upper limit of a visit's weight, and the weight of a visit that ends in a certain result.
    uncertainty_weighting_cap: f32 = 1.03, float(0.0, 10000.0).uci("UncertaintyWeightingCap").hidden();
    /// Weight of a visit whose error is 1.
    uncertainty_weighting_coefficient: f32 = 0.13,
        float(0.0, 100.0).uci("UncertaintyWeightingCoefficient").hidden();
    /// How fast the weight falls as the error grows.
    uncertainty_weighting_exponent: f32 = -1.76,
        float(-10.0, 0.0).uci("UncertaintyWeightingExponent").hidden();
    /// Multiplies cpuct by a factor that grows with the error of the node's value. The network must have a value-error
    /// head.
    use_cpuct_uncertainty: bool = false, check().uci("UseCpuctUncertainty").hidden();
    /// The factor for certain values.
    cpuct_uncertainty_min_factor: f32 = 0.87, float(0.0, 100.0).uci("CpuctUncertaintyMinFactor").hidden();
    /// The factor for uncertain values.
    cpuct_uncertainty_max_factor: f32 = 1.72, float(0.0, 100.0).uci("CpuctUncertaintyMaxFactor").hidden();
    /// Squared error up to which a value counts as certain.
    cpuct_uncertainty_min_uncertainty: f32 = 0.0,
        float(0.0, 1.0).uci("CpuctUncertaintyMinUncertainty").hidden();
    /// Squared error at and above which a value counts as uncertain.
    cpuct_uncertainty_max_uncertainty: f32 = 0.347,
        float(0.0, 1.0).uci("CpuctUncertaintyMaxUncertainty").hidden();
    /// Multiplies cpuct by a factor that grows with the standard deviation of the values of a node's visits.
    use_variance_scaling: bool = false, check().uci("UseVarianceScaling").hidden();
    /// Standard deviation at which the factor is 1.
    cpuct_utility_stdev_prior: f32 = 0.2289, float(0.0, 2.0).uci("CpuctUtilityStdevPrior").hidden();
    /// Number of visits that a new node's prior standard deviation counts for.
    cpuct_utility_stdev_prior_weight: f32 = 10.0,
        float(0.0, 10000.0).uci("CpuctUtilityStdevPriorWeight").hidden();
    /// How closely the factor follows the standard deviation: 0 not at all, 1 in proportion.
    cpuct_utility_stdev_scale: f32 = 0.3437, float(0.0, 1.0).uci("CpuctUtilityStdevScale").hidden();
    /// A factor of the policy's temperature at the root only: above 1 the search looks at more root moves.
    root_policy_temperature: f32 = 1.0, float(0.1, 10.0).uci("RootPolicyTemperature").hidden();

    ["Backup"]
    /// Computes a node's value anew from its children's values after each batch, so that it contains all that is known
    /// of a transposition, and not only the visits that came this way. A `ValueWeightExponent` above 0
    /// turns it on, too.
    use_graph_backup: bool = false, check().uci("UseGraphBackup").hidden();
    /// Weighs children whose value is low for their number of visits less, as KataGo does (0.25 there): the exponent of
    /// the probability that such a value is due to chance. 0 turns this off, and then a node's value is the mean of its
    /// visits.
    value_weight_exponent: f32 = 0.5, float(0.0, 2.0).uci("ValueWeightExponent").hidden();

    ["Choice of the move"]
    /// Plays the move whose value less this number divided by the square root of its visits is the highest, as KataGo
    /// does, instead of the move with the most visits. 0 turns this off.
    lower_bound_deviation: f32 = 1.0, float(0.0, 100.0).uci("LowerBoundDeviation").hidden();
    /// Only moves with at least this share of the most visits are chosen by `LowerBoundDeviation`.
    lower_bound_least_visits: f32 = 0.15, float(0.0, 1.0).uci("LowerBoundLeastVisits").hidden();

    ["Temperature and noise"]
    /// Randomness of the move played: 0 plays the best move, 1 chooses moves in proportion to their visits.
    temperature: f32 = 0.0, float(0.0, 100.0).uci("Temperature").hidden();
    /// Number of moves over which the temperature falls to 0; 0 keeps it constant.
    tempdecay_moves: u32 = 0u32, spin(0, 640).uci("TempDecayMoves").hidden();
    /// Number of moves before the temperature starts to fall.
    tempdecay_delay_moves: u32 = 0u32, spin(0, 100).uci("TempDecayDelayMoves").hidden();
    /// Move number at which `TempEndgame` becomes the temperature; 0 means never.
    temp_cutoff_move: u32 = 0u32, spin(0, 1000).uci("TempCutoffMove").hidden();
    /// Temperature from `TempCutoffMove` on, where it stays constant. Before that move the falling temperature does not
    /// fall below it.
    temp_endgame: f32 = 0.0, float(0.0, 100.0).uci("TempEndgame").hidden();
    /// A move is never chosen at random if its winning chances are worse than the best move's by more than this many
    /// percent.
    temp_value_cutoff: f32 = 100.0, float(0.0, 100.0).uci("TempValueCutoff").hidden();
    /// Number added to every move's visits before a random choice. A move with a negative result is never chosen.
    temp_visit_offset: f32 = 0.0, float(-1000.0, 1000.0).uci("TempVisitOffset").hidden();
    /// Share of Dirichlet noise in the root's policy, for training games.
    noise_epsilon: f32 = 0.0, float(0.0, 1.0).uci("DirichletNoiseEpsilon").hidden();
    /// Alpha of the Dirichlet noise; higher values give flatter noise.
    noise_alpha: f32 = 0.3, float(0.0, 1e7).uci("DirichletNoiseAlpha").hidden();

    ["Reports"]
    /// Prints the visits, policy, value and score of every root move when the search ends. If off, they go only to the
    /// log file.
    verbose_move_stats: bool = false, check().uci("VerboseMoveStats").short('v');
    /// Reports the same statistics with every info line: it prints them if `VerboseMoveStats` is on, and otherwise
    /// writes them to the log file.
    log_live_stats: bool = false, check().uci("LogLiveStats").hidden();

    ["First play urgency"]
    /// Value assumed for an unvisited move: `reduction` subtracts from the parent's value, `absolute` sets a fixed
    /// value.
    fpu_strategy: FpuStrategy = FpuStrategy::Reduction, choice(FpuStrategy::NAMES).uci("FpuStrategy");
    /// The amount that `reduction` subtracts, or the value that `absolute` sets.
    fpu_value: f32 = 0.33, float(-100.0, 100.0).uci("FpuValue");
    /// `FpuStrategy` at the root; `same` uses the strategy of all other nodes.
    fpu_strategy_at_root: FpuStrategyAtRoot = FpuStrategyAtRoot::Same,
        choice(FpuStrategyAtRoot::NAMES).uci("FpuStrategyAtRoot").hidden();
    /// `FpuValue` at the root, unless `FpuStrategyAtRoot` is `same`.
    fpu_value_at_root: f32 = 1.0, float(-100.0, 100.0).uci("FpuValueAtRoot").hidden();

    ["Gathering"]
    /// Number of earlier positions in the evaluation cache's key. If the network sees more positions than that, a
    /// position may get an evaluation that was made with a different history.
    cache_history_length: u32 = 0u32, spin(0, 7).uci("CacheHistoryLength");
    /// Width in plies of the evaluation cache's buckets of rule-50 counters: positions whose counters are in the same
    /// bucket share an evaluation. Buckets are at most 8 wide from 64 on, and 1 wide from 92 on.
    move_rule_bucket_size: u32 = 64u32, spin(1, 64).uci("MoveRuleBucketSize").hidden();
    /// Most collisions in a batch. A collision is a descent that ends at a leaf that is already being evaluated.
    max_collision_events: u32 = 917u32, spin(1, 65536).uci("MaxCollisionEvents");
    /// Most colliding visits in a batch. One collision can stand for several visits.
    max_collision_visits: u32 = 80_000u32, spin(1, 100_000_000).uci("MaxCollisionVisits");
    /// Tree size at which the limit on collision visits starts to grow from 1.
    max_collision_visits_scaling_start: u32 = 28u32, spin(1, 100_000).uci("MaxCollisionVisitsScalingStart");
    /// Tree size at which the limit reaches `MaxCollisionVisits`; 0 applies `MaxCollisionVisits` from the start.
    max_collision_visits_scaling_end: u32 = 145_000u32,
        spin(0, 100_000_000).uci("MaxCollisionVisitsScalingEnd");
    /// Exponent of the growth between these two sizes.
    max_collision_visits_scaling_power: f32 = 1.25, float(0.01, 100.0).uci("MaxCollisionVisitsScalingPower");
    /// Gathers a full batch in addition to the cached and terminal positions, which are backed up at once. If off,
    /// these positions count towards the batch size.
    out_of_order_eval: bool = true, check().uci("OutOfOrderEval");
    /// Limit on the positions that are backed up while a batch is gathered, as a multiple of the batch size.
    max_out_of_order_evals_factor: f32 = 2.4, float(0.0, 100.0).uci("MaxOutOfOrderEvalsFactor");

    ["Endgames"]
    /// Propagates certain results up the tree: if a move mates, the position before it is a certain win.
    sticky_endgames: bool = true, check().uci("StickyEndgames");
    /// Where the tablebases know distances, keeps only the winning moves that bring the win closest.
    syzygy_fast_play: bool = false, check().uci("SyzygyFastPlay");

    ["Info lines"]
    /// Number of principal variations to show.
    multipv: u32 = 1u32, spin(1, 500).uci("MultiPV");
    /// Shows the nodes of each variation instead of those of the whole search.
    per_pv_counters: bool = false, check().uci("PerPVCounters");
    /// Unit of the reported score: centipawns on one of several scales, the expected score, or the search's own q.
    score_type: ScoreType = ScoreType::WdlMu, choice(ScoreType::NAMES).uci("ScoreType");

    ["Moves left"]
    /// Largest bonus for a move that wins sooner or loses later.
    moves_left_max_effect: f32 = 0.0345, float(0.0, 1.0).uci("MovesLeftMaxEffect");
    /// Absolute q at which the length of the game starts to count.
    moves_left_threshold: f32 = 0.8, float(0.0, 1.0).uci("MovesLeftThreshold");
    /// Bonus for each ply of difference, up to `MovesLeftMaxEffect`.
    moves_left_slope: f32 = 0.0027, float(0.0, 1.0).uci("MovesLeftSlope");
    /// Constant part of the factor that multiplies this bonus.
    moves_left_constant_factor: f32 = 0.0, float(-1.0, 1.0).uci("MovesLeftConstantFactor");
    /// Part of the factor that is proportional to the excess of absolute q over `MovesLeftThreshold`.
    moves_left_scaled_factor: f32 = 1.6521, float(-2.0, 2.0).uci("MovesLeftScaledFactor");
    /// Part of the factor that is proportional to the square of this excess.
    moves_left_quadratic_factor: f32 = -0.6521, float(-1.0, 1.0).uci("MovesLeftQuadraticFactor");

    ["Draws and contempt"]
    /// Value of a draw for White: 0 is usual, -1 counts it as a loss.
    draw_score: f32 = 0.0, float(-1.0, 1.0).uci("DrawScore");
    /// Side that contempt favours: the side to move (`play`), one colour for analysis, or neither.
    contempt_mode: ContemptMode = ContemptMode::Play,
        choice(ContemptMode::NAMES).uci("ContemptMode");
    /// Assumed Elo advantage, as a list of `name=value` separated by commas. The value applies if `UCI_Opponent`
    /// contains the name; a value without a name applies to all other opponents. If none applies, `UCI_RatingAdv` is
    /// used.
    contempt: String = "", text().uci("Contempt");
    /// The opponent, as the GUI describes it; used by `Contempt`.
    uci_opponent: String = "", text().uci("UCI_Opponent").uci_only();
    /// Elo advantage over the opponent, as the GUI knows it; used if no value of `Contempt` applies.
    uci_rating_adv: f32 = 0.0, float(-10000.0, 10000.0).uci("UCI_RatingAdv").uci_only();
    /// Upper limit of the Elo advantage.
    contempt_max_value: f32 = 420.0, float(0.0, 10000.0).uci("ContemptMaxValue").hidden();
    /// Elo of the side that contempt favours, on the rapid scale, to which win, draw and loss probabilities are
    /// adapted; 0 turns this off.
    wdl_calibration_elo: f32 = 0.0, float(0.0, 10000.0).uci("WDLCalibrationElo");
    /// Share of the Elo advantage that is applied: 1 for analysis, 0.5 to 0.6 for play.
    wdl_contempt_attenuation: f32 = 1.0,
        float(-10.0, 10.0).uci("WDLContemptAttenuation").hidden();
    /// Upper limit of the spread of win, draw and loss probabilities. Raise it for odds games and the like.
    wdl_max_s: f32 = 1.4, float(0.0, 10.0).uci("WDLMaxS").hidden();
    /// Share of contempt that is removed from the reported score: 0 reports the score with contempt, 1 without it.
    wdl_eval_objectivity: f32 = 1.0, float(0.0, 1.0).uci("WDLEvalObjectivity");
    /// Draw rate to aim for in equal positions, if `WDLCalibrationElo` is 0; 0 turns this off.
    wdl_draw_rate_target: f32 = 0.0, float(0.0, 0.999).uci("WDLDrawRateTarget").hidden();
    /// Draw rate that the network predicts for equal positions.
    wdl_draw_rate_reference: f32 = 0.5, float(0.001, 0.999).uci("WDLDrawRateReference");
    /// Advantage of one side when games leave the opening book in the matches that measure Elo. Used only if
    /// `WDLCalibrationElo` is 0.
    wdl_book_exit_bias: f32 = 0.65, float(-2.0, 2.0).uci("WDLBookExitBias").hidden();

    ["Threading details"]
    /// Number of threads that may gather at the same time; 0 means all.
    max_concurrent_searchers: u32 = 1u32, spin(0, 128).uci("MaxConcurrentSearchers").no_effect(SIDE_BY_SIDE);
    /// Number of helper threads for each search thread.
    task_workers: i32 = -1, spin(-1, 128).uci("TaskWorkers").no_effect(ONE_WORKER_PER_THREAD);
    /// Smallest number of positions for which helpers take part in processing.
    minimum_processing_work: u32 = 20u32,
        spin(2, 100_000).uci("MinimumProcessingWork").no_effect(ONE_WORKER_PER_THREAD);
    /// Smallest number of visits with which a branch may go to a helper.
    minimum_picking_work: u32 = 1u32,
        spin(1, 100_000).uci("MinimumPickingWork").no_effect(ONE_WORKER_PER_THREAD);
    /// Number of visits that must remain for a branch to go to a helper.
    minimum_remaining_picking_work: u32 = 20u32,
        spin(0, 100_000).uci("MinimumRemainingPickingWork").no_effect(ONE_WORKER_PER_THREAD);
    /// Fewest positions that a helper processes.
    minimum_per_task_processing: u32 = 8u32,
        spin(1, 100_000).uci("MinimumPerTaskProcessing").no_effect(ONE_WORKER_PER_THREAD);
    /// Ends gathering early for an idle backend only if the batch has more positions than this.
    idling_minimum_work: u32 = 0u32, spin(0, 10_000).uci("IdlingMinimumWork").no_effect(SIDE_BY_SIDE);
    /// The backend counts as idle if more threads than this neither feed it nor wait for it.
    thread_idling_threshold: u32 = 1u32, spin(0, 128).uci("ThreadIdlingThreshold").no_effect(SIDE_BY_SIDE);
    /// Yields the processor while waiting for a turn to gather.
    search_spin_backoff: bool = false,
        check().uci("SearchSpinBackoff").no_effect("threads never spin");
    /// Percentage of the move's time to wait before old branches are freed.
    garbage_collection_delay: f32 = 10.0,
        float(0.0, 100.0).uci("GarbageCollectionDelay").no_effect("memory is freed when it is needed");
    /// A batch with fewer positions than this is filled up to this number with positions that the search will probably
    /// need soon. Backends on the CPU ignore this option.
    max_prefetch: u32 = 32u32, spin(0, 1024).uci("MaxPrefetch");
    /// Chooses these positions by the visits that would come next, and fills the batch up to the size to which the
    /// graphics card pads it. If off, it chooses and fills as lc0 does. `MaxPrefetch` 0 turns off both.
    prefetch_by_visits: bool = true, check().uci("PrefetchByVisits").hidden();
    /// Number of visits at which a node's children start to be stored contiguously.
    solid_tree_threshold: u32 = 100u32,
        spin(1, 2_000_000_000).uci("SolidTreeThreshold").no_effect("the tree has no such storage");

    ["When to stop"]
    /// Number of visits between measurements of how much the visit distribution changes.
    kldgain_average_interval: u32 = 100u32, spin(1, 10_000_000).uci("KLDGainAverageInterval").hidden();
    /// Stops when the visit distribution changes by less than this per visit; 0 never stops.
    minimum_kldgain_per_node: f32 = 0.0, float(0.0, 1.0).uci("MinimumKLDGainPerNode").hidden();
    /// On a clock, skips root moves that cannot catch up in visits with the most visited move in the time left, and
    /// stops when only one move remains. Values above 1 give up on moves sooner, values below 1 later; 0 turns this
    /// off. At its default of 1.33, this option has no effect on `go nodes`, `go movetime` and `go depth`. Any other
    /// value counts without a clock too, as in lc0; in `selfplay` and `analyze`, whose default is 0, so does 1.33.
    smart_pruning_factor: f32 = 1.33, float(0.0, 10.0).uci("SmartPruningFactor");
    /// Number of batches to evaluate before smart pruning may stop the search.
    smart_pruning_minimum_batches: u32 = 0u32, spin(0, 10_000).uci("SmartPruningMinimumBatches");
    /// Makes `go nodes` count only the visits of this search, and not those that the tree already has.
    nodes_as_playouts: bool = false, check().uci("NodesAsPlayouts").hidden();
    /// Memory limit for the tree and the cache together, in megabytes; 0 chooses a limit that fits the machine. At the
    /// limit the search continues and frees the least visited parts of the tree. `RamLimitMb` is another name of this
    /// setting: of the two, the one set last counts, unless it is 0.
    hash: u32 = 0u32, spin(0, 100_000_000).uci("Hash");
    /// lc0's name of `Hash`.
    ramlimit_mb: u32 = 0u32, spin(0, 100_000_000).uci("RamLimitMb");
    /// Limits the search to this many nodes per second; 0 means no limit.
    nps_limit: f32 = 0.0, float(0.0, 1e6).uci("NodesPerSecondLimit");
    /// Milliseconds reserved on every move on a clock for the delay between GUI and engine. It does not shorten
    /// `go movetime`.
    move_overhead: u32 = 200u32, spin(0, 100_000_000).uci("MoveOverheadMs");
    /// Time manager: `legacy`, `smooth`, `alphazero` or `simple`, with its settings in parentheses, as in
    /// `legacy(slowmover=1.2)`.
    time_manager: String = "legacy", text().uci("TimeManager");
    /// Clears the tree before the next search.
    clear_tree: Presses = Presses(0), button().uci("ClearTree").uci_only().hidden();

    ["Protocol"]
    /// Writes castling as king takes rook. As input, both notations are always accepted.
    chess960: bool = false, check().uci("UCI_Chess960");
    /// Shows win, draw and loss probabilities, in thousandths.
    show_wdl: bool = false, check().uci("UCI_ShowWDL");
    /// Shows network evaluations per second.
    show_eps: bool = false, check().uci("UCI_ShowEPS");
    /// Shows the expected number of moves left in the game.
    show_movesleft: bool = false, check().uci("UCI_ShowMovesLeft");

    ["Network and backend"]
    /// Softmax temperature of the policy: higher values make the priors more equal, which widens the search.
    policy_softmax_temp: f32 = 1.359, float(0.1, 10.0).uci("PolicyTemperature");
    /// Share of the network's optimistic policy head in the policy: 0 does not use it, 1 uses nothing else, like the
    /// backend option `policy_head=optimistic`.
    policy_optimism: f32 = 0.0, float(0.0, 1.0).uci("PolicyOptimism").hidden();
    /// When to fill the network's history planes for positions before the first known one: never (`no`), unless the
    /// game began at the standard start position (`fen_only`), or `always`.
    history_fill: HistoryFill = HistoryFill::FenOnly, choice(HistoryFill::NAMES).uci("HistoryFill");
    /// The network file. `<autodiscover>` uses a network that is appended to the binary, else the newest in `./`, else
    /// in `./weights/`, else beside the binary or in `networks/` there, else in the user's data directory, and
    /// otherwise the network inside the binary, `<embedded>`.
    weights: String = AUTODISCOVER, text().uci("WeightsFile").short('w');
    /// The backend that evaluates positions; `auto` uses the fastest that runs on this machine. The name of a backend
    /// of lc0 selects `cuda` for `cudnn`, `rocm` for `hip`, `auto` for other graphics cards, and `cpu` for processors.
    backend: BackendChoice = BackendName::Auto,
        choice(BackendName::NAMES).or(|name| backend_in_place_of(name).is_some()).uci("Backend").short('b');
    /// Options of the backend, such as `threads=2` or `backend=cpu,(gpu=0),(gpu=1)`.
    backend_opts: String = "", text().uci("BackendOptions").short('o');
    /// Number of evaluations in the cache. Each takes about 100 bytes. If `Hash` or `RamLimitMb` is set, the cache
    /// takes at most a quarter of that memory. It takes at most half of the memory that the process can still get.
    nncache: u32 = 2_000_000u32, spin(0, 999_999_999).uci("NNCacheSize");
}
