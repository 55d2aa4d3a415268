//! One integration binary: see the modules.
mod goldens;
mod network_refusals;
mod networks;
