//! The queue between submitted batches and worker threads.
//!
//! A channel would not do, for two reasons. A worker inspects the next item before it takes it, to merge small batches.
//! And the backend closes the queue when it is dropped, while a batch that outlives the backend still holds the queue.

use rukh_base::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::collections::VecDeque;

/// A first-in, first-out queue for many producers and many consumers.
pub struct WorkQueue<T> {
    state: Mutex<State<T>>,
    /// Notifies one consumer of each item, and all consumers when the queue is closed.
    changed: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    is_closed: bool,
}

impl<T> WorkQueue<T> {
    /// An empty, open queue.
    pub fn new() -> WorkQueue<T> {
        WorkQueue {
            state: Mutex::new(State { items: VecDeque::new(), is_closed: false }),
            changed: Condvar::new(),
        }
    }

    /// Adds an item. A closed queue returns it as the error.
    pub fn push(&self, item: T) -> Result<(), T> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(item);
        }
        state.items.push_back(item);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Blocks until there is an item, and takes it. Then takes further items as long as `takes_more(taken, next)` is
    /// true. Returns `None` if the queue is closed and empty.
    pub fn pop(&self, mut takes_more: impl FnMut(&[T], &T) -> bool) -> Option<Vec<T>> {
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

    /// Refuses further items. Consumers still get the queued items, and then `None`.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Ignores poisoning: a panic cannot leave the state invalid.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn consumers_get_all_queued_items_before_the_end() {
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
    fn takes_several_items_at_once_while_they_fit() {
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
