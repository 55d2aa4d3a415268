//! The steps of a residual tower and of every 3x3 convolution. [`super::forward`] explains the shapes.
//!
//! A convolution has three steps: the input is transformed to Winograd's components, 36 matrices are multiplied, and
//! the results are transformed back to the board. The last step also does the operations that follow the convolution.
//! Where our own kernels multiply, the three steps can be one launch.

use super::arguments::Pass;
use super::planes::planes;
use super::scratch::Region;
use super::steps::StepList;
use crate::gemm::chain::WholeConvolution;
use crate::network::device_network::{ResidualBlock, SqueezeExcitation};
use crate::network::layers::{Convolution, SquareTable, component_type};
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::arguments::{SqueezeExciteArguments, WinogradArguments};
use crate::runtime::ffi::gemm::{GemmOperands, GemmShape};
use crate::runtime::ffi::hip::Address;
use crate::runtime::kernels::{activation_code, grid};
use rukh_backend::winograd::{COMPONENTS, TILES};
use rukh_net::architecture::Activation;

/// Planes -> `stream [T][filters]`.
pub(crate) fn tower(
    pass: &Pass<'_>,
    input: &Convolution,
    blocks: &[ResidualBlock],
    steps: &mut StepList<'_>,
) -> Result<Address> {
    let activation = pass.network.layers.activation();
    let filters = input.outputs;
    let x = steps.region(Region::Stream, steps.rows() * filters);
    // [B][112] -> planes [T][112] -> conv 3x3 -> act -> [T][filters]
    let planes = planes(&pass.input, SquareTable::EMPTY, steps)?;
    convolve("input convolution", input, (planes, x), activation, steps)?;
    for (index, block) in blocks.iter().enumerate() {
        residual_block(&format!("block {index}"), block, x, activation, steps)?;
    }
    Ok(x)
}

/// `x = act(SE(conv2(act(conv1 x))) + x)`, x `[T][filters]`.
fn residual_block(
    name: &str,
    block: &ResidualBlock,
    x: Address,
    activation: Activation,
    steps: &mut StepList<'_>,
) -> Result<()> {
    let (rows, filters) = (steps.rows(), block.conv1.outputs);
    // [T][filters] -> conv 3x3 -> act -> [T][filters]
    let inner = steps.region(Region::Wide, rows * filters);
    convolve(&format!("{name} conv1"), &block.conv1, (x, inner), activation, steps)?;
    let conv2 = format!("{name} conv2");
    let Some(se) = &block.se else {
        // -> conv 3x3 -> + x -> act
        let finish = Finish { activation, residual: x, means: Address::NULL };
        return convolution(&conv2, &block.conv2, (inner, x), &finish, steps);
    };
    // -> conv 3x3 -> [T][filters], and its means over the squares -> [B][filters]
    let branch = steps.region(Region::Branch, rows * filters);
    let means = steps.region_bytes(Region::Means, steps.positions * filters * 4);
    let finish = Finish { activation: Activation::None, residual: Address::NULL, means };
    convolution(&conv2, &block.conv2, (inner, branch), &finish, steps)?;
    // x = act(sigmoid(scales) * branch + shifts + x)
    squeeze_excite(&format!("{name} SE"), se, (branch, means), x, activation, steps)
}

/// `x = act(SE(branch) + x)`
fn squeeze_excite(
    name: &str,
    se: &SqueezeExcitation,
    (branch, means): (Address, Address),
    x: Address,
    activation: Activation,
    steps: &mut StepList<'_>,
) -> Result<()> {
    let launch = (steps.kernels.function("squeeze_excite", "")?, grid(steps.positions, 1, 256));
    let arguments = SqueezeExciteArguments {
        branch,
        residual: x,
        output: x,
        means,
        squeeze: se.squeeze.weights,
        squeeze_bias: se.squeeze.bias,
        excite: se.excite.weights,
        excite_bias: se.excite.bias,
        channels: se.squeeze.inputs as i32,
        hidden: se.squeeze.outputs as i32,
        activation: elementwise(name, activation)?,
        reserved: 0,
    };
    steps.kernel(name, launch, arguments);
    Ok(())
}

/// `y [T][outputs] = act(conv3x3(x [T][inputs]) + b)`
pub(crate) fn convolve(
    name: &str,
    layer: &Convolution,
    (x, y): (Address, Address),
    activation: Activation,
    steps: &mut StepList<'_>,
) -> Result<()> {
    let finish = Finish { activation, residual: Address::NULL, means: Address::NULL };
    convolution(name, layer, (x, y), &finish, steps)
}

/// The operations that follow a convolution's sums in the same step.
struct Finish {
    activation: Activation,
    /// The address of the residual that is added before the activation, `[T][outputs]`. Null means no residual.
    residual: Address,
    /// The address for the means over the board before the activation, `[B][outputs]` of fp32. Null if the means are
    /// not needed.
    means: Address,
}

fn convolution(
    name: &str,
    layer: &Convolution,
    (x, y): (Address, Address),
    finish: &Finish,
    steps: &mut StepList<'_>,
) -> Result<()> {
    let tiles = TILES * steps.positions;
    let element = component_type(steps.element);
    let bytes = |channels: usize| COMPONENTS * tiles * channels * element.bytes();
    let components = steps.region_bytes(Region::Components, bytes(layer.inputs));
    let sums = steps.region_bytes(Region::Sums, bytes(layer.outputs));
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
    // x [T][inputs] -> [36][4 B][inputs]
    let input = transform(x, components, tiles * layer.inputs, layer.inputs);
    // -> 36 GEMMs -> [36][4 B][outputs]
    let shape = GemmShape {
        batch: COMPONENTS,
        batch_strides: [layer.outputs * layer.inputs, tiles * layer.inputs, tiles * layer.outputs],
        ..GemmShape::plain(tiles, layer.outputs, layer.inputs, element)
    };
    let operands = GemmOperands::plain(layer.weights, components, sums);
    // -> y [T][outputs]
    let output = WinogradArguments {
        bias: layer.bias,
        residual: finish.residual,
        means: finish.means,
        activation: elementwise(name, finish.activation)?,
        ..transform(sums, y, tiles * layer.outputs, layer.outputs)
    };
    let element = steps.element;
    let whole = WholeConvolution { element, input, shape, operands, output };
    if steps.whole_convolution(name, &whole) {
        return Ok(());
    }
    let blocks = grid(layer.inputs.div_ceil(64), steps.positions, 128);
    let launch = (steps.kernels.function("winograd_input", "")?, blocks);
    steps.kernel(format!("{name} components"), launch, input);
    steps.gemm_of_shape(name, &shape, operands)?;
    let blocks = grid(layer.outputs.div_ceil(64), steps.positions, 128);
    let launch = (steps.kernels.function("winograd_output", "")?, blocks);
    steps.kernel(format!("{name} board"), launch, output);
    Ok(())
}

fn elementwise(name: &str, activation: Activation) -> Result<i32> {
    activation_code(activation)
        .ok_or_else(|| GpuError::Unsupported(format!("{name}: a softmax as activation is not supported")))
}
