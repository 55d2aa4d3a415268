//! Selection: which children of a node get the next visits.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | shares a number of visits among the candidates |
//! | [`candidates`] | lists the children of a node with their scores |
//! | [`ranking`] | finds the best candidate and its rival |
//! | [`root_focus`] | the root moves that may be tried |
//! | [`walk`] | a thread's position in the game, and the memory for new links |

mod candidates;
mod plan;
mod ranking;
mod root_focus;
mod walk;

pub(crate) use candidates::{Candidate, Candidates, Choice, Chosen, Task, list_candidates};
pub(crate) use plan::{plan, task_at};
pub(crate) use root_focus::RootFocus;
pub(crate) use walk::{MAX_DEPTH, Walk};
