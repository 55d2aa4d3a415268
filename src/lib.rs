//! Rukh: a UCI chess engine that plays with Leela Chess Zero networks.
//!
//! The table and the declarations below list the modules from the top down: a module uses only those below it. The test
//! `layers_only_look_down` enforces this. The tables in the `mod.rs` of each folder are in the same order.
//!
//! | module | what it holds |
//! |---|---|
//! | [`cli`] | the command line and its tools |
//! | [`uci`] | the protocol on stdin and stdout |
//! | [`analysis`] | annotates games and positions, many at once |
//! | [`selfplay`] | tournaments of the engine against itself |
//! | [`concurrent`] | many searches at once that share a backend |
//!
//! The packages below, also from the top down:
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

#[doc(hidden)]
pub mod fuzzing;
pub mod cli;
pub mod uci;
pub mod analysis;
pub mod selfplay;
pub(crate) mod concurrent;
