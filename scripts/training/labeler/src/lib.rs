//! Labelled training positions: the record of one position, and the files that hold records.
//!
//! Three programs use them. `label` plays games with Stockfish and writes records; `chains` packs and unpacks them;
//! `evaluate` compares networks with held-out records. The trainer, which is written in Python, reads the same files.
//!
//! | module | content |
//! |---|---|
//! | [`chains`] | records packed into some 5 bytes each |
//! | [`shards`] | files of records |
//! | [`record`] | a record: from a position, and back |
//! | [`layout`] | which byte of a record means what |

pub mod chains;
pub mod layout;
pub mod record;
pub mod shards;
