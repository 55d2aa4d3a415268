//! A process that asks the libraries, and may die of it.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`probe`] | starts the process, listens, and finds out what it died of |
//! | [`serve`] | the work of that process |
//! | [`report`] | the text that the two processes exchange |
//! | [`child`] | a process that may die, and the lines that it writes |

pub mod child;
pub(crate) mod probe;
pub(crate) mod report;
pub(crate) mod serve;
