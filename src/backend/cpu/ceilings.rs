//! What one thread of this processor can do at most: multiplications from registers, and copies between buffers of
//! different sizes.

use super::kernels::matrix::{Format, PackedMatrix};
#[cfg(target_arch = "x86_64")]
use super::simd::amx::{Block, BlockFactors, COLUMNS, ROWS as ROWS_OF_BLOCK};
use super::simd::{AlignedVec, Factors, Isa, Kernel, Simd, Word};
use super::steps::Steps;
use rukh_backend::profile::{Ceilings, CopySpeed};
use rukh_net::architecture::Activation;
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

/// The steps of products in tile registers. With the fewest, the factors fit the first-level cache; with more, only the
/// second, but sums are stored less often. They are multiples of the steps of each format's loop.
#[cfg(target_arch = "x86_64")]
const TILE_STEPS: [usize; 3] = [48, 144, 288];

/// Measures the ceilings. `layer` is a layer in the backend's number format; without one, products are in fp32.
///
/// The ceiling of operations is the speed of products whose factors lie in registers, or in tiles from the nearest
/// caches. It is the speed of the layer's own product if that is higher: an instruction set may have faster
/// instructions for blocks, which only that product uses.
pub(super) fn measure(isa: Isa, layer: Option<&PackedMatrix>) -> Ceilings {
    let format = layer.map_or(Format::Fp32, PackedMatrix::format);
    let vectors = match format {
        Format::Fp32 => chain_speed(isa, 1, || isa.run(Chains(black_box(0.999)))),
        Format::Bf16 => chain_speed(isa, 2, || isa.run(ChainsOfPairs(black_box(0x3f80_3f80)))),
        Format::Int8 => chain_speed(isa, 4, || isa.run(ChainsOfBytes(black_box(0x0101_0101)))),
    };
    let product = layer.map_or(0.0, |layer| product_speed(isa, layer));
    // Convolutions do not use tiles.
    let tiles = layer.map_or(0.0, |_| tile_speed(isa, format));
    Ceilings {
        operations_per_second: vectors.max(tiles).max(product),
        byte_operations_per_second: 0.0,
        copies: COPIES.into_iter().map(copy_speed).collect(),
        launch_microseconds: 0.0,
    }
}

/// The operations per second of a run of chains that multiply `pairs` pairs of numbers in each lane.
fn chain_speed(isa: Isa, pairs: usize, run: impl Fn() -> f32) -> f64 {
    let operations = (CHAINS * isa.lanes() * CHAIN_LENGTH * pairs * 2) as f64;
    operations
        * runs_per_second(|| {
            black_box(run());
        })
}

/// The operations per second of products in tile registers; 0 without AMX.
#[cfg(target_arch = "x86_64")]
fn tile_speed(isa: Isa, format: Format) -> f64 {
    let Some(amx) = isa.amx() else { return 0.0 };
    let tiles = amx.tiles();
    let speed = |steps: usize| {
        let (a, panel) = (vec![0; ROWS_OF_BLOCK * steps], vec![0; COLUMNS * steps]);
        let factors = BlockFactors { a: &a, a_stride: steps, panel: &panel, steps, rows: ROWS_OF_BLOCK };
        let (mut floats, mut integers) =
            (vec![0.0; ROWS_OF_BLOCK * COLUMNS], vec![0; ROWS_OF_BLOCK * COLUMNS]);
        let runs = runs_per_second(|| {
            let floats = Block { c: &mut floats, stride: COLUMNS, accumulate: false };
            match format {
                Format::Fp32 => tiles.multiply_split(factors, floats),
                Format::Bf16 => tiles.multiply_bf16(factors, floats),
                Format::Int8 => {
                    tiles.multiply_bytes(
                        factors,
                        Block { c: &mut integers, stride: COLUMNS, accumulate: false },
                    );
                }
            }
        });
        let inputs = match format {
            Format::Fp32 => steps * 2 / 3,
            Format::Bf16 => steps * 2,
            Format::Int8 => steps * 4,
        };
        (2 * ROWS_OF_BLOCK * COLUMNS * inputs) as f64 * runs
    };
    TILE_STEPS.into_iter().map(speed).fold(0.0, f64::max)
}

#[cfg(not(target_arch = "x86_64"))]
fn tile_speed(_: Isa, _: Format) -> f64 {
    0.0
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

/// Multiplies and adds fp32 numbers in registers.
struct Chains(f32);

impl Kernel for Chains {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let (factor, addend) = (simd.splat(self.0), simd.splat(0.5));
        let mut sums = [addend; CHAINS];
        for _ in 0..CHAIN_LENGTH {
            for sum in &mut sums {
                *sum = simd.mul_add(*sum, factor, addend);
            }
        }
        sums.into_iter().map(|sum| simd.sum(sum)).sum()
    }
}

/// Multiplies and adds pairs of bf16 in registers.
struct ChainsOfPairs(Word);

impl Kernel for ChainsOfPairs {
    type Output = f32;
    const MULTIPLIES: Factors = Factors::Bf16;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let factors = simd.splat_word(self.0);
        let mut sums = [simd.splat(0.0); CHAINS];
        for _ in 0..CHAIN_LENGTH {
            for sum in &mut sums {
                *sum = simd.dot_pairs(*sum, factors, factors);
            }
        }
        sums.into_iter().map(|sum| simd.sum(sum)).sum()
    }
}

/// Multiplies and adds bytes in registers.
struct ChainsOfBytes(Word);

impl Kernel for ChainsOfBytes {
    type Output = f32;
    const MULTIPLIES: Factors = Factors::Int8;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let factors = simd.splat_word(self.0);
        let mut sums = [simd.splat_word(0); CHAINS];
        for _ in 0..CHAIN_LENGTH {
            for sum in &mut sums {
                *sum = simd.dot_bytes(*sum, factors, factors);
            }
        }
        sums.into_iter().map(|sum| simd.sum(simd.to_float(sum))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceilings_of_every_instruction_set_are_above_zero() {
        for isa in Isa::tested() {
            let fp32 = measure(isa, None);
            assert!(fp32.operations_per_second > 1e8, "{}: {fp32:?}", isa.name());
            assert!(fp32.copies.iter().all(|copy| copy.bytes_per_second > 1e7), "{fp32:?}");
            for format in [Format::Fp32, Format::Bf16, Format::Int8] {
                let layer = PackedMatrix::from_fn(isa, format, 64, 64, &[], |_, _| 1.0);
                let ceilings = measure(isa, Some(&layer));
                assert!(ceilings.operations_per_second > 1e8, "{} {format:?}: {ceilings:?}", isa.name());
            }
        }
    }
}
