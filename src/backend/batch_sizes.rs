//! The sizes to which a device pads batches, so that the search can fill a batch as far as that is free.

use std::sync::Arc;

/// The sizes to which a device pads batches, in positions, ascending. All clones share them.
#[derive(Clone, Debug, Default)]
pub struct BatchSizes(Arc<[usize]>);

impl BatchSizes {
    /// The ascending `sizes` of a device.
    pub fn new(sizes: impl IntoIterator<Item = usize>) -> BatchSizes {
        BatchSizes(sizes.into_iter().collect())
    }

    /// The size to which the device pads a batch of `positions`; `positions` itself if the device pads no batch, or none
    /// that is so large.
    pub fn padded(&self, positions: usize) -> usize {
        self.0.iter().copied().find(|&size| size >= positions).unwrap_or(positions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_padded_to_the_next_size() {
        let sizes = BatchSizes::new([1, 8, 16, 24]);
        assert_eq!(
            [0, 1, 2, 8, 17, 24, 25].map(|positions| sizes.padded(positions)),
            [1, 1, 8, 8, 24, 24, 25]
        );
        assert_eq!(BatchSizes::default().padded(3), 3);
    }
}
