//! Uncertainty: visits weighted by the expected error of their values, and cpuct scaled by that error or by the
//! variance of values.

use crate::goldens::{edited_weights, network_file};
use crate::search::{KIWIPETE, MIDDLEGAME, Session, nodes};
use rukh_backend::wrap::{CheckBackend, CheckOptions};
use rukh_backend::{Backend, EvalRequest};
use rukh_chess::{Position, PositionHistory};
use rukh_cpu::{CpuBackend, CpuNetwork, CpuOptions, InstructionSet, Precision, reference};
use rukh_engine::Engine;
use rukh_net::input::encode;
use rukh_net::network::ValueError;
use rukh_net::{HeadSelection, HistoryFill, Network};
use rukh_registry::{self, BackendConfig};
use std::sync::Arc;

/// The options that switch on the features tested here.
const SWITCHES: [&str; 3] = ["UseUncertaintyWeighting", "UseCpuctUncertainty", "UseVarianceScaling"];

/// The result of a search: the root's value, and the visits of its moves.
#[derive(Debug)]
struct Searched {
    wl: f32,
    /// Each root move (the bits of its `PackedMove`) and its visits.
    visits: Vec<(u16, u32)>,
}

fn summary(engine: &mut Engine) -> Searched {
    let tree = engine.finished_tree();
    tree.check_invariants().unwrap_or_else(|broken| panic!("{broken}"));
    let root = tree.node(tree.root());
    let visits =
        tree.links(root).map(|(_, link)| (link.edge().packed_move().bits(), link.visits())).collect();
    Searched { wl: root.sample().wl, visits }
}

fn searched(fen: &str, settings: &[(&str, &str)], count: u64) -> Searched {
    let settings: Vec<_> = settings.iter().copied().chain([("SmartPruningFactor", "0")]).collect();
    let mut session = Session::new(&settings);
    session.position(Some(fen), "");
    session.go(nodes(count));
    summary(&mut session.engine)
}

#[test]
fn each_switch_changes_the_search_and_leaves_a_sound_tree() {
    for fen in [KIWIPETE, MIDDLEGAME] {
        // With random evaluations, weighted values scatter too much for this comparison.
        let mean_of_visits = ("ValueWeightExponent", "0");
        let plain = searched(fen, &[mean_of_visits], 5_000);
        for switch in SWITCHES {
            let other = searched(fen, &[mean_of_visits, (switch, "true")], 5_000);
            assert_ne!(plain.visits, other.visits, "{switch}");
            assert!((plain.wl - other.wl).abs() < 0.2, "{switch}: {} and {}", plain.wl, other.wl);
        }
    }
}

#[test]
fn all_switches_together_leave_sound_trees_on_several_threads_over_many_moves() {
    let on: Vec<_> = SWITCHES.iter().map(|&switch| (switch, "true")).collect();
    for threads in ["1", "4"] {
        let settings: Vec<_> = on.iter().copied().chain([("Threads", threads)]).collect();
        let mut session = Session::new(&settings);
        let mut moves = String::new();
        for _ in 0..12 {
            session.position(None, &moves);
            let (_, best) = session.go(nodes(3_000));
            summary(&mut session.engine);
            moves = format!("{moves} {best}");
        }
        // A search can go on with a tree that was begun with other switches.
        session.engine.new_game();
        for value in ["false", "true", "false"] {
            for switch in SWITCHES {
                session.engine.set_option(switch, value).unwrap();
            }
            session.position(None, &moves);
            let (_, best) = session.go(nodes(4_000));
            summary(&mut session.engine);
            moves = format!("{moves} {best}");
        }
    }
}

/// Each of these settings switches a feature on and takes away its effect.
#[test]
fn neutral_settings_change_nothing() {
    let neutral: [&[(&str, &str)]; 3] = [
        // All visits have the same weight, 0.5.
        &[
            ("UseUncertaintyWeighting", "true"),
            ("UncertaintyWeightingExponent", "0"),
            ("UncertaintyWeightingCoefficient", "0.5"),
            ("UncertaintyWeightingCap", "0.5"),
        ],
        &[
            ("UseCpuctUncertainty", "true"),
            ("CpuctUncertaintyMinFactor", "1"),
            ("CpuctUncertaintyMaxFactor", "1"),
        ],
        &[("UseVarianceScaling", "true"), ("CpuctUtilityStdevScale", "0")],
    ];
    for fen in [KIWIPETE, MIDDLEGAME] {
        // The weights of children by their values depend on the weights of visits.
        let mean_of_visits = ("ValueWeightExponent", "0");
        let plain = searched(fen, &[mean_of_visits], 2_000);
        for settings in neutral {
            let other = searched(fen, &[settings, &[mean_of_visits]].concat(), 2_000);
            assert_eq!(plain.visits, other.visits, "{settings:?}");
            assert!((plain.wl - other.wl).abs() < 1e-5, "{settings:?}: {} and {}", plain.wl, other.wl);
        }
    }
}

#[test]
fn proven_results_stay_exact_whatever_the_visits_weigh() {
    let on = SWITCHES.iter().map(|&switch| (switch, "true"));
    let on: Vec<_> = on.chain([("SmartPruningFactor", "0")]).collect();
    for fen in ["7k/8/8/8/8/8/R7/1R5K w - - 0 1", "k7/8/1K6/8/8/8/8/7R b - - 0 1"] {
        let mut session = Session::new(&on);
        session.position(Some(fen), "");
        let (info, _) = session.go(nodes(60_000));
        assert!(matches!(info.score, Some(rukh_search::Score::Mate(_))), "{fen}: {:?}", info.score);
        summary(&mut session.engine);
    }
}

/// micro-multihead with an output for the value's error on the value head `st`. As in lc0, this output reads the head's
/// hidden layer; the error output in the committed file has the wrong size for that. The weights are copied from the
/// head's first output, the probability of a win.
pub(crate) fn with_value_error() -> Vec<u8> {
    edited_weights("micro-multihead", |weights| {
        let st = weights.value_heads.as_mut().and_then(|value_heads| value_heads.st.as_mut());
        let st = st.expect("micro-multihead has the value head st");
        let outputs = st.ip2_val_w.as_ref().expect("the head has an output layer");
        let mut first = outputs.clone();
        first.params = outputs.params.slice(..outputs.params.len() / 3);
        st.ip_val_err_w = Some(first);
    })
}

#[test]
fn the_value_error_is_the_output_of_its_head() {
    let heads = HeadSelection { value_error: true, value: "st".into(), ..HeadSelection::default() };
    let network = Network::load_bytes(&with_value_error(), &heads).expect("the network loads");
    let packed = CpuNetwork::new(network.clone(), Precision::Fp32, InstructionSet::best());
    let error = network.value_error.as_ref().expect("the error head was requested");
    let ValueError::ValueHead { output } = error else { panic!("the error is an output of `st`: {error:?}") };
    assert_eq!(output.weights, network.value.output.weights[..output.inputs]);
    let mut seen = Vec::new();
    for fen in [KIWIPETE, MIDDLEGAME, "7k/8/8/8/8/8/R7/1R5K w - - 0 1"] {
        let history = PositionHistory::new(Position::from_fen(fen).expect(fen));
        let (planes, _) = encode(&history, network.architecture.input_format, HistoryFill::FenOnly);
        let expected = reference::evaluate(&network, &planes).e;
        let found = packed.evaluate_raw(std::slice::from_ref(&planes)).remove(0).e;
        assert!((found - expected).abs() < 1e-5 && found > 0.0 && found < 1.0, "{found} {expected}");
        seen.push(found);
    }
    assert!(seen[0] != seen[1] && seen[1] != seen[2], "{seen:?}");
}

#[test]
fn the_value_error_head_is_loaded_on_request_and_only_if_it_exists() {
    let load = |bytes: &[u8], value_error| {
        let heads = HeadSelection { value_error, ..HeadSelection::default() };
        Network::load_bytes(bytes, &heads).map(|network| network.value_error.is_some())
    };
    assert!(!load(&with_value_error(), false).expect("the network loads"));
    assert!(load(&with_value_error(), true).expect("the network loads"));
    assert!(!load(&network_file("micro-attn"), true).expect("the network loads"));
    // The error head in the committed file has the wrong size.
    let error = load(&network_file("micro-multihead"), true).expect_err("the sizes do not fit").to_string();
    assert!(error.ends_with("value_heads.st.ip_val_err_w has 16 values, expected 1 x 128 = 128"), "{error}");
}

#[test]
fn check_compares_value_errors_if_both_backends_give_them() {
    let heads = HeadSelection { value_error: true, ..HeadSelection::default() };
    let network = Network::load_bytes(&with_value_error(), &heads).expect("the network loads");
    let mut other = network.clone();
    let head = other.value_error.as_mut().expect("the error head was requested");
    head.output_mut().biases[0] += 0.01;
    let mut none = network.clone();
    none.value_error = None;
    let history = PositionHistory::new(Position::from_fen(KIWIPETE).expect(KIWIPETE));
    for (reference, failures) in [(network.clone(), 0), (other, 1), (none, 0)] {
        let cpu = |network: &Network| {
            let options = CpuOptions::default();
            CpuBackend::new(Arc::new(network.clone()), Precision::Fp32, &options, 1.0, HistoryFill::FenOnly)
                .unwrap_or_else(|error| panic!("{error}"))
        };
        let options = CheckOptions { frequency: 1.0, ..CheckOptions::default() };
        let (work, reference) = (Arc::new(cpu(&network)), Arc::new(cpu(&reference)));
        let check = CheckBackend::with_sink(work, reference, options, Box::new(|_| ()));
        let mut batch = check.new_batch();
        batch.add(EvalRequest { history: &history, moves: &[] });
        batch.submit().wait().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(check.totals(), (1, failures));
    }
}

#[test]
fn the_user_is_told_that_the_network_gives_no_value_error() {
    let notices = |value_error| {
        let created = rukh_registry::create(&BackendConfig {
            backend: "cpu".to_owned(),
            network: format!("{}/tests/data/micro-attn.pb.gz", env!("CARGO_MANIFEST_DIR")),
            cache_entries: 0,
            value_error,
            ..BackendConfig::default()
        });
        created.unwrap_or_else(|error| panic!("{error}")).notices
    };
    assert_eq!(notices(false), Vec::<String>::new());
    let told = notices(true);
    assert!(told.len() == 1 && told[0].contains("does not estimate the error of its values"), "{told:?}");
}
