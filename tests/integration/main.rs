//! One integration binary: see the modules.
mod goldens;
mod networks;
