//! Tuning: finds the fastest algorithm for each GEMM of a network by timing the libraries' proposals.
//!
//! The forward pass of each bucket is laid out once, and [`Gemms`](crate::gemm::gemms::Gemms) records the GEMMs that it
//! requests. A helper process asks the libraries for them and times them ([`crate::helper::probe`]); without a helper, or
//! where no library is used, this process measures them itself. The result is kept in a file.

use super::kept_tables::KeptTable;
use super::notices::{killer_notice, wrong_notices};
use crate::gemm::avoided::BlasLibrary;
use crate::gemm::bytes;
use crate::gemm::gemms::{Effort, GemmChoice, GemmProblem, GemmTable, Measured};
use crate::gemm::measured::extended;
use crate::helper::probe::{WrongGemm, probe};
use crate::helper::report::Request;
use crate::measure::measurer::{Event, Measurer, Wanted};
use crate::options::{GpuOptions, Tuning};
use crate::pass::slot::{SlotMaker, Workspace};
use crate::runtime::choice::GpuChoice;
use crate::runtime::device::Gpu;
use crate::runtime::error::Result;
use crate::runtime::ffi::gemm::{GemmShape, WeightLayout};
use crate::runtime::ffi::hip::Address;
use crate::runtime::ffi::program::Program;
use crate::runtime::maker::Maker;
use crate::table::file;
use crate::table::row::{Origin, Row};
use rukh_base::cache_folder;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How thoroughly and how long to tune, and who listens.
pub(crate) struct Control<'a> {
    pub(crate) effort: Effort,
    /// The time after which no other GEMM is timed.
    pub(crate) budget: Duration,
    /// The same where an earlier start has measured a part of the network's GEMMs.
    pub(crate) later_budget: Duration,
    /// Gets the number of GEMMs that have been measured, and of those to measure. If it returns false, tuning ends
    /// and keeps what it has.
    pub(crate) tell: &'a mut dyn FnMut(usize, usize) -> bool,
}

impl Tuning {
    /// The control of the tuning at a start, on this device.
    pub(crate) fn control<'a>(self, gpu: &Gpu, tell: &'a mut dyn FnMut(usize, usize) -> bool) -> Control<'a> {
        let budget = self.budget(gpu.maker, gpu.opened.elapsed());
        let later_budget = self.later_budget(gpu.maker).min(budget);
        Control { effort: self.effort(), budget, later_budget, tell }
    }
}

/// The outcome of tuning.
pub(crate) struct Tuned {
    /// Messages for the user.
    pub(crate) notices: Vec<String>,
    /// Whether every GEMM of the network has been measured.
    pub(crate) is_settled: bool,
    /// The file of the table, if there is one.
    pub(crate) path: Option<PathBuf>,
    /// The number of GEMMs that were measured now, and of those that are left.
    pub(crate) measured: usize,
    pub(crate) left: usize,
    /// The rows of the file.
    pub(crate) table: GemmTable,
    /// The rows that an earlier start has measured quickly, as they were before this tuning.
    pub(crate) quick: GemmTable,
    /// The rows of the user's files, which have precedence.
    pub(crate) named: GemmTable,
    /// Whether the file may be overwritten.
    pub(crate) may_write: bool,
}

/// The table is written no more often than this while it grows, so that an interrupt loses little.
const BETWEEN_WRITES: Duration = Duration::from_secs(3);

/// Adds the GEMMs that `kept` lacks for the maker's network, writes the table back, and gives it to the maker's
/// dispatcher.
///
/// # Errors
/// The memory and streams for the measurements cannot be made. A GEMM that cannot be measured and a table that
/// cannot be written are not errors.
pub(crate) fn tune(
    maker: &SlotMaker<'_>,
    options: &GpuOptions,
    origin: &Origin,
    kept: KeptTable,
    control: &mut Control<'_>,
) -> Result<Tuned> {
    let begin = Instant::now();
    let KeptTable { mut table, named, path, may_write, mut notices } = kept;
    let before = table.clone();
    let workspace = maker.workspace()?;
    let gemms = network_gemms(maker, &workspace)?;
    // hipBLASLt has not been asked for these GEMMs with these versions, so a helper must ask first.
    let is_unsafe =
        |row: &Row| !row.has_same_versions && row.measured.choice.library() == BlasLibrary::HipblasLt;
    let (later, now): (Vec<_>, Vec<_>) = named.into_iter().partition(|(_, row)| is_unsafe(row));
    let [mut later, mut now] = [later, now]
        .map(|rows| rows.into_iter().map(|(shape, row)| (shape, row.measured)).collect::<GemmTable>());
    let mut refusals = Vec::new();
    for layers in &gemms {
        // A row of the user's replaces one of the cache.
        let rows = if now.contains_key(&layers[0].shape) { &mut now } else { &mut table };
        refusals.extend(refusal(maker, &workspace, rows, layers));
    }
    for shape in without_plain_gemm(&table, &now) {
        table.remove(&shape);
    }
    // If the checked GEMMs fail on the device, the warm-up of the slots meets the error again and reports it.
    let _ = workspace.exchange.stream().synchronize();
    drop(workspace);
    let effort = control.effort;
    let is_quick = |row: &Measured| row.is_timed() && row.effort == Effort::Quick;
    let quick = table.iter().filter(|(_, row)| is_quick(row)).map(|(shape, row)| (*shape, *row)).collect();
    let is_missing = |table: &GemmTable, now: &GemmTable, shape: &GemmShape| {
        !now.contains_key(shape) && table.get(shape).is_none_or(|row| !row.is_enough_for(effort))
    };
    let missing: Vec<Wanted> = gemms
        .iter()
        .map(|layers| Wanted { shape: layers[0].shape, layers: layers.len() })
        .filter(|gemm| is_missing(&table, &now, &gemm.shape))
        .collect();
    let write = |table: &GemmTable| {
        path.as_ref()
            .filter(|_| may_write && *table != before)
            .map(|path| cache_folder::keep_at(path, file::text(origin, table).as_bytes()))
    };
    let (mut measured, mut left) = (0, 0);
    if !missing.is_empty() {
        let earlier = table.clone();
        let mut last_write = Instant::now();
        let Control { budget, later_budget, tell, .. } = control;
        let budget = if missing.len() < gemms.len() { later_budget } else { budget };
        let mut listen = |found: &GemmTable| {
            if last_write.elapsed() >= BETWEEN_WRITES {
                let mut all = earlier.clone();
                merge(&mut all, found.clone());
                // An error is reported at the end.
                let _ = write(&all);
                last_write = Instant::now();
            }
            let is_done =
                |gemm: &&Wanted| found.get(&gemm.shape).is_some_and(|row| row.is_enough_for(effort));
            tell(missing.iter().filter(is_done).count(), missing.len())
        };
        let plan = Plan { missing: &missing, effort, budget: *budget };
        notices.extend(measure(maker, options, origin, &plan, &mut table, &mut listen)?);
        let timed = table.iter().filter(|(shape, row)| {
            row.microseconds > 0.0 && row.microseconds.is_finite() && before.get(shape) != Some(row)
        });
        measured = timed.count();
        left = missing.iter().filter(|gemm| is_missing(&table, &now, &gemm.shape)).count();
        let file = path.as_deref().unwrap_or(Path::new("")).display();
        let kept = write(&table).map(|written| match written {
            Ok(()) => format!(", kept in {file}"),
            Err(error) => format!(", not kept: {file}: {error}"),
        });
        if measured > 0 {
            let mut notice = format!("tuning: {measured} GEMMs in {:.1} s", begin.elapsed().as_secs_f32());
            if left > 0 {
                notice += &format!(", {left} more at the next start");
            }
            notices.push(notice + &kept.unwrap_or_default());
        }
    }
    if options.helper.is_some() {
        maker.gemms.limit_to(Some(table.keys().chain(now.keys()).copied().collect()));
    }
    // A helper has survived the questions for the GEMMs in the table.
    later.retain(|shape, _| options.helper.is_none() || table.contains_key(shape));
    if !later.is_empty() {
        let workspace = maker.workspace()?;
        for layers in &gemms {
            // A helper has survived the usual request, and not a larger one.
            let is_offered = |choice: GemmChoice| {
                matches!(choice, GemmChoice::HipblasLt { solution: None, .. })
                    || maker.gemms.proposals(&layers[0], choice.layout()).contains(&choice)
            };
            let shape = layers[0].shape;
            let unknown = later.get(&shape).map(|row| row.choice).filter(|&choice| !is_offered(choice));
            refusals.extend(match unknown {
                Some(choice) => {
                    later.remove(&shape);
                    Some(not_offered(&shape, choice, maker.gpu.maker))
                }
                None => refusal(maker, &workspace, &mut later, layers),
            });
        }
        let _ = workspace.exchange.stream().synchronize();
    }
    if let Some(first) = refusals.first() {
        notices.push(format!(
            "tuning: {} GEMMs of the table cannot run here, and are measured anew or use the libraries' default (the first: {first})",
            refusals.len()
        ));
    }
    let is_settled = gemms.iter().all(|layers| !is_missing(&table, &now, &layers[0].shape));
    now.extend(later);
    let tuned = Tuned { notices, is_settled, path, measured, left, table, quick, named: now, may_write };
    maker.gemms.set_table(tuned.whole());
    Ok(tuned)
}

impl Tuned {
    /// The rows of both sources.
    pub(crate) fn whole(&self) -> GemmTable {
        extended(&self.table, &self.named)
    }
}

/// The GEMMs that are to be a plain GEMM and a kernel for the epilogue, but the row of the plain GEMM is lost,
/// for example because it was damaged. Without it, nobody knows whether a helper has survived the question for that
/// GEMM.
fn without_plain_gemm(table: &GemmTable, now: &GemmTable) -> Vec<GemmShape> {
    let is_lost = |(shape, row): &(&GemmShape, &Measured)| {
        let plain = shape.without_epilogue();
        let is_split = row.choice.library() == BlasLibrary::Rocblas && **shape != plain;
        is_split && row.is_timed() && !table.contains_key(&plain) && !now.contains_key(&plain)
    };
    table.iter().filter(is_lost).map(|(shape, _)| *shape).collect()
}

/// Adds rows to a table. A row without a time does not replace one with a time, and what was measured as thoroughly
/// before stays: a plain GEMM may be measured again for the sake of one with an epilogue.
fn merge(table: &mut GemmTable, rows: GemmTable) {
    for (shape, row) in rows {
        let replaces = |known: &Measured| row.microseconds.is_finite() && !known.is_enough_for(row.effort);
        if table.get(&shape).is_none_or(replaces) {
            table.insert(shape, row);
        }
    }
}

/// What to measure.
pub(crate) struct Plan<'a> {
    pub(crate) missing: &'a [Wanted],
    pub(crate) effort: Effort,
    pub(crate) budget: Duration,
}

/// Measures the GEMMs of `plan` and adds the rows to the table. `listen` gets the rows that were found so far, again
/// and again, until it returns false. Returns notices for the user.
pub(crate) fn measure(
    maker: &SlotMaker<'_>,
    options: &GpuOptions,
    origin: &Origin,
    plan: &Plan<'_>,
    table: &mut GemmTable,
    listen: &mut dyn FnMut(&GemmTable) -> bool,
) -> Result<Vec<String>> {
    let SlotMaker { gpu, gemms, kernels, network, .. } = maker;
    let Plan { missing, effort, budget } = *plan;
    // Only a library can end the process, so that without one no helper is needed.
    let has_library = [BlasLibrary::Rocblas, BlasLibrary::HipblasLt].into_iter().any(|one| gemms.has(one));
    if let Some(program) = options.helper.as_ref().filter(|_| has_library) {
        let mut request = Request {
            gpu: GpuChoice::Number(gpu.device.ordinal()),
            sources: options.sources(),
            weights: options.weight_bits,
            element: network.element,
            effort,
            budget,
            timeout: options.timeout,
            avoided: gemms.avoided(),
            wanted: missing.to_vec(),
        };
        if let Some(found) = probe(program, &mut request, options.helper_patience, listen) {
            merge(table, found.rows);
            let mut notices = wrong_notices(&found.wrong, gpu.maker);
            let failure = found
                .failure
                .map(|reason| {
                    format!("tuning: {reason}; what was not asked for runs without {}", gpu.maker.blaslt())
                })
                .into_iter();
            notices.extend(failure);
            if !found.killers.is_empty() {
                let kept = request.avoided.keep(&gpu.architecture, &origin.versions);
                notices.extend(killer_notice(&found.killers, &request.avoided, kept.is_ok(), gpu.maker));
                gemms.avoid(request.avoided);
            }
            return Ok(notices);
        }
    }
    let mut measurer = Measurer::new(gpu, gemms, kernels, network.element, (missing, effort))?;
    let mut wrong = Vec::new();
    let mut found = GemmTable::new();
    measurer.measure(missing, budget, |event| {
        match event {
            Event::Begin(..) => {}
            Event::Wrong(asked, shape, how) => {
                wrong.push(WrongGemm { asked, shape: *shape, how: how.to_owned() });
            }
            // A later row is the better one: it has a time, or a faster layout.
            Event::Row(shape, measured) => {
                found.insert(*shape, *measured);
            }
        }
        listen(&found)
    });
    // A GEMM that waits for its time at the next start needs a row only where a helper must have survived it.
    found.retain(|_, row| row.microseconds != Measured::NOT_YET);
    merge(table, found);
    Ok(wrong_notices(&wrong, gpu.maker))
}

/// The GEMMs of the maker's network: for each shape, all layers of that shape. The most important batch sizes come
/// first. No library is asked.
pub(crate) fn network_gemms(maker: &SlotMaker<'_>, workspace: &Workspace) -> Result<Vec<Vec<GemmProblem>>> {
    let mut seen = BTreeSet::new();
    let mut gemms = Vec::new();
    for positions in by_importance(&maker.bucket_sizes()) {
        let problems = maker.gemms.survey(|| maker.program(workspace, positions).map(|_| ()))?;
        let mut shapes: BTreeMap<GemmShape, Vec<GemmProblem>> = BTreeMap::new();
        for problem in problems {
            shapes.entry(problem.shape).or_default().push(problem);
        }
        gemms.extend(shapes.into_iter().filter(|(shape, _)| seen.insert(*shape)).map(|(_, layers)| layers));
    }
    Ok(gemms)
}

/// Removes a table entry that cannot run or is avoided, and returns why it cannot run.
fn refusal(
    maker: &SlotMaker<'_>,
    workspace: &Workspace,
    table: &mut GemmTable,
    layers: &[GemmProblem],
) -> Option<String> {
    let GemmProblem { shape, operands, .. } = layers[0];
    // A GEMM without a time runs with the default, whatever its row says.
    let is_timed = |row: &&Measured| row.is_timed();
    let &Measured { choice, .. } = table.get(&shape).filter(is_timed)?;
    if maker.gemms.avoided().contains(choice.asked(), &shape) {
        // It is measured anew, without that library.
        table.remove(&shape);
        return None;
    }
    let reason = if shape.is_of_bytes() {
        let runs =
            matches!(choice, GemmChoice::Own(own) if bytes::kernel(&shape, maker.kernels, own).is_some());
        (!runs).then(|| not_offered(&shape, choice, maker.gpu.maker))
    } else if choice.layout() == WeightLayout::Bytes && !maker.gemms.may_use_bytes(&shape) {
        Some(format!("{shape}: its weights may not have 8 bits"))
    } else {
        // Where GEMMs use preshuffled weights is chosen later. The kernel is the same.
        let choice = match choice {
            GemmChoice::Own(own) => GemmChoice::Own(own.with_plain_weights()),
            other => other,
        };
        let problem = maker.gemms.with_transposed_weights(&layers[0], choice);
        // Without memory for transposed weights the library's default runs.
        problem.operands_in(choice.layout())?;
        match maker.gemms.step_by_choice("gemm", &problem, choice) {
            Ok(Some(step)) => {
                let program = Program::new(vec![step], Vec::new());
                let enqueued = program.enqueue(workspace.exchange.stream(), &workspace.lanes);
                enqueued.err().map(|error| format!("{shape}: {error}"))
            }
            // rocBLAS has no epilogues, so this entry means a plain GEMM followed by a separate epilogue.
            Ok(None) if matches!(choice, GemmChoice::Rocblas { .. }) => {
                let shape = shape.without_epilogue();
                let plain = GemmProblem::plain(shape, operands, Address::NULL);
                refusal(maker, workspace, table, &[plain])
            }
            Ok(None) => Some(not_offered(&shape, choice, maker.gpu.maker)),
            Err(error) => Some(format!("{shape}: {error}")),
        }
    };
    if reason.is_some() {
        table.remove(&shape);
    }
    reason
}

/// Says that a library lacks the chosen algorithm, or Rukh the kernel.
fn not_offered(shape: &GemmShape, choice: GemmChoice, maker: Maker) -> String {
    let name = choice.asked().name(maker);
    match choice {
        GemmChoice::Rocblas { solution: Some(number), .. }
        | GemmChoice::HipblasLt { solution: Some(number), .. } => {
            format!("{shape}: {name} does not offer algorithm {number}")
        }
        _ => format!("{shape}: {name} does not compute it"),
    }
}

/// Orders batch sizes for a limited time budget: the powers of two come first, and among them the sizes nearest to 128.
fn by_importance(bucket_sizes: &[usize]) -> Vec<usize> {
    let mut bucket_sizes = bucket_sizes.to_vec();
    bucket_sizes.sort_by_key(|&size| {
        let distance = (f64::from(size as u32) / 128.0).log2().abs();
        (!size.is_power_of_two(), (distance * 1000.0) as u64)
    });
    bucket_sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_batch_sizes_come_first() {
        let order = by_importance(&[1, 2, 16, 24, 64, 96, 128, 256, 300]);
        assert_eq!(order, [128, 64, 256, 16, 2, 1, 96, 300, 24]);
    }
}
