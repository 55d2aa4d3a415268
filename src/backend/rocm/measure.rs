//! Asks the BLAS libraries for a product's algorithms, and times them.
//!
//! A product is timed as a graph that cycles through as many layers of its shape as the network has. These layers have
//! different weights, so the caches hold no larger part of the weights than during a forward pass. The matrices hold
//! numbers of an ordinary size, because products of zeros are faster. The same code runs in a helper process and, where
//! there is none, in the engine.

use super::avoided::BlasLibrary;
use super::device::Gpu;
use super::error::Result;
use super::ffi::gemm::{ElementType, Epilogue, GemmOperands, GemmShape};
use super::ffi::hip::{Address, Device, DeviceBuffer, Stream};
use super::ffi::pinned::Staging;
use super::ffi::program::{Lanes, Program, Step, Stopwatch};
use super::gemm::{Effort, GemmChoice, GemmProblem, GemmTable, Gemms, Measured};
use super::kernels::Kernels;
use super::own;
use super::steps::StepList;
use std::time::{Duration, Instant};

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
    x: DeviceBuffer,
    y: DeviceBuffer,
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
        layer * (MOST_WEIGHTS / layer).clamp(1, *layers),
        (x + rows(shape.rows, shape.x_stride, shape.inputs)) * input,
        (y + rows(shape.rows, shape.y_stride, shape.outputs)) * output,
    ]
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
            x: buffer(most[1])?,
            y: buffer(most[2])?,
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
            let measured = self.fastest(product, &mut tell).unwrap_or_else(|| Measured {
                microseconds: Measured::NEVER,
                ..self.untimed(&product.shape)
            });
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
        GemmProblem { shape: *shape, operands: GemmOperands { weights, x, y }, bias }
    }

    /// The product with the weights of each layer, as far as there is memory for them.
    pub(super) fn layers(&self, Wanted { shape, layers }: &Wanted) -> Vec<GemmProblem> {
        let layer_bytes = weight_bytes(shape, (shape.batch - 1) * shape.batch_strides[0]);
        let count = (MOST_WEIGHTS / layer_bytes).clamp(1, (*layers).max(1));
        (0..count).map(|layer| self.problem(shape, layer)).collect()
    }

    /// Finds the fastest choice for a product. Returns `None` if no choice could be measured.
    fn fastest(&mut self, product: &Wanted, tell: &mut impl FnMut(Event<'_>) -> bool) -> Option<Measured> {
        let shape = product.shape;
        let layers = self.layers(product);
        let candidates = self.gemms.candidates(&layers[0], self.effort.proposals());
        let mut time = |measurer: &mut Self, choice: GemmChoice, launches, runs| {
            tell(Event::Begin(choice.library(), &shape));
            measurer.microseconds(&layers, choice, launches, runs)
        };
        let pilot = candidates.iter().find_map(|&choice| time(self, choice, 2, 1));
        let best = pilot.and_then(|pilot| {
            let launches = launches(pilot);
            let mut timed: Vec<Measured> = Vec::new();
            for choice in candidates {
                if let Some(microseconds) = time(self, choice, launches, 1) {
                    timed.push(self.measured(choice, microseconds));
                }
            }
            timed.sort_by(by_time);
            let limit = timed.first()?.microseconds * FINALIST_RATIO;
            let finalists = timed.into_iter().take_while(|one| one.microseconds <= limit).take(FINALISTS);
            let again = finalists.map(|first| {
                let again = time(self, first.choice, launches, FINAL_RUNS);
                Measured { microseconds: again.unwrap_or(f32::INFINITY).min(first.microseconds), ..first }
            });
            again.min_by(by_time).map(|best| (best, launches))
        });
        let (best, launches) = best.map_or((None, 2), |(best, launches)| (Some(best), launches));
        let split = self.split(product, launches, tell);
        best.into_iter().chain(split).min_by(by_time)
    }

    /// Times a plain product followed by our own epilogue kernel.
    fn split(
        &mut self,
        product: &Wanted,
        launches: usize,
        tell: &mut impl FnMut(Event<'_>) -> bool,
    ) -> Option<Measured> {
        let Wanted { shape, layers } = *product;
        if !self.gemms.may_split(&shape) {
            return None;
        }
        let activation = own::activation(shape.epilogue);
        let plain = Wanted { shape: GemmShape { epilogue: Epilogue::None, ..shape }, layers };
        let known = self.table.get(&plain.shape).filter(|row| row.microseconds.is_finite()).copied();
        let product = match known {
            Some(known) => known,
            None => {
                let measured = self.fastest(&plain, tell)?;
                self.row(&plain.shape, measured, tell);
                measured
            }
        };
        let mut steps = StepList::new(1, self.element, self.kernels, self.gemms, None);
        let (y, bias) = (self.y.address(), self.weights.address());
        for _ in 0..launches {
            steps.activate("epilogue", y, bias, (shape.rows, shape.outputs), activation).ok()?;
        }
        let epilogue = self.time(&Program::new(steps.finish().0, Vec::new()), 1).ok()? / launches as f32;
        let choice = GemmChoice::Rocblas { solution: None };
        Some(self.measured(choice, product.microseconds.max(0.0) + epilogue))
    }

    /// The time of one product; `None` if it cannot be computed.
    fn microseconds(
        &mut self,
        layers: &[GemmProblem],
        choice: GemmChoice,
        launches: usize,
        runs: usize,
    ) -> Option<f32> {
        let some = layers.iter().cycle().take(launches);
        let steps: Option<Vec<Step>> =
            some.map(|layer| self.gemms.step_by("product", layer, choice).ok().flatten()).collect();
        let program = Program::new(steps?, Vec::new());
        Some(self.time(&program, runs).ok()? / launches as f32)
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

fn by_time(a: &Measured, b: &Measured) -> std::cmp::Ordering {
    a.microseconds.total_cmp(&b.microseconds)
}

/// The length of the pattern that fills the matrices, in bytes. It is no multiple of a usual row's length, so that rows
/// differ.
const PATTERN_BYTES: usize = 1_048_500;

/// The bytes of numbers between -1 and 1, of which every matrix holds repetitions from its start.
pub(super) fn pattern(element: ElementType) -> Vec<u8> {
    let mut state = 1_u32;
    let mut number = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let mut pattern = Vec::with_capacity(PATTERN_BYTES);
    while pattern.len() < PATTERN_BYTES {
        element.append(number(), &mut pattern);
    }
    pattern
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
