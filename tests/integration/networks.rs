//! Loading network files: formats, architectures, heads, weights, descriptions and operation counts.

use std::fs;
use std::path::Path;

use rukh_net::architecture::{Activation, BodyKind, InputEmbedding, SmolgenShape};
use rukh_net::file::proto::{Net, NetworkFormat};
use rukh_net::file::schema::{
    ActivationFunction, DefaultActivation, InputEmbeddingFormat, NetworkStructure as Structure,
};
use rukh_net::network::{AttentionPolicy, Body, EncoderStack, PolicyHead};
use rukh_net::weights::HeadInput;
use rukh_net::{HeadSelection, InputFormat, Network, NetworkFile, describe};

use crate::goldens::{self, edited_network, edited_weights, network_file, network_message};

/// The network in the file `bytes`, with the default heads.
fn load(bytes: &[u8]) -> Network {
    Network::load_bytes(bytes, &HeadSelection::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn micro(name: &str) -> Network {
    load(&network_file(name))
}

fn opened(name: &str) -> NetworkFile {
    let path = goldens::data_directory().join(format!("{name}.pb.gz"));
    NetworkFile::open(&path).unwrap_or_else(|error| panic!("{error}"))
}

fn format_of(net: &mut Net) -> &mut NetworkFormat {
    net.format.as_mut().and_then(|format| format.network_format.as_mut()).expect("the network has a format")
}

/// The attention body of micro-attn. Other micro networks with an attention body differ from it in smolgen, activations
/// and the embedding.
fn micro_encoders() -> BodyKind {
    BodyKind::Attention {
        embedding: 32,
        encoders: 2,
        heads: 4,
        d_model: 32,
        ffn: 48,
        input_embedding: InputEmbedding::PeMap,
        smolgen: None,
        ffn_activation: Activation::Mish,
        smolgen_activation: Activation::Mish,
    }
}

#[test]
fn every_golden_network_loads_with_its_heads() {
    for set in goldens::committed().into_iter().chain(goldens::shared()) {
        let network = Network::load_bytes(&set.network, &set.heads).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(network.architecture.input_format as i32, set.input_format, "{}", set.name);
        assert_eq!(network.architecture.wdl, set.has_wdl, "{}", set.name);
        assert_eq!(network.architecture.moves_left, set.has_moves_left, "{}", set.name);
        assert_eq!(network.moves_left.is_some(), set.has_moves_left, "{}", set.name);
        assert_eq!(network.value.output.outputs, if set.has_wdl { 3 } else { 1 }, "{}", set.name);
        assert!(set.positions.len() >= 29, "{}", set.name);
    }
}

#[test]
fn golden_evaluations_are_in_range() {
    for set in goldens::committed() {
        for position in &set.positions {
            let id = format!("{} {} ({} + {:?})", set.name, position.id, position.fen, position.moves);
            assert!(position.q.abs() <= 1.0, "{id}: q {}", position.q);
            assert!((0.0..=1.0).contains(&position.d) && (set.has_wdl || position.d == 0.0), "{id}: d");
            assert!(position.m >= 0.0 && (set.has_moves_left || position.m == 0.0), "{id}: m");
            assert_eq!(position.fen.split(' ').count(), 6, "{id}");
            for (r#move, index, logit) in &position.policy_raw {
                assert!(usize::from(*index) < 1858 && logit.is_finite(), "{id}: {move} {index} {logit}");
            }
        }
        assert!(set.positions.iter().any(|position| position.chess960), "{} has no Chess960", set.name);
    }
}

#[test]
fn attention_bodies_have_the_expected_architecture() {
    let plain = micro("micro-attn");
    assert_eq!(plain.architecture.body, micro_encoders());
    assert_eq!(plain.architecture.default_activation, Activation::Mish);
    let Body::Attention { stack, .. } = &plain.body else { panic!("an attention body") };
    assert_eq!(stack.encoders[0].ln2.epsilon, 1e-6);
    assert!((stack.alpha - 4f32.powf(-0.25)).abs() < 1e-7);

    let mut expected = micro_encoders();
    if let BodyKind::Attention { smolgen, ffn_activation, smolgen_activation, .. } = &mut expected {
        *smolgen = Some(SmolgenShape { hidden_channels: 4, hidden_size: 16, generated_size: 16 });
        *ffn_activation = Activation::Relu2;
        *smolgen_activation = Activation::Swish;
    }
    assert_eq!(micro("micro-smolgen").architecture.body, expected);
    // The header of the old file names neither the attention body nor its activations.
    assert_eq!(micro("micro-smolgen-old").architecture.body, expected);

    let multihead = micro("micro-multihead");
    if let BodyKind::Attention { ffn_activation, input_embedding, .. } = &mut expected {
        *ffn_activation = Activation::Mish;
        *input_embedding = InputEmbedding::PeDense;
    }
    assert_eq!(multihead.architecture.body, expected);
    let Body::Attention { stack, .. } = &multihead.body else { panic!("an attention body") };
    assert_eq!(stack.encoders[0].ln2.epsilon, 1e-3);
}

#[test]
fn attention_bodies_have_the_parts_that_their_header_announces() {
    let network = micro("micro-attn");
    let Body::Attention { embedding, .. } = network.body else { panic!("an attention body") };
    assert!(embedding.position.is_none() && embedding.ln.is_none() && embedding.ffn.is_none());
    assert_eq!(embedding.planes.inputs, 112 + 64);
    let gates = embedding.gates.expect("it has gates");
    assert_eq!((gates.multiply.len(), gates.add.len()), (32 * 64, 32 * 64));
    assert!(network.smolgen_global.is_none());

    let Body::Attention { embedding, .. } = micro("micro-relu-nogate").body else {
        panic!("an attention body")
    };
    assert!(embedding.gates.is_none());

    let network = micro("micro-multihead");
    let Body::Attention { embedding, stack } = network.body else { panic!("an attention body") };
    let position = embedding.position.expect("it has a positional layer");
    assert_eq!((embedding.planes.inputs, position.reader.inputs), (112, 4));
    assert_eq!((position.board.inputs, position.board.outputs), (12 * 64, 4 * 64));
    assert!(embedding.ln.is_some() && embedding.ffn.is_some());
    assert_eq!(network.smolgen_global.map(|layer| (layer.inputs, layer.outputs)), Some((16, 4096)));
    assert!(stack.encoders.iter().all(|encoder| encoder.smolgen.is_some()));
}

#[test]
fn residual_towers_have_the_expected_architecture() {
    let tower = |se_channels| BodyKind::Convolution { filters: 16, blocks: 2, se_channels };
    let old = micro("micro-se-old");
    assert_eq!(old.architecture.body, tower(Some(8)));
    assert!(matches!(&old.policy, PolicyHead::Classical { dense, .. } if dense.outputs == 1858));
    assert!(matches!(&old.value.input, HeadInput::Convolution(first) if first.outputs == 32));

    let plain = micro("micro-classical-wdl");
    assert_eq!(plain.architecture.body, tower(None));
    assert_eq!(plain.architecture.default_activation, Activation::Relu);
    assert!(matches!(&plain.policy, PolicyHead::Convolution { last, .. } if last.outputs == 80));

    let attention = micro("micro-se-attnpol");
    assert_eq!(attention.architecture.body, tower(Some(8)));
    let PolicyHead::Attention(head) = attention.policy else { panic!("an attention policy") };
    let AttentionPolicy { embedding_activation, stack, promotion, .. } = *head;
    let EncoderStack { encoders, heads, ffn_activation, .. } = stack;
    // On a residual tower this head uses SELU throughout, although the network's default activation is mish.
    assert_eq!((embedding_activation, ffn_activation), (Activation::Selu, Activation::Selu));
    assert_eq!((encoders.len(), heads), (1, 4));
    assert_eq!((promotion.outputs, promotion.inputs), (4, 16));
}

#[test]
fn encodings_of_the_same_weights_agree() {
    // micro-f16 and micro-bf16 hold the weights of micro-attn in coarser encodings with these relative steps.
    let weights = |name| match micro(name).body {
        Body::Attention { stack, .. } => stack.encoders[0].qkv[0].weights.clone(),
        Body::Convolution { .. } => panic!("an attention body"),
    };
    let linear = weights("micro-attn");
    for (name, relative_step) in [("micro-f16", 1.0 / 1024.0), ("micro-bf16", 1.0 / 128.0)] {
        for (a, b) in linear.iter().zip(weights(name)) {
            assert!((a - b).abs() < a.abs() * relative_step + 1e-4, "{name}: {a} and {b}");
        }
    }
}

#[test]
fn a_head_is_selected_by_name() {
    let file = opened("micro-multihead");
    assert_eq!(file.policy_heads(), ["vanilla", "optimistic", "soft", "opponent"]);
    assert_eq!(file.value_heads(), ["winner", "q", "st"]);
    assert_eq!(opened("micro-attn").policy_heads(), ["vanilla"]);
    assert_eq!(opened("micro-attn").value_heads(), ["winner"]);

    let with = |policy: &str, value: &str| {
        file.network(&HeadSelection {
            policy: policy.into(),
            value: value.into(),
            ..HeadSelection::default()
        })
        .map(|network| {
            let PolicyHead::Attention(head) = network.policy else { panic!("an attention policy") };
            let [query, _] = head.query_key;
            (query.weights, network.value.output.weights)
        })
    };
    let (vanilla, winner) = with("vanilla", "winner").expect("both heads are there");
    for policy in ["optimistic", "soft", "opponent"] {
        assert_ne!(with(policy, "winner").expect("the head is there").0, vanilla, "{policy}");
    }
    for value in ["q", "st"] {
        assert_ne!(with("vanilla", value).expect("the head is there").1, winner, "{value}");
    }
    let error = with("optimist", "winner").expect_err("there is no such head").to_string();
    assert!(
        error.ends_with("has no policy head `optimist` (available: vanilla, optimistic, soft, opponent)"),
        "{error}"
    );
    let error = with("vanilla", "").expect_err("there is no such head").to_string();
    assert!(error.ends_with("has no value head `` (available: winner, q, st)"), "{error}");
}

#[test]
fn a_head_without_an_embedding_uses_the_shared_one() {
    let PolicyHead::Attention(head) = micro("micro-multihead").policy else { panic!("an attention policy") };
    assert_eq!((head.embedding.inputs, head.embedding.outputs), (32, 32));
}

#[test]
fn a_head_that_the_file_lacks_is_not_offered() {
    let bytes = edited_weights("micro-multihead", |weights| {
        weights.value_heads.as_mut().expect("it has value heads").q = None;
    });
    let heads = HeadSelection { value: "q".into(), ..HeadSelection::default() };
    let error = Network::load_bytes(&bytes, &heads).expect_err("the head was removed").to_string();
    assert!(error.ends_with("has no value head `q` (available: winner, st)"), "{error}");

    let single = Network::load_bytes(&network_file("micro-attn"), &heads)
        .expect_err("micro-attn has one head")
        .to_string();
    assert!(single.ends_with("has no value head `q` (available: winner)"), "{single}");
}

#[test]
fn the_header_alone_decides_the_input_format() {
    let original = micro("micro-attn").architecture;
    for format in InputFormat::ALL {
        let bytes = edited_network("micro-attn", |net| format_of(net).input = Some(format as i32));
        let mut expected = original.clone();
        expected.input_format = format;
        assert_eq!(load(&bytes).architecture, expected);
    }
}

#[test]
fn activations_are_read_from_the_header() {
    let functions = [
        (ActivationFunction::Default, Activation::Relu),
        (ActivationFunction::Mish, Activation::Mish),
        (ActivationFunction::Relu, Activation::Relu),
        (ActivationFunction::None, Activation::None),
        (ActivationFunction::Tanh, Activation::Tanh),
        (ActivationFunction::Sigmoid, Activation::Sigmoid),
        (ActivationFunction::Selu, Activation::Selu),
        (ActivationFunction::Swish, Activation::Swish),
        (ActivationFunction::Relu2, Activation::Relu2),
        (ActivationFunction::Softmax, Activation::Softmax),
    ];
    for (number, expected) in functions {
        let bytes = edited_network("micro-smolgen", |net| {
            let format = format_of(net);
            format.default_activation = Some(DefaultActivation::Relu as i32);
            format.ffn_activation = Some(number as i32);
            format.smolgen_activation = Some(number as i32);
        });
        let network = load(&bytes);
        let Body::Attention { stack, .. } = network.body else { panic!("an attention body") };
        assert_eq!((stack.ffn_activation, stack.smolgen_activation), (expected, expected));
        let PolicyHead::Attention(head) = network.policy else { panic!("an attention policy") };
        assert_eq!((head.stack.ffn_activation, head.embedding_activation), (expected, Activation::Relu));
    }
}

#[test]
fn an_embedding_may_lack_the_positional_encoding() {
    let bytes = edited_weights("micro-attn", |weights| {
        let layer = weights.ip_emb_w.as_mut().expect("it has an embedding");
        let rows: Vec<u8> = layer.params.chunks(2 * 176).flat_map(|row| &row[..2 * 112]).copied().collect();
        layer.params = rows.into();
    });
    let mut net = <Net as prost::Message>::decode(&bytes[..]).expect("the edited network decodes");
    format_of(&mut net).input_embedding = Some(InputEmbeddingFormat::None as i32);
    let network = load(&prost::Message::encode_to_vec(&net));
    let Body::Attention { embedding, .. } = network.body else { panic!("an attention body") };
    assert_eq!(embedding.planes.inputs, 112);
}

#[test]
fn old_multihead_headers_are_upgraded() {
    let today = micro("micro-multihead").architecture;
    let legacy = edited_network("micro-multihead", |net| {
        format_of(net).network = Some(Structure::AttentionBodyLegacyMultihead as i32);
    });
    assert_eq!(load(&legacy).architecture, today);
    let single = edited_network("micro-multihead", |net| {
        let format = format_of(net);
        format.network = Some(Structure::AttentionBody as i32);
        format.input_embedding = None;
    });
    assert_eq!(load(&single).architecture, today);
}

#[test]
fn a_file_without_a_format_is_a_classical_network() {
    // micro-se-old has what a missing header stands for: a residual tower and classical heads.
    let with_format = micro("micro-se-old");
    let bytes = edited_network("micro-se-old", |net| {
        net.format.as_mut().expect("it has a format").network_format = None;
    });
    let without = load(&bytes);
    assert_eq!(without.architecture, with_format.architecture);
    assert!(matches!(without.policy, PolicyHead::Classical { .. }));
}

#[test]
fn files_are_recognised_by_content_and_not_by_name() {
    let directory = std::env::temp_dir().join(format!("rukh-networks-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a temporary directory can be made");
    let (plain, zipped) = (directory.join("plain.gz"), directory.join("zipped.pb"));
    fs::write(&plain, network_message("micro-attn")).expect("a file can be written");
    fs::write(&zipped, network_file("micro-attn")).expect("a file can be written");
    let expected = micro("micro-attn").architecture;
    for path in [&plain, &zipped] {
        let network =
            Network::load(path, &HeadSelection::default()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(network.architecture, expected);
    }
    fs::remove_dir_all(&directory).expect("the temporary directory can be removed");
}

#[test]
fn descriptions_agree_with_those_of_lc0() {
    let samples = fs::read_to_string(goldens::data_directory().join("describenet.txt"))
        .expect("describenet.txt can be read");
    let mut described = 0;
    for sample in samples.split("=== ").skip(1) {
        let (name, theirs) = sample.split_once('\n').expect("a sample has a name and a text");
        let text = describe(&opened(name));
        let (ours, flops): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| !line.contains("FLOPs per position: "));
        assert_eq!(flops.len(), 1, "{name}");
        // lc0 reads the policy width from a field that multihead networks leave empty, and prints 0 for them.
        let theirs = theirs.replace("Policy Dmodel: 0", "Policy Dmodel: 32");
        assert_eq!(ours, theirs.lines().collect::<Vec<_>>(), "{name}");
        described += 1;
    }
    assert_eq!(described, 11);
}

#[test]
fn an_onnx_file_is_described() {
    // Only the parts of an ONNX model that describe its inputs and outputs, written by hand. The fields of the file are
    // those that lc0's onnx2leela writes.
    let graph = b"\x5a\x0f\x0a\x0d/input/planes\x62\x10\x0a\x0e/output/policy";
    let mut model = b"\x08\x08\x12\x03Lc0\x42\x02\x10\x11\x3a".to_vec();
    model.push(graph.len() as u8);
    model.extend(graph);
    let bytes = edited_network("micro-attn", |net| {
        net.weights = None;
        format_of(net).network = Some(Structure::Onnx as i32);
        let onnx = net.onnx_model.get_or_insert_default();
        onnx.data_type = Some(1);
        onnx.output_wdl = Some("/output/wdl".into());
        onnx.model = Some(model.into());
    });
    let file = NetworkFile::from_bytes(Path::new("some.pb"), bytes.into()).expect("the file is well formed");
    let text = describe(&file);
    for line in [
        "                     Network: NETWORK_ONNX",
        "                   Data type: FLOAT",
        "                  Output WDL: /output/wdl",
        "                  IR version: 8",
        "               Producer Name: Lc0",
        "                       Input: /input/planes",
        "                      Output: /output/policy",
        "                       Opset: 17",
    ] {
        assert!(text.lines().any(|ours| ours == line), "no line '{line}' in{text}");
    }
    let error = file.network(&HeadSelection::default()).expect_err("the header names no input").to_string();
    assert_eq!(
        error,
        "cannot load network some.pb: it contains an ONNX model, and its header does not name an input of planes"
    );
}

#[test]
fn operation_counts_agree_with_counts_by_hand() {
    // micro-attn: embedding 176 -> 32, two encoders of width 32 with FFN 48.
    let flops = micro("micro-attn").flops();
    let encoder = 64 * (4 * 32 * 32 + 2 * 32 * 48) + 2 * 64 * 64 * 32;
    assert_eq!(flops.body, 2 * (64 * 176 * 32 + 2 * encoder));
    assert_eq!(flops.policy, 2 * (64 * 3 * 32 * 32 + 64 * 64 * 32 + 8 * 4 * 32));
    assert_eq!(flops.value, 2 * (64 * 32 * 32 + 64 * 32 * 128 + 128 * 3));
    assert_eq!(flops.moves_left, 2 * (64 * 32 * 2 + 128 * 8 + 8));
    // micro-se-conv: 112 -> 16, two blocks of two 3x3 convolutions and SE of 8.
    let flops = micro("micro-se-conv").flops();
    let block = 2 * 64 * 9 * 16 * 16 + 16 * 8 + 8 * 32;
    assert_eq!(flops.body, 2 * (64 * 9 * 112 * 16 + 2 * block));
    assert_eq!(flops.policy, 2 * 64 * 9 * 16 * (16 + 80));
}
