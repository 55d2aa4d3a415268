//! The path of a batch to another thread and of its outcome back, for backends that have worker threads.
//!
//! | module | what it does |
//! |---|---|
//! | [`worker`] | the worker threads, and the channel by which a ticket gets its outcome |
//! | [`work_queue`] | the queue that they take work from |
//! | [`owned_request`] | a copy of a request that another thread can evaluate |

#[cfg(all(feature = "loom", test))]
mod loom_tests;
mod owned_request;
mod work_queue;
mod worker;

pub(crate) use owned_request::OwnedRequest;
pub(crate) use work_queue::WorkQueue;
pub(crate) use worker::{Outcome, Reply, WorkerTicket, Workers, reply_channel};
