//! A graph whose nodes can be found by the tensors that they compute.
//!
//! Casts between types of floats and identities change no weight and no structure, so [`Graph::source`] looks behind
//! them, and all other functions start there.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};

use crate::error::Reason;
use crate::onnx::proto::{self, Attribute, Node, Tensor, data_type};
use rukh_base::quote::quoted;

/// The operators that occur in the graphs that lc0's converter has made since its first version.
const KNOWN_OPERATORS: [&str; 34] = [
    "Add",
    "Cast",
    "Concat",
    "Constant",
    "Conv",
    "Div",
    "Elu",
    "Exp",
    "Expand",
    "Gather",
    "GlobalAveragePool",
    "Greater",
    "Identity",
    "LayerNormalization",
    "MatMul",
    "Mish",
    "Mul",
    "Reciprocal",
    "ReduceMean",
    "Relu",
    "Reshape",
    "Selu",
    "Shape",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Softplus",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Tanh",
    "Transpose",
    "Where",
];

/// The nodes and the constants of a graph. Tensors are identified by their names.
pub(super) struct Graph<'a> {
    nodes: &'a [Node],
    /// The node that computes a tensor, and the index of the tensor among the node's outputs.
    producers: HashMap<&'a str, (usize, usize)>,
    constants: HashMap<&'a str, &'a Tensor>,
    /// How many bytes of constants may still become layers.
    budget: Cell<usize>,
}

/// A node, reached by one of its outputs.
#[derive(Clone, Copy)]
pub(super) struct Producer<'a> {
    pub(super) node: &'a Node,
    /// The index of the output.
    pub(super) output: usize,
}

impl<'a> Graph<'a> {
    /// Indexes `graph`. Layers that are made from it may have `budget` bytes in all. (A small graph could otherwise use
    /// one large constant for thousands of layers.)
    ///
    /// # Errors
    /// A tensor is computed twice, or the nodes form a cycle, or a node that `outputs` depend on has an operator that
    /// no network of lc0 has.
    pub(super) fn new(graph: &'a proto::Graph, outputs: &[&str], budget: usize) -> Result<Self, Reason> {
        let mut producers = HashMap::new();
        let mut constants: HashMap<&str, &Tensor> =
            graph.initializer.iter().map(|tensor| (tensor.name(), tensor)).collect();
        for (index, node) in graph.node.iter().enumerate() {
            for (output, name) in node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
                if producers.insert(name.as_str(), (index, output)).is_some() {
                    return Err(tensor_error(name, "is computed by two nodes"));
                }
            }
            if let ("Constant", [name], Some(value)) =
                (node.op_type(), &node.output[..], attribute(node, "value"))
            {
                constants.extend(value.t.as_deref().map(|tensor| (name.as_str(), tensor)));
            }
        }
        let graph = Self { nodes: &graph.node, producers, constants, budget: Cell::new(budget) };
        for index in graph.order(outputs)? {
            let node = &graph.nodes[index];
            if !KNOWN_OPERATORS.contains(&node.op_type()) || !node.domain().is_empty() {
                return Err(operator_error(node, "is in no network of lc0"));
            }
        }
        Ok(graph)
    }

    /// The nodes that `outputs` depend on, each after those that it depends on.
    fn order(&self, outputs: &[&str]) -> Result<Vec<usize>, Reason> {
        let inputs_of = |node: &'a Node| {
            node.input.iter().filter_map(|name| self.producers.get(name.as_str())).map(|&(index, _)| index)
        };
        let mut needed = vec![false; self.nodes.len()];
        let mut rest: Vec<usize> =
            outputs.iter().filter_map(|name| self.producers.get(name)).map(|&(index, _)| index).collect();
        while let Some(index) = rest.pop() {
            if !std::mem::replace(&mut needed[index], true) {
                rest.extend(inputs_of(&self.nodes[index]));
            }
        }
        let mut waits_for = vec![0usize; self.nodes.len()];
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for index in (0..self.nodes.len()).filter(|&index| needed[index]) {
            for input in inputs_of(&self.nodes[index]) {
                waits_for[index] += 1;
                readers[input].push(index);
            }
        }
        let is_ready = |&index: &usize| needed[index] && waits_for[index] == 0;
        let mut ready: VecDeque<usize> = (0..self.nodes.len()).filter(is_ready).collect();
        let mut order = Vec::new();
        while let Some(index) = ready.pop_front() {
            order.push(index);
            for &reader in &readers[index] {
                waits_for[reader] -= 1;
                if waits_for[reader] == 0 {
                    ready.push_back(reader);
                }
            }
        }
        let in_cycle = (0..self.nodes.len()).find(|&index| waits_for[index] > 0);
        match in_cycle {
            Some(index) => Err(operator_error(&self.nodes[index], "depends on its own result")),
            None => Ok(order),
        }
    }

    /// The tensor from which `tensor` is made by casts and identities only.
    pub(super) fn source(&self, mut tensor: &'a str) -> &'a str {
        while let Some(&(index, _)) = self.producers.get(tensor) {
            let node = &self.nodes[index];
            match (is_transparent(node), node.input.first()) {
                (true, Some(input)) => tensor = input,
                _ => break,
            }
        }
        tensor
    }

    /// The node that computes `tensor`. `None` for inputs of the graph and for constants.
    pub(super) fn producer(&self, tensor: &'a str) -> Option<Producer<'a>> {
        let source = self.source(tensor);
        let &(index, output) = self.producers.get(source)?;
        (!self.constants.contains_key(source)).then(|| Producer { node: &self.nodes[index], output })
    }

    /// Whether an operator of the type `operator` computes `tensor`.
    pub(super) fn is(&self, tensor: &'a str, operator: &str) -> bool {
        self.producer(tensor).is_some_and(|producer| producer.node.op_type() == operator)
    }

    /// The node that computes `tensor`.
    ///
    /// # Errors
    /// Its operator is not `operator`.
    pub(super) fn expect(&self, tensor: &'a str, operator: &str) -> Result<&'a Node, Reason> {
        match self.producer(tensor) {
            Some(producer) if producer.node.op_type() == operator => Ok(producer.node),
            _ => Err(self.unexpected(tensor, operator)),
        }
    }

    /// The error for `tensor`, which should have been computed by `expected`.
    pub(super) fn unexpected(&self, tensor: &'a str, expected: &str) -> Reason {
        match self.producer(tensor) {
            Some(producer) => {
                operator_error(producer.node, &format!("stands where a network of lc0 has {expected}"))
            }
            None => {
                tensor_error(tensor, &format!("stands where a network of lc0 has the result of {expected}"))
            }
        }
    }

    /// Whether two names stand for the same tensor.
    pub(super) fn same(&self, a: &'a str, b: &'a str) -> bool {
        self.source(a) == self.source(b)
    }

    /// The constant `tensor`; `None` if it is not a constant.
    pub(super) fn constant(&self, tensor: &'a str) -> Option<&'a Tensor> {
        self.constants.get(self.source(tensor)).copied()
    }

    /// The two inputs of a node, if the second is a constant; otherwise the other way round if the first is.
    pub(super) fn with_constant(&self, node: &'a Node) -> Option<(&'a str, &'a Tensor)> {
        let [a, b] = &node.input[..] else { return None };
        match (self.constant(a), self.constant(b)) {
            (None, Some(constant)) => Some((a, constant)),
            (Some(constant), None) => Some((b, constant)),
            _ => None,
        }
    }

    /// Takes `bytes` from the memory that all layers together may have.
    pub(super) fn take(&self, tensor: &Tensor, bytes: usize) -> Result<(), Reason> {
        let left = self.budget.get().checked_sub(bytes);
        self.budget.set(left.ok_or_else(|| tensor_error(tensor.name(), "is used for too many layers"))?);
        Ok(())
    }
}

/// Whether the result of the node is its input, apart from the precision.
fn is_transparent(node: &Node) -> bool {
    match node.op_type() {
        "Identity" => true,
        "Cast" => attribute(node, "to").is_some_and(|to| {
            [data_type::FLOAT, data_type::FLOAT16, data_type::BFLOAT16, data_type::DOUBLE]
                .map(i64::from)
                .contains(&to.i())
        }),
        _ => false,
    }
}

/// The attribute of `node` called `name`.
pub(super) fn attribute<'a>(node: &'a Node, name: &str) -> Option<&'a Attribute> {
    node.attribute.iter().find(|attribute| attribute.name() == name)
}

/// The integer attribute of `node` called `name`, or its default.
pub(super) fn integer(node: &Node, name: &str, default: i64) -> i64 {
    attribute(node, name).and_then(|attribute| attribute.i).unwrap_or(default)
}

/// The only input of `node`.
pub(super) fn only_input(node: &Node) -> Result<&str, Reason> {
    match &node.input[..] {
        [input] => Ok(input),
        _ => Err(operator_error(node, "does not have one input")),
    }
}

/// The first two inputs of `node`.
pub(super) fn two_inputs(node: &Node) -> Result<(&str, &str), Reason> {
    match &node.input[..] {
        [a, b, ..] => Ok((a, b)),
        _ => Err(operator_error(node, "has fewer than two inputs")),
    }
}

/// The error for a node that is not as in the networks of lc0. `problem` is a predicate whose subject is the operator.
pub(super) fn operator_error(node: &Node, problem: &str) -> Reason {
    let name = node.name.as_ref().filter(|name| !name.is_empty()).or(node.output.first());
    Reason::OnnxOperator {
        operator: quoted(node.op_type()),
        node: quoted(name.map_or("", String::as_str)),
        problem: problem.to_owned(),
    }
}

/// The error for a tensor that is not as in the networks of lc0. `problem` is a predicate whose subject is the tensor.
pub(super) fn tensor_error(tensor: &str, problem: &str) -> Reason {
    Reason::OnnxTensor { tensor: quoted(tensor), problem: problem.to_owned() }
}
