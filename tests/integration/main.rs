//! One integration binary: see the modules.

mod games;
mod perft;
mod planes;
mod policy;
mod positions;
