//! Stage 4: graphs and parallel branches against single steps, for two inputs in turn.

use super::reporter::Reporter;
use super::subject::Subject;
use crate::pass::arguments::MAXIMUM_MOVES;
use crate::pass::slot::{Requests, Slot, SlotMaker};
use crate::runtime::error::{GpuError, Result};
use rukh_net::input::InputPlanes;
use serde_json::Value;
use std::time::Duration;

/// A way to run a forward pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mode {
    name: &'static str,
    has_graphs: bool,
    forks: bool,
}

const STEPS: Mode = Mode { name: "step by step", has_graphs: false, forks: false };
const MODES: [Mode; 4] = [
    STEPS,
    Mode { name: "by graph", has_graphs: true, forks: false },
    Mode { name: "step by step, forked", has_graphs: false, forks: true },
    Mode { name: "by forked graph", has_graphs: true, forks: true },
];

/// A batch size that includes every batch.
const EVERY_BATCH: usize = 1024;

/// The inputs of the batches that follow one another.
const TURNS: [usize; 4] = [0, 1, 0, 1];

/// The number of batches that each slot evaluates while the others work, too.
const ROUNDS: usize = 24;

/// The figures of a batch, as their bits.
type Figures = Vec<u32>;

pub(super) fn run(subject: &Subject, report: &mut Reporter<'_>) -> Result<()> {
    subject.tune()?.into_iter().for_each(|notice| report.note(notice));
    let maker = subject.maker()?;
    let sizes = maker.bucket_sizes();
    let mut slots = Slots { maker, made: [const { None }; MODES.len()] };
    // From small to large: a search sends mostly small batches, and the largest one may run out of memory.
    for &size in &sizes {
        let inputs = [requests(size, 1), requests(size, 2)];
        let mut expected = None;
        for mode in MODES {
            report.item(&format!("{}, {size} positions", mode.name), |report| {
                if expected.is_none() {
                    expected = Some(slots.expected(&inputs)?);
                }
                let expected = expected.as_ref().map_or(&[][..], |expected| &expected[..]);
                slots.compare(mode, size, &inputs, expected, report)
            });
        }
    }
    for mode in MODES.into_iter().filter(|mode| mode.has_graphs) {
        report.item(&format!("all slots at once, {}", mode.name), |report| {
            let count = subject.maker()?.streams.max(2);
            all_at_once(&mut slots, mode, count, &sizes, report)
        });
    }
    Ok(())
}

/// A slot for each mode, made when it is needed first.
struct Slots<'a> {
    maker: SlotMaker<'a>,
    made: [Option<Slot>; MODES.len()],
}

impl Slots<'_> {
    fn of(&mut self, mode: Mode) -> Result<&mut Slot> {
        let index = MODES.iter().position(|known| *known == mode).unwrap_or(0);
        if self.made[index].is_none() {
            self.made[index] = Some(self.new_slot(mode)?);
        }
        self.made[index].as_mut().ok_or_else(|| GpuError::Unsupported("there is no slot".to_owned()))
    }

    fn new_slot(&self, mode: Mode) -> Result<Slot> {
        let fork = if mode.forks { EVERY_BATCH } else { 0 };
        SlotMaker { has_graphs: mode.has_graphs, fork, ..self.maker }.slot()
    }

    /// The figures of both inputs when they run step by step.
    fn expected(&mut self, inputs: &[Requests; 2]) -> Result<Vec<Figures>> {
        let slot = self.of(STEPS)?;
        inputs.iter().map(|input| figures(slot, input)).collect()
    }

    /// Evaluates both inputs in turn, and adds a row.
    fn compare(
        &mut self,
        mode: Mode,
        size: usize,
        inputs: &[Requests; 2],
        expected: &[Figures],
        report: &mut Reporter<'_>,
    ) -> Result<()> {
        let slot = self.of(mode)?;
        // The first batch of a size runs step by step, and after it the pass is captured.
        figures(slot, &inputs[1])?;
        let mut found = Comparison::default();
        for (turn, &input) in TURNS.iter().enumerate() {
            let what = format!("batch {} in turn, with input {}", turn + 1, ["A", "B"][input]);
            found.add(&what, &figures(slot, &inputs[input])?, &expected[input]);
        }
        let is_captured = !mode.has_graphs || slot.has_graph(size);
        let notice = slot.notice().filter(|_| !is_captured);
        row(mode.name, &size.to_string(), is_captured, &found, notice, report);
        Ok(())
    }
}

/// Lets `count` slots evaluate batches of several sizes at the same time, and adds a row.
fn all_at_once(
    slots: &mut Slots<'_>,
    mode: Mode,
    count: usize,
    sizes: &[usize],
    report: &mut Reporter<'_>,
) -> Result<()> {
    // The largest batches would hide what happens between small ones.
    let sizes = &sizes[..sizes.len().min(4)];
    let inputs: Vec<[Requests; 2]> =
        sizes.iter().map(|&size| [requests(size, 1), requests(size, 2)]).collect();
    let expected: Vec<Vec<Figures>> =
        inputs.iter().map(|inputs| slots.expected(inputs)).collect::<Result<_>>()?;
    // The slots of single modes are not needed any more.
    slots.made = [const { None }; MODES.len()];
    let mut together: Vec<Slot> = (0..count).map(|_| slots.new_slot(mode)).collect::<Result<_>>()?;
    together.iter_mut().enumerate().try_for_each(|(index, slot)| slot.warm_up(index == 0, Duration::MAX))?;
    let work = &|number: usize, slot: &mut Slot| -> Result<Comparison> {
        slot.make_current()?;
        let mut found = Comparison::default();
        for round in 0..ROUNDS {
            let (size, input) = ((round / 2 + number) % inputs.len(), (round + number) % 2);
            let what = format!("slot {number}, round {}, {} positions", round + 1, sizes[size]);
            found.add(&what, &figures(slot, &inputs[size][input])?, &expected[size][input]);
        }
        Ok(found)
    };
    let outcomes: Vec<Result<Comparison>> = std::thread::scope(|scope| {
        let start = |(number, slot)| scope.spawn(move || work(number, slot));
        let threads: Vec<_> = together.iter_mut().enumerate().map(start).collect();
        let panicked = || Err(GpuError::Unsupported("a thread panicked".to_owned()));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
    });
    let mut found = Comparison::default();
    for outcome in outcomes {
        found.join(outcome?);
    }
    let is_captured = together.iter().all(|slot| sizes.iter().all(|&size| slot.has_graph(size)));
    let notice = together.iter().find_map(Slot::notice).filter(|_| !is_captured);
    let text: Vec<String> = sizes.iter().map(usize::to_string).collect();
    row(
        &format!("{count} slots at once, {}", mode.name),
        &text.join(" "),
        is_captured,
        &found,
        notice,
        report,
    );
    Ok(())
}

/// The differences that were found.
#[derive(Default)]
struct Comparison {
    batches: usize,
    /// The number of figures that differ.
    different: usize,
    /// The largest difference.
    largest: f32,
    /// The first difference, in words.
    first: Option<String>,
}

impl Comparison {
    fn add(&mut self, what: &str, found: &Figures, expected: &Figures) {
        self.batches += 1;
        for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
            if found == expected {
                continue;
            }
            let (found, expected) = (f32::from_bits(*found), f32::from_bits(*expected));
            let difference = (found - expected).abs();
            self.different += 1;
            self.largest = if difference.is_nan() { f32::INFINITY } else { self.largest.max(difference) };
            self.first
                .get_or_insert_with(|| format!("{what}: figure {index} is {found} instead of {expected}"));
        }
    }

    fn join(&mut self, other: Comparison) {
        self.batches += other.batches;
        self.different += other.different;
        self.largest = self.largest.max(other.largest);
        self.first = self.first.take().or(other.first);
    }
}

fn row(
    how: &str,
    positions: &str,
    is_captured: bool,
    found: &Comparison,
    notice: Option<String>,
    report: &mut Reporter<'_>,
) {
    let verdict = match (found.different, is_captured) {
        (0, true) => "right",
        (0, false) => "not captured",
        _ => "different",
    };
    let details: Vec<String> = found.first.clone().into_iter().chain(notice).collect();
    let cells = [
        ("how", how.into()),
        ("positions", positions.into()),
        ("batches", found.batches.into()),
        ("different figures", found.different.into()),
        ("largest difference", crate::runtime::numbers::short(f64::from(found.largest))),
        ("verdict", verdict.into()),
        ("detail", if details.is_empty() { Value::Null } else { details.join("; ").into() }),
    ];
    report.row("graphs", cells);
}

/// The bits of all figures of a batch.
fn figures(slot: &mut Slot, requests: &Requests) -> Result<Figures> {
    let mut bits = Vec::new();
    slot.evaluate(requests, |answer| {
        let figures = [answer.q, answer.d, answer.m, answer.error_logit.unwrap_or(0.0)];
        bits.extend(figures.into_iter().chain(answer.priors()).map(f32::to_bits));
    })?;
    Ok(bits)
}

/// A batch of `size` different positions, with as many moves as real positions have. Only the variety of the positions
/// matters, so that they need not be legal.
fn requests(size: usize, seed: u64) -> Requests {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut number = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    };
    let mut requests = Requests::default();
    for _ in 0..size {
        // Each plane has two pieces on average.
        let masks = std::array::from_fn(|_| (0..5).fold(u64::MAX, |mask, _| mask & number()));
        let planes = InputPlanes { masks, rule50_value: (number() % 100) as f32 };
        let count = number() as usize % 60 + 1;
        let moves: Vec<u16> = (0..count.min(MAXIMUM_MOVES)).map(|_| (number() % 1858) as u16).collect();
        requests.push(&planes, moves);
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_counted_and_the_first_is_named() {
        let bits = |figures: [f32; 3]| figures.map(f32::to_bits).to_vec();
        let mut found = Comparison::default();
        found.add("one", &bits([1.0, 2.0, 3.0]), &bits([1.0, 2.0, 3.0]));
        assert_eq!((found.batches, found.different), (1, 0));
        found.add("two", &bits([1.0, 2.5, f32::NAN]), &bits([1.0, 2.0, 3.0]));
        assert_eq!((found.different, found.largest), (2, f32::INFINITY));
        assert_eq!(found.first.as_deref(), Some("two: figure 1 is 2.5 instead of 2"));
    }
}
