//! Convolutions and residual blocks.

use super::builder::Builder;
use super::functions::activate;
use crate::network::{Network, ResidualBlock, SqueezeExcitation};
use crate::weights::Convolution;

/// The name of the constant that all squeeze-and-excitation units use.
const SE_SHAPE: &str = "/const/se_reshape";

/// A residual tower. The result is `[batch, channels, 8, 8]`.
pub(super) fn tower(
    builder: &mut Builder<'_>,
    network: &Network,
    input: &Convolution,
    blocks: &[ResidualBlock],
    planes: String,
) -> String {
    let activation = network.activation();
    if blocks.iter().any(|block| block.se.is_some()) {
        builder.integers(SE_SHAPE, &[-1, 2 * input.outputs as i64, 1, 1]);
    }
    let x = builder.convolve("/inputconv", &planes, input);
    let mut x = activate(builder, "/inputconv", x, activation);
    for (index, block) in blocks.iter().enumerate() {
        let named = |last: &str| format!("/block{index}/{last}");
        let inner = builder.convolve(&named("conv1"), &x, &block.conv1);
        let inner = activate(builder, &named("conv1"), inner, activation);
        let name = named("conv2");
        let mut y = builder.convolve(&name, &inner, &block.conv2);
        if let Some(se) = &block.se {
            y = squeeze_excite(builder, network, se, &format!("{name}/se"), &y);
        }
        let sum = builder.node("Add", &format!("{name}/mixin"), &[&y, &x], Vec::new());
        x = activate(builder, &name, sum, activation);
    }
    x
}

fn squeeze_excite(
    builder: &mut Builder<'_>,
    network: &Network,
    se: &SqueezeExcitation,
    name: &str,
    x: &str,
) -> String {
    let named = |last: &str| format!("{name}/{last}");
    let means = builder.means(&named("reduce_mean"), x, &[2, 3], false);
    let hidden = builder.dense(&named("matmul1"), &named("add1"), &means, &se.squeeze);
    let hidden = activate(builder, name, hidden, network.activation());
    let excitation = builder.dense(&named("matmul2"), &named("add2"), &hidden, &se.excite);
    let excitation = builder.node("Reshape", &named("reshape"), &[&excitation, SE_SHAPE], Vec::new());
    let [factors, offsets] = builder.split(&named("split"), &excitation, None);
    let factors = builder.node("Sigmoid", &named("sigmoid"), &[&factors], Vec::new());
    let scaled = builder.node("Mul", &named("mul"), &[&factors, x], Vec::new());
    builder.node("Add", &named("add3"), &[&scaled, &offsets], Vec::new())
}
