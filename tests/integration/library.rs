//! The package `librukh`, as another program uses it.

use crate::goldens::{self, GoldenPosition};
use librukh::shakmaty_0_30::Move;
use librukh::{
    Engine, EngineOptions, Error, Evaluation, Evaluator, EvaluatorOptions, Limits, Network, Outcome,
    Position, Score,
};
use rukh_chess::uci_move;
use std::process::Command;
use std::time::{Duration, Instant};

fn position(fen: &str, moves: &[impl AsRef<str>]) -> Position {
    let mut position = Position::from_fen(fen).unwrap();
    moves.iter().for_each(|m| position.play(m.as_ref()).unwrap());
    position
}

/// The probabilities of lc0's logits, by moves in UCI's notation for Chess960.
fn probabilities(golden: &GoldenPosition) -> Vec<(String, f32)> {
    let largest = golden.policy_raw.iter().map(|(.., logit)| *logit).fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = golden.policy_raw.iter().map(|(.., logit)| (logit - largest).exp()).sum();
    let position = rukh_chess::Position::from_fen(&position(&golden.fen, &golden.moves).fen()).unwrap();
    let name = |text: &str| uci_move::text(uci_move::parse(&position, text).unwrap(), true);
    golden.policy_raw.iter().map(|(m, _, logit)| (name(m), (logit - largest).exp() / sum)).collect()
}

fn prior_of(evaluation: &Evaluation, uci: &str) -> f32 {
    let found = evaluation.priors.iter().find(|(m, _)| uci_move::text(*m, true) == uci);
    found.unwrap_or_else(|| panic!("{uci} has no prior")).1
}

#[test]
fn evaluations_are_those_of_lc0_with_the_moves_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for set in goldens::committed().into_iter().filter(|set| set.heads == Default::default()) {
        let path = folder.path().join(format!("{}.pb.gz", set.name));
        std::fs::write(&path, &set.network).unwrap();
        let evaluator = Evaluator::new(&Network::open(&path).unwrap(), &EvaluatorOptions::on("cpu")).unwrap();
        let positions: Vec<_> =
            set.positions.iter().map(|golden| position(&golden.fen, &golden.moves)).collect();
        for (golden, evaluation) in set.positions.iter().zip(evaluator.evaluate(&positions).unwrap()) {
            let what = format!("{} {}", set.name, golden.id);
            if golden.policy_raw.is_empty() {
                // lc0 was asked all the same.
                assert_eq!(evaluation.loss + evaluation.draw, 1.0, "{what}");
                continue;
            }
            let close = |name: &str, ours: f32, lc0s: f32, tolerance: f32| {
                assert!((ours - lc0s).abs() <= tolerance, "{what}: {name} {ours}, lc0's {lc0s}");
            };
            close("q", evaluation.q(), golden.q, 1e-4);
            close("draw", evaluation.draw, golden.d, 1e-4);
            close("the sum", evaluation.win + evaluation.draw + evaluation.loss, 1.0, 1e-5);
            assert_eq!(evaluation.moves_left.is_some(), set.has_moves_left, "{what}");
            close("moves left", evaluation.moves_left.unwrap_or(0.0), golden.m, 1e-2);
            assert_eq!(evaluation.priors.len(), golden.policy_raw.len(), "{what}");
            assert!(evaluation.priors.is_sorted_by(|a, b| a.1 >= b.1), "{what}");
            for (m, probability) in probabilities(golden) {
                close(&m, prior_of(&evaluation, &m), probability, 1e-4);
            }
            compared += 1;
        }
    }
    assert!(compared > 500, "only {compared} positions were compared");
}

/// More positions than fit into a batch, some of them without a move, from several threads.
#[test]
fn threads_share_an_evaluator_and_results_keep_their_order() {
    let folder = goldens::data_directory();
    let network = Network::open(folder.join("micro-attn.pb.gz")).unwrap();
    let evaluator = Evaluator::new(&network, &EvaluatorOptions::on("cpu")).unwrap();
    let mate = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3";
    let stalemate = "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1";
    let mut positions = vec![position(mate, &[""; 0]), position(stalemate, &[""; 0])];
    let mut game = Position::start();
    for ply in 0..300 {
        let moves = game.legal_moves();
        let Some(&m) = moves.get(ply * 7 % moves.len().max(1)) else { break };
        game.play_move(m).unwrap();
        positions.push(game.clone());
    }
    positions.extend_from_within(..);
    positions.extend_from_within(..);
    assert!(positions.len() > 600, "{}", positions.len());
    let together = evaluator.evaluate(&positions).unwrap();
    assert_eq!((together[0].loss, together[0].priors.len()), (1.0, 0));
    assert_eq!((together[1].draw, together[1].priors.len()), (1.0, 0));
    assert_eq!(positions[0].outcome(), Some(Outcome::Checkmate));
    std::thread::scope(|scope| {
        for nth in 0..3 {
            let (evaluator, positions, together) = (&evaluator, &positions, &together);
            scope.spawn(move || {
                for (position, expected) in positions.iter().zip(together).skip(nth).step_by(41) {
                    let alone = evaluator.submit(std::slice::from_ref(position)).wait().unwrap();
                    assert!((alone[0].win - expected.win).abs() < 1e-5, "{position}");
                    assert_eq!(alone[0].priors.first().map(|p| p.0), expected.priors.first().map(|p| p.0));
                }
            });
        }
    });
    assert!(evaluator.evaluate(&[]).unwrap().is_empty());
}

#[test]
fn a_search_finds_the_mate_and_tells_its_lines() {
    let network = Network::embedded().unwrap();
    let mut engine = Engine::new(&network, &EngineOptions::on("cpu").with("MultiPV", "2")).unwrap();
    let mate_in_one = position("6k1/5ppp/8/8/8/8/8/R3K2R w KQ - 0 1", &[""; 0]);
    let mut analysis = engine.analyse(&mate_in_one, &Limits::nodes(200));
    let infos: Vec<_> = analysis.by_ref().collect();
    let best = analysis.best_move().unwrap().unwrap();
    assert_eq!(uci_move::text(best, true), "a1a8");
    let last = infos.iter().rev().find(|info| info.rank == 1).unwrap();
    assert_eq!((last.score, last.line.first()), (Some(Score::Mate(1)), Some(&best)));
    assert!(infos.iter().any(|info| info.rank == 2), "{infos:?}");

    let mut limits = Limits::nodes(50);
    limits.moves = mate_in_one.legal_moves().into_iter().filter(|&m| m != best).take(1).collect();
    let only = engine.analyse(&mate_in_one, &limits).best_move().unwrap();
    assert_eq!(only.as_ref(), limits.moves.first());

    let elsewhere = Position::start().legal_moves();
    limits.moves = elsewhere[..1].to_vec();
    assert!(matches!(engine.analyse(&mate_in_one, &limits).best_move(), Err(Error::Move(_))));

    let ended = position("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", &[""; 0]);
    assert_eq!(engine.analyse(&ended, &Limits::default()).stopper().stop(), ());
    assert_eq!(engine.analyse(&ended, &Limits::nodes(1)).best_move().unwrap(), None::<Move>);
}

#[test]
fn any_thread_stops_a_search_and_the_next_begins_with_its_tree() {
    let network = Network::embedded().unwrap();
    let mut engine = Engine::new(&network, &EngineOptions::on("cpu")).unwrap();
    let mut game = Position::start();
    let mut analysis = engine.analyse(&game, &Limits::default());
    let stopper = analysis.stopper();
    let begin = Instant::now();
    let found =
        analysis.by_ref().find(|info| info.nodes >= 30).expect("an endless search tells what it finds");
    std::thread::spawn(move || stopper.stop()).join().unwrap();
    let best = analysis.best_move().unwrap().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(60));
    // A search that is dropped stops too, and the stopper of an old search does not stop a new one.
    drop(engine.analyse(&game, &Limits::default()));
    let old = engine.analyse(&game, &Limits::nodes(1)).stopper();
    let analysis = engine.analyse(&game, &Limits::nodes(found.nodes + 100));
    old.stop();
    let nodes = analysis.map(|info| info.nodes).max().unwrap();
    assert!(nodes >= found.nodes + 100, "{nodes}");
    game.play_move(best).unwrap();
    let kept = engine.analyse(&game, &Limits::nodes(1)).map(|info| info.nodes).max().unwrap();
    assert!(kept > 1, "{kept}");
    engine.new_game();
    let kept = engine.analyse(&game, &Limits::nodes(1)).map(|info| info.nodes).max().unwrap();
    assert_eq!(kept, 1);
}

/// A move that is chosen without its evaluation must not be taken for the network's.
#[test]
fn an_evaluation_that_fails_is_the_error_of_the_search() {
    let network = Network::embedded().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let engine = |what: &str| {
        let file = folder.path().join("recording");
        let options = EngineOptions::on("recordreplay")
            .with("BackendOptions", &format!("{what}={}", file.display()))
            .with("NNCacheSize", "0");
        Engine::new(&network, &options).unwrap()
    };
    let start = Position::start();
    assert!(engine("record_file").analyse(&start, &Limits::nodes(3)).best_move().is_ok());
    let mut engine = engine("replay_file");
    assert!(engine.analyse(&start, &Limits::nodes(3)).best_move().is_ok());
    // No more than these positions were recorded.
    let found = engine.analyse(&start, &Limits::nodes(300)).best_move();
    assert!(matches!(&found, Err(Error::Search(reason)) if reason.contains("recording")), "{found:?}");
}

#[test]
fn notices_say_what_the_preparation_found() {
    let network = Network::embedded().unwrap();
    let mut options = EvaluatorOptions::on("cpu");
    options.backend_options = "alt_mish=true".to_owned();
    let notices = Evaluator::new(&network, &options).unwrap().notices().join(" ");
    assert!(notices.contains("passed over: alt_mish"), "{notices}");
}

#[test]
fn what_is_wrong_is_an_error_of_its_kind() {
    let network = Network::embedded().unwrap();
    let evaluator = |options: &EvaluatorOptions| Evaluator::new(&network, options).unwrap_err();
    assert!(matches!(evaluator(&EvaluatorOptions::on("quantum")), Error::UnknownBackend { .. }));
    let mut options = EvaluatorOptions::on("cpu");
    options.backend_options = "threads=many".to_owned();
    assert!(matches!(evaluator(&options), Error::Option(_)));
    let missing = Network::open("no-such-network.pb.gz").unwrap_err();
    assert!(matches!(&missing, Error::Network { path, .. } if path.ends_with("no-such-network.pb.gz")));
    assert!(matches!(Network::open("Cargo.toml"), Err(Error::Network { .. })));
    assert!(matches!(Position::from_fen("8/8/8/8/8/8/8/8 w - - 0 1"), Err(Error::Fen(_))));
    let mut game = Position::start();
    assert!(matches!(game.play("e2e5"), Err(Error::Move(_))));
    assert_eq!(game.fen(), Position::start().fen());
    let engine = |options: EngineOptions| Engine::new(&network, &options).unwrap_err();
    assert!(matches!(engine(EngineOptions::on("cpu").with("NoSuchOption", "1")), Error::Option(_)));
    assert!(matches!(engine(EngineOptions::on("quantum")), Error::Option(_) | Error::UnknownBackend { .. }));
}

/// What a program with the library alone depends on.
fn dependencies(features: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--package=librukh",
            "--edges=normal",
            "--prefix=none",
            "--no-default-features",
        ])
        .arg(format!("--features={features}"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<_> =
        text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn nothing_is_in_the_library_that_nobody_asked_for() {
    let small = dependencies("");
    assert!((20..=56).contains(&small.len()), "{} packages: {small:?}", small.len());
    for features in ["", "engine", "embedded,engine"] {
        let names = dependencies(features);
        for unwanted in
            ["clap", "ctrlc", "indicatif", "rukh", "rukh-gpu", "rukh-hip-runtime-sys", "csv", "serde_json"]
        {
            assert!(!names.iter().any(|name| name == unwanted), "{unwanted} with the features {features:?}");
        }
    }
    assert!(!small.iter().any(|name| name == "rukh-search"), "{small:?}");
    assert!(dependencies("gpu").iter().any(|name| name == "rukh-gpu"));
}
