//! Tests of every row of the table.

use super::listing::Extras;
use super::*;
use std::collections::HashSet;

/// The options that lc0 lists after `uci` with `--show-hidden`.
const LC0_UCI_NAMES: &str = "\
    LogFile ConfigFile Ponder SyzygyPath StrictTiming Threads MinibatchSize CPuct CPuctAtRoot CPuctBase \
    CPuctBaseAtRoot CPuctFactor CPuctFactorAtRoot RootHasOwnCpuctParams TwoFoldDraws Temperature \
    TempDecayMoves TempDecayDelayMoves TempCutoffMove TempEndgame TempValueCutoff TempVisitOffset \
    DirichletNoiseEpsilon DirichletNoiseAlpha VerboseMoveStats LogLiveStats FpuStrategy FpuValue \
    FpuStrategyAtRoot FpuValueAtRoot CacheHistoryLength MaxCollisionEvents MaxCollisionVisits \
    MaxCollisionVisitsScalingStart MaxCollisionVisitsScalingEnd MaxCollisionVisitsScalingPower \
    OutOfOrderEval MaxOutOfOrderEvalsFactor StickyEndgames SyzygyFastPlay MultiPV PerPVCounters \
    ScoreType MovesLeftMaxEffect MovesLeftThreshold MovesLeftSlope MovesLeftConstantFactor \
    MovesLeftScaledFactor MovesLeftQuadraticFactor MaxConcurrentSearchers DrawScore ContemptMode \
    Contempt ContemptMaxValue WDLCalibrationElo WDLContemptAttenuation WDLMaxS WDLEvalObjectivity \
    WDLDrawRateTarget WDLDrawRateReference WDLBookExitBias NodesPerSecondLimit TaskWorkers \
    MinimumProcessingWork MinimumPickingWork MinimumRemainingPickingWork MinimumPerTaskProcessing \
    IdlingMinimumWork ThreadIdlingThreshold UCI_Opponent UCI_RatingAdv SearchSpinBackoff \
    GarbageCollectionDelay MaxPrefetch SolidTreeThreshold KLDGainAverageInterval MinimumKLDGainPerNode \
    SmartPruningFactor SmartPruningMinimumBatches NodesAsPlayouts RamLimitMb MoveOverheadMs TimeManager \
    ClearTree UCI_Chess960 UCI_ShowWDL UCI_ShowEPS UCI_ShowMovesLeft PolicyTemperature HistoryFill \
    WeightsFile Backend BackendOptions NNCacheSize";

/// The options that lc0 does not have.
const OWN_UCI_NAMES: &str = "UCI_LimitStrength UCI_Elo NodesPerMove \
    GraphSearch MoveRuleBucketSize PolicyOptimism UseUncertaintyWeighting UncertaintyWeightingCap \
    UncertaintyWeightingCoefficient UncertaintyWeightingExponent UseCpuctUncertainty CpuctUncertaintyMinFactor \
    CpuctUncertaintyMaxFactor CpuctUncertaintyMinUncertainty CpuctUncertaintyMaxUncertainty \
    UseVarianceScaling CpuctUtilityStdevPrior CpuctUtilityStdevPriorWeight CpuctUtilityStdevScale Search \
    RootPolicyTemperature UseGraphBackup ValueWeightExponent LowerBoundDeviation LowerBoundLeastVisits \
    InFlightShare PrefetchByVisits Hash";

#[test]
fn has_every_name_of_lc0_once_and_its_own() {
    let mut ours: Vec<_> = TABLE.iter().filter_map(|spec| spec.uci_name).collect();
    let mut theirs: Vec<_> = LC0_UCI_NAMES.split_whitespace().collect();
    assert_eq!(theirs.len(), 94);
    theirs.extend(OWN_UCI_NAMES.split_whitespace());
    ours.sort_unstable();
    theirs.sort_unstable();
    assert_eq!(ours, theirs);
}

#[test]
fn names_are_unique() {
    let mut seen = HashSet::new();
    for spec in TABLE {
        let long = [spec.uci_name.map(str::to_lowercase), spec.flag().map(|flag| format!("--{flag}"))];
        let short = spec.short.map(|short| format!("-{short}"));
        for name in long.into_iter().chain([short]).flatten() {
            assert!(seen.insert(name.clone()), "{name} occurs twice");
        }
    }
}

#[test]
fn every_option_has_a_name_and_a_help_text() {
    for spec in TABLE {
        assert!(spec.uci_name.is_some() || spec.has_flag, "{} has no name", spec.field);
        let help = spec.help();
        assert!(
            help.ends_with('.') && !help.contains("  ") && !help.contains('|'),
            "{}: {help:?}",
            spec.field
        );
    }
}

/// Catches a default that is out of range, and a row whose kind does not fit the type of its field.
#[test]
fn defaults_can_be_written_and_read_back() {
    for spec in TABLE {
        let defaults = Options::default();
        let mut options = defaults.clone();
        let text = spec.value(&defaults).to_string();
        options.assign(spec, &text).unwrap_or_else(|error| panic!("{}: {error}", spec.field));
        if spec.kind != Kind::Button {
            assert_eq!(options, defaults, "{}", spec.field);
        }
    }
}

/// Catches a range that is wider than the field's type.
#[test]
fn exactly_the_values_of_a_range_can_be_set() {
    for spec in TABLE {
        let mut options = Options::default();
        if let Kind::Spin { min, max } = spec.kind {
            for value in [min, max] {
                options.assign(spec, &value.to_string()).unwrap();
                assert_eq!(spec.value(&options), Setting::Spin(value), "{}", spec.field);
            }
            options.assign(spec, &(min - 1).to_string()).unwrap_err();
            options.assign(spec, &(max + 1).to_string()).unwrap_err();
        }
        if let Kind::Float { min, max } = spec.kind {
            for value in [min, max] {
                options.assign(spec, &value.to_string()).unwrap();
                assert_eq!(spec.value(&options), Setting::Float(value), "{}", spec.field);
            }
            for value in [min.next_down(), max.next_up()] {
                options.assign(spec, &value.to_string()).unwrap_err();
            }
            for text in ["nan", "inf", "-inf", "", "1,5", "1.5x"] {
                options.assign(spec, text).unwrap_err();
            }
        }
        if let Kind::Choice(words) = spec.kind {
            for word in words {
                options.assign(spec, &word.to_uppercase()).unwrap();
                assert_eq!(spec.value(&options).to_string(), *word, "{}", spec.field);
            }
            options.assign(spec, "no such word").unwrap_err();
        }
    }
}

#[test]
fn sets_by_uci_name_in_any_case() {
    let mut options = Options::default();
    options.set("multipv", "3").unwrap();
    options.set("UCI_CHESS960", "True").unwrap();
    options.set("WeightsFile", "/a b/net.pb.gz").unwrap();
    options.set("SyzygyPath", "<empty>").unwrap();
    assert_eq!((options.multipv, options.chess960), (3, true));
    assert_eq!((options.weights.as_str(), options.syzygy_paths.as_str()), ("/a b/net.pb.gz", ""));
}

#[test]
fn of_hash_and_ram_limit_the_last_one_counts() {
    let mut options = Options::default();
    for (name, value, limits) in [
        ("RamLimitMb", "300", (0, 300)),
        ("Hash", "64", (64, 0)),
        ("RamLimitMb", "0", (64, 0)),
        ("RamLimitMb", "500", (0, 500)),
        ("hash", "0", (0, 500)),
        ("RamLimitMb", "0", (0, 0)),
    ] {
        options.set(name, value).unwrap();
        assert_eq!((options.hash, options.ramlimit_mb), limits, "after {name}={value}");
    }
    options.set("Hash", "64").unwrap();
    options.set("RamLimitMb", "-1").unwrap_err();
    assert_eq!(options.hash, 64);
}

#[test]
fn a_button_counts_its_presses() {
    let mut options = Options::default();
    options.set("ClearTree", "").unwrap();
    options.set("cleartree", "whatever").unwrap();
    assert_eq!(options.clear_tree, Presses(2));
}

#[test]
fn errors_say_what_was_expected() {
    let mut options = Options::default();
    let mut error = |name, value| options.set(name, value).unwrap_err().to_string();
    assert_eq!(error("Threads", "129"), "option Threads: `129` is not a whole number from 0 to 128");
    assert_eq!(error("CPuct", "-1"), "option CPuct: `-1` is not a number from 0 to 100");
    assert_eq!(error("Ponder", "yes"), "option Ponder: `yes` is not `true` or `false`");
    assert_eq!(error("FpuStrategy", ""), "option FpuStrategy: `` is not one of reduction, absolute");
    assert_eq!(
        error("NodesPerSecondLimits", "1"),
        "unknown option `NodesPerSecondLimits`; did you mean NodesPerSecondLimit?"
    );
    assert_eq!(options, Options::default());
}

#[test]
fn uci_lines_are_lc0s() {
    let lines = listing::uci_lines(&Options::default(), Extras { hidden: true, ..Extras::default() });
    for line in [
        "option name LogFile type string default ",
        "option name Ponder type check default false",
        "option name Threads type spin default 0 min 0 max 128",
        "option name CPuct type string default 1.745000",
        "option name MovesLeftSlope type string default 0.002700",
        "option name FpuStrategyAtRoot type combo default same var reduction var absolute var same",
        "option name ClearTree type button",
        "option name PolicyTemperature type string default 1.359000",
        "option name NNCacheSize type spin default 2000000 min 0 max 999999999",
    ] {
        assert!(lines.iter().any(|ours| ours == line), "no `{line}`");
    }
    assert_eq!(lines.len(), 122);
    // 26 of lc0's are hidden.
    assert_eq!(listing::uci_lines(&Options::default(), Extras::default()).len(), 73);
}

#[test]
fn uci_lists_first_what_most_people_set() {
    let lines = listing::uci_lines(&Options::default(), Extras::default());
    let names: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').nth(2)).collect();
    let first = ["WeightsFile", "Backend", "BackendOptions", "Threads", "Hash", "MultiPV", "SyzygyPath"];
    assert_eq!(names[..first.len()], first);
}
