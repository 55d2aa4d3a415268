//! One integration binary: see the modules.
