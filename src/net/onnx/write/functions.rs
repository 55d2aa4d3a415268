//! Activations and LayerNorms.

use super::builder::{Builder, float, int};
use super::data_type::DataType;
use super::settings::{LAYER_NORMALIZATION_OPSET, MISH_OPSET};
use crate::architecture::Activation;
use crate::weights::LayerNorm;

/// `x` after an activation. `name` is the layer before it.
pub(super) fn activate(builder: &mut Builder<'_>, name: &str, x: String, activation: Activation) -> String {
    let named = |last: &str| format!("{name}/{last}");
    match activation {
        Activation::None => x,
        Activation::Relu => builder.node("Relu", &named("relu"), &[&x], Vec::new()),
        Activation::Relu2 => {
            let x = builder.node("Relu", &named("sqrrelu/relu"), &[&x], Vec::new());
            builder.node("Mul", &named("sqrrelu/sqr"), &[&x, &x], Vec::new())
        }
        Activation::Tanh => builder.node("Tanh", &named("tanh"), &[&x], Vec::new()),
        Activation::Sigmoid => builder.node("Sigmoid", &named("sigmoid"), &[&x], Vec::new()),
        Activation::Selu => {
            let name = named("selu");
            let x = builder.without_bf16(&name, &x);
            let x = builder.node("Selu", &format!("{name}/selu"), &[&x], Vec::new());
            builder.with_bf16(&name, x)
        }
        Activation::Mish => mish(builder, &named("mish"), &x),
        Activation::Swish => {
            let sigmoid = builder.node("Sigmoid", &named("swish/sigmoid"), &[&x], Vec::new());
            builder.node("Mul", &named("swish"), &[&sigmoid, &x], Vec::new())
        }
        // Every activation of an encoder is applied to rows `[rows][channels]`.
        Activation::Softmax => builder.softmax(&named("softmax"), &x, 1),
    }
}

/// `x tanh(log(1 + exp(x)))`
fn mish(builder: &mut Builder<'_>, name: &str, x: &str) -> String {
    let inner = builder.without_bf16(name, x);
    if builder.settings.opset >= MISH_OPSET {
        let result = builder.node("Mish", name, &[&inner], Vec::new());
        return builder.with_bf16(name, result);
    }
    let softplus = builder.node("Softplus", &format!("{name}/softplus"), &[&inner], Vec::new());
    let softplus = builder.with_bf16(name, softplus);
    let tanh = builder.node("Tanh", &format!("{name}/tanh"), &[&softplus], Vec::new());
    builder.node("Mul", name, &[&tanh, x], Vec::new())
}

/// The rows of `x` after a LayerNorm.
pub(super) fn layer_norm(builder: &mut Builder<'_>, name: &str, x: &str, layer: &LayerNorm) -> String {
    if builder.settings.elementary_layer_norms || builder.settings.opset < LAYER_NORMALIZATION_OPSET {
        return elementary_layer_norm(builder, name, x, layer);
    }
    let scale = builder.weights(&format!("{name}/w/scale"), &layer.gammas, &[layer.gammas.len()]);
    let bias = builder.weights(&format!("{name}/w/bias"), &layer.betas, &[layer.betas.len()]);
    let attributes = vec![int("axis", 1), float("epsilon", layer.epsilon)];
    builder.node("LayerNormalization", name, &[x, &scale, &bias], attributes)
}

/// A LayerNorm of operators that every opset has. As in the operator LayerNormalization, sums are in f32.
fn elementary_layer_norm(builder: &mut Builder<'_>, name: &str, x: &str, layer: &LayerNorm) -> String {
    let named = |last: &str| format!("{name}/{last}");
    let data_type = builder.settings.data_type;
    let x = match data_type {
        DataType::F32 => x.to_owned(),
        _ => builder.cast(&named("to_float"), x, DataType::F32),
    };
    let mean = builder.means(&named("mean"), &x, &[1], true);
    let centered = builder.node("Sub", &named("centered"), &[&x, &mean], Vec::new());
    let squared = builder.node("Mul", &named("squared"), &[&centered, &centered], Vec::new());
    let variance = builder.means(&named("var"), &squared, &[1], true);
    let epsilon = [layer.epsilon].into_iter();
    let epsilon = builder.weights_as(DataType::F32, &named("var_eps/w"), epsilon, &[1]);
    let variance = builder.node("Add", &named("var_eps"), &[&variance, &epsilon], Vec::new());
    let deviation = builder.node("Sqrt", &named("std"), &[&variance], Vec::new());
    let inverse = builder.node("Reciprocal", &named("inv_std"), &[&deviation], Vec::new());
    let mut normal = builder.node("Mul", &named("normalized"), &[&centered, &inverse], Vec::new());
    if data_type != DataType::F32 {
        normal = builder.cast(&named("to_data_type"), &normal, data_type);
    }
    let gammas = builder.weights(&named("gammas/w"), &layer.gammas, &[layer.gammas.len()]);
    let scaled = builder.node("Mul", &named("gammas"), &[&normal, &gammas], Vec::new());
    let betas = builder.weights(&named("betas/w"), &layer.betas, &[layer.betas.len()]);
    builder.node("Add", &named("betas"), &[&scaled, &betas], Vec::new())
}
