//! Which library, kernel, setting and batch size is fastest on this card.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`defaults`], [`two_ways`] | compares whole evaluations with the tuned GEMMs and with the default's; the rows of both, and which to keep |
//! | [`winners`] | who computes a network's GEMMs, according to a table |
//! | [`choices`] | plans, merges and keeps measurements of GEMMs; [`gemms`](crate::gemm::gemms) offers the candidates, and [`measurer`](crate::measure::measurer) times them |
//! | [`kept_tables`], [`notices`] | the tables from earlier starts and from the user; what tuning says about libraries that misbehave |
//! | [`kept_settings`] | the settings that starts keep, and what first starts still measure |
//! | [`settings`] | the settings of passes and smaller batches that starts and `rukh tune` measure |
//! | [`passes`] | the time of whole passes, and the ladder of batch sizes that follows from it |
//! | [`load`] | batches in several slots at once, and their speed |

pub(crate) mod choices;
pub(crate) mod defaults;
pub(crate) mod kept_settings;
pub(crate) mod kept_tables;
pub(crate) mod load;
pub(crate) mod notices;
pub(crate) mod passes;
pub(crate) mod settings;
pub(crate) mod two_ways;
pub(crate) mod winners;
