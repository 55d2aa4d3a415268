//! The features of Rukh's search beyond lc0's: each can be switched on alone, and the classic search has none of them.

use crate::search::{KIWIPETE, MIDDLEGAME, Session, nodes, text};
use rukh_chess::Position;

/// The settings that switch on each feature that is off by default.
const FEATURES: [(&str, &str); 4] = [
    ("RootPolicyTemperature", "1.5"),
    ("UseGraphBackup", "true"),
    ("ValueWeightExponent", "0.25"),
    ("InFlightShare", "0.002"),
];

/// The root's value, and the visits of its moves.
fn searched(fen: &str, settings: &[(&str, &str)], count: u64) -> (f32, Vec<(u16, u32)>) {
    let settings: Vec<_> = settings.iter().copied().chain([("SmartPruningFactor", "0")]).collect();
    let mut session = Session::new(&settings);
    session.position(Some(fen), "");
    session.go(nodes(count));
    let tree = session.engine.finished_tree();
    tree.check_invariants().unwrap_or_else(|broken| panic!("{settings:?}: {broken}"));
    let root = tree.node(tree.root());
    let visits = tree.links(root).map(|(_, link)| (link.edge().packed_move().bits(), link.visits()));
    (root.sample().wl, visits.collect())
}

#[test]
fn each_feature_changes_the_search_and_leaves_a_sound_tree() {
    for fen in [KIWIPETE, MIDDLEGAME] {
        let mean_of_visits = ("ValueWeightExponent", "0");
        let plain = searched(fen, &[mean_of_visits], 3_000);
        for feature in FEATURES {
            let other = searched(fen, &[mean_of_visits, feature], 3_000);
            assert_ne!(plain.1, other.1, "{feature:?}");
            assert!((plain.0 - other.0).abs() < 0.3, "{feature:?}: {} and {}", plain.0, other.0);
        }
    }
}

#[test]
fn the_classic_search_ignores_all_features() {
    let plain = searched(KIWIPETE, &[("Search", "classic")], 3_000);
    let others = [("UseVarianceScaling", "true"), ("Search", "classic")];
    let on: Vec<_> = FEATURES.into_iter().chain(others).collect();
    assert_eq!(searched(KIWIPETE, &on, 3_000), plain);
}

#[test]
fn all_features_together_leave_sound_trees_on_several_threads_over_many_moves() {
    for threads in ["1", "4"] {
        let settings: Vec<_> = FEATURES.into_iter().chain([("Threads", threads)]).collect();
        let mut session = Session::new(&settings);
        let mut moves = String::new();
        for index in 0..8 {
            // A search can go on with a tree that was begun without the features.
            let search = if index % 4 == 3 { "classic" } else { "default" };
            session.engine.set_option("Search", search).unwrap();
            session.position(None, &moves);
            let (_, best) = session.go(nodes(2_000));
            let tree = session.engine.finished_tree();
            tree.check_invariants().unwrap_or_else(|broken| panic!("{threads} threads: {broken}"));
            moves = format!("{moves} {best}");
        }
    }
}

/// Without transpositions, the mean of the children's values is the mean of the visits.
#[test]
fn a_graph_backup_of_a_tree_is_the_mean_of_its_visits() {
    for fen in [KIWIPETE, MIDDLEGAME] {
        let tree = [("GraphSearch", "false"), ("StickyEndgames", "false"), ("ValueWeightExponent", "0")];
        let plain = searched(fen, &tree, 2_000);
        let other = searched(fen, &[&tree[..], &[("UseGraphBackup", "true")]].concat(), 2_000);
        assert!((plain.0 - other.0).abs() < 0.01, "{} and {}", plain.0, other.0);
        let most = |visits: &[(u16, u32)]| visits.iter().max_by_key(|(_, count)| *count).map(|(m, _)| *m);
        assert_eq!(most(&plain.1), most(&other.1));
    }
}

/// `(F(z) + 0.0001)^0.5`, where F is the distribution function of Student's t with 2 degrees of freedom, and z the
/// difference in units of `sqrt(1 / (1.5 sqrt(visits)))`.
fn value_weight(difference: f64, visits: f64) -> f64 {
    let z = difference * (1.5 * visits.sqrt()).sqrt();
    (0.5 + 0.5 * z / (2.0 + z * z).sqrt() + 0.0001).sqrt()
}

/// By default, a node's value is that of its own evaluation, which counts as one visit, and of its children, of which bad
/// ones weigh less.
#[test]
fn values_are_weighted_means_of_the_children() {
    let mut session =
        Session::new(&[("Threads", "1"), ("GraphSearch", "false"), ("StickyEndgames", "false")]);
    session.position(Some(KIWIPETE), "");
    session.go(nodes(3_000));
    let tree = session.engine.finished_tree();
    let (mut waiting, mut checked) = (vec![tree.root()], 0);
    while let Some(id) = waiting.pop() {
        let links = tree.links(tree.node(id)).filter(|(_, link)| link.visits() > 0);
        let children: Vec<_> =
            links.map(|(_, link)| (link.child().unwrap(), f64::from(link.visits()))).collect();
        waiting.extend(children.iter().map(|(child, _)| *child));
        let Some((own, _)) = tree.own_evaluation(id).get() else { continue };
        let values = || children.iter().map(|&(id, visits)| (-f64::from(tree.node(id).sample().wl), visits));
        let visits: f64 = values().map(|(_, visits)| visits).sum();
        if tree.node(id).is_terminal() || visits == 0.0 {
            continue;
        }
        let mean = values().map(|(wl, visits)| wl * visits).sum::<f64>() / visits;
        let weighted = values().map(|(wl, visits)| (wl, visits * value_weight(wl - mean, visits)));
        let (sum, weight) =
            weighted.fold((0.0, 0.0), |(sum, all), (wl, weight)| (sum + wl * weight, all + weight));
        let expected = (f64::from(own) + visits * sum / weight) / (1.0 + visits);
        let found = f64::from(tree.node(id).sample().wl);
        assert!((found - expected).abs() < 1e-5, "{found} and {expected}, {visits} visits below");
        checked += 1;
    }
    assert!(checked > 300, "only {checked} nodes were checked");
}

/// The move played with this `LowerBoundDeviation`, and the moves with their visits and values.
fn played(fen: &str, deviation: &str, count: u64) -> (String, Vec<(String, f32, f32)>) {
    let mut session = Session::new(&[("LowerBoundDeviation", deviation), ("SmartPruningFactor", "0")]);
    session.position(Some(fen), "");
    let (_, best) = session.go(nodes(count));
    let position = Position::from_fen(fen).expect("the FEN is valid");
    let tree = session.engine.finished_tree();
    let moves = tree.links(tree.node(tree.root())).filter(|(_, link)| link.visits() > 0).map(|(_, link)| {
        let child = link.child().expect("a visited link has a child");
        let m = link.edge().packed_move().unpack(&position);
        (text(Some(m)), link.visits() as f32, -tree.node(child).sample().wl)
    });
    (best, moves.collect())
}

#[test]
fn the_move_with_the_highest_lower_bound_is_played() {
    let mut differences = 0;
    for fen in [KIWIPETE, MIDDLEGAME] {
        for count in [50, 200, 800, 3_000] {
            let (most_visited, moves) = played(fen, "0", count);
            let most = moves.iter().map(|(_, visits, _)| *visits).fold(0.0, f32::max);
            assert!(
                moves.iter().any(|(m, visits, _)| *m == most_visited && *visits == most),
                "{fen}, {count} nodes"
            );
            let (best, moves) = played(fen, "1", count);
            let bound = |visits: f32, wl: f32| wl - 1.0 / visits.sqrt();
            let others = moves.iter().filter(|(_, visits, _)| *visits >= 0.15 * most);
            let highest = others.map(|&(_, visits, wl)| bound(visits, wl)).fold(f32::NEG_INFINITY, f32::max);
            assert!(
                moves.iter().any(|(m, visits, wl)| *m == best && bound(*visits, *wl) == highest),
                "{fen}, {count} nodes: {best} of {moves:?}"
            );
            differences += usize::from(best != most_visited);
        }
    }
    assert!(differences > 0, "the bound changes no move");
}
