//! Network files: what loads and what it becomes, what is refused and how.

use rukh::net::Network;

use crate::goldens;

#[test]
fn every_golden_network_loads_with_its_heads() {
    for set in goldens::committed().into_iter().chain(goldens::shared()) {
        let network = Network::load_bytes(&set.network, &set.heads).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            network.architecture.input_format as i32, set.input_format,
            "{}",
            set.name
        );
        assert_eq!(network.architecture.wdl, set.has_wdl, "{}", set.name);
        assert_eq!(
            network.architecture.moves_left, set.has_moves_left,
            "{}",
            set.name
        );
        assert_eq!(network.moves_left.is_some(), set.has_moves_left, "{}", set.name);
        assert!(set.positions.len() >= 29, "{}", set.name);
    }
}

#[test]
fn golden_figures_are_possible() {
    for set in goldens::committed() {
        for position in &set.positions {
            let id = format!(
                "{} {} ({} + {:?})",
                set.name, position.id, position.fen, position.moves
            );
            assert!(position.q.abs() <= 1.0, "{id}: q {}", position.q);
            assert!(
                (0.0..=1.0).contains(&position.d) && (set.has_wdl || position.d == 0.0),
                "{id}: d"
            );
            assert!(
                position.m >= 0.0 && (set.has_moves_left || position.m == 0.0),
                "{id}: m"
            );
            assert_eq!(position.fen.split(' ').count(), 6, "{id}");
            for (r#move, index, logit) in &position.policy_raw {
                assert!(
                    usize::from(*index) < 1858 && logit.is_finite(),
                    "{id}: {move} {index} {logit}"
                );
            }
        }
        assert!(
            set.positions.iter().any(|position| position.chess960),
            "{} has no Chess960",
            set.name
        );
    }
}
