//! Rukh: a UCI chess engine that plays with Leela Chess Zero networks.
//!
//! The modules below stand in dependency order: each one uses only those above it. The test
//! `layers_only_look_down` keeps this true.
//!
//! | module | what it holds |
//! |---|---|
//! | [`sync`] | atomics, locks and threads: `std`'s, or a model checker's |
//! | [`quote`] | input, made fit to be shown in an error message |
//! | [`options`] | the one table of options: UCI, command line, config file, help |
//! | [`chess`] | rules, positions, history, moves as text |
//! | [`net`] | network files, the input planes, the policy index |
//! | [`backend`] | evaluators: positions in, value and policy out |
//! | [`tree`] | the arena of search nodes |
//! | [`search`] | gathers leaves into batches, selects, backs up, decides when to stop |
//! | [`engine`] | one game: position, go, stop; owns backend, tree and search |
//! | [`uci`] | the protocol on stdin and stdout |
//! | [`cli`] | the command line and its tools |

#![allow(rustdoc::private_intra_doc_links, reason = "the essays are for those who work on the modules")]

pub mod sync;

pub mod quote;

pub mod options;

pub mod chess;

pub mod net;

pub mod backend;

pub mod tree;

pub mod search;

pub mod engine;

pub mod uci;

pub mod cli;

#[doc(hidden)]
pub mod fuzzing;
