//! Converts the layers of a file to `f32`, checks their sizes, and folds batch normalisation into convolutions.
//!
//! Every function takes the name of the layer in `net.proto` (`encoder[3].mha.q_w`) for its error messages.
//! Sizes are derived from the lengths of layers: the number of outputs is the number of biases, the number of
//! inputs is the number of outputs of the layer before, and the number of weights must be their product. No
//! number in the file determines the size of an allocation.

use half::{bf16, f16};
use rukh_base::parallel;

use super::proto::{ConvBlock, Ffn, Layer};
use super::schema::LayerEncoding;
use crate::error::Reason;
use crate::network::FeedForward;
use crate::weights::{Convolution, Dense, LayerNorm};

/// Added to the variance of a batch normalisation.
const BATCH_NORM_EPSILON: f32 = 1e-5;

/// Whether the file has the layer. As in lc0, an empty layer counts as absent.
pub(super) fn has(layer: &Option<Layer>) -> bool {
    layer.as_ref().is_some_and(|layer| !layer.params.is_empty())
}

/// The number of values in a layer, or 0 if it is absent.
pub(crate) fn count(name: &str, layer: &Option<Layer>) -> Result<usize, Reason> {
    let Some(layer) = layer else { return Ok(0) };
    let width = match encoding_of(name, layer)? {
        LayerEncoding::Float32 => 4,
        _ => 2,
    };
    let bytes = layer.params.len();
    if bytes % width != 0 {
        return Err(Reason::LayerBytes { layer: name.to_owned(), bytes, width });
    }
    Ok(bytes / width)
}

/// The number of values in a layer. It is an error if the layer is absent.
pub(super) fn count_present(name: &str, layer: &Option<Layer>) -> Result<usize, Reason> {
    match count(name, layer)? {
        0 => Err(Reason::MissingLayer { layer: name.to_owned() }),
        values => Ok(values),
    }
}

/// The encoding of a layer: its own or, if it has none, LINEAR16, the only one that `Format` can name for all
/// layers.
fn encoding_of(name: &str, layer: &Layer) -> Result<LayerEncoding, Reason> {
    match layer.encoding.map(|number| (number, LayerEncoding::from_number(number))) {
        None => Ok(LayerEncoding::Linear16),
        Some((number, None | Some(LayerEncoding::Unknown))) => {
            Err(Reason::LayerEncoding { layer: name.to_owned(), encoding: number })
        }
        Some((_, Some(encoding))) => Ok(encoding),
    }
}

/// The values of a layer. Their number must be the product of `dimensions`.
pub(super) fn values(name: &str, layer: &Option<Layer>, dimensions: &[usize]) -> Result<Vec<f32>, Reason> {
    let found = count_present(name, layer)?;
    let expected = dimensions.iter().fold(1usize, |product, &size| product.saturating_mul(size));
    let Some(layer) = layer.as_ref().filter(|_| found == expected) else {
        return Err(size_error(name, dimensions, expected, found));
    };
    decode(name, layer)
}

/// The error for a layer that has `found` values instead of `expected`, the product of `dimensions`.
fn size_error(name: &str, dimensions: &[usize], expected: usize, found: usize) -> Reason {
    let factors = dimensions.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
    let expected = if dimensions.len() > 1 { format!("{factors} = {expected}") } else { factors };
    Reason::LayerSize { layer: name.to_owned(), expected, found }
}

/// All values of a layer. A LINEAR16 code stands for `min (1 - t) + max t` with `t = code / 65535`.
fn decode(name: &str, layer: &Layer) -> Result<Vec<f32>, Reason> {
    let (pairs, fours) = (layer.params.as_chunks::<2>().0, layer.params.as_chunks::<4>().0);
    let (low, high) = (layer.min_val.unwrap_or(0.0), layer.max_val.unwrap_or(0.0));
    let not_finite = |value, index| Reason::NotFinite { layer: name.to_owned(), value, index };
    let encoding = encoding_of(name, layer)?;
    let values = match encoding {
        LayerEncoding::Float32 => fours.len(),
        LayerEncoding::Float16 | LayerEncoding::BFloat16 => pairs.len(),
        LayerEncoding::Linear16 | LayerEncoding::Unknown => {
            if let Some(bound) = [low, high].into_iter().find(|bound| !bound.is_finite()) {
                return Err(not_finite(bound, 0));
            }
            pairs.len()
        }
    };
    let mut decoded = vec![0.0; values];
    let filled = parallel::fill(&mut decoded, 1, |start, piece| {
        match encoding {
            LayerEncoding::Float32 => each(piece, &fours[start..], f32::from_le_bytes),
            LayerEncoding::Float16 => each(piece, &pairs[start..], |pair| f16::from_le_bytes(pair).to_f32()),
            LayerEncoding::BFloat16 => {
                each(piece, &pairs[start..], |pair| bf16::from_le_bytes(pair).to_f32())
            }
            LayerEncoding::Linear16 | LayerEncoding::Unknown => each(piece, &pairs[start..], |pair| {
                let t = f32::from(u16::from_le_bytes(pair)) / 65535.0;
                low * (1.0 - t) + high * t
            }),
        }
        match first_not_finite(piece) {
            None => Ok(()),
            Some(index) => Err((piece[index], start + index)),
        }
    });
    filled.map_err(|(value, index)| not_finite(value, index))?;
    Ok(decoded)
}

/// Sets each value to what `decode` makes of its bytes.
fn each<const BYTES: usize>(values: &mut [f32], bytes: &[[u8; BYTES]], decode: impl Fn([u8; BYTES]) -> f32) {
    values.iter_mut().zip(bytes).for_each(|(value, &bytes)| *value = decode(bytes));
}

/// The place of the first value that is infinite or NaN.
fn first_not_finite(values: &[f32]) -> Option<usize> {
    // Unlike a search for the first one, this takes many values at a time.
    let all_finite = values.iter().fold(true, |all, value| all & value.is_finite());
    if all_finite { None } else { values.iter().position(|value| !value.is_finite()) }
}

/// Returns `values`, or an error if one of them is infinite or NaN.
fn finite(name: &str, values: Vec<f32>) -> Result<Vec<f32>, Reason> {
    match first_not_finite(&values) {
        None => Ok(values),
        Some(index) => Err(Reason::NotFinite { layer: name.to_owned(), value: values[index], index }),
    }
}

/// A dense layer with `inputs` inputs and as many outputs as it has biases.
pub(super) fn dense(
    (weights_name, weights): (&str, &Option<Layer>),
    (biases_name, biases): (&str, &Option<Layer>),
    inputs: usize,
) -> Result<Dense, Reason> {
    let outputs = count_present(biases_name, biases)?;
    Ok(Dense {
        weights: values(weights_name, weights, &[outputs, inputs])?,
        biases: values(biases_name, biases, &[outputs])?,
        inputs,
        outputs,
    })
}

/// A dense layer with `inputs` inputs that must have `outputs` outputs.
pub(super) fn dense_to(
    weights: (&str, &Option<Layer>),
    biases: (&str, &Option<Layer>),
    inputs: usize,
    outputs: usize,
) -> Result<Dense, Reason> {
    let found = count_present(biases.0, biases.1)?;
    if found != outputs {
        return Err(size_error(biases.0, &[outputs], outputs, found));
    }
    dense(weights, biases, inputs)
}

/// A dense layer that has no biases in `net.proto` (smolgen's compression and global matrix, and the promotion
/// offsets). Its biases are zeros.
pub(super) fn matrix(
    name: &str,
    weights: &Option<Layer>,
    inputs: usize,
    outputs: usize,
) -> Result<Dense, Reason> {
    let weights = values(name, weights, &[outputs, inputs])?;
    Ok(Dense { weights, biases: vec![0.0; outputs], inputs, outputs })
}

/// The size of a layer divided by `part`, which must not be 0. It is an error if there is a remainder.
pub(super) fn multiple_of(name: &str, layer: &Option<Layer>, part: usize) -> Result<usize, Reason> {
    let found = count_present(name, layer)?;
    if found % part != 0 {
        return Err(Reason::LayerSize {
            layer: name.to_owned(),
            expected: format!("a multiple of {part}"),
            found,
        });
    }
    Ok(found / part)
}

/// The gammas and betas of a LayerNorm over `width` values.
pub(super) fn layer_norm(
    gammas: (&str, &Option<Layer>),
    betas: (&str, &Option<Layer>),
    width: usize,
    epsilon: f32,
) -> Result<LayerNorm, Reason> {
    Ok(LayerNorm {
        gammas: values(gammas.0, gammas.1, &[width])?,
        betas: values(betas.0, betas.1, &[width])?,
        epsilon,
    })
}

/// A feed-forward block with `width` inputs, any number of hidden units, and `width` outputs.
pub(super) fn feed_forward(name: &str, ffn: &Option<Ffn>, width: usize) -> Result<FeedForward, Reason> {
    let ffn = ffn.as_ref().ok_or_else(|| Reason::MissingLayer { layer: name.to_owned() })?;
    let layer = |field: &str| format!("{name}.{field}");
    let dense1 = dense((&layer("dense1_w"), &ffn.dense1_w), (&layer("dense1_b"), &ffn.dense1_b), width)?;
    let dense2 = dense_to(
        (&layer("dense2_w"), &ffn.dense2_w),
        (&layer("dense2_b"), &ffn.dense2_b),
        dense1.outputs,
        width,
    )?;
    Ok(FeedForward { dense1, dense2 })
}

/// A `size` x `size` convolution of `inputs` channels, with its batch normalisation folded in.
///
/// With `scale = gamma / sqrt(variance + 1e-5)`, each weight becomes `scale * weight` and each bias
/// `beta + scale * (bias - mean)`. The oldest files have no gammas and betas, which count as 1 and 0. Newer
/// files have them but no biases, which count as 0. The newest files may have no batch normalisation.
pub(super) fn convolution(
    name: &str,
    block: &Option<ConvBlock>,
    inputs: usize,
    size: usize,
) -> Result<Convolution, Reason> {
    let block = block.as_ref().ok_or_else(|| Reason::MissingLayer { layer: name.to_owned() })?;
    let layer = |field: &str| format!("{name}.{field}");
    let normalised = has(&block.bn_means);
    let outputs = match (has(&block.biases), normalised) {
        (true, _) => count_present(&layer("biases"), &block.biases)?,
        (false, true) => count_present(&layer("bn_means"), &block.bn_means)?,
        (false, false) => {
            return Err(Reason::MissingLayer { layer: layer("biases") });
        }
    };
    let per_output = |field: &str, values_of: &Option<Layer>, default: Option<f32>| match default {
        Some(default) if !has(values_of) => Ok(vec![default; outputs]),
        _ => values(&layer(field), values_of, &[outputs]),
    };
    let mut weights = values(&layer("weights"), &block.weights, &[outputs, inputs, size, size])?;
    let mut biases = per_output("biases", &block.biases, Some(0.0))?;
    if normalised {
        let means = per_output("bn_means", &block.bn_means, None)?;
        let variances = per_output("bn_stddivs", &block.bn_stddivs, None)?;
        let gammas = per_output("bn_gammas", &block.bn_gammas, Some(1.0))?;
        let betas = per_output("bn_betas", &block.bn_betas, Some(0.0))?;
        for (output, filter) in weights.chunks_exact_mut(inputs * size * size).enumerate() {
            let scale = gammas[output] / (variances[output] + BATCH_NORM_EPSILON).sqrt();
            biases[output] = betas[output] + scale * (biases[output] - means[output]);
            filter.iter_mut().for_each(|weight| *weight *= scale);
        }
        // A negative variance or an overflow makes values that are not finite.
        weights = finite(&format!("{name} (batch normalisation folded in)"), weights)?;
        biases = finite(&format!("{name} (batch normalisation folded in)"), biases)?;
    }
    Ok(Convolution { weights, biases, inputs, outputs, size })
}

/// A `size` x `size` convolution of `inputs` channels that must have `outputs` output channels.
pub(super) fn convolution_to(
    name: &str,
    block: &Option<ConvBlock>,
    inputs: usize,
    outputs: usize,
    size: usize,
) -> Result<Convolution, Reason> {
    let convolution = convolution(name, block, inputs, size)?;
    if convolution.outputs != outputs {
        let expected = outputs * inputs * size * size;
        let found = convolution.weights.len();
        return Err(size_error(&format!("{name}.weights"), &[outputs, inputs, size, size], expected, found));
    }
    Ok(convolution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::bytes::Bytes;

    fn layer(encoding: LayerEncoding, bytes: &[u8]) -> Option<Layer> {
        let params = Bytes::copy_from_slice(bytes);
        Some(Layer { min_val: Some(-2.0), max_val: Some(6.0), params, encoding: Some(encoding as i32) })
    }

    fn floats(floats: &[f32]) -> Option<Layer> {
        let bytes: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
        layer(LayerEncoding::Float32, &bytes)
    }

    #[test]
    fn each_encoding_has_its_values() {
        let cases: [(LayerEncoding, &[u8], &[f32]); 4] = [
            (LayerEncoding::Linear16, &[0, 0, 255, 255], &[-2.0, 6.0]),
            (LayerEncoding::Float16, &[0x00, 0x3e, 0x00, 0xc0, 1, 0], &[1.5, -2.0, 5.9604645e-8]),
            (LayerEncoding::BFloat16, &[0xc0, 0x3f, 0x00, 0xc0], &[1.5, -2.0]),
            (LayerEncoding::Float32, &[0, 0, 0xc0, 0x3f], &[1.5]),
        ];
        for (encoding, bytes, expected) in cases {
            let decoded = values("layer", &layer(encoding, bytes), &[expected.len()]).expect("it decodes");
            assert_eq!(decoded, expected, "{encoding:?}");
        }
    }

    #[test]
    fn linear16_is_linear_between_its_bounds() {
        let fifth = values("layer", &layer(LayerEncoding::Linear16, &[51, 51]), &[1]).expect("it decodes");
        assert!((fifth[0] + 0.4).abs() < 1e-6, "{fifth:?}");
    }

    #[test]
    fn a_layer_without_an_encoding_is_linear16() {
        let mut unnamed = layer(LayerEncoding::Linear16, &[255, 255]);
        unnamed.as_mut().expect("it is there").encoding = None;
        assert_eq!(values("layer", &unnamed, &[1]).expect("it decodes"), [6.0]);
    }

    #[test]
    fn batch_normalisation_is_folded() {
        // The one channel is (2x + 1 - 3) * 4 / sqrt(variance + epsilon) + 5, where the square root is 2.
        let block = ConvBlock {
            weights: floats(&[2.0]),
            biases: floats(&[1.0]),
            bn_means: floats(&[3.0]),
            bn_stddivs: floats(&[4.0 - BATCH_NORM_EPSILON]),
            bn_gammas: floats(&[4.0]),
            bn_betas: floats(&[5.0]),
        };
        let folded = convolution("conv", &Some(block.clone()), 1, 1).expect("it folds");
        assert_eq!((folded.weights, folded.biases), (vec![4.0], vec![1.0]));

        // Newer files have no biases if they have a normalisation; the oldest have neither gammas nor betas.
        let newer = ConvBlock { biases: None, ..block.clone() };
        let folded = convolution("conv", &Some(newer), 1, 1).expect("it folds");
        assert_eq!((folded.weights, folded.biases), (vec![4.0], vec![-1.0]));
        let oldest = ConvBlock { bn_gammas: None, bn_betas: None, ..block.clone() };
        let folded = convolution("conv", &Some(oldest), 1, 1).expect("it folds");
        assert_eq!((folded.weights, folded.biases), (vec![1.0], vec![-1.0]));

        // A weight that overflows when it is multiplied by the scale, and a variance that has no square root.
        let overflow = ConvBlock { weights: floats(&[f32::MAX]), bn_gammas: floats(&[9.0]), ..block.clone() };
        let negative = ConvBlock { bn_stddivs: floats(&[-1.0]), ..block.clone() };
        for block in [overflow, negative] {
            let error = convolution("conv", &Some(block), 1, 1).expect_err("it is refused").to_string();
            assert!(
                error.contains("conv (batch normalisation folded in) contains a value that is not finite"),
                "{error}"
            );
        }

        let plain = ConvBlock { bn_means: None, ..block };
        let folded = convolution("conv", &Some(plain), 1, 1).expect("there is nothing to fold");
        assert_eq!((folded.weights, folded.biases), (vec![2.0], vec![1.0]));
    }
}
