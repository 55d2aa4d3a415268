//! The file that keeps the measured choices for the next start.
//!
//! | module | what it does or holds |
//! |---|---|
//! | [`file`] | the file as a whole: origin, rows, what is rewritten |
//! | [`row`], [`cells`] | a row of it, and its cells |
//! | [`left_out`] | why rows of it are left out |

pub(crate) mod cells;
pub(crate) mod file;
pub(crate) mod left_out;
pub(crate) mod row;
