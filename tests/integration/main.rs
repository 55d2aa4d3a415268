//! One integration binary: see the modules.
mod goldens;
mod network_bytes;
mod network_refusals;
mod networks;
