//! The batch sizes (buckets) that a forward pass is laid out for.
//!
//! A batch is padded to the smallest bucket that holds it. Small buckets are close together, so that a small batch gets
//! little padding. Each larger bucket is at most 1.5 times the size of the bucket before it, so that at most a third of
//! the work is padding.

/// The sizes of all buckets, up to the largest batch that any option allows.
const BUCKET_SIZES: [usize; 19] =
    [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768, 1024];

/// The bucket sizes for batches of at most `maximum` positions. The last one is `maximum` itself.
pub(super) fn bucket_sizes(maximum: usize) -> Vec<usize> {
    let mut sizes: Vec<usize> = BUCKET_SIZES.into_iter().filter(|&size| size < maximum).collect();
    sizes.push(maximum);
    sizes
}

/// The index of the smallest bucket that holds `positions`; `None` if no bucket does.
pub(super) fn bucket_of(sizes: &[usize], positions: usize) -> Option<usize> {
    let index = sizes.partition_point(|&size| size < positions);
    (index < sizes.len()).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_has_the_smallest_bucket_that_holds_it() {
        for maximum in [1, 3, 16, 100, 256, 1024] {
            let sizes = bucket_sizes(maximum);
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
        let sizes = bucket_sizes(1024);
        for pair in sizes[3..].windows(2) {
            let (padded, least) = (pair[1] as f64, (pair[0] + 1) as f64);
            assert!(least / padded >= 0.65, "{pair:?}");
        }
    }
}
