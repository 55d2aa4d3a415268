//! One integration binary: see the modules.
mod cpu;
mod goldens;
mod networks;
