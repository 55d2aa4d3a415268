//! The operands of a LayerNorm in a forward pass.

use crate::network::layers::LayerNorm;
use crate::runtime::error::{GpuError, Result};
use crate::runtime::ffi::arguments::LayerNormArguments;
use crate::runtime::ffi::gemm::GateOperands;
use crate::runtime::ffi::hip::Address;
use crate::runtime::kernels::{LARGEST_LAYER_NORM, activation_code};
use rukh_net::architecture::Activation;

/// The operands of `output = LN(alpha * act(input + bias) + residual) * multiply + add`. `gates` holds multiply and
/// add.
pub(crate) struct Norm<'a> {
    pub(crate) ln: &'a LayerNorm,
    pub(crate) input: Address,
    pub(crate) bias: Address,
    pub(crate) activation: Activation,
    pub(crate) alpha: f32,
    pub(crate) residual: Address,
    pub(crate) gates: Option<GateOperands>,
    pub(crate) output: Address,
}

impl<'a> Norm<'a> {
    /// `x = LN(act(x + bias))`
    pub(crate) fn in_place(ln: &'a LayerNorm, x: Address, bias: Address, activation: Activation) -> Norm<'a> {
        let residual = Address::NULL;
        Norm { ln, input: x, bias, activation, alpha: 1.0, residual, gates: None, output: x }
    }

    /// `x = LN(alpha * (branch + bias) + x)`
    pub(crate) fn join(
        ln: &'a LayerNorm,
        branch: Address,
        bias: Address,
        alpha: f32,
        x: Address,
    ) -> Norm<'a> {
        let activation = Activation::None;
        Norm { ln, input: branch, bias, activation, alpha, residual: x, gates: None, output: x }
    }

    /// The arguments of the LayerNorm of `rows` rows. `name` is for error messages.
    ///
    /// # Errors
    /// The rows are too wide for the kernels, or the activation is a softmax.
    pub(crate) fn arguments(&self, name: &str, rows: usize) -> Result<LayerNormArguments> {
        let width = self.ln.width;
        if width > LARGEST_LAYER_NORM {
            let text =
                format!("{name}: {width} channels, but a LayerNorm can have at most {LARGEST_LAYER_NORM}");
            return Err(GpuError::Unsupported(text));
        }
        let activation = activation_code(self.activation).ok_or_else(|| {
            GpuError::Unsupported(format!("{name}: a softmax before a LayerNorm is not supported"))
        })?;
        let [multiply, add] = GateOperands::addresses(self.gates);
        Ok(LayerNormArguments {
            input: self.input,
            bias: self.bias,
            residual: self.residual,
            gammas: self.ln.gammas,
            betas: self.ln.betas,
            multiply,
            add,
            output: self.output,
            rows: rows as i32,
            width: width as i32,
            bias_rows: 1,
            activation,
            alpha: self.alpha,
            epsilon: self.ln.epsilon,
        })
    }
}
