//! Selection: which children of a node get the next visits.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | shares a number of visits among the candidates |
//! | [`candidates`] | lists the children of a node with their scores |
//! | [`ranking`] | keeps the best candidate and its rival at hand |
//! | [`root_focus`] | the root moves that may be tried |
//! | [`walk`] | a thread's position in the game and its means to make links longer |

mod candidates;
mod plan;
mod ranking;
mod root_focus;
mod walk;

pub(crate) use candidates::{Candidate, Choice, Task, list_candidates};
pub(crate) use plan::{plan, task_at};
pub(crate) use ranking::Ranking;
pub(crate) use root_focus::RootFocus;
pub(crate) use walk::{MAX_DEPTH, Walk};
