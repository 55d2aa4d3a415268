//! Tuning: finds the fastest algorithm for each matrix product of a network by timing the libraries' proposals.
//!
//! The forward pass of each bucket is laid out once, and [`Gemms`] records the products that it requests. Each shape is
//! then timed with each proposal, as a graph that cycles through the layers of that shape. These layers have different
//! weights, so the caches hold no larger part of the weights than during a forward pass. The result is kept in a file.

use super::cache;
use super::error::Result;
use super::ffi::gemm::{Epilogue, GemmShape};
use super::ffi::hip::Address;
use super::ffi::program::{Program, Step, Stopwatch};
use super::ffi::rocblas;
use super::gemm::{GemmChoice, GemmProblem, GemmTable, Measured};
use super::options::{RocmOptions, Tuning};
use super::slot::{SlotMaker, Workspace};
use super::steps::StepList;
use super::tuning_file;
use crate::net::architecture::Activation;
use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::Instant;

/// The most launches in a timed graph. A short product is launched many times, because events have a resolution of half
/// a microsecond.
const MOST_LAUNCHES: usize = 16;

/// The intended duration of a timed graph, in microseconds.
const GRAPH_MICROSECONDS: f32 = 300.0;

/// A proposal is timed again only if its first time is at most this multiple of the best first time.
const FINALIST_RATIO: f32 = 1.15;

/// The number of proposals that are timed again, and the number of runs of each.
const FINALISTS: usize = 3;
const FINAL_RUNS: usize = 4;

/// Reads the table of tuned products, adds the products that it lacks for the maker's network, and writes it back.
/// Returns notices for the user.
///
/// # Errors
/// The memory and streams for the measurements cannot be made. A product that cannot be measured and a table that
/// cannot be written are not errors.
pub(super) fn tune(maker: &SlotMaker<'_>, options: &RocmOptions) -> Result<Vec<String>> {
    let mut notices = Vec::new();
    let key = key(maker);
    let path = options.tuning_file.clone().or_else(|| default_path(maker, &key));
    let (table, may_write) = match path.as_ref().map(fs::read_to_string) {
        Some(Ok(text)) => match tuning_file::parse(&key, &text) {
            Ok(table) => (table, true),
            Err(reason) => {
                let path = path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
                notices.push(format!("tuning file {path} is ignored: {reason}"));
                // The table in the cache folder may be overwritten, but not a file that the user named.
                (GemmTable::new(), options.tuning_file.is_none())
            }
        },
        _ => (GemmTable::new(), true),
    };
    let workspace = maker.workspace()?;
    let mut tuner = Tuner {
        maker,
        stopwatch: Stopwatch::new(maker.gpu.device)?,
        workspace,
        tuning: options.tuning,
        begin: Instant::now(),
        table,
        measured: 0,
        left: 0,
        refused: 0,
    };
    tuner.all_buckets()?;
    let Tuner { table, measured, left, refused, begin, .. } = tuner;
    if refused > 0 {
        notices.push(format!(
            "tuning: {refused} products of the table cannot run here, and use the libraries' default"
        ));
    }
    if measured > 0 {
        let mut notice = format!("tuning: {measured} products in {:.1} s", begin.elapsed().as_secs_f32());
        if left > 0 {
            notice += &format!(", {left} more at the next start");
        }
        let kept = path.filter(|_| may_write).map(|path| {
            let written = cache::keep(&path, tuning_file::text(&key, &table).as_bytes());
            match written {
                Ok(()) => format!(", kept in {}", path.display()),
                Err(error) => format!(", not kept: {}: {error}", path.display()),
            }
        });
        notices.push(notice + &kept.unwrap_or_default());
    }
    maker.gemms.set_table(table);
    Ok(notices)
}

/// The device and library versions that a table is valid for, as text.
fn key(maker: &SlotMaker<'_>) -> String {
    let gpu = maker.gpu;
    let hip = gpu.device.runtime_version().unwrap_or(0);
    let rocblas = gpu.rocblas.and_then(|library| rocblas::version(library).ok()).unwrap_or_default();
    let hipblaslt = maker.gemms.hipblaslt_version().unwrap_or(0);
    let (name, architecture, units) = (&gpu.name, &gpu.architecture, gpu.compute_units);
    format!("{name},{architecture},{units} units,HIP {hip},rocBLAS {rocblas},hipBLASLt {hipblaslt}")
        .replace(['\n', '\r'], " ")
}

fn default_path(maker: &SlotMaker<'_>, key: &str) -> Option<PathBuf> {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let name = format!("products-{}-{:016x}.csv", maker.gpu.architecture, hasher.finish());
    Some(cache::folder()?.join(name))
}

struct Tuner<'a> {
    maker: &'a SlotMaker<'a>,
    stopwatch: Stopwatch,
    workspace: Workspace,
    tuning: Tuning,
    begin: Instant,
    table: GemmTable,
    /// The number of shapes that were measured.
    measured: usize,
    /// The number of shapes that the time budget left out.
    left: usize,
    /// The number of table entries that cannot run.
    refused: usize,
}

impl Tuner<'_> {
    fn all_buckets(&mut self) -> Result<()> {
        let bucket_sizes = self.maker.bucket_sizes();
        // Products of zeros are faster than products of real numbers, so a forward pass first fills all buffers.
        if let Some(&largest) = bucket_sizes.last() {
            let program = self.maker.program(&self.workspace, largest)?;
            // An error of this pass is ignored, because the warm-up of the slots meets it again and reports it.
            let _ = program.enqueue(self.workspace.exchange.stream(), &self.workspace.lanes);
            let _ = self.workspace.exchange.stream().synchronize();
        }
        for positions in by_importance(&bucket_sizes) {
            let maker = self.maker;
            let problems = maker.gemms.survey(|| maker.program(&self.workspace, positions).map(|_| ()))?;
            let mut shapes: BTreeMap<GemmShape, Vec<GemmProblem>> = BTreeMap::new();
            for problem in problems {
                shapes.entry(problem.shape).or_default().push(problem);
            }
            for (shape, layers) in shapes {
                if self.table.contains_key(&shape) {
                    self.check(&shape, &layers);
                } else if self.begin.elapsed() > self.tuning.budget() {
                    self.left += 1;
                } else if let Some(measured) = self.fastest(&layers) {
                    self.table.insert(shape, measured);
                    self.measured += 1;
                }
            }
        }
        Ok(())
    }

    /// Removes a table entry that cannot run.
    fn check(&mut self, shape: &GemmShape, layers: &[GemmProblem]) {
        let Some(Measured { choice, .. }) = self.table.get(shape).copied() else {
            return;
        };
        let runs = match self.steps(&layers[..1], choice, 1) {
            Some(program) => program.enqueue(self.workspace.exchange.stream(), &self.workspace.lanes).is_ok(),
            // rocBLAS has no epilogues, so this entry means a plain product followed by a separate epilogue.
            None => matches!(choice, GemmChoice::Rocblas { .. }),
        };
        if !runs {
            self.table.remove(shape);
            self.refused += 1;
        }
    }

    /// Finds the fastest choice for a shape. `layers` are all products of that shape. Returns `None` if no choice could
    /// be measured.
    fn fastest(&mut self, layers: &[GemmProblem]) -> Option<Measured> {
        let candidates = self.maker.gemms.candidates(&layers[0], self.tuning.proposals());
        let pilot = candidates.iter().find_map(|&choice| self.microseconds(layers, choice, 2, 1))?;
        let launches = ((GRAPH_MICROSECONDS / pilot.max(0.1)) as usize).clamp(2, MOST_LAUNCHES);
        let mut timed: Vec<Measured> = candidates
            .into_iter()
            .filter_map(|choice| {
                let microseconds = self.microseconds(layers, choice, launches, 1)?;
                Some(Measured { choice, microseconds })
            })
            .collect();
        let by_time = |a: &Measured, b: &Measured| a.microseconds.total_cmp(&b.microseconds);
        timed.sort_by(by_time);
        let limit = timed.first()?.microseconds * FINALIST_RATIO;
        let finalists = timed.into_iter().take_while(|one| one.microseconds <= limit).take(FINALISTS);
        let again = finalists.map(|first| {
            let again = self.microseconds(layers, first.choice, launches, FINAL_RUNS);
            Measured { microseconds: again.unwrap_or(f32::INFINITY).min(first.microseconds), ..first }
        });
        let best = again.min_by(by_time)?;
        let split = self.split(layers, launches);
        Some(split.filter(|split| split.microseconds < best.microseconds).unwrap_or(best))
    }

    /// Times a plain product of rocBLAS followed by our own epilogue kernel.
    fn split(&mut self, layers: &[GemmProblem], launches: usize) -> Option<Measured> {
        let GemmProblem { shape, operands, bias } = layers[0];
        if !self.maker.gemms.may_split(&shape) {
            return None;
        }
        let activation = match shape.epilogue {
            Epilogue::None => return None,
            Epilogue::Bias => Activation::None,
            Epilogue::BiasRelu => Activation::Relu,
            Epilogue::BiasSwish => Activation::Swish,
        };
        let plain_shape = GemmShape { epilogue: Epilogue::None, ..shape };
        let plain: Vec<GemmProblem> = layers
            .iter()
            .map(|&layer| GemmProblem { shape: plain_shape, bias: Address::NULL, ..layer })
            .collect();
        if !self.table.contains_key(&plain_shape) {
            let measured = self.fastest(&plain)?;
            self.table.insert(plain_shape, measured);
        }
        let product = self.table.get(&plain_shape)?.microseconds;
        let SlotMaker { network, kernels, gemms, .. } = self.maker;
        let mut steps = StepList::new(1, network.element, kernels, gemms, None);
        for _ in 0..launches {
            let size = (shape.rows, shape.outputs);
            steps.activate("epilogue", operands.y, bias, size, activation).ok()?;
        }
        let epilogue = self.time(&Program::new(steps.finish().0, Vec::new()), 1)? / launches as f32;
        let choice = GemmChoice::Rocblas { solution: None };
        Some(Measured { choice, microseconds: product + epilogue })
    }

    /// The time of one product.
    fn microseconds(
        &mut self,
        layers: &[GemmProblem],
        choice: GemmChoice,
        launches: usize,
        runs: usize,
    ) -> Option<f32> {
        let program = self.steps(layers, choice, launches)?;
        Some(self.time(&program, runs)? / launches as f32)
    }

    fn steps(&self, layers: &[GemmProblem], choice: GemmChoice, launches: usize) -> Option<Program> {
        let some = layers.iter().cycle().take(launches);
        let steps: Option<Vec<Step>> =
            some.map(|layer| self.maker.gemms.step_by("product", layer, choice).ok().flatten()).collect();
        Some(Program::new(steps?, Vec::new()))
    }

    fn time(&mut self, program: &Program, runs: usize) -> Option<f32> {
        let Workspace { exchange, lanes, .. } = &self.workspace;
        let enqueue = || program.enqueue(exchange.stream(), lanes);
        let time = self.stopwatch.milliseconds(exchange.stream(), runs, enqueue).ok()?;
        Some(time * 1e3)
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
