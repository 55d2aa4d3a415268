//! PGN games with everything that is in them: tags, comments, variations and annotation glyphs.
//!
//! | module | what it does |
//! |---|---|
//! | [`split`] | cuts a file into the texts of its games |
//! | [`read`] | reads the text of a game, and finds its language |
//! | [`write`](mod@write) | writes a game |
//! | [`reading`] | a game while its tokens are read, in one language |
//! | [`notation`] | reads a word as a move, in several languages |
//! | [`signs`] | reads the signs behind a move |
//! | [`game`] | holds a game |
//! | [`tokens`] | cuts a text into tokens |
//! | [`tags`] | reads tags |
//! | [`limits`] | the limits of a game |

#[cfg(test)]
mod altered_tests;
pub mod game;
pub mod limits;
mod notation;
pub mod read;
mod reading;
mod signs;
pub mod split;
mod tags;
mod tokens;
pub mod write;
