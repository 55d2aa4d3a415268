//! How long a device's batches take, by size, so that the search can fill a batch as far as that is free.
//!
//! A device pads a batch to one of a few sizes, and small batches take about as long as somewhat larger ones. The
//! backend records the time of each batch here. The shortest time of each size counts, because the others were delayed
//! by something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A batch counts as free compared to a smaller one if it takes at most this multiple of its time.
const FREE_RATIO: f32 = 1.25;
/// A batch of this size is compared to the larger ones. Still smaller ones are seldom worth sending.
const SMALL_BATCH: usize = 16;
/// A size is given up only after this many batches, because one of them may have waited for another batch.
const TRIALS: u32 = 3;

/// A size to which a device pads batches.
#[derive(Debug)]
struct Size {
    positions: usize,
    /// The shortest time of a batch of this size, in units of 100 ns; `u32::MAX` if none was timed.
    shortest: AtomicU32,
    /// The number of timed batches, up to [`TRIALS`].
    timed: AtomicU32,
}

/// The sizes to which a device pads batches, ascending, and the time of each. All clones share the times.
#[derive(Clone, Debug, Default)]
pub struct BatchCosts {
    sizes: Arc<[Size]>,
}

impl BatchCosts {
    /// The costs of a device that pads batches to these ascending `sizes`, before any batch was timed.
    pub fn new(sizes: impl IntoIterator<Item = usize>) -> BatchCosts {
        let untimed =
            |positions| Size { positions, shortest: AtomicU32::new(u32::MAX), timed: AtomicU32::new(0) };
        BatchCosts { sizes: sizes.into_iter().map(untimed).collect() }
    }

    fn index_of(&self, positions: usize) -> Option<usize> {
        self.sizes.iter().position(|size| size.positions >= positions)
    }

    /// Records the time that a batch took.
    pub fn record(&self, positions: usize, time: Duration) {
        let Some(index) = self.index_of(positions) else { return };
        let size = &self.sizes[index];
        let units = u32::try_from(time.as_nanos() / 100).unwrap_or(u32::MAX);
        size.shortest.fetch_min(units, Ordering::Relaxed);
        if size.timed.load(Ordering::Relaxed) < TRIALS {
            size.timed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The size to which the device pads a batch of `positions`; `positions` itself if the sizes are not known.
    pub fn padded(&self, positions: usize) -> usize {
        self.index_of(positions).map_or(positions, |index| self.sizes[index].positions)
    }

    /// The number of positions up to which a batch of `positions` can be filled for free: at least the size to which the
    /// batch is padded, and a larger one if batches of that size take hardly longer. Larger sizes are tried in turn, each
    /// at least twice as large as the last one that is free.
    pub fn free_up_to(&self, positions: usize) -> usize {
        let padded = self.index_of(positions).map_or(positions, |index| self.free_from(index));
        let small = self.index_of(SMALL_BATCH).map_or(0, |index| self.free_from(index));
        padded.max(small)
    }

    /// The largest size that is free compared to the size at `first`, or the next to try.
    fn free_from(&self, first: usize) -> usize {
        let shortest = |size: &Size| size.shortest.load(Ordering::Relaxed);
        let base = shortest(&self.sizes[first]);
        let mut free = self.sizes[first].positions;
        if base == u32::MAX {
            return free;
        }
        for size in &self.sizes[first..] {
            if shortest(size) as f32 <= FREE_RATIO * base as f32 {
                free = size.positions;
            } else if shortest(size) == u32::MAX && size.positions < 2 * free {
                // The next one that is large enough shows whether this one is free.
            } else {
                let may_be_free = size.timed.load(Ordering::Relaxed) < TRIALS;
                return if may_be_free { size.positions } else { free };
            }
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(times: &[(usize, u64)]) -> BatchCosts {
        let costs = BatchCosts::new([1, 8, 16, 24, 32, 64, 128, 256]);
        for &(positions, microseconds) in times {
            (0..TRIALS).for_each(|_| costs.record(positions, Duration::from_micros(microseconds)));
        }
        costs
    }

    #[test]
    fn a_processor_has_no_free_positions() {
        assert_eq!(BatchCosts::default().free_up_to(3), 3);
        assert_eq!(BatchCosts::default().padded(3), 3);
    }

    #[test]
    fn batches_are_filled_as_far_as_they_take_hardly_longer() {
        let small_network = costs(&[(16, 300), (32, 310), (64, 330), (128, 370), (256, 600)]);
        assert_eq!(small_network.free_up_to(1), 128);
        assert_eq!(small_network.free_up_to(100), 128);
        assert_eq!(small_network.free_up_to(129), 256);
        assert_eq!([1, 64, 65, 300].map(|positions| small_network.padded(positions)), [1, 64, 128, 300]);
        let large_network =
            costs(&[(16, 2000), (24, 2700), (32, 3000), (64, 5000), (128, 9000), (256, 17000)]);
        assert_eq!(large_network.free_up_to(1), 16);
        assert_eq!(large_network.free_up_to(17), 32);
        assert_eq!(large_network.free_up_to(300), 300);
    }

    #[test]
    fn larger_sizes_are_tried_in_turn() {
        let costs = costs(&[]);
        assert_eq!(costs.free_up_to(1), 16);
        costs.record(10, Duration::from_micros(300));
        assert_eq!(costs.free_up_to(1), 32);
        costs.record(32, Duration::from_micros(310));
        assert_eq!(costs.free_up_to(1), 64);
        // A size is given up only after some batches.
        for _ in 0..TRIALS {
            assert_eq!(costs.free_up_to(1), 64);
            costs.record(60, Duration::from_micros(900));
        }
        assert_eq!(costs.free_up_to(1), 32);
        assert_eq!(costs.free_up_to(40), 128);
        // The shortest time counts.
        costs.record(64, Duration::from_micros(320));
        assert_eq!(costs.free_up_to(1), 128);
    }
}
