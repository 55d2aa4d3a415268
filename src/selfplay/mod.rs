//! Tournaments of the engine against itself: two configurations play hundreds of games at once in one process.
//!
//! Each game has a thread of its own, on which both players' searches run, one after the other. A search has one thread,
//! its own cache and its own tree, so that a game does not depend on the games beside it: with a backend that evaluates a
//! position in the same way in every batch, the same tournament gives the same games. [`crate::concurrent`] lets the
//! searches share their backends.
//!
//! | module | what it does |
//! |---|---|
//! | [`tournament`] | plays all games, and ends the tournament |
//! | [`pgn`] | writes a game |
//! | [`game`] | plays one game to its result |
//! | [`adjudication`] | ends a game whose result is certain enough |
//! | [`player`] | searches the positions of one side |
//! | [`evaluators`] | makes the backends that the games share |
//! | [`schedule`] | says which game comes next |
//! | [`training`] | turns the searches of a game into training data, and stores them |
//! | [`config`] | says what a tournament is asked to do |
//! | [`summary`] | reports a score in words and as JSON |
//! | [`elo`] | computes Elo differences and the sequential test |
//! | [`score`] | counts results |
//! | [`openings`] | reads openings |

mod adjudication;
pub mod config;
pub mod elo;
mod evaluators;
mod game;
mod instant;
pub mod openings;
pub mod pgn;
mod player;
mod schedule;
pub mod score;
pub mod summary;
mod tournament;
pub mod training;

pub use game::{Ending, FinishedGame, Thought};
pub use summary::Finish;
pub use tournament::{Interrupter, Progress, Tournament, TournamentError};
