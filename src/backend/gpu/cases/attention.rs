//! Cases of the attention kernels: every head size, in one of them without smolgen's logits.

use super::arena::{Expected, allowed};
use super::case::{Case, Launch, cost, some};
use super::reference::attention::{Layout, attention};
use crate::network::layers::SQUARES;
use crate::runtime::ffi::arguments::AttentionArguments;
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::Address;
use crate::runtime::kernels::{FUSED_HEADS, PAIRS, attention_grid};
use crate::runtime::numbers::noise;

/// The largest heads of which a block computes two on some architectures.
const LARGEST_PAIRED: usize = 32;

/// The size of a launch, and its numbers.
#[derive(Clone, Copy)]
struct Shape {
    positions: usize,
    heads: usize,
    depth: usize,
    /// The number of elements between two rows, beyond those up to a multiple of eight.
    gap: usize,
    has_logits: bool,
    /// The largest size of queries, keys and values.
    size: f32,
    /// Whether a logit is infinite, as that of a GEMM which has overflowed.
    is_infinite: bool,
}

const SHAPE: Shape =
    Shape { positions: 2, heads: 3, depth: 32, gap: 8, has_logits: true, size: 2.0, is_infinite: false };

impl Shape {
    fn text(&self) -> String {
        let Shape { positions, heads, depth, gap, size, .. } = *self;
        let logits = match (self.has_logits, self.is_infinite) {
            (_, true) => ", infinite logits",
            (true, false) => ", logits",
            (false, false) => "",
        };
        format!(
            "{positions} positions, {heads} heads of {depth}, gaps of {gap}, numbers up to {size}{logits}"
        )
    }
}

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let any = vec![
        Shape { depth: 20, ..SHAPE },
        Shape { has_logits: false, ..SHAPE },
        Shape { positions: 1, heads: 2, depth: 8, ..SHAPE },
        Shape { heads: 1, depth: 128, ..SHAPE },
        Shape { positions: 1, heads: 2, depth: 256, ..SHAPE },
        // Rows and columns that do not begin at multiples of eight.
        Shape { positions: 1, heads: 2, depth: 4, gap: 1, ..SHAPE },
        Shape { positions: 1, heads: 1, depth: 21, gap: 0, has_logits: false, ..SHAPE },
        Shape { heads: 2, depth: 40, gap: 3, is_infinite: true, ..SHAPE },
        Shape { positions: 1, heads: 1, depth: 64, gap: 0, has_logits: false, size: 4.0, ..SHAPE },
        Shape { positions: 1, heads: 1, depth: 24, gap: 0, ..SHAPE },
    ];
    for shape in some(any, is_quick, 1) {
        cases.push(case(("attention_any", element, ""), shape, 1));
    }
    if element == ElementType::Fp32 {
        return cases;
    }
    for depth in FUSED_HEADS {
        let shape = Shape { depth, has_logits: depth != 16, ..SHAPE };
        let others = vec![
            Shape { positions: 1, is_infinite: true, has_logits: true, ..shape },
            Shape { heads: 1, gap: 0, has_logits: false, size: 4.0, ..shape },
            Shape { positions: 1, heads: 2, gap: 0, has_logits: true, ..shape },
        ];
        // The heads of T1, T82 and BT4.
        let of_networks = if depth == 32 { vec![(3, 8), (2, 24), (2, 32)] } else { Vec::new() };
        let of_networks =
            of_networks.into_iter().map(|(positions, heads)| Shape { positions, heads, gap: 0, ..shape });
        let shapes = std::iter::once(shape).chain(others).chain(of_networks).collect();
        for shape in some(shapes, is_quick, 1) {
            // Some architectures compute two small heads in a block instead of one.
            let may_be_paired = depth <= LARGEST_PAIRED;
            let pairs = may_be_paired.then(|| (format!("_d{depth}{PAIRS}"), 2));
            for (suffix, together) in std::iter::once((format!("_d{depth}"), 1)).chain(pairs) {
                let case = case(("attention", element, suffix.as_str()), shape, together);
                let case = if may_be_paired { case.optional() } else { case };
                cases.push(case.with_matrix_instructions());
            }
        }
    }
    let others = vec![
        SHAPE,
        Shape { positions: 1, heads: 2, gap: 0, has_logits: false, size: 4.0, ..SHAPE },
        Shape { positions: 1, heads: 1, is_infinite: true, ..SHAPE },
    ];
    let others = some(others, is_quick, 1).into_iter();
    cases.extend(
        others.map(|shape| case(("attention_other", element, "_d32"), shape, 1).with_matrix_instructions()),
    );
    cases
}

fn case(kernel: (&'static str, ElementType, &str), shape: Shape, together: usize) -> Case {
    let element = kernel.1;
    let Shape { positions, heads, depth, gap, has_logits, size, is_infinite } = shape;
    let cost = cost(positions * heads * SQUARES * SQUARES * 2 * depth, positions * heads * SQUARES * depth);
    Case::new(kernel, shape.text(), cost, move |arena| {
        let width = heads * depth;
        // There are gaps between the rows, which the kernel must neither read nor write. Behind the last row there is
        // nothing.
        let is_even = gap % 8 == 0 && depth % 8 == 0;
        let row_of = |width: usize| if is_even { width.next_multiple_of(8) + gap } else { width + gap };
        let layout = Layout {
            positions,
            heads,
            depth,
            stride: row_of(3 * width),
            key_offset: width,
            value_offset: 2 * width,
            output_stride: row_of(width),
        };
        let Layout { stride, key_offset, value_offset, output_stride, .. } = layout;
        let count = positions * SQUARES * stride - (stride - 3 * width);
        let (qkv, x) = arena.numbers(element, &noise(40, count).iter().map(|x| x * size).collect::<Vec<_>>());
        let mut logits = noise(41, positions * heads * SQUARES * SQUARES);
        if is_infinite {
            logits[5] = f32::INFINITY;
        }
        let logits = has_logits.then(|| arena.numbers(element, &logits));
        let output = arena.room(element, positions * SQUARES * output_stride - (output_stride - width));
        let scale = 1.0 / (depth as f32).sqrt();
        let arguments = AttentionArguments {
            qkv: qkv.address,
            logits: logits.as_ref().map_or(Address::NULL, |(place, _)| place.address),
            output: output.address,
            heads: heads as i32,
            depth: depth as i32,
            stride: stride as i32,
            key_offset: key_offset as i32,
            value_offset: value_offset as i32,
            output_stride: output_stride as i32,
            scale,
            reserved: 0,
        };
        let logits = logits.as_ref().map(|(_, values)| values.as_slice());
        let mut values = attention(&x, logits, layout, f64::from(scale));
        values.truncate(values.len() - (output_stride - width));
        // Numbers of twice the size have scores of four times the size, whose roundings become errors of weights.
        let expected = Expected::new(output, element, values, allowed(element) * f64::from(size / 2.0));
        Launch::new(attention_grid(heads, positions, together), arguments, vec![expected])
    })
}
