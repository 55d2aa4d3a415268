//! The formulas by which the search chooses moves and weights values. Nothing here changes a tree.
//!
//! | module | contents |
//! |---|---|
//! | [`select`] | PUCT, first-play urgency, the moves-left bonus |
//! | [`params`] | the options that steer the search, as plain numbers |
//! | [`uncertainty`] | weights of visits and factors of cpuct that depend on the uncertainty of values |
//! | [`contempt`] | contempt and calibration of the network's values |
//! | [`correction_history`] | corrections of the network's values, learned from earlier visits |
//! | [`outcome_model`] | the model behind contempt and scores |
//! | [`math`] | arithmetic that gives the same bits on every machine |

pub(crate) mod contempt;
pub(crate) mod correction_history;
pub(crate) mod math;
pub(crate) mod outcome_model;
pub(crate) mod params;
pub(crate) mod select;
pub(crate) mod uncertainty;

pub use params::SearchParams;
