//! The formulas of the search: the scores of moves, and the values of nodes. They never change a tree.
//!
//! | module | contents |
//! |---|---|
//! | [`select`] | PUCT, first-play urgency, the moves-left bonus |
//! | [`params`] | the options that steer the search, as plain numbers |
//! | [`uncertainty`] | weights of visits and factors of cpuct that depend on the uncertainty of values |
//! | [`policy_temperature`] | the temperature of the root's policy |
//! | [`visited_children`] | a node's value from its children's if all visits weigh the same, several children at a time |
//! | [`children_value`] | the same if visits have weights |
//! | [`contempt`] | contempt and calibration of the network's values |
//! | [`outcome_model`] | the distribution of a game's outcome behind contempt and scores |
//! | [`math`] | arithmetic that gives the same bits on every machine |

pub(crate) mod children_value;
pub(crate) mod contempt;
pub(crate) mod math;
pub(crate) mod outcome_model;
pub(crate) mod params;
pub(crate) mod policy_temperature;
pub(crate) mod select;
pub(crate) mod uncertainty;
pub(crate) mod visited_children;

pub(super) use params::LowerBoundParams;
pub use params::SearchParams;
pub(crate) use params::automatic_threads;
