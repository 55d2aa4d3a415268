//! Makes the nodes and the constants of a graph.
//!
//! A node and the tensor that it computes have the same name, and a node's own constant is called `NAME/w`.

use std::collections::HashSet;

use prost::bytes::Bytes;

use super::data_type::DataType;
use super::error::WriteError;
use super::settings::{ALL_BF16_OPSET, Settings};
use crate::input::InputPlanes;
use crate::onnx::proto::{
    Attribute, Dimension, Graph, Node, Shape, Tensor, TensorType, Type, ValueInfo, attribute_type, data_type,
};
use crate::weights::{Convolution, Dense};

/// The end of a slice that reaches to the end of its dimension.
pub(super) const TO_END: i32 = i32::MAX;

/// A graph that grows node by node. Every method that adds a node returns the name of the tensor that it computes.
pub(super) struct Builder<'a> {
    pub(super) settings: &'a Settings,
    graph: Graph,
    /// The first weight that the data type cannot represent.
    too_large: Option<WriteError>,
}

pub(super) fn int(name: &str, value: i64) -> Attribute {
    Attribute { i: Some(value), ..attribute(name, attribute_type::INT) }
}

pub(super) fn ints(name: &str, values: &[i64]) -> Attribute {
    Attribute { ints: values.to_vec(), ..attribute(name, attribute_type::INTS) }
}

pub(super) fn float(name: &str, value: f32) -> Attribute {
    Attribute { f: Some(value), ..attribute(name, attribute_type::FLOAT) }
}

fn attribute(name: &str, number: i32) -> Attribute {
    Attribute { name: Some(name.to_owned()), r#type: Some(number), ..Attribute::default() }
}

impl<'a> Builder<'a> {
    pub(super) fn new(settings: &'a Settings) -> Self {
        // lc0 gives its graphs this name.
        let graph = Graph { name: Some("org.lczero/converted".into()), ..Graph::default() };
        Self { settings, graph, too_large: None }
    }

    /// The graph.
    ///
    /// # Errors
    /// A weight was too large, or two tensors have the same name.
    pub(super) fn finish(self) -> Result<Graph, WriteError> {
        if let Some(error) = self.too_large {
            return Err(error);
        }
        let mut names = HashSet::new();
        let constants = self.graph.initializer.iter().filter_map(|tensor| tensor.name.as_ref());
        let computed = self.graph.node.iter().flat_map(|node| &node.output);
        let planes = [&self.settings.names.planes];
        let repeated = constants.chain(computed).chain(planes).find(|name| !names.insert(name.as_str()));
        match repeated.cloned() {
            Some(name) => Err(WriteError::SameName(name)),
            None => Ok(self.graph),
        }
    }

    /// Declares the input of the graph.
    pub(super) fn input_planes(&mut self) -> String {
        let name = self.settings.names.planes.clone();
        let planes = self.value_info(&name, &[InputPlanes::COUNT as i64, 8, 8]);
        self.graph.input.push(planes);
        name
    }

    /// Declares a tensor with `width` values for each position as an output of the graph.
    pub(super) fn output(&mut self, name: &str, width: usize) {
        let output = self.value_info(name, &[width as i64]);
        self.graph.output.push(output);
    }

    /// The type of a tensor whose first dimension is the batch.
    fn value_info(&self, name: &str, dimensions: &[i64]) -> ValueInfo {
        let batch = match self.settings.batch_size {
            Some(size) => Dimension { dim_value: Some(size as i64), dim_param: None },
            None => Dimension { dim_value: None, dim_param: Some("batch".to_owned()) },
        };
        let fixed = dimensions.iter().map(|&size| Dimension { dim_value: Some(size), dim_param: None });
        let shape = Shape { dim: std::iter::once(batch).chain(fixed).collect() };
        let tensor_type =
            TensorType { elem_type: Some(self.settings.data_type.number()), shape: Some(shape) };
        ValueInfo {
            name: Some(name.to_owned().into()),
            r#type: Some(Type { tensor_type: Some(tensor_type) }),
            doc_string: None,
        }
    }

    /// Adds a node with one output.
    pub(super) fn node(
        &mut self,
        operator: &str,
        name: &str,
        inputs: &[&str],
        attributes: Vec<Attribute>,
    ) -> String {
        self.push_node(operator, name, inputs, attributes, vec![name.to_owned()]);
        name.to_owned()
    }

    fn push_node(
        &mut self,
        operator: &str,
        name: &str,
        inputs: &[&str],
        attributes: Vec<Attribute>,
        outputs: Vec<String>,
    ) {
        self.graph.node.push(Node {
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: outputs,
            name: Some(name.to_owned()),
            op_type: Some(operator.to_owned()),
            attribute: attributes,
            domain: None,
        });
    }

    fn push_constant(&mut self, name: &str, number: i32, dimensions: Vec<i64>, data: Bytes) -> String {
        self.graph.initializer.push(Tensor {
            dims: dimensions,
            data_type: Some(number),
            name: Some(name.to_owned()),
            raw_data: Some(data),
            ..Tensor::default()
        });
        name.to_owned()
    }

    /// Adds a constant of the type `data_type`.
    pub(super) fn weights_as(
        &mut self,
        data_type: DataType,
        name: &str,
        values: impl Iterator<Item = f32>,
        dimensions: &[usize],
    ) -> String {
        let data = data_type.encode(values).unwrap_or_else(|value| {
            let tensor = name.to_owned();
            self.too_large.get_or_insert(WriteError::TooLarge { tensor, value, data_type });
            Bytes::new()
        });
        let dimensions = dimensions.iter().map(|&size| size as i64).collect();
        self.push_constant(name, data_type.number(), dimensions, data)
    }

    /// Adds a constant of the graph's type.
    pub(super) fn weights(&mut self, name: &str, values: &[f32], dimensions: &[usize]) -> String {
        self.weights_as(self.settings.data_type, name, values.iter().copied(), dimensions)
    }

    /// Adds a constant of the graph's type: the transposed matrix of `values`, `[columns][rows]`.
    pub(super) fn transposed(&mut self, name: &str, values: &[f32], rows: usize, columns: usize) -> String {
        let elements = (0..rows).flat_map(|row| values.iter().skip(row).step_by(rows).copied());
        self.weights_as(self.settings.data_type, name, elements, &[rows, columns])
    }

    /// Adds a constant of 64-bit integers, such as a shape.
    pub(super) fn integers(&mut self, name: &str, values: &[i64]) -> String {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.push_constant(name, data_type::INT64, vec![values.len() as i64], data)
    }

    /// Adds a constant of 32-bit integers, such as indices.
    pub(super) fn short_integers(&mut self, name: &str, values: &[i32]) -> String {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.push_constant(name, data_type::INT32, vec![values.len() as i64], data)
    }

    /// `x` times the transposed weights of a dense layer.
    pub(super) fn multiply(&mut self, name: &str, x: &str, layer: &Dense) -> String {
        let weights = self.transposed(&format!("{name}/w"), &layer.weights, layer.inputs, layer.outputs);
        self.node("MatMul", name, &[x, &weights], Vec::new())
    }

    /// `x` plus the biases of a dense layer.
    pub(super) fn add_biases(&mut self, name: &str, x: &str, layer: &Dense) -> String {
        let biases = self.weights(&format!("{name}/w"), &layer.biases, &[layer.outputs]);
        self.node("Add", name, &[x, &biases], Vec::new())
    }

    /// A dense layer, as a node `multiply` and a node `add`.
    pub(super) fn dense(&mut self, multiply: &str, add: &str, x: &str, layer: &Dense) -> String {
        let products = self.multiply(multiply, x, layer);
        self.add_biases(add, &products, layer)
    }

    /// A convolution that keeps the size of the board.
    pub(super) fn convolve(&mut self, name: &str, x: &str, layer: &Convolution) -> String {
        let data_type = if self.lacks_bf16() { DataType::F32 } else { self.settings.data_type };
        let x = self.without_bf16(name, x);
        let dimensions = [layer.outputs, layer.inputs, layer.size, layer.size];
        let kernel = self.weights_as(
            data_type,
            &format!("{name}/w/kernel"),
            layer.weights.iter().copied(),
            &dimensions,
        );
        let bias = self.weights_as(
            data_type,
            &format!("{name}/w/bias"),
            layer.biases.iter().copied(),
            &[layer.outputs],
        );
        let size = layer.size as i64;
        let attributes = vec![ints("pads", &[(size - 1) / 2; 4]), ints("kernel_shape", &[size; 2])];
        let x = self.node("Conv", name, &[&x, &kernel, &bias], attributes);
        self.with_bf16(name, x)
    }

    /// `x` times a number.
    pub(super) fn scale(&mut self, name: &str, x: &str, factor: f32) -> String {
        let factor = self.weights(&format!("{name}/w"), &[factor], &[1]);
        self.node("Mul", name, &[x, &factor], Vec::new())
    }

    /// `x` with other dimensions, of which one can be -1. `shape` is the name of the new constant that contains them.
    pub(super) fn reshape(&mut self, name: &str, x: &str, shape: &str, dimensions: &[i64]) -> String {
        let shape = self.integers(shape, dimensions);
        self.node("Reshape", name, &[x, &shape], Vec::new())
    }

    pub(super) fn transpose(&mut self, name: &str, x: &str, order: &[i64]) -> String {
        self.node("Transpose", name, &[x], vec![ints("perm", order)])
    }

    pub(super) fn softmax(&mut self, name: &str, x: &str, axis: i64) -> String {
        self.node("Softmax", name, &[x], vec![int("axis", axis)])
    }

    pub(super) fn concatenate(&mut self, name: &str, inputs: &[&str], axis: i64) -> String {
        self.node("Concat", name, inputs, vec![int("axis", axis)])
    }

    /// The outputs of the policy, taken from `x` in the order of `indices`.
    pub(super) fn gather(&mut self, name: &str, x: &str, table: &str, indices: &[i32]) -> String {
        let table = self.short_integers(table, indices);
        self.node("Gather", name, &[x, &table], vec![int("axis", 1)])
    }

    /// A part of `x`: the elements from `starts` to before `ends`, in the first dimensions.
    pub(super) fn slice(&mut self, name: &str, x: &str, starts: &[i32], ends: &[i32]) -> String {
        if self.settings.opset < 10 {
            let wide = |values: &[i32]| values.iter().map(|&value| i64::from(value)).collect::<Vec<_>>();
            let attributes = vec![ints("starts", &wide(starts)), ints("ends", &wide(ends))];
            return self.node("Slice", name, &[x], attributes);
        }
        let starts = self.short_integers(&format!("{name}/starts"), starts);
        let ends = self.short_integers(&format!("{name}/ends"), ends);
        self.node("Slice", name, &[x, &starts, &ends], Vec::new())
    }

    /// The two parts of `x` along dimension 1: of these sizes, or halves.
    pub(super) fn split(&mut self, name: &str, x: &str, sizes: Option<[i64; 2]>) -> [String; 2] {
        let mut inputs = vec![x.to_owned()];
        let mut attributes = vec![int("axis", 1)];
        match sizes {
            Some(sizes) if self.settings.opset < 13 => attributes.push(ints("split", &sizes)),
            Some(sizes) => inputs.push(self.integers(&format!("{name}/split"), &sizes)),
            None if self.settings.opset >= 18 => attributes.push(int("num_outputs", 2)),
            None => {}
        }
        let outputs = [format!("{name}/out1"), format!("{name}/out2")];
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        self.push_node("Split", name, &inputs, attributes, outputs.to_vec());
        outputs
    }

    /// The means of `x` along some dimensions.
    pub(super) fn means(&mut self, name: &str, x: &str, axes: &[i64], keeps_dimensions: bool) -> String {
        let keep = int("keepdims", i64::from(keeps_dimensions));
        if self.settings.opset < 18 {
            return self.node("ReduceMean", name, &[x], vec![ints("axes", axes), keep]);
        }
        let axes = self.integers(&format!("{name}/axes"), axes);
        self.node("ReduceMean", name, &[x, &axes], vec![keep])
    }

    pub(super) fn cast(&mut self, name: &str, x: &str, data_type: DataType) -> String {
        self.node("Cast", name, &[x], vec![int("to", data_type.number().into())])
    }

    /// Whether some operators of this opset do not accept the graph's type.
    fn lacks_bf16(&self) -> bool {
        self.settings.data_type == DataType::Bf16 && self.settings.opset < ALL_BF16_OPSET
    }

    /// `x` in a type that every operator accepts, for the node `name`.
    pub(super) fn without_bf16(&mut self, name: &str, x: &str) -> String {
        match self.lacks_bf16() {
            true => self.cast(&format!("{name}/to_float"), x, DataType::F32),
            false => x.to_owned(),
        }
    }

    /// The result of a node that follows [`Self::without_bf16`], in the graph's type.
    pub(super) fn with_bf16(&mut self, name: &str, x: String) -> String {
        match self.lacks_bf16() {
            true => self.cast(&format!("{name}/to_bf16"), &x, DataType::Bf16),
            false => x,
        }
    }
}
