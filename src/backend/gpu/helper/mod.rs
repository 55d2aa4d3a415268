//! A child process that calls the libraries, so that a crash ends only the child.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`probe`] | starts the process, listens, and finds out what it died of |
//! | [`serve`] | the work of that process |
//! | [`report`] | what the two processes tell each other |
//! | [`child`] | a process that may die, for the stages of `doctor`, too |
//! | [`exchange`] | requests and events as text |

pub mod child;
pub(crate) mod exchange;
pub(crate) mod probe;
pub(crate) mod report;
pub(crate) mod serve;
