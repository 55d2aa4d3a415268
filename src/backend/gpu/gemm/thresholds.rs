//! From which number of rows on the GEMMs of a layer use preshuffled weights ([`crate::network::preshuffle`]).
//!
//! Where whole evaluations were timed ([`Effort::Passes`]), a GEMM's own row says it instead, so that no other row
//! changes what was timed.

use super::measured::{Effort, GemmChoice, GemmTable};
use crate::runtime::ffi::gemm::{GemmShape, WeightLayout};
use std::collections::{BTreeMap, HashMap};

/// A layer's shape without what depends on the batch size.
fn layer(shape: &GemmShape) -> GemmShape {
    GemmShape { rows: 0, batch_strides: [shape.batch_strides[0], 0, 0], ..*shape }
}

/// Which GEMMs use preshuffled weights.
#[derive(Default)]
pub(crate) struct Thresholds {
    /// For each layer whose weights should be preshuffled, the number of rows from which on GEMMs use them.
    least_rows: HashMap<GemmShape, usize>,
    /// The GEMMs whose rows say whether they do.
    settled: HashMap<GemmShape, bool>,
}

impl Thresholds {
    /// Whether a GEMM of this shape uses preshuffled weights.
    pub(crate) fn include(&self, shape: &GemmShape) -> bool {
        let by_rows = || self.least_rows.get(&layer(shape)).is_some_and(|&rows| shape.rows >= rows);
        self.settled.get(shape).copied().unwrap_or_else(by_rows)
    }
}

/// Chooses the threshold of each layer from what was measured with several numbers of rows. Of the GEMMs with at least
/// so many rows that our own kernels compute fastest, more must be faster with preshuffled weights than without, and
/// the difference is as large as possible. A layer that gains only with a few numbers of rows gets no copy.
pub(crate) fn thresholds(table: &GemmTable) -> Thresholds {
    let mut layers: HashMap<GemmShape, BTreeMap<usize, i32>> = HashMap::new();
    let mut settled = HashMap::new();
    for (shape, measured) in table.iter().filter(|(_, measured)| measured.is_timed()) {
        if let GemmChoice::Own(choice) = measured.choice {
            let is_preshuffled = choice.layout() == WeightLayout::Preshuffled;
            if measured.effort == Effort::Passes {
                settled.insert(*shape, is_preshuffled);
            }
            // Weights of 8 bits are a copy of their own, whatever the layer's other GEMMs read.
            let vote = match choice.layout() {
                WeightLayout::Preshuffled => 1,
                WeightLayout::Plain | WeightLayout::Transposed => -1,
                WeightLayout::Bytes => 0,
            };
            *layers.entry(layer(shape)).or_default().entry(shape.rows).or_default() += vote;
        }
    }
    let threshold = |votes: BTreeMap<usize, i32>| {
        let mut sum = 0;
        // The most rows come first. Of equal differences, the threshold with the most rows counts.
        let sums = votes.into_iter().rev().map(|(rows, vote)| {
            sum += vote;
            (sum, rows)
        });
        let best = sums.fold((0, 0), |best, found| if found.0 > best.0 { found } else { best });
        (best.0 > 0).then_some(best.1)
    };
    let chosen = layers.into_iter().filter_map(|(layer, votes)| Some((layer, threshold(votes)?)));
    Thresholds { least_rows: chosen.collect(), settled }
}

#[cfg(test)]
mod tests {
    use super::super::measured::Measured;
    use super::super::own::OwnChoice;
    use super::*;
    use crate::runtime::ffi::gemm::ElementType;

    fn shape(rows: usize) -> GemmShape {
        GemmShape::plain(rows, 40, 72, ElementType::Fp16)
    }

    /// The numbers of rows that use preshuffled weights, where those in the list were faster with them.
    fn chosen(rows: &[(usize, bool)]) -> Vec<usize> {
        chosen_after(Effort::Full, rows)
    }

    fn chosen_after(effort: Effort, rows: &[(usize, bool)]) -> Vec<usize> {
        let row = |&(rows, is_preshuffled): &(usize, bool)| {
            let layout = if is_preshuffled { WeightLayout::Preshuffled } else { WeightLayout::Plain };
            let choice = OwnChoice::new(0, 1, layout).expect("a tile");
            let choice = GemmChoice::Own(choice);
            (shape(rows), Measured { choice, microseconds: 1.0, error: 0.0, effort })
        };
        let thresholds = thresholds(&rows.iter().map(row).collect());
        rows.iter().map(|(rows, _)| *rows).filter(|&rows| thresholds.include(&shape(rows))).collect()
    }

    #[test]
    fn gemms_from_a_number_of_rows_on_use_preshuffled_weights() {
        let [yes, no] = [true, false];
        assert_eq!(chosen(&[(64, no), (128, yes), (256, yes)]), [128, 256]);
        assert_eq!(
            chosen(&[(64, yes), (128, yes), (256, no), (512, yes), (1024, yes)]),
            [64, 128, 256, 512, 1024]
        );
        assert_eq!(chosen(&[(64, no), (128, yes), (256, no), (512, no)]), [0; 0], "one of three gains");
        assert_eq!(chosen(&[(64, yes), (128, no)]), [0; 0]);
        assert_eq!(chosen(&[]), [0; 0]);
    }

    #[test]
    fn rows_of_whole_evaluations_count_whatever_other_rows_say() {
        let [yes, no] = [true, false];
        let chosen = |rows: &[(usize, bool)]| chosen_after(Effort::Passes, rows);
        assert_eq!(chosen(&[(64, yes), (128, no), (256, no), (512, no)]), [64]);
        assert_eq!(chosen(&[(64, no), (128, yes), (256, no), (512, yes)]), [128, 512]);
    }
}
