//! One integration binary: see the modules.

mod any_input;
mod backends;
mod cli;
mod cpu;
mod driver;
mod games;
mod goldens;
mod layers;
mod network_bytes;
mod network_refusals;
mod networks;
mod options;
mod perft;
mod planes;
mod policy;
mod positions;
mod rocm;
mod rocm_errors;
mod search;
mod search_stress;
mod selfplay;
mod tablebases;
mod time;
mod uci_features;
mod uci_lines;
mod uci_text;
