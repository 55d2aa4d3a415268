//! Rounds weights to 8 bits.
//!
//! Without statistics of the inputs, each weight is rounded to the nearest multiple of its output's scale.
//!
//! With them, two things make the error of the outputs smaller. First, inputs are brought nearer to each other in size:
//! each is multiplied by a factor before it is rounded, and its weights are divided by this factor. An input whose largest
//! value is far above the others' would otherwise make the steps of the whole row coarse. The factor is
//! `sqrt(largest weight / largest input)`, which shares the difference between inputs and weights (Xiao and others,
//! *SmoothQuant*, 2023). Second, the weights of an output are rounded one after another, and the error of each is
//! compensated by those after it, as far as their inputs have gone together with its own (Frantar and others, *GPTQ*,
//! 2023, in the form of Chee and others, *QuIP*, 2023).

use super::statistics::InputStatistics;
use crate::simd::{AlignedVec, Isa, Kernel, Simd};

/// The share of the inputs' mean square that is added to each mean square. It stands for what the positions did not show.
const DAMPING: f64 = 0.01;
/// The largest factor of an input. An input that was nearly zero on the positions may be larger on others, and would then
/// make the steps of its row coarse.
const LARGEST_FACTOR: f32 = 4.0;

/// The weights of a layer, `[outputs][taps][inputs]`.
#[derive(Clone, Copy)]
pub(crate) struct Taps<'a> {
    pub(crate) weights: &'a [f32],
    pub(crate) inputs: usize,
    /// 1 for a dense layer.
    pub(crate) taps: usize,
}

/// The weights of a layer, rounded.
pub struct Quantised {
    /// `[outputs][inputs]`
    pub bytes: Vec<i8>,
    /// `[outputs]`: the weight that 1 stands for.
    pub scales: Vec<f32>,
    /// `[inputs]`: the numbers by which inputs are multiplied. Empty if they are all 1.
    pub factors: Vec<f32>,
}

/// Rounds the weights of one output to multiples of the scale that it returns. `largest` is the largest 8-bit weight.
pub(super) fn round_output(weights: &[f32], largest: i8, bytes: &mut [i8]) -> f32 {
    let scale = scale_of(weights, largest);
    round_row(weights, scale, largest, bytes);
    scale
}

/// Rounds each weight to the nearest multiple of `scale`.
fn round_row(weights: &[f32], scale: f32, largest: i8, bytes: &mut [i8]) {
    for (byte, weight) in bytes.iter_mut().zip(weights) {
        *byte = rounded(*weight, scale, largest);
    }
}

/// The scale by which the largest weight becomes `largest`.
fn scale_of(weights: &[f32], largest: i8) -> f32 {
    weights.iter().fold(0.0_f32, |most, weight| most.max(weight.abs())) / f32::from(largest)
}

#[inline(always)]
fn rounded(weight: f32, scale: f32, largest: i8) -> i8 {
    let limit = f32::from(largest);
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    (weight * inverse).round_ties_even().clamp(-limit, limit) as i8
}

/// Rounds `weights`, `[outputs][taps][inputs]`, for inputs of which `statistics` are known. `largest` is the largest 8-bit
/// weight. A dense layer has one tap. A 3x3 convolution has nine, which share the scale of their output. Errors are
/// compensated within a tap, because the inputs of different taps are those of different squares.
pub(crate) fn quantise(
    isa: Isa,
    weights: &[f32],
    inputs: usize,
    taps: usize,
    largest: i8,
    statistics: Option<&InputStatistics>,
) -> Quantised {
    let of_output = (taps * inputs).max(1);
    let outputs = weights.len() / of_output;
    let mut quantised =
        Quantised { bytes: vec![0; weights.len()], scales: vec![0.0; outputs], factors: Vec::new() };
    let mut divided = weights.to_vec();
    if let Some(most) = statistics.and_then(InputStatistics::largest) {
        quantised.factors = factors(weights, most);
        for row in divided.chunks_exact_mut(inputs.max(1)) {
            row.iter_mut().zip(&quantised.factors).for_each(|(weight, factor)| *weight /= factor);
        }
    }
    let compensation = statistics.and_then(|known| Compensation::new(isa, known, &quantised.factors));
    let each = divided.chunks_exact(of_output).zip(quantised.bytes.chunks_exact_mut(of_output));
    for ((weights, bytes), scale) in each.zip(&mut quantised.scales) {
        *scale = scale_of(weights, largest);
        let rows = weights.chunks_exact(inputs.max(1)).zip(bytes.chunks_exact_mut(inputs.max(1)));
        for (row, bytes) in rows {
            match &compensation {
                Some(compensation) => compensation.round_row(isa, row, *scale, largest, bytes),
                None => round_row(row, *scale, largest, bytes),
            }
        }
    }
    quantised
}

/// The factor of each input, from its largest absolute value and its largest weight. Before the largest factors are
/// limited, their geometric mean is 1.
fn factors(weights: &[f32], most: &[f32]) -> Vec<f32> {
    let inputs = most.len();
    let mut largest = vec![0.0_f32; inputs];
    for row in weights.chunks_exact(inputs.max(1)) {
        largest.iter_mut().zip(row).for_each(|(largest, weight)| *largest = largest.max(weight.abs()));
    }
    // An input that is always zero, or whose weights are, has no influence on the others.
    let ratio = |input: usize| {
        let (weight, value) = (largest[input], most[input]);
        (weight > 1e-9 && value > 1e-9 && weight.is_finite()).then(|| (weight / value).sqrt())
    };
    let known: Vec<f64> = (0..inputs).filter_map(|input| ratio(input).map(|r| f64::from(r).ln())).collect();
    let mean = (known.iter().sum::<f64>() / known.len().max(1) as f64).exp() as f32;
    (0..inputs).map(|input| ratio(input).map_or(1.0, |ratio| (ratio / mean).min(LARGEST_FACTOR))).collect()
}

/// The 8-bit weights, `[outputs][taps][inputs]`, that are nearest to `weights`. The scales are those of the outputs. The
/// factors are those of the inputs; without any, they are all 1.
pub(super) fn nearest(weights: &[f32], scales: &[f32], factors: &[f32], largest: i8) -> Vec<i8> {
    let of_output = weights.len().checked_div(scales.len()).unwrap_or(0).max(1);
    let mut bytes = Vec::with_capacity(weights.len());
    for (output, &scale) in weights.chunks(of_output).zip(scales) {
        match factors {
            [] => bytes.extend(output.iter().map(|weight| rounded(*weight, scale, largest))),
            _ => {
                for tap in output.chunks(factors.len()) {
                    let divided = tap.iter().zip(factors).map(|(weight, factor)| weight / factor);
                    bytes.extend(divided.map(|weight| rounded(weight, scale, largest)));
                }
            }
        }
    }
    bytes
}

/// How the error of one weight is compensated by others.
struct Compensation {
    /// The order in which weights are rounded: those of the largest inputs first, because their errors matter most.
    order: Vec<usize>,
    /// `[inputs][stride]`, in this order: by how much of the error of the first weight the second one changes. Zero
    /// unless the second comes after the first. This is U of the decomposition `(U + I) D (U + I)^T` of the inputs'
    /// mean products.
    shares: AlignedVec<f32>,
    stride: usize,
}

impl Compensation {
    /// `None` if too little is known of the inputs.
    fn new(isa: Isa, statistics: &InputStatistics, factors: &[f32]) -> Option<Compensation> {
        let mean_products = statistics.mean_products()?;
        let inputs = factors.len();
        let of = |i: usize, j: usize| mean_products(i, j) * f64::from(factors[i]) * f64::from(factors[j]);
        let mut order: Vec<usize> = (0..inputs).collect();
        order.sort_by(|&a, &b| of(b, b).total_cmp(&of(a, a)));
        let damping = DAMPING * (0..inputs).map(|i| of(i, i)).sum::<f64>() / inputs.max(1) as f64;
        let mut matrix: Vec<f64> =
            order.iter().flat_map(|&i| order.iter().map(move |&j| (i, j))).map(|(i, j)| of(i, j)).collect();
        for i in 0..inputs {
            matrix[i * inputs + i] += damping + f64::from(f32::MIN_POSITIVE);
        }
        decompose(&mut matrix, inputs);
        let stride = inputs.next_multiple_of(isa.lanes());
        let mut shares = AlignedVec::zeroed(inputs * stride);
        for i in 0..inputs {
            for j in i + 1..inputs {
                shares[i * stride + j] = matrix[i * inputs + j] as f32;
            }
        }
        Some(Compensation { order, shares, stride })
    }

    /// Does the same as [`round_row`] with compensation.
    fn round_row(&self, isa: Isa, weights: &[f32], scale: f32, largest: i8, bytes: &mut [i8]) {
        let mut targets = AlignedVec::zeroed(self.stride);
        for (target, &input) in targets.iter_mut().zip(&self.order) {
            *target = weights[input];
        }
        isa.run(RoundInOrder { compensation: self, weights, scale, largest, targets: &mut targets, bytes });
    }
}

/// Decomposes a symmetric positive matrix, `[size][size]`, into `(U + I) D (U + I)^T` with a strictly upper triangular
/// U, which replaces the matrix's upper triangle. D replaces its diagonal.
fn decompose(matrix: &mut [f64], size: usize) {
    let mut column = vec![0.0; size];
    for last in (0..size).rev() {
        let pivot = matrix[last * size + last];
        for i in 0..last {
            column[i] = matrix[i * size + last];
            matrix[i * size + last] /= pivot;
        }
        for i in 0..last {
            let share = matrix[i * size + last];
            let row = &mut matrix[i * size..][i..last];
            row.iter_mut().zip(&column[i..last]).for_each(|(value, other)| *value -= share * other);
        }
    }
}

/// Rounds the weights of an output or of a tap in the order of the compensation.
struct RoundInOrder<'a> {
    compensation: &'a Compensation,
    weights: &'a [f32],
    scale: f32,
    largest: i8,
    /// The weights in their order, which change when a weight before them is rounded. `[stride]`
    targets: &'a mut [f32],
    bytes: &'a mut [i8],
}

impl Kernel for RoundInOrder<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Compensation { order, shares, stride } = self.compensation;
        for (index, &input) in order.iter().enumerate() {
            let byte = rounded(self.targets[index], self.scale, self.largest);
            self.bytes[input] = byte;
            let error = simd.splat(self.weights[input] - f32::from(byte) * self.scale);
            // The shares of the weights before the next are zero.
            let first = index / S::LANES * S::LANES;
            let shares = shares[index * stride..][first..*stride].chunks_exact(S::LANES);
            for (target, share) in self.targets[first..].chunks_exact_mut(S::LANES).zip(shares) {
                simd.store(simd.mul_add(error, simd.load(share), simd.load(target)), target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::matrix::tests::noise;

    #[test]
    fn the_decomposition_gives_the_matrix() {
        let size = 9;
        let x = noise(20 * size, 5);
        let product = |i: usize, j: usize| -> f64 {
            (0..20).map(|row| f64::from(x[row * size + i]) * f64::from(x[row * size + j])).sum()
        };
        let mut matrix: Vec<f64> = (0..size * size).map(|at| product(at / size, at % size)).collect();
        decompose(&mut matrix, size);
        let unit = |i: usize, k: usize| match i.cmp(&k) {
            std::cmp::Ordering::Less => matrix[i * size + k],
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Greater => 0.0,
        };
        for i in 0..size {
            for j in 0..size {
                let got: f64 = (0..size).map(|k| unit(i, k) * matrix[k * size + k] * unit(j, k)).sum();
                assert!((got - product(i, j)).abs() < 1e-9, "[{i}][{j}]: {got}");
            }
        }
    }

    /// The inputs are of different sizes and go together, as a network's do.
    #[test]
    fn statistics_of_the_inputs_make_the_error_of_the_outputs_smaller() {
        let (rows, inputs, outputs) = (1000, 48, 20);
        let sources = noise(rows * 8, 1);
        let own = noise(rows * inputs, 2);
        let mixing = noise(inputs * 8, 3);
        let x: Vec<f32> = (0..rows * inputs)
            .map(|at| {
                let (row, input) = (at / inputs, at % inputs);
                let common: f32 = (0..8).map(|s| sources[row * 8 + s] * mixing[input * 8 + s]).sum();
                (common + 0.2 * own[at]) * if input % 16 == 0 { 12.0 } else { 1.0 }
            })
            .collect();
        let weights = noise(outputs * inputs, 4);
        for isa in Isa::tested() {
            let mut statistics = InputStatistics::default();
            statistics.add(isa, (&x[..], inputs), rows, inputs);
            // The mean square of the outputs' errors that come from rounding weights.
            let error = |quantised: &Quantised| -> f64 {
                let mut sum = 0.0;
                for row in 0..rows {
                    for output in 0..outputs {
                        let difference = |input: usize| {
                            let factor = quantised.factors.get(input).map_or(1.0, |factor| *factor);
                            let byte = f32::from(quantised.bytes[output * inputs + input]);
                            let weight = byte * quantised.scales[output] * factor;
                            f64::from((weight - weights[output * inputs + input]) * x[row * inputs + input])
                        };
                        sum += (0..inputs).map(difference).sum::<f64>().powi(2);
                    }
                }
                sum
            };
            let largest = isa.largest_int8_weight();
            let plain = error(&quantise(isa, &weights, inputs, 1, largest, None));
            let calibrated = error(&quantise(isa, &weights, inputs, 1, largest, Some(&statistics)));
            assert!(calibrated < 0.5 * plain, "{}: {calibrated} of {plain}", isa.name());
        }
    }
}
