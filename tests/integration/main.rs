//! One integration binary: see the modules.
mod networks;
