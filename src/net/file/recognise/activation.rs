//! Recognises activation functions.
//!
//! The versions of lc0's converter write the same function with different operators: mish as one operator, as
//! `x tanh(softplus(x))`, or with exponentials and quotients. So the operators between two tensors are not compared
//! with patterns. They are evaluated at a few points, and the values tell which function it is.

use super::constant;
use super::graph::{Graph, attribute, operator_error};
use crate::architecture::Activation;
use crate::error::Reason;
use crate::onnx::proto::Node;

/// The points at which functions are compared.
const POINTS: [f64; 8] = [-4.0, -2.0, -1.0, -0.5, 0.25, 1.0, 2.0, 4.0];

/// How much the values of a function may differ, relative to `1 + |value|`. Constants in bf16 are rounded by up to
/// 0.4%. Between any two of the functions some value differs by more than 2%.
const TOLERANCE: f64 = 5e-3;

/// The most operators that are nested in the definition of a function.
const MAXIMUM_DEPTH: usize = 10;

/// A function of one value.
type Function = fn(f64) -> f64;

/// The functions that lc0's converter writes. It writes nothing for [`Activation::None`].
const FUNCTIONS: [(Activation, Function); 7] = [
    (Activation::Relu, |x| x.max(0.0)),
    (Activation::Relu2, |x| x.max(0.0).powi(2)),
    (Activation::Tanh, f64::tanh),
    (Activation::Sigmoid, sigmoid),
    (Activation::Selu, |x| selu(x, 1.673_263_242_354_377_2, 1.050_700_987_355_480_5)),
    (Activation::Mish, mish),
    (Activation::Swish, |x| x * sigmoid(x)),
];

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    x.exp().ln_1p()
}

fn mish(x: f64) -> f64 {
    x * softplus(x).tanh()
}

fn selu(x: f64, alpha: f64, gamma: f64) -> f64 {
    gamma * if x > 0.0 { x } else { alpha * x.exp_m1() }
}

/// The function whose result `tensor` is, and the tensor that it is applied to.
///
/// # Errors
/// `tensor` is a function of one tensor that is none of [`FUNCTIONS`].
pub(super) fn recognise<'a>(graph: &Graph<'a>, tensor: &'a str) -> Result<(Activation, &'a str), Reason> {
    let tensor = graph.source(tensor);
    // Softmax is no function of single values. The rows it is applied to have the form [rows][channels].
    if graph.is(tensor, "Softmax") {
        return Ok((Activation::Softmax, graph.softmax(tensor, 2)?));
    }
    let argument = argument(graph, tensor, 0);
    let Some(producer) = graph.producer(tensor).filter(|_| argument != tensor) else {
        return Ok((Activation::None, tensor));
    };
    let is = |function: Function| {
        POINTS.iter().all(|&x| {
            let expected = function(x);
            evaluate(graph, tensor, argument, x)
                .is_some_and(|value| (value - expected).abs() <= TOLERANCE * (1.0 + expected.abs()))
        })
    };
    match FUNCTIONS.into_iter().find(|&(_, function)| is(function)) {
        Some((activation, _)) => Ok((activation, argument)),
        None => Err(operator_error(
            producer.node,
            "is the last of an activation function that no network of lc0 has",
        )),
    }
}

/// The tensor from which `tensor` is computed value by value. It is `tensor` itself if another operator computes it.
fn argument<'a>(graph: &Graph<'a>, tensor: &'a str, depth: usize) -> &'a str {
    let tensor = graph.source(tensor);
    let Some(producer) = graph.producer(tensor).filter(|_| depth < MAXIMUM_DEPTH) else { return tensor };
    let node = producer.node;
    // A sum of two tensors joins a branch to the residual stream, and a sum with a result of MatMul adds a bias.
    let is_sum = node.op_type() == "Add";
    let variables: Vec<&str> =
        node.input.iter().map(String::as_str).filter(|&i| graph.constant(i).is_none()).collect();
    let is_elementwise = is_unary(node)
        || matches!(node.op_type(), "Add" | "Sub" | "Mul" | "Div" | "Greater" | "Where")
            && !(is_sum && (variables.len() != 1 || graph.is(variables[0], "MatMul")))
            && node.input.iter().filter_map(|i| graph.constant(i)).all(|c| constant::scalar(c).is_some());
    if !is_elementwise {
        return tensor;
    }
    let mut arguments = variables.into_iter().map(|variable| argument(graph, variable, depth + 1));
    match arguments.next() {
        Some(first) if arguments.all(|other| other == first) => first,
        _ => tensor,
    }
}

fn is_unary(node: &Node) -> bool {
    matches!(
        node.op_type(),
        "Relu" | "Tanh" | "Sigmoid" | "Softplus" | "Selu" | "Elu" | "Mish" | "Exp" | "Sqrt" | "Reciprocal"
    ) && node.input.len() == 1
}

/// The value of `tensor` where that of `argument` is `x`.
fn evaluate<'a>(graph: &Graph<'a>, tensor: &'a str, argument: &'a str, x: f64) -> Option<f64> {
    let tensor = graph.source(tensor);
    if tensor == argument {
        return Some(x);
    }
    if let Some(constant) = graph.constant(tensor) {
        return constant::scalar(constant);
    }
    let node = graph.producer(tensor)?.node;
    let input = |index: usize| evaluate(graph, node.input.get(index)?, argument, x);
    let setting = |name, default: f32| f64::from(attribute(node, name).and_then(|a| a.f).unwrap_or(default));
    let first = input(0)?;
    Some(match node.op_type() {
        "Relu" => first.max(0.0),
        "Tanh" => first.tanh(),
        "Sigmoid" => sigmoid(first),
        "Softplus" => softplus(first),
        "Selu" => selu(first, setting("alpha", 1.673_263_2), setting("gamma", 1.050_701)),
        "Elu" => selu(first, setting("alpha", 1.0), 1.0),
        "Mish" => mish(first),
        "Exp" => first.exp(),
        "Sqrt" => first.sqrt(),
        "Reciprocal" => first.recip(),
        "Add" => first + input(1)?,
        "Sub" => first - input(1)?,
        "Mul" => first * input(1)?,
        "Div" => first / input(1)?,
        "Greater" => f64::from(first > input(1)?),
        "Where" => input(if first != 0.0 { 1 } else { 2 })?,
        _ => return None,
    })
}
