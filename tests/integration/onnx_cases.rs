//! Writes ONNX models, inputs and expected outputs for `scripts/checks/onnx_models.py`, which evaluates them with
//! onnxruntime.
//!
//! The expected outputs are lc0's. Networks for which there are none are made from one that has them, and compared with
//! Rukh's reference evaluator.

use std::fs;
use std::path::{Path, PathBuf};

use rukh_chess::{Position, PositionHistory, uci_move};
use rukh_cpu::reference;
use rukh_net::architecture::{Activation, BodyKind, InputEmbedding};
use rukh_net::input::encode;
use rukh_net::network::{Body, PolicyHead};
use rukh_net::onnx::write::{Settings, convert};
use rukh_net::weights::Dense;
use rukh_net::{HeadSelection, HistoryFill, InputFormat, InputPlanes, Network};
use rukh_weights::NETWORK as EMBEDDED_BYTES;
use serde_json::{Value, json};

use crate::driver::run;
use crate::goldens::{self, GoldenSet};

/// A position, two kings and a pawn after 99 plies without progress, in which lc0's and PyTorch's logits of the embedded
/// network differ by 1.1e-4.
const EXTREME: &str = "8/8/8/8/4k3/8/4P3/4K3 w - - 99 150";

/// The flags of further models of some networks, with the largest difference allowed: each operator that depends on the
/// opset or on the type is written in each form. onnxruntime has no bf16 on a processor, so that such a model is only
/// checked for consistency.
const VARIANTS: [(&[&str], Option<f32>); 9] = [
    (&["--onnx-opset=7"], Some(1e-4)),
    (&["--onnx-opset=9", "--onnx-batch-size=46"], Some(1e-4)),
    (&["--onnx-opset=12", "--onnx-batch-size=46"], Some(1e-4)),
    (&["--onnx-opset=18"], Some(1e-4)),
    (&["--onnx-opset=22"], Some(1e-4)),
    (&["--onnx2pytorch"], Some(1e-4)),
    (&["--onnx-data-type=f16"], Some(3e-2)),
    (&["--onnx-data-type=f16", "--onnx2pytorch", "--onnx-opset=18"], Some(3e-2)),
    (&["--onnx-data-type=bf16", "--onnx-opset=14"], None),
];

/// The networks with variants. Together they have every layer.
const VARIED: [&str; 4] = ["micro-multihead", "micro-smolgen", "micro-se-attnpol", "micro-se-conv"];

struct Cases {
    folder: PathBuf,
    list: Vec<Value>,
}

impl Cases {
    fn path(&self, name: &str, suffix: &str) -> String {
        self.folder.join(format!("{name}.{suffix}")).to_str().expect("the path is UTF-8").to_owned()
    }

    fn add(&mut self, name: &str, inputs: &str, tolerance: Option<f32>) {
        self.list.push(json!({ "name": name, "inputs": inputs, "tolerance": tolerance }));
    }

    /// Writes the inputs, `[position][plane][square]`, and the expected outputs.
    fn write_inputs(&self, name: &str, inputs: &[InputPlanes], expected: &[Value]) {
        let mut bytes = Vec::new();
        for planes in inputs {
            for (plane, mask) in planes.masks.iter().enumerate() {
                let value = if plane == InputPlanes::RULE50_PLANE { planes.rule50_value } else { 1.0 };
                for square in 0..64 {
                    bytes.extend((if mask >> square & 1 == 1 { value } else { 0.0 }).to_le_bytes());
                }
            }
        }
        fs::write(self.path(name, "planes"), bytes).expect("the planes are written");
        fs::write(self.path(name, "json"), Value::from(expected).to_string())
            .expect("the outputs are written");
    }

    fn convert(&self, network: &[u8], name: &str, flags: &[&str]) {
        let (input, output) = (self.path(name, "pb"), self.path(name, "onnx"));
        fs::write(&input, network).expect("the network is written");
        run(&[&["leela2onnx", "--input", &input, "--output", &output], flags].concat());
        fs::remove_file(input).expect("the network is removed");
    }

    fn golden_set(&mut self, set: &GoldenSet) {
        let format =
            Network::load_bytes(&set.network, &set.heads).expect("it loads").architecture.input_format;
        let inputs: Vec<_> =
            set.positions.iter().map(|golden| planes(&golden.fen, &golden.moves, format)).collect();
        let expected: Vec<_> = set
            .positions
            .iter()
            .map(|golden| {
                let policy: Vec<_> =
                    golden.policy_raw.iter().map(|&(_, index, logit)| (index, logit)).collect();
                json!({ "policy": policy, "q": golden.q, "d": golden.d, "m": golden.m })
            })
            .collect();
        self.write_inputs(&set.name, &inputs, &expected);
        let heads =
            [format!("--policy-head={}", set.heads.policy), format!("--value-head={}", set.heads.value)];
        let heads = heads.each_ref().map(String::as_str);
        self.convert(&set.network, &set.name, &heads);
        self.add(&set.name, &set.name, Some(1e-4));
        if VARIED.contains(&set.name.as_str()) {
            for (flags, tolerance) in VARIANTS {
                let name = format!("{}{}", set.name, flags.concat().replace("--", "-"));
                self.convert(&set.network, &name, flags);
                self.add(&name, &set.name, tolerance);
            }
        }
    }

    fn embedded(&mut self) {
        let text = fs::read_to_string(goldens::data_directory().join("trained-network-goldens.json"));
        let goldens: Value = serde_json::from_str(&text.expect("the file is there")).expect("it is JSON");
        let network = Network::load_bytes(EMBEDDED_BYTES, &HeadSelection::default()).expect("it loads");
        let goldens = goldens["positions"].as_array().expect("it has positions");
        let input = |golden: &Value| {
            let moves: Vec<String> =
                serde_json::from_value(golden["moves"].clone()).expect("the moves are texts");
            planes(golden["fen"].as_str().expect("a FEN"), &moves, network.architecture.input_format)
        };
        self.convert(EMBEDDED_BYTES, "rukh-128x6", &[]);
        for (name, is_extreme, tolerance) in [("rukh-128x6", false, 1e-4), ("rukh-128x6-extreme", true, 3e-4)]
        {
            let chosen = goldens.iter().filter(|golden| (golden["fen"] == EXTREME) == is_extreme);
            let (inputs, expected): (Vec<_>, Vec<_>) =
                chosen.map(|golden| (input(golden), golden.clone())).unzip();
            assert!(!inputs.is_empty(), "the positions of {name}");
            self.write_inputs(name, &inputs, &expected);
            self.add("rukh-128x6", name, Some(tolerance));
        }
    }

    /// A network that no file has.
    fn altered(&mut self, name: &str, network: &Network, inputs: &[InputPlanes]) {
        let expected: Vec<_> = inputs
            .iter()
            .map(|planes| {
                let said = reference::evaluate(network, planes);
                let policy: Vec<_> = said.policy.into_iter().enumerate().collect();
                json!({ "policy": policy, "q": said.q, "d": said.d, "m": said.m })
            })
            .collect();
        self.write_inputs(name, inputs, &expected);
        let converted =
            convert(network, &Settings::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        fs::write(self.path(name, "onnx"), converted.to_bytes()).expect("the model is written");
        self.add(name, name, Some(1e-4));
    }
}

fn planes(fen: &str, moves: &[String], format: InputFormat) -> InputPlanes {
    let start = Position::from_fen(fen).unwrap_or_else(|error| panic!("{fen}: {error}"));
    let mut history = PositionHistory::new(start);
    for text in moves {
        let next = uci_move::parse(history.last(), text).unwrap_or_else(|error| panic!("{fen}: {error}"));
        history.push(next);
    }
    encode(&history, format, HistoryFill::FenOnly).0
}

/// micro-smolgen with another activation in its feed-forward blocks and in smolgen.
fn with_activation(activation: Activation) -> Network {
    let mut network = load("micro-smolgen");
    if let Body::Attention { stack, .. } = &mut network.body {
        stack.ffn_activation = activation;
        stack.smolgen_activation = activation;
    }
    network
}

/// micro-attn without a positional encoding, which lc0's converter refuses.
fn without_positions() -> Network {
    let mut network = load("micro-attn");
    if let (BodyKind::Attention { input_embedding, .. }, Body::Attention { embedding, .. }) =
        (&mut network.architecture.body, &mut network.body)
    {
        *input_embedding = InputEmbedding::None;
        let layer = &mut embedding.planes;
        let rows = layer.weights.chunks_exact(layer.inputs);
        let weights = rows.flat_map(|row| &row[..InputPlanes::COUNT]).copied().collect();
        *layer = Dense { weights, inputs: InputPlanes::COUNT, ..layer.clone() };
    }
    network
}

/// micro-attn with a classical policy head, which lc0's converter refuses.
fn with_classical_policy() -> Network {
    let mut network = load("micro-attn");
    let inputs = network.value.hidden.inputs;
    let weights = (0..1858 * inputs).map(|index| ((index * 7919) % 1009) as f32 / 1009.0 - 0.5).collect();
    network.policy = PolicyHead::Classical {
        input: network.value.input.clone(),
        dense: Dense { weights, biases: vec![0.25; 1858], inputs, outputs: 1858 },
    };
    network
}

fn load(name: &str) -> Network {
    Network::load_bytes(&goldens::network_file(name), &HeadSelection::default()).expect("the network loads")
}

/// Writes into the folder that `RUKH_ONNX_CASES` names.
#[test]
#[ignore = "scripts/checks/onnx_models.py runs it"]
fn cases_for_onnxruntime_are_written() {
    let folder = PathBuf::from(std::env::var_os("RUKH_ONNX_CASES").expect("RUKH_ONNX_CASES names a folder"));
    fs::create_dir_all(&folder).expect("the folder can be made");
    let mut cases = Cases { folder, list: Vec::new() };
    for set in goldens::committed().iter().chain(&goldens::shared()) {
        cases.golden_set(set);
    }
    cases.embedded();
    let inputs: Vec<_> = goldens::committed()[0].positions[..4]
        .iter()
        .map(|golden| planes(&golden.fen, &golden.moves, InputFormat::Classical112))
        .collect();
    for activation in Activation::ALL {
        cases.altered(&format!("activation-{activation:?}"), &with_activation(activation), &inputs);
    }
    cases.altered("no-positions", &without_positions(), &inputs);
    cases.altered("classical-policy-on-encoders", &with_classical_policy(), &inputs);
    let list = Value::from(cases.list.clone()).to_string();
    fs::write(Path::new(&cases.folder).join("cases.json"), list).expect("the list is written");
}
