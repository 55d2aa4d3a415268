//! The layouts of a GEMM's weights, and the kernel that makes one of them.

use super::arena::{Arena, Expected};
use super::case::{Case, Launch, cost, some};
use crate::network::preshuffle;
use crate::runtime::ffi::gemm::{ElementType, GemmShape};
use crate::runtime::ffi::hip::Address;
use crate::runtime::numbers::{decode, encode, noise};

/// Preshuffled weights are pieces of so many rows and so many bytes of each.
const PIECE_ROWS: usize = 16;
const PIECE_BYTES: usize = 64;

/// The inputs of a piece of weights of 8 bits.
const PIECE_INPUTS: usize = 32;

/// The bytes where a kernel must read no weights. As elements they are not a number, and as weights of 8 bits large.
const NO_WEIGHT: u8 = 0xff;

/// How weights lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    /// Rows with so many elements between them.
    Plain(usize),
    Preshuffled,
    /// Of 8 bits, with a scale for each output.
    Bytes,
}

/// The weights of some GEMMs in the arena.
pub(super) struct Weights {
    pub(super) address: Address,
    /// `[gemms][outputs][inputs]`
    pub(super) values: Vec<f64>,
    /// The distances in elements from one row to the next, and from one GEMM to the next.
    pub(super) stride: usize,
    pub(super) batch: usize,
    pub(super) is_preshuffled: bool,
}

/// A matrix of some GEMMs: their number, the outputs and the inputs.
pub(super) type Size = (usize, usize, usize);

impl Weights {
    pub(super) fn new(
        arena: &mut Arena,
        element: ElementType,
        layout: Layout,
        size: Size,
        seed: u32,
    ) -> Weights {
        let (gemms, outputs, inputs) = size;
        let scale = 2.0 / (inputs as f32).sqrt();
        let scaled = |count: usize| -> Vec<f32> { noise(seed, count).iter().map(|x| x * scale).collect() };
        match layout {
            Layout::Plain(gap) => {
                let stride = inputs + gap;
                // Nothing lies behind the last row.
                let (place, memory) = arena.numbers(element, &scaled(gemms * outputs * stride - gap));
                let rows = memory.chunks(stride).flat_map(|row| row[..inputs].iter().copied());
                let (values, batch) = (rows.collect(), outputs * stride);
                Weights { address: place.address, values, stride, batch, is_preshuffled: false }
            }
            Layout::Preshuffled => {
                let (plain, values) = encode(element, &scaled(gemms * outputs * inputs));
                let row_bytes = inputs * element.bytes();
                let memory = preshuffled(&plain, (gemms, outputs, row_bytes), row_bytes, NO_WEIGHT);
                let stride = (inputs * element.bytes()).next_multiple_of(PIECE_BYTES) / element.bytes();
                let batch = outputs.next_multiple_of(PIECE_ROWS) * stride;
                Weights { address: arena.put(&memory).address, values, stride, batch, is_preshuffled: true }
            }
            Layout::Bytes => {
                let (memory, values) = of_bytes(outputs, inputs, seed);
                let stride = inputs.next_multiple_of(PIECE_INPUTS);
                Weights {
                    address: arena.put(&memory).address,
                    values,
                    stride,
                    batch: 0,
                    is_preshuffled: true,
                }
            }
        }
    }
}

/// The first `row_bytes` of the rows of some GEMMs, preshuffled. The rows are `stride` bytes apart. Places beyond
/// the outputs and the inputs hold `beyond`.
fn preshuffled(
    plain: &[u8],
    (gemms, outputs, row_bytes): (usize, usize, usize),
    stride: usize,
    beyond: u8,
) -> Vec<u8> {
    let row = row_bytes.next_multiple_of(PIECE_BYTES);
    let gemm_bytes = outputs.next_multiple_of(PIECE_ROWS) * row;
    let mut memory = vec![beyond; gemms * gemm_bytes];
    for index in 0..gemms * outputs {
        let (gemm, output) = (index / outputs, index % outputs);
        for (piece, bytes) in plain[index * stride..][..row_bytes].chunks(PIECE_BYTES).enumerate() {
            let piece = output / PIECE_ROWS * (row / PIECE_BYTES) + piece;
            let start = gemm * gemm_bytes + (piece * PIECE_ROWS + output % PIECE_ROWS) * PIECE_BYTES;
            memory[start..start + bytes.len()].copy_from_slice(bytes);
        }
    }
    memory
}

/// Weights of 8 bits as they are in memory, with the outputs' scales behind them, and their values. Every byte occurs.
fn of_bytes(outputs: usize, inputs: usize, seed: u32) -> (Vec<u8>, Vec<f64>) {
    let row = inputs.next_multiple_of(PIECE_INPUTS);
    let mut memory = vec![NO_WEIGHT; outputs.next_multiple_of(PIECE_ROWS) * row];
    let scale = |output: usize| (2 + output % 7) as f32 * 0.004 / (inputs as f32).sqrt();
    let numbers = noise(seed, outputs * inputs);
    let mut values = Vec::with_capacity(outputs * inputs);
    for (index, number) in numbers.iter().enumerate() {
        let (output, input) = (index / inputs, index % inputs);
        let multiple = (number * 128.0).floor().clamp(-128.0, 127.0);
        let piece = output / PIECE_ROWS * (row / PIECE_INPUTS) + input / PIECE_INPUTS;
        let place = (piece * PIECE_ROWS + output % PIECE_ROWS) * PIECE_INPUTS + input % PIECE_INPUTS;
        memory[place] = (multiple + 128.0) as u8;
        values.push(f64::from(multiple) * f64::from(scale(output)));
    }
    let of_output = |output: usize| if output < outputs { scale(output) } else { f32::NAN };
    memory.extend((0..outputs.next_multiple_of(8)).flat_map(|output| of_output(output).to_le_bytes()));
    (memory, values)
}

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    // One kernel is for all types.
    if element != ElementType::Fp16 {
        return Vec::new();
    }
    let sizes = some(vec![(2, 40, 56), (1, 16, 32), (3, 5, 264), (2, 21, 80)], is_quick, 1);
    sizes.into_iter().map(preshuffle_case).collect()
}

/// Preshuffles the weights of some GEMMs, whose rows have gaps between them.
fn preshuffle_case((gemms, outputs, inputs): Size) -> Case {
    let element = ElementType::Fp16;
    let text = format!("{gemms} x {outputs} outputs, {inputs} inputs");
    let cost = cost(0, gemms * outputs * inputs);
    let case = Case::new((preshuffle::KERNEL, element, ""), text, cost, move |arena| {
        let stride = inputs + 8;
        let (plain, _) = encode(element, &noise(66, gemms * outputs * stride));
        let weights = arena.put(&plain);
        let row_bytes = inputs * element.bytes();
        let memory = preshuffled(&plain, (gemms, outputs, row_bytes), stride * element.bytes(), 0);
        let output = arena.room(element, memory.len() / element.bytes());
        let shape = GemmShape {
            batch: gemms,
            batch_strides: [outputs * stride, 0, 0],
            weights_stride: stride,
            ..GemmShape::plain(1, outputs, inputs, element)
        };
        let (grid, arguments) = preshuffle::launch(&shape, weights.address, output.address);
        let values = decode(element, &memory);
        Launch::new(grid, arguments, vec![Expected::new(output, element, values, 1e-9)])
    });
    case.typeless()
}
