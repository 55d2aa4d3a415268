//! Sends batches to worker threads and their outcomes back to the tickets.
//!
//! | module | what it does |
//! |---|---|
//! | [`worker`] | starts the worker threads, and makes the channel by which a ticket gets its outcome |
//! | [`work_queue`] | queues the work for these threads |

#[cfg(all(feature = "loom", test))]
mod loom_tests;
mod work_queue;
mod worker;

pub use work_queue::WorkQueue;
pub use worker::{Outcome, Reply, WorkerTicket, Workers, reply_channel};
