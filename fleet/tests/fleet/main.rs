//! Jobs through the real binaries, with a server on loopback: results are those of the engine alone, also after workers
//! and the server were killed, and what is wrong is named and kept aside.
//!
//! The tests need `nats-server` on the path (or in `RUKH_NATS_SERVER`), and the engine beside `rukh-fleet`.

mod analysis;
#[cfg(unix)]
mod engines;
mod games;
mod harness;
#[cfg(unix)]
mod hostile;
mod merge;
// A signal ends `serve` with its server.
#[cfg(unix)]
mod security;
#[cfg(unix)]
mod serving;
mod versions;
