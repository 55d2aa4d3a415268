//! Input planes, the transforms of a convolution, and squeeze-and-excitation.

use super::arena::{Expected, allowed};
use super::case::{Case, Launch, cost, some};
use super::reference::boards::{
    Planes, SqueezeExcite, means, planes, squeeze_excite, winograd_input, winograd_output,
};
use super::reference::gemms::{dot, rounded};
use crate::gemm::chain::WholeConvolution;
use crate::gemm::own::{TileSize, tile_sizes};
use crate::network::layers::SQUARES;
use crate::network::layers::component_type;
use crate::runtime::activations::activation;
use crate::runtime::ffi::arguments::{
    ConvolutionArguments, PlanesArguments, SqueezeExciteArguments, WinogradArguments,
};
use crate::runtime::ffi::gemm::{ElementType, GemmOperands, GemmShape};
use crate::runtime::ffi::hip::Address;
use crate::runtime::kernels::grid;
use crate::runtime::numbers::noise;
use rukh_backend::winograd::{COMPONENTS, TILES};

/// The number of bitboards of a position.
const MASKS: usize = 112;

/// The largest error of the means: fp32 sums of 64 numbers.
const MEAN_ERROR: f64 = 1e-4;

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    let shapes = vec![(112, 64, Some(109)), (12, 0, None), (112, 0, Some(109)), (112, 3, None)];
    let planes = some(shapes, is_quick, 2).into_iter().map(|shape| planes_case(element, shape));
    let mut cases: Vec<Case> = planes.collect();
    for (positions, channels) in some(vec![(2, 72), (1, 8), (3, 136), (3, 384)], is_quick, 1) {
        cases.push(winograd_input_case(element, positions, channels));
        for how in [Ending::Means, Ending::InPlace, Ending::All] {
            cases.push(winograd_output_case(element, positions, channels, how));
        }
    }
    // The kernels of whole convolutions have 128 threads, which their names do not say.
    for size in tile_sizes().into_iter().filter(|size| size.rows == 64 && size.threads == 128) {
        // Groups of 16 positions, of which the last has fewer.
        let shapes = vec![
            (37, 72, 40, Ending::InPlace),
            (2, 16, 136, Ending::InPlace),
            (17, 8, 72, Ending::All),
            (5, 16, 136, Ending::All),
            (2, 72, 72, Ending::Means),
        ];
        let shapes = some(shapes, is_quick, 1).into_iter();
        cases.extend(shapes.map(|shape| convolution_case(element, size, shape)));
    }
    let in_residual = Squeezed::InResidual;
    let shapes = vec![
        (3, 200, 24, in_residual),
        (1, 16, 8, in_residual),
        (2, 384, 32, in_residual),
        (2, 1024, 512, in_residual),
        (1, 264, 40, Squeezed::Apart),
        (2, 1024, 72, Squeezed::InBranch),
    ];
    cases.extend(some(shapes, is_quick, 1).into_iter().map(|shape| squeeze_excite_case(element, shape)));
    cases
}

fn planes_case(element: ElementType, (count, extra, valued_plane): (usize, usize, Option<usize>)) -> Case {
    let positions = 3;
    let valued = valued_plane.map_or(String::new(), |plane| format!(", value in plane {plane}"));
    let shape = format!("{positions} positions, {count} planes and {extra} constants{valued}");
    let cost = cost(0, positions * SQUARES * (count + extra));
    Case::new(("planes", element, ""), shape, cost, move |arena| {
        let mask = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let masks: Vec<u64> = (0..(positions * MASKS) as u64).map(mask).collect();
        let values = [0.25_f32, 0.5, 99.0];
        let mask_bytes: Vec<u8> = masks.iter().flat_map(|mask| mask.to_le_bytes()).collect();
        let value_bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (table, constants) = arena.numbers(element, &noise(60, SQUARES * extra));
        let arguments = PlanesArguments {
            masks: arena.put(&mask_bytes).address,
            // Without a plane that has values there need be none.
            values: valued_plane.map_or(Address::NULL, |_| arena.put(&value_bytes).address),
            table: if extra > 0 { table.address } else { Address::NULL },
            output: Address::NULL,
            mask_stride: MASKS as i32,
            planes: count as i32,
            extra: extra as i32,
            valued_plane: valued_plane.map_or(-1, |plane| plane as i32),
        };
        let output = arena.room(element, positions * SQUARES * (count + extra));
        let arguments = PlanesArguments { output: output.address, ..arguments };
        let how = Planes { mask_stride: MASKS, planes: count, extra, valued_plane };
        let values = planes(&masks, &values, &constants, how);
        // The numbers are only moved, so they must be exact.
        let expected = Expected::new(output, element, values, 1e-9);
        Launch::new(grid(positions, 1, 256), arguments, vec![expected])
    })
}

fn winograd_input_case(element: ElementType, positions: usize, channels: usize) -> Case {
    let shape = format!("{positions} positions, {channels} channels");
    let cost = cost(0, positions * SQUARES * channels * 2);
    Case::new(("winograd_input", element, ""), shape, cost, move |arena| {
        let components = component_type(element);
        // There are gaps between the components, which the kernel must not write.
        let stride = TILES * positions * channels + 8;
        let (input, x) = arena.numbers(element, &noise(70, positions * SQUARES * channels));
        let output = arena.room(components, COMPONENTS * stride);
        let arguments = WinogradArguments {
            input: input.address,
            output: output.address,
            bias: Address::NULL,
            residual: Address::NULL,
            means: Address::NULL,
            component_stride: stride as i64,
            channels: channels as i32,
            activation: 0,
        };
        let values = winograd_input(&x, channels, stride);
        let expected = Expected::new(output, components, values, allowed(components));
        Launch::new(grid(channels.div_ceil(64), positions, 128), arguments, vec![expected])
    })
}

/// What the second transform does besides transforming.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It takes means.
    Means,
    /// It adds a residual, which is the output, too, and applies a function.
    InPlace,
    /// It does both, with a residual apart.
    All,
}

fn winograd_output_case(element: ElementType, positions: usize, channels: usize, ending: Ending) -> Case {
    let what = match ending {
        Ending::Means => "means",
        Ending::InPlace => "residual in place, function 6",
        Ending::All => "means, residual, function 6",
    };
    let shape = format!("{positions} positions, {channels} channels, {what}");
    let cost = cost(0, positions * SQUARES * channels * 2);
    Case::new(("winograd_output", element, ""), shape, cost, move |arena| {
        let components = component_type(element);
        let count = positions * SQUARES * channels;
        let stride = TILES * positions * channels + 8;
        let numbers: Vec<f32> = noise(80, COMPONENTS * stride).iter().map(|x| x * 0.25).collect();
        let (input, sums) = arena.numbers(components, &numbers);
        let (bias, bias_values) = arena.numbers(element, &noise(81, channels));
        let residual = (ending != Ending::Means).then(|| arena.numbers(element, &noise(82, count)));
        let output = match &residual {
            Some((place, _)) if ending == Ending::InPlace => *place,
            _ => arena.room(element, count),
        };
        let has_means = ending != Ending::InPlace;
        let means_place = has_means.then(|| arena.room(ElementType::Fp32, positions * channels));
        let code = if ending == Ending::Means { 0 } else { 6 };
        let arguments = WinogradArguments {
            input: input.address,
            output: output.address,
            bias: bias.address,
            residual: residual.as_ref().map_or(Address::NULL, |(place, _)| place.address),
            means: means_place.map_or(Address::NULL, |place| place.address),
            component_stride: stride as i64,
            channels: channels as i32,
            activation: code,
        };
        let residual = residual.as_ref().map(|(_, values)| values.as_slice());
        let sizes = (positions, channels, stride);
        let sums = winograd_output(&sums, sizes, Some(&bias_values), residual);
        let means = means_place
            .map(|place| Expected::new(place, ElementType::Fp32, means(&sums, channels), MEAN_ERROR));
        let values = sums.iter().map(|&sum| activation(code, sum)).collect();
        let results = Expected::new(output, element, values, allowed(element));
        let expected = std::iter::once(results).chain(means).collect();
        Launch::new(grid(channels.div_ceil(64), positions, 128), arguments, expected)
    })
}

/// A whole convolution. The shape is positions, inputs, outputs. If it has means, there are gaps between the
/// components, too.
fn convolution_case(
    element: ElementType,
    size: TileSize,
    (positions, inputs, outputs, ending): (usize, usize, usize, Ending),
) -> Case {
    let has_means = ending != Ending::InPlace;
    let what = match ending {
        Ending::Means => ", means",
        Ending::InPlace => "",
        Ending::All => ", means, residual apart",
    };
    let text = format!("{positions} positions, {inputs} inputs, {outputs} outputs{what}");
    let suffix = format!("_{}x{}", size.rows, size.columns);
    let sums = COMPONENTS * TILES * positions;
    let cost = cost(sums * inputs * outputs, sums * (inputs + 2 * outputs));
    let case = Case::new(("convolution", element, &suffix), text, cost, move |arena| {
        let components = component_type(element);
        let rows = TILES * positions;
        let gap = if has_means { 8 } else { 0 };
        let (input_stride, output_stride) = (rows * inputs + gap, rows * outputs + gap);
        let scale = 1.0 / (inputs as f32).sqrt();
        let scaled: Vec<f32> = noise(71, COMPONENTS * outputs * inputs).iter().map(|x| x * scale).collect();
        let count = positions * SQUARES * outputs;
        let (board, x) = arena.numbers(element, &noise(70, positions * SQUARES * inputs));
        let (weights, w) = arena.numbers(components, &scaled);
        let (bias, bias_values) = arena.numbers(element, &noise(72, outputs));
        let residual = (ending != Ending::Means).then(|| arena.numbers(element, &noise(73, count)));
        let result = match &residual {
            Some((place, _)) if ending == Ending::InPlace => *place,
            _ => arena.room(element, count),
        };
        let means_place = has_means.then(|| arena.room(ElementType::Fp32, positions * outputs));
        let transformed = arena.room(components, COMPONENTS * input_stride);
        let gemm_results = arena.room(components, COMPONENTS * output_stride);
        let code = if ending == Ending::Means { 0 } else { 6 };
        let transform = |input, output, stride: usize, channels: usize| WinogradArguments {
            input,
            output,
            bias: Address::NULL,
            residual: Address::NULL,
            means: Address::NULL,
            component_stride: stride as i64,
            channels: channels as i32,
            activation: 0,
        };
        let whole = WholeConvolution {
            element,
            input: transform(board.address, transformed.address, input_stride, inputs),
            shape: GemmShape {
                batch: COMPONENTS,
                batch_strides: [outputs * inputs, input_stride, output_stride],
                ..GemmShape::plain(rows, outputs, inputs, components)
            },
            operands: GemmOperands::plain(weights.address, transformed.address, gemm_results.address),
            output: WinogradArguments {
                bias: bias.address,
                residual: residual.as_ref().map_or(Address::NULL, |(place, _)| place.address),
                means: means_place.map_or(Address::NULL, |place| place.address),
                activation: code,
                ..transform(gemm_results.address, result.address, output_stride, outputs)
            },
        };
        let (arguments, blocks) = whole.lay_out(size);
        let counters = arena.put(&vec![0; 4 * whole.counters(size)]).address;
        let v = winograd_input(&x, inputs, input_stride);
        let read = rounded(components, &v);
        let sum = |index: usize| {
            let (component, place) = (index / output_stride, index % output_stride);
            if place >= rows * outputs {
                return f64::NAN;
            }
            let (row, output) = (place / outputs, place % outputs);
            let w = &w[(component * outputs + output) * inputs..][..inputs];
            dot(&read[component * input_stride + row * inputs..][..inputs], w)
        };
        let sums: Vec<f64> = (0..COMPONENTS * output_stride).map(sum).collect();
        let added = residual.as_ref().map(|(_, values)| values.as_slice());
        let boards = winograd_output(
            &rounded(components, &sums),
            (positions, outputs, output_stride),
            Some(&bias_values),
            added,
        );
        // A number that is rounded in the other way changes the next steps. The last one adds 36 of them with factors.
        let one = allowed(components);
        let means = means_place.map(|place| {
            Expected::new(place, ElementType::Fp32, means(&boards, outputs), MEAN_ERROR + 8.0 * one)
        });
        let boards = boards.iter().map(|&sum| activation(code, sum)).collect();
        let mut expected = vec![
            Expected::new(transformed, components, v, one),
            Expected::new(gemm_results, components, sums, 2.0 * one),
            Expected::new(result, element, boards, allowed(element) + 16.0 * one),
        ];
        expected.extend(means);
        let arguments = ConvolutionArguments { counters, ..arguments };
        Launch::new(grid(blocks, 1, size.threads), arguments, expected)
    });
    case.optional()
}

/// The output of squeeze-and-excitation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Squeezed {
    Apart,
    InBranch,
    InResidual,
}

fn squeeze_excite_case(
    element: ElementType,
    (positions, channels, hidden, place): (usize, usize, usize, Squeezed),
) -> Case {
    let place_text = match place {
        Squeezed::Apart => "",
        Squeezed::InBranch => ", in the branch",
        Squeezed::InResidual => ", in the residual",
    };
    let shape = format!("{positions} positions, {channels} channels, {hidden} hidden units{place_text}");
    let cost = cost(positions * channels * 3 * hidden, positions * channels * SQUARES);
    Case::new(("squeeze_excite", element, ""), shape, cost, move |arena| {
        let count = positions * SQUARES * channels;
        let scaled = |seed: u32, outputs: usize, inputs: usize| -> Vec<f32> {
            let scale = 2.0 / (inputs as f32).sqrt();
            noise(seed, outputs * inputs).iter().map(|x| x * scale).collect()
        };
        let (branch, x) = arena.numbers(element, &noise(90, count));
        let (residual, r) = arena.numbers(element, &noise(91, count));
        let (means, mean_values) = arena.numbers(ElementType::Fp32, &noise(92, positions * channels));
        let (squeeze, squeeze_values) = arena.numbers(element, &scaled(93, hidden, channels));
        let (squeeze_bias, squeeze_biases) = arena.numbers(element, &noise(94, hidden));
        let (excite, excite_values) = arena.numbers(element, &scaled(95, 2 * channels, hidden));
        let (excite_bias, excite_biases) = arena.numbers(element, &noise(96, 2 * channels));
        let output = match place {
            Squeezed::Apart => arena.room(element, count),
            Squeezed::InBranch => branch,
            Squeezed::InResidual => residual,
        };
        let code = 1;
        let arguments = SqueezeExciteArguments {
            branch: branch.address,
            residual: residual.address,
            output: output.address,
            means: means.address,
            squeeze: squeeze.address,
            squeeze_bias: squeeze_bias.address,
            excite: excite.address,
            excite_bias: excite_bias.address,
            channels: channels as i32,
            hidden: hidden as i32,
            activation: code,
            reserved: 0,
        };
        let layers = SqueezeExcite {
            squeeze: &squeeze_values,
            squeeze_bias: &squeeze_biases,
            excite: &excite_values,
            excite_bias: &excite_biases,
            activation: code,
        };
        let values = squeeze_excite(&x, &r, &mean_values, layers);
        let expected = Expected::new(output, element, values, allowed(element));
        Launch::new(grid(positions, 1, 256), arguments, vec![expected])
    })
}
