//! Recognises single layers and the operators that only rearrange a tensor. Each function starts from the name of a
//! result, and returns what it found together with the name of the layer's input.

use super::constant::{self, dimensions};
use super::graph::{Graph, attribute, integer, only_input, operator_error, tensor_error, two_inputs};
use crate::error::Reason;
use crate::file::proto::{ConvBlock, Layer};
use crate::onnx::proto::{Node, Tensor};

/// The largest relative difference between a factor in a graph and the factor of a network of lc0. It allows for the
/// rounding to bf16.
const FACTOR_TOLERANCE: f64 = 5e-3;

/// A product with a matrix, whose transpose is the layer of the file.
pub(super) struct Matrix<'a> {
    pub(super) input: &'a str,
    pub(super) weights: Layer,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// A [`Matrix`] and biases.
pub(super) struct Dense<'a> {
    pub(super) input: &'a str,
    pub(super) weights: Option<Layer>,
    pub(super) biases: Option<Layer>,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// A convolution with stride 1 and a padding that keeps the size of the board.
pub(super) struct Convolution<'a> {
    pub(super) input: &'a str,
    pub(super) block: Option<ConvBlock>,
    pub(super) outputs: usize,
    /// The width and the height of the kernel.
    pub(super) size: usize,
}

/// A LayerNorm over the last dimension.
pub(super) struct LayerNorm<'a> {
    pub(super) input: &'a str,
    pub(super) gammas: &'a Tensor,
    pub(super) betas: &'a Tensor,
    pub(super) epsilon: f64,
}

/// The result of a Slice.
pub(super) struct Slice<'a> {
    pub(super) input: &'a str,
    pub(super) starts: Vec<i64>,
    pub(super) ends: Vec<i64>,
}

impl<'a> Graph<'a> {
    /// The product `tensor` of a tensor with a constant matrix.
    pub(super) fn matrix(&self, tensor: &'a str) -> Result<Matrix<'a>, Reason> {
        let node = self.expect(tensor, "MatMul")?;
        let (input, weights) = two_inputs(node)?;
        let Some(weights) = self.constant(weights) else {
            return Err(operator_error(
                node,
                "multiplies two results where a network of lc0 has a dense layer",
            ));
        };
        let [inputs, outputs] = dimensions(weights)?[..] else {
            return Err(tensor_error(weights.name(), "is not a matrix"));
        };
        let weights = constant::transposed_layer(self, weights, (inputs, outputs))?;
        Ok(Matrix { input, weights, inputs, outputs })
    }

    /// Whether `tensor` is the result of a dense layer with biases.
    pub(super) fn is_dense(&self, tensor: &'a str) -> bool {
        let sum = self.producer(tensor).filter(|producer| producer.node.op_type() == "Add");
        sum.and_then(|sum| self.with_constant(sum.node))
            .is_some_and(|(product, _)| self.is(product, "MatMul"))
    }

    /// The dense layer with the result `tensor`.
    pub(super) fn dense(&self, tensor: &'a str) -> Result<Dense<'a>, Reason> {
        let sum = self.expect(tensor, "Add")?;
        let Some((product, biases)) = self.with_constant(sum) else {
            return Err(operator_error(
                sum,
                "adds two results where a network of lc0 adds the biases of a dense layer",
            ));
        };
        let Matrix { input, weights, inputs, outputs } = self.matrix(product)?;
        self.check_vector(biases, outputs)?;
        let biases = constant::layer(self, biases)?;
        Ok(Dense { input, weights: Some(weights), biases: Some(biases), inputs, outputs })
    }

    /// Checks that `tensor` has `width` values, all in its last dimension.
    fn check_vector(&self, tensor: &Tensor, width: usize) -> Result<(), Reason> {
        let dimensions = dimensions(tensor)?;
        match dimensions.split_last() {
            Some((&last, others)) if last == width && others.iter().all(|&size| size == 1) => Ok(()),
            _ => Err(tensor_error(
                tensor.name(),
                &format!("has the dimensions {dimensions:?} instead of [{width}]"),
            )),
        }
    }

    /// The convolution with the result `tensor`.
    pub(super) fn convolution(&self, tensor: &'a str) -> Result<Convolution<'a>, Reason> {
        let node = self.expect(tensor, "Conv")?;
        let (input, kernel) = two_inputs(node)?;
        let kernel =
            self.constant(kernel).ok_or_else(|| operator_error(node, "has a kernel that is not constant"))?;
        let [outputs, _, height, width] = dimensions(kernel)?[..] else {
            return Err(tensor_error(kernel.name(), "is not the kernel of a convolution of planes"));
        };
        let size = width;
        let all = |name: &str, expected: usize| {
            let values = attribute(node, name).map(|attribute| &attribute.ints[..]).unwrap_or_default();
            values.iter().all(|&value| value == expected as i64)
        };
        let is_padded = match attribute(node, "auto_pad").and_then(|attribute| attribute.s.as_deref()) {
            Some(b"SAME_UPPER" | b"SAME_LOWER") => true,
            None | Some(b"NOTSET" | b"") => {
                all("pads", size / 2) && (size == 1 || attribute(node, "pads").is_some())
            }
            Some(_) => false,
        };
        if height != width || !matches!(size, 1 | 3) || !is_padded {
            return Err(operator_error(
                node,
                "is neither 1x1 nor 3x3 with a padding that keeps the board's size",
            ));
        }
        if !all("strides", 1)
            || !all("dilations", 1)
            || integer(node, "group", 1) != 1
            || !all("kernel_shape", size)
        {
            return Err(operator_error(
                node,
                "has strides, dilations or groups, which no network of lc0 has",
            ));
        }
        let weights = constant::layer(self, kernel)?;
        let biases = match node.input.get(2).filter(|name| !name.is_empty()) {
            None => constant::zeros(outputs),
            Some(name) => {
                let biases = self
                    .constant(name)
                    .ok_or_else(|| operator_error(node, "has biases that are not constant"))?;
                self.check_vector(biases, outputs)?;
                constant::layer(self, biases)?
            }
        };
        let block = ConvBlock { weights: Some(weights), biases: Some(biases), ..ConvBlock::default() };
        Ok(Convolution { input, block: Some(block), outputs, size })
    }

    /// The LayerNorm with the result `tensor`, as one operator or as several; `None` if something else computes it.
    pub(super) fn layer_norm(&self, tensor: &'a str) -> Result<Option<LayerNorm<'a>>, Reason> {
        let Some(producer) = self.producer(tensor) else { return Ok(None) };
        let node = producer.node;
        let found = match node.op_type() {
            "LayerNormalization" => {
                let [input, gammas, betas] = &node.input[..] else {
                    return Err(operator_error(node, "does not have factors and offsets"));
                };
                if !matches!(integer(node, "axis", -1), -1 | 1) {
                    return Err(operator_error(node, "is not over the last dimension"));
                }
                let (Some(gammas), Some(betas)) = (self.constant(gammas), self.constant(betas)) else {
                    return Err(operator_error(node, "has factors or offsets that are not constant"));
                };
                let epsilon = attribute(node, "epsilon").and_then(|attribute| attribute.f).unwrap_or(1e-5);
                LayerNorm { input, gammas, betas, epsilon: f64::from(epsilon) }
            }
            "Add" => match self.layer_norm_of_operators(node)? {
                Some(found) => found,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(found))
    }

    /// The LayerNorm whose last operator, which adds the offsets, is `sum`.
    fn layer_norm_of_operators(&self, sum: &'a Node) -> Result<Option<LayerNorm<'a>>, Reason> {
        let Some((scaled, betas)) = self.with_constant(sum) else { return Ok(None) };
        if !self.is(scaled, "Mul") {
            return Ok(None);
        }
        let product = self.expect(scaled, "Mul")?;
        let Some((normalised, gammas)) = self.with_constant(product) else { return Ok(None) };
        if !self.is(normalised, "Mul") {
            return Ok(None);
        }
        let node = self.expect(normalised, "Mul")?;
        let (a, b) = two_inputs(node)?;
        let (centred, inverse) = if self.is(a, "Reciprocal") { (b, a) } else { (a, b) };
        let root = self.expect(only_input(self.expect(inverse, "Reciprocal")?)?, "Sqrt")?;
        let sum = self.expect(only_input(root)?, "Add")?;
        let (variance, epsilon) = self
            .with_constant(sum)
            .and_then(|(variance, epsilon)| Some((variance, constant::scalar(epsilon)?)))
            .ok_or_else(|| operator_error(sum, "does not add the epsilon of a LayerNorm"))?;
        let square = self.expect(self.mean(variance, &[1])?, "Mul")?;
        let (c, d) = two_inputs(square)?;
        if !self.same(c, d) || !self.same(c, centred) {
            return Err(operator_error(square, "does not square the input of a LayerNorm minus its mean"));
        }
        let difference = self.expect(centred, "Sub")?;
        let (input, mean) = two_inputs(difference)?;
        if !self.same(self.mean(mean, &[1])?, input) {
            return Err(operator_error(difference, "does not subtract the mean of the same tensor"));
        }
        Ok(Some(LayerNorm { input, gammas, betas, epsilon }))
    }

    /// The factors and the offsets of a LayerNorm of `width` values.
    pub(super) fn layer_norm_layers(
        &self,
        norm: &LayerNorm<'_>,
        width: usize,
    ) -> Result<(Option<Layer>, Option<Layer>), Reason> {
        self.check_vector(norm.gammas, width)?;
        self.check_vector(norm.betas, width)?;
        Ok((Some(constant::layer(self, norm.gammas)?), Some(constant::layer(self, norm.betas)?)))
    }

    /// The input of the ReduceMean over `axes` with the result `tensor`. A negative axis may stand for the same one.
    pub(super) fn mean(&self, tensor: &'a str, axes: &[i64]) -> Result<&'a str, Reason> {
        let node = self.expect(tensor, "ReduceMean")?;
        let (input, found) = self.axes(node)?;
        let rank = if axes.len() == 2 { 4 } else { 2 };
        let found: Vec<i64> = found.iter().map(|&axis| if axis < 0 { axis + rank } else { axis }).collect();
        match found == axes {
            true => Ok(input),
            false => Err(operator_error(node, &format!("is over the axes {found:?} instead of {axes:?}"))),
        }
    }

    /// The first input of a node, and its axes, which are an attribute or the second input.
    pub(super) fn axes(&self, node: &'a Node) -> Result<(&'a str, Vec<i64>), Reason> {
        let input = node.input.first().ok_or_else(|| operator_error(node, "has no input"))?;
        let axes = match (attribute(node, "axes"), node.input.get(1).and_then(|name| self.constant(name))) {
            (Some(attribute), _) => attribute.ints.clone(),
            (None, Some(axes)) => constant::integers(axes)?,
            (None, None) => Vec::new(),
        };
        Ok((input, axes))
    }

    /// The sizes that the Reshape with the result `tensor` gives to all dimensions but the first, and its input.
    pub(super) fn reshaped(&self, tensor: &'a str) -> Result<(&'a str, Vec<usize>), Reason> {
        let node = self.expect(tensor, "Reshape")?;
        let (input, shape) = two_inputs(node)?;
        let shape =
            self.constant(shape).ok_or_else(|| operator_error(node, "has a shape that is not constant"))?;
        let sizes = constant::integers(shape)?;
        let tail = sizes.iter().skip(1).map(|&size| usize::try_from(size).ok().filter(|&size| size > 0));
        match tail.collect() {
            Some(tail) => Ok((input, tail)),
            None => Err(tensor_error(
                shape.name(),
                &format!("is {sizes:?}, where only the first size may be open"),
            )),
        }
    }

    /// The input of the Reshape with the result `tensor`, whose dimensions after the first must be `tail`.
    pub(super) fn reshape(&self, tensor: &'a str, tail: &[usize]) -> Result<&'a str, Reason> {
        let (input, found) = self.reshaped(tensor)?;
        match found == tail {
            true => Ok(input),
            false => Err(operator_error(
                self.expect(tensor, "Reshape")?,
                &format!("makes the shape {found:?} instead of {tail:?} after the batch"),
            )),
        }
    }

    /// The input of the Transpose with the result `tensor`.
    pub(super) fn transpose(&self, tensor: &'a str, order: &[i64]) -> Result<&'a str, Reason> {
        let node = self.expect(tensor, "Transpose")?;
        let found = attribute(node, "perm").map(|attribute| &attribute.ints[..]).unwrap_or_default();
        match found == order {
            true => only_input(node),
            false => Err(operator_error(node, &format!("has the order {found:?} instead of {order:?}"))),
        }
    }

    /// The input of the Softmax over the last dimension with the result `tensor`, which has `rank` dimensions.
    pub(super) fn softmax(&self, tensor: &'a str, rank: i64) -> Result<&'a str, Reason> {
        let node = self.expect(tensor, "Softmax")?;
        let axis = integer(node, "axis", -1);
        match axis == -1 || axis == rank - 1 {
            true => only_input(node),
            false => Err(operator_error(node, &format!("is over axis {axis} instead of {}", rank - 1))),
        }
    }

    /// The input of the Slice with the result `tensor`, and the range of each dimension.
    pub(super) fn slice(&self, tensor: &'a str) -> Result<Slice<'a>, Reason> {
        let node = self.expect(tensor, "Slice")?;
        let numbers = |name: &str, index: usize| match attribute(node, name) {
            Some(attribute) => Ok(Some(attribute.ints.clone())),
            None => {
                let constant = node.input.get(index).and_then(|input| self.constant(input));
                constant.map(constant::integers).transpose()
            }
        };
        let (starts, ends) = (numbers("starts", 1)?, numbers("ends", 2)?);
        let (Some(input), Some(starts), Some(ends)) = (node.input.first(), starts, ends) else {
            return Err(operator_error(node, "does not have a constant start and end"));
        };
        let in_order: Vec<i64> = (0..starts.len() as i64).collect();
        let has_axes = numbers("axes", 3)?.is_some_and(|axes| axes != in_order);
        if has_axes || numbers("steps", 4)?.is_some_and(|steps| steps.iter().any(|&step| step != 1)) {
            return Err(operator_error(node, "has axes or steps, which no network of lc0 has"));
        }
        Ok(Slice { input, starts, ends })
    }

    /// The input of the Slice with the result `tensor`. Of each dimension after the batch it must take the range in
    /// `ranges`.
    pub(super) fn sliced(&self, tensor: &'a str, ranges: &[(i64, i64)]) -> Result<&'a str, Reason> {
        let Slice { input, starts, ends } = self.slice(tensor)?;
        // The batch is whole: from 0 to any large number.
        let is_whole =
            starts.first() == Some(&0) && ends.first().is_some_and(|&end| end >= i64::from(i32::MAX));
        let found: Vec<(i64, i64)> = starts.into_iter().zip(ends).skip(1).collect();
        match is_whole && found == ranges {
            true => Ok(input),
            false => Err(operator_error(
                self.expect(tensor, "Slice")?,
                &format!("takes the ranges {found:?} instead of {ranges:?} after the batch"),
            )),
        }
    }

    /// The input of the Split along axis 1 whose output number `output` is `tensor`. Its parts have the sizes `parts`.
    pub(super) fn split(
        &self,
        tensor: &'a str,
        output: usize,
        parts: &[i64],
    ) -> Result<(&'a Node, &'a str), Reason> {
        let node = self.expect(tensor, "Split")?;
        let sizes = match attribute(node, "split") {
            Some(attribute) => Some(attribute.ints.clone()),
            None => {
                node.input.get(1).and_then(|name| self.constant(name)).map(constant::integers).transpose()?
            }
        };
        let is_equal = parts.windows(2).all(|pair| pair[0] == pair[1]);
        let fits = sizes.map_or(is_equal, |sizes| sizes == parts) && node.output.len() == parts.len();
        if !fits || integer(node, "axis", 0) != 1 {
            return Err(operator_error(node, &format!("does not make parts of {parts:?} along axis 1")));
        }
        if self.producer(tensor).is_none_or(|producer| producer.output != output) {
            return Err(operator_error(node, "has its parts exchanged"));
        }
        Ok((node, node.input.first().ok_or_else(|| operator_error(node, "has no input"))?))
    }

    /// The tensor that `tensor` is a multiple of, and the factor, which is 1 if nothing multiplies it.
    pub(super) fn unscaled(&self, tensor: &'a str) -> (&'a str, f64) {
        let product = self.producer(tensor).filter(|producer| producer.node.op_type() == "Mul");
        let parts = product.and_then(|product| self.with_constant(product.node));
        match parts.map(|(input, factor)| (input, constant::scalar(factor))) {
            Some((input, Some(factor))) => (input, factor),
            _ => (tensor, 1.0),
        }
    }

    /// The tensor that `tensor` is `factor` times.
    pub(super) fn scaled(&self, tensor: &'a str, factor: f64) -> Result<&'a str, Reason> {
        let (input, found) = self.unscaled(tensor);
        match is_near(found, factor) {
            true => Ok(input),
            false if self.same(input, tensor) => Err(self.unexpected(tensor, "Mul with a constant")),
            false => Err(operator_error(
                self.expect(tensor, "Mul")?,
                &format!("multiplies by {found} instead of {factor}"),
            )),
        }
    }

    /// The inputs of the Add with the result `tensor`, neither of which is a constant; `None` if there is no such Add.
    pub(super) fn two_terms(&self, tensor: &'a str) -> Option<(&'a str, &'a str)> {
        let node = self.producer(tensor).filter(|producer| producer.node.op_type() == "Add")?.node;
        let (a, b) = two_inputs(node).ok()?;
        (self.constant(a).is_none() && self.constant(b).is_none()).then_some((a, b))
    }
}

/// Whether two factors are equal but for the rounding to a short float.
pub(super) fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= FACTOR_TOLERANCE * b.abs()
}
