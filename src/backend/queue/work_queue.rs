//! The queue between batches and the worker threads of `multiplexing` and `demux`.
//!
//! A queue of its own, and not a channel, for two reasons: a worker may look at what comes next before it
//! takes it (to merge small batches), and the side that closes the queue is not the side that holds it last
//! (a batch may outlive its backend).

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::collections::VecDeque;

/// First in, first out; many producers, many consumers; closed once.
pub(crate) struct WorkQueue<T> {
    state: Mutex<State<T>>,
    /// Signalled once per item, and to all on closing.
    changed: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    is_closed: bool,
}

impl<T> WorkQueue<T> {
    /// Open and empty.
    pub(crate) fn new() -> WorkQueue<T> {
        WorkQueue {
            state: Mutex::new(State { items: VecDeque::new(), is_closed: false }),
            changed: Condvar::new(),
        }
    }

    /// Adds an item for some consumer; a closed queue gives it back.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(item);
        }
        state.items.push_back(item);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Blocks for the first item, then takes those behind it too while `takes_more` likes the next one.
    /// `None`: the queue is closed and everything in it was taken.
    pub(crate) fn pop(&self, mut takes_more: impl FnMut(&[T], &T) -> bool) -> Option<Vec<T>> {
        let mut state = self.lock();
        let first = loop {
            if let Some(item) = state.items.pop_front() {
                break item;
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let mut taken = vec![first];
        while state.items.front().is_some_and(|next| takes_more(&taken, next)) {
            taken.extend(state.items.pop_front());
        }
        Some(taken)
    }

    /// No more items come; consumers finish what is there, then get `None`.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Between operations the state is always whole, so a poisoned lock can be used on.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn closing_wakes_consumers_after_what_is_queued() {
        let queue = WorkQueue::new();
        thread::scope(|scope| {
            let consumers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| std::iter::from_fn(|| queue.pop(|_, _| false)).flatten().sum::<u32>())
                })
                .collect();
            for item in 1..=100 {
                queue.push(item).unwrap();
            }
            queue.close();
            assert_eq!(queue.push(101), Err(101));
            let total: u32 = consumers.into_iter().map(|consumer| consumer.join().unwrap()).sum();
            assert_eq!(total, 5050);
        });
    }

    #[test]
    fn takes_several_at_once_as_long_as_they_fit() {
        let queue = WorkQueue::new();
        for item in [3, 4, 2, 9, 1] {
            queue.push(item).unwrap();
        }
        queue.close();
        let fits = |taken: &[u32], next: &u32| taken.iter().sum::<u32>() + next <= 10;
        let batches: Vec<Vec<u32>> = std::iter::from_fn(|| queue.pop(fits)).collect();
        assert_eq!(batches, [vec![3, 4, 2], vec![9, 1]]);
    }
}
