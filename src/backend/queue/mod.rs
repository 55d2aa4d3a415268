//! Sends batches to worker threads and their outcomes back to the tickets.
//!
//! | module | what it does |
//! |---|---|
//! | [`worker`] | starts the worker threads, and makes the channel by which a ticket gets its outcome |
//! | [`work_queue`] | queues the work for these threads |
//! | [`owned_request`] | copies a request so that another thread can evaluate it |

#[cfg(all(feature = "loom", test))]
mod loom_tests;
mod owned_request;
mod work_queue;
mod worker;

pub(crate) use owned_request::OwnedRequest;
pub use work_queue::WorkQueue;
pub use worker::{Outcome, Reply, WorkerTicket, Workers, reply_channel};
