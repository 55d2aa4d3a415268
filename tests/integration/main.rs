//! One integration binary: see the modules.
mod networks;
mod search;
mod time;
