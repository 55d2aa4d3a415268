//! `leela2onnx`: the graph that it writes, its flags and its errors. That the graphs compute what lc0 computes is shown
//! by `scripts/checks/onnx_models.py`, which needs Python packages.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;

use rukh_net::bounded::decode_bounded;
use rukh_net::network::{Body, PolicyHead};
use rukh_net::onnx::proto::{Graph, Model, Node, Tensor, ValueInfo, data_type};
use rukh_net::onnx::write::{DataType, Settings, convert};
use rukh_net::weights::{Convolution, Dense, HeadInput};
use rukh_net::{HeadSelection, Network};

use crate::driver::{run, run_any};
use crate::goldens::{self, data_directory, edited_network, network_file};

fn load(name: &str) -> Network {
    let heads = HeadSelection::default();
    Network::load_bytes(&network_file(name), &heads).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn decode(bytes: Vec<u8>) -> (Model, Graph) {
    let model: Model = decode_bounded(&bytes.into()).expect("the file is a model");
    let graph = decode_bounded(model.graph.as_ref().expect("the model has a graph")).expect("it is a graph");
    (model, graph)
}

/// The model that the program writes for a committed network.
fn written(name: &str, flags: &[&str]) -> (Model, Graph) {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let output = folder.path().join("net.onnx");
    let input = data_directory().join(format!("{name}.pb.gz"));
    let arguments = ["leela2onnx", "--input", &text(&input), "--output", &text(&output)];
    run(&[&arguments[..], flags].concat());
    decode(fs::read(&output).expect("the file is written"))
}

fn text(path: &Path) -> String {
    path.to_str().expect("the path is UTF-8").to_owned()
}

/// Name, type and dimensions of an input or output: `/output/wdl 1 [batch, 3]`.
fn described(value: &ValueInfo) -> String {
    let name = String::from_utf8_lossy(value.name.as_ref().expect("it has a name"));
    let tensor = value.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref()).expect("it is a tensor");
    let dimensions =
        tensor.shape.iter().flat_map(|shape| &shape.dim).map(|dimension| {
            dimension.dim_param.clone().unwrap_or_else(|| dimension.dim_value().to_string())
        });
    format!("{name} {} [{}]", tensor.elem_type(), dimensions.collect::<Vec<_>>().join(", "))
}

fn values(tensor: &Tensor) -> Vec<f32> {
    assert_eq!(tensor.data_type(), data_type::FLOAT);
    let bytes = tensor.raw_data.as_ref().expect("it has values");
    bytes.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect()
}

fn constants(graph: &Graph) -> BTreeMap<&str, &Tensor> {
    graph.initializer.iter().map(|tensor| (tensor.name(), tensor)).collect()
}

/// Whether the constants `NAME/w` are the layer: its transposed weights, and its biases.
fn assert_dense(graph: &Graph, weights: &str, biases: &str, layer: &Dense) {
    let constants = constants(graph);
    let tensor = constants[format!("{weights}/w").as_str()];
    assert_eq!(tensor.dims, [layer.inputs as i64, layer.outputs as i64], "{weights}");
    let found = values(tensor);
    for (index, value) in layer.weights.iter().enumerate() {
        let (output, input) = (index / layer.inputs, index % layer.inputs);
        assert_eq!(found[input * layer.outputs + output], *value, "{weights}, value {index}");
    }
    assert_eq!(values(constants[format!("{biases}/w").as_str()]), layer.biases, "{biases}");
}

fn assert_convolution(graph: &Graph, name: &str, layer: &Convolution) {
    let constants = constants(graph);
    let tensor = constants[format!("{name}/w/kernel").as_str()];
    assert_eq!(tensor.dims, [layer.outputs, layer.inputs, layer.size, layer.size].map(|size| size as i64));
    assert_eq!(values(tensor), layer.weights, "{name}");
    assert_eq!(values(constants[format!("{name}/w/bias").as_str()]), layer.biases, "{name}");
}

#[test]
fn every_network_becomes_a_well_formed_graph() {
    let mut settings = vec![Settings::default()];
    settings.extend([7, 8, 10, 13, 18, 22].map(|opset| Settings { opset, ..Settings::default() }));
    settings.push(Settings { elementary_layer_norms: true, ..Settings::default() });
    settings.push(Settings { data_type: DataType::F16, batch_size: Some(3), ..Settings::default() });
    settings.push(Settings { data_type: DataType::Bf16, ..Settings::default() });
    for set in goldens::committed() {
        let network = Network::load_bytes(&set.network, &set.heads).expect("the network loads");
        for settings in &settings {
            let converted =
                convert(&network, settings).unwrap_or_else(|error| panic!("{}: {error}", set.name));
            let what = format!("{}, {settings:?}", set.name);
            assert_well_formed(&converted.graph, &what);
        }
    }
}

/// Each node reads only what is already there, each name occurs once, and each constant is used.
fn assert_well_formed(graph: &Graph, what: &str) {
    let mut known: HashSet<&str> = HashSet::new();
    let mut used: HashSet<&str> = HashSet::new();
    for tensor in &graph.initializer {
        assert!(known.insert(tensor.name()), "{what}: two constants {}", tensor.name());
        let width = match tensor.data_type() {
            data_type::INT64 => 8,
            data_type::FLOAT | data_type::INT32 => 4,
            _ => 2,
        };
        let elements: i64 = tensor.dims.iter().product();
        assert_eq!(
            tensor.raw_data.as_ref().map(|data| data.len()),
            Some(elements as usize * width),
            "{what}"
        );
    }
    let name_of =
        |value: &ValueInfo| String::from_utf8(value.name.as_ref().expect("a name").to_vec()).expect("UTF-8");
    let inputs: Vec<String> = graph.input.iter().map(name_of).collect();
    known.extend(inputs.iter().map(String::as_str));
    for node in &graph.node {
        for input in &node.input {
            assert!(known.contains(input.as_str()), "{what}: {} reads {input}", node.name());
            used.insert(input);
        }
        for output in &node.output {
            assert!(known.insert(output), "{what}: two tensors {output}");
        }
    }
    for output in graph.output.iter().map(name_of) {
        assert!(known.contains(output.as_str()), "{what}: no output {output}");
    }
    for tensor in &graph.initializer {
        assert!(used.contains(tensor.name()), "{what}: {} is not used", tensor.name());
    }
}

#[test]
fn inputs_and_outputs_have_lc0s_names_types_and_shapes() {
    for (network, outputs) in [
        (
            "micro-smolgen",
            &["/output/policy 1 [batch, 1858]", "/output/wdl 1 [batch, 3]", "/output/mlh 1 [batch, 1]"][..],
        ),
        ("micro-se-old", &["/output/policy 1 [batch, 1858]", "/output/value 1 [batch, 1]"]),
    ] {
        let (model, graph) = written(network, &[]);
        assert_eq!((model.ir_version(), model.opset_import[0].version()), (8, 17));
        assert_eq!(
            graph.input.iter().map(described).collect::<Vec<_>>(),
            ["/input/planes 1 [batch, 112, 8, 8]"]
        );
        assert_eq!(graph.output.iter().map(described).collect::<Vec<_>>(), outputs);
    }
    let flags = [
        "--onnx-data-type=f16",
        "--onnx-batch-size=5",
        "--onnx-opset=18",
        "--onnx-ir=9",
        "--input-planes-name=planes",
        "--policy-head-name=policy",
        "--wdl-head-name=wdl",
        "--mlh-head-name=mlh",
    ];
    let (model, graph) = written("micro-smolgen", &flags);
    assert_eq!((model.ir_version(), model.opset_import[0].version()), (9, 18));
    assert_eq!(graph.input.iter().map(described).collect::<Vec<_>>(), ["planes 10 [5, 112, 8, 8]"]);
    let outputs: Vec<String> = graph.output.iter().map(described).collect();
    assert_eq!(outputs, ["policy 10 [5, 1858]", "wdl 10 [5, 3]", "mlh 10 [5, 1]"]);
    let (_, graph) = written("micro-se-old", &["--value-head-name=value", "--onnx-data-type=bf16"]);
    assert_eq!(described(&graph.output[1]), "value 16 [batch, 1]");
}

#[test]
fn the_constants_are_the_weights() {
    let (network, (_, graph)) = (load("micro-smolgen"), written("micro-smolgen", &[]));
    let Body::Attention { embedding, stack } = &network.body else { panic!("it has encoders") };
    assert_dense(&graph, "/attn_body/matmul", "/attn_body/add", &embedding.planes);
    for (index, encoder) in stack.encoders.iter().enumerate() {
        for (letter, layer) in ['Q', 'K', 'V'].into_iter().zip(&encoder.qkv) {
            let name = format!("/encoder{index}/mha/{letter}");
            assert_dense(&graph, &format!("{name}/w"), &format!("{name}/b"), layer);
        }
        let smolgen = encoder.smolgen.as_ref().expect("it has smolgen");
        let name = format!("/encoder{index}/smolgen/dense2");
        assert_dense(&graph, &format!("{name}/w"), &format!("{name}/b"), &smolgen.dense2);
        let gammas = constants(&graph)[format!("/encoder{index}/smolgen/ln1/w/scale").as_str()];
        assert_eq!(values(gammas), smolgen.ln1.gammas);
    }
    assert_dense(&graph, "/value/dense2/matmul", "/value/dense2/add", &network.value.output);

    let (network, (_, graph)) = (load("micro-se-old"), written("micro-se-old", &[]));
    let Body::Convolution { input, blocks } = &network.body else { panic!("it has a tower") };
    assert_convolution(&graph, "/inputconv", input);
    for (index, block) in blocks.iter().enumerate() {
        assert_convolution(&graph, &format!("/block{index}/conv2"), &block.conv2);
        let se = block.se.as_ref().expect("it has SE");
        let name = format!("/block{index}/conv2/se");
        assert_dense(&graph, &format!("{name}/matmul1"), &format!("{name}/add1"), &se.squeeze);
    }
    let PolicyHead::Classical { input: HeadInput::Convolution(input), dense } = &network.policy else {
        panic!("its policy is classical")
    };
    assert_convolution(&graph, "/policy/conv", input);
    assert_dense(&graph, "/policy/dense/matmul", "/output/policy", dense);
}

#[test]
fn flags_select_the_heads_and_the_operators() {
    let operators =
        |graph: &Graph| graph.node.iter().map(Node::op_type).map(str::to_owned).collect::<Vec<_>>();
    let policy = |graph: &Graph| values(constants(graph)["/policy/Q/matmul/w"]);
    let value = |graph: &Graph| values(constants(graph)["/value/dense1/matmul/w"]);
    let (_, vanilla) = written("micro-multihead", &[]);
    let (_, other) = written("micro-multihead", &["--policy-head=soft", "--value-head=st"]);
    assert_ne!(policy(&vanilla), policy(&other));
    assert_ne!(value(&vanilla), value(&other));
    assert!(operators(&vanilla).contains(&"LayerNormalization".to_owned()));
    for flags in [&["--onnx2pytorch"][..], &["--onnx-opset=16"]] {
        let (_, graph) = written("micro-multihead", flags);
        assert!(!operators(&graph).contains(&"LayerNormalization".to_owned()), "{flags:?}");
    }
    let (_, graph) = written("micro-multihead", &["--onnx-opset=18"]);
    assert!(operators(&graph).contains(&"Mish".to_owned()));
}

#[test]
fn the_model_says_which_input_planes_it_expects() {
    let (model, _) = written("micro-attn", &[]);
    let properties: Vec<_> = model.metadata_props.iter().map(|entry| (entry.key(), entry.value())).collect();
    assert_eq!(properties, [("lc0.input_format", "1")]);
}

#[test]
fn an_onnx_model_in_a_network_file_is_extracted() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let (input, output) = (folder.path().join("net.pb"), folder.path().join("net.onnx"));
    let model = b"\x08\x08\x3a\x00";
    let bytes = edited_network("micro-attn", |net| {
        net.weights = None;
        net.onnx_model.get_or_insert_default().model = Some(model.to_vec().into());
    });
    fs::write(&input, bytes).expect("the file is written");
    let said = run(&["leela2onnx", "-i", &text(&input), "-o", &text(&output), "--json"]);
    assert_eq!(fs::read(&output).expect("the model is there"), model);
    let said: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(said["action"], "extracted the ONNX model that it contains");
}

#[test]
fn it_says_what_it_read_and_wrote() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let output = text(&folder.path().join("net.onnx"));
    let input = text(&data_directory().join("micro-attn.pb.gz"));
    let said = run(&["leela2onnx", "-i", &input, "-o", &output]);
    for line in [
        "                     Network: NETWORK_ATTENTIONBODY_WITH_HEADFORMAT",
        "                   Data type: FLOAT",
        "                Input planes: /input/planes",
        "               Output Policy: /output/policy",
        &format!("Wrote {output}."),
    ] {
        assert!(said.lines().any(|ours| ours == line), "no line '{line}' in{said}");
    }
    let said = run(&["leela2onnx", "-i", "<embedded>", "-o", &output, "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!((&said["output"], &said["output_wdl"]), (&output.into(), &"/output/wdl".into()));
    assert!(said["output_value"].is_null());
}

#[test]
fn errors_name_what_is_wrong_and_leave_other_files_alone() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let network = folder.path().join("net.pb.gz");
    let original = network_file("micro-se-conv");
    fs::write(&network, &original).expect("the file is written");
    fs::write(folder.path().join("old.onnx"), "old").expect("the file is written");
    let path = |name: &str| text(&folder.path().join(name));
    let (good, onnx) = (path("net.pb.gz"), path("old.onnx"));
    let cases: [(&str, &str, &[&str], i32, &str); 13] = [
        (&path("none.pb"), &onnx, &[], 1, "none.pb"),
        (&onnx, &path("new.onnx"), &[], 1, "not a Leela Chess Zero network"),
        (&good, &path("no/such/folder.onnx"), &[], 1, "cannot write"),
        (&good, &path("./net.pb.gz"), &[], 1, "is the same file as the input"),
        (&good, &onnx, &["--policy-head=soft"], 1, "it has no policy head `soft` (available: vanilla)"),
        (&good, &onnx, &["--onnx-data-type=bf16", "--onnx-opset=13"], 2, "opset 13 has no bf16"),
        (&good, &onnx, &["--onnx-opset=18", "--onnx-ir=7"], 2, "needs ONNX IR version 8 or newer, not 7"),
        (&good, &onnx, &["--onnx-ir=3"], 2, "choose one from 4 to 10"),
        (&good, &onnx, &["--onnx-batch-size=0"], 2, "a batch cannot have 0 positions"),
        (&good, &onnx, &["--wdl-head-name=/policy/conv1"], 2, "two tensors would be called `/policy/conv1`"),
        (&good, &onnx, &["--mlh-head-name="], 2, "the name of an input or output is empty"),
        (&good, &onnx, &["--onnx-opset=6"], 2, "7..=22"),
        (&good, &onnx, &["--hlo-text-output=-"], 2, "lc0 converts to HLO"),
    ];
    for (input, output, flags, code, shown) in cases {
        let result = run_any(&[&["leela2onnx", "-i", input, "-o", output], flags].concat());
        let stderr = String::from_utf8_lossy(&result.stderr);
        assert_eq!(result.status.code(), Some(code), "{flags:?}: {stderr}");
        assert!(stderr.contains(shown), "{flags:?}: {stderr}");
    }
    assert_eq!(fs::read(&network).expect("the input is there"), original);
    assert_eq!(fs::read(&onnx).expect("the old file is there"), b"old");
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["net.pb.gz", "old.onnx"]);
}

#[test]
fn a_weight_that_f16_cannot_hold_is_named() {
    let mut network = load("micro-attn");
    network.value.hidden.weights[3] = 70_000.0;
    let settings = |data_type| Settings { data_type, ..Settings::default() };
    let error = convert(&network, &settings(DataType::F16)).expect_err("it is too large").to_string();
    assert_eq!(error, "/value/dense1/matmul/w contains 70000, which is too large for f16; use f32 or bf16");
    assert!(convert(&network, &settings(DataType::Bf16)).is_ok());
}

#[cfg(unix)]
#[test]
fn a_link_to_an_older_file_stays_a_link() {
    let folder = tempfile::tempdir().expect("there is a temporary folder");
    let (file, link) = (folder.path().join("old.onnx"), folder.path().join("link.onnx"));
    fs::write(&file, "old").expect("the file is written");
    std::os::unix::fs::symlink(&file, &link).expect("the link is made");
    run(&["leela2onnx", "-i", "<embedded>", "-o", &text(&link)]);
    assert!(link.is_symlink());
    let (_, graph) = decode(fs::read(&file).expect("the file is there"));
    assert_eq!(graph.output.len(), 3);
}
