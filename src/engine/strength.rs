//! What one `go` may use: limits it to what `UCI_LimitStrength` and `NodesPerMove` allow.
//!
//! A weakened search is one of a few nodes. Its move is drawn at random, with a probability proportional to
//! `visits^(1 / temperature)`, among the moves that lose no more than the level allows. As the number of nodes decides and
//! not the time, a level is equally strong on slow and fast machines and at any time control.
//!
//! Its errors are those of a player who sees the usual moves and does not look far. A move without a visit is not played.
//! The more certain a win is, the less may be given away. With few pieces on the board the best move is played.

use rukh_options::{Options, SearchName};
use rukh_search::limits::GoParams;

/// How a level plays.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Level {
    /// `UCI_Elo`.
    elo: f32,
    /// Visits of the root.
    nodes: f32,
    /// `Temperature`.
    temperature: f32,
    /// `RootPolicyTemperature`.
    policy_temperature: f32,
    /// `TempValueCutoff`: by how many percentage points of winning chances a move may be worse than the most visited one.
    value_cutoff: f32,
}

impl Level {
    /// The level's way to play where nothing is left to chance.
    fn without_chance(self) -> Level {
        let nodes = self.nodes.max(NODES_WITH_FEW_PIECES);
        Level { nodes, temperature: 0.0, policy_temperature: 1.0, ..self }
    }

    /// The options of a search at this level.
    fn applied(self, options: &Options) -> Options {
        Options {
            search: SearchName::Default,
            // A batch of several leaves has other leaves than one after another, and its size depends on the backend.
            threads: 1,
            minibatch_size: 1,
            smart_pruning_factor: 0.0,
            nodes_as_playouts: false,
            noise_epsilon: 0.0,
            temperature: self.temperature,
            tempdecay_moves: 0,
            temp_cutoff_move: 0,
            temp_value_cutoff: self.value_cutoff,
            temp_visit_offset: 0.0,
            root_policy_temperature: self.policy_temperature,
            ..options.clone()
        }
    }
}

/// The levels, the weakest first. The rows from the second on were rated with the embedded network's first edition
/// against Stockfish 16 (`scripts/matches/levels.py`). Their ratings were then raised by 64 (the weakest) to 32 (the
/// strongest) for the second edition, and by 0 (up to 1753) to 40 (from 2181 on) for the third: each time after 600 games
/// in all against the edition before, at the same levels. (The third's strong levels gained 49 and 58, in 200 games each;
/// they were raised by only 40, because 1,000 games at 100 visits gave 42.) The first row is extrapolated from the next two.
#[rustfmt::skip]
const LEVELS: [Level; 11] = [
    Level { elo: 1465.0, nodes: 12.0, temperature: 3.65, policy_temperature: 5.85, value_cutoff: 76.0 },
    Level { elo: 1554.0, nodes: 12.0, temperature: 3.0, policy_temperature: 4.8, value_cutoff: 70.0 },
    Level { elo: 1637.0, nodes: 12.0, temperature: 2.38, policy_temperature: 3.8, value_cutoff: 64.0 },
    Level { elo: 1753.0, nodes: 12.0, temperature: 2.2, policy_temperature: 3.45, value_cutoff: 61.0 },
    Level { elo: 1860.0, nodes: 12.0, temperature: 1.88, policy_temperature: 2.85, value_cutoff: 55.5 },
    Level { elo: 2035.0, nodes: 12.0, temperature: 1.4, policy_temperature: 2.2, value_cutoff: 46.0 },
    Level { elo: 2181.0, nodes: 13.0, temperature: 1.1, policy_temperature: 1.8, value_cutoff: 40.0 },
    Level { elo: 2273.0, nodes: 15.0, temperature: 0.9, policy_temperature: 1.4, value_cutoff: 30.0 },
    Level { elo: 2433.0, nodes: 18.0, temperature: 0.75, policy_temperature: 1.1, value_cutoff: 22.0 },
    Level { elo: 2555.0, nodes: 34.0, temperature: 0.5, policy_temperature: 1.0, value_cutoff: 13.0 },
    Level { elo: 2642.0, nodes: 60.0, temperature: 0.37, policy_temperature: 1.0, value_cutoff: 9.0 },
];

/// The options and limits of one search.
pub(super) struct Plan {
    pub(super) options: Options,
    pub(super) go: GoParams,
    /// The nodes that the options allow; `None` means any number. A tree with more
    /// nodes is discarded, because the search would play too strongly.
    pub(super) allowed_nodes: Option<u64>,
    /// Whether `UCI_LimitStrength` weakens the search.
    pub(super) is_weakened: bool,
}

/// With at most so many pieces on the board no move is left to chance: one careless move would give a won ending away, and
/// another would not bring the end nearer.
const FEW_PIECES: usize = 7;

/// The least nodes of a weakened search with few pieces.
const NODES_WITH_FEW_PIECES: f32 = 60.0;

impl Plan {
    /// What a `go` with these `options` means in a position with so many `pieces`, kings and pawns included.
    pub(super) fn new(options: &Options, go: &GoParams, pieces: usize) -> Plan {
        let is_analysis = go.infinite || go.mate.is_some() || options.multipv > 1;
        let level = (options.limit_strength && !is_analysis).then(|| match level(options.elo as f32) {
            level if pieces <= FEW_PIECES => level.without_chance(),
            level => level,
        });
        let nodes_per_move = Some(options.nodes_per_move.into()).filter(|&nodes: &u64| nodes > 0);
        // A level judges the moves that it draws from by their visits. With fewer nodes than it was measured with, it would
        // play nearly at random, as with a Maia network at one node.
        let level =
            level.filter(|level| nodes_per_move.is_none_or(|nodes| nodes >= level.nodes.round() as u64));
        let nodes_of_level = level.map(|level| level.nodes.round() as u64);
        let allowed_nodes = nodes_per_move.into_iter().chain(nodes_of_level).min();
        let nodes = go.nodes.into_iter().chain(allowed_nodes).min();
        Plan {
            options: level.map_or_else(|| options.clone(), |level| level.applied(options)),
            go: GoParams { nodes, ..go.clone() },
            allowed_nodes,
            is_weakened: level.is_some(),
        }
    }
}

/// The level of a rating: between the rows of [`LEVELS`], each of its figures changes in proportion.
fn level(elo: f32) -> Level {
    let after = LEVELS.partition_point(|level| level.elo < elo).clamp(1, LEVELS.len() - 1);
    let (low, high) = (LEVELS[after - 1], LEVELS[after]);
    let share = ((elo - low.elo) / (high.elo - low.elo)).clamp(0.0, 1.0);
    let between = |low: f32, high: f32| low + share * (high - low);
    Level {
        elo,
        nodes: between(low.nodes, high.nodes),
        temperature: between(low.temperature, high.temperature),
        policy_temperature: between(low.policy_temperature, high.policy_temperature),
        value_cutoff: between(low.value_cutoff, high.value_cutoff),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rukh_options::ELO_RANGE;

    #[test]
    fn the_rows_cover_the_range_and_each_is_stronger_than_the_one_before() {
        let (lowest, highest) = (LEVELS[0].elo, LEVELS[LEVELS.len() - 1].elo);
        assert!(lowest <= ELO_RANGE.0 as f32 && highest >= ELO_RANGE.1 as f32, "{lowest} to {highest}");
        for pair in LEVELS.windows(2) {
            let (low, high) = (pair[0], pair[1]);
            assert!(low.elo < high.elo && low.nodes <= high.nodes, "{pair:?}");
            assert!(low.temperature > high.temperature && low.value_cutoff > high.value_cutoff, "{pair:?}");
        }
    }

    #[test]
    fn a_level_between_two_rows_lies_between_them() {
        let (low, high) = (LEVELS[0], LEVELS[1]);
        assert_eq!((level(low.elo), level(high.elo)), (low, high));
        let middle = level((low.elo + high.elo) / 2.0);
        assert!((middle.temperature - (low.temperature + high.temperature) / 2.0).abs() < 1e-5, "{middle:?}");
    }

    /// What GUIs show as analysis keeps its strength, and so does a search for a mate.
    #[test]
    fn only_the_choice_of_a_move_to_play_is_weakened() {
        let options = Options { limit_strength: true, ..Options::default() };
        let several = Options { multipv: 2, ..options.clone() };
        let clock = GoParams { wtime: Some(1000), ..GoParams::default() };
        assert!(Plan::new(&options, &clock, 32).is_weakened);
        assert!(!Plan::new(&Options::default(), &clock, 32).is_weakened);
        assert!(!Plan::new(&several, &clock, 32).is_weakened);
        assert!(!Plan::new(&options, &GoParams { infinite: true, ..GoParams::default() }, 32).is_weakened);
        assert!(!Plan::new(&options, &GoParams { mate: Some(3), ..GoParams::default() }, 32).is_weakened);
    }

    /// A Maia network with one node moves like people, and not at random.
    #[test]
    fn few_nodes_per_move_leave_no_chance_to_a_level() {
        let weakened = |nodes_per_move| {
            let options = Options { limit_strength: true, elo: 1500, nodes_per_move, ..Options::default() };
            let plan = Plan::new(&options, &GoParams::default(), 32);
            assert_eq!(plan.options.temperature > 0.0, plan.is_weakened);
            plan.is_weakened
        };
        assert_eq!([0, 1, 11, 12, 500].map(weakened), [true, false, false, true, true]);
    }

    #[test]
    fn the_lowest_limit_of_nodes_counts() {
        let nodes = |limit_strength, nodes_per_move, asked| {
            let options = Options { limit_strength, elo: 2550, nodes_per_move, ..Options::default() };
            Plan::new(&options, &GoParams { nodes: asked, ..GoParams::default() }, 32).go.nodes
        };
        assert_eq!(nodes(false, 0, None), None);
        assert_eq!(nodes(false, 5, None), Some(5));
        assert_eq!(nodes(false, 5, Some(3)), Some(3));
        assert_eq!(nodes(true, 5, Some(9)), Some(5));
        assert!(nodes(true, 0, Some(1000)).is_some_and(|nodes| (10..100).contains(&nodes)));
    }
}
