//! Training data: what each search of a game has found out, in lc0's records.
//!
//! A *record* describes one searched position: the input planes, the visits of its moves, the values that the search
//! found, and the result of the game. The records of a game are a *chunk*: a gzip file with one record after another.
//! lc0 writes the same chunks (`V6TrainingData` in its `trainingdata_v6.h`), and its rescorer and the trainers made for
//! it read them.
//!
//! | module | what it does |
//! |---|---|
//! | [`decision`] | turns the searches of a game into records |
//! | [`store`] | writes chunks into a folder or into tar archives |
//! | [`chunk`] | turns the records of a game into a chunk and back |
//! | [`planes`] | converts between a position and the fields that describe it |
//! | [`record`] | the layout of a record, and its check |

pub mod chunk;
pub(crate) mod decision;
pub mod planes;
pub mod record;
pub mod store;
