//! How a device becomes slots whose figures are right.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`prepare`] | prepares a device for a network |
//! | [`rungs`], [`self_check`] | gives up 8-bit weights, graphs, shared launches or libraries until the figures agree with those of the CPU backend |
//! | [`processor_figures`] | what the processor finds for a few positions |
//! | [`trial`] | lets another process open the device first |

pub(crate) mod prepare;
mod processor_figures;
pub(crate) mod rungs;
pub(crate) mod self_check;
pub(crate) mod trial;
