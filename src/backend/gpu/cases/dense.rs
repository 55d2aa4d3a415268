//! GEMMs of few rows.

use super::arena::{Expected, allowed};
use super::case::{Case, Launch, cost, some};
use super::reference::rows::{Extras, Norm, layer_norm};
use crate::runtime::activations::{NONE, RELU, SWISH};
use crate::runtime::ffi::arguments::DenseArguments;
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::Address;
use crate::runtime::kernels::grid;
use crate::runtime::numbers::noise;

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    if element == ElementType::Fp32 {
        return Vec::new();
    }
    let shapes = vec![(37, 96, 32), (1, 32, 16), (5, 256, 48), (16, 512, 256), (64, 512, 1024)];
    let long = vec![(16, 2048, 256), (21, 416, 48), (1, 2048, 48), (16, 64, 48)];
    let plain = shapes.iter().copied().chain(long).collect();
    let plain = some(plain, is_quick, 2).into_iter().map(|shape| case(element, shape, None));
    let with_all = shapes.into_iter().map(|shape| (shape, Before { has_bias: true, activation: RELU }));
    let with_less = [
        ((33, 96, 32), Before { has_bias: false, activation: SWISH }),
        ((2, 512, 32), Before { has_bias: true, activation: NONE }),
        ((21, 256, 32), Before { has_bias: true, activation: SWISH }),
    ];
    let normalised = some(with_all.chain(with_less).collect(), is_quick, 2).into_iter();
    let normalised = normalised.map(|(shape, before)| case(element, shape, Some(before)));
    plain.chain(normalised).map(Case::with_matrix_instructions).collect()
}

/// The seed of the bias.
const BIAS: u32 = 52;

/// What comes before a LayerNorm.
#[derive(Clone, Copy)]
struct Before {
    has_bias: bool,
    activation: i32,
}

fn case(element: ElementType, shape: (usize, usize, usize), before: Option<Before>) -> Case {
    let (rows, inputs, outputs) = shape;
    let normalises = before.is_some();
    let family = if normalises { "norm_dense" } else { "dense" };
    let Before { has_bias, activation } = before.unwrap_or(Before { has_bias: false, activation: NONE });
    let how = match before {
        Some(_) if has_bias => format!(", bias, function {activation}"),
        Some(_) => format!(", function {activation}"),
        None => String::new(),
    };
    let shape = format!("{rows} rows, {inputs} inputs, {outputs} outputs{how}");
    let cost = cost(rows * inputs * outputs, rows * outputs);
    Case::new((family, element, ""), shape, cost, move |arena| {
        let epsilon = 1e-3_f32;
        let scale = 2.0 / (inputs as f32).sqrt();
        let scaled: Vec<f32> = noise(51, outputs * inputs).iter().map(|x| x * scale).collect();
        let (input, x) = arena.numbers(element, &noise(50, rows * inputs));
        let (weights, w) = arena.numbers(element, &scaled);
        let mut row = |seed: u32| {
            if !normalises || seed == BIAS && !has_bias {
                return (Address::NULL, Vec::new());
            }
            let (place, values) = arena.numbers(element, &noise(seed, inputs));
            (place.address, values)
        };
        let [(bias, bias_values), (gammas, gamma_values), (betas, beta_values)] =
            [BIAS, 53, 54].map(&mut row);
        let output = arena.room(element, rows * outputs);
        let arguments = DenseArguments {
            input: input.address,
            weights: weights.address,
            output: output.address,
            bias,
            gammas,
            betas,
            rows: rows as i32,
            inputs: inputs as i32,
            outputs: outputs as i32,
            activation,
            epsilon,
            reserved: 0,
        };
        let x = if normalises {
            let (gammas, betas) = (gamma_values.as_slice(), beta_values.as_slice());
            let norm = Norm { gammas, betas, residual: None, alpha: 1.0, epsilon: f64::from(epsilon) };
            let extras =
                Extras { bias: has_bias.then_some(&bias_values), bias_rows: 1, activation, gates: None };
            layer_norm(&x, norm, extras)
        } else {
            x
        };
        let product = |(x, w): (&[f64], &[f64])| x.iter().zip(w).map(|(x, w)| x * w).sum();
        let pairs = x.chunks(inputs).flat_map(|x| w.chunks(inputs).map(move |w| (x, w)));
        let values = pairs.map(product).collect();
        // The normalised input is rounded to the type before it is multiplied.
        let roundings = if normalises { 2.0 } else { 1.0 };
        let expected = Expected::new(output, element, values, roundings * allowed(element));
        Launch::new(grid(outputs / 16, rows.div_ceil(16), 256), arguments, vec![expected])
    })
}
