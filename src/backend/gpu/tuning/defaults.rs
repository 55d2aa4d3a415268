//! The last step of `rukh tune`: whole evaluations with the tuned GEMMs beside whole evaluations with the default's.
//!
//! A GEMM that is faster alone can be slower within an evaluation, where other kernels run before it and other
//! batches beside it. So each batch size is timed with both in turn, on the host's clock and with batches in flight, as
//! in a search. The tuned GEMMs must win by more than noise: otherwise the table gets the default's for that size,
//! which are what a start without `rukh tune` measures quickly. A batch size of such a start that the measured ladder
//! lacks is compared with the next size of the ladder, and becomes part of it unless the ladder wins.

use super::choices::{Plan, Tuned, measure, network_gemms};
use super::load::start_positions;
use super::passes::time_of_a_batch;
use super::two_ways::{TwoWays, default_rows, settled};
use crate::gemm::gemms::{Effort, GemmTable};
use crate::measure::measurer::{Wanted, median};
use crate::options::GpuOptions;
use crate::pass::buckets::{bucket_of, bucket_sizes};
use crate::pass::slot::{Requests, Slot, SlotMaker};
use crate::runtime::error::Result;
use crate::runtime::ffi::gemm::GemmShape;
use crate::table::file;
use crate::table::row::Origin;
use rukh_base::cache_folder;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

/// The first part of the names of the files that keep what the comparison found, and the first word of their lines.
const NAME: &str = "defaults";
const FIRST_WORD: &str = "kept";

/// The slots are made anew so often, because two starts with the same GEMMs differ by some per cent, and each time
/// every batch size is timed in both ways so often.
const SETS: usize = 3;
const ROUNDS_OF_A_SET: usize = 5;
const ROUNDS: usize = SETS * ROUNDS_OF_A_SET;

/// The fewest rounds after which the result counts.
const LEAST_ROUNDS: usize = 5;

/// The most time for measuring the default's GEMMs, and for the evaluations.
const MOST_QUICK: Duration = Duration::from_secs(30);
const MOST_PASSES: Duration = Duration::from_secs(45);

/// The tuned GEMMs must be faster by this factor in the median of the rounds, and faster in so many of four rounds:
/// with GEMMs of the same speed, 12 of 15 rounds are won by chance in two of a hundred cases.
const FASTER: f32 = 1.01;
const ROUNDS_OF_FOUR: usize = 3;

/// What the comparison found.
pub(crate) struct Compared {
    /// The batch sizes that keep the default's GEMMs, in positions, in ascending order.
    pub(crate) sizes: Vec<usize>,
    /// The ladder of batch sizes, with those of the default's that are faster than the ladder's next ones.
    pub(crate) ladder: Vec<usize>,
    /// Messages for the user.
    pub(crate) notices: Vec<String>,
}

/// The batch sizes that keep the default's GEMMs, if the comparison was made under `key`.
pub(crate) fn kept(key: &str) -> Option<Vec<usize>> {
    sizes_of(&cache_folder::kept_line(NAME, key)?)
}

fn sizes_of(line: &str) -> Option<Vec<usize>> {
    let mut words = line.split(' ');
    let is_known = words.next() == Some(FIRST_WORD);
    words.map(|size| size.parse().ok()).collect::<Option<_>>().filter(|_| is_known)
}

fn line_of(sizes: &[usize]) -> String {
    let sizes = sizes.iter().map(ToString::to_string);
    std::iter::once(FIRST_WORD.to_owned()).chain(sizes).collect::<Vec<_>>().join(" ")
}

/// Keeps the table, and that the comparison was made.
///
/// # Errors
/// There is no cache folder, or a file cannot be written.
pub(crate) fn keep(key: &str, sizes: &[usize], origin: &Origin, tuned: &Tuned) -> io::Result<()> {
    if let Some(path) = tuned.path.as_ref().filter(|_| tuned.may_write) {
        cache_folder::keep_at(path, file::text(origin, &tuned.table).as_bytes())?;
    }
    cache_folder::keep_line(NAME, key, &line_of(sizes))
}

/// A batch of so many positions in both ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pair {
    /// The size of the batch, for which the default has a pass.
    positions: usize,
    /// The size of the pass that the measured ladder has for it.
    bucket: usize,
}

/// Times evaluations of each of the maker's batch sizes, and of each that a start without a table has, in both ways, in
/// turn, with batches in flight as in a search. Unless those of the table win, puts the default's rows into the table.
/// GEMMs that several batch sizes share, and those of the user's files, stay. Returns `None` if the time was too
/// short, or `tell` has returned false, in which case nothing changes.
///
/// # Errors
/// The memory for the slots is missing, or a pass fails.
pub(crate) fn compare(
    maker: &SlotMaker<'_>,
    options: &GpuOptions,
    origin: &Origin,
    tuned: &mut Tuned,
    (left, tell): (Duration, &mut dyn FnMut(usize, usize) -> bool),
) -> Result<Option<Compared>> {
    let ladder = maker.bucket_sizes();
    let usual = bucket_sizes(&[], maker.maximum_batch);
    let all: BTreeSet<usize> = ladder.iter().chain(&usual).copied().collect();
    let all: Vec<usize> = all.into_iter().collect();
    let maker = SlotMaker { ladder: &all, ..*maker };
    let wanted = usual_first(&maker, &usual)?;
    let missing: Vec<Wanted> =
        wanted.iter().filter(|gemm| !tuned.quick.contains_key(&gemm.shape)).copied().collect();
    let steps = missing.len() + ROUNDS;
    let mut quick = tuned.quick.clone();
    if !missing.is_empty() {
        let plan = Plan { missing: &missing, effort: Effort::Quick, budget: (left / 2).min(MOST_QUICK) };
        let mut goes_on = true;
        let mut listen = |found: &GemmTable| {
            let done = found.values().filter(|row| row.microseconds.is_finite()).count();
            goes_on &= tell(done.min(missing.len()), steps);
            goes_on
        };
        // What is wrong with the libraries is known from the tuning.
        measure(&maker, options, origin, &plan, &mut quick, &mut listen)?;
        if !goes_on {
            return Ok(None);
        }
    }
    let mut notices = Vec::new();
    let is_untimed = |gemm: &&Wanted| quick.get(&gemm.shape).is_none_or(|row| !row.microseconds.is_finite());
    let untimed = wanted.iter().filter(is_untimed).count();
    if untimed > 0 {
        notices.push(format!(
            "tuning: the time was too short for {untimed} of the default's GEMMs, so that the tuned ones stand in \
             for them in the comparison with the default"
        ));
    }
    let ways = ways(&maker, tuned, &quick)?;
    let pairs: Vec<Pair> = all
        .iter()
        .filter_map(|&positions| Some(Pair { positions, bucket: ladder[bucket_of(&ladder, positions)?] }))
        .filter(|pair| pair.positions != pair.bucket || ways.differ(pair.positions))
        .collect();
    let mut tell = |round| tell(missing.len() + round, steps);
    let outcome = times(&maker, &tuned.whole(), &ways, &pairs, &mut tell);
    maker.gemms.set_table(tuned.whole());
    let Some(times) = outcome? else { return Ok(None) };
    let of_default = pairs.iter().zip(&times).filter(|(_, [table, default])| !wins(table, default));
    let kept: BTreeSet<usize> = of_default.map(|(pair, _)| pair.positions).collect();
    let rows = ways.rows(&kept).into_iter().filter(|(shape, _)| !tuned.named.contains_key(shape));
    tuned.table.extend(rows);
    maker.gemms.set_table(tuned.whole());
    let ladder: BTreeSet<usize> = ladder.iter().chain(&kept).copied().collect();
    Ok(Some(Compared { sizes: kept.into_iter().collect(), ladder: ladder.into_iter().collect(), notices }))
}

/// The GEMMs of all batch sizes of the maker. Those of the `usual` sizes, which a start without a table has, come
/// first.
fn usual_first(maker: &SlotMaker<'_>, usual: &[usize]) -> Result<Vec<Wanted>> {
    let workspace = maker.workspace()?;
    let mut seen = BTreeSet::new();
    let mut wanted = Vec::new();
    for ladder in [usual, maker.ladder] {
        for layers in network_gemms(&SlotMaker { ladder, ..*maker }, &workspace)? {
            let shape = layers[0].shape;
            if seen.insert(shape) {
                wanted.push(Wanted { shape, layers: layers.len() });
            }
        }
    }
    Ok(wanted)
}

/// The tuned GEMMs and the default's, with the layouts of the weights that starts with each of them would use.
fn ways(maker: &SlotMaker<'_>, tuned: &Tuned, quick: &GemmTable) -> Result<TwoWays> {
    let workspace = maker.workspace()?;
    let mut users: BTreeMap<GemmShape, BTreeSet<usize>> = BTreeMap::new();
    for positions in maker.bucket_sizes() {
        for problem in maker.gemms.survey(|| maker.program(&workspace, positions).map(|_| ()))? {
            for shape in [problem.shape, problem.shape.without_epilogue()] {
                users.entry(shape).or_default().insert(positions);
            }
        }
    }
    let whole = tuned.whole();
    let settle = |table: &GemmTable| {
        maker.gemms.set_table(table.clone());
        settled(table, |shape| maker.gemms.prefers_preshuffled(shape))
    };
    let default = settle(&default_rows(&users, (quick, &whole, &tuned.named)));
    let mut tuned_rows = settle(&whole);
    tuned_rows.retain(|shape, _| users.contains_key(shape));
    Ok(TwoWays::new(users, tuned_rows, default))
}

/// For each pair the milliseconds of its batches with the table and with the default's rows, one after the other in
/// each round; `None` if there are too few rounds. A pair whose tuned GEMMs cannot win any more is timed no longer.
fn times(
    maker: &SlotMaker<'_>,
    whole: &GemmTable,
    ways: &TwoWays,
    pairs: &[Pair],
    tell: &mut dyn FnMut(usize) -> bool,
) -> Result<Option<Vec<[Vec<f32>; 2]>>> {
    let mut times = vec![[Vec::new(), Vec::new()]; pairs.len()];
    let begin = Instant::now();
    for set in 0..SETS {
        let is_open: Vec<bool> = times.iter().map(|[table, default]| may_win(table, default)).collect();
        let open = || pairs.iter().zip(&is_open).filter(|(_, is_open)| **is_open).map(|(pair, _)| pair);
        let sizes: BTreeSet<usize> = open().flat_map(|pair| [pair.positions, pair.bucket]).collect();
        let Some(&largest) = sizes.last() else { break };
        let sizes: Vec<usize> = sizes.into_iter().collect();
        let maker = SlotMaker { ladder: &sizes, maximum_batch: largest, ..*maker };
        let use_table = |_| maker.gemms.set_table(ways.tuned(whole));
        let use_default = |_| maker.gemms.set_table(ways.default(whole));
        let slot = |_| maker.slot_in_two_ways(use_table, use_default);
        let mut slots = (0..maker.streams.max(1)).map(slot).collect::<Result<Vec<Slot>>>()?;
        // The first batch of a size runs step by step, and the second one captures the graph, so that the first round
        // of the slots does not count.
        for round in 0..=ROUNDS_OF_A_SET {
            let done = set * ROUNDS_OF_A_SET + round.saturating_sub(1);
            let open = pairs.iter().zip(&mut times).zip(&is_open).filter(|(_, is_open)| **is_open);
            for ((pair, times), _) in open {
                if !tell(done) {
                    return Ok(None);
                }
                // Which way comes first alternates, because the second one may find a faster clock.
                let is_even = done.is_multiple_of(2);
                for is_default in [!is_even, is_even] {
                    let time = time_in_a_way(&mut slots, &maker, pair, is_default)?;
                    if round > 0 {
                        times[usize::from(is_default)].push(time);
                    }
                }
            }
            if begin.elapsed() > MOST_PASSES {
                let rounds = set * ROUNDS_OF_A_SET + round;
                return Ok((rounds >= LEAST_ROUNDS).then_some(times));
            }
        }
    }
    Ok(Some(times))
}

/// The milliseconds of a batch in one of the two ways of the slots. The tuned way pads it to the ladder's size.
fn time_in_a_way(slots: &mut [Slot], maker: &SlotMaker<'_>, pair: &Pair, is_default: bool) -> Result<f32> {
    let size = if is_default { pair.positions } else { pair.bucket };
    let batch: Requests = start_positions(size, maker);
    if is_default {
        slots.iter_mut().for_each(Slot::change_ways);
    }
    let time = time_of_a_batch(slots, &batch, 1);
    if is_default {
        slots.iter_mut().for_each(Slot::change_ways);
    }
    time
}

/// The number of rounds in which the first of two times is the shorter one.
fn won(with_table: &[f32], by_default: &[f32]) -> usize {
    with_table.iter().zip(by_default).filter(|(table, default)| table < default).count()
}

/// Whether evaluations with the table are faster than with the default's rows by more than noise.
fn wins(with_table: &[f32], by_default: &[f32]) -> bool {
    let rounds = with_table.len().min(by_default.len());
    let gains =
        with_table.iter().zip(by_default).map(|(table, default)| default / table.max(f32::MIN_POSITIVE));
    let is_faster = median(gains.collect()).is_some_and(|gain| gain >= FASTER);
    is_faster && 4 * won(with_table, by_default) >= ROUNDS_OF_FOUR * rounds
}

/// Whether the table can still win enough of all rounds.
fn may_win(with_table: &[f32], by_default: &[f32]) -> bool {
    let rounds = with_table.len().min(by_default.len());
    4 * (won(with_table, by_default) + ROUNDS.saturating_sub(rounds)) >= ROUNDS_OF_FOUR * ROUNDS
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: [f32; 6] = [4.0, 4.2, 4.1, 4.0, 4.3, 4.1];

    #[test]
    fn the_tuned_gemms_must_win_by_more_than_noise() {
        let by = |factor: f32| DEFAULT.map(|time| time * factor);
        assert!(wins(&by(0.96), &DEFAULT));
        assert!(!wins(&by(0.995), &DEFAULT), "half a per cent is noise");
        assert!(!wins(&DEFAULT, &DEFAULT), "a tie goes to the default");
        assert!(!wins(&by(1.05), &DEFAULT));
        // Two thirds of the rounds are far faster, and the others not at all.
        assert!(!wins(&[2.0, 4.3, 2.0, 4.1, 2.0, 2.0], &DEFAULT));
        assert!(!wins(&[], &[]));
    }

    /// The medians of the times would be equal: the clock is slower in half of the rounds.
    #[test]
    fn the_two_times_of_a_round_are_compared_with_each_other() {
        let default = [4.0, 8.0, 4.0, 8.0, 4.0, 8.0, 4.0];
        assert!(wins(&default.map(|time| time * 0.97), &default));
        assert!(!wins(&default.map(|time| time * 1.03), &default));
    }

    #[test]
    fn a_batch_size_is_timed_until_its_tuned_gemms_cannot_win() {
        assert!(may_win(&[], &[]));
        let times = |lost: usize| [vec![5.0; lost], vec![4.0; lost]];
        for (lost, is_open) in [(1, true), (3, true), (4, false), (9, false)] {
            let [table, default] = times(lost);
            assert_eq!(may_win(&table, &default), is_open, "{lost} of {ROUNDS}");
        }
    }

    #[test]
    fn the_sizes_that_keep_the_default_are_read_as_they_are_written() {
        for sizes in [&[][..], &[4], &[1, 4, 512]] {
            assert_eq!(sizes_of(&line_of(sizes)).as_deref(), Some(sizes));
        }
        // Earlier versions kept their number.
        for other in ["1", "", "kept 4 x", "kept "] {
            assert_eq!(sizes_of(other), None, "{other:?}");
        }
    }
}
