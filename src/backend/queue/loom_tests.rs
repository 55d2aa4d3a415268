//! Tests of [`WorkQueue`] under `loom`, which tries every interleaving of the threads (see [`rukh_base::sync`]).

use super::work_queue::WorkQueue;
use loom::thread::{JoinHandle, spawn};
use rukh_base::sync::{Arc, check_model};

/// Starts a worker that takes at most two items at once, and returns all items that it took.
fn consume(queue: &Arc<WorkQueue<u32>>) -> JoinHandle<Vec<u32>> {
    let queue = queue.clone();
    spawn(move || std::iter::from_fn(|| queue.pop(|taken, _| taken.len() < 2)).flatten().collect())
}

#[test]
fn each_item_is_taken_once_before_the_workers_end() {
    check_model(3, || {
        let queue = Arc::new(WorkQueue::new());
        let consumers = [consume(&queue), consume(&queue)];
        for item in 0..3 {
            assert_eq!(queue.push(item), Ok(()));
        }
        queue.close();
        let mut taken: Vec<u32> = consumers.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2]);
    });
}

#[test]
fn an_item_is_taken_or_returned_whenever_the_queue_closes() {
    check_model(3, || {
        let queue = Arc::new(WorkQueue::new());
        let consumer = consume(&queue);
        let producer = {
            let queue = queue.clone();
            spawn(move || [1, 2].map(|item| queue.push(item).is_ok()))
        };
        queue.close();
        let accepted = producer.join().unwrap().into_iter().filter(|&accepted| accepted).count();
        assert_eq!(consumer.join().unwrap().len(), accepted);
    });
}
