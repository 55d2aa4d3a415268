//! The analysis of databases: games and positions in, annotations out.
//!
//! Hundreds of searches run at once and share a backend ([`crate::concurrent`]), the memory and the evaluation cache. A
//! *document* is a game, or a line with a position. Each has some positions that are searched, and each position is one
//! task of the [`pool`].
//!
//! | module | what it does |
//! |---|---|
//! | [`fuzzing`] | the readers, for the fuzz target |
//! | [`protocol`] | answers requests on stdin |
//! | [`batch`] | analyses files: reads documents, has their positions searched, and writes the results in order |
//! | [`feed`] | reads the documents of all files, a little ahead |
//! | [`cut`] | reads the texts of documents, for programs that have them analysed elsewhere |
//! | [`sink`] | the files that an analysis writes |
//! | [`config`] | what an analysis of files is asked to do |
//! | [`part`] | what a part of an analysis says about itself |
//! | [`journal`] | notes what is done, so that an analysis can go on |
//! | [`input_state`] | whether a file of the input has changed |
//! | [`ranges`] | a set of numbers that are mostly consecutive |
//! | [`output`] | writes an analysed document as PGN, EPD, JSON lines or CSV |
//! | [`annotate`] | puts evaluations, glyphs and variations into a game |
//! | [`accuracy`] | how well each player has played |
//! | [`later_mates`] | mates that only the search of a later position has found |
//! | [`input`] | reads the documents of a file |
//! | [`document`] | holds a game or a position, and says which positions are searched |
//! | [`message`] | the requests and answers in JSON |
//! | [`pool`] | searches positions, many at once |
//! | [`report`] | what a search has found out |

pub mod accuracy;
pub mod annotate;
pub mod batch;
pub mod config;
pub mod cut;
pub mod document;
mod feed;
pub(crate) mod fuzzing;
pub mod input;
mod input_state;
mod journal;
mod later_mates;
pub mod message;
pub mod output;
pub mod part;
pub mod pool;
pub mod protocol;
mod ranges;
pub mod report;
pub mod sink;
