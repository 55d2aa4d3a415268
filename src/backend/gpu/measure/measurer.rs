//! Asks the BLAS libraries for a GEMM's algorithms, and times them.
//!
//! A GEMM is timed as a graph that cycles through as many layers of its shape as the network has. These layers have
//! different weights, so the caches hold no larger part of the weights than during a forward pass. The matrices hold
//! numbers of an ordinary size, because GEMMs of zeros are faster. Before a choice is timed, some of its results are
//! compared with what they must be ([`super::samples`]). The same code runs in a helper process and, where
//! there is none, in the engine.

use super::matrices::Matrices;
pub(crate) use super::matrices::Wanted;
use super::samples::{Contents, Difference, Samples, pattern};
use crate::gemm::avoided::{Asked, BlasLibrary};
use crate::gemm::bytes;
use crate::gemm::gemms::{Effort, GemmChoice, GemmProblem, GemmTable, Gemms, Measured};
use crate::gemm::own;
use crate::network::preshuffle;
use crate::pass::steps::StepList;
use crate::runtime::device::Gpu;
use crate::runtime::error::Result;
use crate::runtime::ffi::gemm::{ElementType, GemmShape, WeightLayout};
use crate::runtime::ffi::hip::{Address, DeviceBuffer};
use crate::runtime::ffi::pinned::Staging;
use crate::runtime::ffi::program::{Lanes, Prepared, Program, Step, Stopwatch};
use crate::runtime::ffi::stream::Stream;
use crate::runtime::kernels::Kernels;
use std::time::{Duration, Instant};

/// The most launches in a timed graph. A short GEMM is launched many times, because events have a resolution of half
/// a microsecond.
const MOST_LAUNCHES: usize = 16;

/// The intended duration of a timed graph, in microseconds.
const GRAPH_MICROSECONDS: f32 = 300.0;

/// A proposal is timed again only if its first time is at most this multiple of the best first time.
const FINALIST_RATIO: f32 = 1.15;

/// The number of each library's other kernels that are timed with the first choices, after all of them were timed
/// briefly, with so many GEMMs each.
const MOST_SOLUTIONS: usize = 4;
const BRIEF_LAUNCHES: usize = 4;

/// What happens during the measurements.
pub(crate) enum Event<'a> {
    /// The library is about to be asked for the GEMM, or to run it.
    Begin(Asked, &'a GemmShape),
    /// An algorithm has computed a wrong result, and is left out. The text names the first wrong element.
    Wrong(Asked, &'a GemmShape, &'a str),
    /// A row of the table.
    Row(&'a GemmShape, &'a Measured),
}

/// The times of a GEMM's choices.
#[derive(Default)]
struct Times {
    /// How often the GEMM runs in a timed graph, once that is known.
    launches: Option<usize>,
    timed: Vec<Measured>,
}

/// The device, the streams and the memory of the measurements.
pub(crate) struct Measurer<'a> {
    gemms: &'a Gemms,
    kernels: &'a Kernels,
    element: ElementType,
    lanes: Lanes,
    stopwatch: Stopwatch,
    stream: Stream,
    matrices: Matrices,
    staging: Staging,
    contents: Contents,
    effort: Effort,
    table: GemmTable,
    /// Whether somebody still listens.
    goes_on: bool,
}

impl<'a> Measurer<'a> {
    /// Allocates streams, handles and memory for `wanted`.
    pub(crate) fn new(
        gpu: &Gpu,
        gemms: &'a Gemms,
        kernels: &'a Kernels,
        element: ElementType,
        (wanted, effort): (&[Wanted], Effort),
    ) -> Result<Measurer<'a>> {
        let device = gpu.device;
        let stream = Stream::new(device)?;
        let mut contents = Contents::new(element);
        if let Some(gemm) = wanted.iter().find(|gemm| gemm.shape.is_of_bytes()) {
            contents = contents.and(gemm.shape.input_type, element);
        }
        Ok(Measurer {
            gemms,
            kernels,
            element,
            lanes: Lanes::new(device, &stream, 0, gemms.libraries(gpu))?,
            stopwatch: Stopwatch::new(device)?,
            stream,
            matrices: Matrices::new(device, gemms, element, wanted)?,
            staging: Staging::new(device)?,
            contents,
            effort,
            table: GemmTable::new(),
            goes_on: true,
        })
    }

    /// Asks the libraries for every GEMM, and then times the GEMMs in their order until `budget` is spent or
    /// `tell` returns false. With [`Effort::Quick`], transposed weights are tried last, for all GEMMs that there is
    /// still time for.
    pub(crate) fn measure(
        &mut self,
        wanted: &[Wanted],
        budget: Duration,
        mut tell: impl FnMut(Event<'_>) -> bool,
    ) {
        wanted.iter().for_each(|gemm| self.ask(gemm, &mut tell));
        let begin = Instant::now();
        for gemm in wanted {
            if begin.elapsed() > budget || !self.goes_on {
                return;
            }
            let done = self.table.get(&gemm.shape).is_some_and(|row| row.microseconds.is_finite());
            if done {
                continue;
            }
            let measured = self.fastest(gemm, &mut tell);
            let measured = measured.unwrap_or_else(|| self.never(&gemm.shape));
            self.row(&gemm.shape, measured, &mut tell);
        }
        if self.effort != Effort::Quick {
            return;
        }
        for gemm in wanted {
            if begin.elapsed() > budget || !self.goes_on {
                return;
            }
            self.try_transposed(gemm, &mut tell);
        }
    }

    fn row(&mut self, shape: &GemmShape, measured: Measured, tell: &mut impl FnMut(Event<'_>) -> bool) {
        self.table.insert(*shape, measured);
        self.goes_on &= tell(Event::Row(shape, &measured));
    }

    fn measured(&self, choice: GemmChoice, microseconds: f32) -> Measured {
        Measured { choice, microseconds, error: 0.0, effort: self.effort }
    }

    fn untimed(&self, shape: &GemmShape) -> Measured {
        if shape.is_of_bytes() {
            let choice = own::whole_choices(shape, self.gemms.multiprocessors()).into_iter().next();
            return self.measured(choice.map_or(GemmChoice::ROCBLAS, GemmChoice::Own), Measured::NOT_YET);
        }
        let choice = self.gemms.choice(shape).unwrap_or(GemmChoice::ROCBLAS);
        self.measured(choice, Measured::NOT_YET)
    }

    /// The row of a GEMM that no choice computes.
    fn never(&self, shape: &GemmShape) -> Measured {
        Measured { microseconds: Measured::NEVER, ..self.untimed(shape) }
    }

    /// Asks hipBLASLt for a GEMM. If it cannot add the epilogue, asks for the plain GEMM too, which the engine
    /// then needs.
    fn ask(&mut self, gemm: &Wanted, tell: &mut impl FnMut(Event<'_>) -> bool) {
        let Wanted { shape, layers } = gemm;
        if self.table.contains_key(shape) {
            return;
        }
        if shape.is_of_bytes() {
            self.row(shape, self.untimed(shape), tell);
            return;
        }
        tell(Event::Begin(Asked::plain(BlasLibrary::HipblasLt), shape));
        let problem = self.matrices.problem(self.gemms, shape, 0);
        let proposals = self.gemms.proposals(&problem, WeightLayout::Plain);
        self.row(shape, self.untimed(shape), tell);
        if proposals.is_empty() && shape.has_epilogue() {
            let plain = shape.without_epilogue();
            self.ask(&Wanted { shape: plain, layers: *layers }, tell);
        }
    }

    /// The GEMM with the weights of each layer, as far as there is memory for them. The preshuffled weights are there
    /// after [`Measurer::preshuffle`].
    pub(crate) fn layers(&self, gemm: &Wanted) -> Vec<GemmProblem> {
        self.matrices.layers(self.gemms, gemm)
    }

    /// Makes the preshuffled weights of a GEMM's layers. Returns whether there are any.
    ///
    /// # Errors
    /// The kernel fails.
    pub(crate) fn preshuffle(&self, layers: &[GemmProblem]) -> Result<bool> {
        let copied = |problem: &GemmProblem| {
            let function = self.gemms.preshuffler(&problem.shape)?;
            let GemmProblem { shape, operands, preshuffled, .. } = problem;
            let has_room = *preshuffled != Address::NULL;
            has_room.then(|| preshuffle::step(function, shape, operands.weights, *preshuffled))
        };
        let steps: Vec<Step> = layers.iter().filter_map(copied).collect();
        let is_possible = !steps.is_empty();
        Program::new(steps, Vec::new()).enqueue(&self.stream, &self.lanes)?;
        self.stream.synchronize()?;
        Ok(is_possible)
    }

    /// Makes the weights of 8 bits of a GEMM's layers. Returns whether there are any.
    fn round_weights(&mut self, layers: &[GemmProblem]) -> Result<bool> {
        let pattern = pattern(self.element);
        self.matrices.round_weights(&mut self.staging, &layers[0].shape, layers.len(), &pattern)
    }

    /// Finds the fastest choice for a GEMM whose results are right. Returns `None` if there is none.
    fn fastest(&mut self, gemm: &Wanted, tell: &mut impl FnMut(Event<'_>) -> bool) -> Option<Measured> {
        let shape = gemm.shape;
        let layers = self.layers(gemm);
        if shape.is_of_bytes() {
            return self.fastest_of_bytes(&layers, tell);
        }
        let is_of_bytes = |choice: &GemmChoice| choice.layout() == WeightLayout::Bytes;
        let (bytes, own): (Vec<_>, Vec<_>) =
            self.gemms.own_choices(&shape).into_iter().partition(is_of_bytes);
        // Where the user wants weights of 8 bits, no others are tried.
        let has_others = !self.gemms.must_use_bytes(&shape);
        let mut candidates =
            if has_others { self.of_libraries(&layers, WeightLayout::Plain, tell) } else { Vec::new() };
        candidates.extend(own);
        let samples = Samples::new(&shape, WeightLayout::Plain, &self.contents);
        let mut times = Times::default();
        self.time_each(&layers, candidates, &samples, &mut times, tell);
        let preshuffled = self.preshuffled_choices(&shape, &times.timed);
        if !preshuffled.is_empty() && self.preshuffle(&layers).unwrap_or(false) {
            self.time_each(&layers, preshuffled, &samples, &mut times, tell);
        }
        if !bytes.is_empty() && self.round_weights(&layers).unwrap_or(false) {
            let samples = Samples::new(&shape, WeightLayout::Bytes, &self.contents);
            self.time_each(&layers, bytes, &samples, &mut times, tell);
        }
        if self.effort == Effort::Full && has_others {
            self.time_transposed(&layers, &mut times, tell);
        }
        let launches = times.launches.unwrap_or(2);
        let best = self.best(&layers, times.timed, launches, tell);
        // The GEMM of a library that cannot add the epilogue, or adds a wrong one, may still be right.
        let may_split = self.gemms.may_split(&shape) || self.effort == Effort::Full || best.is_none();
        let split = (may_split && has_others).then(|| self.split(gemm, launches, tell)).flatten();
        best.into_iter().chain(split).min_by(Measured::by_worth)
    }

    /// Finds the fastest tile for a GEMM of 8-bit numbers whose results are right.
    fn fastest_of_bytes(
        &mut self,
        layers: &[GemmProblem],
        tell: &mut impl FnMut(Event<'_>) -> bool,
    ) -> Option<Measured> {
        let shape = &layers[0].shape;
        let choices = bytes::choices(shape, self.kernels, self.gemms.multiprocessors());
        let choices = choices.into_iter().map(GemmChoice::Own).collect();
        let samples = Samples::new(shape, WeightLayout::Plain, &self.contents);
        let mut times = Times::default();
        self.time_each(layers, choices, &samples, &mut times, tell);
        let launches = times.launches.unwrap_or(2);
        self.best(layers, times.timed, launches, tell)
    }

    /// The step that computes a GEMM with `choice`; `None` if it cannot.
    fn step(&self, layer: &GemmProblem, choice: GemmChoice) -> Result<Option<Step>> {
        let GemmProblem { shape, operands, bias, .. } = layer;
        match choice {
            GemmChoice::Own(own) if shape.is_of_bytes() => {
                let scales = self.matrices.scales();
                let launch = bytes::launch(shape, (*operands, *bias), scales, self.kernels, own);
                Ok(launch.map(|((function, grid), arguments)| {
                    Step::kernel("gemm".to_owned(), function, grid, arguments)
                }))
            }
            _ => self.gemms.step_by_choice("gemm", layer, choice),
        }
    }

    /// The libraries' choices for a GEMM with weights of this layout.
    fn of_libraries(
        &mut self,
        layers: &[GemmProblem],
        layout: WeightLayout,
        tell: &mut impl FnMut(Event<'_>) -> bool,
    ) -> Vec<GemmChoice> {
        let shape = &layers[0].shape;
        tell(Event::Begin(Asked::new(BlasLibrary::HipblasLt, layout), shape));
        let mut choices = self.gemms.library_choices(&layers[0], layout, self.effort.proposals());
        if self.effort == Effort::Full {
            let more = self.gemms.more_proposals(&layers[0], layout);
            choices.extend(self.fastest_of(layers, more, tell));
        }
        if self.effort == Effort::Full && self.gemms.may_use_rocblas(shape, layout) {
            tell(Event::Begin(Asked::new(BlasLibrary::Rocblas, layout), shape));
            // A rocBLAS that fails to list its kernels can still choose one itself.
            let operands = layers[0].operands_in(layout);
            let solutions = operands.and_then(|operands| self.lanes.rocblas_solutions(shape, &operands).ok());
            let solutions = solutions.unwrap_or_default().into_iter();
            let solutions =
                solutions.map(|solution| GemmChoice::Rocblas { solution: Some(solution), layout });
            choices.extend(self.fastest_of(layers, solutions.collect(), tell));
        }
        choices
    }

    /// Adds the times of the libraries' choices with transposed weights.
    fn time_transposed(
        &mut self,
        layers: &[GemmProblem],
        times: &mut Times,
        tell: &mut impl FnMut(Event<'_>) -> bool,
    ) {
        let choices = self.of_libraries(layers, WeightLayout::Transposed, tell);
        if !choices.is_empty() {
            let samples = Samples::new(&layers[0].shape, WeightLayout::Transposed, &self.contents);
            self.time_each(layers, choices, &samples, times, tell);
        }
    }

    /// Replaces the choice of a GEMM that was measured with other layouts, if a library is faster with transposed
    /// weights.
    fn try_transposed(&mut self, gemm: &Wanted, tell: &mut impl FnMut(Event<'_>) -> bool) {
        let shape = gemm.shape;
        let known = self.table.get(&shape).filter(|row| row.is_timed() && !shape.is_of_bytes()).copied();
        let Some(known) = known.filter(|_| !self.gemms.must_use_bytes(&shape)) else { return };
        let layers = self.layers(gemm);
        let mut times = Times { launches: Some(launches(known.microseconds)), timed: Vec::new() };
        self.time_transposed(&layers, &mut times, tell);
        if times.timed.is_empty() {
            return;
        }
        // A plain GEMM that is followed by a kernel of its own for the epilogue is not timed again.
        let is_split = known.choice.library() == BlasLibrary::Rocblas && shape.has_epilogue();
        let is_made = match known.choice.layout() {
            WeightLayout::Preshuffled => self.preshuffle(&layers).is_ok(),
            WeightLayout::Bytes => self.round_weights(&layers).is_ok(),
            WeightLayout::Plain | WeightLayout::Transposed => true,
        };
        if !is_split && is_made {
            times.timed.push(known);
        }
        let best = self.best(&layers, times.timed, launches(known.microseconds), tell);
        let best = best.into_iter().chain(is_split.then_some(known)).min_by(Measured::by_worth);
        if let Some(best) = best.filter(|best| best.choice.layout() == WeightLayout::Transposed) {
            self.row(&shape, best, tell);
        }
    }

    /// The fastest choices of our own kernels among `timed`, with preshuffled instead of plain weights.
    fn preshuffled_choices(&self, shape: &GemmShape, timed: &[Measured]) -> Vec<GemmChoice> {
        let mut timed = timed.to_vec();
        timed.sort_by(Measured::by_time);
        let choices = timed.iter().filter_map(|one| self.gemms.with_preshuffled_weights(shape, one.choice));
        choices.take(self.effort.preshuffled()).collect()
    }

    /// Adds the time of each choice whose results are right. The samples are those for the layout of the choices'
    /// weights.
    fn time_each(
        &mut self,
        layers: &[GemmProblem],
        choices: Vec<GemmChoice>,
        samples: &Samples,
        times: &mut Times,
        tell: &mut impl FnMut(Event<'_>) -> bool,
    ) {
        let shape = layers[0].shape;
        for choice in choices {
            tell(Event::Begin(choice.asked(), &shape));
            // Where a choice fails, another one may run. After a fault of the device none does.
            let Ok(Some(difference)) = self.difference(&layers[0], choice, samples) else { continue };
            if let Some(wrong) = difference.wrong {
                self.goes_on &= tell(Event::Wrong(choice.asked(), &shape, &wrong));
                continue;
            }
            let mut time = |launches| {
                let prepared = self.prepared(layers, choice, launches)?;
                let milliseconds = self.stopwatch.once(&self.stream, &self.lanes, &prepared).ok()?;
                Some(milliseconds * 1e3 / launches as f32)
            };
            // The first choice that runs says how often the others run.
            let launches = match times.launches {
                Some(launches) => launches,
                None => match time(2) {
                    Some(microseconds) => *times.launches.insert(launches(microseconds)),
                    None => continue,
                },
            };
            if let Some(microseconds) = time(launches) {
                let error = difference.error as f32;
                times.timed.push(Measured { error, ..self.measured(choice, microseconds) });
            }
        }
    }

    /// The fastest of some choices for a GEMM. There can be hundreds of them, so each is timed briefly.
    fn fastest_of(
        &mut self,
        layers: &[GemmProblem],
        choices: Vec<GemmChoice>,
        tell: &mut impl FnMut(Event<'_>) -> bool,
    ) -> Vec<GemmChoice> {
        let shape = &layers[0].shape;
        let mut timed = Vec::new();
        for choice in choices {
            self.goes_on &= tell(Event::Begin(choice.asked(), shape));
            if !self.goes_on {
                break;
            }
            // The first run may load the kernel, and the shorter one of two counts.
            let time = self.program(layers, choice, BRIEF_LAUNCHES).map(|program| self.time(&program, 2));
            if let Some(Ok(microseconds)) = time {
                timed.push((microseconds, choice));
            }
        }
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        timed.into_iter().take(MOST_SOLUTIONS).map(|(_, choice)| choice).collect()
    }

    /// Times the fastest choices again, in turn, so that all of them meet the same changes of the device's clock. The
    /// time of each is the median.
    fn best(
        &mut self,
        layers: &[GemmProblem],
        mut timed: Vec<Measured>,
        launches: usize,
        tell: &mut impl FnMut(Event<'_>) -> bool,
    ) -> Option<Measured> {
        timed.sort_by(Measured::by_worth);
        let limit = timed.first()?.microseconds * FINALIST_RATIO;
        timed.retain(|one| one.microseconds <= limit);
        timed.truncate(self.effort.finalists());
        if timed.len() == 1 {
            return timed.pop();
        }
        let mut finalists = Vec::new();
        for first in timed {
            tell(Event::Begin(first.choice.asked(), &layers[0].shape));
            if let Some(prepared) = self.prepared(layers, first.choice, launches) {
                finalists.push((first, prepared, vec![first.microseconds]));
            }
        }
        for _ in 0..self.effort.final_rounds() {
            for (first, prepared, times) in &mut finalists {
                tell(Event::Begin(first.choice.asked(), &layers[0].shape));
                if let Ok(milliseconds) = self.stopwatch.once(&self.stream, &self.lanes, prepared) {
                    times.push(milliseconds * 1e3 / launches as f32);
                }
            }
        }
        let medians = finalists.into_iter().map(|(first, _, times)| Measured {
            microseconds: median(times).unwrap_or(first.microseconds),
            ..first
        });
        medians.min_by(Measured::by_worth)
    }

    /// Computes a GEMM once and compares it with what it must be. Returns `None` if `choice` cannot compute it.
    fn difference(
        &mut self,
        layer: &GemmProblem,
        choice: GemmChoice,
        samples: &Samples,
    ) -> Result<Option<Difference>> {
        let Some(step) = self.step(layer, choice)? else { return Ok(None) };
        self.run_once(&Program::new(vec![step], Vec::new()), samples.initial_byte)?;
        let rows = self.staging.download(self.matrices.y(), &samples.pieces, "a GEMM")?;
        Ok(Some(samples.compare(&rows)))
    }

    /// Times a plain GEMM followed by our own epilogue kernel.
    fn split(
        &mut self,
        gemm: &Wanted,
        launches: usize,
        tell: &mut impl FnMut(Event<'_>) -> bool,
    ) -> Option<Measured> {
        let Wanted { shape, layers } = *gemm;
        if !shape.has_epilogue() {
            return None;
        }
        let activation = own::activation(shape.epilogue);
        let plain = Wanted { shape: shape.without_epilogue(), layers };
        let known = self.table.get(&plain.shape).filter(|row| row.microseconds.is_finite()).copied();
        let gemm = match known {
            Some(known) if known.microseconds < 0.0 => return None,
            Some(known) => known,
            None => {
                let measured = self.fastest(&plain, tell);
                self.row(&plain.shape, measured.unwrap_or_else(|| self.never(&plain.shape)), tell);
                measured?
            }
        };
        let mut steps = StepList::new(1, self.element, self.kernels, self.gemms, None);
        let (y, bias) = (self.matrices.y().address(), self.matrices.bias());
        for _ in 0..launches {
            let operands = (y, bias, self.matrices.gates(&shape));
            steps.activate("epilogue", operands, (shape.rows, shape.outputs), activation).ok()?;
        }
        let epilogue = self.time(&Program::new(steps.finish().0, Vec::new()), 1).ok()? / launches as f32;
        let measured = self.measured(GemmChoice::ROCBLAS, gemm.microseconds + epilogue);
        Some(Measured { error: gemm.error, ..measured })
    }

    /// A program with `launches` GEMMs; `None` if it cannot be computed.
    fn program(&self, layers: &[GemmProblem], choice: GemmChoice, launches: usize) -> Option<Program> {
        let some = layers.iter().cycle().take(launches);
        let steps: Option<Vec<Step>> = some.map(|layer| self.step(layer, choice).ok().flatten()).collect();
        Some(Program::new(steps?, Vec::new()))
    }

    /// The same, ready to be timed.
    fn prepared(&self, layers: &[GemmProblem], choice: GemmChoice, launches: usize) -> Option<Prepared> {
        let program = self.program(layers, choice, launches)?;
        self.stopwatch.prepare(&self.stream, &self.lanes, program).ok()
    }

    /// The device's time for a program in microseconds: the shortest of `runs`.
    pub(crate) fn time(&mut self, program: &Program, runs: usize) -> Result<f32> {
        let enqueue = || program.enqueue(&self.stream, &self.lanes);
        Ok(self.stopwatch.milliseconds(&self.stream, runs, enqueue)? * 1e3)
    }

    /// Fills y with `byte`, and computes one GEMM.
    pub(crate) fn run_once(&self, program: &Program, byte: u8) -> Result<()> {
        self.matrices.y().fill(byte, "the result of an examined GEMM")?;
        program.enqueue(&self.stream, &self.lanes)?;
        self.stream.synchronize()
    }

    /// The stream that everything runs on.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The memory of the results.
    pub(crate) fn results(&self) -> &DeviceBuffer {
        self.matrices.y()
    }
}

/// The number of launches in a timed graph of GEMMs that take so many microseconds.
pub(crate) fn launches(microseconds: f32) -> usize {
    ((GRAPH_MICROSECONDS / microseconds.max(0.1)) as usize).clamp(2, MOST_LAUNCHES)
}

/// The median of some times.
pub(crate) fn median(mut times: Vec<f32>) -> Option<f32> {
    times.sort_by(f32::total_cmp);
    times.get(times.len() / 2).copied()
}
