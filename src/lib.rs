//! Rukh: a UCI chess engine that plays with Leela Chess Zero networks.
//!
//! The tables below list the modules of this package and the packages from the top down: each uses only those below it,
//! which a test enforces (`tests/integration/layers.rs`). The tables in the `lib.rs` of each package and in the `mod.rs`
//! of each folder are in the same order.
//!
//! | module | what it holds |
//! |---|---|
//! | [`cli`] | the command line and its tools |
//! | [`uci`] | the protocol on stdin and stdout |
//! | [`analysis`] | annotates games and positions, many at once |
//! | [`selfplay`] | tournaments of the engine against itself |
//! | [`concurrent`] | many searches at once that share a backend |
//!
//! The packages below, also from the top down. The package `librukh` (`src/library`) is the front of
//! [`rukh_engine`] and [`rukh_registry`] for other programs.
//!
//! | package | what it holds |
//! |---|---|
//! | [`rukh_engine`] | one game: position, go, stop; owns backend, tree and search |
//! | [`rukh_search`] | gathers leaves into batches, backs up their values, decides when to stop |
//! | [`rukh_tree`] | the search tree in its arena |
//! | [`rukh_registry`] | makes the evaluator that the user asks for |
//! | [`rukh_gpu`] | evaluates on graphics cards |
//! | `rukh_cpu` | evaluates on the processor |
//! | [`rukh_backend`] | the contract between search and evaluators: positions in, value and policy out |
//! | [`rukh_net`] | network files, the input planes, the policy index |
//! | [`rukh_pgn`] | games in PGN, read and written |
//! | [`rukh_chess`] | rules, positions, game history, moves as text |
//! | [`rukh_options`] | the one table of options: UCI, command line, configuration file, help |
//! | [`rukh_base`] | files, messages, memory, threads |
//! | `rukh_kernels` | the kernels for graphics cards, compiled |
//! | `rukh_weights` | the network that is part of the program |

/// The version of the program, with the git commit of the build if there is one.
pub const VERSION: &str = env!("RUKH_VERSION");

pub mod analysis;
pub mod cli;
pub(crate) mod concurrent;
#[doc(hidden)]
pub mod fuzzing;
pub mod selfplay;
pub mod uci;
