//! Cases of the attention kernels: every head size, in one of them without smolgen's logits.

use super::arena::Expected;
use super::case::{Case, Launch, some};
use super::reference::attention::{Layout, attention};
use crate::runtime::ffi::arguments::AttentionArguments;
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::Address;
use crate::runtime::kernels::{FUSED_HEADS, PAIRS, attention_grid};
use crate::runtime::numbers::{allowed, noise};

const SQUARES: usize = 64;

/// The largest heads of which a block computes two on some architectures.
const LARGEST_PAIRED: usize = 32;

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let any = vec![(20, 2, 3), (32, 2, 3), (8, 1, 2), (128, 2, 1), (256, 1, 2)];
    for (depth, positions, heads) in some(any, is_quick, 1) {
        cases.push(case(("attention_any", element, ""), (positions, heads, depth), depth != 32, 1));
    }
    if element == ElementType::Fp32 {
        return cases;
    }
    for depth in FUSED_HEADS {
        // The heads of T1, T82 and BT4.
        let of_networks = if depth == 32 && !is_quick { vec![(3, 8), (2, 24), (2, 32)] } else { Vec::new() };
        for (positions, heads) in std::iter::once((2, 3)).chain(of_networks) {
            // Some architectures compute two small heads in a block instead of one.
            let may_be_paired = depth <= LARGEST_PAIRED;
            let pairs = may_be_paired.then(|| (format!("_d{depth}{PAIRS}"), 2));
            for (suffix, together) in std::iter::once((format!("_d{depth}"), 1)).chain(pairs) {
                let kernel = ("attention", element, suffix.as_str());
                let case = case(kernel, (positions, heads, depth), depth != 16, together);
                let case = if may_be_paired { case.optional() } else { case };
                cases.push(case.with_matrix_instructions());
            }
        }
    }
    let other = case(("attention_other", element, "_d32"), (2, 3, 32), true, 1);
    cases.push(other.with_matrix_instructions());
    cases
}

fn case(
    kernel: (&'static str, ElementType, &str),
    (positions, heads, depth): (usize, usize, usize),
    has_logits: bool,
    together: usize,
) -> Case {
    let element = kernel.1;
    let logits_text = if has_logits { ", logits" } else { "" };
    let shape = format!("{positions} positions, {heads} heads of {depth}{logits_text}");
    let cost = positions * heads * SQUARES * SQUARES * 2 * depth;
    Case::new(kernel, shape, cost, move |arena| {
        let width = heads * depth;
        // There are gaps between the rows, which the kernel must neither read nor write.
        let layout = Layout {
            positions,
            heads,
            depth,
            stride: (3 * width).next_multiple_of(8) + 8,
            key_offset: width,
            value_offset: 2 * width,
            output_stride: width.next_multiple_of(8) + 8,
        };
        let Layout { stride, key_offset, value_offset, output_stride, .. } = layout;
        let numbers: Vec<f32> = noise(40, positions * SQUARES * stride).iter().map(|x| x * 2.0).collect();
        let (qkv, x) = arena.numbers(element, &numbers);
        let logits =
            has_logits.then(|| arena.numbers(element, &noise(41, positions * heads * SQUARES * SQUARES)));
        let output = arena.room(element, positions * SQUARES * output_stride);
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
        let values = attention(&x, logits, layout, f64::from(scale));
        let expected = Expected::new(output, element, values, allowed(element));
        Launch::new(attention_grid(heads, positions, together), arguments, vec![expected])
    })
}
