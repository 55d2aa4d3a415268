//! Networks in ONNX models are read back to the weights they were made from.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message;
use prost::bytes::Bytes;
use rukh_cpu::{CpuNetwork, InstructionSet, Precision};
use rukh_net::bounded::decode_bounded;
use rukh_net::file::schema;
use rukh_net::file::wrap::{Interface, Outline};
use rukh_net::onnx::proto::{Graph, Model, Node, data_type};
use rukh_net::onnx::write::{DataType, Settings, convert};
use rukh_net::{HeadSelection, InputFormat, Network, NetworkFile, describe};

use crate::cpu;
use crate::goldens::{self, network_file};

/// The ONNX model of a network.
fn onnx(network: &Network, settings: &Settings) -> Bytes {
    convert(network, settings).unwrap_or_else(|error| panic!("{error}")).to_bytes().into()
}

/// The network file that contains a model, as lc0's `onnx2leela` makes it.
fn wrapped(model: Bytes) -> Vec<u8> {
    wrapped_as(model, None)
}

/// Does the same for a model that does not say in which format it expects the planes.
fn wrapped_as(model: Bytes, input_format: Option<InputFormat>) -> Vec<u8> {
    let outline = Outline::of(&model).unwrap_or_else(|error| panic!("{error}"));
    let input_format = input_format.and_then(|format| schema::InputFormat::from_number(format as i32));
    let mut interface = Interface { input_format, ..Interface::default() };
    interface.complete(&outline);
    let number_type = outline.input_type("/input/planes");
    interface.wrap(model, number_type).encode_to_vec()
}

fn load(bytes: &[u8]) -> Network {
    Network::load_bytes(bytes, &HeadSelection::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// A hash of all that a network consists of. Floats are written so that different ones differ.
pub(crate) fn fingerprint(network: &Network) -> u64 {
    struct Hash(u64);
    impl std::fmt::Write for Hash {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            for byte in text.bytes() {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
            Ok(())
        }
    }
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    // The error of the value is no output of a graph.
    let network = Network { value_error: None, ..network.clone() };
    write!(hash, "{network:?}").expect("a hash can be written to");
    hash.0
}

#[test]
fn every_network_survives_the_conversion_to_onnx_and_back() {
    for set in goldens::committed() {
        let network = Network::load_bytes(&set.network, &set.heads).unwrap_or_else(|error| panic!("{error}"));
        if set.name.starts_with("micro-in") && set.name != "micro-in132" {
            continue; // They are the same network with other input formats.
        }
        let file = wrapped(onnx(&network, &Settings::default()));
        let read = load(&file);
        assert_eq!(read.architecture, network.architecture, "{}", set.name);
        assert_eq!(fingerprint(&read), fingerprint(&network), "{}", set.name);

        // The file of layers that is made of it is the same network too.
        let file = NetworkFile::from_bytes(Path::new("onnx"), file.into()).expect("it is a network file");
        let native = file.with_layers().unwrap_or_else(|error| panic!("{error}")).to_message();
        assert!(
            NetworkFile::from_bytes(Path::new("native"), native.clone().into()).unwrap().weights().is_some()
        );
        assert_eq!(fingerprint(&load(&native)), fingerprint(&network), "{}", set.name);
    }
}

#[test]
fn graphs_of_all_versions_are_recognised() {
    for name in ["micro-multihead", "micro-attn", "micro-se-attnpol", "micro-classical-wdl", "micro-se-old"] {
        let network = load(&network_file(name));
        for (opset, elementary_layer_norms, batch_size) in [
            (7, false, None),
            (9, true, None),
            (12, false, Some(4)),
            (17, true, Some(1)),
            (18, false, None),
            (22, true, None),
        ] {
            let settings = Settings { opset, elementary_layer_norms, batch_size, ..Settings::default() };
            let read = load(&wrapped(onnx(&network, &settings)));
            assert_eq!(fingerprint(&read), fingerprint(&network), "{name} {settings:?}");
        }
    }
}

#[test]
fn short_floats_are_the_rounded_weights() {
    for name in ["micro-multihead", "micro-se-attnpol", "micro-se-conv"] {
        let network = load(&network_file(name));
        for (data_type, opset) in [(DataType::F16, 17), (DataType::Bf16, 17), (DataType::Bf16, 22)] {
            let settings = Settings { data_type, opset, ..Settings::default() };
            let once = load(&wrapped(onnx(&network, &settings)));
            assert_eq!(once.architecture, network.architecture, "{name}");
            assert_ne!(fingerprint(&once), fingerprint(&network), "{name}");
            // Rounding a second time changes nothing.
            let twice = load(&wrapped(onnx(&once, &settings)));
            assert_eq!(fingerprint(&twice), fingerprint(&once), "{name} {settings:?}");
        }
    }
}

#[test]
fn a_network_in_an_onnx_model_evaluates_as_lc0_does() {
    for set in goldens::committed().into_iter().filter(|set| !set.name.starts_with("micro-in")) {
        let network = Network::load_bytes(&set.network, &set.heads).unwrap_or_else(|error| panic!("{error}"));
        let read = load(&wrapped(onnx(&network, &Settings::default())));
        let instructions = *InstructionSet::available().last().expect("there is an instruction set");
        let inputs = cpu::inputs(&set, read.architecture.input_format);
        let evaluations = CpuNetwork::new(read, Precision::Fp32, instructions).evaluate_raw(&inputs);
        cpu::difference(&set, &evaluations).assert_small(&format!("{} in an ONNX model", set.name));
    }
}

/// A wrapped network whose graph `edit` has changed.
fn edited(name: &str, edit: impl FnOnce(&mut Graph)) -> Vec<u8> {
    let model = onnx(&load(&network_file(name)), &Settings::default());
    let mut model: Model = decode_bounded(&model).expect("it is a model");
    let mut graph: Graph = decode_bounded(&model.graph.unwrap_or_default()).expect("it has a graph");
    edit(&mut graph);
    model.graph = Some(graph.encode_to_vec().into());
    wrapped(model.encode_to_vec().into())
}

fn node<'a>(graph: &'a mut Graph, name: &str) -> &'a mut Node {
    let node = graph.node.iter_mut().find(|node| node.name() == name);
    node.unwrap_or_else(|| panic!("there is no node {name}"))
}

#[test]
fn names_of_nodes_and_constants_do_not_matter() {
    let bytes = edited("micro-smolgen", |graph| {
        for name in graph.node.iter_mut().flat_map(|node| node.input.iter_mut().chain(&mut node.output)) {
            if !["/input/planes", "/output/policy", "/output/wdl", "/output/mlh"].contains(&name.as_str()) {
                *name = format!("t{name}");
            }
        }
        graph.node.iter_mut().for_each(|node| node.name = None);
        graph.initializer.iter_mut().for_each(|tensor| tensor.name = Some(format!("t{}", tensor.name())));
    });
    assert_eq!(fingerprint(&load(&bytes)), fingerprint(&load(&network_file("micro-smolgen"))));
}

#[test]
fn constants_may_be_nodes_and_casts_may_be_anywhere() {
    let bytes = edited("micro-attn", |graph| {
        for tensor in std::mem::take(&mut graph.initializer) {
            let name = tensor.name().to_owned();
            let value = rukh_net::onnx::proto::Attribute {
                name: Some("value".into()),
                t: Some(Box::new(tensor)),
                ..Default::default()
            };
            graph.node.insert(
                0,
                Node {
                    op_type: Some("Constant".into()),
                    output: vec![name],
                    attribute: vec![value],
                    ..Node::default()
                },
            );
        }
        let to = rukh_net::onnx::proto::Attribute {
            name: Some("to".into()),
            i: Some(data_type::FLOAT.into()),
            ..Default::default()
        };
        let cast = Node {
            op_type: Some("Cast".into()),
            input: vec!["/encoder0/ln1".into()],
            output: vec!["cast".into()],
            attribute: vec![to],
            ..Node::default()
        };
        graph.node.push(cast);
        node(graph, "/encoder0/ffn/dense1/w").input[0] = "cast".into();
    });
    assert_eq!(fingerprint(&load(&bytes)), fingerprint(&load(&network_file("micro-attn"))));
}

/// A node with one output, which has the same name.
fn new_node(operator: &str, inputs: &[&str], output: &str) -> Node {
    Node {
        op_type: Some(operator.to_owned()),
        input: inputs.iter().map(|&input| input.to_owned()).collect(),
        output: vec![output.to_owned()],
        ..Node::default()
    }
}

/// The graphs of lc0's converter before 2024 differ in how branches are scaled, how the means of channels are computed,
/// and what the moves-left head ends with.
#[test]
fn graphs_of_older_versions_of_lc0_are_recognised() {
    let scaled_stream = edited("micro-attn", |graph| {
        let is_factor =
            |node: &Node| node.name().ends_with("alpha*input") || node.name().ends_with("ffn/alpha");
        let factors: Vec<usize> =
            (0..graph.node.len()).filter(|&index| is_factor(&graph.node[index])).collect();
        assert_eq!(factors.len(), 4);
        for index in factors {
            let scaled = graph.node[index].output[0].clone();
            let sum = graph.node.iter().position(|node| node.input.contains(&scaled)).expect("it is read");
            let inputs = std::mem::take(&mut graph.node[sum].input);
            let stream = inputs.into_iter().find(|input| *input != scaled).expect("the sum has two operands");
            let branch = std::mem::replace(&mut graph.node[index].input[0], stream);
            graph.node[sum].input = vec![branch, scaled];
            let constant = graph.node[index].input[1].clone();
            let tensor = graph.initializer.iter_mut().find(|tensor| tensor.name() == constant);
            let tensor = tensor.expect("the factor is a constant");
            let bytes = tensor.raw_data.as_deref().expect("it has raw data");
            let alpha = f32::from_le_bytes(bytes.try_into().expect("it is one number"));
            tensor.raw_data = Some(alpha.recip().to_le_bytes().to_vec().into());
        }
    });
    let old_moves_left = edited("micro-attn", |graph| {
        let input = std::mem::take(&mut node(graph, "/output/mlh").input).remove(0);
        graph.node.retain(|node| node.name() != "/output/mlh");
        graph.node.push(new_node("Softplus", &[&input], "softplus"));
        graph.node.push(new_node("Tanh", &["softplus"], "tanh"));
        graph.node.push(new_node("Mul", &["tanh", &input], "mish"));
        graph.node.push(new_node("Identity", &["mish"], "/output/mlh"));
    });
    let pooled = edited("micro-se-conv", |graph| {
        let means = graph.node.iter_mut().filter(|node| node.op_type() == "ReduceMean");
        let mut pools = Vec::new();
        for node in means {
            let pool = format!("{}/pool", node.name());
            pools.push(new_node("GlobalAveragePool", &[&node.input[0]], &pool));
            node.op_type = Some("Squeeze".to_owned());
            node.input[0] = pool;
        }
        assert_eq!(pools.len(), 2);
        graph.node.extend(pools);
    });
    for (name, bytes) in
        [("micro-attn", scaled_stream), ("micro-attn", old_moves_left), ("micro-se-conv", pooled)]
    {
        assert_eq!(fingerprint(&load(&bytes)), fingerprint(&load(&network_file(name))), "{name}");
    }
}

#[track_caller]
fn refused(bytes: &[u8], expected: &str) {
    let error = Network::load_bytes(bytes, &HeadSelection::default()).expect_err("it is refused").to_string();
    assert!(error.contains(expected), "{error}");
    assert!(error.lines().count() == 1 && error.len() < 500, "{error}");
}

#[test]
fn an_unknown_operator_is_named() {
    let bytes = edited("micro-attn", |graph| {
        node(graph, "/encoder1/mha/QK/softmax").op_type = Some("Hardmax".into());
        node(graph, "/output/mlh").op_type = Some("Relu6".into());
    });
    refused(&bytes, "the operator `Hardmax` of node `/encoder1/mha/QK/softmax` is in no network of lc0");
    let bytes = edited("micro-attn", |graph| {
        node(graph, "/encoder0/ffn/dense2/w").op_type = Some("Div".into());
    });
    refused(&bytes, "the operator `Div` of node `/encoder0/ffn/dense2/w` stands where a network of lc0 has");
}

#[test]
fn a_graph_that_computes_something_else_is_refused() {
    let change = |name: &str, constant: &str, edit: fn(&mut Vec<u8>)| {
        edited(name, |graph| {
            let tensor = graph.initializer.iter_mut().find(|tensor| tensor.name() == constant);
            let tensor = tensor.unwrap_or_else(|| panic!("there is no constant {constant}"));
            let mut bytes = tensor.raw_data.take().expect("it has raw data").to_vec();
            edit(&mut bytes);
            tensor.raw_data = Some(bytes.into());
        })
    };
    let double: fn(&mut Vec<u8>) = |bytes| bytes[2] ^= 0x80;
    refused(
        &change("micro-attn", "/const/mapping_table", |bytes| bytes[0] ^= 1),
        "is not the table of moves",
    );
    refused(&change("micro-attn", "/const/pos_encoding", double), "is not the positional encoding");
    refused(&change("micro-attn", "/encoder0/mha/QK/scale/w", double), "multiplies by");
    refused(&change("micro-attn", "/policy/scale/w", double), "the root of 32");
    refused(&change("micro-attn", "/encoder0/ffn/alpha/w", double), "different settings");
    refused(&change("micro-multihead", "/attn_body/ffn/alpha/w", double), "do not have the factor");
    let epsilon = edited("micro-attn", |graph| {
        for name in ["/encoder0/ln1", "/encoder0/ln2", "/encoder1/ln1", "/encoder1/ln2"] {
            let node = node(graph, name);
            let attribute = node.attribute.iter_mut().find(|attribute| attribute.name() == "epsilon");
            attribute.expect("it has an epsilon").f = Some(0.5);
        }
    });
    refused(&epsilon, "epsilon 0.5 instead of 0.000001");
    let swapped = edited("micro-attn", |graph| node(graph, "/encoder0/mha/QK/matmul").input.swap(0, 1));
    refused(&swapped, "the operator `Transpose` of node `/encoder0/mha/K/transpose` has the order");
    let cycle =
        edited("micro-attn", |graph| node(graph, "/attn_body/matmul").input[0] = "/encoder1/ln2".into());
    refused(&cycle, "depends on its own result");
    let activation = edited("micro-classical-wdl", |graph| {
        node(graph, "/block0/conv1/relu").op_type = Some("Tanh".into());
    });
    refused(&activation, "the activation Relu and not Tanh");
    let padding = edited("micro-classical-wdl", |graph| node(graph, "/inputconv").attribute.clear());
    refused(&padding, "the operator `Conv` of node `/inputconv` is neither 1x1 nor 3x3 with a padding");
    let missing = edited("micro-attn", |graph| {
        graph.initializer.retain(|tensor| tensor.name() != "/value/dense2/add/w")
    });
    refused(&missing, "the operator `Add` of node `/value/dense2/add`");
}

#[test]
fn one_constant_cannot_become_thousands_of_layers() {
    let bytes = edited("micro-attn", |graph| {
        let shared: Vec<String> = ["Q", "K", "V"].map(|name| format!("/encoder0/mha/{name}/w/w")).into();
        graph.initializer.retain(|tensor| !shared[1..].contains(&tensor.name().to_owned()));
        for name in ["K", "V"] {
            node(graph, &format!("/encoder0/mha/{name}/w")).input[1] = shared[0].clone();
        }
    });
    // Three uses are fine.
    load(&bytes);
    let bytes = edited("micro-attn", |graph| {
        let encoder: Vec<Node> =
            graph.node.iter().filter(|node| node.name().starts_with("/encoder1/")).cloned().collect();
        let mut input = "/encoder1/ln2".to_owned();
        for copy in 2..600 {
            for node in &encoder {
                let renamed = |name: &String| match name.as_str() {
                    "/encoder0/ln2" => input.clone(),
                    name if encoder.iter().any(|node| node.output.iter().any(|output| output == name)) => {
                        format!("{name}/{copy}")
                    }
                    name => name.to_owned(),
                };
                let input = node.input.iter().map(renamed).collect();
                let output = node.output.iter().map(renamed).collect();
                graph.node.push(Node { input, output, name: None, ..node.clone() });
            }
            input = format!("/encoder1/ln2/{copy}");
        }
        for node in &mut graph.node {
            let is_head = ["/policy", "/value", "/mlh"].iter().any(|head| node.name().starts_with(head));
            node.input
                .iter_mut()
                .filter(|name| is_head && *name == "/encoder1/ln2")
                .for_each(|name| *name = input.clone());
        }
    });
    refused(&bytes, "is used for too many layers");
}

#[test]
fn a_bare_model_plays_if_it_names_the_format_of_its_input() {
    let network = load(&network_file("micro-attn"));
    let model = onnx(&network, &Settings::default());
    assert_eq!(fingerprint(&load(&model)), fingerprint(&network));
    // lc0's converter does not write the format.
    let mut without: Model = decode_bounded(&model).expect("it is a model");
    without.metadata_props.clear();
    refused(&without.encode_to_vec(), "it is an ONNX model that does not name the format of its input");
    refused(&model[..model.len() / 2], "the file is damaged or truncated");
}

#[test]
fn a_wrapped_network_is_described() {
    let file = wrapped(onnx(&load(&network_file("micro-smolgen")), &Settings::default()));
    let text =
        describe(&NetworkFile::from_bytes(Path::new("onnx"), file.into()).expect("it is a network file"));
    for line in [
        "                     Network: NETWORK_ONNX",
        "                Input planes: /input/planes",
        "                    Encoders: 2",
        "                      Policy: Attention",
        "                         MLH: Present",
    ] {
        assert!(text.lines().any(|ours| ours == line), "no line '{line}' in{text}");
    }
    let unknown = edited("micro-attn", |graph| node(graph, "/output/mlh").op_type = Some("Relu6".into()));
    let text =
        describe(&NetworkFile::from_bytes(Path::new("onnx"), unknown.into()).expect("it is a network file"));
    assert!(
        text.contains(
            "Cannot be used: its ONNX model is not a network that Rukh knows: the operator `Relu6`"
        ),
        "{text}"
    );
}

/// How much a weight may differ, besides the rounding to the type of the model. lc0 folds batch normalisation in
/// another order of operations than Rukh, and its compiler may round LINEAR16 once less.
const LAST_BITS: f32 = 2e-6;

/// The native network that a file of lc0 was made from, with the heads that were selected. The name of the file is that
/// of the network and, after dots, the options of the conversion.
fn native_network(name: &str) -> Option<Network> {
    let mut parts = name.split('.');
    let native = parts.next()?;
    let mut heads = HeadSelection::default();
    for option in parts {
        match option.split_once('-') {
            Some(("policy", head)) => heads.policy = head.to_owned(),
            Some(("value", head)) => heads.value = head.to_owned(),
            _ => {}
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let places = ["tests/data", "../shared/nets", "weights"].map(|place| root.join(place));
    let path =
        places.map(|place| place.join(format!("{native}.pb.gz"))).into_iter().find(|path| path.is_file())?;
    Some(Network::load(&path, &heads).unwrap_or_else(|error| panic!("{error}")))
}

/// Compares the files in the directory that RUKH_TEST_ONNX names with the networks that they were made from. lc0's
/// `leela2onnx` made each `NAME.onnx`, and its `onnx2leela` each `NAME.pb.gz` from it. (It refuses bf16.)
#[test]
fn files_of_lc0_are_read_back_to_the_same_weights() {
    let Some(directory) = std::env::var_os("RUKH_TEST_ONNX").map(PathBuf::from) else {
        println!("skipped: files of lc0's converter, because RUKH_TEST_ONNX does not name their directory");
        return;
    };
    let entries = fs::read_dir(&directory).expect("RUKH_TEST_ONNX names a directory");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    paths.sort();
    let mut compared = 0;
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "onnx")) {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(ours) = native_network(name) else {
            println!("skipped: {name}, because the network that it was made from is not here");
            continue;
        };
        let by_lc0 = directory.join(format!("{name}.pb.gz"));
        let theirs = match by_lc0.is_file() {
            true => {
                Network::load(&by_lc0, &HeadSelection::default()).unwrap_or_else(|error| panic!("{error}"))
            }
            false => {
                let model = Bytes::from(fs::read(path).expect("a model can be read"));
                load(&wrapped_as(model, Some(ours.architecture.input_format)))
            }
        };
        // Half of the relative distance of neighbouring numbers.
        let rounding = match name.split('.').skip(1).find(|part| part.ends_with("f16")) {
            None => LAST_BITS / 2.0,
            Some("f16") => 1.0 / 2048.0,
            Some(_) => 1.0 / 256.0,
        };
        let (same, difference) = compare(&ours, &theirs, rounding);
        let percent = 100.0 * same;
        println!(
            "{name}: {percent:.3}% of the weights equal to the bit, largest difference {difference:.2} of the allowed"
        );
        assert!(difference <= 1.0, "{name}: {difference}");
        compared += 1;
    }
    assert!(compared > 0, "{} has no models", directory.display());
}

/// The share of equal numbers in two networks, and their largest difference as a share of what is allowed: the number
/// times `rounding`, and [`LAST_BITS`]. All else must be the same.
fn compare(a: &Network, b: &Network, rounding: f32) -> (f64, f32) {
    let text = |network: &Network| format!("{:?}", Network { value_error: None, ..network.clone() });
    let (a, b) = (text(a), text(b));
    let words = |text: &str| -> Vec<String> { text.split([',', ' ', '[', ']']).map(str::to_owned).collect() };
    let (a, b) = (words(&a), words(&b));
    assert_eq!(a.len(), b.len());
    let (mut same, mut all, mut largest) = (0u32, 0u32, 0f32);
    for (a, b) in a.iter().zip(&b) {
        match (a.parse::<f32>(), b.parse::<f32>()) {
            (Ok(x), Ok(y)) => {
                all += 1;
                same += u32::from(x.to_bits() == y.to_bits());
                largest = largest.max((x - y).abs() / (x.abs() * rounding + LAST_BITS));
            }
            _ => assert_eq!(a, b),
        }
    }
    (f64::from(same) / f64::from(all.max(1)), largest)
}
