//! The products of few rows.

use super::arena::Expected;
use super::case::{Case, Launch, some};
use super::reference::rows::{Extras, Norm, layer_norm};
use crate::runtime::ffi::arguments::DenseArguments;
use crate::runtime::ffi::gemm::ElementType;
use crate::runtime::ffi::hip::Address;
use crate::runtime::kernels::grid;
use crate::runtime::numbers::{allowed, noise};

/// The code of the activation before the LayerNorm: ReLU.
const RELU: i32 = 1;

pub(super) fn cases(element: ElementType, is_quick: bool) -> Vec<Case> {
    if element == ElementType::Fp32 {
        return Vec::new();
    }
    let shapes = vec![(37, 96, 32), (1, 32, 16), (5, 256, 48), (16, 512, 256), (64, 512, 1024)];
    let long = vec![(16, 2048, 256)];
    let plain = shapes.iter().copied().chain(long).collect();
    let plain = some(plain, is_quick, 2).into_iter().map(|shape| case(element, shape, false));
    let normalised = some(shapes, is_quick, 2).into_iter().map(|shape| case(element, shape, true));
    plain.chain(normalised).map(Case::with_matrix_instructions).collect()
}

fn case(element: ElementType, (rows, inputs, outputs): (usize, usize, usize), normalises: bool) -> Case {
    let family = if normalises { "norm_dense" } else { "dense" };
    let shape = format!("{rows} rows, {inputs} inputs, {outputs} outputs");
    let cost = rows * inputs * outputs;
    Case::new((family, element, ""), shape, cost, move |arena| {
        let epsilon = 1e-3_f32;
        let scale = 2.0 / (inputs as f32).sqrt();
        let scaled: Vec<f32> = noise(51, outputs * inputs).iter().map(|x| x * scale).collect();
        let (input, x) = arena.numbers(element, &noise(50, rows * inputs));
        let (weights, w) = arena.numbers(element, &scaled);
        let mut row = |seed: u32| {
            if !normalises {
                return (Address::NULL, Vec::new());
            }
            let (place, values) = arena.numbers(element, &noise(seed, inputs));
            (place.address, values)
        };
        let [(bias, bias_values), (gammas, gamma_values), (betas, beta_values)] = [52, 53, 54].map(&mut row);
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
            activation: if normalises { RELU } else { 0 },
            epsilon,
            reserved: 0,
        };
        let x = if normalises {
            let (gammas, betas) = (gamma_values.as_slice(), beta_values.as_slice());
            let norm = Norm { gammas, betas, residual: None, alpha: 1.0, epsilon: f64::from(epsilon) };
            let extras =
                Extras { bias: Some(&bias_values), bias_rows: 1, activation: RELU, ..Extras::default() };
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
