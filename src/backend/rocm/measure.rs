//! Asks the BLAS libraries for a product's algorithms, and times them.
//!
//! A product is timed as a graph that cycles through as many layers of its shape as the network has. These layers have
//! different weights, so the caches hold no larger part of the weights than during a forward pass. The matrices hold
//! numbers of an ordinary size, because products of zeros are faster. Before a choice is timed, some of its results are
//! compared with what they must be ([`super::samples`]). The same code runs in a helper process and, where
//! there is none, in the engine.

use super::avoided::BlasLibrary;
use super::device::Gpu;
use super::error::Result;
use super::ffi::gemm::{ElementType, Epilogue, GemmOperands, GemmShape};
use super::ffi::hip::{Address, Device, DeviceBuffer, Stream};
use super::ffi::pinned::Staging;
use super::ffi::program::{Lanes, Prepared, Program, Step, Stopwatch};
use super::gemm::{Effort, GemmChoice, GemmProblem, GemmTable, Gemms, Measured};
use super::kernels::Kernels;
use super::own;
use super::preshuffle;
use super::samples::{Contents, Difference, PATTERN_BYTES, Samples, pattern};
use super::steps::StepList;
use std::time::{Duration, Instant};

/// The most launches in a timed graph. A short product is launched many times, because events have a resolution of half
/// a microsecond.
const MOST_LAUNCHES: usize = 16;

/// The intended duration of a timed graph, in microseconds.
const GRAPH_MICROSECONDS: f32 = 300.0;

/// A proposal is timed again only if its first time is at most this multiple of the best first time.
const FINALIST_RATIO: f32 = 1.15;

/// Preshuffled weights take memory, so that a product must be faster with them by this factor.
const WORTH_A_COPY: f32 = 1.02;

/// The number of rocBLAS's kernels that are timed with the other choices, after all of them were timed briefly, with so
/// many products each.
const MOST_SOLUTIONS: usize = 4;
const BRIEF_LAUNCHES: usize = 4;

/// The most memory for the weights of the layers of one shape, in bytes.
const MOST_WEIGHTS: usize = 256 << 20;

/// Every layer's weights begin at a multiple of this many bytes.
const ALIGNMENT: usize = 256;

/// A product to measure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Wanted {
    pub(super) shape: GemmShape,
    /// The number of the network's layers with this shape.
    pub(super) layers: usize,
}

/// What happens during the measurements.
pub(super) enum Event<'a> {
    /// The library is about to be asked for the product, or to run it.
    Begin(BlasLibrary, &'a GemmShape),
    /// An algorithm of the library computes something else, as the text says. It is left out.
    Wrong(BlasLibrary, &'a GemmShape, &'a str),
    /// A row of the table.
    Row(&'a GemmShape, &'a Measured),
}

/// The device, the streams and the memory of the measurements.
pub(super) struct Measurer<'a> {
    gemms: &'a Gemms,
    kernels: &'a Kernels,
    element: ElementType,
    lanes: Lanes,
    stopwatch: Stopwatch,
    stream: Stream,
    weights: DeviceBuffer,
    /// Room for the preshuffled weights of all layers of a shape; `None` if they are not tried.
    preshuffled: Option<DeviceBuffer>,
    x: DeviceBuffer,
    y: DeviceBuffer,
    staging: Staging,
    contents: Contents,
    effort: Effort,
    table: GemmTable,
    /// Whether somebody still listens.
    goes_on: bool,
}

/// The bytes that the weights, x and y of a shape take. `layers` layers lie one after another.
fn bytes(Wanted { shape, layers }: &Wanted) -> [usize; 3] {
    let [w, x, y] = shape.batch_strides.map(|stride| (shape.batch - 1) * stride);
    let rows = |rows: usize, stride: usize, width: usize| rows.saturating_sub(1) * stride + width;
    let (input, output) = (shape.input_type.bytes(), shape.output_type.bytes());
    let layer = weight_bytes(shape, w);
    [
        layer * layer_count(&Wanted { shape: *shape, layers: *layers }),
        (x + rows(shape.rows, shape.x_stride, shape.inputs)) * input,
        (y + rows(shape.rows, shape.y_stride, shape.outputs)) * output,
    ]
}

/// The number of layers whose weights are in memory.
fn layer_count(Wanted { shape, layers }: &Wanted) -> usize {
    let layer = weight_bytes(shape, (shape.batch - 1) * shape.batch_strides[0]);
    (MOST_WEIGHTS / layer).clamp(1, (*layers).max(1))
}

fn weight_bytes(shape: &GemmShape, batch_elements: usize) -> usize {
    let elements = batch_elements + shape.outputs.saturating_sub(1) * shape.weights_stride + shape.inputs;
    // The bias lies in the same memory.
    (elements * shape.input_type.bytes()).max(shape.outputs * 4).next_multiple_of(ALIGNMENT)
}

impl<'a> Measurer<'a> {
    /// Allocates streams, handles and memory for `products`.
    pub(super) fn new(
        gpu: &Gpu,
        gemms: &'a Gemms,
        kernels: &'a Kernels,
        element: ElementType,
        (products, effort): (&[Wanted], Effort),
    ) -> Result<Measurer<'a>> {
        let device = gpu.device;
        let stream = Stream::new(device)?;
        let pattern = pattern(element);
        let most = products
            .iter()
            .map(bytes)
            .fold([0; 3], |most, some| std::array::from_fn(|index| most[index].max(some[index])));
        // Without this memory, preshuffled weights are not tried.
        let copies = products.iter().filter(|product| gemms.preshuffler(&product.shape).is_some());
        let copies = copies.map(|product| layer_count(product) * preshuffle::bytes(&product.shape)).max();
        let preshuffled =
            copies.and_then(|bytes| DeviceBuffer::zeroed(device, bytes, "preshuffled weights").ok());
        let buffer = |bytes: usize| -> Result<DeviceBuffer> {
            let buffer = DeviceBuffer::zeroed(device, bytes, "the matrices of timed products")?;
            fill(device, &buffer, &pattern)?;
            Ok(buffer)
        };
        Ok(Measurer {
            gemms,
            kernels,
            element,
            lanes: Lanes::new(device, &stream, 0, gemms.libraries(gpu))?,
            stopwatch: Stopwatch::new(device)?,
            stream,
            weights: buffer(most[0])?,
            preshuffled,
            x: buffer(most[1])?,
            y: buffer(most[2])?,
            staging: Staging::new(device)?,
            contents: Contents::new(element),
            effort,
            table: GemmTable::new(),
            goes_on: true,
        })
    }

    /// Asks the libraries for every product, and then times the products in their order until `budget` is spent or
    /// `tell` returns false.
    pub(super) fn measure(
        &mut self,
        products: &[Wanted],
        budget: Duration,
        mut tell: impl FnMut(Event<'_>) -> bool,
    ) {
        products.iter().for_each(|product| self.ask(product, &mut tell));
        let begin = Instant::now();
        for product in products {
            if begin.elapsed() > budget || !self.goes_on {
                return;
            }
            let done = self.table.get(&product.shape).is_some_and(|row| row.microseconds.is_finite());
            if done {
                continue;
            }
            let measured = self.fastest(product, &mut tell);
            let measured = measured.unwrap_or_else(|| self.never(&product.shape));
            self.row(&product.shape, measured, &mut tell);
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
        let choice = self.gemms.choice(shape).unwrap_or(GemmChoice::Rocblas { solution: None });
        self.measured(choice, Measured::NOT_YET)
    }

    /// The row of a product that no choice computes.
    fn never(&self, shape: &GemmShape) -> Measured {
        Measured { microseconds: Measured::NEVER, ..self.untimed(shape) }
    }

    /// Asks hipBLASLt for a product. If it cannot add the epilogue, asks for the plain product too, which the engine
    /// then needs.
    fn ask(&mut self, product: &Wanted, tell: &mut impl FnMut(Event<'_>) -> bool) {
        let Wanted { shape, layers } = product;
        if self.table.contains_key(shape) {
            return;
        }
        tell(Event::Begin(BlasLibrary::HipblasLt, shape));
        let proposals = self.gemms.proposals(&self.problem(shape, 0));
        self.row(shape, self.untimed(shape), tell);
        if proposals.is_empty() && shape.epilogue != Epilogue::None {
            let plain = GemmShape { epilogue: Epilogue::None, ..*shape };
            self.ask(&Wanted { shape: plain, layers: *layers }, tell);
        }
    }

    /// The product with the weights of layer `layer`.
    fn problem(&self, shape: &GemmShape, layer: usize) -> GemmProblem {
        let layer_bytes = weight_bytes(shape, (shape.batch - 1) * shape.batch_strides[0]);
        let weights = self.weights.address().offset(layer * layer_bytes);
        let (x, y) = (self.x.address(), self.y.address());
        let bias = if shape.epilogue == Epilogue::None { Address::NULL } else { self.weights.address() };
        let operands = GemmOperands { weights, x, y };
        let copy = self.preshuffled.as_ref().filter(|_| self.gemms.preshuffler(shape).is_some());
        let preshuffled =
            copy.map_or(Address::NULL, |copy| copy.address().offset(layer * preshuffle::bytes(shape)));
        GemmProblem { shape: *shape, operands, bias, preshuffled }
    }

    /// The product with the weights of each layer, as far as there is memory for them. The preshuffled weights are there
    /// after [`Measurer::preshuffle`].
    pub(super) fn layers(&self, product: &Wanted) -> Vec<GemmProblem> {
        (0..layer_count(product)).map(|layer| self.problem(&product.shape, layer)).collect()
    }

    /// Makes the preshuffled weights of a product's layers. Returns whether there are any.
    ///
    /// # Errors
    /// The kernel fails.
    pub(super) fn preshuffle(&self, layers: &[GemmProblem]) -> Result<bool> {
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

    /// Finds the fastest choice for a product whose results are right. Returns `None` if there is none.
    fn fastest(&mut self, product: &Wanted, tell: &mut impl FnMut(Event<'_>) -> bool) -> Option<Measured> {
        let shape = product.shape;
        let layers = self.layers(product);
        let mut candidates = self.gemms.candidates(&layers[0], self.effort.proposals());
        if self.effort == Effort::Full && self.gemms.may_use_rocblas(&shape) {
            candidates.extend(self.fastest_solutions(&layers, tell));
        }
        let samples = Samples::new(&shape, &self.contents);
        let mut launches = None;
        let mut timed: Vec<Measured> = Vec::new();
        self.time_each(&layers, candidates, &samples, (&mut launches, &mut timed), tell);
        let preshuffled = self.preshuffled_choices(&shape, &timed);
        if !preshuffled.is_empty() && self.preshuffle(&layers).unwrap_or(false) {
            self.time_each(&layers, preshuffled, &samples, (&mut launches, &mut timed), tell);
        }
        let launches = launches.unwrap_or(2);
        let best = self.best(&layers, timed, launches, tell);
        // The product of a library that cannot add the epilogue, or adds a wrong one, may still be right.
        let may_split = self.gemms.may_split(&shape) || self.effort == Effort::Full || best.is_none();
        let split = may_split.then(|| self.split(product, launches, tell)).flatten();
        best.into_iter().chain(split).min_by(by_time)
    }

    /// The fastest choices of our own kernels among `timed`, with preshuffled instead of plain weights.
    fn preshuffled_choices(&self, shape: &GemmShape, timed: &[Measured]) -> Vec<GemmChoice> {
        let mut timed = timed.to_vec();
        timed.sort_by(by_time);
        let choices = timed.iter().filter_map(|one| self.gemms.with_preshuffled_weights(shape, one.choice));
        choices.take(self.effort.preshuffled()).collect()
    }

    /// Adds the time of each choice whose results are right to `timed`. `launches` is how often a product runs in a timed
    /// graph, once that is known.
    fn time_each(
        &mut self,
        layers: &[GemmProblem],
        choices: Vec<GemmChoice>,
        samples: &Samples,
        (launches, timed): (&mut Option<usize>, &mut Vec<Measured>),
        tell: &mut impl FnMut(Event<'_>) -> bool,
    ) {
        let shape = layers[0].shape;
        for choice in choices {
            tell(Event::Begin(choice.library(), &shape));
            // Where a choice fails, another one may run. After a fault of the device none does.
            let Ok(Some(difference)) = self.difference(&layers[0], choice, samples) else { continue };
            if let Some(wrong) = difference.wrong {
                self.goes_on &= tell(Event::Wrong(choice.library(), &shape, &wrong));
                continue;
            }
            let mut time = |launches| {
                let prepared = self.prepared(layers, choice, launches)?;
                let milliseconds = self.stopwatch.once(&self.stream, &self.lanes, &prepared).ok()?;
                Some(milliseconds * 1e3 / launches as f32)
            };
            // The first choice that runs says how often the others run.
            let launches = match *launches {
                Some(launches) => launches,
                None => match time(2) {
                    Some(microseconds) => *launches.insert(self::launches(microseconds)),
                    None => continue,
                },
            };
            if let Some(microseconds) = time(launches) {
                let error = difference.error as f32;
                timed.push(Measured { error, ..self.measured(choice, microseconds) });
            }
        }
    }

    /// The fastest of rocBLAS's kernels for a product. There can be hundreds of them, so each is timed briefly.
    fn fastest_solutions(
        &mut self,
        layers: &[GemmProblem],
        tell: &mut impl FnMut(Event<'_>) -> bool,
    ) -> Vec<GemmChoice> {
        let GemmProblem { shape, operands, .. } = &layers[0];
        tell(Event::Begin(BlasLibrary::Rocblas, shape));
        // A rocBLAS that fails to list its kernels can still choose one itself.
        let solutions = self.lanes.rocblas_solutions(shape, operands).unwrap_or_default();
        let mut timed = Vec::new();
        for solution in solutions {
            self.goes_on &= tell(Event::Begin(BlasLibrary::Rocblas, shape));
            if !self.goes_on {
                break;
            }
            let choice = GemmChoice::Rocblas { solution: Some(solution) };
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
        timed.sort_by(by_time);
        let limit = timed.first()?.microseconds * FINALIST_RATIO;
        timed.retain(|one| one.microseconds <= limit);
        timed.truncate(self.effort.finalists());
        if timed.len() == 1 {
            return timed.pop();
        }
        let mut finalists = Vec::new();
        for first in timed {
            tell(Event::Begin(first.choice.library(), &layers[0].shape));
            if let Some(prepared) = self.prepared(layers, first.choice, launches) {
                finalists.push((first, prepared, vec![first.microseconds]));
            }
        }
        for _ in 0..self.effort.final_rounds() {
            for (first, prepared, times) in &mut finalists {
                tell(Event::Begin(first.choice.library(), &layers[0].shape));
                if let Ok(milliseconds) = self.stopwatch.once(&self.stream, &self.lanes, prepared) {
                    times.push(milliseconds * 1e3 / launches as f32);
                }
            }
        }
        let medians = finalists.into_iter().map(|(first, _, times)| Measured {
            microseconds: median(times).unwrap_or(first.microseconds),
            ..first
        });
        medians.min_by(by_worth)
    }

    /// Computes a product once and compares it with what it must be. Returns `None` if `choice` cannot compute it.
    fn difference(
        &mut self,
        layer: &GemmProblem,
        choice: GemmChoice,
        samples: &Samples,
    ) -> Result<Option<Difference>> {
        let Some(step) = self.gemms.step_by("product", layer, choice)? else { return Ok(None) };
        self.run_once(&Program::new(vec![step], Vec::new()), samples.initial_byte)?;
        let rows = self.staging.download(&self.y, &samples.pieces, "a product")?;
        Ok(Some(samples.compare(&rows)))
    }

    /// Times a plain product followed by our own epilogue kernel.
    fn split(
        &mut self,
        product: &Wanted,
        launches: usize,
        tell: &mut impl FnMut(Event<'_>) -> bool,
    ) -> Option<Measured> {
        let Wanted { shape, layers } = *product;
        if shape.epilogue == Epilogue::None {
            return None;
        }
        let activation = own::activation(shape.epilogue);
        let plain = Wanted { shape: GemmShape { epilogue: Epilogue::None, ..shape }, layers };
        let known = self.table.get(&plain.shape).filter(|row| row.microseconds.is_finite()).copied();
        let product = match known {
            Some(known) if known.microseconds < 0.0 => return None,
            Some(known) => known,
            None => {
                let measured = self.fastest(&plain, tell);
                self.row(&plain.shape, measured.unwrap_or_else(|| self.never(&plain.shape)), tell);
                measured?
            }
        };
        let mut steps = StepList::new(1, self.element, self.kernels, self.gemms, None);
        let (y, bias) = (self.y.address(), self.weights.address());
        for _ in 0..launches {
            steps.activate("epilogue", y, bias, (shape.rows, shape.outputs), activation).ok()?;
        }
        let epilogue = self.time(&Program::new(steps.finish().0, Vec::new()), 1).ok()? / launches as f32;
        let choice = GemmChoice::Rocblas { solution: None };
        let measured = self.measured(choice, product.microseconds + epilogue);
        Some(Measured { error: product.error, ..measured })
    }

    /// A program with `launches` products; `None` if it cannot be computed.
    fn program(&self, layers: &[GemmProblem], choice: GemmChoice, launches: usize) -> Option<Program> {
        let some = layers.iter().cycle().take(launches);
        let steps: Option<Vec<Step>> =
            some.map(|layer| self.gemms.step_by("product", layer, choice).ok().flatten()).collect();
        Some(Program::new(steps?, Vec::new()))
    }

    /// The same, ready to be timed.
    fn prepared(&self, layers: &[GemmProblem], choice: GemmChoice, launches: usize) -> Option<Prepared> {
        let program = self.program(layers, choice, launches)?;
        self.stopwatch.prepare(&self.stream, &self.lanes, program).ok()
    }

    /// The device's time for a program in microseconds: the shortest of `runs`.
    pub(super) fn time(&mut self, program: &Program, runs: usize) -> Result<f32> {
        let enqueue = || program.enqueue(&self.stream, &self.lanes);
        Ok(self.stopwatch.milliseconds(&self.stream, runs, enqueue)? * 1e3)
    }

    /// Fills y with `byte`, and computes one product.
    pub(super) fn run_once(&self, program: &Program, byte: u8) -> Result<()> {
        self.y.fill(byte, "the result of an examined product")?;
        program.enqueue(&self.stream, &self.lanes)?;
        self.stream.synchronize()
    }

    /// The stream that everything runs on.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The memory of the results.
    pub(super) fn results(&self) -> &DeviceBuffer {
        &self.y
    }
}

/// The number of launches in a timed graph of products that take so many microseconds.
pub(super) fn launches(microseconds: f32) -> usize {
    ((GRAPH_MICROSECONDS / microseconds.max(0.1)) as usize).clamp(2, MOST_LAUNCHES)
}

/// The median of some times.
pub(super) fn median(mut times: Vec<f32>) -> Option<f32> {
    times.sort_by(f32::total_cmp);
    times.get(times.len() / 2).copied()
}

/// Orders choices by their times, where preshuffled weights must be worth their memory.
fn by_worth(a: &Measured, b: &Measured) -> std::cmp::Ordering {
    let weighted = |one: &Measured| match one.choice {
        GemmChoice::Own(own) if own.is_preshuffled() => one.microseconds * WORTH_A_COPY,
        _ => one.microseconds,
    };
    weighted(a).total_cmp(&weighted(b))
}

fn by_time(a: &Measured, b: &Measured) -> std::cmp::Ordering {
    a.microseconds.total_cmp(&b.microseconds)
}

/// Fills a buffer with the pattern.
fn fill(device: Device, buffer: &DeviceBuffer, pattern: &[u8]) -> Result<()> {
    let mut staging = Staging::new(device)?;
    for start in (0..buffer.bytes()).step_by(PATTERN_BYTES) {
        let count = pattern.len().min(buffer.bytes() - start);
        staging.upload(buffer, start, &pattern[..count], "the matrices of timed products")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_get_the_memory_that_their_strides_need() {
        let shape = GemmShape::plain(3, 5, 7, ElementType::Fp16);
        // 5 x 7 weights and 5 biases of four bytes, rounded up; 3 x 7 inputs; 3 x 5 outputs.
        assert_eq!(bytes(&Wanted { shape, layers: 2 }), [512, 42, 30]);
        let wide = GemmShape { x_stride: 10, batch: 2, batch_strides: [35, 100, 15], ..shape };
        assert_eq!(bytes(&Wanted { shape: wide, layers: 1 }), [256, 254, 60]);
    }
}
