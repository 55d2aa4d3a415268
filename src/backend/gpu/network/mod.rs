//! A network in the device's memory.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`device_network`] | the network: layers, precision, and the memory behind them |
//! | [`uploader`], [`winograd`] | converts layers from [`rukh_net::prepare`], and writes them to the device |
//! | [`copies`] | copies of weights in other layouts |
//! | [`layers`] | a layer in the device's memory: addresses and sizes |
//! | [`byte_weights`] | weights of 8 bits for GEMMs of few rows |
//! | [`preshuffle`], [`transposed`] | weights in the order in which our kernels read them; transposed weights, for the libraries |

pub(crate) mod byte_weights;
pub(crate) mod copies;
pub(crate) mod device_network;
pub(crate) mod layers;
pub(crate) mod preshuffle;
pub(crate) mod transposed;
pub(crate) mod uploader;
pub(crate) mod winograd;
