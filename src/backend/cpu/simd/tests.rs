//! Compares the primitives of every instruction set with plain Rust.

use super::tile::{Fp32, Layout, PanelProduct, Start};
use super::vector::MAX_LANES;
use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs each primitive on the lanes of `a` and `b` and compares the results with plain Rust.
struct Primitives {
    a: [f32; MAX_LANES],
    b: [f32; MAX_LANES],
}

impl Kernel for Primitives {
    type Output = ();
    const MULTIPLIES: Factors = Factors::Bf16;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (a, b) = (simd.load(&self.a), simd.load(&self.b));
        let lanes = |v: S::Vector| {
            let mut out = [f32::NAN; MAX_LANES];
            simd.store(v, &mut out);
            out
        };
        let expect = |name: &str, v: S::Vector, right: &dyn Fn(f32, f32) -> f32| {
            for (i, got) in lanes(v).iter().enumerate().take(S::LANES) {
                let right = right(self.a[i], self.b[i]);
                assert!((got - right).abs() <= 1e-6 * right.abs(), "{name}: lane {i} is {got}, not {right}");
            }
        };
        expect("add", simd.add(a, b), &|a, b| a + b);
        expect("sub", simd.sub(a, b), &|a, b| a - b);
        expect("mul", simd.mul(a, b), &|a, b| a * b);
        expect("div", simd.div(a, b), &|a, b| a / b);
        expect("max", simd.max(a, b), &f32::max);
        expect("min", simd.min(a, b), &f32::min);
        expect("round", simd.round(a), &|a, _| a.round_ties_even());
        expect("select", simd.select_positive(a, b, simd.splat(7.0)), &|a, b| {
            if a > 0.0 { b } else { 7.0 }
        });
        let nan = simd.splat(f32::NAN);
        assert!(lanes(simd.max(a, nan))[0].is_nan() && lanes(simd.min(a, nan))[0].is_nan());
        let whole = simd.round(a);
        expect("scale", simd.scale_by_power_of_two(b, whole), &|a, b| b * a.round_ties_even().exp2());
        let sum: f32 = self.a[..S::LANES].iter().sum();
        assert!((simd.sum(a) - sum).abs() < 1e-4);

        let mut pairs = [0; MAX_LANES];
        simd.store_words(simd.round_to_bf16(a, b), &mut pairs);
        let flat: Vec<f32> = self.a[..S::LANES].iter().chain(&self.b[..S::LANES]).copied().collect();
        for (i, x) in flat.iter().enumerate() {
            let got = (pairs[i / 2] >> (16 * (i % 2))) as u16;
            assert_eq!(got, bf16_bits(*x), "bf16 of {x}");
        }
        // Infinities and NaNs must be preserved. Rounding is to nearest, so the largest finite number becomes
        // infinite.
        let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN, f32::MAX];
        for x in special {
            simd.store_words(simd.round_to_bf16(simd.splat(x), simd.splat(1.0)), &mut pairs);
            let got = f32::from_bits(pairs[0] << 16);
            let right = if x == f32::MAX { f32::INFINITY } else { x };
            assert!(got == right || got.is_nan() && x.is_nan(), "bf16 of {x} is {got}");
        }
        let operand = simd.splat_word(u32::from(bf16_bits(3.0)) | u32::from(bf16_bits(-5.0)) << 16);
        let dot = lanes(simd.dot_pairs(simd.splat(1.0), operand, simd.round_to_bf16(a, b)));
        for (i, got) in dot.iter().enumerate().take(S::LANES) {
            let unrounded = 1.0 + 3.0 * flat[2 * i] - 5.0 * flat[2 * i + 1];
            assert!((got - unrounded).abs() < 1.0, "dot: lane {i} is {got}, about {unrounded}");
        }

        simd.store_words(simd.bf16_pairs(a, b), &mut pairs);
        for (i, pair) in pairs.iter().enumerate().take(S::LANES) {
            let right = u32::from(bf16_bits(self.a[i])) | u32::from(bf16_bits(self.b[i])) << 16;
            assert_eq!(*pair, right, "the pair of lane {i}");
        }
        for (i, got) in lanes(simd.upper_half(b)).iter().enumerate().take(S::LANES) {
            assert_eq!(got.to_bits(), self.b[i].to_bits() & 0xffff_0000, "the upper half of {}", self.b[i]);
        }
        let largest = self.b[..S::LANES].iter().copied().fold(f32::NEG_INFINITY, f32::max);
        assert_eq!(simd.largest(b), largest);

        let (from_stride, to_stride) = (S::LANES + 3, S::LANES + 1);
        let from: Vec<f32> = (0..S::LANES * from_stride).map(|i| i as f32).collect();
        let mut to = vec![f32::NAN; S::LANES * to_stride];
        simd.transpose(&from, from_stride, &mut to, to_stride);
        for i in 0..S::LANES {
            for j in 0..S::LANES {
                assert_eq!(to[j * to_stride + i], from[i * from_stride + j]);
            }
            assert!(to[i * to_stride + S::LANES].is_nan(), "transpose wrote beyond a row");
        }
    }
}

#[test]
fn primitives_agree_with_plain_rust() {
    let a = std::array::from_fn(|i| (i as f32 - 7.3) * 1.5);
    let b = std::array::from_fn(|i| 40.0 / (i as f32 + 0.7) * if i % 3 == 0 { -1.0 } else { 1.0 });
    for isa in Isa::tested() {
        isa.run(Primitives { a, b });
    }
}

/// Multiplies bytes and compares the sums with plain Rust.
struct Bytes;

impl Kernel for Bytes {
    type Output = ();
    const MULTIPLIES: Factors = Factors::Int8;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // Halves are rounded to even numbers.
        let numbers: [f32; MAX_LANES] =
            std::array::from_fn(|i| [0.0, 254.6, 0.5, 1.5, 255.4, -0.4, 127.5][i % 7]);
        let mut stored = [0; MAX_LANES];
        simd.store_bytes(simd.load(&numbers), &mut stored);
        let bytes: Vec<u8> = stored.iter().flat_map(|word| word.to_le_bytes()).collect();
        let byte = |x: &f32| (x.round_ties_even() as u8).wrapping_sub(S::BYTE_OFFSET);
        let right: Vec<u8> = numbers.iter().map(byte).collect();
        assert_eq!(bytes[..S::LANES], right[..S::LANES]);

        let weight = S::LARGEST_INT8_WEIGHT;
        let a: [[u8; 4]; MAX_LANES] = std::array::from_fn(|i| [255, 0, i as u8, 200]);
        let offset = i32::from(S::BYTE_OFFSET);
        let b: [[i8; 4]; MAX_LANES] =
            std::array::from_fn(|i| [weight, -weight, -(i as i8), if i % 2 == 0 { weight } else { -weight }]);
        let sums: [u32; MAX_LANES] = std::array::from_fn(|i| (i as i32 * 1000 - 7000) as u32);
        let a_bytes = a.map(|four| four.map(|x| x.wrapping_sub(S::BYTE_OFFSET)));
        let b_bytes = b.map(|four| four.map(|x| x as u8));
        let [a_words, b_words] = [a_bytes, b_bytes].map(|all| all.map(u32::from_le_bytes));
        let [first, second, start] = [&a_words, &b_words, &sums].map(|words| simd.load_words(words));
        let mut got = [0; MAX_LANES];
        let dot = simd.dot_bytes(start, first, second);
        simd.store_words(dot, &mut got);
        let mut floats = [0.0; MAX_LANES];
        simd.store(simd.to_float(dot), &mut floats);
        for i in 0..S::LANES {
            let products = a[i].iter().zip(&b[i]).map(|(&a, &b)| (i32::from(a) - offset) * i32::from(b));
            let right = sums[i] as i32 + products.sum::<i32>();
            assert_eq!((got[i] as i32, floats[i]), (right, right as f32), "lane {i}");
        }
    }
}

#[test]
fn bytes_are_rounded_and_multiplied_as_in_plain_rust() {
    for isa in Isa::tested() {
        isa.run(Bytes);
    }
}

#[test]
fn every_instruction_set_is_either_tested_or_named_as_skipped() {
    let line = Isa::skipped().unwrap_or_default();
    let (names, reason) = line.split_once(", because ").expect("no processor has both AVX2 and NEON");
    let names: Vec<&str> = names.trim_start_matches("skipped: ").split(", ").collect();
    assert!(!reason.is_empty());
    let tested: Vec<&str> = Isa::tested().into_iter().map(Isa::name).collect();
    assert_eq!(names.len() + tested.len(), 11, "{names:?} {tested:?}");
    assert!(tested.iter().all(|name| !names.contains(name)), "{names:?} {tested:?}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn tiles_accept_memory_of_the_required_length_and_panic_for_less() {
    use super::amx::{Block, BlockFactors, COLUMNS, STEPS};
    // If there is none, this has said so.
    let Some(amx) = Isa::tested().into_iter().find_map(Isa::amx) else { return };
    // 17 rows need memory for 32.
    for (rows, tiles) in [(1, 1), (16, 1), (17, 2), (32, 2)] {
        let (steps, a_stride, stride) = (2 * STEPS, 2 * STEPS + 3, COLUMNS + 5);
        let accepts = |a_less: usize, panel_less: usize, c_less: usize| {
            let a = vec![0; (16 * tiles - 1) * a_stride + steps - a_less];
            let panel = vec![0; steps * COLUMNS - panel_less];
            let mut c = vec![0; (16 * tiles - 1) * stride + COLUMNS - c_less];
            let factors = BlockFactors { a: &a, a_stride, panel: &panel, steps, rows };
            let block = Block { c: &mut c, stride, accumulate: true };
            catch_unwind(AssertUnwindSafe(|| amx.tiles().multiply_bytes(factors, block))).is_ok()
        };
        assert!(accepts(0, 0, 0));
        assert!(!accepts(1, 0, 0) && !accepts(0, 1, 0) && !accepts(0, 0, 1), "{rows} rows");
    }
}

#[test]
fn aligned_memory_has_the_requested_length_and_is_zeroed_and_aligned() {
    for len in [0, 1, 16, 17, 1000, 300_000] {
        let mut numbers = AlignedVec::<f32>::zeroed(len);
        assert_eq!(numbers.len(), len);
        assert!(numbers.iter().all(|x| *x == 0.0));
        assert_eq!(numbers.as_ptr() as usize % 64, 0);
        numbers.fill(1.0);
        numbers.grow_to(len / 2);
        assert_eq!(numbers.len(), len, "growing never shrinks");
        numbers.grow_to(len + 1);
        assert_eq!(numbers.len(), len + 1);
    }
}

/// The difference between the length of each slice of a product and the length that its sizes require.
#[derive(Clone, Copy, Default)]
struct Lengths {
    a: isize,
    panel: isize,
    c: isize,
    bias: isize,
}

struct ProductWithLengths {
    step_major: bool,
    width: usize,
    lengths: Lengths,
}

impl Kernel for ProductWithLengths {
    type Output = bool;

    /// Whether the product is computed correctly; `false` if it panics.
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> bool {
        let (rows, steps, stride) = (S::TILE_ROWS + 1, 3, S::TILE_ROWS + 5);
        let (panel_width, width) = (2 * S::LANES, self.width.min(2 * S::LANES));
        let memory = |length: usize, extra: isize| vec![1.0; length.saturating_add_signed(extra)];
        let (layout, a_length) = if self.step_major {
            (Layout::StepMajor { stride }, (steps - 1) * stride + rows)
        } else {
            (Layout::RowMajor { stride }, (rows - 1) * stride + steps)
        };
        let a = memory(a_length, self.lengths.a);
        // The stride is larger than the panel is wide, as when a panel is a few columns of a matrix.
        let panel_stride = panel_width + 3;
        let panel = memory((steps - 1) * panel_stride + panel_width, self.lengths.panel);
        let mut c = memory((rows - 1) * panel_width + width, self.lengths.c);
        let bias = memory(panel_width, self.lengths.bias);
        let product = PanelProduct::<Fp32> {
            a: &a,
            layout,
            panel: &panel,
            panel_stride,
            steps,
            c: &mut c,
            c_stride: panel_width,
            rows,
            width,
            start: Start::Bias(&bias),
            floor: 0.0,
        };
        catch_unwind(AssertUnwindSafe(|| product.run(simd))).is_ok()
            && c.iter().all(|&x| x == 1.0 || x == 4.0)
    }
}

#[test]
fn a_product_accepts_slices_of_the_required_length_and_panics_for_shorter_ones() {
    for isa in Isa::tested() {
        for step_major in [false, true] {
            for width in [1, MAX_LANES, 2 * MAX_LANES] {
                let accepts = |lengths| isa.run(ProductWithLengths { step_major, width, lengths });
                let fit = Lengths::default();
                assert!(accepts(fit), "{}", isa.name());
                assert!(!accepts(Lengths { a: -1, ..fit }), "{} reads beyond A", isa.name());
                assert!(!accepts(Lengths { panel: -1, ..fit }), "{} reads beyond the panel", isa.name());
                assert!(!accepts(Lengths { c: -1, ..fit }), "{} writes beyond C", isa.name());
                let whole = width >= 2 * isa.lanes();
                assert_eq!(accepts(Lengths { bias: -1, ..fit }), !whole, "{}: bias", isa.name());
            }
        }
    }
}
