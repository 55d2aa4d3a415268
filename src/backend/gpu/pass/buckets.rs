//! The batch sizes (buckets) that a forward pass is laid out for.
//!
//! A batch is padded to the smallest bucket that holds it. Small buckets are close together, so that a small batch gets
//! little padding. Each larger bucket is at most 1.5 times the size of the bucket before it, so that at most a third of
//! the work is padding.

/// The sizes of all buckets, up to the largest batch that any option allows.
const BUCKET_SIZES: [usize; 19] =
    [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768, 1024];

/// The bucket sizes for batches of at most `maximum` positions, in ascending order. The last one is `maximum` itself. A
/// measured ladder replaces the usual sizes as far as it goes.
pub(crate) fn bucket_sizes(ladder: &[usize], maximum: usize) -> Vec<usize> {
    let end = ladder.last().copied().unwrap_or(0);
    let usual = BUCKET_SIZES.into_iter().filter(|&size| size > end);
    let mut sizes: Vec<usize> = ladder.iter().copied().chain(usual).filter(|&size| size < maximum).collect();
    sizes.push(maximum);
    sizes
}

/// The batch size, in positions, beyond which a larger batch gains little. More multiprocessors need larger batches.
pub(crate) fn recommended_batch(multiprocessors: usize) -> usize {
    match multiprocessors {
        0..24 => 64,
        24..64 => 128,
        _ => 256,
    }
}

/// The sizes among which a measured ladder chooses: up to 16 all of them, and then about 16 in each doubling, as far as
/// these are even.
pub(crate) fn candidate_sizes(maximum: usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut size: usize = 1;
    while size < maximum {
        sizes.push(size);
        size += match size {
            0..16 => 1,
            16..32 => 2,
            _ => size.next_power_of_two().max(size + 1).next_power_of_two() / 16,
        };
    }
    sizes.push(maximum);
    sizes
}

/// The part of a batch's time that padding may take, relative to the fastest bucket that holds the batch.
const PADDING: f32 = 0.03;

/// The most buckets of a ladder. Each needs a graph in every slot.
const MOST_BUCKETS: usize = 48;

/// The usual sizes, and the fewest others with which no batch takes much longer than in a bucket of its own. `times` has
/// the time of each size, in ascending order of the sizes. The last size is always a bucket.
///
/// A usual size is left out if it is clearly slower than a larger bucket. Otherwise it stays, so that no batch of a usual
/// size gets padding because of an inexact measurement.
pub(crate) fn ladder(times: &[(usize, f32)]) -> Vec<usize> {
    let mut padding = PADDING;
    loop {
        let found = with_usual_sizes(times, ladder_with(times, padding));
        if found.len() <= MOST_BUCKETS {
            return found;
        }
        padding *= 1.25;
    }
}

/// The sizes whose time is at most `slower` times that of every larger size. `times` has the time of each size, in
/// ascending order of the sizes.
pub(crate) fn without_slow_sizes(times: &[(usize, f32)], slower: f32) -> Vec<usize> {
    let mut fastest = f32::INFINITY;
    let mut sizes = Vec::new();
    for &(size, time) in times.iter().rev() {
        if time <= fastest * slower {
            sizes.push(size);
        }
        fastest = fastest.min(time);
    }
    sizes.reverse();
    sizes
}

/// Adds the usual sizes that are not clearly slower than the bucket that would hold them.
fn with_usual_sizes(times: &[(usize, f32)], buckets: Vec<usize>) -> Vec<usize> {
    let time_of = |size: usize| times.iter().find(|(known, _)| *known == size).map(|(_, time)| *time);
    let is_useful = |size: &usize| {
        let bucket = bucket_of(&buckets, *size).and_then(|index| time_of(buckets[index]));
        time_of(*size).zip(bucket).is_some_and(|(own, padded)| own <= padded * (1.0 + PADDING))
    };
    let mut sizes: Vec<usize> =
        BUCKET_SIZES.into_iter().filter(is_useful).chain(buckets.iter().copied()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// A ladder whose padding takes `padding` at most.
fn ladder_with(times: &[(usize, f32)], padding: f32) -> Vec<usize> {
    let Some(mut bucket) = times.len().checked_sub(1) else { return Vec::new() };
    let mut buckets = vec![times[bucket].0];
    // The fastest size from the one at hand to the bucket.
    let mut fastest = bucket;
    for index in (0..bucket).rev() {
        if times[index].1 < times[fastest].1 {
            fastest = index;
        }
        if times[bucket].1 > times[fastest].1 * (1.0 + padding) {
            bucket = fastest;
            buckets.push(times[bucket].0);
        }
    }
    buckets.reverse();
    buckets
}

/// The largest part of a pass's time that padding takes: by how much a batch takes longer in its bucket than in the
/// fastest of all sizes that hold it.
pub(crate) fn padding(times: &[(usize, f32)], buckets: &[usize]) -> f32 {
    let time_of = |size: usize| times.iter().find(|(known, _)| *known == size).map_or(0.0, |(_, time)| *time);
    let losses = times.iter().enumerate().filter_map(|(index, &(size, _))| {
        let bucket = buckets[bucket_of(buckets, size)?];
        let fastest = times[index..].iter().map(|(_, time)| *time).fold(f32::INFINITY, f32::min);
        Some(time_of(bucket) / fastest - 1.0)
    });
    losses.fold(0.0, f32::max)
}

/// The index of the smallest bucket that holds `positions`; `None` if no bucket does.
pub(crate) fn bucket_of(sizes: &[usize], positions: usize) -> Option<usize> {
    let index = sizes.partition_point(|&size| size < positions);
    (index < sizes.len()).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::own::{TileSize, whole_choices};
    use crate::runtime::ffi::gemm::{ElementType, GemmShape};

    /// What runs before anything has been measured, with the multiprocessors that the drivers count.
    #[test]
    fn the_defaults_of_seven_cards() {
        // This GEMM has 192 tiles of 128 x 128. They fill 48, 32, 20 and 16 multiprocessors in whole rounds or nearly so, but
        // leave half of 128 idle in a second round, and more than a third of 304 in the only one.
        let cards = [
            ("Radeon RX 7600", 16, 64, (128, 128)),
            ("Radeon 8060S", 20, 64, (128, 128)),
            ("Radeon RX 9070 XT", 32, 128, (128, 128)),
            ("Radeon RX 7900 XTX", 48, 128, (128, 128)),
            ("GeForce RTX 4090", 128, 256, (64, 128)),
            ("H100", 132, 256, (64, 128)),
            ("Instinct MI300X", 304, 256, (64, 64)),
        ];
        for (name, multiprocessors, batch, tile) in cards {
            let shape = GemmShape::plain(64 * 64, 768, 768, ElementType::Fp16);
            let TileSize { rows, columns, .. } = whole_choices(&shape, multiprocessors)[0].size();
            assert_eq!((recommended_batch(multiprocessors), (rows, columns)), (batch, tile), "{name}");
        }
    }

    #[test]
    fn every_batch_has_the_smallest_bucket_that_holds_it() {
        for maximum in [1, 3, 16, 100, 256, 1024] {
            let sizes = bucket_sizes(&[], maximum);
            assert!(sizes.is_sorted_by(|a, b| a < b) && sizes.last() == Some(&maximum));
            for positions in 1..=maximum {
                let index = bucket_of(&sizes, positions).unwrap();
                assert!(sizes[index] >= positions && (index == 0 || sizes[index - 1] < positions));
            }
            assert_eq!(bucket_of(&sizes, maximum + 1), None);
        }
    }

    #[test]
    fn padding_is_a_third_of_the_work_at_most() {
        let sizes = bucket_sizes(&[], 1024);
        for pair in sizes[3..].windows(2) {
            let (padded, least) = (pair[1] as f64, (pair[0] + 1) as f64);
            assert!(least / padded >= 0.65, "{pair:?}");
        }
    }

    #[test]
    fn a_measured_ladder_replaces_the_usual_sizes_as_far_as_it_goes() {
        assert_eq!(bucket_sizes(&[3, 20, 100], 64), [3, 20, 64]);
        assert_eq!(bucket_sizes(&[3, 20, 100], 160), [3, 20, 100, 128, 160]);
    }

    #[test]
    fn candidates_are_close_together() {
        let sizes = candidate_sizes(1024);
        assert_eq!((sizes[..3].to_vec(), sizes.last()), (vec![1, 2, 3], Some(&1024)));
        assert!(sizes.is_sorted_by(|a, b| a < b) && sizes.len() < 120, "{}", sizes.len());
        assert!(sizes[15..].windows(2).all(|pair| pair[1] as f64 / pair[0] as f64 <= 1.13), "{sizes:?}");
        assert_eq!(candidate_sizes(1), [1]);
    }

    /// A device that computes 64 positions at once, and one whose time grows with every position.
    #[test]
    fn buckets_are_where_the_time_steps() {
        let steps = |size: usize| (size, size.div_ceil(64) as f32);
        let times: Vec<(usize, f32)> = candidate_sizes(256).into_iter().map(steps).collect();
        assert_eq!(ladder_with(&times, PADDING), [64, 128, 192, 256]);
        assert_eq!(ladder(&times), [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256]);
        assert_eq!(padding(&times, &ladder(&times)), 0.0);
        let smooth = |size: usize| (size, 10.0 + size as f32);
        let times: Vec<(usize, f32)> = candidate_sizes(512).into_iter().map(smooth).collect();
        let buckets = ladder(&times);
        assert!(buckets.len() < MOST_BUCKETS && padding(&times, &buckets) <= 0.1, "{buckets:?}");
        assert!(padding(&times, &bucket_sizes(&[], 512)) > 0.2, "the usual ladder has more padding");
    }

    /// A smaller size may be slower than a larger one.
    #[test]
    fn a_size_that_is_slower_than_a_larger_one_is_no_bucket() {
        let times = [(1, 2.0), (2, 5.0), (3, 3.0), (4, 3.05), (8, 6.0)];
        assert_eq!(ladder(&times), [1, 4, 8]);
        assert!(padding(&times, &[1, 4, 8]) <= PADDING);
        // A difference as small as that of two measurements decides nothing.
        let times = [(1, 2.01), (2, 2.02), (3, 2.0), (4, 3.0)];
        assert_eq!(ladder(&times), [1, 2, 3, 4]);
        assert_eq!(ladder(&[]), Vec::<usize>::new());
        let times = [(1, 2.2), (2, 2.0), (4, 2.5), (8, 1.95), (16, 4.0)];
        assert_eq!(without_slow_sizes(&times, 1.13), [1, 2, 8, 16]);
    }
}
