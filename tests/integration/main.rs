//! One integration binary: see the modules.

mod games;
mod networks;
mod perft;
mod planes;
mod policy;
mod positions;
mod search;
mod time;
