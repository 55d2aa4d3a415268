//! Rukh's kernels for graphics cards, as `hip/kernels` has them. `kernels/README.md` describes them.

// Written by build.rs.
include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
