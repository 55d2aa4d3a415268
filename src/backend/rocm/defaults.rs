//! The last step of `rukh tune`: whole passes with the tuned products beside whole passes with the default's.
//!
//! A product that is faster alone can be slower within a pass, where other kernels run before it and other batches
//! beside it. So each batch size is timed with both in turn, and where the tuned products lose, the table keeps those of
//! the default: what a start without a table measures quickly.

use super::buckets::bucket_sizes;
use super::error::Result;
use super::ffi::gemm::{Epilogue, GemmShape};
use super::gemm::{Effort, GemmTable, Measured};
use super::load::start_positions;
use super::measure::{Wanted, median};
use super::measured::{GemmChoice, extended};
use super::options::RocmOptions;
use super::passes::time_of_a_batch_on_device;
use super::slot::{Requests, Slot, SlotMaker};
use super::thresholds::thresholds;
use super::tuning::{Plan, Tuned, measure, products};
use super::tuning_file::{self, Origin};
use crate::cache_folder;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

/// The first part of the names of the files that keep whether the comparison was made.
const NAME: &str = "defaults";

/// How often each batch size is timed in both ways, and the fewest times after which the result counts.
const ROUNDS: usize = 9;
const LEAST_ROUNDS: usize = 5;

/// The most time for measuring the default's products, and for the passes.
const MOST_QUICK: Duration = Duration::from_secs(12);
const MOST_PASSES: Duration = Duration::from_secs(20);

/// A pass that takes longer by this factor is slower. Smaller differences are noise.
const SLOWER: f32 = 1.01;

/// The number of batch sizes that keep the default's products, if the comparison was made under `key`.
pub(super) fn kept(key: &str) -> Option<usize> {
    cache_folder::kept_line(NAME, key)?.parse().ok()
}

/// Keeps the table, and that the comparison was made.
///
/// # Errors
/// There is no cache folder, or a file cannot be written.
pub(super) fn keep(key: &str, count: usize, origin: &Origin, tuned: &Tuned) -> io::Result<()> {
    if let Some(path) = tuned.path.as_ref().filter(|_| tuned.may_write && count > 0) {
        cache_folder::keep(path, tuning_file::text(origin, &tuned.table).as_bytes())?;
    }
    cache_folder::keep_line(NAME, key, &count.to_string())
}

/// A batch size, and the default's rows for its products where they differ from the tuned ones.
struct Candidate {
    positions: usize,
    rows: GemmTable,
}

/// Times passes of each of the maker's batch sizes in both ways, in turn, with batches in flight as in a search. Where
/// those of the table are slower, puts the default's rows into the table. Products that several batch sizes share, and
/// those of the user's files, stay. Returns the number of batch sizes that keep the default's products; `None` if the time
/// was too short, or `tell` has returned false, in which case nothing changes.
///
/// # Errors
/// The memory for the slots is missing, or a pass fails.
pub(super) fn compare(
    maker: &SlotMaker<'_>,
    options: &RocmOptions,
    origin: &Origin,
    tuned: &mut Tuned,
    (left, tell): (Duration, &mut dyn FnMut(usize, usize) -> bool),
) -> Result<Option<usize>> {
    let wanted = usual_first(maker)?;
    let all = wanted.len() + ROUNDS;
    let mut quick = GemmTable::new();
    let plan = Plan { missing: &wanted, effort: Effort::Quick, budget: (left / 2).min(MOST_QUICK) };
    let mut goes_on = true;
    let mut listen = |found: &GemmTable| {
        let done = found.values().filter(|row| row.microseconds.is_finite()).count();
        goes_on &= tell(done.min(wanted.len()), all);
        goes_on
    };
    // What is wrong with the libraries is known from the tuning.
    measure(maker, options, origin, &plan, &mut quick, &mut listen)?;
    if !goes_on {
        return Ok(None);
    }
    let candidates = candidates(maker, tuned, &quick)?;
    let mut tell = |round| tell(wanted.len() + round, all);
    let outcome = times(maker, tuned, &candidates, &mut tell);
    let whole = tuned.whole();
    maker.gemms.set_table(whole);
    let Some(times) = outcome? else { return Ok(None) };
    let mut count = 0;
    for (candidate, [with_table, by_default]) in candidates.iter().zip(&times) {
        if is_slower(with_table, by_default) && accept(tuned, &candidate.rows) {
            count += 1;
        }
    }
    maker.gemms.set_table(tuned.whole());
    Ok(Some(count))
}

/// The products of all batch sizes. Those of the sizes that a start without a table has come first.
fn usual_first(maker: &SlotMaker<'_>) -> Result<Vec<Wanted>> {
    let workspace = maker.workspace()?;
    let usual = bucket_sizes(&[], maker.maximum_batch);
    let mut ladder = maker.bucket_sizes();
    let all = ladder.clone();
    ladder.retain(|size| usual.contains(size));
    let mut seen = BTreeSet::new();
    let mut wanted = Vec::new();
    for ladder in [&ladder, &all] {
        for layers in products(&SlotMaker { ladder, ..*maker }, &workspace)? {
            let shape = layers[0].shape;
            if seen.insert(shape) {
                wanted.push(Wanted { shape, layers: layers.len() });
            }
        }
    }
    Ok(wanted)
}

/// The batch sizes whose products the default computes in another way, as far as no other batch size has them.
fn candidates(maker: &SlotMaker<'_>, tuned: &Tuned, quick: &GemmTable) -> Result<Vec<Candidate>> {
    let workspace = maker.workspace()?;
    let mut users: BTreeMap<GemmShape, BTreeSet<usize>> = BTreeMap::new();
    for positions in maker.bucket_sizes() {
        for problem in maker.gemms.survey(|| maker.program(&workspace, positions).map(|_| ()))? {
            for shape in [problem.shape, plain(&problem.shape)] {
                users.entry(shape).or_default().insert(positions);
            }
        }
    }
    let mut rows: BTreeMap<usize, GemmTable> = BTreeMap::new();
    for (shape, sizes) in users {
        let (Some(&positions), 1, false) = (sizes.first(), sizes.len(), tuned.named.contains_key(&shape))
        else {
            continue;
        };
        let Some(row) = quick.get(&shape).filter(|row| row.is_timed()) else { continue };
        // A product and a step after it need the row of the plain product.
        let is_split = matches!(row.choice, GemmChoice::Rocblas { .. }) && shape != plain(&shape);
        let has_plain = [quick, &tuned.table].iter().any(|table| table.contains_key(&plain(&shape)));
        let is_new = tuned.table.get(&shape).is_none_or(|known| known.choice != row.choice);
        if is_new && (has_plain || !is_split) {
            // The next tuning must not measure the product again.
            let row = Measured { effort: Effort::Full, ..*row };
            rows.entry(positions).or_default().insert(shape, row);
        }
    }
    Ok(rows.into_iter().map(|(positions, rows)| Candidate { positions, rows }).collect())
}

/// The product without its epilogue.
fn plain(shape: &GemmShape) -> GemmShape {
    GemmShape { epilogue: Epilogue::None, ..*shape }
}

/// For each candidate the milliseconds of its passes with the table and with the default's rows, one after the other in
/// each round; `None` if there are too few.
fn times(
    maker: &SlotMaker<'_>,
    tuned: &Tuned,
    candidates: &[Candidate],
    tell: &mut dyn FnMut(usize) -> bool,
) -> Result<Option<Vec<[Vec<f32>; 2]>>> {
    let mut times = vec![[Vec::new(), Vec::new()]; candidates.len()];
    if candidates.is_empty() {
        return Ok(Some(times));
    }
    let sizes: Vec<usize> = candidates.iter().map(|candidate| candidate.positions).collect();
    let maker = SlotMaker { ladder: &sizes, ..*maker };
    let whole = tuned.whole();
    let use_table = |_| maker.gemms.set_table(whole.clone());
    let use_default = |positions| {
        let candidate = candidates.iter().find(|candidate| candidate.positions == positions);
        maker.gemms.set_table(candidate.map_or_else(|| whole.clone(), |it| extended(&whole, &it.rows)));
    };
    let slot = |_| maker.slot_in_two_ways(use_table, use_default);
    let mut slots = (0..maker.streams.max(1)).map(slot).collect::<Result<Vec<Slot>>>()?;
    let batches: Vec<Requests> = sizes.iter().map(|&size| start_positions(size, &maker)).collect();
    let begin = Instant::now();
    // In the first round, the first batch of a size runs step by step, and the second one captures the graph.
    for round in 0..=ROUNDS {
        for (times, batch) in times.iter_mut().zip(&batches) {
            if !tell(round.saturating_sub(1)) {
                return Ok(None);
            }
            // Which way comes first alternates, because the second one may find a faster clock.
            let is_default_first = round % 2 == 1;
            for is_default in [is_default_first, !is_default_first] {
                if is_default {
                    slots.iter_mut().for_each(Slot::change_ways);
                }
                let time = time_of_a_batch_on_device(&mut slots, batch)?;
                if is_default {
                    slots.iter_mut().for_each(Slot::change_ways);
                }
                if round > 0 {
                    times[usize::from(is_default)].push(time);
                }
            }
        }
        if begin.elapsed() > MOST_PASSES {
            return Ok((round >= LEAST_ROUNDS).then_some(times));
        }
    }
    Ok(Some(times))
}

/// Whether passes with the table are slower than with the default's rows by more than noise: in the median, and in at
/// least two thirds of the rounds.
fn is_slower(with_table: &[f32], by_default: &[f32]) -> bool {
    let rounds = with_table.len().min(by_default.len());
    let lost = with_table.iter().zip(by_default).filter(|(table, default)| table > default).count();
    let medians = median(with_table.to_vec()).zip(median(by_default.to_vec()));
    3 * lost >= 2 * rounds && medians.is_some_and(|(table, default)| table > default * SLOWER)
}

/// Puts the rows into the table, unless products of other batch sizes would then read other weights: where a layer's
/// weights are preshuffled depends on all of its rows.
fn accept(tuned: &mut Tuned, rows: &GemmTable) -> bool {
    let table = extended(&tuned.table, rows);
    let whole = extended(&table, &tuned.named);
    let (before, after) = (thresholds(&tuned.whole()), thresholds(&whole));
    let others = whole
        .iter()
        .filter(|(shape, row)| !rows.contains_key(*shape) && matches!(row.choice, GemmChoice::Own(_)));
    let is_local = others.into_iter().all(|(shape, _)| before.include(shape) == after.include(shape));
    if is_local {
        tuned.table = table;
    }
    is_local
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_stays_only_where_it_is_faster_by_more_than_noise() {
        let table = [4.0, 4.2, 4.1, 4.0, 4.3, 4.1];
        let by = |factor: f32| table.map(|time| time * factor);
        assert!(is_slower(&table, &by(0.96)));
        assert!(!is_slower(&table, &by(0.995)), "half a per cent is noise");
        assert!(!is_slower(&table, &by(1.05)));
        // Half of the rounds are far slower, and the others not at all.
        assert!(!is_slower(&table, &[2.0, 4.3, 2.0, 4.1, 2.0, 4.2]));
        assert!(!is_slower(&[], &[]));
    }
}
