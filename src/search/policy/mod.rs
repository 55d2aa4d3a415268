//! The formulas of the search: the scores of moves, and corrections of the network's values. They never change a tree.
//!
//! | module | contents |
//! |---|---|
//! | [`select`] | PUCT, first-play urgency, the moves-left bonus |
//! | [`params`] | the options that steer the search, as plain numbers |
//! | [`uncertainty`] | weights of visits and factors of cpuct that depend on the uncertainty of values |
//! | [`policy_temperature`] | the policy's temperature by depth |
//! | [`visited_children`] | a node's value from its children's values by the default backup, several children at a time |
//! | [`children_value`] | the same for all kinds of backup |
//! | [`subtree_bias`] | corrections of the network's values by what subtrees found after the same moves |
//! | [`contempt`] | contempt and calibration of the network's values |
//! | [`correction_history`] | corrections of the network's values by its errors in similar positions |
//! | [`slot_table`] | the table of pairs of numbers behind both corrections |
//! | [`outcome_model`] | the distribution of a game's outcome behind contempt and scores |
//! | [`math`] | arithmetic that gives the same bits on every machine |

pub(crate) mod children_value;
pub(crate) mod contempt;
pub(crate) mod correction_history;
pub(crate) mod math;
pub(crate) mod outcome_model;
pub(crate) mod params;
pub(crate) mod policy_temperature;
pub(crate) mod select;
mod slot_table;
pub(crate) mod subtree_bias;
pub(crate) mod uncertainty;
pub(crate) mod visited_children;

pub(super) use params::LowerBoundParams;
pub use params::SearchParams;
