//! Two ways to compute the GEMMs of each batch size: by the tuned table, and by the default's, which is what a start
//! without `rukh tune` measures quickly. Which of them a table keeps for a batch size.

use crate::gemm::measured::{Effort, GemmChoice, GemmTable, Measured, extended};
use crate::runtime::ffi::gemm::{GemmShape, WeightLayout};
use std::collections::{BTreeMap, BTreeSet};

/// The rows of both ways, each as whole evaluations would be timed with it.
pub(crate) struct TwoWays {
    /// For each GEMM, the batch sizes that need it, in positions.
    users: BTreeMap<GemmShape, BTreeSet<usize>>,
    tuned: GemmTable,
    default: GemmTable,
}

/// The rows of the default's way, before the layouts of the weights are settled: those of `quick`. A GEMM that
/// several batch sizes need has its tuned row in both ways, and so have the GEMMs of `named`, which are the user's,
/// and those that `quick` lacks.
pub(crate) fn default_rows(
    users: &BTreeMap<GemmShape, BTreeSet<usize>>,
    (quick, tuned, named): (&GemmTable, &GemmTable, &GemmTable),
) -> GemmTable {
    let row = |(shape, sizes): (&GemmShape, &BTreeSet<usize>)| {
        let is_free = sizes.len() == 1 && !named.contains_key(shape);
        let found = quick.get(shape).filter(|row| is_free && row.is_timed());
        // A GEMM and a step after it need the row of the plain GEMM.
        let is_split =
            |row: &Measured| matches!(row.choice, GemmChoice::Rocblas { .. }) && shape.has_epilogue();
        let has_plain = [quick, tuned].iter().any(|table| table.contains_key(&shape.without_epilogue()));
        let found = found.filter(|row| has_plain || !is_split(row));
        found.or_else(|| tuned.get(shape)).map(|row| (*shape, *row))
    };
    users.iter().filter_map(row).collect()
}

/// The rows with the layouts of the weights that `prefers_preshuffled` says for our own kernels. Other rows change
/// nothing about them.
pub(crate) fn settled(rows: &GemmTable, prefers_preshuffled: impl Fn(&GemmShape) -> bool) -> GemmTable {
    let settled = rows.iter().filter(|(_, row)| row.is_timed()).map(|(shape, row)| {
        let choice = match row.choice {
            GemmChoice::Own(own) if own.layout() != WeightLayout::Bytes => {
                let changed = own.with_layout(WeightLayout::Preshuffled);
                let changed = changed.filter(|_| prefers_preshuffled(shape));
                GemmChoice::Own(changed.unwrap_or_else(|| own.with_plain_weights()))
            }
            other => other,
        };
        (*shape, Measured { choice, effort: Effort::Passes, ..*row })
    });
    settled.collect()
}

impl TwoWays {
    /// Both tables are [`settled`].
    pub(crate) fn new(
        users: BTreeMap<GemmShape, BTreeSet<usize>>,
        tuned: GemmTable,
        mut default: GemmTable,
    ) -> TwoWays {
        // A GEMM that several batch sizes share reads the same weights in both ways.
        let shared = users.iter().filter(|(_, sizes)| sizes.len() > 1);
        for (shape, row) in shared.filter_map(|(shape, _)| Some((*shape, *tuned.get(shape)?))) {
            default.insert(shape, row);
        }
        TwoWays { users, tuned, default }
    }

    /// `whole` with the rows of the tuned way.
    pub(crate) fn tuned(&self, whole: &GemmTable) -> GemmTable {
        extended(whole, &self.tuned)
    }

    /// `whole` with the rows of the default's way.
    pub(crate) fn default(&self, whole: &GemmTable) -> GemmTable {
        extended(&self.tuned(whole), &self.default)
    }

    /// Whether the two ways differ in a GEMM of batches of so many positions.
    pub(crate) fn differ(&self, positions: usize) -> bool {
        let choice = |table: &GemmTable, shape: &GemmShape| table.get(shape).map(|row| row.choice);
        let mut of_size = self.users.iter().filter(|(_, sizes)| sizes.contains(&positions));
        of_size.any(|(shape, _)| choice(&self.tuned, shape) != choice(&self.default, shape))
    }

    /// The rows to keep: the default's for the batch sizes in `kept`, and the tuned ones for all others.
    pub(crate) fn rows(&self, kept: &BTreeSet<usize>) -> GemmTable {
        let row = |(shape, sizes): (&GemmShape, &BTreeSet<usize>)| {
            let table = if sizes.is_subset(kept) { &self.default } else { &self.tuned };
            table.get(shape).map(|row| (*shape, *row))
        };
        self.users.iter().filter_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemm::own::OwnChoice;
    use crate::gemm::thresholds::thresholds;
    use crate::runtime::ffi::gemm::ElementType;

    fn shape(rows: usize) -> GemmShape {
        GemmShape::plain(rows, 40, 72, ElementType::Fp16)
    }

    fn own(tile: usize, layout: WeightLayout) -> Measured {
        let choice = GemmChoice::Own(OwnChoice::new(tile, 1, layout).expect("a tile"));
        Measured { choice, microseconds: 1.0, error: 0.0, effort: Effort::Full }
    }

    fn library() -> Measured {
        Measured { choice: GemmChoice::ROCBLAS, ..own(0, WeightLayout::Plain) }
    }

    fn users(sizes: &[(usize, &[usize])]) -> BTreeMap<GemmShape, BTreeSet<usize>> {
        sizes.iter().map(|(rows, sizes)| (shape(*rows), sizes.iter().copied().collect())).collect()
    }

    /// Settles a table as the dispatcher would use it.
    fn settle(table: &GemmTable) -> GemmTable {
        let thresholds = thresholds(table);
        settled(table, |shape| thresholds.include(shape))
    }

    fn layouts(table: &GemmTable) -> Vec<(usize, bool)> {
        let thresholds = thresholds(table);
        table.keys().map(|shape| (shape.rows, thresholds.include(shape))).collect()
    }

    /// With the default's row for 4 positions, the layer would lose its preshuffled weights if its rows were counted.
    #[test]
    fn the_default_of_a_batch_size_changes_the_weights_of_no_other() {
        use WeightLayout::{Plain, Preshuffled};
        let users = users(&[(64, &[1]), (256, &[4]), (1024, &[16])]);
        let [free, copied] = [own(0, Plain), own(1, Preshuffled)];
        let whole = GemmTable::from([(shape(64), free), (shape(256), copied), (shape(1024), copied)]);
        let quick = GemmTable::from([(shape(64), free), (shape(256), free), (shape(1024), free)]);
        assert_eq!(layouts(&whole), [(64, false), (256, true), (1024, true)]);
        let named = GemmTable::new();
        let default = default_rows(&users, (&quick, &whole, &named));
        let ways = TwoWays::new(users, settle(&whole), settle(&default));
        assert_eq!([1, 4, 16].map(|size| ways.differ(size)), [false, true, true]);
        assert_eq!(layouts(&ways.default(&whole)), [(64, false), (256, false), (1024, false)]);

        let kept = extended(&whole, &ways.rows(&BTreeSet::from([4])));
        assert_eq!(layouts(&kept), [(64, false), (256, false), (1024, true)]);
        assert_eq!(kept[&shape(256)].choice, free.choice);
        let none = extended(&whole, &ways.rows(&BTreeSet::new()));
        assert_eq!(layouts(&none), layouts(&whole));
        // What is in the table now is what the next comparison starts from.
        assert_eq!(settle(&kept), kept);
    }

    /// A GEMM with the plain weights of a layer whose other GEMMs are preshuffled by the count of rows.
    #[test]
    fn a_tuned_gemm_keeps_the_layout_that_was_timed() {
        use WeightLayout::{Plain, Preshuffled};
        let [plain, copied] = [own(0, Plain), own(1, Preshuffled)];
        let whole = GemmTable::from([
            (shape(32), copied),
            (shape(64), copied),
            (shape(128), plain),
            (shape(256), copied),
            (shape(512), copied),
        ]);
        let settled = settle(&whole);
        assert!(matches!(settled[&shape(128)].choice, GemmChoice::Own(own) if own.layout() == Preshuffled));
        assert_eq!(layouts(&settled), [32, 64, 128, 256, 512].map(|rows| (rows, true)));
    }

    #[test]
    fn shared_and_named_gemms_and_those_without_a_time_are_tuned_in_both_ways() {
        let users = users(&[(64, &[1, 64]), (128, &[2]), (256, &[4]), (512, &[8])]);
        let tuned = own(2, WeightLayout::Plain);
        let whole: GemmTable = [64, 128, 256, 512].map(|rows| (shape(rows), tuned)).into();
        let never = Measured { microseconds: Measured::NOT_YET, ..library() };
        let quick = GemmTable::from([
            (shape(64), library()),
            (shape(128), library()),
            (shape(256), never),
            (shape(512), library()),
        ]);
        let named = GemmTable::from([(shape(128), tuned)]);
        let default = default_rows(&users, (&quick, &whole, &named));
        let ways = TwoWays::new(users, settle(&whole), settle(&default));
        assert_eq!([1, 64, 2, 4, 8].map(|size| ways.differ(size)), [false, false, false, false, true]);
        let rows = ways.rows(&BTreeSet::from([1, 8]));
        assert_eq!((rows[&shape(64)].choice, rows[&shape(512)].choice), (tuned.choice, library().choice));
    }
}
