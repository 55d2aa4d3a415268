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
//! | [`engine`] | one game: position, go, stop; owns backend, tree and search |
//! | [`search`] | gathers leaves into batches, backs up their values, decides when to stop |
//! | [`tree`] | the search tree in its arena |
//! | [`backend`] | evaluators: positions in, value and policy out |
//! | [`net`] | network files, the input planes, the policy index |
//! | [`pgn`] | games in PGN, read and written |
//! | [`chess`] | rules, positions, game history, moves as text |
//! | [`options`] | the one table of options: UCI, command line, configuration file, help |
//! | [`quote`] | user input, shortened and escaped for error messages |
//! | [`cache_folder`] | the folder for what can be made again |
//! | [`processor`] | the name of the processor |
//! | [`lc0_folders`] | where lc0 looks for a user's files |
//! | [`word_wrap`] | text broken into lines |
//! | [`decompress`] | reads files that may be compressed |
//! | [`encoding`] | the encodings of texts |
//! | [`limited_lines`] | lines of a limited length |
//! | [`replace_file`] | writes a whole file, and puts it in the place of an old one |
//! | [`distinct_files`] | refuses a command that would write one of its files over another |
//! | [`regular_file`] | reads files that must be regular and not too large |
//! | [`os_error`] | errors of the operating system, in words for the user |
//! | [`available_memory`] | how much memory this process can still get |
//! | [`zeroed_array`] | large arrays in memory maps of their own |
//! | [`cache_line`] | loads memory into the processor's cache before it is read |
//! | [`sync`] | atomics, locks and threads: those of `std`, or a model checker's |

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the module documentation is for developers of the engine"
)]

#[doc(hidden)]
pub mod fuzzing;

pub mod cli;

pub mod uci;

pub mod analysis;

pub mod selfplay;

pub(crate) mod concurrent;

pub mod engine;

pub mod search;

pub mod tree;

pub mod backend;

pub mod net;

pub(crate) mod pgn;

pub mod chess;

pub mod options;

pub(crate) mod quote;

pub(crate) mod cache_folder;

pub(crate) mod processor;

pub(crate) mod lc0_folders;

pub(crate) mod word_wrap;

pub(crate) mod decompress;

pub(crate) mod encoding;

pub(crate) mod limited_lines;

pub(crate) mod replace_file;

pub(crate) mod distinct_files;

pub(crate) mod regular_file;

pub(crate) mod os_error;

pub(crate) mod available_memory;

pub(crate) mod zeroed_array;

pub(crate) mod cache_line;

pub(crate) mod sync;
