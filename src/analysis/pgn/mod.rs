//! PGN games with everything that is in them: tags, comments, variations and annotation glyphs.
//!
//! | module | what it does |
//! |---|---|
//! | [`read`] | reads the text of a game |
//! | [`write`](mod@write) | writes a game |
//! | [`game`] | holds a game |
//! | [`split`] | cuts a file into the texts of its games |

pub(crate) mod game;
pub(crate) mod read;
pub(crate) mod split;
pub(crate) mod write;
