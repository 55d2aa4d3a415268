//! One integration binary: see the modules.

mod backends;
mod games;
mod goldens;
mod network_bytes;
mod network_refusals;
mod networks;
mod perft;
mod planes;
mod policy;
mod positions;
