//! What one `go` may use: limits it to what `UCI_LimitStrength` and `NodesPerMove` allow.
//!
//! A weakened search is one of a few nodes, whose move is drawn in proportion to the visits, among the moves that do not
//! lose much. As the number of nodes decides and not the time, it is as strong on a slow machine and on a fast clock.
//! Its errors are those of a player who sees the usual moves and does not look far: a move that the network's policy
//! does not consider is not played, and the more certain a win is, the less may be given away.

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
    /// `TempValueCutoff`, in percent of the expected score.
    value_cutoff: f32,
}

/// A row for each level that was measured (`docs/strength.md`), the weakest first.
#[rustfmt::skip]
const LEVELS: [Level; 8] = [
    Level { elo: 1490.0, nodes: 12.0, temperature: 2.25, policy_temperature: 3.6, value_cutoff: 62.0 },
    Level { elo: 1690.0, nodes: 12.0, temperature: 1.85, policy_temperature: 2.8, value_cutoff: 55.0 },
    Level { elo: 1920.0, nodes: 12.0, temperature: 1.4, policy_temperature: 2.2, value_cutoff: 46.0 },
    Level { elo: 2050.0, nodes: 13.0, temperature: 1.1, policy_temperature: 1.8, value_cutoff: 40.0 },
    Level { elo: 2120.0, nodes: 15.0, temperature: 0.9, policy_temperature: 1.4, value_cutoff: 30.0 },
    Level { elo: 2350.0, nodes: 18.0, temperature: 0.75, policy_temperature: 1.1, value_cutoff: 22.0 },
    Level { elo: 2490.0, nodes: 34.0, temperature: 0.5, policy_temperature: 1.0, value_cutoff: 13.0 },
    Level { elo: 2580.0, nodes: 60.0, temperature: 0.37, policy_temperature: 1.0, value_cutoff: 9.0 },
];

/// The options and limits of one search.
pub(super) struct Plan {
    pub(super) options: Options,
    pub(super) go: GoParams,
    /// The nodes that the options allow; `None` means any number. A tree of more nodes knows too much to be used.
    pub(super) allowed_nodes: Option<u64>,
    /// Whether `UCI_LimitStrength` weakens the search.
    pub(super) is_weakened: bool,
}

impl Plan {
    /// What a `go` with these `options` means.
    pub(super) fn new(options: &Options, go: &GoParams) -> Plan {
        let is_analysis = go.infinite || go.mate.is_some() || options.multipv > 1;
        let mut plan = Plan {
            options: options.clone(),
            go: go.clone(),
            allowed_nodes: None,
            is_weakened: options.limit_strength && !is_analysis,
        };
        if options.nodes_per_move > 0 {
            plan.allow(options.nodes_per_move.into());
        }
        if plan.is_weakened {
            plan.weaken(level(options.elo as f32));
        }
        plan
    }

    fn allow(&mut self, nodes: u64) {
        let least = |limit: Option<u64>| Some(limit.map_or(nodes, |limit| limit.min(nodes)));
        self.go.nodes = least(self.go.nodes);
        self.allowed_nodes = least(self.allowed_nodes);
    }

    fn weaken(&mut self, level: Level) {
        self.allow(level.nodes.round() as u64);
        self.options = Options {
            search: SearchName::Default,
            // Leaves that are chosen together are chosen otherwise, and how many are depends on the backend.
            threads: 1,
            minibatch_size: 1,
            smart_pruning_factor: 0.0,
            nodes_as_playouts: false,
            noise_epsilon: 0.0,
            temperature: level.temperature,
            tempdecay_moves: 0,
            temp_cutoff_move: 0,
            temp_value_cutoff: level.value_cutoff,
            temp_visit_offset: 0.0,
            root_policy_temperature: level.policy_temperature,
            ..self.options.clone()
        };
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
