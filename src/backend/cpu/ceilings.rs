//! What one thread of this processor can do at most: multiplications from registers, and copies between buffers of
//! different sizes.

use super::kernels::matrix::PackedMatrix;
use super::simd::{AlignedVec, Isa, Kernel, Simd};
use super::steps::Steps;
use crate::backend::profile::{Ceilings, CopySpeed};
use crate::net::architecture::Activation;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The sizes of the two buffers of a copy together, in bytes: from the first-level cache to memory.
const COPIES: [usize; 6] = [16 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20, 256 << 20];

/// The time for each measurement.
const TIME: Duration = Duration::from_millis(20);

/// The rows of a product that is to reach the highest speed: they fit the second-level cache.
const ROWS: usize = 256;

/// The number of sums that do not depend on each other, enough to hide the latency of a multiplication.
const CHAINS: usize = 12;

/// Multiplications and additions of each chain in one run.
const CHAIN_LENGTH: usize = 2000;

/// Measures the ceilings. `layer` is a layer in the backend's number format, if it differs from fp32.
///
/// No product is faster than multiplications from registers, and those exist here for fp32 only. So the ceiling of
/// another format is that of its own product at the best speed, if that is higher.
pub(super) fn measure(isa: Isa, layer: Option<&PackedMatrix>) -> Ceilings {
    let fp32 = (CHAINS * isa.lanes() * CHAIN_LENGTH * 2) as f64
        * runs_per_second(|| {
            black_box(isa.run(Chains { factor: black_box(0.999) }));
        });
    let product = layer.map_or(0.0, |layer| product_speed(isa, layer));
    Ceilings {
        operations_per_second: fp32.max(product),
        copies: COPIES.into_iter().map(copy_speed).collect(),
        launch_microseconds: 0.0,
    }
}

/// How often `work` runs in a second, at the fastest run.
fn runs_per_second(mut work: impl FnMut()) -> f64 {
    work();
    let begin = Instant::now();
    let mut shortest = Duration::MAX;
    while begin.elapsed() < TIME {
        let start = Instant::now();
        work();
        shortest = shortest.min(start.elapsed());
    }
    1.0 / shortest.max(Duration::from_nanos(1)).as_secs_f64()
}

/// The operations per second of a layer that is applied to the same rows again and again.
fn product_speed(isa: Isa, layer: &PackedMatrix) -> f64 {
    let mut steps = Steps::new(isa);
    let mut x = AlignedVec::default();
    let mut y = AlignedVec::default();
    x.grow_to(ROWS * layer.inputs());
    x.fill(0.5);
    let speed = runs_per_second(|| steps.dense("product", layer, ROWS, &x, &mut y, Activation::None));
    (2 * ROWS * layer.inputs() * layer.outputs()) as f64 * speed
}

/// Copies between two buffers of `bytes` together.
fn copy_speed(bytes: usize) -> CopySpeed {
    let from = vec![1_u8; bytes / 2];
    let mut to = vec![0_u8; bytes / 2];
    // A clock call takes as long as copying a few kilobytes, so small copies are repeated.
    let repetitions = ((1 << 20) / bytes).max(1);
    let speed = runs_per_second(|| {
        for _ in 0..repetitions {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
        }
    });
    CopySpeed { bytes: bytes as f64, bytes_per_second: (bytes * repetitions) as f64 * speed }
}

/// Multiplies and adds in registers.
struct Chains {
    factor: f32,
}

impl Kernel for Chains {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let (factor, addend) = (simd.splat(self.factor), simd.splat(0.5));
        let mut sums = [addend; CHAINS];
        for _ in 0..CHAIN_LENGTH {
            for sum in &mut sums {
                *sum = simd.mul_add(*sum, factor, addend);
            }
        }
        sums.into_iter().map(|sum| simd.sum(sum)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceilings_of_every_instruction_set_are_above_zero() {
        for isa in Isa::available() {
            let ceilings = measure(isa, None);
            assert!(ceilings.operations_per_second > 1e8, "{}: {ceilings:?}", isa.name());
            assert!(ceilings.copies.iter().all(|copy| copy.bytes_per_second > 1e7), "{ceilings:?}");
        }
    }
}
