//! The batch sizes (buckets) that a forward pass is laid out for.
//!
//! A batch is padded to the smallest bucket that holds it. Small buckets are close together, so that a small batch gets
//! little padding. Each larger bucket is at most 1.5 times the size of the bucket before it, so that at most a third of
//! the work is padding.

/// The sizes of all buckets, up to the largest batch that any option allows.
const LADDER: [usize; 19] = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768, 1024];

/// The bucket sizes for batches of at most `maximum` positions. The last one is `maximum` itself.
pub(super) fn ladder(maximum: usize) -> Vec<usize> {
    let mut rungs: Vec<usize> = LADDER.into_iter().filter(|&rung| rung < maximum).collect();
    rungs.push(maximum);
    rungs
}

/// The index of the smallest bucket that holds `positions`; `None` if no bucket does.
pub(super) fn bucket_of(rungs: &[usize], positions: usize) -> Option<usize> {
    let index = rungs.partition_point(|&rung| rung < positions);
    (index < rungs.len()).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_has_the_smallest_bucket_that_holds_it() {
        for maximum in [1, 3, 16, 100, 256, 1024] {
            let rungs = ladder(maximum);
            assert!(rungs.is_sorted_by(|a, b| a < b) && rungs.last() == Some(&maximum));
            for positions in 1..=maximum {
                let index = bucket_of(&rungs, positions).unwrap();
                assert!(rungs[index] >= positions && (index == 0 || rungs[index - 1] < positions));
            }
            assert_eq!(bucket_of(&rungs, maximum + 1), None);
        }
    }

    #[test]
    fn padding_is_a_third_of_the_work_at_most() {
        let rungs = ladder(1024);
        for pair in rungs[3..].windows(2) {
            let (padded, least) = (pair[1] as f64, (pair[0] + 1) as f64);
            assert!(least / padded >= 0.65, "{pair:?}");
        }
    }
}
