//! One integration binary: see the modules.

mod any_input;
mod cli;
mod driver;
mod layers;
mod networks;
mod options;
mod uci_text;
