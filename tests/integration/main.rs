//! One integration binary: see the modules.
mod networks;
mod time;
