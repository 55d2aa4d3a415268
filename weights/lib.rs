//! The network that Rukh plays with unless the user has another.

/// The network as a `.pb.gz` file of Leela Chess Zero. The project trained it; see `weights/README.md`.
pub const NETWORK: &[u8] = include_bytes!("rukh-128x6.pb.gz");

/// How its weights are rounded to 8 bits. `scripts/training/round.sh` writes it.
pub const ROUNDING: &[u8] = include_bytes!("rukh-128x6.int8.gz");
